"""The privacy loss of the top-k of unlisted labels, enumerated: what fails is exactly delta, what is paid is paid on every transcript."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import COUNTING, InvalidParameter, LimitedTopK, Seeded, UnlistedTopK
from sordino.cost import Approximate
from sordino.mechanisms.unlisted.failures import bound_exponential, bound_laplace
from sordino.mechanisms.unlisted.limited_top_k import decide_limited
from sordino.mechanisms.unlisted.occurring import counting
from sordino.mechanisms.unlisted.unlisted_top_k import decide, decide_occurring
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.unlisted import cdf, failure, law, moves, outcomes, pmf, spent, top, worst_failure

HALF = 0.5


def released(noisy, threshold, k):
    """What the product decides of noisy values of labels that all occur, in the words of the definition."""
    items, gaps = (row.tolist() for row in decide(np.array([*noisy, threshold]), k))
    found = sum(item >= 0 for item in items)
    assert len(items) == len(gaps) == k
    assert items[found:] == [-1] * (k - found)
    assert not any(gaps[found:])
    return tuple(items[:found]), tuple(gaps[:found])


@pytest.mark.parametrize(
    ("n", "k", "high"),
    [
        (0, 1, 4),
        (0, 3, 4),
        (1, 1, 4),
        (1, 3, 4),
        (2, 1, 4),
        (2, 2, 4),
        (2, 4, 4),
        (3, 2, 3),
        (3, 3, 3),
    ],
)
def test_decide_does_what_the_definition_says(n, k, high):
    for threshold, *noisy in product(range(high + 1), repeat=n + 1):
        assert released(noisy, threshold, k) == top(dict(enumerate(noisy)), threshold, k)


def test_rows_and_huge_noise_are_decided_alike():
    rng = np.random.Generator(np.random.PCG64(1))
    for k in (1, 3, 7, 30):
        rows = rng.integers(0, 30, (40, 21))
        items, gaps = decide(rows, k)
        for row, one, other in zip(rows, items, gaps, strict=True):
            assert released(row[:-1].tolist(), int(row[-1]), k) == top(
                dict(enumerate(row[:-1].tolist())), int(row[-1]), k
            )
            assert [x.tolist() for x in decide(row, k)] == [one.tolist(), other.tolist()]
    huge = 1 << 70
    assert released([3, huge + 5, huge], huge - 2, 4) == ((1, 2), (5, 2))
    assert released([3, huge + 5, huge], huge, 2) == ((1, 2), (5, 0))


def test_what_does_not_occur_is_no_item():
    """Counts below the least one are decided as if they had not been handed in, whatever their noise is."""
    rng = np.random.Generator(np.random.PCG64(2))
    for _ in range(200):
        counts = rng.integers(0, 8, 5)
        noise = rng.integers(0, 6, 6)
        kept = counts >= 3
        places = np.append(np.flatnonzero(kept), -1)
        items, gaps = decide_occurring(counts, noise, 3, 5, 2)
        short, other = decide_occurring(counts[kept], noise[[*np.flatnonzero(kept), 5]], 3, 5, 2)
        assert items.tolist() == places[short].tolist()
        assert gaps.tolist() == other.tolist()


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize(("table", "k"), [((3, 1), 1), ((3, 4), 2), ((2, 2), 3)])
@pytest.mark.slow
def test_the_law_of_the_definition_is_that_of_the_formula(kind, table, k):
    box = 6 if kind == "laplace" else 13
    support = range(-box, box + 1) if kind == "laplace" else range(box + 1)
    found = Counter()
    for eta, *noise in product(support, repeat=3):
        noisy = {i: q + z for i, (q, z) in enumerate(zip(table, noise, strict=True)) if q >= 2}
        mass = math.prod(float(pmf(kind, HALF, z)) for z in (eta, *noise))
        found[top(noisy, 4 + eta, k)] += mass
    rest = 1 - sum(found.values())
    for outcome in outcomes(2, k, 3):
        assert (
            found[outcome] - 1e-12
            <= law(kind, HALF, table, 2, 4, k, outcome)
            <= found[outcome] + rest + 1e-12
        )


CASES = [
    # noise, k, items a unit, replace-one, least, offset, labels
    ("exponential", 1, 1, False, 1, 3, 2),
    ("exponential", 2, 1, False, 1, 2, 2),
    ("exponential", 2, 2, False, 3, 3, 2),
    ("exponential", 1, 1, True, 1, 3, 2),
    ("exponential", 2, 2, True, 1, 2, 2),
    ("laplace", 2, 1, False, 1, 3, 2),
    ("laplace", 2, 2, True, 3, 2, 2),
    ("laplace", 3, 1, True, 1, 1, 2),
    pytest.param("exponential", 3, 2, False, 1, 2, 2, marks=pytest.mark.slow),
    pytest.param("exponential", 2, 3, False, 1, 3, 3, marks=pytest.mark.slow),
    pytest.param("exponential", 2, 3, True, 3, 1, 3, marks=pytest.mark.slow),
    pytest.param("exponential", 3, 1, True, 1, 0, 3, marks=pytest.mark.slow),
    pytest.param("laplace", 2, 2, False, 1, 2, 3, marks=pytest.mark.slow),
    pytest.param("laplace", 3, 3, False, 3, 1, 2, marks=pytest.mark.slow),
]


def tables(least, offset, n):
    """Counts of labels that are absent, at the least count, around the threshold and well above it."""
    heights = {least - 1, least, least + offset + (4 if n < 3 else 2)}
    if n < 3:
        heights |= {least + offset - 1, least + offset}
    heights = sorted(heights)
    return list(product(heights, repeat=n))


@pytest.mark.parametrize(("kind", "k", "most", "either", "least", "offset", "n"), CASES)
@pytest.mark.sample(8)
def test_what_fails_is_delta_and_every_transcript_keeps_its_price(
    kind, k, most, either, least, offset, n
):
    listed = list(outcomes(n, k, 12 if k < 3 and n < 3 else 5))
    pairs = [
        (a, b) for a in tables(least, offset, n) for b in moves(a, most, either=either) if a != b
    ]
    units = spent(kind, k, most, either=either)
    worst = worst_failure(
        lambda table, outcome: law(kind, HALF, table, least, least + offset, k, outcome),
        listed,
        pairs,
        HALF,
        units,
        k,
    )
    delta = failure(kind, HALF, offset, min(most, n))
    assert worst <= delta + 1e-9
    if most <= n:
        assert worst >= delta - (1e-3 if k < 3 and n < 3 else 4e-2), (
            "a unit with labels of its own alone reaches it"
        )


@pytest.mark.parametrize(("kind", "k", "most", "either", "least", "offset", "n"), CASES)
@pytest.mark.sample(9)
def test_the_measures_of_the_proof_are_below_both_laws(kind, k, most, either, least, offset, n):
    """The failure form itself: of each law mass 1 - delta is left, and on it every transcript keeps its price."""
    threshold, units = least + offset, spent(kind, k, most, either=either)
    listed = list(outcomes(n, k, 6 if k < 3 and n < 3 else 3))

    def below(x):
        return cdf(kind, HALF, offset + x - 1) ** most

    for a in tables(least, offset, n)[:: 3 if n < 3 else 17]:
        for b in moves(a, most, either=either):
            # Only labels of both tables: with the counts of a, and with those of b.
            mine = tuple(x if min(x, y) >= least else 0 for x, y in zip(a, b, strict=True))
            other = tuple(y if min(x, y) >= least else 0 for x, y in zip(a, b, strict=True))
            for outcome in listed:
                p = law(kind, HALF, mine, least, threshold, k, outcome, weight=below)
                q = law(kind, HALF, other, least, threshold, k, outcome, weight=below)
                assert p <= law(kind, HALF, a, least, threshold, k, outcome) + 1e-12
                factor = HALF ** -units(len(outcome[0]))
                assert p <= factor * q + 1e-12
                assert q <= factor * p + 1e-12


def test_what_is_declared_is_what_is_enumerated():
    for kind, either in product(("exponential", "laplace"), (False, True)):
        for k, most in ((1, 1), (2, 5), (5, 2), (4, 4)):
            m = UnlistedTopK(
                k=k, epsilon=0.7, delta=1e-5, sensitivity=counting(most, either=either), noise=kind
            )
            units = spent(kind, k, most, either=either)
            assert [m.spent(s) for s in range(k + 1)] == [
                Approximate(epsilon=units(s) * m.noise.rate, delta=1e-5) for s in range(k + 1)
            ]
            assert m.cost == m.spent(k)
            assert m.cost.epsilon_ == Fraction(7, 10)
            bound = {"exponential": bound_exponential, "laplace": bound_laplace}[kind]
            offset = m.threshold - 1
            assert (
                float(bound(m.noise.rate, offset, most))
                <= 1e-5
                < float(bound(m.noise.rate, offset - 1, most))
            )


def test_a_threshold_of_ones_own_counts_where_it_is_larger():
    made = {"k": 2, "epsilon": 1, "delta": 1e-6, "sensitivity": counting(3)}
    least = UnlistedTopK(**made).threshold
    assert UnlistedTopK(**made, above=3).threshold == least
    assert UnlistedTopK(**made, above=least + 4.5).threshold == least + 5
    assert UnlistedTopK(**made, least=7).threshold == least + 6


# ---- the auditor, and twins --------------------------------------------------------------------------------

LONE = UnlistedTopK(k=2, epsilon=2, delta=0.1, sensitivity=counting(2))


def twin(m, n, **changes):
    """The mechanism as the auditor plays it, with something changed."""
    honest = subject_of(m, n)
    own = {
        "laws": honest.laws,
        "play": honest.play,
        "steps": honest.steps,
        "cost": m.cost,
        "cost_of": honest.cost_of,
    }
    return Subject(**(own | {"sensitivity": m.sensitivity} | changes))


@pytest.mark.parametrize("name", ["UnlistedTopK"])
@pytest.mark.slow
def test_the_claims_hold_and_are_reached(name):
    for report in audit.run_claims(name):
        report.raise_if_broken()
        assert report.tight or not report.claim.tight


@pytest.mark.parametrize("either", [False, True])
@pytest.mark.slow
def test_a_margin_under_a_threshold_that_ended_the_list_is_convicted(either):
    """The list that stops at the threshold tells how far the best of the others lies below it, at least one step: v0 is told, and with it all."""

    def told(items, noise):
        steps = np.asarray(items)
        present = np.flatnonzero(steps >= 1)
        noisy = steps[present] + noise[:, present]
        heights = LONE.threshold + noise[:, -1]
        rest = np.where(noisy >= heights[:, None], -1, noisy)
        below = np.maximum(rest.max(axis=1, initial=-1), LONE.threshold - 1)
        found, gaps = decide_occurring(steps, noise, 1, LONE.threshold, 2)
        short = (found >= 0).sum(axis=1) < 2
        return np.concatenate([found, gaps, np.where(short, heights - below, 0)[:, None]], axis=1)

    one = UnlistedTopK(
        k=2, epsilon=4 if either else 2, delta=0.1, sensitivity=counting(2, either=either)
    )
    assert (one.noise, one.threshold) == (LONE.noise, LONE.threshold)
    pair = {"answers_a": (LONE.threshold + 3, 0), "answers_b": (LONE.threshold + 4, 0)}
    assert not audit.exact(twin(one, 2), **pair).broken
    report = audit.exact(twin(one, 2, play=told), **pair)
    assert report.broken
    assert report.at_claim.at_least > 0.5, "wrong by far more than its delta"


@pytest.mark.slow
def test_a_threshold_that_the_mass_at_it_was_forgotten_for_is_convicted():
    """P(noisy > T) where labels at the noisy threshold are found: one step too low."""
    low = twin(
        LONE,
        2,
        play=lambda q, noise: np.concatenate(
            decide_occurring(np.asarray(q), noise, 1, LONE.threshold - 1, 2), axis=1
        ),
    )
    pair = {"answers_a": (1, 1), "answers_b": (0, 0)}
    assert not audit.exact(twin(LONE, 2), **pair).broken
    assert audit.exact(low, **pair).broken


@pytest.mark.slow
def test_one_sided_noise_for_the_items_of_a_unit_is_convicted():
    """k = 2 and one item a unit: the loser alone moves, and both winners pay."""
    cheap = UnlistedTopK(k=2, epsilon=2, delta=0.1, sensitivity=counting(1))
    high = cheap.threshold + 6
    pair = {"answers_a": (high, high, high), "answers_b": (high, high, high + 1)}
    assert not audit.exact(twin(cheap, 3), **pair).broken
    claimed = Approximate(epsilon=cheap.noise.rate, delta=0.1)
    report = audit.exact(twin(cheap, 3, cost=claimed, cost_of=None), **pair)
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-3), "k rates, whatever M is"


@pytest.mark.slow
def test_a_full_list_whose_margin_leaves_the_threshold_out_is_convicted():
    """Then a label that comes or goes is seen as the best of what is left, however far below the threshold it lies."""
    one = UnlistedTopK(k=1, epsilon=1, delta=0.1, sensitivity=counting(1))

    def play(q, noise):
        known = np.asarray(q)
        items, gaps = decide_occurring(known, noise, 1, one.threshold, 1)
        values = np.where(known >= 1, known + noise[:, :-1], -1)
        values[np.arange(len(values)), items[:, 0]] = -1
        return np.concatenate(
            [items, np.where(items >= 0, values.max(axis=1)[:, None], gaps)], axis=1
        )

    pair = {"answers_a": (one.threshold + 4, 1), "answers_b": (one.threshold + 4, 0)}
    assert not audit.exact(twin(one, 2), **pair).broken
    report = audit.exact(twin(one, 2, play=play), **pair)
    assert report.broken
    assert report.at_claim.at_least > 0.9


@pytest.mark.slow
def test_a_label_of_the_table_that_gets_a_place_below_the_least_count_is_convicted():
    """`least` is 3, the threshold is 3 and an offset; a rule that compares with the offset alone releases labels of one unit."""
    m = UnlistedTopK(k=2, epsilon=2, delta=0.1, sensitivity=counting(2), least=3)
    offset = m.threshold - 3
    pair = {"answers_a": (3, 3), "answers_b": (2, 2)}
    assert not audit.exact(twin(m, 2), **pair).broken
    low = twin(
        m,
        2,
        play=lambda q, noise: np.concatenate(
            decide_occurring(np.asarray(q), noise, 3, offset, 2), axis=1
        ),
    )
    assert audit.exact(low, **pair).broken


def test_laplace_noise_for_fewer_labels_than_a_unit_has_is_convicted():
    """Two labels just below the threshold rise together; noise for one label a unit is half of what that takes."""
    least, offset, k = 1, 20, 2
    low = offset - 1
    pairs = [((offset + 3, low, low), (offset + 3, low + 1, low + 1))]
    listed = list(outcomes(3, k, 5))

    def failed(most):
        units = spent("laplace", k, most, either=False)
        return worst_failure(
            lambda table, outcome: law("laplace", HALF, table, least, least + offset, k, outcome),
            listed,
            pairs,
            HALF,
            units,
            k,
        )

    assert failed(2) == 0
    assert failed(1) > 100 * failure("laplace", HALF, offset, 2)


def test_a_delta_that_is_given_back_is_spent_without_end():
    """Asking again until a label is found, each time with its delta refunded, finds the label of a single unit."""
    delta = Fraction(1, 10)
    missed, tries = Fraction(1), 0
    while 1 - missed < Fraction(99, 100):
        missed, tries = missed * (1 - delta), tries + 1
    assert tries == 44
    m = UnlistedTopK(k=1, epsilon=1, delta=delta, sensitivity=counting(1))
    assert all(m.spent(s).delta_ == delta for s in (0, 1)), "so it is charged whatever comes out"


# ---- one test through `release` ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize("either", [False, True])
@pytest.mark.slow
def test_a_release_has_the_law_of_the_formula(kind, either):
    m = UnlistedTopK(
        k=2, epsilon=3, delta=0.2, sensitivity=counting(2, either=either), noise=kind, least=2
    )
    table, names, draws = (
        (m.threshold + 1, 1, m.threshold - 1, m.threshold + 2),
        ["d", "a", "c", "b"],
        4000,
    )
    order = [1, 3, 2, 0]  # a, b, c, d
    entropy = Seeded(11)
    met = Counter()
    for _ in range(draws):
        one = m.release(table, labels=names, entropy=entropy)
        met[tuple("abcd".index(label) for label in one.labels), tuple(map(int, one.gaps))] += 1
        assert one.cost == m.spent(len(one.labels))
    sorted_table = tuple(table[i] for i in order)
    r = math.exp(-m.noise.rate)
    expected = {
        outcome: draws * law(kind, r, sorted_table, 2, m.threshold, 2, outcome, reach=80)
        for outcome in outcomes(4, 2, 6)
    }
    often = {outcome: mean for outcome, mean in expected.items() if mean >= 8}
    seen = np.array([met[outcome] for outcome in often])
    means = np.array(list(often.values()))
    rest = draws - means.sum()
    assert rest > 0
    statistic = ((seen - means) ** 2 / means).sum() + (draws - seen.sum() - rest) ** 2 / rest
    assert stats.chi2.sf(statistic, len(often)) > 1e-5


# ---- the limited domain ------------------------------------------------------------------------------------


def limited_law(table, outcome, *, k, best, least, offset, r=HALF):
    """P(outcome) by the definition: the best counts compete, the next one sets the threshold."""
    present = sorted((-count, label) for label, count in enumerate(table) if count >= least)
    following = -present[best][0] if len(present) > best else least - 1
    kept = {label for _, label in present[:best]}
    items = tuple(count if label in kept else -1 for label, count in enumerate(table))
    return law("exponential", r, items, least, following + offset, k, outcome)


LIMITED = [
    # k, best, items a unit, replace-one, least, g, labels
    (1, 1, 1, False, 1, 2, 2),
    (1, 1, 2, True, 1, 3, 2),
    (2, 2, 2, False, 1, 2, 3),
    (1, 2, 1, True, 2, 1, 3),
    pytest.param(2, 2, 3, True, 1, 2, 3, marks=pytest.mark.slow),
    pytest.param(2, 2, 1, True, 3, 1, 3, marks=pytest.mark.slow),
    pytest.param(1, 1, 3, True, 1, 2, 3, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("k", "best", "most", "either", "least", "g", "n"), LIMITED)
def test_what_fails_in_a_limited_domain_is_at_most_delta(k, best, most, either, least, g, n):
    spread = 2 if either else 1
    heights = [least - 1, least, least + 1, least + 2, least + g + 4][: 5 if n < 3 else 4]
    pairs = [
        (a, b)
        for a in product(heights, repeat=n)
        for b in moves(a, most, either=either)
        if min(b) >= 0 and a != b
    ]
    listed = list(outcomes(n, k, 8 if n < 3 else 4))

    def failed(offset):
        return worst_failure(
            lambda table, outcome: limited_law(
                table, outcome, k=k, best=best, least=least, offset=offset
            ),
            listed,
            pairs,
            HALF,
            lambda found: spread * min(found + 1, k),
            k,
        )

    delta = failure("exponential", HALF, g, min(best, spread * most))
    assert failed(spread + g) <= delta + 1e-9


def test_one_step_of_offset_under_replace_one_is_convicted():
    """(t + 2, t) and (t + 1, t + 1): the label that is not read any more was two steps above the next count."""
    pair = [((2, 4), (3, 3))]
    listed = list(outcomes(2, 1, 25))

    def failed(offset):
        return worst_failure(
            lambda table, outcome: limited_law(table, outcome, k=1, best=1, least=1, offset=offset),
            listed,
            pair,
            HALF,
            lambda _: 2,
            1,
        )

    assert failed(2 + 3) == pytest.approx(1 / 12, abs=1e-6), "attained"
    assert failed(1 + 3) == pytest.approx(1 / 6, abs=1e-6), "twice what is claimed"


@pytest.mark.slow
def test_the_claims_of_the_limited_domain_hold_and_are_reached():
    for report in audit.run_claims("LimitedTopK"):
        report.raise_if_broken()
        assert report.tight or not report.claim.tight


def test_a_limited_release_does_not_tell_where_its_threshold_lay():
    m = LimitedTopK(k=3, best=3, epsilon=9, delta=1e-3, sensitivity=counting(3))
    assert (
        m.offset
        == 1 + UnlistedTopK(k=3, epsilon=9, delta=1e-3, sensitivity=counting(3)).threshold - 1
    )
    found = m.release([900, 91, 700, 90, 4], labels=list("abcde"), entropy=Seeded(1))
    assert found.labels == ("a", "c")
    assert found.crossed
    assert np.isnan(found.estimates).all()
    assert found.cost == m.spent(2)
    assert m.spent(2).epsilon_ == 3 * m.noise.rate
    assert m.release([], labels=[], entropy=Seeded(1)).labels == ()
    with pytest.raises(InvalidParameter, match=r"best must be at least k, 3; got 2"):
        LimitedTopK(k=3, best=2, epsilon=9, delta=1e-3, sensitivity=counting(3))
    unbounded = LimitedTopK(k=3, best=3, epsilon=9, delta=1e-3, sensitivity=COUNTING)
    assert unbounded.offset == m.offset
    more = m.release([900, 91, 700, 90, 4, 80], labels=list("abcdef"), entropy=Seeded(1))
    assert more.labels == found.labels


def test_ties_at_the_cut_are_decided_by_the_labels():
    """Of equal counts the first labels compete, whatever order they are handed in."""
    counts = np.array([9, 9, 8])
    items, _ = decide_limited(counts, np.zeros(4, dtype=int), 1, 0, 1, 1)
    assert items.tolist() == [0]
