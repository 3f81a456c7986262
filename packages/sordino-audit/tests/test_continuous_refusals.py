"""Continuous laws: what contradicts itself, what has no end and no statement, what was never public, is refused in words."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, InvalidParameter, Sensitivity
from sordino.cost import Pure
from sordino_audit import Crossings, Density, Law, Race

ONE = Pure(epsilon=1)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
EXP = Law.exponential


def race(law, **options):
    return Race(noise=law, **({"cost": ONE} | options))


def sparse(threshold, queries, **options):
    return Crossings(
        threshold=threshold, queries=queries, **({"cost": ONE, "positives": 1} | options)
    )


def added(law, **options):
    return Density.added(law, **({"cost": ONE, "window": (-60, 60)} | options))


def density(**options):
    """Laplace noise of scale 1 with functions of one's own."""

    def log_density(low, high, answer):
        z = np.abs(low - answer), np.abs(high - answer)
        near = np.where((low - answer) * (high - answer) <= 0, 0.0, np.minimum(*z))
        return -np.maximum(*z) - math.log(2) - 1e-12, -near - math.log(2) + 1e-12

    given = {"log_density": log_density, "window": (-60, 60), "cost": ONE, "tail": 1}
    return Density(**(given | options))


CROSSED = {"log_density": lambda low, high, answer: (np.zeros_like(low), np.full_like(low, -1.0))}
NAN = {"log_density": lambda low, high, answer: (np.full_like(low, np.nan), np.zeros_like(low))}
HEAVY = {
    "log_density": lambda low, high, answer: (np.zeros_like(low), np.zeros_like(low)),
    "shape": "linear",
}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"tail": None},
            "needs Density.tail for Density, because its outputs have no end.*or give partition=",
        ),
        (CROSSED, "log_density must return a lower and an upper bound; got 0 and -1"),
        (NAN, "log_density must return a lower and an upper bound; got nan"),
        ({"log_density": lambda low, high, answer: low}, "must return two arrays"),
        (HEAVY, "must be a probability law; its parts have a probability of at least 120"),
        ({"shape": "convex"}, "log_density must be convex between its breaks"),
        ({"shape": "monotone"}, "log_density must be monotone between its breaks"),
        ({"shape": "linear"}, "log_density must be linear between its breaks"),
        ({"shape": ("linear", "linear")}, "one word more than there are breaks"),
        ({"shape": "linear", "breaks": lambda answer: [1, 0]}, "Density.breaks must rise"),
        ({"breaks": lambda answer: ["x"]}, "Density.breaks must be a finite number"),
        ({"breaks": lambda answer: [(2.0, 1.0)]}, "pairs of floats with the place between them"),
        (
            {"atoms": lambda answer: {"x": (0.0, -1.0)}},
            "Density.atoms must return a lower and an upper bound",
        ),
        ({"atoms": lambda answer: {"x": (-1.0, -1.0)}, "shape": "concave"}, "at least 1.36"),
        ({"tail": lambda a, b: -1}, r"Density.tail must be a number in \[0, inf\)"),
    ],
)
def test_what_contradicts_itself_is_refused(options, says):
    with pytest.raises(InvalidParameter, match=says):
        audit.exact(density(**options), answers_a=0, answers_b=1, slack=0.1, vectors=20_000)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"log_density": 3}, "Density.log_density must be a function; got 3"),
        ({"window": (1, 0)}, "Density.window must be two finite numbers"),
        ({"window": (0, math.inf)}, "Density.window must be two finite numbers"),
        ({"window": 3}, "Density.window must be two finite numbers"),
        (
            {"shape": "round"},
            "Density.shape must be made of linear, concave, convex, monotone, any; got 'round'",
        ),
        ({"tail": -1}, r"Density.tail must be a number in \[0, inf\); got -1"),
        ({"cost": Pure}, "Density.cost must be a cost"),
        (
            {"cost_of": lambda label: ONE},
            "Density.cost_of must be None where outputs have neither labels nor atoms",
        ),
        ({"cost_of": 3}, "Density.cost_of must be a function; got 3"),
        ({"sensitivity": 3}, "Density.sensitivity must be a Sensitivity or None; got 3"),
    ],
)
def test_public_parameters_of_densities_are_checked(options, says):
    with pytest.raises(InvalidParameter, match=says):
        density(**options)


