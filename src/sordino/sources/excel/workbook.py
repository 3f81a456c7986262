"""Reads one sheet of an Excel workbook: `excel:FILE#SHEET`.

Public, and read before the charge: which sheets there are, whether days are counted from 1904, and
the first row of the sheet, with the texts that it refers to. (To find these, shared texts in front
of them are passed over.) All else is private.

No library that reads workbooks keeps rows apart: in one a bad cell ends all others, with its name
and value, and in another a cell far to the right takes all memory. So the parts of the workbook are
read here (docs/decisions/0022). The rules, each a function of one row (of its own cells, and of the
texts and formats that they refer to):

- A row is an element `row` behind the first one. Its height and whether it is hidden say nothing.
  Its number, one more than that of the row before unless it is said, must be above it: otherwise
  the sheet is damaged, which no text in a cell can bring about.
- A cell stands in the column that its reference names (C of C5), without a reference in the column
  behind the cell before it. A cell with another reference is left out. Of cells in one column the
  first counts.
- Cells in columns that the first row does not name are left out. Of merged cells the first one has
  the value.
- A row is dropped if nothing stands in its cells, or if what stands there has more than 1 MiB in
  UTF-8.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from sordino.constraints import did_you_mean, shown
from sordino.errors import DataSourceError
from sordino.sources.csv.column_types import ColumnType
from sordino.sources.csv.header import check_typed_names, find_clear_names
from sordino.sources.csv.lines import LONGEST, CsvFormat, TextBatch, refuse_text_options
from sordino.sources.csv.text_rows import column_kinds, lend_texts, make_batch
from sordino.sources.engine import Engine
from sordino.sources.excel.cells import Cell, CellRules, Shows, numbered_format, written_format
from sordino.sources.excel.parts import BROKEN, LINKED, Archive, Enough, Visitor, open_archive

MOST_COLUMNS = 1 << 14
"""How many columns a sheet of Excel has."""

MOST_SHARED = 1 << 25
"""How many shared texts a workbook may have; their places are kept in memory."""

LARGEST_SHARED = 1 << 30
"""How many bytes all shared texts may have together; they are kept in memory."""

MOST_FORMATS = 1 << 17
"""How many number formats a workbook may have; Excel itself has at most half of that."""

_REFERENCE = re.compile("([A-Z]{1,3})[0-9]*")
_ROW_NUMBER = re.compile("[0-9]{1,9}")
_ROW = ["worksheet", "sheetData", "row"]
_TEXT_ENDS = (["t"], ["r", "t"])
"""Where texts stand: plain, or in pieces of different looks. Elsewhere are reading aids."""

_VALUE_ENDS = (["v"],)
_INLINE_ENDS = (["is", "t"], ["is", "r", "t"])
"""Where values and texts stand in a cell."""


@final
class RowCells(Visitor):
    """Collects the cells of rows, as they stand there; whoever reads takes them from `rows`.

    Parameters
    ----------
    only_first : bool
        Whether the first row is all that is wanted.
    """

    def __init__(self, *, only_first: bool = False) -> None:
        # For each row its cells by column, and None for a row that is too long.
        self.rows = list[dict[int, Cell] | None]()
        self.first_number = ""
        self._only_first, self._seen = only_first, False
        self._cells = dict[int, Cell]()
        self._size = self._number = 0
        self._column = -1
        self._kind = self._style = ""
        self._in_row = self._in_cell = self._misplaced = False
        self._words: list[str] | None = None
        self._found = list[str]()

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        """Look at the beginning of a row, of a cell, or of what stands in it."""
        depth = len(path)
        if depth == 3:
            self._in_row = path == _ROW
            if self._in_row:
                self._begin_row(attributes)
        # What stands in other elements, for programs to come, says nothing.
        elif depth > 3 and self._in_row:
            if depth == 4:
                self._in_cell = path[3] == "c"
                if self._in_cell:
                    self._begin_cell(attributes)
            elif self._in_cell and path[4:] in (
                _INLINE_ENDS if self._kind == "inlineStr" else _VALUE_ENDS
            ):
                self._words = self._found

    def _begin_row(self, attributes: Mapping[str, str]) -> None:
        number = attributes.get("r", str(self._number + 1))
        if not _ROW_NUMBER.fullmatch(number) or int(number) <= self._number:
            raise OSError("the rows of a sheet are not in the order of their numbers")
        self._number = int(number)
        if not self._seen:
            self.first_number, self._seen = attributes.get("r", "1"), True
        self._cells, self._size, self._column = {}, 0, -1

    def _begin_cell(self, attributes: Mapping[str, str]) -> None:
        reference = attributes.get("r")
        found = None if reference is None else _REFERENCE.fullmatch(reference)
        self._misplaced = reference is not None and found is None
        if not self._misplaced:
            self._column = self._column + 1 if found is None else _place(found[1])
        # Nothing as long as this means anything, and a row may have many of them.
        self._kind, self._style = attributes.get("t", "n")[:16], attributes.get("s", "0")[:16]
        self._found = []

    def text(self, words: str) -> None:
        """Keep the words of a cell, unless the row is too long already."""
        if self._words is not None and self._size <= LONGEST:
            # Characters, of which a byte is the least: so what is left out here is too long in
            # bytes as well.
            self._size += len(words)
            self._words.append(words)

    def end(self, path: list[str]) -> None:
        """Take in a cell, or a row, that ends."""
        self._words = None
        depth = len(path)
        if depth == 4 and self._in_row and self._in_cell:
            held = not self._misplaced and 0 <= self._column < MOST_COLUMNS
            if held and self._found and self._column not in self._cells:
                self._cells[self._column] = Cell(self._kind, self._style, "".join(self._found))
        elif depth == 3 and self._in_row:
            self._in_row = self._in_cell = False
            self.rows.append(None if self._size > LONGEST else self._cells)
            if self._only_first:
                raise Enough


def _place(letters: str) -> int:
    """Return which column letters name, counted from 0."""
    place = 0
    for letter in letters:
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1


@final
class SharedTexts(Visitor):
    """The texts that cells refer to by number.

    Parameters
    ----------
    last : int, optional
        The last one that is wanted; unless said, all are.
    """

    def __init__(self, last: int | None = None) -> None:
        self._last = last
        self._data = bytearray()
        self._ends = array("q", [0])
        self._words = list[str]()
        self._collects = False
        self._size = 0

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        """Look at the beginning of a text, or of a piece of it."""
        del attributes
        if path == ["sst", "si"]:
            self._words, self._size = [], 0
        elif path[:2] == ["sst", "si"]:
            self._collects = path[2:] in _TEXT_ENDS

    def text(self, words: str) -> None:
        """Keep the words of a text, up to the length at which its rows are dropped."""
        if self._collects and self._size <= LONGEST:
            self._size += len(words)
            self._words.append(words)

    def end(self, path: list[str]) -> None:
        """Take in a text that ends."""
        self._collects = False
        if path == ["sst", "si"]:
            self._data += "".join(self._words).encode()
            self._ends.append(len(self._data))
            if len(self._ends) > MOST_SHARED or len(self._data) > LARGEST_SHARED:
                raise OSError("a workbook has more shared texts than are held in memory")
            if self._last is not None and len(self._ends) > self._last + 1:
                raise Enough

    def find(self, number: str) -> str | None:
        """Return the text that a number stands for; None if there is none."""
        digits = number.strip(" \t\r\n")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            return None
        place = int(digits)
        if place + 1 >= len(self._ends):
            return None
        return self._data[self._ends[place] : self._ends[place + 1]].decode()


@final
class NumberFormats(Visitor):
    """What each format of a cell shows, by its number."""

    def __init__(self) -> None:
        self.shown = list[Shows]()
        self._defined = dict[str, Shows]()

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        """Look at a number format that is defined, or at the format of cells that refers to one."""
        if path == ["styleSheet", "numFmts", "numFmt"]:
            self._defined[attributes.get("numFmtId", "")] = written_format(
                attributes.get("formatCode", "")
            )
        elif path == ["styleSheet", "cellXfs", "xf"]:
            number = attributes.get("numFmtId", "")
            known = numbered_format(int(number)) if re.fullmatch("[0-9]{1,9}", number) else "number"
            self.shown.append(self._defined.get(number, known))
        if len(self.shown) + len(self._defined) > MOST_FORMATS:
            raise OSError("a workbook has more number formats than any program writes")


def rows_of_sheet(
    archive: Archive, part: str, read: Callable[[int], None]
) -> Iterator[dict[int, Cell] | None]:
    """Yield the cells of each row by column, the first row too; None for a row that is too long.

    Raises
    ------
    OSError, ValueError, expat.ExpatError, ...
        If the part cannot be read: one of `parts.BROKEN`.
    """
    visitor = RowCells()
    for _ in archive.walk(part, visitor, read):
        yield from visitor.rows
        visitor.rows.clear()


def resolve(
    cells: Mapping[int, Cell], places: Sequence[int], shared: SharedTexts
) -> dict[int, Cell] | None:
    """Return the cells of a row that stand in some columns, with their texts.

    None if the row is dropped.

    Parameters
    ----------
    cells : mapping of int to Cell
        The cells of the row, by column.
    places : sequence of int
        The columns that have names.
    shared : SharedTexts
        What cells refer to.
    """
    found, size = dict[int, Cell](), 0
    for place in places:
        cell = cells.get(place)
        if cell is None:
            continue
        if cell.kind == "s":
            words = shared.find(cell.text)
            # A number that means no text is an error like any other: something stands there, and is
            # missing.
            cell = Cell("e", "", cell.text) if words is None else Cell("str", "", words)
        if cell.text:
            size += len(cell.text.encode())
            found[place] = cell
        # Here and not at the end: cells of a row may share one long text.
        if size > LONGEST:
            return None
    return found or None


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
