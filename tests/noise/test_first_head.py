"""Permute-and-flip over runs: the law of coins in random order, by draws, and by decisions far beyond any float."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from sordino import SYSTEM, Seeded
from sordino.noise import first_head
from sordino.noise.samplers import first_success as module
from sordino.noise.samplers.first_success import _Runs
from sordino.noise.samplers.uniform import LazyUniform
from support.fit import LEVEL
from support.scripted import Scripted

LAST = (1 << 64) - 1
RATE = Fraction(2, 7)


def runs(*pairs):
    depths, lengths = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return depths, lengths


SMALL = runs((3, 4), (9, 0), (0, 1), (40, 3), (2, 5))


def law(depths, lengths, rate):
    """Return the probability of each run: the integral of r p (1-p t)^(r-1) times (1-p t)^r of the others, a polynomial."""
    p = [
        mpmath.exp(-mpmath.mpf(rate.numerator) * max(d, 0) / rate.denominator)
        for d in depths.tolist()
    ]
    winning = []
    for j, (mine, length) in enumerate(zip(p, lengths.tolist(), strict=True)):
        factors = [other for i, other in enumerate(p) for _ in range(int(lengths[i]) - (i == j))]
        polynomial = [mpmath.mpf(1)]
        for factor in factors:
            polynomial = [
                a - factor * b for a, b in zip([*polynomial, 0], [0, *polynomial], strict=True)
            ]
        winning.append(
            length * mine * mpmath.fsum(c / (k + 1) for k, c in enumerate(polynomial))
            if length
            else mpmath.mpf(0)
        )
    return winning


def test_the_integral_is_the_law_of_coins_in_random_order():
    depths, lengths = runs((1, 2), (0, 1), (3, 3))
    each = np.repeat(depths, lengths).tolist()
    with mpmath.workdps(40):
        p = [mpmath.exp(-mpmath.mpf(2) * d / 7) for d in each]
        winning = [mpmath.mpf(0)] * 6
        for order in itertools.permutations(range(6)):
            alive = mpmath.mpf(1)
            for i in order:
                winning[i] += alive * p[i] / 720
                alive *= 1 - p[i]
        by_runs = [winning[0] + winning[1], winning[2], winning[3] + winning[4] + winning[5]]
        for seen, expected in zip(law(depths, lengths, RATE), by_runs, strict=True):
            assert abs(seen - expected) < mpmath.mpf(10) ** -30


def counts_of(size, seed, depths, lengths, rate):
    entropy = Seeded(seed)
    return np.bincount(
        [first_head(depths, lengths, rate, entropy) for _ in range(size)],
        minlength=int(lengths.sum()),
    )


def p_value(counts, depths, lengths, rate):
    with mpmath.workdps(30):
        by_run = np.array([float(w) for w in law(depths, lengths, rate)])
    expected = np.repeat(by_run / np.maximum(lengths, 1), lengths) * counts.sum()
    kept = expected > 5
    pooled = [np.append(column[kept], column[~kept].sum()) for column in (counts, expected)]
    if pooled[1][-1] == 0:
        pooled = [column[:-1] for column in pooled]
    return stats.chisquare(*pooled).pvalue


def test_draws_fit_and_other_rates_are_convicted():
    assert p_value(counts_of(1200, 4, *SMALL, RATE), *SMALL, RATE) > LEVEL
    depths, lengths = runs((0, 1), (4, 30))
    counts = counts_of(1800, 6, depths, lengths, Fraction(1))
    first = int(counts[0])
    for wrong, fits in ((Fraction(1), True), (Fraction(11, 10), False), (Fraction(9, 10), False)):
        expected = float(law(depths, lengths, wrong)[0])
        assert (stats.binomtest(first, 1800, expected).pvalue > LEVEL) == fits


def test_a_ring_that_forgets_earlier_tails_is_convicted(monkeypatch):
    """Accepting every ring that could show heads is the exponential mechanism."""
    case = *runs((0, 1), (1, 3)), Fraction(1)
    assert p_value(counts_of(1500, 5, *case), *case) > LEVEL
    monkeypatch.setattr(_Runs, "first_ring", lambda *_: True)
    assert p_value(counts_of(1500, 5, *case), *case) < LEVEL


def test_candidates_that_once_showed_tails_stay_out():
    """The script: candidate 1 (p = e^-5) rings and is found to have shown tails, rings again and is passed over, then candidate 0 rings."""
    depths, lengths = runs((0, 1), (5, 1))
    ring_1, ring_0 = [LAST - 1, 1 << 40, LAST - 1], [0, 1 << 63, 0]
    offset = [0]
    assert (
        first_head(
            depths,
            lengths,
            Fraction(1),
            Scripted([*ring_1, *offset, *ring_1, *offset, *ring_0, *offset]),
        )
        == 0
    )
    late_but_first = [LAST - 1, 1 << 40, 1 << 33]
    assert first_head(depths, lengths, Fraction(1), Scripted([*late_but_first, *offset])) == 1


def test_a_candidate_that_showed_tails_stays_out_whatever_its_next_coin_says():
    """The script: candidate 1 rings and has shown tails; it rings again, with a coin that would do by itself."""
    depths, lengths = runs((0, 1), (5, 1))
    tails, heads, other = (
        [LAST - 1, 1 << 40, LAST - 1],
        [LAST - 1, LAST - 1, 1 << 33],
        [0, 1 << 63, 0],
    )
    script = [word for ring in (tails, heads, other) for word in (*ring, 0)]
    assert first_head(depths, lengths, Fraction(1), Scripted(script)) == 0
    assert first_head(depths, lengths, Fraction(1), Scripted([*heads, 0])) == 1


def near(value, offset, bits=320):
    digits = int(mpmath.floor(value * mpmath.mpf(2) ** bits)) + offset
    return [(digits >> shift) & LAST for shift in range(bits - 64, -1, -64)]


CASES = {
    "small": (*SMALL, RATE),
    "long": (*runs((1 << 38, 1 << 38), (0, 3), (5 << 40, 1 << 39)), Fraction(1, 1 << 40)),
    "deep": (
        *runs((0, 1), ((1 << 62) - 1, 1 << 40), (35, 1 << 38), (2000, 1 << 39)),
        Fraction(4, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("apart", [0, 130, 250, 262, 290])
@pytest.mark.each_value
def test_runs_are_picked_exactly_in_proportion(name, apart):
    depths, lengths, rate = CASES[name]
    known = _Runs(depths, lengths, rate)
    with mpmath.workdps(160):
        weights = [
            r * mpmath.exp(-mpmath.mpf(rate.numerator) * d / rate.denominator)
            for d, r in zip(*map(np.ndarray.tolist, (depths, lengths)), strict=True)
        ]
        shares = [mpmath.fsum(weights[: j + 1]) / mpmath.fsum(weights) for j in range(len(weights))]
        for share in shares[:-1]:
            for side in (-1, 1):
                value = share + side * mpmath.mpf(2) ** (apart - 320)
                if 0 < value < 1:
                    first, *more = near(share, side << apart)
                    expected = next(j for j, s in enumerate(shares) if value < s)
                    assert (
                        known.picked(LazyUniform(first, Scripted([*more, *[1 << 63] * 9])))
                        == expected
                    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("apart", [0, 130, 250, 262, 290])
@pytest.mark.each_value
def test_rings_are_accepted_exactly_up_to_their_edge(name, apart):
    depths, lengths, rate = CASES[name]
    known = _Runs(depths, lengths, rate)
    with mpmath.workdps(160):
        x = [mpmath.mpf(rate.numerator) * int(d) / rate.denominator for d in depths]
        total = mpmath.fsum(int(r) * mpmath.exp(-t) for r, t in zip(lengths, x, strict=True))
        waits = [near(mpmath.exp(-mpmath.mpf(e)), 12345) for e in (0.7, 1.9)]
        spent = -mpmath.fsum(
            mpmath.log(
                mpmath.fsum(
                    mpmath.mpf(w) / mpmath.mpf(2) ** (64 * (k + 1)) for k, w in enumerate(words)
                )
            )
            for words in waits
        )
        for run in np.flatnonzero((depths > 0) & (lengths > 0)).tolist():
            edge = mpmath.exp(mpmath.expm1(-x[run]) * spent / total)
            for side in (-1, 1):
                if not 0 < edge + side * mpmath.mpf(2) ** (apart - 320) < 1:
                    continue
                coin = near(edge, side * ((1 << apart) + (1 << 60)))
                lazy = [
                    LazyUniform(words[0], Scripted([*words[1:], *[0] * 9]))
                    for words in (*waits, coin)
                ]
                assert known.first_ring(run, lazy[:2], lazy[2]) is (side < 0)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 50)), max_size=12),
    st.fractions(Fraction(1, 1000), 3, max_denominator=1000),
    st.integers(0, LAST),
    st.integers(0, LAST),
)
def test_floats_propose_what_decimals_decide(pairs, rate, word, other):
    known = _Runs(*runs((0, 1), *pairs), rate)
    lazy = LazyUniform(word, Seeded(1))
    while (decided := known._picked(lazy)) is None:
        lazy.extend()
    assert known.picked(LazyUniform(word, Seeded(1))) == decided
    if known.depths[decided]:
        wait, coin = LazyUniform(word, Seeded(1)), LazyUniform(other, Seeded(2))
        assert (
            known.first_ring(decided, [wait], coin)
            in {known._first_ring(decided, [wait], coin)} - {None}
            or wait.length > 64
        )


def test_one_candidate_and_empty_runs():
    assert first_head(*runs((0, 1)), Fraction(1), Seeded(1)) == 0
    assert first_head(*runs((5, 0), (0, 1), (0, 0)), Fraction(1), Seeded(1)) == 0
    assert {first_head(*runs((-3, 2)), Fraction(1), Seeded(seed)) for seed in range(20)} == {0, 1}
    assert {
        first_head(*runs((7, 2), (-9, 0), (10**9, 5)), Fraction(1), Seeded(seed))
        for seed in range(20)
    } == {0, 1}, "from the best"


@pytest.mark.parametrize("word", [0, 1, LAST, LAST - 1, 1 << 63])
def test_extreme_words_end(word):
    for depths, lengths, rate in CASES.values():
        entropy = Scripted([word] * 4 + Seeded(3).words(2000).tolist())
        assert 0 <= first_head(depths, lengths, rate, entropy) < int(lengths.sum())


def test_sizes_up_to_2_to_the_40_and_system_words():
    depths, lengths, rate = CASES["long"]
    places = np.array([first_head(depths, lengths, rate, SYSTEM) for _ in range(60)])
    assert (places >= 0).all()
    assert (places < int(lengths.sum())).all()
    assert np.unique(places).size > 50
    many = first_head(np.arange(100_000), np.full(100_000, 10), Fraction(1, 1000), SYSTEM)
    assert 0 <= many < 100_000 * 10
    assert module.first_head is first_head
