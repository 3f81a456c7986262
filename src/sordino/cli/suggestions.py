"""A group of commands that answers a misspelled name with the nearest ones."""

from __future__ import annotations

import click

from sordino.cli.once import Command, refuse_repeated
from sordino.constraints import did_you_mean

ELSEWHERE = {
    "average": "mean",
    "avg": "mean",
    "budget": "ledger show",
    "crosstab": "table",
    "distinct": "count --units",
    "median": "quantile --q 0.5",
    "percentile": "quantile",
    "pivot": "table",
    "std": "variance",
    "topk": "top",
}
"""What people know from other tools, as these commands say it."""


class SuggestingGroup(click.Group):
    """A group whose error about an unknown command names those that are like it.

    Options do that by themselves; commands only in newer versions of click, and never where they
    are imported when they are called.
    """

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the arguments, of which no option stands twice."""
        refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with.

        Raises
        ------
        click.UsageError
            If there is none of that name.
        """
        # What begins with a dash is an option, of which click says what is wrong.
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            name = args[0].lower().replace("-", "").replace("_", "")
            if ctx.parent is None and name in ELSEWHERE:
                ctx.fail(f"No such command {args[0]!r}. Here it is: sordino {ELSEWHERE[name]}")
            known = self.list_commands(ctx)
            ctx.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)
