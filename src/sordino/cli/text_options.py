"""Options that say how text of a source is written, and with how much memory a source is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final, get_args

import click

from sordino.cli.options import gather
from sordino.errors import InvalidParameter
from sordino.sources.csv.column_types import PLAIN_DATE, FileKind
from sordino.sources.memory import read_limit


def _read_delimiter(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    # A tab is hard to type, so its usual spelling is taken as well.
    return "\t" if value == "\\t" else value


def _read_quote(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    return "" if value == "none" else value


def _read_columns(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[str, ...]:
    if value is None:
        return ()
    # Here, because the other commands load no engine.
    from sordino.sources.csv.header import split_line
    from sordino.sources.csv.lines import CsvFormat

    names = split_line(value, CsvFormat())
    if names is None:
        raise click.BadParameter(
            f"must be names with commas between them, such as a,b,c; got {value!r}."
        )
    return tuple(names)


def _read_types(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    types: dict[str, str] = {}
    for one in value:
        # From the right: a name may hold an equals sign, and no type does.
        column, equals, kind = one.rpartition("=")
        if not (equals and column):
            raise click.BadParameter(f"must be COL=TYPE, such as age=integer; got {one!r}.")
        if column in types:
            raise click.BadParameter(f"must name each column once; got {column!r} twice.")
        types[column] = kind
    return types


def _normalize_encoding(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    # Other names of the encodings; `CsvFormat` refuses whatever else there is.
    name = value.lower().replace("_", "-")
    return _ENCODINGS.get(name, name)


_ENCODINGS = {
    "utf8": "utf-8",
    "latin1": "latin-1",
    "iso-8859-1": "latin-1",
    "windows-1252": "cp1252",
    "utf16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}


# Nothing of the form is guessed from the rows: no row may decide how others are read.
# docs/decisions/0006-one-line-one-record.md
FORMAT_IN = click.option(
    "--format-in",
    type=click.Choice(get_args(FileKind)),
    help="What SOURCE is, where the ends of the names of its files do not tell it, as .data.",
)
DELIMITER = click.option(
    "--delimiter",
    metavar="CHAR",
    default=",",
    callback=_read_delimiter,
    help="Delimiter of a CSV source, \\t for a tab [default: comma].",
)
QUOTE = click.option(
    "--quote",
    metavar="CHAR|none",
    default='"',
    callback=_read_quote,
    help=(
        'Quote around fields of a CSV source; none if quotes are text, as in most TSV [default: "].'
    ),
)
NO_HEADER = click.option(
    "--no-header",
    is_flag=True,
    help="Every line of a CSV source is a row, also the first one; --columns names its columns.",
)
COLUMNS = click.option(
    "--columns",
    metavar="A,B,C",
    callback=_read_columns,
    help="Names of all columns of a CSV source without a header line.",
)
SKIP_LINES = click.option(
    "--skip-lines",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Pass over the first N lines of each file of a CSV source, whatever they hold.",
)
RAGGED = click.option(
    "--ragged",
    is_flag=True,
    help="Keep lines of a CSV source with fewer or more fields than there are columns: what is "
    "missing is empty, what is more is not read.",
)
ENCODING = click.option(
    "--encoding",
    metavar="NAME",
    default="utf-8",
    show_default=True,
    callback=_normalize_encoding,
    help=(
        "Encoding of a CSV source: utf-8, latin-1, cp1252, utf-16 (with a mark), utf-16-le or "
        "utf-16-be."
    ),
)
TYPE = click.option(
    "--type",
    "types",
    metavar="COL=TYPE",
    multiple=True,
    callback=_read_types,
    help="Type of a column of CSV, of JSON lines or of a sheet of Excel: integer, decimal(p,s), "
    "double, date, timestamp, boolean or text. What is no value of it is missing. May be given for "
    "several columns.",
)
DECIMAL = click.option(
    "--decimal",
    metavar="MARK",
    default=".",
    help="Decimal mark of numbers in a CSV source, a point or a comma [default: point].",
)
THOUSANDS = click.option(
    "--thousands",
    metavar="MARK",
    default="",
    help="Mark between groups of three digits there, such as . in 1.234,56 [default: none].",
)
NULL = click.option(
    "--null",
    metavar="TEXT",
    multiple=True,
    help="Text that means a missing value in a CSV source, beside the empty field. May be given "
    "for several texts.",
)


def _read_size_option(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    return None if value is None else read_limit(parameter.opts[0], value)


DATE_FORMAT = click.option(
    "--date-format",
    metavar="FORMAT",
    default=PLAIN_DATE,
    show_default=True,
    help="How dates in a CSV source are written, made of %Y, %m and %d.",
)
MEMORY_LIMIT = click.option(
    "--memory-limit",
    callback=_read_size_option,
    metavar="SIZE",
    help="Memory that the engine may use, such as 2GB; beyond that it writes to a private folder.",
)
TEMP_LIMIT = click.option(
    "--temp-limit",
    callback=_read_size_option,
    metavar="SIZE",
    help="Room that it may use there, such as 50GB; refused before the charge if less is free.",
)


@final
@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """How a source is written, if it is text, and with how much memory and room it is read."""

    delimiter: str
    encoding: str
    quote: str = '"'
    no_header: bool = False
    columns: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: bool = False
    null: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    decimal: str = "."
    thousands: str = ""
    date_format: str = PLAIN_DATE
    format_in: FileKind | None = None
    memory_limit: int | None = None
    temp_limit: int | None = None

    def __post_init__(self) -> None:
        if self.no_header != bool(self.columns):
            raise InvalidParameter(
                "--no-header and --columns must be given together: a file names its columns in its "
                f"header line, or you do; got {'--no-header' if self.no_header else '--columns'} "
                "alone."
            )


# For all who read a header line.
_HEADERS = (DELIMITER, ENCODING, QUOTE, NO_HEADER, COLUMNS, SKIP_LINES)
_TEXTS = (FORMAT_IN, NULL, *_HEADERS, RAGGED, TYPE, DECIMAL, THOUSANDS, DATE_FORMAT)
csv_options = gather("csv", CsvOptions, *_TEXTS, MEMORY_LIMIT, TEMP_LIMIT)
# For what asks an engine nothing about many rows.
form_options = gather("csv", CsvOptions, *_TEXTS)
# For files of scores, where what is no number has a rule of its own and no text.
bare_csv_options = gather("csv", CsvOptions, *_HEADERS)
# For what reads no row.
header_options = gather("csv", CsvOptions, FORMAT_IN, *_HEADERS)
