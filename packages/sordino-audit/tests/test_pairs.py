"""Which pairs are neighbours once they stand on the grid, how they are listed, and how they are searched for within bounds."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import islice, product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    GaussianMechanism,
    HybridTopK,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    Sensitivity,
    SparseVector,
)
from sordino.cost import Pure
from sordino.grid import largest
from sordino.mechanisms.crossings.implicit_zeros import DENSE
from sordino_audit import Finite, Subject
from sordino_audit.enumeration.laws import region
from sordino_audit.enumeration.neighbours import (
    _list_bases,
    checked_pair,
    covered,
    list_answers,
    moves,
    worst_pairs,
)
from sordino_audit.enumeration.outcomes import Book
from sordino_audit.enumeration.pairs import Audit

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
DOMAIN = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=3)


def norm(kind, bound=1, **options):
    return Sensitivity(
        bound=bound, monotone=False, adjacency="replace-one", norm=kind, **({"step": 1} | options)
    )


# --- the grid --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "a", "b", "distance"),
    [
        (LaplaceMechanism(epsilon=1, sensitivity=norm("l1")), [0.9, 0.9], [1, 1], "2"),
        (LaplaceMechanism(epsilon=1, sensitivity=norm("l1", 1.5)), [0.6], [2.1], "2"),
        (GaussianMechanism(rho=1, sensitivity=norm("l2")), [0.9, 0.9], [1, 1], "1.41421356"),
        (GaussianMechanism(rho=1, sensitivity=norm("l2", 1.5)), [0.6], [2.1], "2"),
        (LaplaceMechanism(epsilon=1, sensitivity=norm("l1")), [-0.25, -0.25], [0.25, 0.25], "2"),
    ],
)
@pytest.mark.slow
def test_answers_whose_norm_grows_by_rounding_are_no_neighbours(mechanism, a, b, distance):
    with pytest.raises(
        InvalidParameter, match=f"distance {distance} once they are rounded down to the step"
    ):
        audit.exact(mechanism, answers_a=a, answers_b=b)
    assert not audit.exact(
        mechanism, answers_a=[0.9] * len(a), answers_b=[*[0.9] * (len(a) - 1), 1]
    ).broken


def test_rounding_of_single_answers_is_in_the_noise():
    """A bound of each answer, or without a step, is raised by the mechanism itself."""
    off = Sensitivity(bound=Fraction(3, 2), monotone=False, adjacency="replace-one", step=1)
    report = audit.exact(
        LaplaceMechanism(epsilon=1, sensitivity=off), answers_a=[0.6], answers_b=[2.1]
    )
    assert not report.broken
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-9), "two steps at half a nat"
    assert checked_pair([0.9, 0.9], [1.4, 1.4], norm("l1", step=None, size=2))


# --- mappings --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {1.5: 1},
        {-1: 1},
        {3: 1},
        {"a": 1},
        {True: 1},
        {None: 1},
        {10**7: 1},
        {1 << 80: 1},
        [0, 0, 0, 1],
    ],
)
def test_positions_are_whole_numbers_in_the_domain(bad):
    start = time.process_time()
    for pair in (({}, bad), (bad, {})):
        with pytest.raises(InvalidParameter, match="positions that are whole numbers from 0 to 2"):
            audit.exact(DOMAIN, neighbours=[pair])
    assert time.process_time() - start < 5


def test_positions_without_a_domain_are_compared_where_they_are_listed():
    start = time.process_time()
    assert checked_pair({10**9: 1}, {10**9: 0}, COUNTING)
    with pytest.raises(InvalidParameter, match=r"distances -1 and \+1"):
        checked_pair({10**9: 1}, {5: 1}, COUNTING)
    with pytest.raises(InvalidParameter, match="distance 4"):
        checked_pair({0: 1, 7: 4}, {0: 1}, COUNTING)
    assert not checked_pair({}, {3: 0}, COUNTING)
    assert time.process_time() - start < 5
    with pytest.raises(InvalidParameter, match="goes with a domain size only"):
        audit.exact(NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING), answers_a={0: 1}, answers_b={})


@pytest.mark.slow
def test_positions_of_numpy_are_positions():
    report = audit.exact(
        DOMAIN, answers_a={}, answers_b={np.int64(1): 1, np.uint8(2): 1}, tail=1e-4
    )
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-2)


def test_a_statement_about_so_many_answers_covers_no_more():
    assert covered([1, 0], COUNTING.over(2))
    assert not covered([1, 0, 0], COUNTING.over(2))


def test_an_audit_of_no_difference_is_refused():
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    with pytest.raises(InvalidParameter, match="neighbours that differ"):
        audit.exact(mechanism, answers_a=[1, 0], answers_b=[1.0, Fraction(0)])
    assert (
        audit.exact(mechanism, neighbours=[([0, 0], [0, 0]), ([0, 0], [0, 1])], tail=1e-4).pairs
        == 2
    )
    with pytest.raises(InvalidParameter, match="at least one answer"):
        audit.exact(mechanism, answers_a=[], answers_b=[])


# --- many answers ----------------------------------------------------------------------------------------------------------------


def test_long_lists_in_rows_are_sorted():
    rows = np.random.default_rng(4).integers(0, 5, (6, 90))
    assert largest(rows, 7).tolist() == [largest(row, 7).tolist() for row in rows]


@pytest.mark.slow
def test_more_than_64_answers_can_be_audited():
    mechanism = NoisyTopK(k=1, epsilon=40, sensitivity=COUNTING)
    report = audit.exact(mechanism, answers_a=[0] * 70, answers_b=[0] * 69 + [1], tail=1e-6)
    assert not report.broken
    assert report.epsilon_at_least > 10


def test_domains_that_are_not_computed_item_by_item_are_refused():
    for mechanism in (
        NoisyTopK(k=1, epsilon=20, sensitivity=COUNTING, domain_size=DENSE + 1),
        SparseVector(
            threshold=0, positives=1, epsilon=400, sensitivity=COUNTING, domain_size=DENSE + 1
        ),
        HybridTopK(k=1, threshold=0, epsilon=400, sensitivity=COUNTING, domain_size=DENSE + 1),
    ):
        with pytest.raises(
            InvalidParameter, match=f"domains of at most {DENSE} items, .* got {DENSE + 1}"
        ):
            audit.exact(mechanism, answers_a={}, answers_b={0: 1})


# --- searching -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "statement",
    [
        EITHER,
        COUNTING,
        norm("l1", 3),
        norm("l2", 2),
        Sensitivity(bound=3, monotone=False, adjacency="replace-one", step=1),
    ],
)
@pytest.mark.each_value
def test_all_moves_are_made_the_largest_first(n, statement):
    step, most = Fraction(1), Fraction(statement.bound)
    sizes = {Fraction(0), step, most}
    values = sizes if statement.monotone else sizes | {-size for size in sizes}
    expected = {
        move for move in product(values, repeat=n) if any(move) and covered(move, statement)
    }
    made = list(moves(n, statement, step))
    assert len(made) == len(set(made))
    assert set(made) == expected
    totals = [sum(abs(x) for x in move) for move in made]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_all_bases_are_made_the_flattest_first(n):
    expected = sorted(
        (b for b in product(range(3), repeat=n) if min(b) == 0), key=lambda b: (max(b), sum(b), b)
    )
    assert list(_list_bases(n)) == expected


@pytest.mark.slow
def test_a_search_among_many_answers_makes_only_what_it_tries():
    start = time.process_time()
    assert len(list(islice(moves(300, EITHER, Fraction(1)), 20))) == 20
    subject = Subject(
        laws=[Finite([1, 1])], play=lambda q, z: z[:, 0], cost=Pure(epsilon=1), sensitivity=EITHER
    )
    report = audit.exact(subject, search=True, n=60, limit=10)
    assert report.pairs == 1
    assert time.process_time() - start < 5


def test_no_pair_of_a_search_is_the_same_on_both_sides():
    tried = []

    def loss(a, b):
        tried.append((a, b))
        return float(sum(a))

    subject = Subject(
        laws=[Finite([1])], play=lambda q, z: z, cost=Pure(epsilon=1), sensitivity=EITHER
    )
    worst_pairs(loss, subject, 2, [((0, 0), (0, 0))], 80)
    assert 40 < len(tried) <= 80
    worst_pairs(loss, subject, 1, [((0,), (0,))], 80)
    assert all(a != b for a, b in tried)


@pytest.mark.slow
def test_a_search_starts_with_as_many_answers_as_it_is_about():
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    with pytest.raises(
        InvalidParameter,
        match=r"n must be the number of answers of the pairs that are given, 2; got 3",
    ):
        audit.exact(
            mechanism, answers_a=[0, 0], answers_b=[0, 1], search=True, n=3, limit=4, tail=1e-4
        )
    assert (
        audit.exact(DOMAIN, answers_a={}, answers_b={1: 1}, search=True, limit=4, tail=1e-3).pairs
        == 2
    )
    assert list_answers({1: 2}, 3) == [0, 2, 0]


@pytest.mark.parametrize(("kept", "size"), [(3, 1 << 28), (64, 3000)])
def test_laws_that_are_not_needed_any_more_are_forgotten(kept, size, monkeypatch):
    monkeypatch.setattr(audit.enumeration.pairs, "_KEPT_LAWS", kept)
    monkeypatch.setattr(audit.enumeration.pairs, "_KEPT_BYTES", size)
    subject = Subject(laws=[Finite([1, 1])], play=lambda q, z: z[:, 0] + q[0], cost=Pure(epsilon=1))
    book = Book(subject, region(subject.laws, 1e-15, 10), None)
    watched = Audit(subject=subject, book=book, slack=1e-6)
    first = watched.outcomes((0,))
    assert watched.outcomes((0,)) is first
    for i in range(60):
        watched.outcomes((i,))
    assert 1 <= len(watched._known) <= min(kept, size // first.size)
    assert watched.outcomes((0,)) is not first, "computed again"
