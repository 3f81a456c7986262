"""A limit of memory is one of all engines of a question together, and changes no answer."""

from __future__ import annotations

import duckdb
import polars as pl
import psycopg
import pytest

from sordino import CsvFormat, PrivacyUnit, Session
from sordino.data import open_source, prepare_counts
from sordino.data.sources import engine as engines
from sordino.data.sources.memory import LEAST, MEMORY, choose_memory, read_memory_limit
from sordino.errors import InvalidParameter
from support.postgres import database

GOOD = {
    "2GB": 2 * 10**9, "2 gb": 2 * 10**9, "2G": 2 * 10**9, "1.5GiB": 3 << 29, "800MB": 800 * 10**6, "0.55GB": 550 * 10**6,
    1 << 30: 1 << 30, str(LEAST): LEAST, "512MiB": LEAST, "1TB": 10**12,
}  # fmt: skip
BAD = [
    "",
    "2",
    "511MiB",
    LEAST - 1,
    "-1GB",
    "1e9",
    "all",
    "80%",
    2.5,
    True,
    None,
    "1 GB GB",
    "9" * 30,
    1 << 60,
    "1.2345GB",
]


@pytest.mark.parametrize("said", GOOD)
def test_sizes_are_read(said):
    assert read_memory_limit("memory_limit", said) == GOOD[said]


@pytest.mark.parametrize("said", BAD)
def test_what_is_no_size_is_refused(said):
    with pytest.raises(InvalidParameter, match="memory_limit must be a size of at least 512 MiB"):
        read_memory_limit("memory_limit", said)


def list_limits(monkeypatch, run):
    """Return the limits, in bytes, of all engines that are open while something runs."""
    seen = []
    true = duckdb.connect

    def connect(*arguments, config, **more):
        seen.append(int(config["memory_limit"].removesuffix("B")))
        return true(*arguments, config=config, **more)

    monkeypatch.setattr(engines.duckdb, "connect", connect)
    run()
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_all_engines_of_a_question_keep_it_together(tmp_path, monkeypatch, kind):
    frame = pl.DataFrame({"user": ["u", "v", "u"], "item": ["a", "b", "a"]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    path = frame if kind == "frame" else tmp_path / f"t.{kind}"
    limited, free = (open_source(path, memory_limit=limit) for limit in ("1GB", None))
    answers = []
    for source, most in ((limited, 10**9), (free, None)):
        question = prepare_counts(source, PrivacyUnit("user"), kind="items", item="item", domain=["a", "b"])
        limits = list_limits(monkeypatch, lambda q=question: answers.append(q.run().values.tolist()))
        assert len(limits) == (2 if kind == "parquet" else 1)
        if most is None:
            assert set(limits) == {choose_memory(None, evaluates=True)}
            assert limits[0] <= MEMORY
        else:
            assert sum(limits) <= most
            assert max(limits) == 8 * 10**8
    assert answers == [[1, 1], [1, 1]]


def test_a_batch_keeps_it_too(tmp_path, monkeypatch):
    pl.DataFrame({"user": ["u"], "n": [1]}).write_csv(tmp_path / "t.csv")
    form = CsvFormat(types={"n": "integer"})

    def run():
        unit = PrivacyUnit("user", max_rows=1)
        with (
            Session(tmp_path / "t.csv", unit=unit, ledger=None, csv=form, memory_limit="600MB") as session,
            session.batch(),
        ):
            session.sum("n", epsilon=1, lower=0, cap=10)
            session.count(epsilon=1)

    # What is asked before a row is read has no rows, and needs no limit.
    reading = [
        limit for limit in list_limits(monkeypatch, run) if limit != choose_memory(None, evaluates=True)
    ]
    assert reading
    assert max(reading) == 480 * 10**6


def test_a_server_has_limits_of_its_own():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA limited")
        connection.execute("CREATE TABLE limited.rows (a int)")
        with pytest.raises(InvalidParameter, match="a server has limits of its own"):
            open_source(f"{database()}#limited.rows", memory_limit="1GB")
        connection.execute("DROP SCHEMA limited CASCADE")
