"""Groups that nobody listed, exactly: what finds them and what is released of them, together, for all neighbors of small tables.

A unit is a dict {group: value}. Mechanisms are those that a session reserves; their laws come from definitions of the tests.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import cycle, islice, product

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.questions import Domain
from sordino.session.quantile_request import QuantileRequest
from support.quantiles import law_of
from support.unlisted import cdf, pmf

DELTA, EPSILON, SHARE = Fraction(1, 1000), 2, 0.1
LABELS = ("a", "b")
VALUES = (0.5, 5.0)
ONE = [{label: value} for label in LABELS for value in VALUES]
BOTH = [{"a": one, "b": other} for one, other in product(VALUES, VALUES)]
UNITS = ONE + BOTH[::3]
MOVING, STAYING = BOTH[1:3], ONE[2:]


def reserved(adjacency, groups, most=2):
    """What a session would spend: the mechanism that finds groups, and the estimator of each."""
    table = pl.DataFrame({"group": ["a"], "x": [1.0], "who": [1]})
    session = sd.Session(table, unit=sd.PrivacyUnit("who", adjacency, 1), entropy=sd.Seeded(1))
    request = QuantileRequest(
        column="x",
        q=0.5,
        epsilon=EPSILON,
        lower=0,
        cap=7,
        growth=2,
        interval_share=None,
        by="group",
        domain=Domain.unlisted(delta=DELTA),
        groups_per_unit=groups,
        most_groups=most,
        search_share=SHARE,
    )
    return session._executor.start(request).reservation.parts


# In which groups a unit counts is chosen twice, by secrets of their own: here the first ones, then the last ones.
def chosen_first(unit, groups):
    return sorted(unit)[:groups]


def chosen_again(unit, found, groups):
    return sorted(set(unit) & set(found))[-groups:]


@cache
def chances_of_sets(finder, counts):
    """P(these groups are found): counts with noise that reach the threshold, the largest one or both, ties by label."""
    ratio, least = math.exp(-float(finder.noise.rate)), finder.threshold
    height = np.arange(least, least + max(counts) + math.ceil(40 / float(finder.noise.rate)))

    def reaches(count):
        return (
            pmf("laplace", ratio, height - count)
            if count >= finder.least
            else np.zeros(height.size)
        )

    def stays(count, at):
        return cdf("laplace", ratio, at - count) if count >= finder.least else np.ones(np.shape(at))

    first, second = counts
    either = float(stays(first, least - 1) * stays(second, least - 1))
    if finder.k == 1:
        return {
            (): either,
            ("a",): float(reaches(first) @ stays(second, height)),
            ("b",): float(reaches(second) @ stays(first, height - 1)),
        }
    one, other = float(reaches(first).sum()), float(reaches(second).sum())
    return {(): either, ("a",): one * (1 - other), ("b",): (1 - one) * other, LABELS: one * other}


@cache
def edges_of(estimator, records):
    return tuple(law_of(estimator, list(records)).items())


def law(finder, estimator, table, groups, *, skip_empty=False):
    """P(groups that are found, and the edge that is released of each)."""
    counts = tuple(sum(label in chosen_first(unit, groups) for unit in table) for label in LABELS)
    masses = {}
    for found, chance in chances_of_sets(finder, counts).items():
        held = {
            label: tuple(
                sorted(unit[label] for unit in table if label in chosen_again(unit, found, groups))
            )
            for label in found
        }
        shown = [label for label in found if held[label] or not skip_empty]
        for edges in product(*(edges_of(estimator, held[label]) for label in shown)):
            output = found, tuple(shown), tuple(edge for edge, _ in edges)
            masses[output] = masses.get(output, 0.0) + chance * math.prod(mass for _, mass in edges)
    return masses


def neighbors(adjacency, threshold):
    """Tables that differ in one unit; each pair once. Counts lie below the threshold, at it, and beyond."""
    sizes = (0, threshold - 1, threshold + 2)
    for many, others in product(sizes, repeat=2):
        # The first ones count in group a when groups are looked for, and in group b when it was found.
        rest = (*islice(cycle(MOVING), many), *islice(cycle(STAYING), others))
        for at, unit in enumerate(UNITS):
            if adjacency == "add-remove":
                yield rest, (*rest, unit)
            else:
                yield from (((*rest, unit), (*rest, other)) for other in UNITS[at + 1 :])


def beyond(one, other, epsilon):
    """What two laws have beyond e^epsilon of each other, the larger of both ways."""
    factor = math.exp(epsilon)

    def excess(p, q):
        return sum(max(0.0, mass - factor * q.get(output, 0.0)) for output, mass in p.items())

    return max(excess(one, other), excess(other, one))


def worst(adjacency, groups, *, most=2, changed=None, epsilon=EPSILON, **twin):
    finder, figures = reserved(adjacency, groups, most)
    estimator = (
        figures.estimator if changed is None else replace(figures.estimator, epsilon=changed)
    )
    return max(
        beyond(*(law(finder, estimator, table, groups, **twin) for table in pair), epsilon)
        for pair in neighbors(adjacency, finder.threshold)
    )


CASES = [(adjacency, groups) for adjacency in ("add-remove", "replace-one") for groups in (1, 2)]


@pytest.mark.parametrize(("adjacency", "groups"), CASES)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.sample(3)
def test_finding_and_releasing_is_what_epsilon_and_delta_say(adjacency, groups, most):
    assert worst(adjacency, groups, most=most) <= float(DELTA) + 1e-12
    finder, figures = reserved(adjacency, groups, most)
    failing, firm = finder.cost.split_failure()
    assert failing == DELTA
    # Rates are rounded down by parts in a trillion.
    assert 0 <= EPSILON - (firm.pure() + figures.cost.pure()) < 1e-9


def test_the_budget_is_needed():
    assert worst("add-remove", 1, epsilon=0.75 * EPSILON) > 20 * DELTA


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_groups_that_are_skipped_when_they_are_empty_tell_of_a_unit(adjacency):
    assert worst(adjacency, 1, skip_empty=True) > 0.3


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_groups_that_are_priced_as_half_as_many_are_convicted(adjacency):
    """Under replace-one that is the price of add-remove: the unit that leaves a group and the one that joins another both count."""
    _, figures = reserved(adjacency, 1)
    assert worst(adjacency, 1, changed=2 * figures.estimator.epsilon) > 10 * DELTA
