"""The first success in runs of trials: its law at every boundary, decided far beyond any float, and on draws."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from sordino import SYSTEM, Seeded
from sordino.noise import first_success, first_successes
from sordino.noise.samplers import first_success as module
from support.fit import LEVEL
from support.scripted import Scripted

LAST = (1 << 64) - 1
BITS = 320


def runs(*pairs):
    depths, lengths = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return depths, lengths


def hazard(rate, depth):
    x = mpmath.mpf(rate.numerator) * depth / rate.denominator
    return -mpmath.log(-mpmath.expm1(-x)) if x < 1 else -mpmath.log1p(-mpmath.exp(-x))


def survival(depths, lengths, rate, i):
    """Return the probability that the first `i` trials fail, by multiplying run by run: none of the ways of the code."""
    total = mpmath.mpf(0)
    for depth, length in zip(depths.tolist(), lengths.tolist(), strict=True):
        tried = min(i, length)
        total += tried * hazard(rate, depth) if tried else 0
        i -= tried
    return mpmath.exp(-total)


def words_near(value, offset):
    """Return the words of the uniform number `value` + `offset` 2^-320."""
    digits = int(mpmath.floor(value * mpmath.mpf(2) ** BITS)) + offset
    return [(digits >> shift) & LAST for shift in range(BITS - 64, -1, -64)]


def law(depths, lengths, rate):
    """Return the probability of every position, and of none, trial by trial."""
    p = np.exp(-float(rate) * np.repeat(np.maximum(depths, 0), lengths))
    alive = np.concatenate([[1.0], np.cumprod(1 - p)])
    return np.append(alive[:-1] * p, alive[-1])


SMALL = *runs((3, 4), (9, 0), (1, 2), (40, 7), (2, 3)), Fraction(2, 7)
CASES = {
    "small": SMALL,
    "long": (*runs((1 << 20, 5), (30 << 40, 1 << 39), (29 << 40, 1 << 39)), Fraction(1, 1 << 40)),
    "next to certain": (*runs((1, 3), (5, 1 << 10), (1, 2)), Fraction(1, 1 << 40)),
    "deep": (
        *runs(((1 << 62) - 1, 1 << 40), (44, 1 << 19), ((1 << 62) - 1, 1 << 40), (3, 2)),
        Fraction(1, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("apart", [0, 40, 130, 220, 262, 290])
@pytest.mark.each_value
def test_every_boundary_is_exactly_where_the_law_has_it(name, apart):
    """P(position < i) = 1 - survival(i): a uniform number just above the survival of i trials stops before i, just below it does not."""
    depths, lengths, rate = CASES[name]
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    boundaries = sorted(
        {1, total // 3 + 1, total, *(int(end) + i for end in ends for i in (-1, 0, 1))}
    )
    with mpmath.workdps(160):
        for i in [i for i in boundaries if 0 < i <= total]:
            edge = survival(depths, lengths, rate, i)
            if edge < mpmath.mpf(2) ** -30:
                continue
            for side in (-1, 1):
                words = words_near(edge, side << apart)
                with_margin = mpmath.mpf(2) ** (apart - BITS + 1)
                neighbours = (
                    survival(depths, lengths, rate, i - 1) - edge,
                    edge - survival(depths, lengths, rate, min(i + 1, total)),
                )
                if side > 0:
                    expected = i - 1 if with_margin < neighbours[0] else None
                else:
                    expected = (
                        (i if i < total else -1)
                        if i == total or with_margin < neighbours[1]
                        else None
                    )
                if expected is not None:
                    got = first_success(depths, lengths, rate, Scripted([*words, *[1 << 63] * 20]))
                    assert (-1 if got is None else got) == expected, (i, side)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 50)), max_size=12),
    st.fractions(Fraction(1, 1000), 3, max_denominator=1000),
    st.integers(0, LAST),
)
def test_floats_propose_what_decimals_decide(pairs, rate, word):
    depths, lengths = (
        runs(*pairs) if pairs else (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    )
    proposed = module._propose_position(depths, lengths, rate, word)
    uniform = module.LazyUniform(word, Seeded(1))
    while (decided := module._locate_position(depths, lengths, rate, uniform)) is None:
        uniform.extend()
    assert proposed in {None, decided}


def test_a_band_of_no_width_is_convicted(monkeypatch):
    """The twin that believes its floats is wrong next to a boundary, where ours asks the decimals."""
    depths, lengths, rate = CASES["long"]
    wrong = {"ours": 0, "twin": 0}
    with mpmath.workdps(160):
        for which in wrong:
            for i in range(1, 60):
                place = 17 * i * (1 << 32)
                words = words_near(survival(depths, lengths, rate, place), 1)
                proposed = module._propose_position(depths, lengths, rate, words[0])
                wrong[which] += proposed not in {None, place - 1}
            monkeypatch.setattr(module, "UNIT", 0.0)
            monkeypatch.setattr(module, "widened", lambda value, word: (value, value))
    assert wrong["ours"] == 0
    assert wrong["twin"] > 10


def fits(places, bins, depths, lengths, rate):
    """Return whether chi-square over `bins` groups of positions of about equal probability under this law lets the draws pass."""
    probabilities = law(depths, lengths, rate)
    group = np.minimum((np.cumsum(probabilities) * bins).astype(int), bins - 1)
    counts = np.bincount(
        [group[-1 if place is None else place] for place in places], minlength=bins
    )
    expected = np.bincount(group, weights=probabilities, minlength=bins) * len(places)
    kept = expected > 5
    return (
        stats.chisquare(
            counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()
        ).pvalue
        > LEVEL
    )


def draws(size, seed, depths, lengths, rate):
    entropy = Seeded(seed)
    return [first_success(depths, lengths, rate, entropy) for _ in range(size)]


@pytest.mark.slow
def test_draws_fit_and_other_rates_are_convicted():
    assert fits(draws(1200, 11, *SMALL), 16, *SMALL)
    depths, lengths = runs((11, 20), (10, 1000))
    places = draws(1800, 12, depths, lengths, Fraction(1, 4))
    for wrong, right in ((Fraction(1), True), (Fraction(11, 10), False), (Fraction(9, 10), False)):
        assert fits(places, 12, depths, lengths, wrong / 4) == right


def test_draws_over_many_runs_fit():
    generator = np.random.default_rng(3)
    depths, lengths = (
        np.sort(generator.integers(60, 300, 200))[::-1].copy(),
        generator.integers(1, 60, 200),
    )
    case = depths, lengths, Fraction(1, 20)
    assert fits(draws(1500, 5, *case), 20, *case)


def test_nothing_passes_a_certain_success():
    rate = Fraction(1)
    depths, lengths = runs((50, 3), (0, 0), (-4, 2), (60, 9))
    for seed in range(20):
        assert first_success(depths, lengths, rate, Seeded(seed)) == 3
    assert first_success(depths, lengths, rate, Scripted([LAST, LAST, 5, 5])) == 0, (
        "the first trial, if the uniform number is that near 1"
    )
    assert first_success(*runs((-(1 << 62), 1)), rate, Seeded(1)) == 0


def test_nothing_to_try():
    empty = np.zeros(0, dtype=np.int64)
    assert first_success(empty, empty, Fraction(1), Seeded(1)) is None
    assert first_success(*runs((0, 0), (3, 0)), Fraction(1), Scripted([0])) is None
    assert first_success(*runs(((1 << 62) - 1, 1 << 40)), Fraction(1), Seeded(1)) is None


def test_one_word_decides_almost_always():
    depths, lengths, rate = SMALL
    entropy = Scripted(Seeded(2).words(300))
    for _ in range(300):
        first_success(depths, lengths, rate, entropy)
    assert entropy.left.size == 0
    assert first_success(depths, lengths, rate, SYSTEM) in {None, *range(16)}


@pytest.mark.parametrize("name", CASES)
def test_the_smallest_and_the_largest_words_end(name):
    depths, lengths, rate = CASES[name]
    assert first_success(depths, lengths, rate, Scripted([LAST] * 3 + [5] * 3)) == 0 or name in {
        "deep",
        "long",
    }
    got = first_success(depths, lengths, rate, Scripted([0] * 3 + [1] * 30))
    with mpmath.workdps(60):
        none = survival(depths, lengths, rate, int(lengths.sum()))
        assert (got is None) == (none > mpmath.mpf(2) ** -250)


def test_a_hundred_thousand_runs():
    depths = np.arange(100_001, 1, -1)
    lengths = np.full(100_000, 10)
    rate = Fraction(1, 100)
    entropy = Seeded(3)
    places = [first_success(depths, lengths, rate, entropy) for _ in range(9)]
    median = -math.log(-math.log(0.5) * float(rate) / 10) / float(
        rate
    )  # where the hazards of all runs before add up to ln 2
    assert abs(np.median(places) / 10 - (100_001 - median)) < 400


def test_hazards_in_decimals_contain_the_number():
    for x in (
        Fraction(1, 1 << 40),
        Fraction(1, 2),
        Fraction(7, 5),
        Fraction(40),
        Fraction(700),
        Fraction(10**6),
    ):
        low, high = module.hazard_bounds(x, 40)
        with mpmath.workdps(120):
            true = hazard(x, 1)
            assert mpmath.mpf(str(low)) < true < mpmath.mpf(str(high))
            assert (mpmath.mpf(str(high)) - mpmath.mpf(str(low))) / true < mpmath.mpf(10) ** -36


# ---- many rows ----------------------------------------------------------------------------------------------------------

rows_of_runs = st.lists(
    st.lists(st.tuples(st.integers(-3, 60), st.integers(0, 50)), max_size=6), min_size=1, max_size=6
)


def lined_up(rows):
    """Rows of runs as two tables, filled up with empty runs."""
    size = max(map(len, rows))
    tables = np.zeros((2, len(rows), size), dtype=np.int64)
    for row, pairs in enumerate(rows):
        for at, pair in enumerate(pairs):
            tables[:, row, at] = pair
    return tables


@settings(max_examples=40)
@given(rows_of_runs, st.fractions(Fraction(1, 1000), 3, max_denominator=1000), st.integers(0, 99))
def test_many_rows_are_what_each_is_alone(rows, rate, seed):
    depths, lengths = lined_up(rows)
    words = Seeded(seed).words(len(rows)).tolist()
    found = first_successes(depths, lengths, rate, Scripted([*words, *[1 << 63] * 40])).tolist()
    for row, (pairs, word) in enumerate(zip(rows, words, strict=True)):
        alone = runs(*pairs) if pairs else (np.zeros(0, dtype=np.int64),) * 2
        wanted = first_success(*alone, rate, Scripted([word, *[1 << 63] * 40]))
        assert found[row] == (-1 if wanted is None else wanted)


@settings(max_examples=40)
@given(rows_of_runs, st.integers(-30, 30), st.integers(0, 99))
def test_empty_runs_of_any_depth_change_nothing(rows, depth, seed):
    """A search fills its rows up with runs at the depth of no record, which may be a certain success."""
    depths, lengths = lined_up(rows)
    more = np.full((len(rows), 2), depth, dtype=np.int64)
    padded = (
        np.concatenate([depths, more], axis=1),
        np.concatenate([lengths, np.zeros_like(more)], axis=1),
    )
    found = [
        first_successes(*given, Fraction(1, 7), Seeded(seed)).tolist()
        for given in ((depths, lengths), padded)
    ]
    assert found[0] == found[1]


def test_rows_that_floats_leave_open_are_decided_by_decimals(monkeypatch):
    depths, lengths = lined_up([[(3, 9), (1, 40)]] * 30)
    words = Seeded(2).words(30).tolist()
    sure = first_successes(depths, lengths, Fraction(1, 3), Scripted(words)).tolist()
    monkeypatch.setattr(
        module,
        "_propose_positions",
        lambda depths, *_: np.full(len(depths), module._OPEN, dtype=np.int64),
    )
    more = Scripted([*words, *[1 << 63] * 200])
    assert first_successes(depths, lengths, Fraction(1, 3), more).tolist() == sure
