"""The help of commands with many options: under headings, and what most people need first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sordino.cli.declared import DeclaredCommand
from sordino.cli.once import Command

# Every option of these commands, in the order in which the help shows them.
HEADINGS = {
    "What": [
        "--release",
        "--answers",
        "--alpha",
        "--beta",
        "--item",
        "--column",
        "--score",
        "--k",
        "--q",
        "--threshold",
        "--positives",
        "--at-least",
        "--domain",
        "--sensitivity",
        "--lower",
        "--upper",
        "--clip",
        "--cap",
        "--statistic",
        "--families",
        "--label",
        "--by",
        "--with",
        "--per-person",
        "--weight-cap",
        "--bins",
        "--count",
        "--most-groups",
        "--where",
        "--part",
        "--set",
        "--rank-by",
        "--integer",
        "--units",
        "--bounded",
        "--monotone",
        "--step",
        "--b",
        "--c",
    ],
    "Who": [
        "--source",
        "--person",
        "--unit",
        "--user",
        "--max-rows",
        "--max-cells",
        "--row-is-unit",
        "--called",
        "--groups-per-unit",
        "--adjacency",
    ],
    "How much": [
        "--epsilon",
        "--ledger",
        "--account",
        "--no-ledger",
        "--yes-i-mean-it",
        "--goal",
        "--dry-run",
        "--like",
        "--like-rows",
        "--delta",
        "--failures",
        "--meter",
        "--parts",
        "--second-budget",
        "--selection-share",
        "--search-share",
        "--measure-share",
        "--interval-share",
        "--numbers-share",
    ],
    "Where from": [
        "--declaration",
        "--name",
        "--to",
        "--date",
        "--labels",
        "--not-yet",
        "--domain-column",
        "--domain-no-header",
        "--domain-range",
        "--domain-sql",
        "--domain-sql-file",
        "--assume-public",
        "--unlisted",
        "--least",
        "--format-in",
        "--null",
        "--delimiter",
        "--quote",
        "--no-header",
        "--columns",
        "--skip-lines",
        "--ragged",
        "--encoding",
        "--type",
        "--strict-types",
        "--decimal",
        "--thousands",
        "--date-format",
        "--memory-limit",
        "--temp-limit",
        "--plink",
    ],
    "Output": [
        "--format",
        "--wide",
        "--output",
        "--keep",
        "--run-id",
        "--details",
        "--simultaneous",
        "--no-negative",
        "--quiet",
        "--help-all",
        "--help",
    ],
    "Fine tuning": [
        "--margins",
        "--method",
        "--kth-count",
        "--force",
        "--adaptive",
        "--noise",
        "--planned",
        "--measure-noise",
        "--threshold-noise",
        "--resample",
        "--split",
        "--correction",
        "--correction-run",
        "--correction-margin",
        "--growth",
        "--scale",
        "--size-hint",
        "--damping",
        "--allow-approximate",
        "--activation",
        "--tuned-for",
        "--synthetic",
        "--seed",
    ],
}


MOST = 14
"""So many options the short help shows."""
# Of these it shows as many as there is room for: those without which hardly anybody releases.
FIRST = (
    "--release",
    "--item",
    "--column",
    "--score",
    "--units",
    "--k",
    "--q",
    "--threshold",
    "--positives",
    "--domain",
    "--lower",
    "--upper",
    "--cap",
    "--by",
    "--user",
    "--epsilon",
    "--ledger",
    "--account",
    "--where",
    "--dry-run",
    "--details",
    "--no-negative",
    "--max-rows",
    "--sensitivity",
    "--format",
    "--output",
    "--no-ledger",
    "--goal",
)
FIRST_OF_ACCOUNTS = (
    *("--source", "--unit", "--row-is-unit", "--epsilon", "--delta", "--failures", "--ledger"),
    *("--account", "--adjacency", "--format-in", "--delimiter", "--not-yet", "--format"),
)
"""The same of a command that makes an account."""
_NOT_FIRST = {"top": {"--cap", "--threshold"}, "above": {"--sensitivity"}}
"""What only some of those need who use a command."""
_ALL = "sordino.help-all"


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class ShortHelpCommand(Command):
    """A command whose help shows its options under headings: the first ones, or all of them.

    Parameters
    ----------
    first : sequence of str
        The options that the short help shows, of which there is room for `MOST`.
    *args, **more : object
        As every command takes them.
    """

    def __init__(self, *args: Any, first: Sequence[str] = FIRST, **more: Any) -> None:
        super().__init__(*args, **more)
        self._first = ("--help-all", *first)
        shown = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show all options.",
        )
        self.params.append(shown)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does; in the short help its first paragraph."""
        text = self.help or ""
        short = click.Command(
            self.name, help=text if _ALL in ctx.meta else text.partition("\n\n")[0]
        )
        short.format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each with the text that it brought along, heading by heading."""
        records = {
            flag: record
            for param in self.get_params(ctx)
            # An argument has no record, nor has an option that is hidden.
            if (record := param.get_help_record(ctx)) is not None
            for flag in param.opts
        }
        flags = [flag for flags in HEADINGS.values() for flag in flags if flag in records]
        shown = set(flags)
        if _ALL not in ctx.meta:
            others = _NOT_FIRST.get(self.name or "", set())
            shown = set([one for one in self._first if one in records and one not in others][:MOST])
        for heading, placed in HEADINGS.items():
            # A command shows its own options only.
            listed = [records[flag] for flag in placed if flag in shown]
            if listed:
                with formatter.section(heading):
                    formatter.write_dl(listed)
        if more := len(flags) - len(shown):
            formatter.write_paragraph()
            formatter.write_text(
                "SOURCE is a path, or the name of a table that sordino declare has declared. "
                f"--help-all shows {more} more options."
                if "--user" in records
                else f"--help-all shows {more} more options."
            )


class GroupedCommand(ShortHelpCommand, DeclaredCommand):
    """Such a command that releases, and whose SOURCE may be declared."""
