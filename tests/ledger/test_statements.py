"""What a ledger and a charge say of themselves, and what may be written into them."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

from ledger.fakes import REAL, Mechanism
from sordino.cost import Pure
from sordino.errors import InvalidParameter

TENTH = Fraction(1, 10)


def test_a_ledger_travels_and_a_charge_does_not(ledger):
    again = pickle.loads(pickle.dumps(ledger))
    assert (again.url, again.account) == (ledger.url, ledger.account)
    assert again.remaining == 1
    charge = ledger.reserve(Mechanism(0.1))
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="belongs to the process"):
            way(charge)


def test_pictures_are_one_line(ledger):
    charge = ledger.reserve(Mechanism(0.1), label="top")
    assert repr(ledger) == f"Ledger({ledger.url!r}, account='orders')"
    assert (
        repr(charge) == "Charge(account='orders', label='top', reserved=0.1, drawn=0, state='open')"
    )
    assert repr(ledger.statement()) == "Statement(account='orders', limit=1, spent=0.1, charges=1)"


def test_a_statement_is_ready_for_json(ledger):
    with ledger.reserve(
        Mechanism(0.25), label="top", detail={"k": 3, "domain": "público"}
    ) as charge:
        charge.release(Mechanism(0.25), [1], entropy=REAL)
    ledger.reserve(Mechanism(Fraction(1, 3)))
    said = json.loads(json.dumps(ledger.statement().to_dict(), allow_nan=False))
    assert said["exact"] == {
        "limit": "1",
        "spent": "291666667/500000000",
        "remaining": "208333333/500000000",
    }
    assert (said["limit"], said["spent"], said["remaining"]) == (1.0, 0.583333334, 0.416666666)
    assert (said["account"], said["meter"], said["unit"], said["source"]) == (
        "orders",
        "pure",
        'column "customer"',
        "/data/orders.parquet",
    )
    first, second = said["charges"]
    assert (first["label"], first["state"], first["settled"], first["detail"]) == (
        "top",
        "settled",
        0.25,
        {"k": 3, "domain": "público"},
    )
    assert (second["label"], second["state"], second["settled"], second["reserved"]) == (
        "Mechanism",
        "reserved",
        None,
        0.333333334,
    )


@pytest.mark.parametrize(
    "detail", [{"x": float("nan")}, {"x": object()}, [1], "text", {1: {2: {3}}}]
)
def test_details_that_json_cannot_express_are_refused(ledger, detail):
    with pytest.raises(InvalidParameter, match="detail must be"):
        ledger.reserve(Mechanism(0.1), detail=detail)
    assert ledger.remaining == 1


@pytest.mark.parametrize("label", ["", "two\nlines", 3])
def test_labels_are_printable(ledger, label):
    with pytest.raises(InvalidParameter, match="label must be"):
        ledger.reserve(Mechanism(0.1), label=label)


def test_details_keep_exact_numbers(ledger):
    ledger.reserve(
        Mechanism(0.1),
        detail={"a": Fraction(1, 3), "b": Decimal("0.1"), "c": Pure(epsilon=0.5), "d": [1, None]},
    )
    (line,) = ledger.statement().charges
    assert line.detail == {"a": "1/3", "b": "0.1", "c": Pure(epsilon=0.5).to_dict(), "d": [1, None]}
