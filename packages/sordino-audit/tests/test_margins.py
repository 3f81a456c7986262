"""The margins that make bounds of estimates: what was not played, roundings, worst pairs and sides, and the mass of what is drawn again."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sordino_audit as audit
from sordino.cost import Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.enumeration.laws import region
from sordino_audit.enumeration.outcomes import Book
from sordino_audit.enumeration.pairs import Comparison

LAPLACE = DiscreteLaplace(Fraction(1, 2))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def laws_of(subject, answers, tail, slack):
    book = Book(subject, region(subject.laws, tail, 10**6), None)
    a, b = (book.outcomes(each) for each in answers)
    return book, Comparison(a, b, None, slack), Comparison(b, a, None, slack)


def test_what_is_unresolved_is_that_of_the_side_with_more_of_it():
    """One side has a wide law, the other a single output: in both orders the wide one counts."""
    subject = Subject(laws=[LAPLACE], play=lambda bit, z: z[:, 0] * (1 - bit), cost=Pure(epsilon=1))
    book, forth, back = laws_of(subject, (0, 1), 1e-9, 1e-3)
    for compared in (forth, back):
        shown = [book.outputs[i] for i in compared._ids[compared.audited].tolist()]
        hidden = 1 - math.fsum(float(LAPLACE.pmf(np.array([x]))[0]) for x in shown)
        assert hidden > 1e-8, "more than what was not played"
        assert hidden <= compared.unresolved < 2 * hidden


def test_what_is_unresolved_is_that_of_the_worst_pair():
    subject = Subject(laws=[LAPLACE], play=lambda bit, z: z[:, 0] * (1 - bit), cost=Pure(epsilon=1))
    wide, narrow = (0, 1), (1, 1)
    alone = [
        audit.exact(subject, neighbours=[pair], tail=1e-9, slack=1e-3).unresolved
        for pair in (wide, narrow)
    ]
    assert alone[0] > 10 * alone[1]
    for pairs in ([wide, narrow], [narrow, wide]):
        assert audit.exact(subject, neighbours=pairs, tail=1e-9, slack=1e-3).unresolved == alone[0]


def test_noise_that_was_not_played_counts_at_the_highest_cost():
    """Under b an output at a cost of 3 appears only in the noise that is not played: each unit of it counts e^3."""
    tail = 0.02
    edge = int(region((LAPLACE,), tail, 1000).noise.max())
    played = [lambda z: np.where(z < 0, 0, 1), lambda z: np.where(np.abs(z) <= edge, 2, 1)]
    subject = Subject(
        laws=[LAPLACE],
        play=lambda bit, z: played[bit](z[:, 0]),
        cost=Pure(epsilon=3),
        cost_of=lambda output: Pure(epsilon=3 * (output == 1)),
    )
    report = audit.exact(subject, neighbours=[(0, 1)], tail=tail)
    r = math.exp(-0.5)
    hidden = 2 * r ** (edge + 1) / (1 + r)
    below_zero = r / (1 + r)
    orders = [below_zero + max(0.0, 1 - below_zero - math.exp(3) * hidden), 1 - hidden]
    assert hidden > 1e-3
    assert report.at_claim.at_least <= max(orders) <= report.at_claim.at_most
    [forth] = [laws_of(subject, (0, 1), tail, 1e-6)[1]]
    forth = replace(forth, claimed=lambda number: Fraction(3 * (number == 1)))
    assert forth.hockey_stick(None)[0] <= orders[0], "not more, in this order either"


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 3), Fraction(7, 5)])
@pytest.mark.slow
def test_sums_of_floats_are_widened_by_more_than_their_rounding(epsilon):
    """Masses that are exactly known leave nothing but the arithmetic of the hockey stick itself to be wrong."""
    draws = np.random.default_rng(11)
    played = region((Finite([1, 1]),), 1e-15, 10)
    book = Book(
        Subject(laws=[Finite([1, 1])], play=lambda bit, z: z[:, 0], cost=Pure(epsilon=1)),
        played,
        None,
    )
    model = book.outcomes(0)
    factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    near = 0
    for _ in range(300):
        n = int(draws.integers(1, 40))
        masses = [draws.random(n) / n / 8 for _ in range(2)]
        sides = [
            replace(
                model,
                ids=np.arange(n),
                low=mass,
                high=mass,
                region=replace(played, total=(Decimal(1), Decimal(1))),
            )
            for mass in masses
        ]
        low, high = Comparison(*sides, None, 1e-6).hockey_stick(epsilon)
        truth = mpmath.fsum(
            max(mpmath.mpf(0), mpmath.mpf(float(p)) - factor * mpmath.mpf(float(q)))
            for p, q in zip(*masses, strict=True)
        )
        assert low <= truth <= high
        near += high - low < 1e-13
    assert near == 300


def real(x):
    return (
        mpmath.mpf(str(x))
        if x.is_finite()
        else mpmath.inf * int(x.copy_sign(Decimal(1)) == x or -1)
    )


def conditioned(rate, q, again, top=5):
    """The law of min(noise + q, top) for geometric noise, given that it is not `again`, in fifty digits."""
    r = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
    law = {x: (1 - r) * r ** (x - q) for x in range(q, top)} | {top: r ** (top - q)}
    law = {x: p for x, p in law.items() if x != again}
    return {x: p / mpmath.fsum(law.values()) for x, p in law.items()}


@pytest.mark.parametrize("tail", [0.3, 0.2, 1e-2, 1e-9])
@pytest.mark.parametrize("again", [0, 1, 3, 5])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2, 3)])
@pytest.mark.each_value
def test_all_bounds_hold_where_outputs_are_drawn_again(rate, again, tail):
    """How often that happens depends on the answers, so that the constants of both sides differ."""
    subject = Subject(
        laws=[Geometric(rate)],
        play=lambda q, z: np.minimum(z[:, 0] + q, 5),
        cost=Pure(epsilon=1),
        again=again,
    )
    truths = [conditioned(rate, q, again) for q in (0, 1)]
    book, *orders = laws_of(subject, (0, 1), tail, 0.5)
    for compared, (p, q) in zip(orders, (truths, truths[::-1]), strict=True):
        for number, output in enumerate(book.outputs):
            low, high = compared.loss(number, beyond=False)
            true = (
                mpmath.log(p[output] / q[output])
                if output in p and output in q
                else mpmath.inf * (1 if output in p else -1)
            )
            assert real(low) <= true <= real(high)
        assert compared.worst(beyond=False)[0] <= max(
            mpmath.log(p[x] / q[x]) if x in q else mpmath.inf for x in p
        )
        for epsilon in (Fraction(0), Fraction(1, 4)):
            factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            true = mpmath.fsum(max(mpmath.mpf(0), p[x] - factor * q.get(x, 0)) for x in p)
            low, high = compared.hockey_stick(epsilon)
            assert low <= true + mpmath.mpf(10) ** -40
            assert true <= high + mpmath.mpf(10) ** -40
        if set(p) <= set(q):
            assert compared.renyi(Fraction(2), lambda number: Fraction(0))[0] <= mpmath.log(
                mpmath.fsum(p[x] ** 2 / q[x] for x in p)
            )
        audited = [book.outputs[i] for i in compared._ids[compared.audited].tolist()]
        assert compared.unresolved >= 1 - mpmath.fsum(p.get(x, 0) for x in audited)


def test_noise_that_was_not_played_counts_more_where_much_is_drawn_again():
    """Under b an output appears only in the noise that is not played, and most of what is played is drawn again."""
    edge = int(region((Geometric(Fraction(1)),), 0.02, 1000).noise.max())
    played = [
        lambda z: np.where(z == 0, 1, 2),
        lambda z: np.where(z == 0, 0, np.where(z <= edge, 2, 1)),
    ]
    subject = Subject(
        laws=[Geometric(Fraction(1))],
        play=lambda bit, z: played[bit](z[:, 0]),
        cost=Pure(epsilon=1),
        again=0,
    )
    book, forth, back = laws_of(subject, (0, 1), 0.02, 1e-6)
    truth = math.log((1 - math.exp(-1)) / math.exp(-edge))
    number = book.outputs.index(1)
    assert truth - 0.1 < float(forth.loss(number, beyond=False)[0]) <= truth
    assert -truth <= float(back.loss(number, beyond=False)[1])


def test_too_little_noise_to_ever_be_released_is_refused():
    subject = Subject(
        laws=[Geometric(Fraction(2))],
        play=lambda q, z: np.minimum(z[:, 0], 5),
        cost=Pure(epsilon=1),
        again=0,
    )
    with pytest.raises(
        audit.enumeration.outcomes.InvalidParameter, match="must not be the output of all noise"
    ):
        Book(subject, region(subject.laws, 0.3, 100), None).outcomes(0)
