"""Comparisons: the same for every kind of list, never below the truth, never taken away by the reference in their last row."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from sordino import InvalidParameter
from sordino.accounting import _compare as comparing, compare, pld, to_dp_events
from sordino.accounting._pld import SLACK
from sordino.cost import ZCDP, Approximate, BoundedRange, Pure, Range, compose, repeat

TENTH, HUNDREDTH = Pure(epsilon=Fraction(1, 10)), Pure(epsilon=Fraction(1, 100))
SEVERAL = [
    TENTH,
    TENTH,
    Range(low=0.05, high=0.1, orientation="x"),
    BoundedRange(epsilon=0.2),
    TENTH,
]


def truth(one, count, delta):
    """The least epsilon of `count` randomized responses at `delta`, by binomial sums in 60 digits and bisection."""
    with mpmath.workdps(60):
        e = mpmath.mpf(one.epsilon_.numerator) / one.epsilon_.denominator
        high = 1 / (1 + mpmath.exp(-e))
        masses, mass = [], high**count
        for wins in range(count, count // 2, -1):
            masses.append(((2 * wins - count) * e, mass))
            mass *= mpmath.mpf(wins) / (count - wins + 1) * (1 - high) / high

        def at(epsilon):
            return sum(
                mass * -mpmath.expm1(epsilon - loss) for loss, mass in masses if loss > epsilon
            )

        low, top = mpmath.mpf(0), count * e
        for _ in range(60):
            middle = (low + top) / 2
            low, top = (middle, top) if at(middle) > delta else (low, middle)
        return low


@pytest.mark.parametrize(
    "make", [list, tuple, deque, iter, lambda costs: (cost for cost in costs), reversed]
)
def test_any_list_is_the_same_list(make):
    found, expected = compare(make(SEVERAL), delta=1e-6), compare(SEVERAL, delta=1e-6)
    assert found.epsilon == expected.epsilon == compose(*SEVERAL).epsilon(1e-6) > 0.2
    assert found.routes == expected.routes
    assert pld(make(SEVERAL)).epsilon(1e-6) == pld(SEVERAL).epsilon(1e-6) > 0.2
    assert len(to_dp_events(make([TENTH] * 7)).events) == 7
    assert str(compare(dict.fromkeys("ab", TENTH).values(), delta=1e-6)).startswith("2 costs")


@pytest.mark.parametrize(
    "make",
    [
        Counter,
        set,
        frozenset,
        lambda costs: dict.fromkeys(costs, 20),
        lambda costs: dict.fromkeys(costs).keys(),
    ],
)
def test_what_holds_each_cost_once_is_refused(make):
    for caller in (lambda costs: compare(costs, delta=1e-6), pld, to_dp_events):
        with pytest.raises(
            InvalidParameter,
            match="takes a list of costs, equal ones as often as they are paid; got a",
        ):
            caller(make([TENTH] * 20))


@pytest.mark.parametrize("one", [TENTH, HUNDREDTH])
@pytest.mark.parametrize("delta", ["1e-9", "1e-12", "1e-14", "1e-30"])
@pytest.mark.slow
def test_a_thousand_costs_are_never_below_the_truth(one, delta):
    least, table = truth(one, 1000, mpmath.mpf(delta)), compare([one] * 1000, delta=float(delta))
    assert least <= table.epsilon <= least * (1 + mpmath.mpf(10) ** -8)
    assert table.epsilon == repeat(one, 1000).epsilon(float(delta))
    reference = table.routes[-1]
    assert reference.reference
    assert least <= reference.epsilon
    assert (
        reference.epsilon < 1.1 * least
        if float(delta) > 2 * SLACK
        else reference.epsilon == math.inf
    )
    distribution = pld([one] * 1000)
    assert least <= distribution.epsilon(float(delta))


@pytest.mark.slow
def test_the_reference_alone_would_have_been_too_low():
    """The broken twin: the smallest of all rows, with the sums of dp_accounting as they come."""
    raw = pld([TENTH] * 1000).distribution.get_epsilon_for_delta(1e-14)
    assert raw < truth(TENTH, 1000, mpmath.mpf("1e-14")) - 0.1


@pytest.mark.parametrize(
    "one", [TENTH, HUNDREDTH, Range(low=0.02, high=0.05), BoundedRange(epsilon=0.03)]
)
@pytest.mark.sample(4)
def test_the_margin_is_more_than_what_the_reference_loses(one):
    """Where our own sums know the truth: its raw deltas lie below it by less than a tenth of the margin."""
    for count in (10, 100, 200):
        batch, law = pld([one] * count), repeat(one, count)
        ends = [float(law.pure()) * share for share in (0, 0.05, 0.1, 0.2, 0.4, 0.7, 0.99, 1.01)]
        for epsilon in ends:
            assert 0 <= batch.delta(epsilon) <= 1
            raw = float(batch.distribution.get_delta_for_epsilon(epsilon))
            if isinstance(one, Pure):
                assert raw >= law.delta(epsilon) - SLACK / 10
                assert batch.delta(epsilon) >= law.delta(epsilon)
    assert pld([one] * 10).delta(math.inf) == pytest.approx(SLACK, rel=1e-3)
    assert pld([one] * 10).epsilon(SLACK) == pld([one] * 10).epsilon(0) == math.inf


def test_bounded_ranges_of_any_width_are_rounded_up():
    for width in (Fraction(1, 3), Fraction(1, 7000), Fraction(15, 100)):
        batch = pld([BoundedRange(epsilon=width)], interval=1e-3)
        for epsilon in (0.0, 1e-4, 0.01, 0.1, 0.2, 0.33):
            assert (
                BoundedRange(epsilon=width).delta(epsilon)
                <= batch.delta(epsilon)
                <= BoundedRange(epsilon=width).delta(epsilon - 0.002 if epsilon > 0.002 else 0)
                + 1e-3
            )


def test_the_last_row_takes_nothing_away(monkeypatch):
    """Losses whose masses leave the floats, too many intervals, a failing package: a note, and the other rows as they are."""
    far = [Range(low=800, high=1, orientation="x")]
    assert compare(far, delta=1e-6).epsilon == compose(*far).epsilon(1e-6)
    assert 799 < pld(far, interval=1e-2).epsilon(1e-6) < 801
    assert pld([Range(low=1, high=800)], interval=1e-2).epsilon(1e-6) < 801
    wide = compare([BoundedRange(epsilon=300)], delta=1e-6)
    assert "too long" in wide.routes[-1].note
    assert wide.epsilon < 300
    assert [route.name for route in compare(far, delta=1e-6, reference=False).routes] == [
        "sum",
        "zCDP",
        "RDP",
        "exact",
    ]
    with pytest.raises(InvalidParameter, match="compare.reference must be True or False"):
        compare(far, delta=1e-6, reference=1)
    for error in (ValueError, ZeroDivisionError, OverflowError):
        monkeypatch.setattr(
            comparing, "distribution_of", lambda *_, error=error: (_ for _ in ()).throw(error())
        )
        assert (
            compare([TENTH], delta=1e-6).routes[-1].note
            == f"dp_accounting failed with {error.__name__}"
        )


def test_many_different_costs_are_summed_in_pairs():
    """Four hundred different costs took 21 seconds one after the other; measured 0.9 s."""
    many = [Pure(epsilon=Fraction(i, 10**4)) for i in range(1, 401)]
    assert compare([TENTH], delta=1e-6).routes[-1].epsilon > 0, "the package is loaded"
    start = time.process_time()
    table = compare(many, delta=1e-6)
    assert time.process_time() - start < 10
    assert table.routes[-1].epsilon < table.epsilon < math.inf


def test_one_interval_is_seen_as_it_is():
    """Chords lie above the curve; one part alone needs none, also beside parts that fail."""
    one = BoundedRange(epsilon=2)
    table = compare([one], delta=1e-3)
    assert table.routes[3].epsilon == table.epsilon == one.epsilon(1e-3)
    beside = compare([one, Approximate(epsilon=0, delta=1e-4)], delta=1e-3)
    left = (Fraction(1, 1000) - Fraction(1, 10**4)) / (1 - Fraction(1, 10**4))
    assert beside.epsilon == pytest.approx(one.epsilon(float(left)), rel=1e-12)


def test_printed_numbers_are_rounded_up():
    table = compare([ZCDP(rho=Fraction(1, 10**9))], delta=1e-6)
    assert table.epsilon > 0
    assert "0.0000\n" not in f"{table}\n"
    for costs, delta in (
        (SEVERAL, 1e-6),
        ([HUNDREDTH] * 7, 1e-9),
        ([Pure(epsilon=Fraction(1, 10**7))], 1e-3),
        ([Pure(epsilon=12345.678)], 1e-5),
    ):
        table = compare(costs, delta=delta)
        for line, route in zip(str(table).splitlines()[1:], table.routes, strict=True):
            text = line.split()[1]
            if text != "-":
                assert (
                    Decimal(repr(route.epsilon))
                    <= Decimal(text)
                    <= Decimal(repr(route.epsilon)) * Decimal("1.00011")
                )
    assert "sum    12346" in str(compare([Pure(epsilon=12345.678)], delta=1e-5))
    assert str(compare([], delta=0.5)).splitlines()[1] == "  sum    0.0000"
    assert "1000000 costs" in str(compare([repeat(TENTH, 10**6)], delta=1e-6, reference=False))
