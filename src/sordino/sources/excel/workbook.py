"""Opens one sheet of an Excel workbook: `excel:FILE#SHEET`.

Public, and read before the charge: which sheets there are, whether days are counted from 1904, and
the first row of the sheet, with the texts that it refers to. (To find these, shared texts in front
of them are passed over.) All else is private.

No library that reads workbooks keeps rows apart: in one a bad cell ends all others, with its name
and value, and in another a cell far to the right takes all memory. So the parts of the workbook are
read here (docs/decisions/0022).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from sordino.constraints import did_you_mean, shown
from sordino.errors import DataSourceError
from sordino.sources.csv.column_types import ColumnType
from sordino.sources.csv.header import check_typed_names, find_clear_names
from sordino.sources.csv.lines import CsvFormat, TextBatch, refuse_text_options
from sordino.sources.csv.text_rows import column_kinds, lend_texts, make_batch
from sordino.sources.engine import Engine
from sordino.sources.excel.cells import Cell, CellRules
from sordino.sources.excel.parts import BROKEN, LINKED, Archive, Enough, Visitor, open_archive
from sordino.sources.excel.sheet_rows import (
    NumberFormats,
    RowCells,
    SharedTexts,
    resolve,
    rows_of_sheet,
)

DROPPED_ROWS = "rows without a value in any named column, or with more than 1 MiB of text"
"""Which rows are dropped, for people."""

_BATCH_BYTES = 1 << 20
_BATCH_ROWS = 1 << 12


@final
@dataclass(frozen=True)
class _Sheet:
    """Where a sheet and what its cells refer to stand in a workbook.

    Empty: there is no such part.
    """

    part: str
    shared: str
    formats: str
    from_1904: bool


@final
@dataclass(frozen=True)
class ExcelReader:
    """One sheet, and the columns that its first row names.

    Parameters
    ----------
    file : Path
        The workbook.
    sheet : _Sheet
        Where its parts stand.
    names : mapping of int to str
        The names of columns by where they stand.
    places : tuple of int
        Where the columns stand that can be asked for, whose names stand there once.
    kinds : tuple of ColumnType
        Their types.
    format : CsvFormat
        What is declared about them.
    """

    file: Path
    sheet: _Sheet = field(repr=False)
    names: Mapping[int, str]
    places: tuple[int, ...]
    kinds: tuple[ColumnType, ...]
    format: CsvFormat

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns at `indices` to the engine and return the SELECT that names them."""
        places = sorted(set(indices))
        done, total = [0], [1]

        def start() -> Iterator[TextBatch]:
            done[0] = 0
            with open_archive(self.file) as archive:
                parts = (self.sheet.part, self.sheet.shared)
                total[0] = max(1, sum(archive.size(part) for part in parts if part))
                yield from self._read(archive, places, done)

        engine.measure = lambda: 100 * done[0] / total[0]
        return lend_texts(engine, start, places, self.kinds, self.format)

    def _read(
        self, archive: Archive, places: Sequence[int], done: list[int]
    ) -> Iterator[TextBatch]:
        def read(size: int) -> None:
            done[0] += size

        shared, formats = SharedTexts(), NumberFormats()
        for part, visitor in ((self.sheet.shared, shared), (self.sheet.formats, formats)):
            if part:
                for _ in archive.walk(part, visitor, read):
                    pass
        rules = CellRules(tuple(formats.shown), self.sheet.from_1904, self.format.date_format)
        columns = list(self.names)
        # Which columns are asked for, and whether these are timestamps.
        asked = [(self.places[place], self.kinds[place].engine == "TIMESTAMP") for place in places]
        rows = rows_of_sheet(archive, self.sheet.part, read)
        # Cells are matched to names by their columns: other names would give them other meanings.
        if _read_names(next(rows, None), shared) != self.names:
            raise OSError("the first row changed after the source was opened")
        size, texts, waiting = 0, list[bytes](), 0
        for cells in rows:
            found = None if cells is None else resolve(cells, columns, shared)
            if found is None:
                continue
            size += 1
            for column, timed in asked:
                cell = found.get(column)
                texts.append(b"" if cell is None else rules.write(cell, timed=timed))
                waiting += len(texts[-1])
            if size == _BATCH_ROWS or waiting > _BATCH_BYTES:
                yield make_batch(size, texts)
                size, texts, waiting = 0, [], 0
        if size:
            yield make_batch(size, texts)