def test_bad_calls_are_refused():
    mechanism = added(Law.laplace(1))
    with pytest.raises(InvalidParameter, match="partition must be a list of rising numbers"):
        audit.exact(mechanism, answers_a=0, answers_b=1, partition=[1, 0])
    with pytest.raises(InvalidParameter, match="partition must be a list of rising numbers"):
        audit.exact(mechanism, answers_a=0, answers_b=1, partition=lambda x: x)
    with pytest.raises(InvalidParameter, match="partition must have cuts inside Density.window"):
        audit.exact(mechanism, answers_a=0, answers_b=1, partition=[0, 100])
    with pytest.raises(InvalidParameter, match="one number on each side"):
        audit.exact(mechanism, answers_a=(0, 1, 2), answers_b=(0, 1, 3))
    with pytest.raises(InvalidParameter, match="the scale in audit.exact.answers"):
        audit.exact(mechanism, answers_a=(0, 0), answers_b=(0, 1))
    with pytest.raises(InvalidParameter, match="a statement says nothing about scales"):
        audit.exact(
            added(Law.laplace(1), sensitivity=COUNTING.over(2)), answers_a=(0, 1), answers_b=(0, 2)
        )
    with pytest.raises(InvalidParameter, match="needs to know the neighbours"):
        audit.exact(mechanism, search=True, n=1)
    with pytest.raises(
        InvalidParameter, match="Density.added.law must be a Law with a log density"
    ):
        added(Law(log_cdf=Law.laplace(1).log_cdf))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: race(EXP(1), gap=1), "Race.gap must be True or False"),
        (lambda: race(EXP(1), k=2), "Race.k must be 1 unless gap=True and outputs lists"),
        (lambda: race(EXP(1), k=0), "Race.k must be a whole number, at least 1"),
        (lambda: race([]), "Race.noise must be a Law with a log_cdf"),
        (lambda: sparse(EXP(1), 3), "Crossings.queries must be a Law with a log_cdf"),
        (
            lambda: sparse(EXP(1), EXP(1), boundaries=[0, 1]),
            "Crossings.boundaries must be one number for each of the 1 branches; got 2",
        ),
        (
            lambda: sparse(EXP(1), EXP(1), boundaries=[Fraction(1, 3)], gap=True),
            "Crossings.boundaries must be floats",
        ),
        (
            lambda: sparse(EXP(1), EXP(1), positives=0),
            "Crossings.positives must be a whole number, at least 1",
        ),
        (lambda: sparse(EXP(1), EXP(1), at=math.inf), "Crossings.at must be a finite number"),
        (lambda: audit.Race(noise=EXP(1), cost=1), "Race.cost must be a cost"),
    ],
)
def test_public_parameters_of_races_are_checked(make, says):
    with pytest.raises(InvalidParameter, match=says):
        make()


