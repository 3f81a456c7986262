"""`Session.keep`: a release is kept by the session that made it, in the form that the command prints."""

from __future__ import annotations

import csv
import gc
import json
import pickle

import polars as pl
import pytest

import sordino as sd
from sordino.cli import run
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.record import Record

ITEMS = ["coffee", "rice", "tea"]
COLUMN = {"epsilon": 1, "cap": 100}
RELEASES = {
    "top_k": lambda s: s.top_k("item", k=2, epsilon=1, domain=ITEMS),
    "top_k of none": lambda s: s.top_k("item", k=2, epsilon=1, domain=ITEMS, threshold=10**6),
    "above": lambda s: s.above("item", threshold=-99, positives=2, epsilon=1, domain=ITEMS),
    "histogram": lambda s: s.histogram("item", epsilon=1, domain=ITEMS),
    "histogram within bounds": lambda s: s.histogram(
        "item", epsilon=1, domain=ITEMS, bounds=(0, 50)
    ),
    "count": lambda s: s.count(epsilon=1),
    "count_distinct_units": lambda s: s.count_distinct_units(epsilon=1),
    "quantile": lambda s: s.quantile("x", q=0.5, lower=0, **COLUMN),
    "quantiles": lambda s: s.quantile("x", q=(0.2, 0.8), lower=0, **COLUMN),
    "sum": lambda s: s.sum("x", lower=0, **COLUMN),
    "sum within bounds": lambda s: s.sum("x", lower=0, bounds=(0, 5000), **COLUMN),
    "mean": lambda s: s.mean("x", lower=0, **COLUMN),
    "variance": lambda s: s.variance("x", lower=None, **COLUMN),
    "sum by group": lambda s: s.sum(
        "x", lower=0, by="item", domain=ITEMS, groups_per_unit=1, **COLUMN
    ),
    "quantiles by group": lambda s: s.quantile(
        "x", q=(0.2, 0.8), lower=0, by="item", domain=ITEMS, groups_per_unit=1, **COLUMN
    ),
    "histogram above": lambda s: s.histogram("item", epsilon=1, domain=ITEMS, threshold=9),
}


@pytest.fixture
def orders():
    return pl.DataFrame(
        {
            "u": [f"u{n}" for n in range(60)],
            "item": [ITEMS[n % 7 % 3] for n in range(60)],
            "x": [float(n % 13) for n in range(60)],
        }
    )


@pytest.fixture
def ledger(tmp_path):
    about = {"adjacency": "add-remove", "unit": sd.PrivacyUnit("u"), "source": "name:orders"}
    return sd.Ledger.create(
        tmp_path / "budget.db", account="orders", budget=sd.Budget(epsilon=90), **about
    )


@pytest.fixture
def session(orders, ledger):
    return sd.Session(orders, unit=sd.PrivacyUnit("u", max_rows=1), ledger=ledger, name="orders")


def printed(ledger, key, capsys, form, *more):
    capsys.readouterr()
    line = [
        "ledger",
        "release",
        key,
        "--ledger",
        ledger.url,
        "--account",
        "orders",
        "--format",
        form,
        *more,
    ]
    assert run(line) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.sample(4)
def test_what_is_kept_says_what_the_release_says(session, ledger, capsys, name):
    release = RELEASES[name](session)
    session.keep(release)
    again = ledger.read_release(release.receipt.id)
    told, facts = release.to_dict(), again.facts
    assert facts["figure"] == told["population"]["figure"]
    assert (facts["id"], facts["account"], facts["time"]) == tuple(
        told["receipt"][n] for n in ("id", "account", "time")
    )
    assert (facts["cost"], facts["simulated"], facts["mechanism"]) == (
        told["cost"],
        False,
        told["mechanism"],
    )
    assert (facts["unit"], facts["adjacency"], facts["max_rows"]) == ("column u", "add-remove", 1)
    assert json.loads(printed(ledger, release.receipt.id, capsys, "json"))["rows"] == again.rows
    lines = printed(ledger, release.receipt.id, capsys, "csv").splitlines()
    assert len(lines) == 1 + len(again.rows)
    table = printed(ledger, release.receipt.id, capsys, "table", "--details")
    assert f"Charge: {release.receipt.id} of account orders" in table
    if "rows" in told and "group" not in name:
        assert len(again.rows) == len(told["rows"])
        assert all(
            row.items() <= own.items() for row, own in zip(again.rows, told["rows"], strict=True)
        )
    elif "group" not in name:
        ones = release if isinstance(release, sd.QuantileValues) else (release,)
        assert [row["estimate"] for row in again.rows] == [one.estimate for one in ones]
    else:
        flat = [
            (row.item, one.estimate)
            for row in release
            for one in (
                row.release if isinstance(row.release, sd.QuantileValues) else (row.release,)
            )
        ]
        assert [(row["item"], row["estimate"]) for row in again.rows] == flat
    assert all(list(row) == again.columns for row in again.rows)


