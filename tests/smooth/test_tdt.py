"""Transmission disequilibrium tests: local sensitivities by families, smooth bounds by brute force, published numbers."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import InvalidParameter, smooth
from sordino.smooth import _tdt
from sordino.smooth._tdt import MOVES, admissible, distance, local_table, smallest_bounds
from sordino.smooth.values import OUTWARD

FAMILY = [(b, c) for b in range(3) for c in range(3) if b + c <= 2]
PUBLISHED = [
    move for move in MOVES if move != (0, -2)
]  # the published code leaves (b, c - 2) out, and has another one twice


def every_table(n):
    return [(b, c) for b in range(2 * n + 1) for c in range(2 * n + 1 - b)]


@cache
def square(b, c):
    return Fraction((b - c) ** 2, b + c) if b + c else Fraction(0)


@cache
def root(b, c):
    return abs(b - c) / math.sqrt(b + c) if b + c else 0.0


def moved(table, n, moves=MOVES):
    b, c = table
    return [
        (b + i, c + j) for i, j in moves if b + i >= 0 and c + j >= 0 and b + i + c + j <= 2 * n
    ]


@lru_cache
def by_families(n):
    """All pairs of tables that differ in one family, from all data sets: what no formula enters."""
    pairs = set()
    for others in {
        tuple(map(sum, zip(*data, strict=True))) if data else (0, 0)
        for data in product(FAMILY, repeat=n - 1)
    }:
        tables = [(others[0] + b, others[1] + c) for b, c in FAMILY]
        pairs |= set(product(tables, repeat=2))
    return pairs


def brute_bounds(n, beta, local):
    """The smooth sensitivity from the definition, with distances by breadth-first search."""
    found = {}
    for start in every_table(n):
        away, queue = {start: 0}, deque([start])
        while queue:
            table = queue.popleft()
            for near in moved(table, n):
                if near not in away:
                    away[near] = away[table] + 1
                    queue.append(near)
        found[start] = max(math.exp(-beta * t) * local[table] for table, t in away.items())
    return found


@lru_cache
def local(n, statistic=square):
    return {
        table: float(max(abs(statistic(*table) - statistic(*near)) for near in moved(table, n)))
        for table in every_table(n)
    }


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_one_family_moves_a_table_by_the_eighteen_moves_and_by_nothing_else(n):
    assert len(MOVES) == 18
    neighbours = {(x, y) for x in every_table(n) for y in [x, *moved(x, n)]}
    assert by_families(n) <= neighbours
    if n > 2:  # few families cannot be moved everywhere at once
        assert {(y[0] - x[0], y[1] - x[1]) for x, y in by_families(n)} == {*MOVES, (0, 0)}


@pytest.mark.parametrize("n", [1, 2, 5, 7, 20])
def test_the_table_of_local_sensitivities(n):
    found = local_table(n)
    for table, value in local(n).items():
        assert found[table] == pytest.approx(value, rel=1e-15)
    assert (found >= 0).sum() == len(every_table(n))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 20, 150])
def test_the_ceilings_are_attained(n):
    assert local_table(n).max() == pytest.approx(
        float(smooth.tdt_ceiling(families=n, scale="raw")), rel=1e-15
    )
    if n <= 20:
        assert max(local(n, root).values()) == pytest.approx(
            2 if n > 1 else math.sqrt(2), rel=1e-12
        )
    assert smooth.tdt_ceiling(families=n) == 2


def test_a_move_that_the_published_code_leaves_out_makes_no_difference():
    """A control that must not convict: the mirrored move is as large."""
    for n in (5, 9):
        for table in every_table(n):
            most = max(abs(square(*table) - square(*near)) for near in moved(table, n, PUBLISHED))
            assert float(most) == local(n)[table]


def test_published_numbers():
    found = local_table(150)
    assert found[115, 85] == pytest.approx(1.28, rel=1e-15)
    assert (found > 6).sum() == 12104
    raw = [smooth.tdt(115, 85, families=150, beta=beta, scale="raw") for beta in (0.05, 0.2)]
    assert raw == pytest.approx([1.7561972355, 1.28], rel=1e-11)
    assert smooth.tdt(115, 85, families=150, beta=0.01) == pytest.approx(0.750622197703, rel=1e-11)
    assert smooth.tdt(115, 85, families=150, beta=0.2) == pytest.approx(0.282842712475, rel=1e-11)
    assert distance(np.array([115, 150, 0, 2]), np.array([85, 150, 0, 1])).tolist() == [
        30,
        56,
        5,
        3,
    ]
    assert admissible(150, 8 * 149 / 150) == pytest.approx(0.0336889534712, rel=1e-11)


@pytest.mark.parametrize(
    ("n", "beta"),
    [
        (2, 0.3),
        (5, 0.01),
        (5, 0.1),
        (6, 0.5),
        pytest.param(7, 0.05, marks=pytest.mark.slow),
        pytest.param(7, 2.0, marks=pytest.mark.slow),
    ],
)
def test_the_smallest_bound_is_the_definition(n, beta):
    brute = brute_bounds(n, beta, local(n))
    b, c = map(np.array, zip(*every_table(n), strict=True))
    found = smooth.tdt(b, c, families=n, beta=beta, scale="raw")
    assert found == pytest.approx([brute[table] for table in every_table(n)], rel=1e-11)
    assert (found >= [local(n)[table] for table in every_table(n)]).all()


@lru_cache
def statistics(n, scale):
    b, c = map(np.array, zip(*every_table(n), strict=True))
    return dict(
        zip(
            every_table(n),
            smooth.tdt_statistic(b, c, families=n, scale=scale).tolist(),
            strict=True,
        )
    )


def is_smooth(bound, n, beta, statistic):
    """Both conditions on all tables, with floats as they are."""
    values = {table: (bound(*table), value) for table, value in statistics(n, statistic).items()}
    for table, (own, value) in values.items():
        for near in moved(table, n):
            other, its = values[near]
            if abs(value - its) > own or own > math.exp(beta) * other:
                return False
    return True


@pytest.mark.parametrize("beta", [0.001, 0.03, 0.4, 5.0])
@pytest.mark.parametrize(
    ("scale", "method"), [("sqrt", "exact"), ("raw", "exact"), ("raw", "distance")]
)
@pytest.mark.each_value
def test_bounds_are_smooth_on_all_tables(scale, method, beta):
    for n in (1, 3, 6, 9):
        if method == "distance" and beta > 0.03:
            continue
        b, c = map(np.array, zip(*every_table(n), strict=True))
        found = smooth.tdt(b, c, families=n, beta=beta, scale=scale, method=method)
        listed = dict(zip(every_table(n), found.tolist(), strict=True))
        assert is_smooth(lambda b, c, listed=listed: listed[b, c], n, beta, scale)


def test_what_is_not_smooth_is_convicted():
    n, beta = 6, 0.1
    assert not is_smooth(
        lambda b, c: local(n)[b, c] * OUTWARD, n, beta, "raw"
    )  # the local sensitivity itself
    ceiling = float(smooth.tdt_ceiling(families=n, scale="raw"))
    limit = admissible(n, ceiling)

    @lru_cache
    def at(rate, b, c):
        away = float(distance(np.array([b]), np.array([c]))[0])
        return smooth.from_distance(away, beta=rate, ceiling=ceiling, largest=rate)

    assert is_smooth(lambda b, c: at(limit, b, c), n, limit, "raw")
    assert not is_smooth(
        lambda b, c: at(1.01 * limit, b, c), n, 1.01 * limit, "raw"
    )  # beta above the admissible one
    pairs = [(x, y) for x in every_table(n) for y in moved(x, n)]
    for rate in (limit, 1.01 * limit):
        keys = {"neighbours": pairs, "beta": rate, "limit": 10**5}
        report = audit.smooth_bound(
            lambda x, rate=rate: at(rate, *x), lambda x: float(square(*x)), **keys
        )
        assert report.broken == (rate > limit)
    assert not is_smooth(
        lambda b, c: 4 / math.sqrt(max(b + c, 4)), n, 0.01, "sqrt"
    )  # the local formula, undilated
    assert not is_smooth(lambda b, c: 0.99 * smooth.tdt(b, c, families=n, beta=3), n, 3, "sqrt")


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_the_root_moves_by_four_over_the_root_of_the_transmissions(n):
    for (b, c), change in local(n, root).items():
        assert change <= 4 / math.sqrt(max(b + c, 4)) + 1e-12
    if n == 40:
        assert local(n, root)[24, 16] == pytest.approx(4 / math.sqrt(40), rel=1e-12)  # attained


@pytest.mark.parametrize("beta", [0.0, 0.001, 0.02, 0.1, 0.12, 0.3, 1.0])
def test_the_formula_of_the_root_is_its_largest_term(beta):
    for total in [*range(40), 201, 1000, 1001]:
        found = smooth.tdt(total, 0, families=1000, beta=beta)
        terms = max(
            math.exp(-beta * t) * 4 / math.sqrt(max(total - 2 * t, 4)) for t in range(total + 1)
        )
        assert found == pytest.approx(terms, rel=1e-9)


@pytest.mark.parametrize("n", [5, 6, 7, 10, 23])
def test_the_closed_distance_is_the_number_of_families(n):
    near = {table for table in every_table(n) if local(n)[table] > 6}
    away, queue = dict.fromkeys(near, 0), deque(near)
    while queue:
        table = queue.popleft()
        for other in moved(table, n):
            if other not in away:
                away[other] = away[table] + 1
                queue.append(other)
    b, c = map(np.array, zip(*every_table(n), strict=True))
    assert distance(b, c).tolist() == [away[table] for table in every_table(n)]


@pytest.mark.parametrize("n", [5, 23, 80])
def test_the_admissible_beta_is_that_of_all_tables(n):
    ceiling = float(smooth.tdt_ceiling(families=n, scale="raw"))
    b, c = map(np.array, zip(*every_table(n), strict=True))
    whole = smooth.largest_beta(local_table(n)[b, c], distance(b, c), ceiling=ceiling)
    assert admissible(n, ceiling) == pytest.approx(whole, rel=1e-11)
    observed = smooth.largest_beta(
        local_table(n)[n, n : n + 1], distance(np.array([n]), np.array([n])), ceiling=ceiling
    )
    assert observed > whole, "read off one table it would be too large"


def test_a_distance_that_a_family_moves_by_two_admits_no_beta(monkeypatch):
    monkeypatch.setattr(_tdt, "distance", lambda b, c: 2 * distance(b, c))
    assert admissible.__wrapped__(6, 8.0) == 0


def test_few_families_have_a_constant_bound_by_distance():
    assert smooth.tdt(
        [0, 3], [8, 1], families=4, beta=9, scale="raw", method="distance"
    ) == pytest.approx([6, 6])


def test_an_inadmissible_beta_is_refused_and_the_largest_one_named():
    with pytest.raises(
        InvalidParameter, match=r"at most 0\.033688953 for the method 'distance' and 150 families"
    ):
        smooth.tdt(1, 2, families=150, beta=0.034, scale="raw", method="distance")
    with pytest.raises(InvalidParameter, match="at most 2000 on the scale 'raw'"):
        smooth.tdt(1, 2, families=2001, beta=0.1, scale="raw")
    with pytest.raises(InvalidParameter, match="must be 'exact' on the scale 'sqrt'"):
        smooth.tdt(1, 2, families=9, beta=0.1, method="distance")
    assert smooth.tdt(10**6, 10**5, families=10**7, beta=0.1) == pytest.approx(
        4 / math.sqrt(1_100_000), rel=1e-7
    )


def test_counts_of_any_kind_are_tables():
    strange = [math.nan, math.inf, -math.inf, -3, 1e300, None, 2**80, "x", Fraction(7, 2), 200]
    other = [1.0, math.inf, 2, 5, 5, 5, 5, 5, 4.9, 200]
    as_tables = [0, 300, 0, 0, 300, 0, 300, 0, 3, 200], [1, 0, 2, 5, 0, 5, 0, 5, 4, 100]
    for scale in ("sqrt", "raw"):
        for function in (
            smooth.tdt_statistic,
            lambda b, c, **keys: smooth.tdt(b, c, beta=0.1, **keys),
        ):
            found = function(np.array(strange, dtype=object), other, families=150, scale=scale)
            assert (found == function(*as_tables, families=150, scale=scale)).all()


def test_the_ends_of_beta_and_shapes():
    for scale in ("sqrt", "raw"):
        ceiling = float(smooth.tdt_ceiling(families=30, scale=scale))
        assert smooth.tdt([3, 30], [2, 30], families=30, beta=0, scale=scale) == pytest.approx(
            ceiling, rel=1e-12
        )
        assert smooth.tdt(3, 30, families=30, beta=1e-15, scale=scale) == pytest.approx(
            ceiling, rel=1e-12
        )
        assert isinstance(smooth.tdt(3, 30, families=30, beta=40, scale=scale), float)
    with pytest.raises(InvalidParameter, match="as many counts"):
        smooth.tdt([1, 2], [1], families=9, beta=1)
    with pytest.raises(InvalidParameter, match="one-dimensional"):
        smooth.tdt("many", 1, families=9, beta=1)
    assert not smallest_bounds(30, Fraction(1, 10)).flags.writeable


@pytest.mark.slow
def test_a_thousand_families():
    found = smallest_bounds(1000, Fraction(1, 100))
    local_ones = local_table(1000)[:, :1001]
    meant = local_ones >= 0
    assert (found[meant] >= local_ones[meant]).all()
    assert found[meant].max() == pytest.approx(8 * 999 / 1000)
    b, c = np.nonzero(meant)
    for i, j in MOVES:
        more, less = np.maximum(b + i, c + j), np.minimum(b + i, c + j)
        kept = (less >= 0) & (more + less <= 2000) & (more >= less) & (b >= c)
        assert (found[b[kept], c[kept]] <= math.exp(0.01) * found[more[kept], less[kept]]).all()
