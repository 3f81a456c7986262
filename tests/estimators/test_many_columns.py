"""Quantiles and variances of many columns at once: each has the law that it has alone, and none knows of another one."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sordino import BucketCounts, ClippedVariance, Quantile, QuantileInterval, Quantiles, Seeded
from sordino.columns.clipped_steps import clipped_moments
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles import rank_search
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.noise import Geometric
from support.fit import LEVEL
from support.quantiles import law_of, sized_law, walk

COLUMNS = {
    "low": [0.0, 0.5, 0.5, 2.0, 2.5],
    "nothing": [],
    "high": [4.0, 4.5, 9.0, 20.0, 6.0, 6.5, 7.0],
}
GRID = {"lower": 0, "cap": 8, "growth": 2, "adjacency": "replace-one"}
TIMES = 700


def counted(subject, columns=COLUMNS):
    return [BucketCounts.of(records, grid=subject.grid) for records in columns.values()]


def fits(drawn, expected):
    """The p-value of what was drawn: rare outcomes are taken together."""
    n = sum(drawn.values())
    assert set(drawn) <= set(expected)
    often = [one for one, mass in expected.items() if mass * n > 5]
    observed = [drawn[one] for one in often] + [n - sum(drawn[one] for one in often)]
    masses = [expected[one] for one in often] + [1 - sum(expected[one] for one in often)]
    if masses[-1] * n < 5:
        observed[-2:], masses[-2:] = [sum(observed[-2:])], [sum(masses[-2:])]
    if len(masses) == 1:
        return 1.0
    return stats.chisquare(observed, np.array(masses) / sum(masses) * n).pvalue


def release_many(subject, seed, read):
    """What comes out of each kind of column, many of each in turn."""
    together = subject.release_each(counted(subject) * TIMES, entropy=Seeded(seed))
    assert len(together) == TIMES * len(COLUMNS)
    return {
        name: [read(one) for one in together[place :: len(COLUMNS)]]
        for place, name in enumerate(COLUMNS)
    }


def value_at(subject, edge):
    edges = subject.grid.edges.tolist()
    return edges[min(edge, len(edges) - 1)] if edge >= 0 else float(subject.lower)


def law_of_values(subject, law):
    """A law of edges, or of tuples of edges, as one of values."""
    expected = Counter()
    for edges, mass in law.items():
        several = isinstance(edges, tuple)
        values = (
            tuple(value_at(subject, edge) for edge in edges)
            if several
            else value_at(subject, edges)
        )
        expected[values] += mass
    return expected


def quantile_laws(subject):
    return {
        name: law_of_values(subject, law_of(subject, records)) for name, records in COLUMNS.items()
    }


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_a_quantile_of_each_column_has_its_own_law(q):
    subject = Quantile(q=q, epsilon=3, method="above-threshold", **GRID)
    drawn = release_many(subject, 4, lambda one: one.value)
    laws = quantile_laws(subject)
    assert all(fits(Counter(drawn[name]), laws[name]) > LEVEL for name in COLUMNS)
    # The laws are far apart: one column in the place of another would be seen.
    assert fits(Counter(drawn["low"]), laws["high"]) < LEVEL


def test_a_second_search_follows_in_its_own_column():
    subject = Quantile(
        q=0.6,
        epsilon=3,
        method="above-threshold",
        **GRID | {"lower": None, "cap": 3, "growth": 1.5},
    )
    assert len(subject.parts) == 2
    columns = {"below": [-2.5, -0.5, -0.5], "above": [0.2, 0.4, 1.5, 1.5, 2.5]}
    together = subject.release_each(counted(subject, columns) * TIMES, entropy=Seeded(2))
    edges = subject.grid.edges.tolist()
    for place, records in enumerate(columns.values()):
        expected = Counter()
        for edge, mass in law_of(subject, records).items():
            expected[edges[min(max(edge, 0), len(edges) - 1)]] += mass
        assert fits(Counter(one.value for one in together[place::2]), expected) > LEVEL


def test_several_quantiles_of_each_column_have_their_own_law():
    subject = Quantiles(q=(0.25, 0.5, 0.75), epsilon=5, **GRID)
    drawn = release_many(subject, 5, lambda found: tuple(one.value for one in found))
    for name, records in COLUMNS.items():
        law = sized_law(subject, records, [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)])
        assert fits(Counter(drawn[name]), law_of_values(subject, law)) > LEVEL


def test_each_column_has_a_noisy_size_of_its_own():
    subject = Quantiles(q=(0.5,), epsilon=3, **GRID | {"adjacency": "add-remove"})
    alone = Counter(
        subject.release(counts, entropy=Seeded(seed))[0].value
        for counts in counted(subject)[2:]
        for seed in range(600)
    )
    drawn = release_many(subject, 6, lambda found: found[0].value)["high"]
    values = sorted({*alone, *drawn})
    table = [[Counter(drawn)[value] for value in values], [alone[value] for value in values]]
    assert stats.chi2_contingency(table).pvalue > LEVEL
    assert are_independent(drawn)


def test_both_ends_of_an_interval_have_the_law_of_their_column():
    subject = QuantileInterval(q=0.5, epsilon=4, **GRID)
    drawn = release_many(subject, 7, lambda one: (one.low, one.high))
    for name, records in COLUMNS.items():
        below, above = (
            walk(
                records,
                subject.grid.edges.tolist(),
                "1/2",
                part.scan.threshold_noise.rate,
                part.scan.noise.rate,
                part.upward,
                part.first,
                part.last,
                part.scan.threshold,
            )
            for part in subject.parts
        )
        expected = Counter()
        for low, mass in below.items():
            for high, other in above.items():
                expected[subject.ends(low, high)] += mass * other
        assert fits(Counter(drawn[name]), expected) > LEVEL


def are_independent(drawn):
    """Whether columns of the same kind that were released one after the other know nothing of each other."""
    common = [value for value, often in Counter(drawn).items() if often > 60]
    pairs = list(zip(drawn[::2], drawn[1::2], strict=False))
    table = [[sum(pair == (one, other) for pair in pairs) for other in common] for one in common]
    return stats.chi2_contingency(table).pvalue > LEVEL


def test_columns_do_not_share_noise():
    subject = Quantile(q=0.5, epsilon=2, method="above-threshold", **GRID)
    drawn = release_many(subject, 8, lambda one: one.value)
    assert all(are_independent(drawn[name]) for name in ("low", "high"))


def test_one_threshold_for_all_columns_is_convicted(monkeypatch):
    sample = Geometric.sample
    monkeypatch.setattr(
        Geometric,
        "sample",
        lambda self, n, entropy: np.repeat(sample(self, -(-n // 6), entropy), 6)[:n],
    )
    subject = Quantile(q=0.5, epsilon=2, method="above-threshold", **GRID)
    drawn = release_many(subject, 8, lambda one: one.value)
    assert not are_independent(drawn["high"])


def test_the_records_of_another_column_are_convicted(monkeypatch):
    looked_at = rank_search.RankSearch.lattice
    first = []

    def look(self, runs):
        first.append(runs)
        return looked_at(self, first[0])

    monkeypatch.setattr(rank_search.RankSearch, "lattice", look)
    subject = Quantile(q=0.5, epsilon=3, method="above-threshold", **GRID)
    drawn = release_many(subject, 4, lambda one: one.value)
    assert fits(Counter(drawn["high"]), quantile_laws(subject)["high"]) < LEVEL


def test_more_columns_than_are_looked_at_together(monkeypatch):
    subject = Quantiles(q=(0.25, 0.5, 0.75), epsilon=5, **GRID)
    monkeypatch.setattr("sordino.columns.bucket_grid._CELLS_TOGETHER", 2 * (subject.grid.size + 1))
    assert len(subject.release_each(counted(subject) * 3, entropy=Seeded(1))) == 9
    assert subject.release_each([], entropy=Seeded(1)) == []
    both = QuantilesWithIntervals(subject, (QuantileInterval(q=0.5, epsilon=1, **GRID),) * 3)
    assert [len(one) for one in both.release_each(counted(both), entropy=Seeded(1))] == [3, 3, 3]


@pytest.mark.parametrize("what", ["quantiles", "variances"])
def test_one_full_column_takes_no_memory_for_all_others(what):
    """Columns are lined up to the longest of those that are looked at together: how many these are is public."""
    subject = (
        Quantile(q=0.5, epsilon=1, method="above-threshold", **GRID | {"cap": 1e9, "growth": 1.005})
        if what == "quantiles"
        else variance(cap=1e9, growth=1.005)
    )
    size = subject.grid.size + 1
    assert size > 3000
    full = BucketCounts(grid=subject.grid, counts=np.ones(size, dtype=np.int64))
    one = BucketCounts.of([5.0], grid=subject.grid)
    columns = [full, *[one] * 1500]
    release = subject.release_each if what == "quantiles" else subject.search.release_each
    release(columns[:3], entropy=Seeded(1))
    tracemalloc.start()
    try:
        release(columns, entropy=Seeded(1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All in one table would take some ten times 1,501 rows of so many cells.
    assert peak < 20 * 8 * (1 << 20) < 10 * 8 * 1501 * size


def test_counts_beyond_64_bits_are_searched_one_by_one():
    """A lattice of 2^20 steps for each of 2^50 records takes whole numbers of any size; the law is the same."""
    subject = Quantile(q=Fraction(1, (1 << 20) - 1), epsilon=3, method="above-threshold", **GRID)
    many = np.zeros(subject.grid.size + 1, dtype=np.int64)
    many[1] = 1 << 50
    huge, small = BucketCounts(grid=subject.grid, counts=many), BucketCounts.empty(subject.grid)
    assert subject.parts[0].lattice(rank_search.Runs.of(huge))[0].dtype == object
    together = subject.release_each([huge, small] * 20, entropy=Seeded(3))
    assert {one.value for one in together[::2]} == {
        subject.release(huge, entropy=Seeded(seed)).value for seed in range(20)
    }


def test_counts_over_another_grid_are_refused():
    subject = Quantile(q=0.5, epsilon=1, **GRID)
    other = BucketCounts.empty(Quantile(q=0.5, epsilon=1, **GRID | {"growth": 3}).grid)
    with pytest.raises(InvalidParameter, match="needs counts over its own grid"):
        subject.release_each([BucketCounts.empty(subject.grid), other])


# ---- variances ---------------------------------------------------------------------------------------------------------


def variance(**changed):
    return ClippedVariance(
        **{"epsilon": 6, "adjacency": "add-remove", "lower": 0, "cap": 64, "growth": 2} | changed
    )


def finish(subject, columns, entropy):
    clips = subject.search.release_each(
        [BucketCounts.of(records, grid=subject.grid) for records in columns], entropy=entropy
    )
    moments = [
        clipped_moments(np.array(records), clip.low, clip.high, clip.step, owner="test")
        for records, clip in zip(columns, clips, strict=True)
    ]
    return subject.finish_each(moments, clips, entropy=entropy)


@pytest.mark.parametrize("changed", [{}, {"lower": None}, {"adjacency": "replace-one"}])
def test_the_variance_of_one_column_is_what_it_is_alone(changed):
    subject, records = variance(**changed), [0.5, 2.0, 3.5, 7.0, 0.1, 0.2]
    for seed in range(20):
        [together] = finish(subject, [records], Seeded(seed))
        assert together.to_dict() == subject.release(records, entropy=Seeded(seed)).to_dict()


def test_noise_of_variances_is_their_own():
    subject = variance()
    found = finish(subject, [[0.5, 2.0, 3.5, 7.0, 0.1, 0.2]] * 3000, Seeded(3))
    common, _ = Counter(one.found.tests for one in found).most_common(1)[0]
    alike = [one for one in found if one.found.tests == common]
    assert len(alike) > 500
    # Columns whose searches ended at the same edge have one clip, and noise of one law.
    assert len({id(one.found) for one in alike}) == 1
    totals = np.array([one.totals.noisy for one in alike], dtype=np.float64)
    deviation = np.sqrt(alike[0].totals.noise.mechanism.noise.variance)
    assert totals.std(axis=0) == pytest.approx(deviation, rel=0.15)
    assert abs(np.corrcoef(totals.T)[np.triu_indices(3, 1)]).max() < 0.15
    assert abs(np.corrcoef(totals[:-1, 0], totals[1:, 0])[0, 1]) < 0.15


def test_clips_of_counts_are_those_of_sums():
    """The same search, whichever of the two was read of the groups."""
    subject = variance()
    columns = [[0.5, 2.0], [], [3.5, 7.0, 60.0]]
    counts = [BucketCounts.of(records, grid=subject.grid) for records in columns]
    alone = [subject.search.release(one, entropy=Seeded(9)).tests for one in counts]
    each = [subject.search.release_each([one], entropy=Seeded(9))[0].tests for one in counts]
    assert alone == each
    assert subject.search.release_each([], entropy=Seeded(9)) == []


def test_clips_of_another_search_are_refused():
    subject, other = variance(), variance(growth=3)
    clips = other.search.release_each([BucketCounts.empty(other.grid)], entropy=Seeded(1))
    moments = [clipped_moments(np.zeros(0), 0, 1, clips[0].step, owner="test")]
    with pytest.raises(InvalidParameter, match="needs the Clip that clip_from"):
        subject.finish_each(moments, clips, entropy=Seeded(1))
    with pytest.raises(InvalidParameter, match="BucketCounts over its own grid"):
        subject.search.release_each([BucketCounts.empty(other.grid)], entropy=Seeded(1))
