"""What numbers become on their way through a cost: rounded to the safe side, decided exactly, and total on whatever is accepted."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from cost import exact
from sordino import InvalidParameter
from sordino.cost import (
    RDP,
    ZCDP,
    Approximate,
    ApproximateZCDP,
    BoundedRange,
    Composition,
    Pure,
    Range,
    compose,
    repeat,
)
from sordino.cost.conversion import (
    _log_one_minus_inverse,
    digits as written,
    nearest,
    ratio,
    rdp_delta,
    round_down,
    round_up,
    stated,
)

HUGE, TINY = Fraction(10) ** 400, Fraction(1, 10**5000)
DISCRETE = {"laplace": Fraction(1, 2), "laplace_steps": 7}
KINDS = {
    "pure": lambda x: Pure(epsilon=x),
    "zcdp": lambda x: ZCDP(rho=x),
    "bounded": lambda x: BoundedRange(epsilon=x),
    "range": lambda x: Range(low=x, high=2 * x, orientation="up"),
    "symmetric": lambda x: Range(low=x, high=x),
    "lopsided": lambda x: Range(low=x, high=1),
    "approximate": lambda x: Approximate(epsilon=x, delta=1e-9),
    "approximate zcdp": lambda x: ApproximateZCDP(rho=x, delta=1e-9),
    "line": lambda x: RDP(rho=x, constant=x),
    "union": lambda x: RDP(rho=x, choices=10**400),
    "continuous": lambda x: RDP(laplace=x, laplace_steps="continuous"),
    "discrete": lambda x: RDP(laplace=x, laplace_steps=1 << 20),
    "table": lambda x: RDP(table=[(2, x), (8, x + 1)]),
    "twice": lambda x: repeat(Pure(epsilon=x), 2),
    "mixed": lambda x: compose(
        Pure(epsilon=x),
        ZCDP(rho=x),
        Range(low=x, high=x),
        Approximate(epsilon=x, delta=x / (x + 1)),
    ),
}
SIZES = (
    TINY,
    Fraction(1, 10**320),
    Fraction(1, 10**200),
    Fraction(1, 10**100),
    Fraction(7, 10),
    Fraction(10) ** 300,
    HUGE,
)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(exact.DIGITS):
        yield


@pytest.mark.parametrize(
    "size", SIZES, ids=lambda x: f"1e{math.log10(x.numerator) - math.log10(x.denominator):.0f}"
)
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.sample(4)
def test_every_view_is_total_on_what_is_accepted(make, size):
    for cost in (make(size), repeat(make(size), 3), repeat(make(size), 10**400)):
        for alpha in (1 + Fraction(1, 10**20), 1.5, 2, 1e6, 10**400, math.inf):
            assert 0 < cost.rdp(alpha) <= math.inf
        for delta in (0, Fraction(1, 10**400), 1e-300, 1e-9, 0.999, 1 - Fraction(1, 10**20)):
            assert 0 <= cost.epsilon(delta) <= math.inf
        for epsilon in (0, TINY, 1e-300, 1.0, 10**400, math.inf):
            assert 0 <= cost.delta(epsilon) <= 1
        assert json.loads(json.dumps(cost.to_dict(), allow_nan=False)) == cost.to_dict()
        assert len(repr(cost)) < 400
        assert "=0)" not in repr(cost)


def test_text_of_numbers():
    assert ratio(Fraction(1, 3)) == "1/3"
    assert ratio(Fraction(7)) == "7"
    assert ratio(TINY) == "1/1" + "0" * 5000
    assert ratio(1 / TINY) == "1" + "0" * 5000
    assert written(Fraction(1, 3)) == "0.333333333333"
    assert written(TINY) == "1e-5000"
    assert (nearest(HUGE), nearest(TINY), nearest(Fraction(1, 10))) == (None, 5e-324, 0.1)
    assert Pure(epsilon=TINY).to_dict() == {
        "notion": "pure",
        "epsilon": 5e-324,
        "exact": "1/1" + "0" * 5000,
    }
    assert repr(Pure(epsilon=HUGE)) == "Pure(epsilon=1e+400)"


@pytest.mark.parametrize(
    "number",
    [
        Fraction(1, 3),
        Fraction(3, 10),
        Fraction(2, 3),
        Fraction(10**17 + 1, 10**17),
        TINY,
        HUGE,
        Fraction(0),
    ],
)
def test_rounding_has_a_side(number):
    assert round_down(number) <= number <= round_up(number) <= stated(number)
    assert math.isfinite(round_down(number))
    assert stated(number) == math.inf or Fraction(repr(stated(number))) >= number
    assert stated(number) <= math.nextafter(round_up(number), math.inf)


def test_a_float_that_is_returned_holds_as_its_shortest_decimal():
    """Found by search: the float above this fraction is written as a decimal below it."""
    number = next(
        x
        for x in (Fraction(round_up(Fraction(k, 7))) - Fraction(1, 10**25) for k in range(1, 200))
        if Fraction(repr(round_up(x))) < x
    )
    assert round_up(number) < stated(number) == Pure(epsilon=number).epsilon(0)
    assert Approximate(epsilon=Pure(epsilon=number).epsilon(0), delta=0).pure() >= number
    assert Pure(epsilon=number).delta(Pure(epsilon=number).epsilon(0)) == 0


def test_thresholds_are_decided_on_exact_numbers():
    hair = Fraction(1, 10**30)
    both = Approximate(epsilon=1, delta=Fraction(1, 10))
    assert both.epsilon(Fraction(1, 10) - hair) == math.inf
    assert both.epsilon(Fraction(1, 10)) == both.epsilon(0.1) == 1
    assert Approximate(epsilon=1, delta=Fraction(1, 3)).epsilon(Fraction(1, 3)) == 1
    assert compose(both, ZCDP(rho=1)).epsilon(Fraction(1, 10) - hair) == math.inf
    for cost in (
        Pure(epsilon=0.3),
        Range(low=0.1, high=0.3),
        BoundedRange(epsilon=0.3),
        RDP(laplace=0.3, laplace_steps=1),
        compose(Pure(epsilon=0.1), Pure(epsilon=0.2)),
    ):
        assert cost.delta(0.3) == cost.delta(Fraction(3, 10)) == cost.delta(math.inf) == 0
        assert cost.delta(Fraction(3, 10) - hair) > 0
    tail = Fraction(1, 10**20)
    assert Pure(epsilon=100).epsilon(1 - tail) >= 100 - 20 * math.log(10)
    assert Pure(epsilon=100).epsilon(1 - tail) < 80
    for cost in (
        BoundedRange(epsilon=100),
        Range(low=100, high=99),
        compose(Pure(epsilon=60), Pure(epsilon=41)),
        ZCDP(rho=100),
    ):
        assert cost.epsilon(1 - tail) > 20, "rounding delta to 1 would give 0"
    assert ZCDP(rho=1).rdp(2 + hair) > 2
    assert RDP(table=[(2, 1)]).rdp(2 + hair) == math.inf


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [Fraction(1, 10**6), Fraction(7, 10), Fraction(20)])
@pytest.mark.sample(4)
def test_delta_of_epsilon_never_passes_delta(make, size):
    """To the last bit, also where delta is nearly 1; the numbers in between are floats and mean their decimals."""
    for cost in (make(size), repeat(make(size), 3)):
        for delta in (1e-290, 1e-100, 1e-12, 1e-3, 0.3, 0.9, 0.999999, 1 - 2**-50):
            epsilon = cost.epsilon(delta)
            assert epsilon == math.inf or cost.delta(epsilon) <= delta
        assert cost.delta(0) <= 1


@pytest.mark.parametrize("divergence", [2.0, 5.0, 30.0])
def test_a_delta_is_a_probability(divergence):
    """A curve known at one order, and bisection to where its bound reaches 1, so that what is rounded up passes it."""
    order, sure, less = 1 + math.exp(0.5), 0.0, 50.0
    for _ in range(70):
        middle = (sure + less) / 2
        delta = rdp_delta(
            lambda alpha: divergence if abs(alpha - order) < 1e-9 else math.inf, middle
        )
        assert 0 <= delta <= 1
        sure, less = (middle, less) if delta == 1 else (sure, middle)
    assert 0 < sure < less < 50
    for rho in (1e-13, 1e-6, 1.0, 30.0):
        assert 0 <= RDP(rho=rho).delta(0) <= 1


def test_near_order_one_no_digits_are_lost():
    """The quotient 1 - 1/alpha loses three digits there; what is added for rounding is worth four units in the last place."""
    for i in range(2000):
        alpha = 1 + math.exp(-7 + 0.01 * i)
        a = mpmath.mpf(alpha)
        truth = mpmath.log(1 - 1 / a)
        assert abs(_log_one_minus_inverse(alpha) - truth) <= 6 * 2.0**-53 * abs(truth)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_no_divergence_is_rounded_to_nothing(make):
    for size in SIZES[:4]:
        for alpha in (1.001, 2.0, 1e9):
            assert make(size).rdp(alpha) > 0
    small = Fraction(1, 10**160)
    truth = (
        exact.moment(exact.two_points(Fraction(1, 1000), Fraction(1, 1000)), 2)
        * mpmath.mpf(10) ** -314
    )
    assert Pure(epsilon=small).rdp(2.0) >= truth, "a curve of order two, a thousandth scaled down"


def test_small_intervals_keep_their_delta():
    for size in (Fraction(1, 10**155), Fraction(1, 10**200), Fraction(1, 10**300)):
        assert (
            exact.mp(size) / 4 * (1 - mpmath.mpf(10) ** -9)
            <= BoundedRange(epsilon=size).delta(0)
            <= exact.mp(size) / 3
        )


def test_a_table_says_something_of_one_mechanism_only():
    """Randomized response of 6 keeps rho = 1 and a table together, but not the table's value at a smaller order."""
    truth = Pure(epsilon=6).rdp(2)
    assert truth > 5.99
    with pytest.raises(InvalidParameter, match="table must stand alone"):
        RDP(rho=1, table=[(2, 5), (32, 1)])
    for other in ({"constant": 1}, {"choices": 2}, DISCRETE):
        with pytest.raises(InvalidParameter, match="table must stand alone"):
            RDP(table=[(2, 1)], **other)
    both = compose(ZCDP(rho=1), RDP(table=[(2, 5), (32, 1)]))
    assert both.rdp(2) == pytest.approx(3), (
        "here the table bounds a mechanism of its own, so its smaller value holds below"
    )


