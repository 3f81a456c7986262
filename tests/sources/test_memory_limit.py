"""A limit of memory is one of all engines of a question together, and changes no answer; a limit of room is asked for before the charge."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import duckdb
import polars as pl
import psycopg
import pytest

from sordino import Budget, CsvFormat, Ledger, PrivacyUnit, Session
from sordino.columns import BucketGrid
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import prepare_counts, prepare_numbers
from sordino.sources import engine as engines, memory, open_source
from sordino.sources.memory import LEAST, MEMORY, Limits, choose_memory, read_limit
from support.postgres import database

GRID = BucketGrid.geometric(lower=0, cap=64, growth=2)
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
    assert read_limit("memory_limit", said) == GOOD[said]


@pytest.mark.parametrize("said", BAD)
@pytest.mark.sample(2)
def test_what_is_no_size_is_refused(said):
    with pytest.raises(InvalidParameter, match="memory_limit must be a size of at least 512 MiB"):
        read_limit("memory_limit", said)


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
        question = prepare_counts(
            source, PrivacyUnit("user"), kind="items", item="item", domain=["a", "b"]
        )
        limits = list_limits(
            monkeypatch, lambda q=question: answers.append(q.run().values.tolist())
        )
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
            Session(
                tmp_path / "t.csv", unit=unit, ledger=None, csv=form, memory_limit="600MB"
            ) as session,
            session.batch(),
        ):
            session.sum("n", epsilon=1, lower=0, cap=10)
            session.count(epsilon=1)

    # What is asked before a row is read has no rows, and needs no limit.
    reading = [
        limit
        for limit in list_limits(monkeypatch, run)
        if limit != choose_memory(None, evaluates=True)
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


# ---- room on the disk ------------------------------------------------------------------------------------------------

HUGE = "900000TB"


@pytest.fixture
def account(tmp_path):
    pl.DataFrame({"user": ["u", "v"], "n": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    return Ledger.create(
        tmp_path / "budget.db",
        account="t",
        budget=Budget(epsilon=3),
        adjacency="add-remove",
        unit="user",
        source=tmp_path / "t.parquet",
    )


def test_room_that_is_not_free_is_refused_before_the_charge(tmp_path, account, monkeypatch):
    unit = PrivacyUnit("user", max_rows=1)
    with Session(tmp_path / "t.parquet", unit=unit, ledger=account, temp_limit=HUGE) as session:
        for ask in (session.count, session.plan.count):
            with pytest.raises(
                InvalidParameter,
                match=r"temp_limit \(--temp-limit\) must be at most what is free in",
            ):
                ask(epsilon=1)
    assert account.remaining == 3
    # It is looked at before each charge: a session may be open for long.
    with Session(tmp_path / "t.parquet", unit=unit, ledger=account, temp_limit="512MiB") as session:
        session.count(epsilon=1)
        monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: SimpleNamespace(free=LEAST - 1))
        with pytest.raises(InvalidParameter, match="Set TMPDIR to a folder with more room"):
            session.sum("n", epsilon=1, lower=0, cap=10)
        monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: SimpleNamespace(free=LEAST))
        session.count(epsilon=1)
    assert account.remaining == 1


def test_every_engine_gets_it(tmp_path, monkeypatch):
    pl.DataFrame({"user": ["u"], "n": [1]}).write_parquet(tmp_path / "t.parquet")
    seen = []
    true = engines.Engine.close_doors

    def close(self, paths):
        true(self, paths)
        seen.extend(
            self.connection.execute("SELECT current_setting('max_temp_directory_size')").fetchone()
        )

    monkeypatch.setattr(engines.Engine, "close_doors", close)
    for limit, said in (("1GiB", ["1.0 GiB"] * 2), (None, ["90% of available disk space"] * 2)):
        source = open_source(tmp_path / "t.parquet", temp_limit=limit)
        question = prepare_counts(source, PrivacyUnit("user"), kind="units")
        seen.clear()
        question.run()
        assert seen == said


@pytest.mark.parametrize("temp", [1 << 20, None])
@pytest.mark.slow
def test_what_needs_more_room_ends_in_the_constant_sentence_and_stays_charged(tmp_path, temp):
    path = tmp_path / "long.parquet"
    who = "repeat('a long name ', 20) || (i * 7919) % 300000"
    duckdb.sql(
        f"COPY (SELECT {who} AS user, i % 13 AS n FROM range(600000) t(i)) TO '{path}' (ROW_GROUP_SIZE 10000)"
    )
    source = open_source(path)
    source = replace(
        source, backend=replace(source.backend, limits=Limits(memory=200 << 20, temp=temp))
    )
    question = prepare_numbers(
        source, PrivacyUnit("user", max_rows=1), column="n", grid=GRID, salt=b"0123456789abcdef"
    )
    if temp is None:
        [counts] = question.run()
        assert counts.counts.sum() == 300_000
    else:
        with pytest.raises(DataSourceError) as caught:
            question.run()
        assert str(caught.value) == str(DataSourceError.after_charge())


def test_a_server_has_no_room_of_ours():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA roomy")
        connection.execute("CREATE TABLE roomy.rows (a int)")
        with pytest.raises(
            InvalidParameter, match="temp_limit is for tables that our own engine reads"
        ):
            open_source(f"{database()}#roomy.rows", temp_limit="1GB")
        connection.execute("DROP SCHEMA roomy CASCADE")
