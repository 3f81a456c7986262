"""The help of a command that releases: options under headings, what most people need first."""

from __future__ import annotations

import click

from sordino.cli.declared import use_declaration
from sordino.cli.once import Command

# Every option of these commands, in the order in which the help shows them.
HEADINGS = {
    "What": [
        "--release",
        "--part",
        "--item",
        "--column",
        "--score",
        "--k",
        "--q",
        "--threshold",
        "--positives",
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
        "--per-person",
        "--weight-cap",
        "--bins",
        "--count",
        "--most-groups",
        "--where",
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
    "Who": ["--user", "--max-rows", "--row-is-unit", "--groups-per-unit", "--adjacency"],
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
        "--selection-share",
        "--search-share",
        "--measure-share",
        "--interval-share",
        "--numbers-share",
    ],
    "Where from": [
        "--declaration",
        "--date",
        "--domain-column",
        "--domain-no-header",
        "--domain-range",
        "--domain-sql",
        "--domain-sql-file",
        "--assume-public",
        "--unlisted",
        "--least",
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
    "Output": ["--format", "--output", "--keep", "--run-id", "--simultaneous", "--quiet", "--help"],
    "Fine tuning": [
        "--method",
        "--kth-count",
        "--force",
        "--adaptive",
        "--noise",
        "--planned",
        "--measure-noise",
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


class GroupedCommand(Command):
    """A command whose help shows its options under headings."""

    def prepare(self, ctx: click.Context, typed: dict[str, object]) -> None:
        """Let a declared table say what nobody has typed."""
        use_declaration(self, ctx, typed)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each with the text that it brought along, heading by heading."""
        records = {
            flag: record
            for param in self.get_params(ctx)
            # An argument has no record, nor has an option that is hidden.
            if (record := param.get_help_record(ctx)) is not None
            for flag in param.opts
        }
        for heading, flags in HEADINGS.items():
            # A command shows its own options only.
            shown = [records[flag] for flag in flags if flag in records]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl(shown)
