"""A file of TOML as a document: its tables, and the line of whatever in it is wrong.

A study and a declaration are public: they say nothing of rows. Only what stands for a secret,
`${NAME}`, is looked up in the environment, and that is never shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, final

from sordino.constraints import say_unknown_key
from sordino.errors import InvalidParameter, SordinoError
from sordino.statements.owner import read_small_text

Place = tuple[str | int, ...]
"""Where something stands: names of tables and keys, and the number of a table in a list of them."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONGEST_WHOLE = 64
_LONG_NUMBER = re.compile(r"[0-9](?:_?[0-9]){4000}", re.ASCII)
_TWICE = re.compile(r"Cannot declare (\(.*\)) twice")
_PLACE_OF_ERROR = re.compile(r"\(at line (\d+), column \d+\)")


@final
class Document:
    """The text of a study or of a declaration, read as TOML.

    Parameters
    ----------
    path : str or path
        Of the file.
    kind : str
        What it is called in messages.

    Raises
    ------
    InvalidParameter
        If it cannot be read, or is no TOML.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str = "study") -> None:
        self.path = os.fspath(path)
        self.kind = kind
        self._text = read_small_text(path, f"The file of a {kind}")
        try:
            self.tree: dict[str, Any] = tomllib.loads(self._text)
        except (ValueError, RecursionError) as error:
            found = _PLACE_OF_ERROR.search(str(error))
            long = _LONG_NUMBER.search(self._text)
            # Python refuses to read a number of very many digits, and does not say where it stands.
            if long and not isinstance(error, tomllib.TOMLDecodeError):
                line = self._text.count(chr(10), 0, long.start()) + 1
                self._refuse_long(f"{self.path}, line {line}")
            twice = _TWICE.match(str(error))
            if twice and found:
                name = ".".join(re.findall(r"'([^']*)'", twice[1]))
                raise InvalidParameter(
                    f"{self.path}, line {found[1]}: [{name}] stands in the file twice. Give one of "
                    "them another name, or remove it."
                ) from None
            where = f"; line {found[1]} is the first that is not" if found else ""
            raise InvalidParameter(
                f"A {kind} must be written in TOML; {self.path} is not{where}."
            ) from None
        for place in _list_long(self.tree, ()):
            self._refuse_long(self.describe(place))

    def _refuse_long(self, where: str) -> NoReturn:
        raise InvalidParameter(
            f"{where}: Whole numbers in a {self.kind} must have at most {_LONGEST_WHOLE} bits, as "
            "in TOML; got a longer one. Write a large number as 1e30."
        ) from None

    @property
    def digest(self) -> str:
        """A hash of what the study says, however it is laid out; secrets are not in it."""
        return digest_tree(self.tree)

    def find_line(self, place: Place) -> int | None:
        """Return the number of the line on which something begins; None if it is not there."""
        lines = self._text.splitlines()
        known = _Beginnings(lines)
        # What is there after some lines is there after more of them, so the first is found by
        # halving.
        low, high = 0, len(lines)
        if not known.has(high, place):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if known.has(middle, place) else (middle, high)
        # A value of several lines begins behind the last line that stands without it.
        return known.find_whole(low) + 1

    def refuse(self, place: Place, what: str) -> NoReturn:
        """Raise that something is wrong at a place.

        Raises
        ------
        InvalidParameter
            With the number of its line.
        """
        raise InvalidParameter(f"{self.describe(place)}: {what}")

    def describe(self, place: Place) -> str:
        """Return where a place is, for a message; what is missing is missing in its table."""
        for known in (place[:length] for length in range(len(place), 0, -1)):
            line = self.find_line(known)
            if line is not None:
                return f"{self.path}, line {line}"
        return self.path

    def add_place(self, place: Place, error: SordinoError) -> SordinoError:
        """Return the same error with the place that it is about."""
        return type(error)(f"{self.describe(place)}: {error}")

    def check_keys(
        self, table: Mapping[str, Any], place: Place, known: Iterable[str], what: str
    ) -> None:
        """Refuse a key that means nothing there, with the nearest ones.

        Raises
        ------
        InvalidParameter
            If there is one.
        """
        names = list(known)
        for key in table:
            if key not in names:
                self.refuse((*place, key), say_unknown_key(what, key, names))

    def take_table(self, name: str) -> dict[str, Any]:
        """Return a table of the study, which must be there.

        Raises
        ------
        InvalidParameter
            If it is not, or is no table.
        """
        # A declaration that somebody has emptied declares nothing.
        found = self.tree.get(name) if self.tree or self.kind == "study" else {}
        if not isinstance(found, dict):
            kind = "none" if found is None else "something else"
            self.refuse((name,), f"A {self.kind} must have a table [{name}]; got {kind}.")
        return found

    def expand(self, value: str, place: Place) -> str:
        """Return a text with what the environment says in place of each `${NAME}`.

        Raises
        ------
        InvalidParameter
            If the environment says nothing.
        """

        def look_up(found: re.Match[str]) -> str:
            said = os.environ.get(found[1])
            # An empty secret is one that was forgotten.
            if not said:
                self.refuse(place, f"The environment must have a variable {found[1]}; it has none.")
            return said

        return _VARIABLE.sub(look_up, value)


def digest_tree(tree: Mapping[str, Any]) -> str:
    """Return a hash of what was read of TOML."""
    # Days are values of TOML and none of JSON.
    text = json.dumps(tree, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def _list_long(value: Any, place: Place) -> Iterator[Place]:
    """Yield where whole numbers stand that TOML has not: what a study says is written again."""
    if isinstance(value, dict | list):
        for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _list_long(inside, (*place, name))
    elif isinstance(value, int) and value.bit_length() > _LONGEST_WHOLE:
        yield place


@final
class _Beginnings:
    """The first lines of a text, read as TOML as far as they can be."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._trees: dict[int, dict[str, Any] | None] = {}

    def find_whole(self, count: int) -> int:
        """Return the largest number of lines, up to `count`, that can be read by themselves."""
        while self._read(count) is None:
            count -= 1
        return count

    def has(self, count: int, place: Place) -> bool:
        """Tell whether something is there after so many lines."""
        found: Any = self._read(self.find_whole(count))
        for step in place:
            if isinstance(step, int):
                if not isinstance(found, list) or step >= len(found):
                    return False
            elif not isinstance(found, dict) or step not in found:
                return False
            found = found[step]
        return True

    def _read(self, count: int) -> dict[str, Any] | None:
        if count not in self._trees:
            try:
                self._trees[count] = tomllib.loads("\n".join(self._lines[:count]))
            # The middle of a value.
            except (ValueError, RecursionError):
                self._trees[count] = None
        return self._trees[count]
