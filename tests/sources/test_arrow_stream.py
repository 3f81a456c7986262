"""Streams of texts that are lent to the engine: what is lent is let go, also where the engine never asks for it."""

from __future__ import annotations

import gc
import weakref

import numpy as np

import sordino as sd
from sordino.sources import arrow_interface
from sordino.sources.csv.lines import TextBatch
from sordino.sources.engine import engine


def test_nothing_of_a_release_is_kept_when_it_is_over(tmp_path):
    """The engine asks for streams that it never reads, and may leave one in the middle: each holds a reader of rows."""
    file = tmp_path / "rows.csv"
    file.write_text("user,item\n" + "".join(f"u{row},a\n" for row in range(1000)))
    before = set(arrow_interface._LENT_OBJECTS)
    with sd.Session(file, unit=sd.PrivacyUnit("user"), entropy=sd.Seeded(1)) as session:
        for _ in range(3):
            session.top_k("item", k=1, epsilon=1, domain=["a", "b"])
            session.count_distinct_units(epsilon=1, where="item = 'a'")
    gc.collect()
    assert set(arrow_interface._LENT_OBJECTS) <= before


def test_a_stream_that_is_left_in_the_middle_is_let_go(tmp_path):
    class Rows:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration

    rows = Rows()
    gone = weakref.ref(rows)
    stream = arrow_interface.TextStream("x", lambda rows=rows: rows)
    before = set(arrow_interface._LENT_OBJECTS)
    capsule = stream.__arrow_c_stream__()
    assert set(arrow_interface._LENT_OBJECTS) > before
    del capsule, stream, rows
    gc.collect()
    assert gone() is None
    assert set(arrow_interface._LENT_OBJECTS) <= before


def test_a_column_of_numbers_travels_with_its_texts():
    """In batches of all sizes: each row keeps its own number."""

    def batches():
        for number, size in enumerate((1, 0, 5, 3000)):
            texts = [f"{number}-{row}" for row in range(size)]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
            numbers = np.full(size, number, dtype=np.int32)
            yield TextBatch(size, ends, "".join(texts).encode(), numbers)

    with engine() as opened:
        opened.connection.register("lent", arrow_interface.TextStream("x", batches, number="file"))
        rows = opened.connection.execute("SELECT x, file FROM lent").fetchall()
        assert len(rows) == 3006
        assert all(text.startswith(f"{number}-") for text, number in rows)
        [[most]] = opened.connection.execute("SELECT max(file) FROM lent").fetchall()
        assert most == 3