@pytest.mark.parametrize(
    "name", ["quantile", "quantiles", "sum", "sum within bounds", "sum by group"]
)
@pytest.mark.sample(4)
def test_the_share_of_numbers_is_kept_by_the_names_that_the_command_has(
    session, ledger, capsys, monkeypatch, name
):
    monkeypatch.setitem(COLUMN, "numbers_share", 0.1)
    release = RELEASES[name](session)
    session.keep(release)
    share = release.numbers_share
    told = {
        "numbers_share": share.estimate,
        "numbers_share_low": share.low,
        "numbers_share_high": share.high,
    }
    again = ledger.read_release(release.receipt.id)
    assert {key: again.facts[key] for key in told} == told
    # It is about the release, and no cell of a row holds an object.
    assert "numbers_share" not in again.columns
    header, *lines = csv.reader(printed(ledger, release.receipt.id, capsys, "csv").splitlines())
    for line in lines:
        found = dict(zip(header, line, strict=True))
        # A share that the noisy counts tell nothing about is an empty cell.
        read = {key: float(found[key]) if found[key] else None for key in told}
        assert read == {key: pytest.approx(value) for key, value in told.items()}


def test_releases_of_a_batch_are_parts_of_one_charge(session, ledger, capsys):
    with session.batch() as batch:
        top = session.top_k("item", k=2, epsilon=1, domain=ITEMS)
        total = session.sum("x", lower=0, **COLUMN)
        with pytest.raises(InvalidParameter, match="after its `with` block"):
            session.keep(top)
    session.keep(total)
    session.keep(top)
    key = total.receipt.id
    assert key == top.receipt.id
    assert [ledger.read_release(key, part=n).facts["release"] for n in (1, 2)] == ["sum", "top"]
    assert len(batch.asked) == ledger.charge(key).kept == 2


def test_a_sheet_of_ones_own_is_kept_as_it_is(session, ledger):
    release = session.count(epsilon=1)
    record = Record(
        facts={"release": "count"},
        columns=["n"],
        rows=[{"n": release.estimate}],
        notes=[],
        hidden=[],
    )
    session.keep(release, record)
    assert ledger.read_release(release.receipt.id) == record


def test_only_the_session_that_made_a_release_keeps_it(session, ledger, orders):
    release = session.count(epsilon=1)
    other = sd.Session(orders, unit=sd.PrivacyUnit("u", max_rows=1), ledger=ledger, name="orders")
    alone = sd.Session(orders, unit=sd.PrivacyUnit("u", max_rows=1), ledger=None)
    seeded = sd.Session(orders, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(7))
    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    for who, what in (
        (other, release),
        (alone, alone.count(epsilon=1)),
        (seeded, seeded.count(epsilon=1)),
        (session, seeded.count(epsilon=1)),
        (session, mechanism.release(5, entropy=sd.Seeded(7))),
        (session, None),
        (session, release.receipt),
        (session, {"receipt": release.receipt}),
    ):
        with pytest.raises(
            InvalidParameter, match=r"Session\.keep (takes a release that|does not take)"
        ):
            who.keep(what)
    # A copy of the release is as good as itself.
    session.keep(pickle.loads(pickle.dumps(release)))
    assert ledger.charge(release.receipt.id).kept == 1


def test_reports_of_rows_are_not_kept(tmp_path, orders):
    unit = sd.PrivacyUnit("u", adjacency="replace-one", max_rows=1)
    about = {"adjacency": "replace-one", "unit": unit, "source": "name:orders"}
    ledger = sd.Ledger.create(
        tmp_path / "other.db", account="orders", budget=sd.Budget(epsilon=9), **about
    )
    session = sd.Session(orders, unit=unit, ledger=ledger, name="orders")
    for write in (None, lambda block: None):
        reports = session.randomize("x", lower=0, upper=12, epsilon=1, write=write)
        with pytest.raises(InvalidParameter, match="as long as the table"):
            session.keep(reports)


@pytest.mark.slow
def test_a_session_remembers_a_charge_as_long_as_its_release(session):
    payments = session._executor.payments._payers
    kept = session.count(epsilon=1)
    for _ in range(3):
        session.quantile("x", q=(0.2, 0.8), lower=0, **COLUMN)
    gc.collect()
    assert [receipt.id for receipt in payments] == [kept.receipt.id]
    session.keep(kept)


def test_a_ledger_that_is_away_raises_and_the_release_stays(session, ledger, monkeypatch):
    from sordino.ledger.account import charge

    release = session.count(epsilon=1)

    def away(*_given, **_named):
        raise LedgerError("The ledger cannot be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(charge, "carry_out", away)
        with pytest.raises(LedgerError, match="cannot be reached"):
            session.keep(release)
    session.keep(release)
    assert ledger.charge(release.receipt.id).kept == 1


def test_a_release_whose_charge_could_not_be_settled_is_not_kept(session, ledger, monkeypatch):
    from sordino.ledger import Charge

    def away(_charge):
        raise LedgerError("The ledger cannot be reached.")

    monkeypatch.setattr(Charge, "settle", away)
    release = session.count(epsilon=1)
    with pytest.raises(LedgerConflict, match="must have been settled"):
        session.keep(release)
    assert ledger.charge(release.receipt.id).kept == 0
