"""Private rows never raise, print or decide: nothing of them is in any error, and what can be checked before the charge is."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import signal
import threading
import time

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sordino.errors import DataSourceError, InvalidParameter, SordinoError, UnsupportedBackend
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import CsvFormat, open_source
from sordino.sources.csv import text_rows
from sordino.sources.engine import after_charge, engine
from sordino.sources.frames import as_text

CANARY = "canary-7f3a"


def chain(error):
    """Return everything that an error and all errors behind it could show."""
    seen, texts = [], []
    while error is not None and error not in seen:
        seen.append(error)
        texts += [repr(error), str(error), *map(repr, getattr(error, "__notes__", []))]
        error = error.__cause__ or error.__context__
    return seen, " ".join(texts)


def refused_after_charge(question, **options):
    with pytest.raises(DataSourceError) as caught:
        question.run(**options)
    seen, texts = chain(caught.value)
    assert len(seen) == 1
    assert str(caught.value) == DataSourceError.AFTER_CHARGE
    assert CANARY not in texts


def ask(source, **change):
    return prepare_counts(
        open_source(source),
        PrivacyUnit("user"),
        **{"kind": "items", "item": "item", "domain": ["a"], **change},
    )


def test_files_that_vanish_or_change(tmp_path, capfd):
    path = tmp_path / "x.csv"
    path.write_text(f"user,item\n1,{CANARY}\n")
    question = ask(path)
    path.write_text(f"user,item,{CANARY}\n1,a,b\n")
    refused_after_charge(question)
    path.unlink()
    refused_after_charge(question)
    assert capfd.readouterr() == ("", "")


def test_rotten_parquet(tmp_path, capfd):
    path = tmp_path / "x.parquet"
    pl.DataFrame(
        {"user": list(range(5000)), "item": [f"{CANARY}{i}" for i in range(5000)]}
    ).write_parquet(path, compression="uncompressed")
    question = ask(path)
    content = bytearray(path.read_bytes())
    content[4:6000] = bytes(reversed(content[4:6000]))
    path.write_bytes(bytes(content))
    with contextlib.suppress(SordinoError):
        question.run()
    path.write_bytes(path.read_bytes()[:-500])
    refused_after_charge(question)
    assert capfd.readouterr() == ("", "")


def test_a_lazy_frame_that_fails(capfd):
    frame = pl.LazyFrame({"user": [1, 2], "item": ["a", CANARY]}).with_columns(
        pl.col("item").str.to_integer().cast(pl.String).alias("item")
    )
    refused_after_charge(ask(frame))

    def fail(batch):
        raise RuntimeError(CANARY, batch)

    refused_after_charge(
        ask(
            pl.LazyFrame({"user": [1], "item": [CANARY]}).map_batches(
                fail, schema={"user": pl.Int64, "item": pl.String}
            )
        )
    )
    assert CANARY not in capfd.readouterr().out


def test_a_relation_that_fails():
    con = duckdb.connect()
    relation = con.sql(
        f"SELECT 1 AS user, CASE WHEN range > 5 THEN error('{CANARY}') ELSE 'a' END AS item FROM range(10)"
    )
    refused_after_charge(ask(relation))
    con.close()


def test_a_relation_keeps_its_connection_as_it_was():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS user, 'a' AS item")
    settings = con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    ask(con.sql("SELECT * FROM t")).run()
    assert (
        con.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
        == settings
    )
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)
    con.close()


class Hostile:
    def __str__(self):
        raise RuntimeError(CANARY)

    __repr__ = __hash__ = __eq__ = __len__ = __bool__ = __iter__ = __str__


class HostileText(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError(CANARY)

    __repr__ = encode = __str__


def test_objects_of_pandas_become_text_by_one_rule():
    values = [
        "a",
        HostileText("a"),
        1,
        np.int8(1),
        True,
        np.bool_(False),
        None,
        np.nan,
        pd.NA,
        1.0,
        -0.0,
        1.5,
        2.0**53 + 2,
        np.float32(7),
        dt.date(2020, 2, 29),
        np.inf,
        b"a",
        ["a"],
        Hostile(),
        "\ud800",
        10**5000,
    ]
    assert [as_text(value) for value in values] == [
        *(
            "a",
            "a",
            "1",
            "1",
            "true",
            "false",
            None,
            None,
            None,
            "1",
            "0",
            "1.5",
            "9007199254740994.0",
            "7",
            "2020-02-29",
            "inf",
            "a",
        ),
        *[None] * 4,
    ]
    column = np.empty(len(values), dtype=object)
    column[:] = values
    frame = pd.DataFrame({"user": list(range(len(values))), "item": column})
    question = ask(frame, domain=["a", "1", "true", "false", "1.0", "None", "nan"])
    assert dict(zip(question.domain.labels, question.run().values.tolist(), strict=True)) == {
        "1": 3, "1.0": 0, "None": 0, "a": 3, "false": 1, "nan": 0, "true": 1,
    }  # fmt: skip
    assert (
        open_source(frame).columns
        == open_source(frame.iloc[:1]).columns
        == {"user": "BIGINT", "item": "VARCHAR"}
    )


def test_types_are_declared_and_not_found_by_looking():
    for first, second in ((["1", "2"], ["x", None]), ([1, 2], ["x", 1.5]), ([None], [True])):
        columns = [
            open_source(pd.DataFrame({"item": pd.Series(v, dtype=object)})).columns["item"]
            for v in (first, second)
        ]
        assert columns == ["VARCHAR", "VARCHAR"]


def test_what_is_public_is_refused_before(tmp_path):
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "blank.csv").write_bytes(b"\nuser,item\n")
    (tmp_path / "mac.csv").write_bytes(b"a,b\rc,d\r")
    (tmp_path / "open.csv").write_bytes(b'a,"b\n')
    (tmp_path / "zip.csv").write_bytes(b"\x1f\x8b\x08\0\0\0")
    (tmp_path / "one.tsv").write_bytes(b"a\tb\n")
    (tmp_path / "two.tsv").write_bytes(b"a\tc\n")
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    (tmp_path / "x.json").write_bytes(b"{}")
    (tmp_path / "long.csv").write_bytes(b"a" * (3 << 20))
    for name, message in {
        "empty.csv": "begin with a header line",
        "blank.csv": "begin with a header line",
        "mac.csv": "must be one line",
        "open.csv": "quotes only around whole fields",
        "zip.csv": "call the file .gz or .zst",
        "long.csv": "1048576",
        "*.tsv": "same header line",
        "no.parquet": "must be readable",
        "nowhere.csv": "existing file",
        "*.none": "existing file",
        "duck.db": "existing file",
    }.items():
        with pytest.raises(DataSourceError, match=message):
            open_source(tmp_path / name)
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "p1.parquet")
    pl.DataFrame({"a": ["1"]}).write_parquet(tmp_path / "p2.parquet")
    with pytest.raises(DataSourceError, match="same columns and types"):
        open_source(tmp_path / "p?.parquet")
    with pytest.raises(DataSourceError, match="database file"):
        open_source(f"duckdb:{tmp_path}/x.json#t")
    with pytest.raises(DataSourceError, match="existing file"):
        open_source(f"duckdb:{tmp_path}/no.db#t")
    with pytest.raises(InvalidParameter, match="duckdb:FILE#TABLE"):
        open_source("duckdb:x.db")
    for strange in (
        tmp_path / "x.json",
        "s3://bucket/x.csv",
        [1, 2],
        3,
        None,
        np.zeros(3),
        pl.Series([1]),
    ):
        with pytest.raises(
            UnsupportedBackend, match="A source must be|I do not know the ending|got"
        ):
            open_source(strange)
    duckdb.connect(str(tmp_path / "t.db")).close()
    with pytest.raises(DataSourceError, match="'absent'"):
        open_source(f"duckdb:{tmp_path}/t.db#absent")


def test_wrong_formats():
    for change in ({"delimiter": ""}, {"delimiter": "ab"}, {"delimiter": "é"}, {"delimiter": "\n"}, {"delimiter": '"'}, {"quote": "ab"},
                   {"encoding": "utf-32"}, {"null": None}, {"header": False}, {"columns": ("a",)}, {"header": 1},
                   {"header": False, "columns": ["a"]}, {"header": False, "columns": (1,)}):  # fmt: skip
        with pytest.raises(InvalidParameter, match="CsvFormat"):
            CsvFormat(**change)


def test_identities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("user,item\n")
    assert (
        open_source("./x.csv").identity
        == open_source(tmp_path / "x.csv").identity
        == str(tmp_path / "x.csv")
    )
    assert open_source("*.csv").identity == str(tmp_path / "*.csv")
    frame = pl.DataFrame({"a": [1]})
    assert open_source(frame).identity is None
    assert open_source(frame, name="orders").identity == "name:orders"


def test_the_engine_sees_nothing_else(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    with engine() as opened:
        opened.close_doors(())
        for query in (
            f"SELECT * FROM '{tmp_path}/x.csv'",
            "SET threads = 1",
            "INSTALL httpfs",
            "SELECT * FROM CANARY",
            f"ATTACH '{tmp_path}/y.db'",
        ):
            with pytest.raises(duckdb.Error):
                opened.connection.execute(query)


def test_results_show_nothing():
    question = ask(pl.DataFrame({"user": [1], "item": [CANARY]}), domain=[CANARY])
    counts = question.run()
    assert CANARY not in repr(question)
    assert CANARY not in repr(counts)
    assert "1" not in repr(counts)


def endless(paths, form, header, read, repair):
    while True:
        read(10)
        time.sleep(0.001)
        yield b"1,a\n" * 1000


def test_an_interrupt_from_the_keyboard_stops_the_engine(tmp_path, monkeypatch, capfd):
    path = tmp_path / "x.csv"
    path.write_text("user,item\n1,a\n")
    question = ask(path)
    monkeypatch.setattr(text_rows, "kept_blocks", endless)
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        question.run()
    timer.join()
    assert chain(caught.value)[0] == [caught.value]
    assert not [thread for thread in threading.enumerate() if thread.name == "sordino-engine"]
    assert capfd.readouterr() == ("", "")


def test_progress(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("user,item\n1,a\n")
    question = ask(path)
    seen = []
    question.run(progress=seen.append)
    assert seen[-1] == 100
    monkeypatch.setattr(text_rows, "kept_blocks", endless)

    class Enough(Exception):
        pass

    def watch(percent):
        seen.append(percent)
        if len(seen) > 4:
            raise Enough

    with pytest.raises(Enough):
        question.run(progress=watch)
    assert all(0 <= percent <= 100 for percent in seen)


def test_whatever_happens_is_one_sentence():
    for failure in (
        RuntimeError(CANARY),
        MemoryError(CANARY),
        SystemExit(CANARY),
        KeyboardInterrupt(CANARY),
        DataSourceError(CANARY),
    ):

        def work(announce, failure=failure):
            raise failure

        with pytest.raises(DataSourceError) as caught:
            after_charge(work)
        assert chain(caught.value) == ([caught.value], f"{caught.value!r} {caught.value}")
        assert CANARY not in chain(caught.value)[1]
