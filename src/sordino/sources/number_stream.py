"""Takes columns of numbers from an engine piece by piece, as arrays, and lends it others."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.sources.arrow_interface import (
    ArrowArray,
    ArrowSchema,
    LentStream,
    make_table,
    make_table_schema,
    read_arrays,
    release_array,
    release_schema,
)

T = TypeVar("T")

_TOGETHER = 8
"""So many pieces are made before they are handed on: threads wait for each other less often than
for each."""


_FORMATS = {
    "TINYINT": "c",
    "UTINYINT": "C",
    "SMALLINT": "s",
    "USMALLINT": "S",
    "INTEGER": "i",
    "UINTEGER": "I",
    "BIGINT": "l",
    "UBIGINT": "L",
    "FLOAT": "f",
    "DOUBLE": "g",
}
"""How the Arrow interface writes types of numbers."""

_ARRAYS: dict[str, type[np.generic]] = {
    "c": np.int8,
    "C": np.uint8,
    "s": np.int16,
    "S": np.uint16,
    "i": np.int32,
    "I": np.uint32,
    "l": np.int64,
    "L": np.uint64,
    "f": np.float32,
    "g": np.float64,
}
"""The arrays that hold them."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def find_format(declared: str) -> str | None:
    """Return how the interface writes a declared type.

    None if its values do not travel as numbers.
    """
    if found := _DECIMAL.fullmatch(declared):
        return f"d:{found[1]},{found[2]},128"
    return _FORMATS.get(declared)


@final
class Column(NamedTuple):
    """A piece of a column.

    Attributes
    ----------
    values : array, shape (rows,) or (rows, 2)
        Numbers; of decimals the two halves of 128 bits. Whatever stands where one is missing.
    known : array of bool, shape (rows,), or None
        Which are not missing; None: all.
    """

    values: NDArray[Any]
    known: NDArray[np.bool_] | None = None

    def cut(self, start: int, stop: int) -> Column:
        """Return rows from `start` up to `stop`."""
        return Column(
            self.values[start:stop], None if self.known is None else self.known[start:stop]
        )

    def pick(self, chosen: NDArray[np.bool_]) -> Column:
        """Return the rows that are chosen."""
        known = None if self.known is None else self.known.compress(chosen)
        return Column(self.values.compress(chosen, axis=0), known)


def join(pieces: Sequence[Column]) -> Column:
    """Return pieces of one column as one."""
    if len(pieces) == 1:
        return pieces[0]
    known = None
    if any(one.known is not None for one in pieces):
        known = np.concatenate(
            [np.ones(len(one.values), bool) if one.known is None else one.known for one in pieces]
        )
    return Column(np.concatenate([one.values for one in pieces]), known)


def read_columns(made: Any, formats: Sequence[str]) -> Generator[list[Column]]:
    """Yield the columns of a stream that an engine makes, piece by piece.

    Parameters
    ----------
    made : object
        With a method `__arrow_c_stream__`; it is asked when the first piece is.
    formats : sequence of str
        Of the columns, by `find_format`.
    """
    with closing(read_arrays(made, [one.encode() for one in formats])) as arrays:
        for held, table in arrays:
            children = [table.children[place].contents for place in range(len(formats))]
            yield [_read_column(held, *one) for one in zip(children, formats, strict=True)]


def read_ahead(pieces: Iterator[T]) -> Generator[T]:
    """Yield pieces, of which the next one is made meanwhile, in a thread of its own.

    Until this generator is closed nobody else may ask for pieces.
    """
    few = list(islice(pieces, 2))
    yield from few
    # The piece of a small table is not worth a thread.
    if len(few) < 2:
        return
    # Imported here, because few questions need it.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1, "sordino-ahead") as aside:
        coming = aside.submit(lambda: list(islice(pieces, _TOGETHER)))
        while found := coming.result():
            coming = aside.submit(lambda: list(islice(pieces, _TOGETHER)))
            yield from found


def count_places(made: Any, places: int) -> dict[str, NDArray[Any]]:
    """Return which places occur in a stream of them, rising, and how often: `position` and `n`.

    Where there are many an engine takes longer to group them than to hand them on.

    Parameters
    ----------
    made : object
        A stream of one column of whole numbers from 0 to `places` - 1, as UINTEGER.
    places : int
        How many there are at most, each of which takes 8 bytes.
    """
    counts = np.zeros(places, dtype=np.int64)
    with (
        closing(read_columns(made, [_FORMATS["UINTEGER"]])) as pieces,
        closing(read_ahead(pieces)) as ahead,
    ):
        for (column,) in ahead:
            np.add.at(counts, column.values, 1)
    # Numbers are compared first, which takes a third of the time.
    found = np.flatnonzero(counts != 0)
    return {"position": found, "n": counts[found]}


def _read_column(held: object, array: ArrowArray, form: str) -> Column:
    """Return the memory of an array as one of ours.

    The engine gets it back when nobody has that any more.
    """
    start, size = array.offset, array.length
    array_type = _ARRAYS.get(form)
    if array_type is None:
        values = _view(held, array.buffers[1], 16 * (start + size)).view(np.int64).reshape(-1, 2)
    else:
        kind = np.dtype(array_type)
        values = _view(held, array.buffers[1], kind.itemsize * (start + size)).view(kind)
    known = None
    if array.null_count and array.buffers[0]:
        bits = _view(held, array.buffers[0], (start + size + 7) // 8)
        known = np.unpackbits(bits, count=start + size, bitorder="little").view(bool)[start:]
    return Column(values[start:], known)


def _view(held: object, address: int, size: int) -> NDArray[np.uint8]:
    # Of a piece without rows there may be no memory at all.
    if not size:
        return np.empty(0, np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    # The array keeps `memory`, and that keeps what the engine lent.
    memory.held = held
    viewed: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
    return viewed


class NumberStream(LentStream):
    """A table of columns of numbers that the engine can scan as often as it likes.

    Parameters
    ----------
    formats : mapping of str to str
        Names of the columns, and the format of each by `find_format`.
    start : callable
        Returns a fresh iterator over the pieces of one scan.
    """

    def __init__(
        self, formats: dict[str, str], start: Callable[[], Iterator[Sequence[Column]]]
    ) -> None:
        super().__init__(
            partial(_write_schema, formats), lambda: (_lend_columns(piece) for piece in start())
        )


def _write_schema(formats: dict[str, str]) -> ArrowSchema:
    # With flag 2 a column may have missing values.
    return make_table_schema(
        [
            ArrowSchema(format=form.encode(), name=name.encode(), flags=2, release=release_schema)
            for name, form in formats.items()
        ]
    )


def _lend_columns(piece: Sequence[Column]) -> ArrowArray:
    columns, kept = [], []
    for given, known in piece:
        values = np.ascontiguousarray(given)
        bits = None if known is None else np.packbits(known, bitorder="little")
        buffers = (ctypes.c_void_p * 2)(
            None if bits is None else bits.ctypes.data, values.ctypes.data
        )
        kept.append((values, bits, buffers))
        columns.append(
            ArrowArray(
                length=len(values),
                # Not counted; with a list of what is missing that is -1.
                null_count=0 if bits is None else -1,
                n_buffers=2,
                buffers=buffers,
                release=release_array,
            )
        )
    return make_table(len(piece[0].values), columns, kept)
