"""Hands columns of texts to the engine through the Arrow C stream interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial

from sordino.sources.arrow_interface import (
    ArrowArray,
    ArrowSchema,
    LentStream,
    make_nested_array,
    make_table,
    make_table_schema,
    release_array,
    release_schema,
)
from sordino.sources.csv.lines import TextBatch


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
