"""Reads a column of numbers record by record and in order, for a local release.

Public are the number of records, their order, and which of them belong to one unit (docs/proofs/reports.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO, final

import numpy as np

from sordino.constraints import shown
from sordino.data.csv.csv_format import CsvFormat
from sordino.data.csv.lines import first_line
from sordino.data.csv.reader import CsvReader, header_names
from sordino.data.csv.record_lines import Fields, UnitRows, Values, fields_of, record_blocks
from sordino.data.questions.domain import Domain
from sordino.data.questions.unit import PrivacyUnit
from sordino.data.sources.dialect import EMBEDDED
from sordino.data.sources.engine import Engine, Progress, after_charge, scanning
from sordino.data.sources.source import ReaderBackend, Source
from sordino.errors import DataSourceError, InvalidParameter, UnboundedContribution

ROWS = 1 << 16
"""How many rows of a table are fetched at once."""


@final
@dataclass(frozen=True)
class RecordQuestion:
    """A question that is ready: everything public has been checked, and no row has been read.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected; of a unit with a column the first `max_rows` records count.
    """

    source: Source
    unit: PrivacyUnit
    fields: Fields | None = field(repr=False)
    indices: tuple[int, ...] = field(repr=False)
    sql: str = field(repr=False)

    @property
    def domain(self) -> Domain | None:
        """None: there are no labels."""
        return None

    def run(self, *, progress: Progress | None = None) -> Iterator[Values]:
        """Yield the numbers of the records in blocks, in their order. Call it after the charge.

        What is no number or does not count is NaN.

        Parameters
        ----------
        progress : callable, optional
            Called now and then with how much has been read, 0 to 100.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        # Only a unit column has a bound (`check_unit`). Without one each record is a unit, and all count.
        rows = None if self.unit.max_rows is None else UnitRows(self.unit.max_rows)
        reader = _find_ordered_reader(self.source)
        yield from (
            self._table(rows, progress)
            if self.fields is None
            else _read_record_files(reader, self.fields, rows, progress)
        )
        if progress is not None:
            progress(100.0)

    def _table(self, rows: UnitRows | None, progress: Progress | None) -> Iterator[Values]:
        with ExitStack() as stack:

            def begin(announce: Any) -> Engine:
                # Ordered, because the order of records is part of the answer.
                opened = stack.enter_context(
                    scanning(_find_ordered_reader(self.source), self.indices, ordered=True)
                )
                # Announced first, so that an interrupt reaches a query that is just beginning.
                announce(opened)
                opened.begin(self.sql)
                return opened

            # Each step on private rows goes through `after_charge`, so that no error can tell about them.
            opened = after_charge(begin)

            def more(announce: Any) -> list[tuple[Any, ...]]:
                announce(opened)
                return opened.more(ROWS)

            while found := after_charge(more):
                # All rows have a number here: what is missing was made NaN by the query.
                values = np.fromiter((row[0] for row in found), dtype=np.float64, count=len(found))
                yield values if rows is None else rows.kept(values, (row[1] for row in found))
                if progress is not None:
                    progress(opened.progress())


def _find_ordered_reader(source: Source) -> Any:
    """Return the reader of a source whose rows have an order of their own; None if they have none."""
    # Relations and servers promise no order of rows (docs/proofs/reports.md).
    return source.backend.reader if source.ordered and isinstance(source.backend, ReaderBackend) else None


def _read_record_files(
    reader: CsvReader, fields: Fields, rows: UnitRows | None, progress: Progress | None
) -> Iterator[Values]:
    # Sizes are for the progress alone. They are asked for inside `try`, because a file may be gone.
    form, total, done = reader.format, 1, 0
    try:
        total = max(1, sum(path.stat().st_size for path in reader.files))
        for path in reader.files:
            with path.open("rb") as file:
                # After the charge there is one sentence for every failure, also for this one.
                if reader.header is not None and first_line(file, form.encoding) != reader.header:
                    raise DataSourceError.after_charge()
                # `rows` is shared by all files: the bound of a unit is for the whole source.
                for values in record_blocks(file.read, form, fields, rows):
                    yield values
                    if progress is not None:
                        progress(100 * (done + file.tell()) / total)
                done += file.tell()
    except OSError:
        raise DataSourceError.after_charge() from None


