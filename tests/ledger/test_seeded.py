"""Predictable noise and a ledger: by no way into one, for no mechanism, and nothing is drawn for the attempt."""

from __future__ import annotations

import copy
import pickle

import pytest

import sordino as sd
from ledger.fakes import make, spent
from sordino.errors import SimulatedRelease
from sordino.questions import PrivacyUnit

ONE = {"epsilon": 0.25, "sensitivity": sd.COUNTING}
MECHANISMS = {
    "laplace": (sd.LaplaceMechanism(**ONE), 5),
    "top": (sd.NoisyTopK(k=1, **ONE), [5, 1]),
    "flip": (sd.PermuteAndFlip(**ONE), [5, 1]),
    "exponential": (sd.ExponentialMechanism(**ONE), [5, 1]),
    "sparse": (sd.SparseVector(threshold=3, positives=1, **ONE), [5, 1]),
    "response": (sd.RandomizedResponse(epsilon=0.25), True),
}


def seeds():
    once = sd.Seeded(7)
    return sd.Seeded(1), copy.copy(once), copy.deepcopy(once), pickle.loads(pickle.dumps(once))


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.sample(4)
def test_no_mechanism_draws_from_a_charge_with_a_seed(ledger, name):
    mechanism, answers = MECHANISMS[name]
    with ledger.reserve(mechanism) as charge:
        for entropy in seeds():
            with pytest.raises(SimulatedRelease, match="Nothing was drawn"):
                charge.release(mechanism, answers, entropy=entropy)
        assert charge.drawn == 0
        released = mechanism.release(
            answers, entropy=sd.Seeded(1)
        )  # what was drawn beside it says so
        assert released.simulated is True
    assert [event.kind for event in ledger.history()] == ["create", "reserve", "settle"]
    assert spent(ledger) == 0


def test_no_stream_opens_with_a_seed(ledger):
    mechanism = MECHANISMS["sparse"][0]
    with ledger.reserve(mechanism) as charge:
        for entropy in seeds():
            with pytest.raises(SimulatedRelease, match="Nothing was drawn"):
                charge.open(mechanism, entropy=entropy)
        assert charge.drawn == 0
    assert spent(ledger) == 0


def test_a_release_that_was_made_with_a_seed_is_refused_where_it_comes_from_the_mechanism(ledger):
    """A mechanism that brings its own entropy cannot hide what its release says."""

    class Smuggling:
        cost, per_transcript, exact, sensitivity = (
            sd.cost.Pure(epsilon=0.25),
            True,
            True,
            sd.COUNTING,
        )

        def release(self, answers, *, entropy):
            return MECHANISMS["laplace"][0].release(answers, entropy=sd.Seeded(1))

    with (
        ledger.reserve(Smuggling()) as charge,
        pytest.raises(SimulatedRelease, match="its charge stays"),
    ):
        charge.release(Smuggling(), 5)
    assert spent(ledger) == sd.Budget(epsilon=0.25).limit


def test_a_session_with_a_ledger_takes_no_seed(tmp_path):
    (tmp_path / "orders.csv").write_text("u\na\nb\n")
    ledger = make(tmp_path / "budget.db")
    for entropy in seeds():
        with pytest.raises(SimulatedRelease):
            sd.Session(
                tmp_path / "orders.csv", unit=PrivacyUnit("u"), ledger=ledger, entropy=entropy
            )
    assert spent(ledger) == 0
