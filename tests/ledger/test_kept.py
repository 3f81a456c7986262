"""What a settled charge released is kept, once and for good: nobody adds to it, changes it or takes it away unseen."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress

import psycopg
import pytest

from ledger.fakes import REAL, Mechanism, in_child, make, raw, refused, spent
from ledger.test_roles import called, charger, owner  # noqa: F401  (two are fixtures)
from sordino import record as record_module
from sordino.cost import Pure
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger import Ledger, schema
from sordino.ledger.history import chained
from sordino.record import Record

RECORD = Record(
    facts={"release": "count", "epsilon": 0.5, "where": None},
    columns=["item", "estimate"],
    rows=[{"item": "tea", "estimate": 118.5}],
    notes=["Spent: epsilon 0.5."],
    hidden=["estimate"],
    counts=False,
)
LABELS = [
    "",
    "prix d'été",
    "a\0b",
    "\ud800",
    "𝄞",
    '"quoted", \\',
    "\r\n\t",
    "</table>",
    "$sordino$",
    "% :key ~",
]


def settled(ledger, epsilon=0.1):
    with ledger.reserve(Pure(epsilon=epsilon)) as charge:
        charge.release(Mechanism(epsilon), [1], entropy=REAL)
    return charge


def kept(ledger, *records):
    charge = settled(ledger)
    for one in records or (RECORD,):
        charge.keep(one)
    return charge


def test_what_is_kept_comes_back_as_it_was(ledger, place):
    charge = kept(ledger)
    again = Ledger.open(place, account="orders").read_release(charge.id)
    assert again == RECORD
    assert list(again.facts) == list(RECORD.facts), "what is printed has an order"
    assert (ledger.charge(charge.id).kept, ledger.charge(settled(ledger).id).kept) == (1, 0)
    assert [line.to_dict()["kept"] for line in ledger.statement().charges] == [1, 0]
    spent(ledger)


def test_labels_of_any_letters_come_back(ledger):
    facts = {label: label for label in LABELS}
    rows = [dict.fromkeys(LABELS, label) for label in LABELS]
    record = Record(facts=facts, columns=LABELS, rows=rows, notes=LABELS, hidden=[])
    assert ledger.read_release(kept(ledger, record).id) == record
    spent(ledger)


def test_a_large_sheet_is_kept_whole(ledger):
    rows = [{"item": f"item {n}", "estimate": n / 7} for n in range(20_000)]
    record = Record(facts={}, columns=["item", "estimate"], rows=rows, notes=[], hidden=[])
    charge = kept(ledger, record)
    assert ledger.read_release(charge.id) == record
    settled(ledger)
    spent(ledger)


def test_several_of_one_charge_are_numbered_as_they_come(ledger):
    records = [Record(facts={"n": n}, columns=[], rows=[], notes=[], hidden=[]) for n in range(3)]
    charge = kept(ledger, *records)
    assert [ledger.read_release(charge.id, part=n) for n in (1, 2, 3)] == records
    for part in (4, 100):
        with pytest.raises(InvalidParameter, match="from 1 to 3"):
            ledger.read_release(charge.id, part=part)
    with pytest.raises(InvalidParameter, match=r"release\.part"):
        ledger.read_release(charge.id, part=0)
    spent(ledger)


def test_what_is_not_there_is_refused_with_what_to_do(ledger):
    refused(lambda: ledger.read_release(settled(ledger).id), "has not kept the release of charge")
    refused(lambda: ledger.read_release("9f" * 16), "There is no charge")
    other = ledger.grant("team", 0.2)
    refused(lambda: other.read_release(kept(ledger).id), "There is no charge")


def failed(ledger):
    charge = ledger.reserve(Pure(epsilon=0.1))
    with suppress(ValueError), charge:
        charge.release(Mechanism(0.1), [1], entropy=REAL)
        raise ValueError
    return charge


def still_open(ledger):
    charge = ledger.reserve(Pure(epsilon=0.1))
    charge.release(Mechanism(0.1), [1], entropy=REAL)
    return charge


def voided(ledger):
    charge = failed(ledger)
    ledger.void(charge.id, reason="its process died")
    return charge


@pytest.mark.parametrize("make_charge", [failed, still_open, voided])
def test_only_a_settled_charge_keeps(ledger, make_charge):
    charge = make_charge(ledger)
    refused(lambda: charge.keep(RECORD), "must have been settled", LedgerConflict)
    # And by the database, whatever the process believes.
    charge._state = "settled"
    refused(lambda: charge.keep(RECORD), "Nothing was kept", LedgerConflict)
    assert ledger.charge(charge.id).kept == 0
    assert raw(ledger._store.address, "SELECT count(*) FROM ~kept") == [(0,)]
    spent(ledger)


def test_a_charge_that_keeps_what_failed_is_convicted(tmp_path, monkeypatch):
    """Broken twin: whatever the state of the charge is. The replay of the history finds it."""
    first, *rest = schema.KEEP.statements
    broken = schema.Operation(
        "keep", (first.replace(" AND c.state = 'settled'", ""), *rest), charging=True
    )
    ledger = make(tmp_path / "budget.db")
    monkeypatch.setattr(schema, "KEEP", broken)
    charge = failed(ledger)
    charge._state = "settled"
    charge.keep(RECORD)
    assert [problem for problem in ledger.verify().problems if "is not possible" in problem]


def test_a_fork_keeps_nothing(ledger):
    charge = settled(ledger)
    assert (
        in_child(
            lambda: refused(lambda: charge.keep(RECORD), "settled by this process", LedgerConflict)
        )
        == 0
    )
    charge.keep(RECORD)
    assert ledger.charge(charge.id).kept == 1


def test_what_is_no_sheet_is_refused_before_anything_is_written(ledger, monkeypatch):
    charge = settled(ledger)
    head = ledger.statement().head
    for wrong in ({"facts": {}}, "text", None):
        with pytest.raises(InvalidParameter, match="takes a Record"):
            charge.keep(wrong)
    for value in (object(), float("nan"), float("inf"), {1, 2}):
        with pytest.raises(InvalidParameter, match="JSON-ready"):
            charge.keep(Record(facts={"x": value}, columns=[], rows=[]))
    with monkeypatch.context() as patch:
        patch.setattr(record_module, "MOST_CHARACTERS", 10)
        with pytest.raises(InvalidParameter, match="at most 10 characters"):
            charge.keep(RECORD)
    assert ledger.statement().head == head
    charge.keep(RECORD)


def test_history_and_export_name_the_copy_and_show_nothing_of_it(ledger):
    charge = kept(ledger)
    [event] = [event for event in ledger.history() if event.kind == "keep"]
    text = RECORD.to_text()
    assert (event.charge, event.amount, event.spent) == (charge.id, 0, charge.reserved)
    told = {name: event.detail[name] for name in ("part", "form", "digest", "characters")}
    assert told == {"part": 0, "form": 1, "digest": chained(text), "characters": len(text)}
    lines = list(ledger.export())
    assert json.loads(lines[-1])["kind"] == "keep"
    assert chained(text) in lines[-1]
    assert "118.5" not in "".join(lines)


# ---- changes ---------------------------------------------------------------------------------------------


def unguarded(url):
    for sql in (
        ("DROP TRIGGER append_only ON ~kept",)
        if url.startswith("postgresql:")
        else ("DROP TRIGGER kept_update", "DROP TRIGGER kept_delete")
    ):
        raw(url, sql)


CHANGES = {
    "another text": "UPDATE ~kept SET sheet = replace(sheet, '118.5', '911.5')",
    "another hash": f"UPDATE ~kept SET digest = '{'0' * 64}'",
    "both": "UPDATE ~kept SET sheet = '{}', digest = '" + chained("{}") + "'",
    "none": "DELETE FROM ~kept",
    "another charge": "UPDATE ~kept SET part = 7",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.sample(4)
def test_a_copy_that_was_changed_is_found(ledger, place, change):
    charge = kept(ledger)
    sql = CHANGES[change]
    with pytest.raises((sqlite3.DatabaseError, psycopg.Error)):
        raw(place, sql)
    assert ledger.verify().sound
    unguarded(place)
    raw(place, sql)
    found = ledger.verify()
    assert [one for one in found.problems if "kept" in one]
    says = {"none": "has not kept", "both": "is no record"}.get(change, "was changed since")
    refused(lambda: ledger.read_release(charge.id), says)


def test_what_somebody_else_wrote_is_no_sheet(ledger, place):
    charge = settled(ledger)
    texts = ["{}", "[]", "no JSON", RECORD.to_text().replace('"counts":false', '"counts":0')]
    texts += [RECORD.to_text().replace('"estimate":118.5', '"x":1'), "[" * 100_000]
    for part, text in enumerate(texts):
        columns = "charge, part, account, form, digest, sheet"
        values = (charge.id, part, "orders", 1, chained(text), text)
        raw(place, f"INSERT INTO ~kept ({columns}) VALUES (?, ?, ?, ?, ?, ?)", *values)
        refused(
            lambda part=part: ledger.read_release(charge.id, part=part + 1),
            "is no record of sordino",
        )
    assert not ledger.verify().sound


def test_a_form_of_a_newer_version_is_refused(ledger, monkeypatch):
    monkeypatch.setattr(Record, "form", 3)
    charge = kept(ledger)
    refused(
        lambda: ledger.read_release(charge.id),
        "in form 3 but this version of sordino knows forms up to 2",
    )
    spent(ledger)


def test_a_backup_has_the_copies(tmp_path):
    ledger = make(tmp_path / "budget.db")
    charge = kept(ledger)
    heads = ledger.backup(tmp_path / "copy.db")
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.read_release(charge.id) == RECORD
    assert copy.verify(head=heads["orders"]).sound


def test_a_file_that_lacks_a_copy_is_not_whole(tmp_path):
    for name, sql in (
        ("lost", "DELETE FROM kept"),
        ("left", "UPDATE kept SET account = 'other', charge = 'other'"),
    ):
        ledger = make(tmp_path / f"{name}.db")
        kept(ledger)
        unguarded(ledger.url)
        raw(ledger.url, sql)
        refused(lambda ledger=ledger: ledger.backup(tmp_path / "copy.db"), "holds half of a write")


# ---- roles -----------------------------------------------------------------------------------------------


def test_a_role_that_may_charge_keeps_what_it_released_and_nothing_else(owner, charger):  # noqa: F811
    ledger, mine = Ledger.open(owner, account="orders"), Ledger.open(charger, account="orders")
    charge, others = kept(mine), settled(ledger)
    assert mine.read_release(charge.id) == RECORD
    text = RECORD.to_text()
    known = {"account": "orders", "part": 0, "form": 1, "digest": chained(text), "sheet": text}
    for key in ("", "9f" * 16, charge._key):
        assert called(charger, schema.KEEP, **known, charge=others.id, key=key) is False
    own = {**known, "charge": charge.id, "key": charge._key}
    for wrong in (
        {"part": 0},
        {"part": 2},
        {"part": -1},
        {"part": 1, "digest": "9f" * 32},
        {"part": None},
    ):
        assert called(charger, schema.KEEP, **{**own, **wrong}) is False
    for sheet in ("no JSON", "[1]", "1", '{"a": "é"}'):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            called(charger, schema.KEEP, **{**own, "part": 1, "sheet": sheet})
    assert [ledger.charge(one.id).kept for one in (charge, others)] == [1, 0]
    spent(ledger)