def prepare_records(source: Source, unit: PrivacyUnit, *, column: str) -> RecordQuestion:
    """Check a question about every record of a column against what is public about a source.

    Parameters
    ----------
    source : Source
        A table whose rows have an order: files, or a frame.
    unit : PrivacyUnit
        Who is protected, under replace-one; with a unit column, `max_rows` bounds how many records of a unit
        count.
    column : str
        A column of whole numbers, decimals or floats; of a CSV source the texts are read as numbers.

    Returns
    -------
    RecordQuestion
        `run` reads the records after the charge.

    Raises
    ------
    InvalidParameter, UnboundedContribution, DataSourceError
        If the question cannot be asked; nothing has been read.
    """
    check_unit(unit)
    # Where one row decides whether there is another, neighbors differ in the number of records.
    if source.computed:
        raise InvalidParameter(
            "randomize needs a source whose number of rows is public: stored rows; got a view, a relation or "
            "a lazy frame, where one row may decide whether there is another one. Store the rows first."
        )
    reader = _find_ordered_reader(source)
    if reader is None:
        raise InvalidParameter(
            "randomize needs a source whose rows have an order: files or a "
            f"frame; got a {source.kind} source. Write it to a file first."
        )
    place, kind = source.number_column(column, "column")
    owner = None if unit.column is None else source.label_index(unit.column, "PrivacyUnit.column")
    # Which records are of one unit is public, and numbers are private: one column cannot be both.
    if owner == place:
        raise InvalidParameter(f"column must be another one than that of the unit; got {column!r} for both.")
    # Lines of CSV are read by `record_lines`: the usual reader drops some, but here every line is a record.
    fields = fields_of(list(source.columns), column, unit.column) if isinstance(reader, CsvReader) else None
    kinds = list(source.columns.values())
    owners = "" if owner is None else f", {EMBEDDED.words.label(owner, kinds[owner])} AS unit"
    # Reports are made of floats. `TRY_CAST`, so that no number can make the query fail.
    number = f"TRY_CAST({EMBEDDED.number(place, kind)} AS DOUBLE)"
    # A missing number becomes NaN: its record must stay, because the number of records is public.
    sql = f"SELECT coalesce({number}, CAST('nan' AS DOUBLE)) AS x{owners} FROM rows"
    indices = tuple(sorted({place} if owner is None else {place, owner}))
    source.rehearse(indices, [(sql, None)])
    return RecordQuestion(source, unit, fields, indices, sql)


def check_unit(unit: PrivacyUnit) -> None:
    """Refuse a unit whose notion of neighbors does not fit a release of every record in its place."""
    if unit.adjacency != "replace-one":
        raise InvalidParameter(
            "randomize needs a unit with adjacency 'replace-one', because the number of records and their "
            f"order are public; got {unit.adjacency!r}."
        )
    # A unit pays for at most M records (docs/proofs/reports.md): without M there is nothing to charge.
    if unit.column is not None and unit.max_rows is None:
        raise UnboundedContribution(
            "randomize must have a bound on the records of one unit; got a unit column without one. "
            "Give PrivacyUnit.max_rows (--max-rows)."
        )


def open_record_lines(file: BinaryIO, form: CsvFormat, unit: PrivacyUnit, *, column: str) -> Iterator[Values]:
    """Read the header line, and nothing else, of CSV that comes through a pipe.

    Return an iterator over its records, which reads them after the charge.

    Raises
    ------
    InvalidParameter, DataSourceError
        If there is no such column, or no header.
    """
    # All that is read of the pipe before the charge. What comes behind the header line is private.
    names = list(header_names(first_line(file, form.encoding), form, "standard input"))
    owner = () if unit.column is None else (("PrivacyUnit.column", unit.column),)
    for role, name in (("column", column), *owner):
        if name not in names:
            raise InvalidParameter(
                f"{role} must be one of the columns {', '.join(map(repr, names))}; got {shown(name)}."
            )
    if unit.column == column:
        raise InvalidParameter(f"column must be another one than that of the unit; got {column!r} for both.")
    fields = fields_of(names, column, unit.column)
    rows = None if unit.max_rows is None else UnitRows(unit.max_rows)
    # `read1` returns what a pipe has, and does not wait for a full block.
    return record_blocks(getattr(file, "read1", file.read), form, fields, rows)
