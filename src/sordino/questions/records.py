"""Reads a column of numbers record by record and in order, for a local release.

Public are the number of records, their order, and which of them belong to one unit
(docs/proofs/reports.md).

Reads files of scores, or of counts, that somebody else computed.

Every line of such a CSV file is a candidate (an empty one only where all columns are private), and
only some of its fields are private. A private field is a decimal number, quoted or not; anything
else counts as no number, in silence. A line with fewer delimiters than its public fields need is
refused by its line number. What else stands in it is private.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown, text
from sordino.errors import DataSourceError, InvalidParameter, UnboundedContribution
from sordino.questions.domain import Domain
from sordino.questions.unit import PrivacyUnit
from sordino.scrubbing import scrubbed
from sordino.sources.csv.answer_lines import read_number
from sordino.sources.csv.encodings import Encoding, check_stream_encoding, line_encoding, open_lines
from sordino.sources.csv.header import check_column, check_typed_names, split_header
from sordino.sources.csv.json_lines import JsonReader
from sordino.sources.csv.lines import CsvFormat, first_line, skip_lines
from sordino.sources.csv.plink import PLINK_COLUMNS, PlinkLines, open_plink_lines
from sordino.sources.csv.private_fields import PrivateFields, open_private
from sordino.sources.csv.reader import CsvReader
from sordino.sources.csv.record_lines import (
    Fields,
    UnitRows,
    Values,
    check_record_types,
    fields_of,
    record_blocks,
)
from sordino.sources.engine import Engine, Progress, after_charge, scanning
from sordino.sources.excel.workbook import ExcelReader
from sordino.sources.memory import NO_LIMITS
from sordino.sources.source import Source
from sordino.sources.sql.dialect import EMBEDDED

# ---- scores --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Scores:
    """Private scores with the public labels of their candidates."""

    # Not in the `repr`: private values are never printed.
    values: NDArray[np.float64] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)


@final
@dataclass(frozen=True)
class ScoreFile:
    """A file of candidates whose header was read; `open_scores` makes it."""

    fields: PrivateFields

    @scrubbed
    def read(self) -> Scores:
        """Read the rows. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no candidate.
        """
        # `scrubbed`: exact scores stand in this frame when an error leaves it.
        labels, [values] = _read_labels_and_columns(self.fields)
        return Scores(values, labels)


@final
@dataclass(frozen=True)
class MarkerCounts:
    """Private counts of two alleles for each marker, with the public labels of the markers.

    NaN stands where there was no number.
    """

    # Private, so not in the `repr`, as with scores.
    b: NDArray[np.float64] = field(repr=False)
    c: NDArray[np.float64] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)


@final
@dataclass(frozen=True)
class MarkerFile:
    """A file of markers whose header was read; `open_markers` or `open_plink` makes it."""

    fields: PrivateFields | PlinkLines
    swapped: bool

    @property
    def of_plink(self) -> bool:
        """Whether the header line is that of a report of PLINK."""
        return (
            isinstance(self.fields, PlinkLines)
            or self.fields.columns[: len(PLINK_COLUMNS)] == PLINK_COLUMNS
        )

    def candidates(self) -> int:
        """Return how many markers there are, by what is public about the lines.

        Call it before the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no marker.
        """
        return _check_some(self.fields.check_lines(), self.fields)

    @scrubbed
    def read(self) -> MarkerCounts:
        """Read the rows. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no marker.
        """
        labels, [first, second] = _read_labels_and_columns(self.fields)
        # The file has its columns in one order, and `b` and `c` may have been named in the other
        # one.
        return MarkerCounts(*((second, first) if self.swapped else (first, second)), labels)


def _read_labels_and_columns(
    fields: PrivateFields | PlinkLines,
) -> tuple[tuple[str, ...] | None, list[NDArray[np.float64]]]:
    """Return the labels, and the numbers of each private column."""
    columns: list[list[float]] = [[] for _ in range(fields.count)]
    labels: list[str] = []
    # Every line is a candidate, whatever its private fields hold: what is no number becomes NaN.
    for label, found in fields.lines():
        for column, raw in zip(columns, found, strict=True):
            column.append(read_number(raw))
        if label is not None:
            labels.append(label)
    _check_some(len(columns[0]), fields)
    return tuple(labels) if fields.label is not None else None, [
        np.array(column, dtype=np.float64) for column in columns
    ]


def _check_some(candidates: int, fields: PrivateFields | PlinkLines) -> int:
    # How many candidates there are is public, so it may be said that there are none.
    if not candidates:
        raise DataSourceError(
            f"A file of scores must have one candidate or more; {fields.path} has none."
        )
    return candidates


def open_scores(path: Path, *, score: str, label: str | None = None, form: CsvFormat) -> ScoreFile:
    """Read the header line, and nothing else, of a CSV file of candidates.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, both are one, or the delimiter could stand in a score.
    """
    return ScoreFile(
        open_private(path, private={"--score": score}, label=("--label", label), form=form)
    )


def open_markers(
    path: Path, *, b: str, c: str, label: str | None = None, form: CsvFormat
) -> MarkerFile:
    """Read the header line alone of a CSV file of markers with the counts of their two alleles.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, two are one, `b` and `c` do not stand side by side, or the
        delimiter could stand in a number.
    """
    # One column cannot be both counts: each marker would have as many of the one allele as of the
    # other.
    if b == c:
        raise InvalidParameter(f"--c must be another column than --b; got {shown(c)} for both.")
    fields = open_private(path, private={"--b": b, "--c": c}, label=("--snp", label), form=form)
    return MarkerFile(fields, swapped=fields.columns[fields.first] == c)


def open_plink(path: Path, *, label: str = "SNP", encoding: Encoding = "utf-8") -> MarkerFile:
    """Read the header line, and nothing else, of a file that `plink --tdt` wrote.

    T and U are the counts.

    Raises
    ------
    DataSourceError
        If the file cannot be read, or has another header.
    InvalidParameter
        If the label is none of the public columns CHR, SNP and BP.
    """
    return MarkerFile(open_plink_lines(path, label=label, encoding=encoding), swapped=False)


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
        # Only a unit column has a bound (`check_unit`). Without one each record is a unit, and all
        # count.
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
                    scanning(
                        _find_ordered_reader(self.source),
                        self.indices,
                        ordered=True,
                        limits=getattr(self.source.backend, "limits", NO_LIMITS),
                    )
                )
                # Announced first, so that an interrupt reaches a query that is just beginning.
                announce(opened)
                opened.begin(self.sql)
                return opened

            # Each step on private rows goes through `after_charge`, so that no error can tell about
            # them.
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
    """Return the reader of a source whose rows have an order of their own.

    None if they have none.
    """
    # Relations and servers promise no order of rows (docs/proofs/reports.md).
    return source.reader if source.ordered else None


def _read_record_files(
    reader: CsvReader, fields: Fields, rows: UnitRows | None, progress: Progress | None
) -> Iterator[Values]:
    # Sizes are for the progress alone. They are asked for inside `try`, because a file may be gone.
    files, form, total, done = reader.rows.files, reader.rows.format, 1, 0
    try:
        total = max(1, sum(path.stat().st_size for path in files))
        for path, header in zip(files, reader.rows.headers, strict=True):
            with open_lines(path, form.encoding) as file:
                # After the charge there is one sentence for every failure, also for this one.
                if header is None:
                    skip_lines(file, form.skip_lines)
                elif first_line(file, line_encoding(form.encoding), form.skip_lines) != header:
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
        Who is protected, under replace-one; with a unit column, `max_rows` bounds how many records
        of a unit count.
    column : str
        A column of whole numbers, decimals or floats; of a CSV source the texts are read as
        numbers.

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
            "randomize needs a source whose number of rows is public: stored rows; got a view, a "
            "relation or a lazy frame, where one row may decide whether there is another one. "
            "Store the rows first."
        )
    reader = _find_ordered_reader(source)
    # Which of these lines are rows depends on what stands in them.
    if isinstance(reader, JsonReader | ExcelReader):
        raise InvalidParameter(
            "randomize needs a source in which every line is a row; got JSON lines or a sheet of "
            "Excel, of which those that say nothing are dropped. Write them to CSV or Parquet "
            "first."
        )
    if reader is None:
        raise InvalidParameter(
            "randomize needs a source whose rows have an order: files or a "
            f"frame; got a {source.kind} source. Write it to a file first."
        )
    place, kind = source.number_column(column, "column")
    # Its rows are read one by one, without an engine that joins.
    if source.find_lookup(place) is not None:
        raise InvalidParameter(
            f"column must be one of the table itself for randomize; got {column!r}, which is "
            "looked up."
        )
    person = _require_one_column(unit)
    owner = None if person is None else source.label_index(person, "PrivacyUnit.column")
    # Which records are of one unit is public, and numbers are private: one column cannot be both.
    if owner == place:
        raise InvalidParameter(
            f"column must be another one than that of the person; got {column!r} for both."
        )
    # Lines of CSV are read by `record_lines`: the usual reader drops some, but here every line is a
    # record.
    fields = None
    if isinstance(reader, CsvReader):
        check_record_types(reader.rows.format, column, person)
        names = _columns_of_lines(reader, column, person)
        fields = fields_of(names, column, person, ragged=reader.rows.format.ragged)
    kinds = list(source.columns.values())
    owners = "" if owner is None else f", {EMBEDDED.words.label(owner, kinds[owner])} AS unit"
    # Reports are made of floats. `TRY_CAST`, so that no number can make the query fail.
    number = f"TRY_CAST({EMBEDDED.number(place, kind)} AS DOUBLE)"
    # A missing number becomes NaN: its record must stay, because the number of records is public.
    sql = f"SELECT coalesce({number}, CAST('nan' AS DOUBLE)) AS x{owners} FROM rows"
    indices = tuple(sorted({place} if owner is None else {place, owner}))
    source.rehearse(indices, [(sql, None)])
    return RecordQuestion(source, unit, fields, indices, sql)


def _require_one_column(unit: PrivacyUnit) -> str | None:
    """Return the column of a unit; refuse several: which records are of one unit is public here."""
    if unit.parts:
        raise InvalidParameter(
            "randomize must have a person of one column, because rows are read one by one; got "
            f"{unit.identity}. Make one column of them at its source."
        )
    return unit.key


def _columns_of_lines(reader: CsvReader, column: str, person: str | None) -> tuple[str, ...]:
    """Return the columns that stand in the lines, after a look at whether both columns do."""
    keys = reader.rows.folders.keys
    for role, name in (("column", column), ("PrivacyUnit.column", person)):
        if name in keys:
            raise InvalidParameter(
                f"{role} must stand in the lines of CSV that is randomized; got {name!r}, by which "
                "its folders are named."
            )
    return reader.names


def check_unit(unit: PrivacyUnit) -> None:
    """Refuse a unit whose neighbors do not fit a release of every record in its place."""
    if unit.adjacency != "replace-one":
        raise InvalidParameter(
            "randomize needs the adjacency 'replace-one', because the number of records "
            f"and their order are public; got {unit.adjacency!r}."
        )
    # A unit pays for at most M records (docs/proofs/reports.md): without M there is nothing to
    # charge.
    if unit.column is not None and unit.max_rows is None:
        raise UnboundedContribution(
            "randomize must have a bound on the records of each person; got none. Say it where "
            "the table is opened, such as max_rows=5 (--max-rows 5)."
        )


def open_record_lines(
    file: BinaryIO, form: CsvFormat, unit: PrivacyUnit, *, column: str
) -> Iterator[Values]:
    """Read the header line, and nothing else, of CSV that comes through a pipe.

    Return an iterator over its records, which reads them after the charge.

    Raises
    ------
    InvalidParameter, DataSourceError
        If there is no such column, or no header.
    """
    written = check_stream_encoding(form.encoding)
    # All that is read of the pipe before the charge. What comes behind the header line is private.
    if form.header:
        line = first_line(file, written, form.skip_lines)
        names: Sequence[str] = split_header(line, form, "standard input")
        check_typed_names(names, form, "standard input")
    else:
        names = form.columns
        check_typed_names(names, form, "CsvFormat.columns")
    person = _require_one_column(unit)
    owner = () if person is None else (("PrivacyUnit.column", person),)
    for role, name in (("column", column), *owner):
        check_column(text(name, role), role, names, form)
    if person == column:
        raise InvalidParameter(
            f"column must be another one than that of the person; got {column!r} for both."
        )
    check_record_types(form, column, person)
    fields = fields_of(names, column, person, ragged=form.ragged)
    rows = None if unit.max_rows is None else UnitRows(unit.max_rows)
    # `read1` returns what a pipe has, and does not wait for a full block.
    blocks = record_blocks(getattr(file, "read1", file.read), form, fields, rows)
    return blocks if form.header else _skip_before(file, form.skip_lines, blocks)


def _skip_before(file: BinaryIO, skip: int, blocks: Iterator[Values]) -> Iterator[Values]:
    """Yield blocks behind lines that are skipped when the first one is asked for.

    After the charge.
    """
    # Without a header the first line that is not skipped is a row, and how long it takes to come is
    # private.
    skip_lines(file, skip)
    yield from blocks
