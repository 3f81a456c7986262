"""Records without a number: in no bucket and in no number of records. The exact laws that follow, what neighbors lose, and twins."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import logsumexp

from sordino import BucketCounts, ClippedMean, Quantile, QuantileInterval, Quantiles, Seeded
from sordino.cost import Pure, Range, repeat
from sordino.estimators.quantiles.rank_search import Runs
from support.rank_laws import flip_law, law, part_law

NULL, NAN = None, math.nan
RARE, ROUNDING = 1e-13, 1e-9
EDGES = np.array([1.0, 2.0, 3.0])
RECORDS = (NULL, 0, 1, 1, 3)


def three_edges(**changes):
    """A median over the edges 1, 2 and 3, of rates that the tests choose themselves."""
    m = Quantile(**({"q": 0.5, "epsilon": 2, "adjacency": "add-remove", "cap": 3, "lower": 0, "growth": 1.1, "unit": 9, "integer": True} | changes))  # fmt: skip
    assert m.grid.edges.tolist() == EDGES.tolist()
    return m


def answers_of(m, records):
    """The answers of the first part, test by test, as a release computes them."""
    values, lengths = m.parts[0].lattice(Runs.of(BucketCounts.of(list(records), grid=m.grid)))
    return np.repeat(values, lengths).tolist()


def scan_law(answers, depth=400):
    """P(first answer with answer + Z_i >= Z) with geometric noise of ratio 1/2 everywhere, in fractions; and that of none."""
    half, masses, left = Fraction(1, 2), [Fraction(0)] * (len(answers) + 1), Fraction(0)
    for z in range(depth):
        alive = half ** (z + 1)
        for place, answer in enumerate(answers):
            hit = half ** max(0, z - answer)
            masses[place] += alive * hit
            alive *= 1 - hit
        masses[-1] += alive
        left += half ** (z + 1)
    return [float(mass) for mass in masses]


def test_the_law_of_a_search_is_that_of_the_records_with_a_number():
    m = three_edges(method="above-threshold")
    assert (
        answers_of(m, RECORDS)
        == answers_of(m, (NAN, 0, 1, 1, 3))
        == answers_of(m, RECORDS[1:])
        == [-2, 2, 2]
    )
    exact = [Fraction(1, 6), Fraction(505, 672), Fraction(13, 560), Fraction(197, 3360)]
    assert scan_law(answers_of(m, RECORDS)) == pytest.approx(
        [float(one) for one in exact], abs=1e-15
    )
    # The twin: the record without a number is below every edge, and one of all.
    lowest = [Fraction(1, 3), Fraction(841, 1344), Fraction(13, 1120), Fraction(197, 6720)]
    assert answers_of(m, (-math.inf, *RECORDS[1:])) == [-1, 3, 3]
    assert scan_law([-1, 3, 3]) == pytest.approx([float(one) for one in lowest], abs=1e-15)


def test_the_law_of_permute_and_flip_is_that_of_the_records_with_a_number():
    m = three_edges(method="permute-and-flip")
    assert answers_of(m, RECORDS) == answers_of(m, RECORDS[1:])
    exact = [Fraction(n, 256) for n in (27, 175, 27, 27)]
    found = flip_law(math.log(2), tuple(answers_of(m, RECORDS)))
    assert list(found.values()) == pytest.approx([float(one) for one in exact], abs=1e-12)


@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.parametrize("q", [0.25, 0.5, 0.75])
def test_both_directions_read_one_state(q, lower):
    """Four of ten are missing. A twin that leaves them out of the counts below, and not out of all, takes the 5th of 6 numbers."""
    m = Quantile(q=q, epsilon=2, adjacency="add-remove", lower=lower, cap=63, growth=2)
    values = [1, 2, 9, 9, 40, 50]
    counts = BucketCounts.of([*values, NULL, NULL, NAN, "n/a"], grid=m.grid)
    assert counts == BucketCounts.of(values, grid=m.grid)
    (below, up), (above, down) = counts.runs_up(), counts.runs_down()
    together = np.repeat(below, up) + np.repeat(above, down)[::-1]
    assert together.tolist() == [len(values)] * m.grid.size
    assert Runs.of(counts).records == len(values)


def records_law(m, records):
    counts = BucketCounts.of(list(records), grid=m.grid).counts
    return law(m, tuple(counts.tolist()))


def interval_law(m, records):
    """Both searches of an interval have noise of their own."""
    runs = Runs.of(BucketCounts.of(list(records), grid=m.grid))
    up, down = (part_law(part, runs) for part in m.parts)
    return {(one, other): a * b for (one, a), (other, b) in product(up.items(), down.items())}


SMALL = {"lower": 0, "cap": 7, "growth": 2, "epsilon": 2}
VALUES = (NULL, 0.5, 2, 5, 9)
MADE = {
    **{
        f"{q}, {adjacency}, {rows}, {method}": (
            Quantile(q=q, adjacency=adjacency, rows_per_unit=rows, method=method, **SMALL),
            records_law,
        )
        for q in (0.25, 0.5, 0.75)
        for adjacency in ("add-remove", "replace-one")
        for rows in (1, 2)
        for method in ("above-threshold", "permute-and-flip")
    },
    **{
        f"both signs, {adjacency}": (
            Quantile(q=0.5, adjacency=adjacency, **SMALL | {"lower": None, "cap": 3}),
            records_law,
        )
        for adjacency in ("add-remove", "replace-one")
    },
    **{
        f"interval, {adjacency}, {rows}": (
            QuantileInterval(q=0.5, adjacency=adjacency, rows_per_unit=rows, **SMALL),
            interval_law,
        )
        for adjacency in ("add-remove", "replace-one")
        for rows in (1, 2)
    },
    **{
        f"several, {adjacency}": (
            Quantiles(q=(0.25, 0.6), adjacency=adjacency, **SMALL | {"cap": 3}),
            records_law,
        )
        for adjacency in ("add-remove", "replace-one")
    },
}


def pairs_with_missing(m, base):
    """Neighbors of small tables, of which some records have no number: one may lose its number, or come to have one."""
    units = list(combinations_with_replacement(VALUES, m.rows_per_unit))
    for rest in combinations_with_replacement(VALUES, base):
        if m.adjacency == "add-remove":
            yield from (((*rest, *unit), rest) for unit in units)
        else:
            yield from (((*rest, *one), (*rest, *other)) for one in units for other in units)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.sample(6)
def test_with_missing_records_nothing_loses_more_than_its_cost(name):
    m, law_of = MADE[name]
    known, worst = {}, 0.0
    for pair in pairs_with_missing(m, 2):
        for one in pair:
            if one not in known:
                known[one] = np.array(list(law_of(m, one).values()))
        p, q = (known[one] for one in pair)
        seen = (p > RARE) & (q > RARE)
        worst = max(worst, float(np.abs(np.log(p[seen] / q[seen])).max()))
    assert 0.2 * float(m.cost.pure()) < worst <= float(m.cost.pure()) + ROUNDING


# --- a number of records that is free ------------------------------------------------------------------------------------------


def views(p, q, cost):
    """How far two laws are above what a cost allows: in pure, in delta and in Renyi divergences of either order."""
    worst = [float(np.abs(np.log(p / q)).max()) - float(cost.pure())]
    for one, other in ((p, q), (q, p)):
        for share in np.linspace(0, 1, 21):
            epsilon = share * float(cost.pure())
            worst.append(
                float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
                - float(cost.delta(epsilon))
            )
        for alpha in (1.01, 1.5, 2, 3, 8, 32):
            renyi = float(logsumexp(alpha * np.log(one) + (1 - alpha) * np.log(other))) / (
                alpha - 1
            )
            worst += [renyi - float(cost.rdp(alpha)), renyi - float(cost.zcdp()) * alpha]
    return max(worst)


def coin_pairs(levels):
    """The laws of so many independent losses, each of +e or -e, given as their e: a number of records and the levels."""
    p = q = np.ones(1)
    for e in levels:
        heads = 1 / (1 + math.exp(-e))
        p, q = (
            np.kron(one, coin) for one, coin in ((p, [heads, 1 - heads]), (q, [1 - heads, heads]))
        )
    return p, q


@pytest.mark.parametrize("e", [0.01, 0.3, 1, 2.5, 6])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.each_value
def test_the_number_of_records_is_in_the_price_of_the_levels(e, levels):
    """A record that loses its number: its number and each level lose e at most, and a level may lose 2 e, in every view."""
    cost = repeat(Pure(epsilon=2 * Fraction(e)), levels)
    assert views(*coin_pairs([e] * (levels + 1)), cost) <= 1e-9
    # Three rows of four lose theirs: less of each level, and the same together.
    assert views(*coin_pairs([e / 2, *[3 * e / 2] * levels]), cost) <= 1e-9
    # The twin: a number at twice that rate.
    if levels == 1:
        assert views(*coin_pairs([2 * e, e]), cost) > 1e-6


def test_ranges_that_turn_do_not_hold_a_record_that_moves_between_searches():
    """Two levels in which a record leaves a search and enters another one: two losses of e on each, and not one of 2 e or of e."""
    two = coin_pairs([1] * 4)
    assert views(*coin_pairs([1] * 2), Range(low=1, high=2)) <= 1e-9, "one level alone is held"
    assert views(*two, repeat(Range(low=1, high=2), 2)) > 0.01
    assert views(*two, repeat(Pure(epsilon=2), 2)) <= 1e-9


def test_a_mean_of_the_known_records_that_tells_how_many_they_are_is_convicted():
    """Their number for a public one: its standard error says who has lost a number, whatever the noise is."""
    twin = ClippedMean(
        epsilon=2, adjacency="replace-one", lower=0, cap=8, growth=2, size_is_public=True
    )
    clip = twin.search.clip((3,), simulated=True)
    told = {
        records: {
            twin.finish(5 * records, records, clip, entropy=Seeded(seed)).standard_error
            for seed in range(20)
        }
        for records in (9, 10)
    }
    assert not told[9] & told[10]


def test_a_threshold_that_is_taken_for_public_is_convicted():
    """The target q n' as a public number, at the price of one that no record moves: 2.5 of 2 bits and more are lost."""
    bit = math.log(2)
    worst = 0.0
    for n in range(1, 12):
        for below in product(range(n + 1), repeat=2):
            if below[0] > below[1]:
                continue
            for step in ((0, 0), (0, 1), (1, 1)):
                one = tuple(a + b for a, b in zip(below, step, strict=True))
                laws = [
                    public_target(counts, math.ceil(size / 2))
                    for counts, size in ((below, n), (one, n + 1))
                ]
                worst = max(
                    worst,
                    *(abs(math.log(a / b)) for a, b in zip(*laws, strict=True) if min(a, b) > RARE),
                )
    assert worst > 2.5 * bit


def public_target(counts, target):
    """The law of a search for a fixed target with e1 = e2 = 2 bits."""
    z, rate = np.arange(80), 2 * math.log(2)
    alive, masses = np.exp(-rate * z) * -np.expm1(-rate), []
    for count in counts:
        hit = np.exp(-rate * np.maximum(0, target + z - count))
        masses.append(float(alive @ hit))
        alive = alive * (1 - hit)
    return [*masses, float(alive.sum())]
