"""Tables of a linear program: private and unbiased in whole numbers for all pairs of inputs, near the least variance."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import CompositeMechanism, CompositeTable, InvalidParameter, Seeded
from sordino.cost import Pure
from sordino.errors import UnsupportedBackend
from sordino.mechanisms import composite_table
from sordino.mechanisms.composite_table import TableNoise, checked
from sordino_audit.enumeration.clipped import law
from support.fit import LEVEL

LINE = {"lower": -1, "upper": 1}
MADE = [
    CompositeTable(**LINE, epsilon=1, inputs=5),
    CompositeTable(**LINE, epsilon=1),
    CompositeTable(**LINE, epsilon=3),
]
SMALL = TableNoise(((5, 3, 2), (3, 4, 3), (2, 3, 5)), Fraction(3, 10))


@pytest.mark.parametrize("m", MADE, ids=repr)
@pytest.mark.slow
def test_all_pairs_of_inputs_and_all_outputs_in_whole_numbers(m):
    noise = m.noise
    worst = max(
        Fraction(max(column), min(column))
        for column in zip(*noise.rows, strict=True)
        if any(column)
    )
    assert Decimal(worst.numerator) / Decimal(worst.denominator) <= Decimal(m.epsilon).exp()
    assert math.log(worst) > 0.9998 * m.epsilon
    for c in range(-noise.inputs, noise.inputs + 1):
        probabilities = noise.law(c)
        assert sum(probabilities) == 1
        assert sum(p * o for p, o in zip(probabilities, noise.outputs, strict=True)) == c
        assert probabilities == noise.law(-c)[::-1]


@pytest.mark.parametrize("value", [-1, Fraction(1, 3), Fraction(7, 8), 1])
def test_the_mean_is_the_value_and_the_variance_is_the_formula(value):
    m = MADE[1]
    outputs = [m.grid.middle + output * m.grid.step for output in m.noise.outputs]
    found = law(m, value)
    assert sum(p * o for p, o in zip(found, outputs, strict=True)) == value
    second = sum(p * (o - value) ** 2 for p, o in zip(found, outputs, strict=True))
    assert m.variance(at=value) == pytest.approx(float(second), rel=1e-12)
    assert math.sqrt(m.variance(at=value)) <= m.grid.standard_error * (1 + 1e-12)


@pytest.mark.slow
def test_it_is_near_the_least_variance_and_below_the_mixture():
    assert MADE[0].parameters["largest_variance"] < 4.05
    assert 3.990 < MADE[1].parameters["largest_variance"] < 4.005, (
        "the optimum of a fine program is 3.990"
    )
    assert 0.303 < MADE[2].parameters["largest_variance"] < 0.32
    for m in MADE[1:]:
        mixture = CompositeMechanism(**LINE, epsilon=m.epsilon, activation="mixture")
        assert m.parameters["largest_variance"] < 0.95 * mixture.variance(at=0)
    places = np.linspace(0, 1, 41)
    assert (
        max(MADE[1].variance(at=float(x)) for x in places) <= MADE[1].parameters["largest_variance"]
    )


def test_every_turn_gives_each_output_as_often_as_it_weighs():
    for c, row in zip((-1, 0, 1), SMALL.rows, strict=True):
        drawn = SMALL.decide(np.full(10, c), np.arange(10))
        assert np.bincount(drawn, minlength=3).tolist() == list(row)
    assert SMALL.decide(np.array([1, -1, 0]), np.array([0, 9, 4])).tolist() == [0, 2, 1]
    assert SMALL.variance_at(Fraction(0)) == Fraction(6, 10) / Fraction(9, 100)
    assert SMALL.variance_at(Fraction(1, 2)) == (
        SMALL.variance_at(Fraction(0)) + SMALL.variance_at(Fraction(1))
    ) / 2 + Fraction(1, 4)
    assert SMALL.largest_variance >= SMALL.variance_at(Fraction(1, 2))


def test_a_wrong_table_is_refused():
    assert checked(SMALL, Fraction(5, 2)) is SMALL
    for wrong, ratio in (
        (SMALL, Fraction(24, 10)),  # one ratio is too large
        (
            replace(SMALL, rows=((3, 7, 0), (1, 8, 1), (0, 7, 3))),
            Fraction(3),
        ),  # what one input never gives, others do
        (replace(SMALL, gain=Fraction(1, 3)), Fraction(5, 2)),  # another mean than is said
        (
            replace(SMALL, rows=((5, 3, 2), (3, 4, 3), (2, 4, 5))),
            Fraction(5, 2),
        ),  # rows with different sums
        (replace(SMALL, rows=((0, 0, 0),) * 3), Fraction(5, 2)),  # no weights at all
        (
            replace(SMALL, rows=tuple(tuple(x << 59 for x in row) for row in SMALL.rows)),
            Fraction(5, 2),
        ),  # more than a word holds
        (
            replace(SMALL, rows=((5, 3, 2), (3, 5, 2), (2, 3, 5))),
            Fraction(5, 2),
        ),  # the middle has a mean
        (replace(SMALL, rows=((6, 1, 3), (5, -1, 6), (3, 1, 6))), Fraction(9)),  # a weight below 0
    ):
        with pytest.raises(InvalidParameter, match="one for which a table can be made whole"):
            checked(wrong, ratio)


def test_no_table_is_used_unchecked(monkeypatch):
    monkeypatch.setattr(composite_table, "_solve_program", lambda *_: (1.0, None))
    for rows, right in (
        (SMALL.rows, True),
        (((5, 2, 3), (4, 2, 4), (3, 2, 5)), False),
    ):  # the second says that its gain is 3/10
        monkeypatch.setattr(
            composite_table, "_make_weights_whole", lambda *_, rows=rows: replace(SMALL, rows=rows)
        )
        made = composite_table.designed_table.__wrapped__
        if right:
            assert made(Fraction(1), 1) == SMALL
        else:
            with pytest.raises(InvalidParameter, match="one for which a table can be made whole"):
                made(Fraction(1), 1)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_tables_are_held_against_the_budget_itself(epsilon, monkeypatch):
    held = []
    monkeypatch.setattr(composite_table, "_solve_program", lambda *_: (1.0, None))
    monkeypatch.setattr(composite_table, "_make_weights_whole", lambda *_: SMALL)
    monkeypatch.setattr(composite_table, "checked", lambda _, ratio: held.append(ratio))
    composite_table.designed_table.__wrapped__(epsilon, 1)
    with localcontext() as context:
        context.prec = 90
        budget = Fraction((Decimal(epsilon.numerator) / epsilon.denominator).exp())
    assert budget * (1 - Fraction(1, 10**50)) < held[0] < budget


def test_reports_fit_the_law():
    m, draws = MADE[0], 20_000
    found = m.reports([0.3] * draws, entropy=Seeded(9)).values
    expected = np.array([float(p) for p in law(m, Fraction(0.3))]) * draws
    counts = np.array([np.count_nonzero(found == value) for value in m.grid.outputs])
    assert counts.sum() == draws
    assert not counts[expected == 0].any()
    kept = expected > 5
    assert (
        stats.chisquare(
            counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()
        ).pvalue
        > LEVEL
    )
    low, high = m.output_range
    assert low <= found.min() < found.max() <= high
    assert m.release(None, entropy=Seeded(1)).value == m.release(-1, entropy=Seeded(1)).value
    assert m.release(0.2, entropy=Seeded(1)).cost == Pure(epsilon=1)
    with pytest.raises(
        InvalidParameter, match=r"^CompositeTable\.release needs one number; got a list\."
    ):
        m.release([1], entropy=Seeded(1))


def test_the_auditor_finds_the_slack_and_nothing_else():
    report = audit.exact(MADE[0], answers_a=-1, answers_b=1)
    assert not report.broken
    assert 0.9998 < report.epsilon_at_most <= 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upper": -1}, r"^CompositeTable\.upper must be above lower"),
        ({"epsilon": 0.01}, r"^CompositeTable\.epsilon must be a number in \[0\.1, 5\]; got 0\.01"),
        ({"epsilon": 6}, r"^CompositeTable\.epsilon must be a number in \[0\.1, 5\]; got 6"),
        ({"inputs": 7}, r"^CompositeTable\.inputs must be 5 or 9; got 7"),
        ({"inputs": 5.0}, r"^CompositeTable\.inputs must be 5 or 9; got 5\.0"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        CompositeTable(**(LINE | {"epsilon": 1} | changes))


def test_without_scipy_no_cost_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    m = CompositeTable(**LINE, epsilon=1.2345)
    with pytest.raises(UnsupportedBackend, match=r"pip install 'sordino\[tables\]'"):
        _ = m.cost


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [5, 9])
@pytest.mark.parametrize("epsilon", [0.1, 0.37, 2, 5])
def test_tables_over_the_whole_range_of_epsilon(epsilon, inputs):
    noise = composite_table.designed_table(Fraction(str(epsilon)), inputs // 2)
    mixture = CompositeMechanism(**LINE, epsilon=epsilon, activation="mixture")
    if inputs == 9:
        assert (
            float(noise.largest_variance) / noise.inputs**2 < mixture.grid.standard_error**2 * 1.001
        )
