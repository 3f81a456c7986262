"""The base of every command and group: an option is given once, and a misspelled command is told.

Nothing that was said is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from sordino.constraints import did_you_mean
from sordino.errors import InvalidParameter


class Command(click.Command):
    """A command that refuses a repeated option, of which click would take the last one in silence.

    It looks at what was typed, before any value is read. So the rule holds for every option that a
    command has, and nobody has to think of it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the arguments.

        Raises
        ------
        InvalidParameter
            If an option is given twice, or of a list one value.
        """
        typed = refuse_repeated(self, ctx, args)
        self.prepare(ctx, typed)
        return super().parse_args(ctx, args)

    def prepare(self, ctx: click.Context, typed: dict[str, object]) -> None:
        """Look at what was typed, by the names of parameters, before any value is read."""


def refuse_repeated(
    command: click.Command, ctx: click.Context, args: Sequence[str]
) -> dict[str, object]:
    """Refuse arguments in which an option stands twice, however it is spelled.

    Return what was typed; nothing, where help or the version is asked for.

    Raises
    ------
    InvalidParameter
        If one does; or a value of an option, or an argument, that is a list.
    """
    # A copy: click takes the arguments out of their list.
    typed, _, order = command.make_parser(ctx).parse_args(list(args))
    # Help and version hand no value to the command, and end it.
    if any(not one.expose_value for one in order):
        return {}
    for one, times in Counter(order).items():
        name = "/".join((*one.opts, *one.secondary_opts))
        if isinstance(one, click.Argument):
            name = one.human_readable_name
        if one.multiple or one.nargs < 0:
            values = typed[one.name or ""]
            # An argument that was left out is no list.
            if isinstance(values, list | tuple) and len(set(values)) < len(values):
                raise InvalidParameter(
                    f"{name} must be given each value once; got one of them twice. Leave it out, "
                    "or give the one that was meant."
                )
        elif times > 1:
            way = (
                "" if getattr(one, "is_flag", False) else ", or run the command once for each value"
            )
            raise InvalidParameter(
                f"{name} must be given at most once; got it {times} times. Keep one of them{way}."
            )
    return {name: typed[name] for one in order if (name := one.name)}


ELSEWHERE = {
    "average": "mean",
    "avg": "mean",
    "budget": "ledger show",
    "crosstab": "table",
    "distinct": "count --units",
    "median": "quantile --q 0.5",
    "percentile": "quantile",
    "pivot": "table",
    "left": "ledger show",
    "remaining": "ledger show",
    "status": "ledger show",
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
