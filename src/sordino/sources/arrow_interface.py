"""The Arrow C stream interface: a few structs and function pointers of `ctypes`, no Arrow library.

A stream lends the engine the memory of bytes and arrays that Python made, such as columns of texts.
They stay in `_LENT_OBJECTS` until the engine calls `release`, or until nobody has the table of the
stream any more: the engine asks for streams that it never reads.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from sordino.sources.csv.lines import TextBatch


class ArrowSchema(ctypes.Structure):
    """The names and types of columns."""


class ArrowArray(ctypes.Structure):
    """Columns, or one of them."""


class ArrowStream(ctypes.Structure):
    """Tables, one after the other."""


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowStream))
_GetSchema = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ArrowStream), ctypes.POINTER(ArrowSchema)
)
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowStream), ctypes.POINTER(ArrowArray))
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ArrowStream))

# The fields as the Arrow C interface lays them out, in its order. They are given after all three
# classes, because the structs and the function pointers refer to each other.
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
ArrowStream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

# An error of the stream is a number and one constant text: what went wrong may depend on private
# rows.
_EIO = 5
_FAILURE_TEXT = ctypes.create_string_buffer(b"reading failed")
_LENT_OBJECTS: dict[int, Any] = {}
_LOAN_KEYS = count(1)


def lend(*things: Any) -> int:
    """Keep alive what the engine points to, and return the number under which it is released."""
    key = next(_LOAN_KEYS)
    _LENT_OBJECTS[key] = things
    return key


def _let_go_of_keys(keys: list[int]) -> None:
    for key in keys:
        _LENT_OBJECTS.pop(key, None)


# By the rules of the interface, a structure whose `release` is a null pointer counts as released.
# Structures inside others have no key of their own, so releasing them lets go of nothing.
@_ReleaseSchema  # type: ignore[untyped-decorator]
def release_schema(schema: Any) -> None:
    """Let go of what a schema points to."""
    _LENT_OBJECTS.pop(schema.contents.private_data or 0, None)
    schema.contents.release = _ReleaseSchema()


@_ReleaseArray  # type: ignore[untyped-decorator]
def release_array(array: Any) -> None:
    """Let go of what an array points to."""
    _LENT_OBJECTS.pop(array.contents.private_data or 0, None)
    array.contents.release = _ReleaseArray()


@_ReleaseStream  # type: ignore[untyped-decorator]
def _release_stream(stream: Any) -> None:
    _LENT_OBJECTS.pop(stream.contents.private_data or 0, None)
    stream.contents.release = _ReleaseStream()


@_GetSchema  # type: ignore[untyped-decorator]
def _get_schema(stream: Any, out: Any) -> int:
    try:
        # Private data of a stream is the number under which its schema and its arrays are kept.
        write_schema, _ = _LENT_OBJECTS[stream.contents.private_data]
        out[0] = write_schema()
    # Whatever it is must not leave a callback: Python would print the error, and with it private
    # values.
    except BaseException:  # noqa: BLE001 - see above
        return _EIO
    return 0


@_GetNext  # type: ignore[untyped-decorator]
def _get_next(stream: Any, out: Any) -> int:
    try:
        _, arrays = _LENT_OBJECTS[stream.contents.private_data]
        array = next(arrays, None)
        # An array without `release` ends the stream.
        out[0] = ArrowArray() if array is None else array
    except BaseException:  # noqa: BLE001 - as above
        return _EIO
    return 0


@_GetLastError  # type: ignore[untyped-decorator]
def _get_last_error(_stream: Any) -> int:
    return ctypes.addressof(_FAILURE_TEXT)


def make_table_schema(children: Any, *kept: Any) -> ArrowSchema:
    """Return the schema of a table; it and whatever is in it live until it is released."""
    rows = (ctypes.POINTER(ArrowSchema) * len(children))(*map(ctypes.pointer, children))
    # Only the outermost schema has a key: its release frees all of the others at once.
    return ArrowSchema(
        format=b"+s",
        name=b"",
        n_children=len(children),
        children=rows,
        release=release_schema,
        private_data=lend(children, rows, *kept),
    )


def make_table(size: int, columns: Any, *kept: Any) -> ArrowArray:
    """Return the array of a table.

    Everything the engine may read is held until it releases the table.
    """
    rows = (ctypes.POINTER(ArrowArray) * len(columns))(*map(ctypes.pointer, columns))
    none = (ctypes.c_void_p * 1)(None)
    table = make_nested_array(size, none, rows)
    table.n_children = len(columns)
    table.private_data = lend(columns, rows, none, *kept)
    return table


def make_nested_array(size: int, none: Any, children: Any) -> ArrowArray:
    """Return an array of lists or structs.

    Its only buffer, the list of missing values, is absent.
    """
    return ArrowArray(
        length=size,
        n_buffers=1,
        n_children=1,
        buffers=none,
        children=children,
        release=release_array,
    )


_new_capsule = ctypes.pythonapi.PyCapsule_New
# Without these, `ctypes` would take results and arguments for numbers of 32 bits, and cut off
# pointers.
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_CAPSULE = b"arrow_array_stream"


class LentStream:
    """A table that the engine can scan as often as it likes.

    Parameters
    ----------
    write_schema : callable
        Returns the schema of the table.
    start : callable
        Returns a fresh iterator over the arrays of one scan.
    """

    def __init__(
        self, write_schema: Callable[[], ArrowSchema], start: Callable[[], Iterator[ArrowArray]]
    ) -> None:
        self._write_schema, self._start = write_schema, start
        # A capsule points into these structs, so they have to live as long as this object.
        self._streams: list[ArrowStream] = []
        self._keys: list[int] = []
        # A stream that the engine did not release has a reader of rows, which must not outlive the
        # table.
        weakref.finalize(self, _let_go_of_keys, self._keys)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a new stream, as the Arrow PyCapsule interface wants it."""
        del requested_schema
        key = lend(self._write_schema, self._start())
        self._keys.append(key)
        stream = ArrowStream(
            get_schema=_get_schema,
            get_next=_get_next,
            get_last_error=_get_last_error,
            release=_release_stream,
            private_data=key,
        )
        self._streams.append(stream)
        # No function that frees the struct: it belongs to this object, and the engine calls its
        # `release`.
        return _new_capsule(ctypes.addressof(stream), _CAPSULE, None)


