"""Nothing private is ever written or said by the ledger."""

from __future__ import annotations

import sqlite3
import struct
import traceback
from pathlib import Path

import pytest

from ledger.fakes import REAL, REPLACE, Entropy, Mechanism, make, raw
from ledger.faults import failing, trigger
from sordino.cost import ZCDP, Pure
from sordino.errors import SordinoError
from sordino.ledger.store import sqlite
from support.postgres import own_server

CANARY = 917364528.125
TRACES = (
    "917364528",
    "9.17364528",
    struct.pack("<d", CANARY),
    struct.pack(">d", CANARY),
    struct.pack(">q", 917364528),
)


def clean(content: bytes) -> bool:
    return not any(
        (trace.encode() if isinstance(trace, str) else trace) in content for trace in TRACES
    )


def full_disk(patch, place):
    """Let every new row meet a full disk; return what ends that."""
    if not place.startswith("postgresql:"):
        failing(patch, sqlite3.SQLITE_FULL, lambda sql: sql.startswith("INSERT"))
        return patch.undo
    striking = trigger(place, "INSERT event", "BEFORE", "RAISE disk_full")
    striking.__enter__()
    return lambda: striking.__exit__(None, None, None)


def kept(place, folder):
    """Return everything that the ledger, and the server, have written."""
    yield from (path.read_bytes() for path in Path(folder).iterdir() if path.is_file())
    if place.startswith("postgresql:"):
        for table in ("ledger", "account", "charge", "event", "kept"):
            yield repr(raw(place, f"SELECT * FROM ~{table}")).encode()
        yield own_server().log.read_bytes()


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.sample(4)
def test_a_canary_is_in_no_file_and_in_no_error(tmp_path, monkeypatch, where):
    if where == "postgres":
        place = own_server().url()
        raw(place, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS sordino CASCADE")
    else:
        place = str(tmp_path / "budget.db")
    ledger = make(place, 100)
    answers, said, released = [CANARY, CANARY + 1], [], []
    mechanisms = [
        Mechanism(0.1),
        Mechanism(0.1, error=ValueError("constant")),
        Mechanism(0.1, spends=0.2),
        Mechanism(0.1, simulated=True),
        Mechanism(0.1, sensitivity=REPLACE),
        Mechanism(0.1, exact=False),
        Mechanism(50),
        CANARY,
        answers,
        Pure(epsilon=0.1),
        ZCDP(rho=0.1),
    ]
    for mechanism in mechanisms:
        for entropy in (REAL, Entropy(simulated=True), CANARY):
            for first, second in ((mechanism, answers), (answers, mechanism)):
                try:
                    with ledger.reserve(Pure(epsilon=1), label="canary") as charge:
                        released.append(charge.release(first, second, entropy=entropy))
                except (SordinoError, ValueError, AttributeError) as error:
                    said.append(
                        "".join(traceback.format_exception(error)) + repr(error) + repr(charge)
                    )
    for wrong in (CANARY, answers, tuple(answers)):
        with pytest.raises(SordinoError) as refused:
            ledger.reserve(wrong)
        said.append("".join(traceback.format_exception(refused.value)))
    charge = ledger.reserve(Pure(epsilon=1))
    ends = full_disk(monkeypatch, place)
    with pytest.raises(SordinoError, match="disk is full") as refused:
        charge.release(Mechanism(0.1), answers, entropy=REAL)
    ends()
    sqlite.close_all()
    said.append("".join(traceback.format_exception(refused.value)))
    assert len(released) >= 1
    assert len(said) > 50
    assert all(clean(text.encode()) for text in said)
    assert clean(repr(ledger.statement().to_dict()).encode())
    assert clean(repr([event.to_dict() for event in ledger.history()]).encode())
    written = list(kept(place, tmp_path))
    assert sum(map(len, written)) > 10_000
    assert all(map(clean, written))
    assert not clean(str(answers).encode())  # the test can see a canary
