"""Nothing private is ever written or said by the ledger."""

from __future__ import annotations

import struct
import traceback
from pathlib import Path

import pytest

from ledger.fakes import REAL, REPLACE, Entropy, Mechanism, full_disk, make
from sordino.cost import ZCDP, Pure
from sordino.errors import SordinoError

CANARY = 917364528.125
TRACES = ("917364528", "9.17364528", struct.pack("<d", CANARY), struct.pack(">d", CANARY), struct.pack(">q", 917364528))


def clean(content: bytes) -> bool:
    return not any((trace.encode() if isinstance(trace, str) else trace) in content for trace in TRACES)


def test_a_canary_is_in_no_file_and_in_no_error(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db", 100)
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
                    said.append("".join(traceback.format_exception(error)) + repr(error) + repr(charge))
    for wrong in (CANARY, answers, tuple(answers)):
        with pytest.raises(SordinoError) as refused:
            ledger.reserve(wrong)
        said.append("".join(traceback.format_exception(refused.value)))
    charge = ledger.reserve(Pure(epsilon=1))
    full_disk(monkeypatch)
    with pytest.raises(SordinoError, match="disk is full") as refused:
        charge.release(Mechanism(0.1), answers, entropy=REAL)
    monkeypatch.undo()
    said.append("".join(traceback.format_exception(refused.value)))
    assert len(released) >= 1
    assert len(said) > 50
    assert all(clean(text.encode()) for text in said)
    assert clean(repr(ledger.statement().to_dict()).encode())
    files = [path for path in Path(tmp_path).iterdir() if path.is_file()]
    assert files
    assert all(clean(path.read_bytes()) for path in files)
    assert not clean(str(answers).encode())  # the test can see a canary