class _Held:
    """An array that an engine has lent us.

    It is given back when nobody has any of its memory any more.
    """

    def __init__(self) -> None:
        self.array = ArrowArray()
        # Not at the end of the program: the engine may be gone by then.
        weakref.finalize(self, _give_back, self.array).atexit = False


def _give_back(array: ArrowArray) -> None:
    if array.release:
        array.release(ctypes.byref(array))


def read_arrays(made: Any, formats: Sequence[bytes]) -> Generator[tuple[_Held, ArrowArray]]:
    """Yield the tables of a stream that an engine makes, each with what keeps its memory.

    Parameters
    ----------
    made : object
        With a method `__arrow_c_stream__`.
    formats : sequence of bytes
        Of the columns, as the interface writes them.

    Raises
    ------
    OSError
        If the engine fails, or sends something else; the message is constant.
    """
    # Kept until the end: the capsule owns the stream.
    capsule = made.__arrow_c_stream__()
    stream = ArrowStream.from_address(_get_pointer(capsule, _CAPSULE))
    try:
        _check_formats(stream, formats)
        while True:
            held = _Held()
            if stream.get_next(ctypes.byref(stream), ctypes.byref(held.array)):
                raise OSError(_FAILURE_TEXT.value.decode())
            # An array without `release` ends the stream.
            if not held.array.release:
                return
            # Columns are read from their own offsets alone.
            if held.array.offset:
                raise OSError(_FAILURE_TEXT.value.decode())
            yield held, held.array
    finally:
        if stream.release:
            stream.release(ctypes.byref(stream))
        del capsule


def _check_formats(stream: ArrowStream, formats: Sequence[bytes]) -> None:
    """Refuse a stream whose columns are laid out otherwise than is expected."""
    schema = ArrowSchema()
    if stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)):
        raise OSError(_FAILURE_TEXT.value.decode())
    found = [schema.children[place].contents.format for place in range(schema.n_children)]
    schema.release(ctypes.byref(schema))
    if found != list(formats):
        raise OSError(_FAILURE_TEXT.value.decode())


def _write_stream_schema(name: bytes, width: int, number: bytes | None) -> ArrowSchema:
    # In the interface "u" means texts with 32-bit offsets, "i" whole numbers of 32 bits, "+w:N"
    # arrays of N values, and "+s" a table.
    text = ArrowSchema(format=b"u", name=name, release=release_schema)
    texts = (ctypes.POINTER(ArrowSchema) * 1)(ctypes.pointer(text))
    form = f"+w:{width}".encode()
    row = (
        text
        if width == 1
        else ArrowSchema(
            format=form, name=name, n_children=1, children=texts, release=release_schema
        )
    )
    columns = [row]
    if number is not None:
        columns.append(ArrowSchema(format=b"i", name=number, release=release_schema))
    return make_table_schema(columns, text, texts, form, name, number)


def _lend_array(batch: TextBatch, width: int) -> ArrowArray:
    buffers = (ctypes.c_void_p * 3)(
        None,
        batch.offsets.ctypes.data,
        ctypes.cast(ctypes.c_char_p(batch.data), ctypes.c_void_p).value,
    )
    # A null pointer where the list of missing values would be: no text and no row is NULL.
    none = (ctypes.c_void_p * 1)(None)
    text = ArrowArray(
        length=batch.size * width, n_buffers=3, buffers=buffers, release=release_array
    )
    texts = (ctypes.POINTER(ArrowArray) * 1)(ctypes.pointer(text))
    columns, figures = [text if width == 1 else make_nested_array(batch.size, none, texts)], None
    if batch.numbers is not None:
        figures = (ctypes.c_void_p * 2)(None, batch.numbers.ctypes.data)
        columns.append(
            ArrowArray(length=batch.size, n_buffers=2, buffers=figures, release=release_array)
        )
    return make_table(batch.size, columns, batch, buffers, figures, none, text, texts)


class TextStream(LentStream):
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
        name, numbers = column.encode(), None if number is None else number.encode()
        super().__init__(
            partial(_write_stream_schema, name, width, numbers),
            lambda: (_lend_array(batch, width) for batch in start()),
        )
