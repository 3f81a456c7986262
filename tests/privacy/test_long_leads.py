"""The lead of the winner, enumerated: every chance in `with_lead` is a branch of known probability, and no sample."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sordino import COUNTING, ExponentialMechanism, Seeded, Sensitivity
from sordino.grid import to_steps
from sordino.mechanisms import exponential_mechanism
from sordino.mechanisms.exponential_mechanism import with_lead
from support import branches
from support.choices import lead, run, softmax

AGAIN = "again"


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


@cache
def places(r, q):
    """The place of the first arrival, with its probability."""
    return [(i, decimal(softmax(r, q, i))) for i in range(len(q))]


@cache
def runs(r, q, longest):
    """The first place and the largest excess before another one arrives: the route of `support.choices`, not the closed form."""
    return [((i, m), decimal(run(r, q, i, m))) for i in range(len(q)) for m in range(longest)]


@cache
def levels(r, longest):
    return [(g, decimal(r**g * (1 - r))) for g in range(longest)]


class Chances:
    """The chances of `with_lead`, as branches; those less likely than `least` are cut, and so are levels from `longest` on."""

    def __init__(self, r, least, longest):
        self.r, self.least, self.longest = r, least, longest

    def choose(self, options):
        kept = [(value, mass) for value, mass in options if self.ways.mass * mass >= self.least]
        chosen = self.ways.choose([*kept, (None, 1 - sum(mass for _, mass in kept))])
        if chosen is None:
            raise branches.Cut
        return chosen

    def level(self):
        return self.choose(levels(self.r, self.longest))

    def law(self, q, rate):
        """Return lower bounds of the probability of each (place, lead), and what they leave of 1.

        A proposal that is not kept leaves everything as it was before it: what was found after the first one stands for all of them.
        """

        def program(ways):
            self.ways, self.proposals = ways, 0
            try:
                return with_lead(np.array(q), rate, None), self.proposals
            except Again:
                return AGAIN

        found, cut = branches.law(program)
        again = found.pop(AGAIN, Decimal(0))
        entered = sum((mass for (_, proposals), mass in found.items() if proposals), again + cut)
        least = {}
        for (output, proposals), mass in found.items():
            least[output] = least.get(output, 0) + (
                mass * entered / (entered - again) if proposals else mass
            )
        return least, 1 - sum(least.values())

    def patched(self, monkeypatch):
        chances = self

        class Arrival:  # its excess is drawn where it is looked at
            def __init__(self, place):
                self.place = place

            def __getitem__(self, at):
                return chances.level() if at else self.place

            def __iter__(self):
                return iter((self.place, chances.level()))

        class Race:
            def __init__(self, steps, rate):
                self.q = tuple(steps.tolist())

            def first(self, entropy):
                return Arrival(chances.choose(places(chances.r, self.q)))

            def arrivals(self, entropy):
                place, excess = chances.choose(runs(chances.r, self.q, chances.longest))
                yield np.array([place, -1]), np.array([excess, 0])

        class Geometric:
            def __init__(self, rate):
                pass

            def sample(self, n, entropy):
                chances.proposals += 1
                if chances.proposals > 1:
                    raise Again
                return np.array([chances.level()])

        monkeypatch.setattr(exponential_mechanism, "ScoreRace", Race)
        monkeypatch.setattr(exponential_mechanism, "Geometric", Geometric)


class Again(Exception):
    """A proposal was not kept."""


# e^-rate, scores, where the search begins: "either way is right for every beta >= 1" (None: where the library begins it)
SEARCHES = [
    (Fraction(1, 4), (2, 0), None),
    (Fraction(1, 6), (0, 3, 1), None),
    (Fraction(1, 4), (0, 1), 1),
    (Fraction(1, 4), (0, 1), 2),
    (Fraction(1, 5), (1, 0), 3),
    (Fraction(1, 5), (0, 0, 2), 3),
    (Fraction(1, 4), (1, 0, -3), 2),
]


@pytest.mark.parametrize("least", ["1e-6", pytest.param("3e-8", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("r", "q", "begun"), SEARCHES)
@pytest.mark.sample(4)
def test_every_way_to_a_lead_has_its_probability(monkeypatch, r, q, begun, least):
    rate = Fraction(-math.log(r))
    monkeypatch.setattr(exponential_mechanism, "_SHORT_LEADS", (0, 0))
    if begun is not None:
        monkeypatch.setattr(exponential_mechanism, "_handicap", lambda *_: begun)
    chances = Chances(r, Decimal(least), 20)
    chances.patched(monkeypatch)
    found, left = chances.law(q, rate)
    assert left < Decimal("0.02")
    for i in range(len(q)):
        for m in range(20):
            exact, known = decimal(lead(r, q, i, m)), found.get((i, m), 0)
            assert exact - left - Decimal("1e-30") <= known <= exact + Decimal("1e-30"), (
                i,
                m,
                float(known / exact),
            )


@pytest.mark.parametrize(
    "sensitivity",
    [COUNTING, Sensitivity(bound=2, monotone=False, adjacency="replace-one", step=0.25)],
)
def test_the_gap_of_a_release_is_its_lead_in_the_unit_of_the_answers(sensitivity):
    mechanism = ExponentialMechanism(epsilon=1, sensitivity=sensitivity)
    leads = set()
    for seed in range(60):
        answers = [3.5, 5.25, 0, seed / 2]
        choice = mechanism.release(answers, entropy=Seeded(seed))
        place, steps = with_lead(
            to_steps(answers, mechanism.step, "a test"), mechanism.rate, Seeded(seed)
        )
        assert (choice.index, choice.gap) == (place, float(steps * mechanism.step))
        leads.add(steps)
    assert len(leads) > 20
