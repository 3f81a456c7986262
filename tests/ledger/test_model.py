"""The ledger against a model of a few lines: any order of reserve, draw, settle, failure and reopening."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from ledger.fakes import REAL, Mechanism, make, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, LedgerConflict
from sordino.ledger import Ledger

NANO = 10**9
LIMIT = Fraction(100, NANO)
AMOUNTS = st.fractions(min_value=0, max_value=Fraction(40, NANO), max_denominator=7 * NANO)


def up(amount: Fraction) -> Fraction:
    return Fraction(math.ceil(amount * NANO), NANO)


class Model(RuleBasedStateMachine):
    """An account is its limit and what each charge takes from it."""

    charges = Bundle("charges")

    def __init__(self):
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.ledger = make(Path(self.folder.name) / "budget.db", LIMIT + Fraction(1, 3 * NANO))
        self.taken = []

    def teardown(self):
        assert spent(self.ledger) == sum(self.taken, Fraction(0))
        self.folder.cleanup()

    @rule(target=charges, amount=AMOUNTS)
    def reserve(self, amount):
        if up(amount) > LIMIT - sum(self.taken, Fraction(0)):
            with pytest.raises(BudgetExceeded):
                self.ledger.reserve(Pure(epsilon=amount))
            return multiple()
        self.taken.append(up(amount))
        charge = self.ledger.reserve(Mechanism(amount))
        return {"charge": charge, "number": len(self.taken) - 1, "reserved": amount, "drawn": Fraction(0), "spent": Fraction(0)}

    @rule(one=charges, amount=AMOUNTS, share=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]), fails=st.booleans())
    def release(self, one, amount, share, fails):
        mechanism = Mechanism(amount, spends=amount * share, error=ZeroDivisionError("no") if fails else None)
        if one["drawn"] + amount > one["reserved"]:
            with pytest.raises(LedgerConflict):
                one["charge"].release(mechanism, [1], entropy=REAL)
            assert mechanism.noise == []
            return
        one["drawn"] += amount
        one["spent"] += amount if fails else amount * share
        if fails:
            with pytest.raises(ZeroDivisionError):
                one["charge"].release(mechanism, [1], entropy=REAL)
        else:
            one["charge"].release(mechanism, [1], entropy=REAL)

    @rule(one=consumes(charges))
    def settle(self, one):
        with one["charge"]:
            pass
        self.taken[one["number"]] = up(one["spent"])
        with pytest.raises(LedgerConflict):
            one["charge"].settle()

    @rule(one=consumes(charges))
    def fail(self, one):
        with pytest.raises(ValueError, match="mine"), one["charge"]:
            raise ValueError("mine")

    @precondition(lambda self: self.taken)
    @rule()
    def reopen(self):
        self.ledger = Ledger.open(self.ledger.url, account="orders")

    @invariant()
    def agrees(self):
        assert self.ledger.remaining == LIMIT - sum(self.taken, Fraction(0)) >= 0


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
class TestModelLonger(Model.TestCase):
    settings = settings(max_examples=200, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
