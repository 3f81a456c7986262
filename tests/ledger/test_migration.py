"""A ledger of schema 4 becomes one of schema 5, and nothing that was spent is forgotten; older ones are refused."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ledger.fakes import child, finished, in_child, make, raw, refused, spent
from ledger.faults import Counter, failing
from ledger.older import call_schema, take_back
from ledger.test_kept import RECORD, kept, settled
from ledger.test_roles import ROLE, charger, owner  # noqa: F401  (two are fixtures)
from sordino.cost import Pure
from sordino.ledger import Ledger, schema
from sordino.ledger.store import sqlite

TOO_OLD = "has schema {} but this version of sordino knows schemas 4 to 8; make an account in it with an older"


def dumped(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def number_of(path):
    sqlite.close_all()
    return raw(path, "PRAGMA user_version")


# ---- schemas before 4 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.sample(2)
def test_a_schema_before_4_is_refused_and_left_as_it_is(place, version):
    ledger = make(place)
    charge = ledger.reserve(Pure(epsilon=0.1))
    call_schema(place, version)
    for use in (
        lambda: ledger.remaining,
        lambda: ledger.reserve(Pure(epsilon=0.1)),
        charge.settle,
        lambda: Ledger.open(place, account="orders"),
        lambda: Ledger.accounts(place),
        lambda: make(place, 1, "other"),
    ):
        said = refused(use, TOO_OLD.format(version))
        assert said.startswith(f"The ledger at {ledger._store.url!r} has schema")
        assert said.endswith("It was left as it is.")
    call_schema(place, schema.VERSION)
    assert [line.state for line in ledger.statement().charges] == ["reserved"]
    assert Ledger.accounts(place) == ("orders",)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.sample(1)
def test_not_a_byte_of_a_file_before_4_changes(tmp_path, mode):
    """Also not one with a log beside it, as those versions left them."""
    ledger = make(tmp_path / "budget.db")
    call_schema(ledger.url, 3)
    raw(ledger.url, f"PRAGMA journal_mode = {mode}")
    before = Path(ledger.url).read_bytes()
    assert before[18] == (2 if mode == "wal" else 1)
    for use in (
        lambda: ledger.remaining,
        lambda: ledger.reserve(Pure(epsilon=0.1)),
        lambda: make(ledger.url, 1, "other"),
        lambda: ledger.backup(tmp_path / "copy.db"),
    ):
        refused(use, TOO_OLD.format(3))
    sqlite.close_all()
    assert Path(ledger.url).read_bytes() == before
    assert not (tmp_path / "copy.db").exists()


def test_who_may_only_charge_a_server_is_told_the_same(owner, charger):  # noqa: F811
    call_schema(owner, 3)
    refused(lambda: Ledger.open(charger, account="orders"), TOO_OLD.format(3))


# ---- schema 4 --------------------------------------------------------------------------------------------------


def test_an_older_ledger_is_brought_up_to_date_and_loses_nothing(place):
    ledger = make(place)
    ledger.grant("team", 0.1).reserve(Pure(epsilon=0.05))
    first, left = kept(ledger), ledger.reserve(Pure(epsilon=0.01))
    heads = {name: Ledger.open(place, account=name).statement().head for name in ("orders", "team")}
    take_back(place)
    again = Ledger.open(place, account="orders")
    assert (again.statement().head, again.read_release(first.id)) == (heads["orders"], RECORD)
    assert again.read_release(kept(again).id) == RECORD
    left.draw(Pure(epsilon=0.01))
    left.settle()
    spent(again)
    for name, head in heads.items():
        assert Ledger.open(place, account=name).verify(head=head).sound
    with pytest.raises((sqlite3.DatabaseError, psycopg.Error)):
        raw(place, "DELETE FROM ~kept")


def test_an_older_file_is_read_as_it_is(tmp_path):
    """By somebody who may not write it, too; until the first charge."""
    ledger = make(tmp_path / "budget.db")
    key = kept(ledger).id
    take_back(ledger.url)
    before = Path(ledger.url).read_bytes()
    for _ in range(2):
        again = Ledger.open(ledger.url, account="orders")
        assert (again.charge(key).kept, again.verify().sound, len(list(again.export()))) == (
            1,
            True,
            6,
        )
        assert again.statement().reading == ""
    heads = again.backup(tmp_path / "copy.db")
    assert Path(ledger.url).read_bytes() == before
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.verify(head=heads["orders"]).sound
    for one in (copy, again):
        assert one.read_release(kept(one).id) == RECORD
        spent(one)
        assert number_of(one.url) == [(schema.VERSION,)]


def test_a_reader_sees_what_was_charged_since_by_another_process(tmp_path):
    ledger = make(tmp_path / "budget.db")
    take_back(ledger.url)
    assert ledger.statement().charges == ()

    def use():
        kept(Ledger.open(ledger.url, account="orders"))

    assert in_child(use) == 0
    assert [line.kept for line in ledger.statement().charges] == [1]


@pytest.mark.sample(4)
def test_many_processes_bring_one_ledger_up_to_date(place):
    make(place)
    take_back(place)

    def use():
        kept(Ledger.open(place, account="orders"))

    assert [finished(process) for process in [child(use) for _ in range(4)]] == [0] * 4
    ledger = Ledger.open(place, account="orders")
    assert [line.kept for line in ledger.statement().charges] == [1] * 4
    spent(ledger)


@pytest.mark.slow
def test_migrations_at_once_of_which_some_are_killed_lose_nothing(tmp_path):
    """Some are killed at random statements, some go on, and copies are made meanwhile."""
    chance = random.Random(11)
    for attempt in range(4):
        path = str(tmp_path / f"{attempt}.db")
        settled(make(path))
        take_back(path)

        def use(fatal, path=path):
            if fatal is not None:
                Counter(fatal).install()
            settled(Ledger.open(path, account="orders"))

        def look(path=path, attempt=attempt):
            Ledger.open(path, account="orders").backup(
                tmp_path / f"copy-{attempt}-{os.getpid()}.db"
            )

        fatals = [chance.randrange(60) for _ in range(4)]
        doomed = [child(lambda fatal=fatal: use(fatal)) for fatal in fatals]
        others = [child(lambda: use(None)) for _ in range(2)] + [child(look)]
        codes = [finished(process) for process in doomed]
        assert set(codes) <= {0, -9}
        assert [finished(process) for process in others] == [0] * 3
        ledger = Ledger.open(path, account="orders")
        assert 3 + codes.count(0) <= len(ledger.statement().charges) <= 3 + len(codes)
        spent(ledger)
        [copy] = tmp_path.glob(f"copy-{attempt}-*.db")
        spent(Ledger.open(copy, account="orders"))


@pytest.mark.slow
def test_a_kill_at_every_boundary_leaves_the_older_file_or_the_new_one(tmp_path):
    make(url := str(tmp_path / "dry.db"))
    take_back(url)
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        settled(Ledger.open(url, account="orders"))
        sqlite.close_all()
    migrated = max(n for n, boundary in enumerate(counter.seen) if "ADD COLUMN reading" in boundary)
    for fatal in range(migrated + 12):
        path = str(tmp_path / f"{fatal}.db")
        make(path)
        take_back(path)

        def killed(path=path, fatal=fatal):
            Counter(fatal).install()
            settled(Ledger.open(path, account="orders"))
            sqlite.close_all()

        assert in_child(killed) == -9
        ledger = Ledger.open(path, account="orders")
        assert ledger.read_release(kept(ledger).id) == RECORD
        spent(ledger)
        sqlite.close_all()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE])
@pytest.mark.sample(1)
def test_a_failure_on_the_way_leaves_the_older_file(tmp_path, monkeypatch, code):
    ledger = make(tmp_path / "budget.db")
    take_back(ledger.url)
    before = dumped(ledger.url)
    for words in ("ALTER", "DROP", "CREATE TRIGGER", "PRAGMA user_version ="):
        with monkeypatch.context() as patch:
            failed = failing(patch, code, lambda sql, words=words: sql.startswith(words))
            refused(
                lambda: settled(Ledger.open(ledger.url, account="orders")),
                "budget.db' could not be",
            )
            assert len(failed) == 1
        assert dumped(ledger.url) == before
        assert number_of(ledger.url) == [(4,)]
    settled(Ledger.open(ledger.url, account="orders"))
    assert number_of(ledger.url) == [(schema.VERSION,)]
    spent(ledger)


def test_an_older_file_that_is_read_only_is_read_and_not_charged():
    with tempfile.TemporaryDirectory() as folder:
        ledger = make(Path(folder) / "budget.db")
        take_back(ledger.url)
        before = Path(ledger.url).read_bytes()
        Path(ledger.url).chmod(0o444)
        Path(folder).chmod(0o755)

        def unprivileged():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            assert ledger.remaining == 1
            refused(lambda: settled(ledger), "is read-only, and charges must be written to it")

        assert in_child(unprivileged) == 0
        assert Path(ledger.url).read_bytes() == before
        Path(ledger.url).chmod(0o644)
        settled(ledger)
        spent(ledger)


def test_a_number_that_an_older_process_put_back_harms_nothing(tmp_path):
    ledger = make(tmp_path / "budget.db")
    charge = kept(ledger)
    call_schema(ledger.url, 4)
    assert Ledger.open(ledger.url, account="orders").read_release(charge.id) == RECORD
    kept(Ledger.open(ledger.url, account="orders"))
    assert number_of(ledger.url) == [(schema.VERSION,)]
    spent(ledger)


def test_on_a_server_only_the_owner_brings_a_ledger_up_to_date(owner, charger):  # noqa: F811
    """Until then nobody with this version charges it, and from then on nobody with an older one."""
    settled(Ledger.open(owner, account="orders"))
    take_back(owner)
    says = "has schema 4, that of an older version of sordino; its owner must open it once"
    assert "Nothing was charged." in refused(lambda: Ledger.open(charger, account="orders"), says)
    assert raw(owner, "SELECT max(version) FROM ~ledger") == [(4,)]
    # With other parameters, as it was then.
    raw(owner, "DROP FUNCTION ~reserve")
    raw(owner, "CREATE FUNCTION ~reserve(_a text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    raw(owner, f"GRANT EXECUTE ON FUNCTION ~reserve TO {ROLE}")
    assert Ledger.accounts(owner) == ("orders",)
    # What an older client calls is gone: there is one function of this name, and it asks for more.
    now = raw(owner, "SELECT pronargs FROM pg_proc WHERE proname = 'reserve'")
    assert now == [(len(schema.RESERVE.parameters),)]
    mine = Ledger.open(charger, account="orders")
    assert mine.read_release(kept(mine).id) == RECORD
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        raw(charger, "DELETE FROM ~kept")
    public = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'sordino'::regnamespace"
    public += " AND has_function_privilege('public', oid, 'EXECUTE')"
    assert raw(owner, public) == [(0,)]
    spent(Ledger.open(owner, account="orders"))
