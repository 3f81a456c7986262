"""Options that several commands share, written once."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar, final

import click

from sordino.errors import InvalidParameter

F = TypeVar("F", bound=Callable[..., Any])


@final
class Decimals(click.ParamType[Fraction]):
    """A finite decimal number, kept exact: 0.1 means one tenth."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """Return the number as a fraction, or fail with the usage error of click."""
        if isinstance(value, Fraction):
            return value
        if not _DECIMAL_PATTERN.fullmatch(str(value)):
            self.fail(
                f"{value!r} is not a finite decimal number (of at most 40 digits, and two after an e).",
                param,
                ctx,
            )
        return Fraction(str(value))


@final
class DecimalsOr(click.ParamType[Any]):
    """A finite decimal number, or one of some words."""

    def __init__(self, *words: str) -> None:
        self._words = words
        # What the help shows as the kind of the value.
        self.name = "|".join((*words, "number"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or the number as a fraction."""
        return value if value in self._words else NUMBER.convert(value, param, ctx)


# Longer numbers and larger exponents could fill the memory as exact fractions.
_DECIMAL_PATTERN = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII
)
NUMBER = Decimals()


def _read_delimiter(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    # A tab is hard to type, so its usual spelling is taken as well.
    return "\t" if value == "\\t" else value


def _normalize_encoding(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    # Other names of the two encodings; `CsvFormat` refuses whatever else there is.
    return {"utf8": "utf-8", "latin1": "latin-1", "iso-8859-1": "latin-1"}.get(value.lower(), value.lower())


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that applies the options in the order in which the help shows them."""

    def decorate(function: F) -> F:
        # Decorators apply from the bottom up.
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


SOURCE = click.argument("source")
EPSILON = click.option("--epsilon", type=NUMBER, required=True, help="Budget of this release.")
LEDGER_URL = click.option("--ledger", "ledger_url", metavar="URL", help="File of the ledger.")
ACCOUNT = click.option("--account", metavar="NAME", help="Account of the ledger to charge.")
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    help="How stdout is written [default: table on a terminal, json elsewhere].",
)
QUIET = click.option(
    "--quiet/--no-quiet",
    default=None,
    help="Say nothing on stderr but errors [default: quiet when stderr is no terminal].",
)
BOUNDED = click.option(
    "--bounded",
    type=NUMBER,
    nargs=2,
    metavar="LOW HIGH",
    help="Public range of the figure: it is published within a slightly wider one, without bias.",
)
ADJACENCY = click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="Which data sets are neighbors.",
)

unit_options = stacked(
    click.option(
        "--user",
        metavar="COL",
        help="Column that says whom a row belongs to: the guarantee protects all of its rows.",
    ),
    click.option("--row-is-unit", is_flag=True, help="The guarantee protects single rows."),
    click.option(
        "--max-rows",
        type=int,
        metavar="M",
        help="Let a unit count for at most M rows (of a histogram: items).",
    ),
    ADJACENCY,
)
# Nothing of the form is guessed from the rows: no row may decide how others are read.
# docs/decisions/0006-one-line-one-record.md
csv_format = stacked(
    click.option(
        "--delimiter",
        metavar="CHAR",
        default=",",
        callback=_read_delimiter,
        help="Delimiter of a CSV source, \\t for a tab [default: comma].",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        show_default=True,
        callback=_normalize_encoding,
        help="Encoding of a CSV source, utf-8 or latin-1.",
    ),
)
NULL = click.option(
    "--null",
    metavar="TEXT",
    default="",
    help="Text that means a missing value in a CSV source, beside the empty field.",
)
csv_options = stacked(
    click.option(
        "--where",
        metavar="PREDICATE",
        help="Keep the rows for which this predicate holds, such as \"state = 'NY'\".",
    ),
    NULL,
    csv_format,
)
DOMAINS = ("domain", "domain_column", "domain_range", "domain_sql", "assume_public")
public_labels = stacked(
    click.option("--domain", metavar="FILE", help="CSV or Parquet file that lists the public labels."),
    click.option("--domain-column", metavar="C", help="Column of that file."),
    click.option(
        "--domain-range",
        metavar="A:B",
        help="The labels are the whole numbers from A up to B, which is left out.",
    ),
    click.option(
        "--domain-sql", metavar="SQL", help="Query that lists the public labels; it cannot see SOURCE."
    ),
    click.option(
        "--assume-public",
        is_flag=True,
        help="Declare the labels of SOURCE public. This is printed and recorded.",
    ),
)
domain_options = stacked(
    click.option("--item", metavar="COL", required=True, help="Column of labels."), public_labels
)
statement_options = stacked(
    click.option(
        "--sensitivity", type=NUMBER, metavar="S", help="How far any one answer moves between neighbours."
    ),
    click.option(
        "--monotone", is_flag=True, help="All answers move in the same direction between neighbours."
    ),
    click.option(
        "--step", type=NUMBER, help="Power of two that all answers are multiples of, such as 1 for counts."
    ),
)
# It needs --synthetic beside it, so that nobody gets predictable noise for real data by accident.
SEED = click.option(
    "--seed", type=int, metavar="N", help="Predictable noise, only with --synthetic and without a ledger."
)
SYNTHETIC = click.option("--synthetic", is_flag=True, help="Declare that SOURCE holds no real person's data.")
release_options = stacked(LEDGER_URL, ACCOUNT, FORMAT, SEED, SYNTHETIC, QUIET)


def chosen_format(form: str | None) -> str:
    """Return the format asked for, else a table on a terminal and JSON elsewhere."""
    # A person reads a terminal, and a program whatever else stdout is.
    return form or ("table" if sys.stdout.isatty() else "json")


def chosen_quiet(quiet: bool | None) -> bool:
    """Return whether stderr stays silent: as asked, else when it is no terminal."""
    return not sys.stderr.isatty() if quiet is None else quiet


def exactly_one(given: dict[str, Any], what: str) -> str:
    """Return the name of the one option that was given, or raise `InvalidParameter`."""
    # 0 is a value, too: only None, and a flag that is off, were not given.
    named = [name for name, value in given.items() if value is not None and value is not False]
    if len(named) != 1:
        listed = ", ".join(given)
        raise InvalidParameter(
            f"Give exactly one of {listed} to say {what}; got {' and '.join(named) or 'none'}."
        )
    return named[0]
