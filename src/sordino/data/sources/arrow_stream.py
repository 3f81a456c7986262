"""Hands columns of texts to the engine through the Arrow C stream interface.

This needs a few structs and function pointers of `ctypes`, and no Arrow library. A stream lends the engine
the memory of bytes and arrays that Python made. They stay in `_LENT_OBJECTS` until the engine calls
`release`, or until nobody has the table of the stream any more: the engine asks for streams that it never
reads.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from sordino.data.csv.lines import TextBatch


class _ArrowSchema(ctypes.Structure):
    pass


class _ArrowArray(ctypes.Structure):
    pass


class _ArrowStream(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowSchema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowArray))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowStream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowSchema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowArray))
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ArrowStream))

# The fields as the Arrow C interface lays them out, in its order. They are given after all three classes,
# because the structs and the function pointers refer to each other.
_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", ctypes.POINTER(_ArrowSchema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", ctypes.POINTER(_ArrowArray)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
_ArrowStream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

# An error of the stream is a number and one constant text: what went wrong may depend on private rows.
_EIO = 5
_FAILURE_TEXT = ctypes.create_string_buffer(b"reading failed")
_LENT_OBJECTS: dict[int, Any] = {}
_LOAN_KEYS = count(1)


def _lend(*things: Any) -> int:
    """Keep things alive that the engine points to, and return the number under which they are released."""
    key = next(_LOAN_KEYS)
    _LENT_OBJECTS[key] = things
    return key


def _let_go(keys: list[int]) -> None:
    for key in keys:
        _LENT_OBJECTS.pop(key, None)


# By the rules of the interface, a structure whose `release` is a null pointer counts as released. Structures
# inside others have no key of their own, so releasing them lets go of nothing.
@_ReleaseSchema  # type: ignore[untyped-decorator]
def _release_schema(schema: Any) -> None:
    _LENT_OBJECTS.pop(schema.contents.private_data or 0, None)
    schema.contents.release = _ReleaseSchema()


@_ReleaseArray  # type: ignore[untyped-decorator]
def _release_array(array: Any) -> None:
    _LENT_OBJECTS.pop(array.contents.private_data or 0, None)
    array.contents.release = _ReleaseArray()


@_ReleaseStream  # type: ignore[untyped-decorator]
def _release_stream(stream: Any) -> None:
    _LENT_OBJECTS.pop(stream.contents.private_data or 0, None)
    stream.contents.release = _ReleaseStream()


@_GetSchema  # type: ignore[untyped-decorator]
def _get_schema(stream: Any, out: Any) -> int:
    # Private data of a stream is the number under which its names, width and batches are kept.
    name, width, number, _ = _LENT_OBJECTS[stream.contents.private_data]
    # In the interface "u" means texts with 32-bit offsets, "i" whole numbers of 32 bits, "+w:N" arrays of N
    # values, and "+s" a table.
    text = _ArrowSchema(format=b"u", name=name, release=_release_schema)
    texts = (ctypes.POINTER(_ArrowSchema) * 1)(ctypes.pointer(text))
    form = f"+w:{width}".encode()
    row = (
        text
        if width == 1
        else _ArrowSchema(format=form, name=name, n_children=1, children=texts, release=_release_schema)
    )
    whole = _ArrowSchema(format=b"i", name=number, release=_release_schema)
    children = (row,) if number is None else (row, whole)
    rows = (ctypes.POINTER(_ArrowSchema) * len(children))(*map(ctypes.pointer, children))
    # Only the outermost schema has a key: its release frees all of the others at once.
    key = _lend(text, texts, form, row, whole, number, rows)
    out[0] = _ArrowSchema(
        format=b"+s",
        name=b"",
        n_children=len(children),
        children=rows,
        release=_release_schema,
        private_data=key,
    )
    return 0


@_GetNext  # type: ignore[untyped-decorator]
def _get_next(stream: Any, out: Any) -> int:
    try:
        _, width, _, batches = _LENT_OBJECTS[stream.contents.private_data]
        batch = next(batches, None)
        # An array without `release` ends the stream.
        out[0] = _ArrowArray() if batch is None else _lend_array(batch, width)
    # Whatever it is must not leave a callback: Python would print the error, and with it private values.
    except BaseException:  # noqa: BLE001 - see above
        return _EIO
    return 0


@_GetLastError  # type: ignore[untyped-decorator]
def _get_last_error(_stream: Any) -> int:
    return ctypes.addressof(_FAILURE_TEXT)


def _lend_array(batch: TextBatch, width: int) -> _ArrowArray:
    buffers = (ctypes.c_void_p * 3)(
        None, batch.offsets.ctypes.data, ctypes.cast(ctypes.c_char_p(batch.data), ctypes.c_void_p).value
    )
    # A null pointer where the list of missing values would be: no text and no row is NULL.
    none = (ctypes.c_void_p * 1)(None)
    text = _ArrowArray(length=batch.size * width, n_buffers=3, buffers=buffers, release=_release_array)
    texts = (ctypes.POINTER(_ArrowArray) * 1)(ctypes.pointer(text))
    row = text if width == 1 else _make_nested_array(batch.size, none, texts)
    columns, figures = [row], None
    if batch.numbers is not None:
        figures = (ctypes.c_void_p * 2)(None, batch.numbers.ctypes.data)
        columns.append(_ArrowArray(length=batch.size, n_buffers=2, buffers=figures, release=_release_array))
    rows = (ctypes.POINTER(_ArrowArray) * len(columns))(*map(ctypes.pointer, columns))
    table = _make_nested_array(batch.size, none, rows)
    table.n_children = len(columns)
    # Only the table has a key: everything the engine may read is held until it releases the table.
    table.private_data = _lend(batch, buffers, figures, none, text, texts, columns, rows)
    return table


def _make_nested_array(size: int, none: Any, children: Any) -> _ArrowArray:
    """Return an array of lists or structs. Its only buffer, the list of missing values, is absent."""
    return _ArrowArray(
        length=size, n_buffers=1, n_children=1, buffers=none, children=children, release=_release_array
    )


_new_capsule = ctypes.pythonapi.PyCapsule_New
# Without these, `ctypes` would take results and arguments for numbers of 32 bits, and cut off pointers.
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class TextStream:
    """A table of one column of texts, without NULL; the engine can scan it as often as it likes.

    It may have a second column, of whole numbers of 32 bits.

    Parameters
    ----------
    column : str
        Name of the column.
    start : callable
        Returns a fresh iterator over the batches of one scan.
    width : int
        Texts of each row; more than one are an array of so many.
    number : str, optional
        Name of the column of numbers; then every batch has numbers.
    """

    def __init__(
        self,
        column: str,
        start: Callable[[], Iterator[TextBatch]],
        width: int = 1,
        number: str | None = None,
    ) -> None:
        self._name = column.encode()
        self._number = None if number is None else number.encode()
        self._width = width
        self._start = start
        # A capsule points into these structs, so they have to live as long as this object.
        self._streams: list[_ArrowStream] = []
        self._keys: list[int] = []
        # A stream that the engine did not release has a reader of rows, which must not outlive the table.
        weakref.finalize(self, _let_go, self._keys)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a new stream, as the Arrow PyCapsule interface wants it."""
        del requested_schema
        key = _lend(self._name, self._width, self._number, self._start())
        self._keys.append(key)
        stream = _ArrowStream(
            get_schema=_get_schema,
            get_next=_get_next,
            get_last_error=_get_last_error,
            release=_release_stream,
            private_data=key,
        )
        self._streams.append(stream)
        # No function that frees the struct: it belongs to this object, and the engine calls its `release`.
        return _new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)
