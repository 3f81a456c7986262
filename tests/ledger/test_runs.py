"""An account is charged once for a run: by whichever process is first, also where all of them are at it at once."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ledger.fakes import REAL, Mechanism, in_threads, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, RunTaken
from sordino.ledger import Ledger

TENTH = Fraction(1, 10)


def charge(ledger, run, epsilon=TENTH, **more):
    with ledger.reserve(Pure(epsilon=epsilon), run=run, **more) as made:
        made.release(Mechanism(epsilon), [1], entropy=REAL)
    return made


def test_a_run_is_charged_once_and_found_again(ledger, place):
    made = charge(ledger, "monday", detail={"study": "shop"}, label="study shop")
    found = Ledger.open(place, account="orders").find_run("monday")
    assert (found.id, found.label, found.detail, found.state) == (
        made.id,
        "study shop",
        {"study": "shop"},
        "settled",
    )
    assert ledger.find_run("tuesday") is None
    with pytest.raises(RunTaken, match=r"was charged for run 'monday' before, .* Nothing was read"):
        charge(ledger, "monday")
    assert spent(ledger) == TENTH
    charge(ledger, "tuesday")
    charge(ledger, None)
    charge(ledger, None)
    assert spent(ledger) == 4 * TENTH


def test_two_accounts_have_runs_of_the_same_name(ledger):
    other = ledger.grant("team", TENTH)
    ids = {charge(one, "monday").id for one in (ledger, other)}
    assert len(ids) == 2


def test_a_run_that_was_given_up_stays_taken(ledger):
    made = ledger.reserve(Pure(epsilon=TENTH), run="monday")
    ledger.void(made.id, reason="a power cut")
    assert spent(ledger) == 0
    assert ledger.find_run("monday").state == "void"
    with pytest.raises(RunTaken):
        ledger.reserve(Pure(epsilon=TENTH), run="monday")


def test_what_is_taken_is_said_also_where_nothing_would_fit(ledger):
    charge(ledger, "monday", epsilon=ledger.remaining)
    with pytest.raises(RunTaken):
        charge(ledger, "monday")
    with pytest.raises(BudgetExceeded):
        charge(ledger, "tuesday")


def test_of_many_at_once_one_pays(ledger, place):
    won, lost = [], []

    def start():
        try:
            won.append(charge(Ledger.open(place, account="orders"), "monday").id)
        except RunTaken:
            lost.append(1)

    in_threads([start] * 8)
    assert (len(won), len(lost)) == (1, 7)
    assert spent(ledger) == TENTH


def test_a_conflict_of_another_kind_is_not_taken_for_a_run(ledger):
    with pytest.raises(LedgerConflict) as caught:
        ledger.reserve(Pure(epsilon=TENTH), run="monday", unit="somebody else")
    assert not isinstance(caught.value, RunTaken)
    assert ledger.find_run("monday") is None


def test_a_run_has_a_name(ledger):
    for run in ("", "a\nb", 3):
        with pytest.raises(InvalidParameter, match="run must be a non-empty printable text"):
            ledger.reserve(Pure(epsilon=TENTH), run=run)
        with pytest.raises(InvalidParameter, match="run must be a non-empty printable text"):
            ledger.find_run(run)


def test_a_preview_refuses_what_a_charge_would_and_charges_nothing(ledger):
    ledger.preview(Pure(epsilon=ledger.remaining), unit="customer")
    with pytest.raises(
        BudgetExceeded, match=r"is left; this needs .* Nothing was read or released"
    ):
        ledger.preview((Pure(epsilon=ledger.remaining), Pure(epsilon=TENTH)))
    with pytest.raises(LedgerConflict, match="protects"):
        ledger.preview(Pure(epsilon=TENTH), unit="somebody else")
    assert spent(ledger) == 0
    assert ledger.statement().charges == ()
