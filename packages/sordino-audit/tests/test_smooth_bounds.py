"""The tester of smooth bounds: what it acquits, what it convicts and with which witness, and what it refuses."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClaimBroken, InvalidParameter, smooth

PAIRS = [(x, x + 1) for x in range(30)]
"""Data are whole numbers, neighbours differ by one; the statistic is a square up to 20, and stands still beyond."""


def statistic(x):
    return float(min(x, 20) ** 2)


def local(x):
    return max(abs(statistic(x + 1) - statistic(x)), abs(statistic(x) - statistic(x - 1)))


def within(x, t):
    return max(local(x + i) for i in range(-t, t + 1))


def bound(x, beta=0.1):
    return smooth.bound(within, x, beta=beta, ceiling=39)


@pytest.mark.slow
def test_a_smooth_bound_is_acquitted_with_its_oracle():
    report = audit.smooth_bound(bound, statistic, neighbours=PAIRS, beta=0.1, sensitivity_at=within)
    assert not report.broken
    assert report.pairs == 30
    report.raise_if_broken()
    assert "not broken on 30 pairs" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["broken"] is False


@pytest.mark.parametrize(
    ("broken", "condition"),
    [
        (local, "the bound of one is more than e^beta times that of the other"),
        (lambda x: 0.99 * bound(x), "the bound is below the change of the statistic"),
        (
            lambda x: bound(x, beta=0.13),
            "the bound of one is more than e^beta times that of the other",
        ),
        (
            lambda x: 39.0 if x < 20 else 0.0,
            "the bound of one is more than e^beta times that of the other",
        ),
    ],
)
def test_what_is_no_smooth_bound_is_convicted(broken, condition):
    report = audit.smooth_bound(broken, statistic, neighbours=PAIRS, beta=0.1)
    assert report.broken
    assert report.witness.condition == condition
    assert report.witness.found > report.witness.allowed
    with pytest.raises(ClaimBroken, match="is not a 0.1-smooth bound"):
        report.raise_if_broken()
    found, allowed = report.witness.found, report.witness.allowed
    x, y = report.witness.x, report.witness.y
    assert found == (
        abs(statistic(x) - statistic(y)) if "change" in condition else broken(x)
    )  # anybody can compute it again
    assert allowed == (
        broken(x) if "change" in condition else pytest.approx(math.exp(0.1) * broken(y))
    )


@pytest.mark.parametrize(
    ("oracle", "condition", "distance"),
    [
        (
            lambda x, t: within(x, t - 1) if t else 0.9 * local(x),
            "the sensitivity at distance 0 is below the change of the statistic",
            0,
        ),
        (
            lambda x, t: local(x),
            "the sensitivity at some distance is above that of the neighbour one farther",
            0,
        ),
        (
            lambda x, t: within(x, min(t, 2)),
            "the sensitivity at some distance is above that of the neighbour one farther",
            2,
        ),
    ],
)
def test_an_oracle_that_does_not_grow_is_convicted(oracle, condition, distance):
    report = audit.smooth_bound(None, statistic, neighbours=PAIRS, beta=0.1, sensitivity_at=oracle)
    assert report.broken
    if report.witness.condition == condition:
        assert report.witness.distance == distance or distance == 0


@pytest.mark.slow
def test_a_bound_of_several_statistics_is_tried_for_each():
    def several(x):
        return np.array([statistic(x), 2 * statistic(x)])

    assert not audit.smooth_bound(
        lambda x: 2 * bound(x), several, neighbours=PAIRS, beta=0.1
    ).broken
    assert audit.smooth_bound(bound, several, neighbours=PAIRS, beta=0.1).broken
    assert not audit.smooth_bound(
        lambda x: np.array([bound(x), 2 * bound(x)]), several, neighbours=PAIRS, beta=0.1
    ).broken


def test_numbers_at_the_ends_of_the_floats():
    """Neither ratios nor e^beta have to be floats."""
    steep = audit.smooth_bound(
        lambda x: 10.0 ** (600 * x - 300), lambda x: 0.0, neighbours=[(0, 1)], beta=1
    )
    assert steep.broken
    assert steep.witness.excess == pytest.approx(600 * math.log(10) - 1)
    assert not audit.smooth_bound(
        lambda x: 1e300, lambda x: 5e-324 * x, neighbours=[(0, 1)], beta=10**400
    ).broken
    assert audit.smooth_bound(float, lambda x: 0.0, neighbours=[(0, 1)], beta=10**400).broken


def test_an_endless_generator_is_cut_off():
    def endless():
        while True:
            yield from PAIRS

    assert (
        audit.smooth_bound(bound, statistic, neighbours=endless(), beta=0.1, limit=35).pairs == 35
    )


def test_what_is_refused():
    good = {"neighbours": PAIRS, "beta": 0.1}
    for wrong in (
        {"bound": 3},
        {"statistic": None},
        {"bound": None},
        {"neighbours": 5},
        {"neighbours": []},
        {"neighbours": [(1, 2, 3)]},
        {"neighbours": [3]},
        {"beta": -1},
        {"bound": lambda x: -1.0},
        {"bound": lambda x: math.nan},
        {"statistic": lambda x: math.inf},
        {"limit": 0},
    ):
        keys = {"bound": bound, "statistic": statistic} | good | wrong
        with pytest.raises(InvalidParameter):
            audit.smooth_bound(keys.pop("bound"), keys.pop("statistic"), **keys)