def open_excel(path: str, sheet: str, form: CsvFormat) -> tuple[ExcelReader, dict[str, str]]:
    """Read the names of the sheets and the first row of one of them, and nothing else.

    Raises
    ------
    DataSourceError
        If the workbook cannot be read, has no such sheet, or the first row does not name columns by
        texts.
    InvalidParameter
        If something is declared that cells have not, or a type for a column that there is not.
    """
    refuse_text_options(
        form, "an Excel source, whose numbers are no texts and whose first row names the columns"
    )
    file = Path(path)
    if not file.is_file():
        raise DataSourceError(
            f"An Excel source must be an existing file; nothing was found at {file}."
        )
    try:
        with open_archive(file) as archive:
            found = _find_sheet(archive, file, sheet)
            names = _read_first_row(archive, file, sheet, found)
    except BROKEN:
        # One sentence, whatever it is: it may have been found in the bytes behind the first row.
        raise DataSourceError(
            f"An Excel source must be a workbook without a password (.xlsx, .xlsm); {file} cannot "
            "be read as one. Save it as .xlsx, or export the sheet to CSV."
        ) from None
    check_typed_names(tuple(names.values()), form, f"{file}#{sheet}")
    clear = find_clear_names(tuple(names.values()))
    kinds = column_kinds(form, tuple(clear))
    standing = list(names)
    places = tuple(standing[place] for place in clear.values())
    columns = {name: kind.engine for name, kind in zip(clear, kinds, strict=True)}
    return ExcelReader(file, found, names, places, kinds, form), columns


def _find_sheet(archive: Archive, file: Path, name: str) -> _Sheet:
    """Return where a sheet stands."""
    links = archive.links("")
    [workbook] = [part for kind, part in links.values() if kind == "officeDocument"] or [""]
    if not workbook:
        raise OSError("there is no workbook")
    book = _Workbook()
    archive.look(workbook, book)
    linked = archive.links(workbook)
    # Sheets of charts have no rows.
    sheets = {
        title: linked[link][1]
        for title, link in book.sheets
        if link in linked and linked[link][0] == "worksheet"
    }
    if name not in sheets:
        hint = (
            did_you_mean(name, list(sheets))
            or f" Its sheets are {', '.join(map(repr, list(sheets)[:12]))}."
        )
        raise DataSourceError(
            f"An Excel source must be a sheet of the workbook; {file} has no sheet "
            f"{shown(name)}.{hint}"
        )
    parts = dict(linked.values())
    return _Sheet(
        sheets[name], parts.get("sharedStrings", ""), parts.get("styles", ""), book.from_1904
    )


@final
class _Workbook(Visitor):
    """Collects the sheets of a workbook, by name and link, and from when its days are counted."""

    def __init__(self) -> None:
        self.sheets = list[tuple[str, str]]()
        self.from_1904 = False

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        if path == ["workbook", "workbookPr"]:
            self.from_1904 = attributes.get("date1904") in {"1", "true"}
        elif path == ["workbook", "sheets", "sheet"]:
            link = next((attributes[name] for name in LINKED if name in attributes), "")
            self.sheets.append((attributes.get("name", ""), link))

    def end(self, path: list[str]) -> None:
        # What follows names areas of the sheets, as large as their rows make them.
        if path == ["workbook", "sheets"]:
            raise Enough


def _read_first_row(archive: Archive, file: Path, name: str, sheet: _Sheet) -> dict[int, str]:
    """Return the names of the columns, by where they stand."""
    first = RowCells(only_first=True)
    archive.look(sheet.part, first)
    # If the first row of the sheet were empty, the next one would be a private one.
    cells = first.rows[0] if first.rows and first.first_number == "1" else None
    shared = SharedTexts(_last_shared(cells or {}))
    if sheet.shared and any(cell.kind == "s" for cell in (cells or {}).values()):
        archive.look(sheet.shared, shared)
    names = _read_names(cells, shared)
    if not names:
        raise DataSourceError(
            "The first row of a sheet must name the columns, each by a text; that of "
            f"{shown(name)} in {file} does not. Remove what stands above the names, and write "
            "names that are numbers as texts."
        )
    return names


def _last_shared(cells: Mapping[int, Cell]) -> int:
    """Return the largest number of a shared text that cells refer to."""
    numbers = (cell.text.strip() for cell in cells.values() if cell.kind == "s")
    return max(
        (int(number) for number in numbers if number.isascii() and number.isdigit()), default=0
    )


def _read_names(cells: Mapping[int, Cell] | None, shared: SharedTexts) -> dict[int, str]:
    """Return the names that a row gives to columns; none if it holds something else than texts."""
    found = None if cells is None else resolve(cells, sorted(cells), shared)
    texts = {} if found is None else found
    rules = CellRules((), from_1904=False, date_format="")
    names = {place: rules.write(cell, timed=False).decode() for place, cell in texts.items()}
    plain = all(cell.kind in {"str", "inlineStr"} for cell in texts.values())
    return names if plain and all(names.values()) else {}
