"""The ledger against a model of a few lines: any order of everything that can be done with accounts and charges."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from ledger.fakes import NANO, PLACE, REAL, Mechanism, resumed, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, LedgerConflict
from sordino.ledger import Budget, Ledger
from sordino.record import Record
from support.postgres import fresh

LIMIT = Fraction(100, NANO)
AMOUNTS = st.fractions(min_value=0, max_value=Fraction(40, NANO), max_denominator=7 * NANO)
TOPS = {"pure": "pure", "rho": "zcdp", "deltas": "zcdp"}
CHILDREN = {"team": "pure", "rho team": "rho", "team of the team": "team", "deltas team": "deltas"}
ACCOUNTS = st.sampled_from([*TOPS, *CHILDREN])
OF_EPSILONS = {"pure", "team", "team of the team"}


def up(amount: Fraction) -> Fraction:
    return Fraction(math.ceil(amount * NANO), NANO)


class Model(RuleBasedStateMachine):
    """An account is its limit, what each of its charges takes from it and what its children have."""

    charges = Bundle("charges")

    def __init__(self):
        super().__init__()
        self.place = self.made()
        self.ledgers, self.limits, self.taken, self.keys = {}, {}, {}, []
        for name, meter in TOPS.items():
            # Of both meters one with room for a hundred billionths: rho is about epsilon^2 / (4 log(1/delta)).
            budget = (
                Budget(epsilon=LIMIT)
                if meter == "pure"
                # One of them keeps a part of its delta for failures, and so has all the sums in its events.
                else Budget(
                    epsilon=Fraction(1, 400),
                    delta=1e-6,
                    meter="zcdp",
                    failures=1e-9 if name == "deltas" else 0,
                )
            )
            self.ledgers[name] = Ledger.create(self.place, account=name, budget=budget, **PLACE)
            self.limits[name], self.taken[name] = budget.limit, []

    def made(self):
        memory = Path("/dev/shm")
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        return str(Path(self.folder.name) / "budget.db")

    def teardown(self):
        for name, ledger in self.ledgers.items():
            assert spent(ledger) == self.spent(name)
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def cost(self, name, amount):
        return amount if name in OF_EPSILONS else amount**2 / 2

    def spent(self, name):
        shares = (
            self.limits[child]
            for child, parent in CHILDREN.items()
            if parent == name and child in self.limits
        )
        return sum(self.taken[name], Fraction(0)) + sum(shares, Fraction(0))

    def left(self, name):
        return self.limits[name] - self.spent(name)

    def scaled(self, name, amount):
        """Return an epsilon that costs a part of an account on its meter."""
        return (
            amount
            if name in OF_EPSILONS
            else Fraction(math.isqrt(int(amount * 2 * NANO * NANO)), NANO)
        )

    @rule(target=charges, name=ACCOUNTS, amount=AMOUNTS)
    def reserve(self, name, amount):
        if name not in self.ledgers:
            return multiple()
        amount = self.scaled(name, amount)
        needed = up(self.cost(name, amount))
        if needed > self.left(name):
            with pytest.raises(BudgetExceeded):
                self.ledgers[name].reserve(Pure(epsilon=amount))
            return multiple()
        charge = self.ledgers[name].reserve(Mechanism(amount))
        assert charge.id not in self.keys
        self.keys.append(charge.id)
        self.taken[name].append(needed)
        zero = Fraction(0)
        return {
            "name": name,
            "charge": charge,
            "number": len(self.taken[name]) - 1,
            "reserved": amount,
            "drawn": zero,
            "worst": zero,
            "spent": zero,
            "kept": False,
        }

    @rule(
        one=charges,
        amount=AMOUNTS,
        share=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]),
        fails=st.booleans(),
        proved=st.booleans(),
    )
    def release(self, one, amount, share, fails, proved):
        name, amount = one["name"], self.scaled(one["name"], amount)
        worst, really = self.cost(name, amount), self.cost(name, amount * share)
        mechanism = Mechanism(
            amount,
            spends=amount * share,
            per_transcript=proved,
            error=ZeroDivisionError("no") if fails else None,
        )
        if one["kept"] or one["worst"] + worst > self.cost(name, one["reserved"]):
            with pytest.raises(LedgerConflict):
                one["charge"].release(mechanism, [1], entropy=REAL)
            assert mechanism.noise == []
            return
        one["worst"] += worst
        refunds = proved and not fails and name in OF_EPSILONS
        one["spent"] += really if refunds else worst
        if fails:
            one["kept"] = True
            with pytest.raises(ZeroDivisionError):
                one["charge"].release(mechanism, [1], entropy=REAL)
        else:
            one["charge"].release(mechanism, [1], entropy=REAL)

    @rule(one=consumes(charges))
    def settle(self, one):
        twin = resumed(one["charge"])
        if not one["kept"]:
            with one["charge"]:
                pass
            self.taken[one["name"]][one["number"]] = up(one["spent"])
            self.keep(one)
        else:
            self.keep_nothing(one)
        for late in (one["charge"].settle, twin.settle, lambda: twin.draw(Pure(epsilon=0))):
            with pytest.raises(LedgerConflict):
                late()

    def keep(self, one):
        """What was settled keeps releases, and no other process does, nor this one again out of turn."""
        name, charge = one["name"], one["charge"]
        for part in range(len(self.keys) % 3):
            rows = [{"x": one["number"]}] * part
            record = Record(facts={"part": part}, columns=["x"], rows=rows, notes=[], hidden=[])
            late = resumed(charge)
            charge.keep(record)
            assert self.ledgers[name].read_release(charge.id, part=part + 1) == record
            with pytest.raises(LedgerConflict, match="kept elsewhere"):
                late.keep(record)
        assert self.ledgers[name].charge(charge.id).kept == len(self.keys) % 3

    def keep_nothing(self, one):
        with pytest.raises(LedgerConflict, match="must have been settled"):
            one["charge"].keep(Record(facts={}, columns=(), rows=[]))
        assert self.ledgers[one["name"]].charge(one["charge"].id).kept == 0

    @rule(one=consumes(charges))
    def fail(self, one):
        with (
            pytest.raises(LedgerConflict if one["kept"] else ValueError, match="closed|mine"),
            one["charge"],
        ):
            raise ValueError("mine")
        self.keep_nothing(one)

    @rule(one=consumes(charges))
    def void(self, one):
        line = self.ledgers[one["name"]].void(one["charge"].id, reason="the model says so")
        assert (line.state, line.settled, line.drawn) == (
            "void",
            up(one["worst"]),
            up(one["worst"]),
        )
        self.taken[one["name"]][one["number"]] = up(one["worst"])
        for late in (one["charge"].settle, lambda: one["charge"].draw(Pure(epsilon=0))):
            with pytest.raises(LedgerConflict, match="elsewhere|closed"):
                late()
        with pytest.raises(LedgerConflict, match="closed already"):
            self.ledgers[one["name"]].void(one["charge"].id, reason="again")
        self.keep_nothing(one)

    @rule(child=st.sampled_from(list(CHILDREN)), amount=AMOUNTS)
    def grant(self, child, amount):
        parent, share = CHILDREN[child], Fraction(math.floor(amount * NANO), NANO)
        if parent not in self.ledgers or share == 0:
            return
        if share > self.left(parent):
            with pytest.raises(BudgetExceeded):
                self.ledgers[parent].grant(child, amount)
            return
        self.ledgers[child] = self.ledgers[parent].grant(child, amount)
        self.limits[child] = self.limits.get(child, Fraction(0)) + share
        self.taken.setdefault(child, [])

    @rule(name=ACCOUNTS)
    def reopen(self, name):
        if name in self.ledgers:
            self.ledgers[name] = Ledger.open(self.place, account=name)

    @invariant()
    def agrees(self):
        for name, ledger in self.ledgers.items():
            assert ledger.remaining == self.left(name) >= 0


class ServerModel(Model):
    def made(self):
        return fresh()


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestServerModel = ServerModel.TestCase
TestServerModel.settings = settings(
    max_examples=3, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
class TestModelLonger(Model.TestCase):
    settings = settings(
        max_examples=200,
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
class TestServerModelLonger(ServerModel.TestCase):
    settings = settings(
        max_examples=80,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
