"""Reads CSV files as rows: lines come from `_lines`, fields from `_csv_fields`, rules from `_csv_format`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from sordino.data._arrow_stream import TextStream
from sordino.data._csv_fields import field_texts
from sordino.data._csv_format import CsvFormat
from sordino.data._engine import Engine, literal
from sordino.data._lines import LONGEST, Batch, first_line, kept, kept_blocks
from sordino.errors import DataSourceError


@final
@dataclass(frozen=True)
class CsvReader:
    """Some CSV files with one header and one format."""

    files: tuple[Path, ...]
    format: CsvFormat
    header: bytes | None

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the fields at `indices` to the engine and return the SELECT that names them."""
        done = [0]
        total = max(1, sum(path.stat().st_size for path in self.files))
        places = sorted(set(indices))

        def read(size: int) -> None:
            done[0] += size

        # The engine may scan the stream several times: each scan reads the files anew.
        def start() -> Iterator[Batch]:
            for block in kept_blocks(self.files, self.format.encoding, self.header, read):
                batch = field_texts(block, self.format, places)
                if batch.size:
                    yield batch

        engine.measure = lambda: 100 * done[0] / total
        engine.connection.register("lines", TextStream("texts", start, width=2 * len(places) or 1))
        # Each field comes with the text between it and the
        # next one, so fields are the 1st, 3rd, 5th, ... entry.
        named = (
            f"{_null_if(f'texts[{2 * place + 1}]', self.format.null)} AS c{index}"
            for place, index in enumerate(places)
        )
        return f"SELECT {', '.join(named) or '1'} FROM lines"


def open_csv(files: Sequence[Path], form: CsvFormat) -> tuple[CsvReader, dict[str, str]]:
    """Read the header lines, and nothing else, of CSV files.

    Raises
    ------
    DataSourceError
        If a header cannot be read, names a column twice, or differs between files.
    """
    if not form.header:
        return CsvReader(tuple(files), form, None), _named(form.columns, "CsvFormat.columns")
    headers = [_header(path, form) for path in files]
    for path, header in zip(files, headers, strict=True):
        if header != headers[0]:
            raise DataSourceError(
                f"All files of a source must have the same header line; {path} differs from {files[0]}."
            )
    return CsvReader(tuple(files), form, headers[0]), header_names(headers[0], form, str(files[0]))


def header_names(line: bytes, form: CsvFormat, where: str) -> dict[str, str]:
    """Return the columns that a header line names, all of them text.

    Raises
    ------
    DataSourceError
        If the line cannot be a header.
    """
    if not line:
        raise DataSourceError(
            f"A CSV file must begin with a header line; {where} has none (empty file or empty first line)."
        )
    if not kept(line, form.encoding):
        raise DataSourceError(
            f"The header line of {where} must be {form.encoding} text without NUL of at most {LONGEST} "
            "bytes; it is not. Convert the file to UTF-8 CSV, uncompressed, or to Parquet."
        )
    names = split_line(line.decode(form.encoding), form)
    if names is None:
        raise DataSourceError(
            f"The header line of {where} must have balanced quotes; declare another quote or repair it."
        )
    return _named(names, where)


def _header(path: Path, form: CsvFormat) -> bytes:
    try:
        with path.open("rb") as file:
            line = first_line(file, form.encoding)
    except OSError as error:
        raise DataSourceError(f"A CSV file must be readable; {path} is not ({error.strerror}).") from None
    return line


def _named(names: Sequence[str], where: str) -> dict[str, str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataSourceError(f"Column names must be different; {where} has {twice[0]!r} more than once.")
    return dict.fromkeys(names, "VARCHAR")


def split_line(line: str, form: CsvFormat) -> list[str] | None:
    """Return the fields of one line, or None if its quotes are not balanced."""
    if not form.quote or form.quote not in line:
        return line.split(form.delimiter)
    # First whether all of the line is fields: `findall` alone would pass over what fits nowhere.
    one = _field(form)
    delimiter = re.escape(form.delimiter)
    if not re.fullmatch(f"{one}(?:{delimiter}{one})*", line, re.DOTALL):
        return None
    # A delimiter in front makes every field one behind a delimiter. Otherwise the first field would be lost.
    fields = re.findall(f"{delimiter}({one})", form.delimiter + line, re.DOTALL)
    quote = form.quote
    return [field[1:-1].replace(quote * 2, quote) if field.startswith(quote) else field for field in fields]


def _field(form: CsvFormat) -> str:
    """Return the regular expression of one field: quoted, or bare without any quote."""
    quote, delimiter = re.escape(form.quote), re.escape(form.delimiter)
    return f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{delimiter}{quote}]*)"


def _null_if(field: str, null: str) -> str:
    empty = f"nullif({field}, '')"
    return f"nullif({empty}, {literal(null)})" if null else empty