@pytest.mark.parametrize(
    ("mechanism", "a", "b", "says"),
    [
        (race(EXP(1)), [0], [1], "needs more than 1 answers for this race"),
        (race([EXP(1), EXP(2)]), [0, 1, 2], [0, 1, 1], "as many as there are laws; got 3 and 2"),
        (race(EXP(1)), [0, 0], [0, 0, 0], "the same number of answers on both sides"),
        (
            race(Law.cauchy(3), gap=True),
            [0, 0],
            [0, 1],
            "laws with a log-concave density for gaps without a partition",
        ),
        (
            race(EXP(1), gap=True, outputs=[]),
            [0, 0],
            [0, 1],
            "Race.outputs must list at least one output",
        ),
        (
            race(EXP(1), gap=True, outputs=[(0, (1, 2))]),
            [0, 0],
            [0, 1],
            "Race.outputs must be pairs of 1 different positions and 1 gaps",
        ),
        (
            race(EXP(1), sensitivity=EITHER),
            ([0, 0], 2),
            ([0, 1], 2),
            "finite numbers|says nothing about scales|neighbours",
        ),
        (race(EXP(1)), ([0, 0], 0), ([0, 1], 2), "the scale in audit.exact.answers"),
        (
            sparse(EXP(1), EXP(1), positives=2, gap=True),
            [0, 0],
            [0, 1],
            "Crossings.outputs must be a list of outputs, which are compared",
        ),
        (
            sparse(EXP(1), EXP(1), gap=True, outputs=[(0, 1)]),
            [0, 0],
            [0, 1],
            "Crossings.outputs must have 0, a branch, or with a gap",
        ),
        (
            sparse(EXP(1), EXP(1), outputs=[(0, 3)]),
            [0, 0],
            [0, 1],
            "Crossings.outputs must have 0, a branch",
        ),
        (
            sparse(EXP(1), EXP(1), outputs=[(0, (1, 2))]),
            [0, 0],
            [0, 1],
            "Crossings.outputs must have 0, a branch",
        ),
        (
            sparse(EXP(1), EXP(1), gap=True, outputs=[(0, (1, 2, 3))]),
            [0, 0],
            [0, 1],
            "Crossings.outputs must have 0, a branch",
        ),
        (
            race(EXP(1), gap=True, outputs=[3]),
            [0, 0],
            [0, 1],
            "Race.outputs must be pairs of a position and a gap; got 3",
        ),
        (
            sparse(EXP(1), EXP(1), outputs=[(0,)]),
            [0, 0],
            [0, 1],
            "transcripts that can come out of 2 answers",
        ),
        (
            sparse(EXP(1), EXP(1), outputs=[(1, 0)]),
            [0, 0],
            [0, 1],
            "transcripts that can come out of 2 answers",
        ),
        (
            sparse(EXP(1), EXP(1), outputs=[(0, 0, 1)]),
            [0, 0],
            [0, 1],
            "transcripts that can come out of 2 answers",
        ),
        (
            race(EXP(1), gap=True, outputs=[(2, 1)]),
            [0, 0],
            [0, 1],
            "Race.outputs must have positions from 0 to 1; got 2",
        ),
        (sparse(EXP(1), EXP(1), outputs=[3]), [0, 0], [0, 1], "Crossings.outputs must be tuples"),
        (
            sparse(EXP(1), EXP(1), positives=None),
            [0] * 14,
            [0] * 13 + [1],
            "at most 10000 transcripts",
        ),
        (race(EXP(1)), [0, "x"], [0, 1], "audit.exact.answers must be a finite number"),
    ],
)
@pytest.mark.sample(8)
def test_bad_races_are_refused(mechanism, a, b, says):
    with pytest.raises(InvalidParameter, match=says):
        audit.exact(mechanism, answers_a=a, answers_b=b)


def test_whole_number_partitions_stay_functions_and_batches_stay_whole():
    with pytest.raises(InvalidParameter, match="partition must be a list of rising numbers"):
        audit.exact(race(EXP(1), gap=True), answers_a=[0, 0], answers_b=[0, 1], partition=[])

    for mechanism in (race(EXP(1)), race(EXP(1), gap=True, outputs=[(0, 1)])):
        with pytest.raises(
            InvalidParameter,
            match="partition must be None unless gaps are released, and outputs are not listed",
        ):
            audit.exact(mechanism, answers_a=[0, 0], answers_b=[0, 1], partition=[1])

    class Mine:
        def audited(self, n):
            return race(EXP(1))

    with pytest.raises(InvalidParameter, match="batch must be None where noise is continuous"):
        audit.black_box(Mine(), [0, 0], batch=3)
