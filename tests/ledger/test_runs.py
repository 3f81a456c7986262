"""An account is charged once for a run: by whichever process is first, also where all of them are at it at once."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from ledger.fakes import REAL, Mechanism, in_threads, make, spent
from ledger.parted import make_parted
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, RunTaken
from sordino.ledger import Ledger, PartRange
from sordino.ledger.account.pages import Pages

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


def test_a_run_that_was_given_up_before_a_draw_is_charged_again(ledger):
    """Of two at once, one pays; and from what was given up nothing can be drawn any more."""
    given_up = []
    for _ in range(3):
        given_up.append(ledger.reserve(Pure(epsilon=TENTH), run="monday"))
        with pytest.raises(RunTaken):
            ledger.reserve(Pure(epsilon=TENTH), run="monday")
        ledger.void(given_up[-1].id, reason="a power cut")
        assert (spent(ledger), ledger.find_run("monday")) == (0, None)
    made = charge(ledger, "monday")
    assert ledger.find_run("monday").id == made.id
    assert len({made.id, *(one.id for one in given_up)}) == 4
    for one in given_up:
        with pytest.raises(LedgerConflict):
            one.draw(Pure(epsilon=TENTH))
    with pytest.raises(RunTaken):
        charge(ledger, "monday")
    assert spent(ledger) == TENTH
    assert ledger.verify().sound


def test_a_run_that_was_given_up_after_a_draw_stays_taken(ledger):
    made = ledger.reserve(Pure(epsilon=TENTH), run="monday")
    made.draw(Pure(epsilon=TENTH / 2))
    ledger.void(made.id, reason="a power cut")
    assert (spent(ledger), ledger.find_run("monday").state) == (TENTH / 2, "void")
    with pytest.raises(RunTaken):
        ledger.reserve(Pure(epsilon=TENTH), run="monday")


def test_who_looked_before_others_gave_up_and_paid_is_refused(ledger, place, monkeypatch):
    """Its id was taken, given up, and followed by another one, between the look and the charge."""
    late = Ledger.open(place, account="orders")
    whole = Pages.find_run

    def look(pages, run):
        found = whole(pages, run)
        monkeypatch.setattr(Pages, "find_run", whole)
        ledger.void(ledger.reserve(Pure(epsilon=TENTH), run=run).id, reason="a power cut")
        charge(ledger, run)
        return found

    monkeypatch.setattr(Pages, "find_run", look)
    with pytest.raises(RunTaken):
        charge(late, "monday")
    assert spent(ledger) == TENTH


@pytest.mark.parametrize("parts", [{}, {"parts": PartRange(3, 3)}], ids=["whole", "parts"])
@pytest.mark.sample(3)
def test_of_many_that_charge_and_give_up_at_once_one_draws(place, parts):
    kept = make_parted(place, account="orders") if parts else make(place)
    drew, voided = [], []

    def start(number):
        ledger = Ledger.open(place, account="orders")
        for turn in range(number, 200):
            if drew:
                break
            try:
                made = ledger.reserve(Pure(epsilon=TENTH), run="monday", **parts)
            except LedgerConflict:  # taken, or lost to others in this moment
                continue
            if turn % 3:
                ledger.void(made.id, reason="a power cut")
                voided.append(made.id)
            else:
                made.draw(Pure(epsilon=TENTH))
                drew.append(made.id)
        with pytest.raises(RunTaken):
            ledger.reserve(Pure(epsilon=TENTH), run="monday", **parts)

    in_threads([partial(start, number) for number in range(6)])
    assert len(drew) == 1
    assert len(set(voided)) == len(voided) == len(kept.statement().charges) - 1
    assert kept.find_run("monday").id == drew[0]
    assert spent(kept) == TENTH
    assert kept.verify().sound


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