def test_the_order_of_parts_is_exact_and_the_same_everywhere():
    """Epsilons that 12 digits cannot tell apart, in processes with different hashes."""
    script = (
        "from fractions import Fraction; import json; from sordino.cost import *; "
        "parts = [Pure(epsilon=1 + Fraction(i, 10**20)) for i in (3, 1, 2)] + [Range(low=1, high=1, orientation=o) for o in 'ba'] "
        "+ [RDP(rho=1), RDP(laplace=1, laplace_steps='continuous'), RDP(laplace=1, laplace_steps=1), Approximate(epsilon=1, delta=0.1)]; "
        "parts += [Range(low=1, high=1 + Fraction(i, 10**20), orientation='x') for i in range(1, 7)]; "
        "whole = compose(*parts); print(json.dumps(whole.to_dict()), repr(whole), [float.hex(whole.delta(x)) for x in (0.5, 2, 3)])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(runs) == 1


class Foreign:
    """A cost of somebody else."""

    def __init__(self, amount):
        self.amount = amount

    def pure(self):
        return self.amount

    zcdp = pure

    def rdp(self, alpha):
        return 1.0

    epsilon = delta = rdp

    def to_dict(self):
        return {"notion": "foreign", "amount": str(self.amount)}


def test_compositions_are_checked_however_they_are_made():
    one = Pure(epsilon=Fraction(1, 2))
    for parts, words in (
        ({(one, -3)}, "A count of Composition must be a whole number, at least 1"),
        ({(one, 0)}, "A count of Composition"),
        ({(one, 1.0)}, "A count of Composition"),
        ({(one, True)}, "A count of Composition"),
        (
            {(one, np.int64(2))},
            "A count of Composition must be a whole number, at least 1, as an int",
        ),
        ({one}, "must hold pairs"),
        ({("one", 1)}, "takes costs"),
        ({(Composition(frozenset({(one, 2)})), 2)}, "must hold single costs"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            Composition(frozenset(parts))
    with pytest.raises(InvalidParameter, match="must be a frozenset"):
        Composition([(one, 1)])


def test_classes_of_others_are_kept_or_refused_but_never_dropped():
    class Free(Pure):
        def pure(self):
            return Fraction(0)

    @dataclass
    class Loose(Foreign):
        amount: Fraction = Fraction(1)

    with pytest.raises(InvalidParameter, match="final classes; got Free, a subclass"):
        compose(Free(epsilon=3))
    with pytest.raises(InvalidParameter, match="costs that can be hashed; got Loose"):
        repeat(Loose(), 2)
    foreign = Foreign(Fraction(0))
    assert compose(foreign, Pure(epsilon=1)).rdp(2) > 1, (
        "what says it costs nothing may still have a curve"
    )
    assert compose(foreign, foreign).to_dict()["parts"] == [
        {"notion": "foreign", "amount": "0", "count": 2}
    ]
    assert isinstance(compose(Foreign(0.5), Pure(epsilon=1)).pure(), float), (
        "a float stays one, so that no filter takes it"
    )


def test_underflow_does_not_break_long_sums():
    whole = repeat(Pure(epsilon=0.07), 8000)
    for delta in (1e-250, 1e-200, 1e-100):
        epsilon = whole.epsilon(delta)
        assert whole.delta(epsilon) <= delta
        assert epsilon <= stated(whole.pure())
    assert RDP(laplace=1e-320, laplace_steps=1 << 20).rdp(2) > 0
