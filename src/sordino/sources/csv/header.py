"""Reads the header line of CSV, which names the columns, and nothing behind it.

The rules, each about that line, which ends with the first LF behind the lines that are skipped:

- It is text in the declared encoding, of at most 1 MiB (1048576 bytes), without control characters
  and the line separators of Unicode (U+2028, U+2029), but for a CR right before its LF, tabs, and
  what was declared as delimiter and quote. Otherwise one sentence refuses it, which quotes nothing:
  where lines end with something else than LF, what follows on such a character are rows, and no row
  may be named, counted, or decide what is said.
- Its fields are the names of columns. A name that several have, and an empty one, name none: such
  columns are refused when they are asked for, and block no other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from sordino.constraints import did_you_mean, shown
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.csv.column_types import say_unclear
from sordino.sources.csv.encodings import line_encoding, open_lines
from sordino.sources.csv.lines import LONGEST, CsvFormat, first_line
from sordino.sources.folders import NO_FOLDERS, Folders

_NOTE_TO_EXCEL = re.compile('"?sep=(.)"?', re.IGNORECASE)
_DELIMITERS = {",": ("comma", ","), ";": ("';'", ";"), "\t": ("tab", r"\t"), "|": ("'|'", "|")}
"""Usual delimiters: in words, and as the command takes them."""


def read_header(path: Path, form: CsvFormat) -> tuple[bytes, list[str]]:
    """Return the header line of a file, and the names that stand in it.

    Raises
    ------
    DataSourceError
        If the file cannot be read, or the line cannot be a header.
    """
    try:
        with open_lines(path, form.encoding) as file:
            line = first_line(file, line_encoding(form.encoding), form.skip_lines)
    except OSError as error:
        raise DataSourceError(
            f"A CSV file must be readable; {path} is not ({error.strerror})."
        ) from None
    return line, split_header(line, form, str(path))


def split_header(line: bytes, form: CsvFormat, where: str) -> list[str]:
    """Return the names that stand in a header line.

    Raises
    ------
    DataSourceError
        If the line cannot be a header.
    """
    if not line:
        raise DataSourceError(
            f"A CSV file must begin with a header line; {where} is empty, or its first line is. "
            "For a file without one: --no-header --columns a,b,c."
        )
    header = decode_header(line, form, where)
    note = _NOTE_TO_EXCEL.fullmatch(header)
    if note is not None:
        raise DataSourceError(
            f"A CSV file must begin with a header line; {where} begins with a note to Excel, "
            f"sep={note[1]!r}. Skip it, and name the delimiter: --skip-lines 1 --delimiter "
            f"{_write_option(note[1])}."
        )
    names = split_line(header, form)
    if names is None:
        raise DataSourceError(
            f"The header line of {where} must have quotes only around whole fields, and no line "
            "break within them; it has others. Declare another quote (--quote CHAR, or --quote "
            "none), or repair it."
        )
    return names


def decode_header(line: bytes, form: CsvFormat, where: str) -> str:
    """Return a header line as text.

    Raises
    ------
    DataSourceError
        If it is none: one sentence, whatever is wrong with it.
    """
    try:
        text = line.decode(line_encoding(form.encoding))
    except UnicodeDecodeError:
        text = "\0"
    check_one_line(line, text, form, where)
    return text


def check_one_line(line: bytes, text: str, form: CsvFormat, where: str) -> None:
    """Refuse what is no header line, or more than one.

    Raises
    ------
    DataSourceError
        If it is too long, or its text holds control characters.
    """
    strange = set(text) - {"\t", form.delimiter, form.quote}
    if len(line) > LONGEST or any(
        unicodedata.category(one) in {"Cc", "Zl", "Zp"} for one in strange
    ):
        raise DataSourceError(
            f"The header line of {where} must be one line of {form.encoding} text, ended by LF or "
            f"CRLF, without control characters and of at most {LONGEST} bytes; it is not. Where "
            "lines end with CR "
            r"alone (old Macs), convert them: tr '\r' '\n' < OLD > NEW. Otherwise name the "
            r"encoding, or call "
            "the file .gz or .zst if it is compressed."
        )


def split_line(line: str, form: CsvFormat) -> list[str] | None:
    """Return the fields of one line, or None if its quotes are not balanced."""
    if not form.quote or form.quote not in line:
        return line.split(form.delimiter)
    # First whether all of the line is fields: `findall` alone would pass over what fits nowhere.
    one = _field_pattern(form)
    delimiter = re.escape(form.delimiter)
    if not re.fullmatch(f"{one}(?:{delimiter}{one})*", line, re.DOTALL):
        return None
    # A delimiter in front makes every field one behind a delimiter. Otherwise the first field would
    # be lost.
    fields = re.findall(f"{delimiter}({one})", form.delimiter + line, re.DOTALL)
    quote = form.quote
    return [
        field[1:-1].replace(quote * 2, quote) if field.startswith(quote) else field
        for field in fields
    ]


def _field_pattern(form: CsvFormat) -> str:
    """Return the regular expression of one field: quoted, or bare without any quote."""
    quote, delimiter = re.escape(form.quote), re.escape(form.delimiter)
    return f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{delimiter}{quote}]*)"


# ---- names ---------------------------------------------------------------------------------------


def check_typed_names(
    names: Sequence[str], form: CsvFormat, where: str, folders: Folders = NO_FOLDERS
) -> None:
    """Refuse a declared type for a column that there is not.

    Raises
    ------
    InvalidParameter
        If there is one.
    """
    clear, known = find_clear_names(names), (*names, *folders.keys)
    for name in form.types:
        if name in names and name not in clear:
            raise InvalidParameter(say_unclear("CsvFormat.types", name))
        if name not in known:
            hint = advise_header(names, form) or (
                " The columns are "
                f"{', '.join(map(repr, known[:12]))}{', ...' if len(known) > 12 else ''}."
            )
            raise InvalidParameter(
                f"CsvFormat.types must be for columns of {where}; got {shown(name)}.{hint}"
            )


def check_column(name: str, role: str, names: Sequence[str], form: CsvFormat) -> None:
    """Refuse a name that is not that of exactly one column.

    Raises
    ------
    InvalidParameter
        If it is none, or that of several.
    """
    if name not in names:
        hint = advise_header(names, form) or did_you_mean(name, names)
        listed = "" if form.skip_lines else f" {', '.join(map(repr, names))}"
        raise InvalidParameter(
            f"{role} must be one of the columns{listed}; got {shown(name)}.{hint}"
        )
    if name not in find_clear_names(names):
        raise InvalidParameter(say_unclear(role, name))


def find_clear_names(names: Sequence[str]) -> dict[str, int]:
    """Return the names by which exactly one column can be asked for, and where it stands."""
    # Counted once: a header may have half a million names.
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {name: found[0] for name, found in places.items() if name and len(found) == 1}


def advise_header(names: Sequence[str], form: CsvFormat) -> str:
    """Return what is said of a header in which a name is missing; empty where nothing is.

    Where lines are skipped it may be a row, if the number is wrong: then nothing of it is quoted.
    """
    if not form.header:
        return ""
    if form.skip_lines:
        return (
            f" Line {form.skip_lines + 1} of the file was taken for the header, because of "
            "--skip-lines. Its names are not shown: if that line is a row, they are its values."
        )
    return advise_delimiter(names, form)


def advise_delimiter(names: Sequence[str], form: CsvFormat) -> str:
    """Return what is said of a header that seems to have another delimiter.

    Empty if it does not seem so.
    """
    if len(names) != 1:
        return ""
    known, _ = _DELIMITERS.get(form.delimiter, (repr(form.delimiter), ""))
    for sign in _DELIMITERS:
        if sign in names[0] and sign != form.delimiter:
            option = _write_option(sign)
            return (
                f" The header has no {known}. This looks like a file with {option}: --delimiter "
                f"{option}."
            )
    return ""


def _write_option(delimiter: str) -> str:
    _, written = _DELIMITERS.get(delimiter, ("", delimiter))
    return f"'{written}'"


def compare_headers(headers: Mapping[Path, Sequence[str]]) -> None:
    """Refuse files whose headers name other columns than that of the first one.

    Raises
    ------
    DataSourceError
        If there is one. Of its header nothing is quoted: a file that lacks one begins with a row.
    """
    (first, names), *others = headers.items()
    for path, other in others:
        if len(other) != len(names):
            raise DataSourceError(
                "All files of a source must have the same header line; "
                f"{path} has {len(other)} columns, and {first} has {len(names)}."
            )
        for place, (one, two) in enumerate(zip(names, other, strict=True), start=1):
            if one != two:
                raise DataSourceError(
                    "All files of a source must have the same header line; column "
                    f"{place} has one name in {first} and another one in {path}."
                )
