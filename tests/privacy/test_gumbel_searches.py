"""Searches for quantiles and clips with Gumbel noise: what they release, what that costs, what is known of the place that they find.

Laws come from the definition: P(stop at test m) = 1/A_(m-1) - 1/A_m with A_m = 1 + the sum of e^(rate height), over plain counts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sordino as sd
import sordino_audit as audit
from sordino.columns import BucketCounts, BucketGrid
from sordino.cost import Cost, GumbelStage, Range, compose, repeat
from sordino.cost.composition import cost_of_groups
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter
from sordino.estimators import ClippedSum, ClippedVariance, Quantile
from sordino.estimators.clipped.clip import ClipSearch
from sordino.estimators.quantiles.quantile_interval import QuantileInterval
from sordino.mechanisms.crossings import threshold_scan
from sordino.mechanisms.crossings.threshold_scan import GumbelScan, decide
from sordino.mechanisms.race import Gumbel
from sordino.noise.samplers.uniform import LazyUniform
from support.quantiles import columns, first_of as geometric, replaced, shorter

ORDERS = (1.25, 2, 4.42, 22)
EPSILONS = (0.0, 0.3, 1.0, 2.0)
HALF = Fraction(1, 2)


def first_of(heights, rate):
    """The law of the first test above, and of none; heights in steps, by differences of 1/A."""
    # A float keeps its digits where the weights are large, a cumulative sum where they are small.
    weights = np.exp(float(rate) * np.asarray(heights, dtype=np.float64))
    sums = np.concatenate([[1.0], 1 + np.cumsum(weights)])
    return np.append(weights / (sums[1:] * sums[:-1]), 1 / sums[-1])


def search_law(part, records, edges, share):
    """The law of the edge where one search for a quantile ends, from the records and the edges."""
    a, b = Fraction(str(share)).as_integer_ratio()
    inner = range(part.first, part.last)
    if part.upward:
        answers = [b * sum(x < edges[i] for x in records) - a * len(records) for i in inner]
    else:
        answers = [
            b * sum(x >= edges[i] for x in records) - (b - a) * len(records) for i in inner[::-1]
        ]
    return first_of([one - part.scan.threshold for one in answers], part.scan.noise.rate)


def diverge(p, q, alpha):
    return math.log(float(np.sum(p**alpha * q ** (1 - alpha)))) / (alpha - 1)


def stick(p, q, epsilon):
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))


def worst(pairs, cost):
    """The largest share of what a cost says that any pair reaches, over divergences, deltas and the largest loss."""
    found = {"rdp": 0.0, "delta": 0.0, "pure": 0.0}
    says = {alpha: cost.rdp(alpha) for alpha in ORDERS}
    deltas = {epsilon: cost.delta(epsilon) for epsilon in EPSILONS}
    pure = float(cost.pure())
    for p, q in pairs:
        for alpha, said in says.items():
            found["rdp"] = max(found["rdp"], diverge(p, q, alpha) / said)
        for epsilon, said in deltas.items():
            # Where nothing is said to be left, nothing may be.
            found["delta"] = max(found["delta"], stick(p, q, epsilon) / max(said, 1e-12))
        found["pure"] = max(found["pure"], float(np.log(p / q).max()) / pure)
    return found


# ---- the scan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", [2.0**-38, 1e-3, 0.5])
def test_runs_decide_as_tests_one_by_one_do(monkeypatch, band):
    """The same digits, the same test; with a wide band decimals decide everything."""
    monkeypatch.setattr(threshold_scan, "_SUM_BAND", band)
    made = np.random.default_rng(5)
    for seed in range(60):
        heights = np.sort(made.integers(-30, 3, 9))
        lengths = made.integers(0, 7, 9)
        word = Seeded(seed).words(1)[0]
        one = decide(heights, HALF, LazyUniform(int(word), Seeded(seed)), lengths)
        other = decide(
            np.repeat(heights, lengths), HALF, LazyUniform(int(word), Seeded(seed)), None
        )
        assert one == other


def test_a_uniform_number_at_an_edge_within_a_run_is_decided_exactly():
    """P(first > m) = 1/A_m within a run of equal answers as well: on either side of it the place changes."""
    rate, heights, lengths = Fraction(1, 4), np.array([-40, -20, -3]), np.array([1000, 500, 3])
    for m in (0, 999, 1000, 1300, 1499, 1501):
        tests = np.repeat(heights, lengths)
        with np.errstate(all="ignore"):
            total = 1 + math.fsum(np.exp(0.25 * tests[: m + 1]).tolist())
        edge = Fraction(1 / total)
        for side in (-1, 1):
            digits = int(edge * (1 + side * Fraction(1, 1 << 40)) * 2**64)
            place = decide(heights, rate, LazyUniform(digits, Seeded(0)), lengths)
            assert (place <= m) == (side > 0)


def test_searches_of_many_rows_and_of_answers_beyond_64_bits_are_those_of_one():
    scan = GumbelScan(3, Gumbel(HALF))
    answers = np.array([[-9, -2, 4], [-1, 0, 0], [-50, -50, -50]])
    lengths = np.array([[5, 2, 1], [3, 0, 0], [4, 4, 4]])
    together = scan.first_each(answers, lengths, Seeded(3)).tolist()
    entropy = Seeded(3)
    words = entropy.words(3).tolist()
    for row, word in enumerate(words):
        alone = decide(answers[row] - 3, HALF, LazyUniform(word, Seeded(9)), lengths[row])
        assert together[row] == (-1 if alone == lengths[row].sum() else alone)
    far = np.array([-(1 << 70), -5, 1 << 70], dtype=object)
    place = scan.first(far, np.array([7, 2, 5]), Seeded(1))
    assert place in {7, 8, 9}
    assert scan.first(far[:1], np.array([9]), Seeded(1)) is None


def test_releases_fit_the_closed_form():
    scan, entropy = GumbelScan(0, Gumbel(HALF)), Seeded(11)
    answers, lengths = np.array([-6, -2, 1]), np.array([4, 3, 2])
    law = first_of(np.repeat(answers, lengths), HALF)
    draws = 4000
    found = scan.first_each(np.tile(answers, (draws, 1)), np.tile(lengths, (draws, 1)), entropy)
    counts = np.bincount(np.where(found < 0, lengths.sum(), found), minlength=law.size)
    wrong = (counts - draws * law) ** 2 / (draws * law)
    assert wrong.sum() < 30, "chi squared with 9 degrees of freedom"


@pytest.mark.parametrize("q", [Fraction(0), Fraction(1, 10), HALF])
@pytest.mark.parametrize("width", [0.01, 0.3, 2, 20])
def test_a_stage_costs_no_more_than_the_interval_of_its_loss(q, width):
    """The smaller one of both, order by order, is the stage: lists with losses in the interval are all that it is the largest of."""
    stage = GumbelStage(epsilon=width, start=q)
    one = Range(low=(1 - q) * Fraction(width), high=(2 - q) * Fraction(width))
    for order in (1.01, 1.5, 4.42, 22, 200, 2000):
        assert stage.rdp(order) <= one.rdp(order) * (1 + 1e-12)
    assert stage.zcdp() <= one.zcdp()
    for epsilon in (0.0, 0.3 * width, width, 1.5 * width):
        assert stage.delta(epsilon) <= one.delta(epsilon) + 1e-40


# ---- quantiles: what they lose ---------------------------------------------------------------------------


def made(q, adjacency, rows=1, **more):
    options = {"lower": 0, "cap": 7, "growth": 2, "epsilon": 2, "method": "above-threshold"} | more
    return Quantile(q=q, adjacency=adjacency, rows_per_unit=rows, search_noise="gumbel", **options)


def pairs_of(quantile, values, most, rows, adjacency, law):
    for records in columns(values, most):
        others = (
            shorter(records, rows) if adjacency == "add-remove" else replaced(records, values, rows)
        )
        one = law(records)
        for other in others:
            p, q = one, law(other)
            yield p, q
            yield q, p


@pytest.mark.parametrize("q", [0, 0.1, 0.25, 0.5, 0.9, 1])
@pytest.mark.parametrize(("adjacency", "rows"), [("add-remove", 2), ("replace-one", 2)])
@pytest.mark.sample(6)
def test_no_pair_of_small_columns_loses_more_than_is_charged(q, adjacency, rows):
    quantile = made(q, adjacency, rows)
    edges = quantile.grid.edges.tolist()

    def law(records):
        return search_law(quantile.parts[0], records, edges, q)

    found = worst(
        pairs_of(quantile, (0, 2, 7), 4, rows, adjacency, law),
        quantile.cost,
    )
    assert max(found.values()) <= 1 + 1e-9, found


def long_list(q, rate, *, upward_end, step=0.01, reach=10.0):
    """Heights and moves of a list of many small weights: up at q's end until A'/A is at its place, then to and fro.

    The moves are those of one unit in a search: from -q to 1 - q of the length of the interval, `rate` nats.
    """
    low, high = -q * rate, (1 - q) * rate
    total, other = 1.0, 1.0
    heights, moves = [], []
    while total < math.exp(reach):
        weight = total * math.expm1(step)
        move = high if other < math.exp(upward_end) * total else low
        total, other = total + weight, other + weight * math.exp(move)
        heights.append(math.log(weight))
        moves.append(move)
    return np.array(heights), np.array(moves)


@pytest.mark.parametrize("q", [Fraction(0), Fraction(1, 10), Fraction(1, 4), HALF])
def test_long_lists_come_near_every_start_and_convict_what_forgets_it(q):
    """The price of start q is nearly reached; the start of answers that move alike either way is too little for it."""
    rate, reached, passed = 1.0, 0.0, 0.0
    says, twin = GumbelStage(epsilon=1, start=q), GumbelStage(epsilon=1, start=HALF)
    for end in np.linspace(-float(q) * rate, (1 - float(q)) * rate, 25):
        heights, moves = long_list(float(q), rate, upward_end=end)
        p, other = first_of(heights, 1), first_of(heights + moves, 1)
        for one, two in ((p, other), (other, p)):
            assert diverge(one, two, 2) <= says.rdp(2)
            reached = max(reached, diverge(one, two, 2) / says.rdp(2))
            passed = max(passed, diverge(one, two, 2) / twin.rdp(2))
    assert reached > 0.9
    assert (passed > 1.1) == (q < Fraction(1, 4)) or q == Fraction(1, 4)


def test_a_start_without_its_factor_is_convicted():
    """W_k(b^q) alone is not the moment: b^(-qk) belongs to it, or a search costs too much and its mirror image too little."""
    stage = GumbelStage(epsilon=1, start=Fraction(1, 4))
    b, q, k = math.e, 0.25, -2.0
    says = math.exp(stage.rdp(2))
    # The order -k - 1 of the moment of k = -2, as the page has it, with and without its factor.
    without = says * b ** (q * k)
    heights, moves = long_list(0.25, 1.0, upward_end=0.3)
    p, other = first_of(heights, 1), first_of(heights + moves, 1)
    most = max(math.exp(diverge(p, other, 2)), math.exp(diverge(other, p, 2)))
    assert without < most <= says


def test_geometric_noise_of_the_same_rate_loses_more_than_a_stage():
    """The price is that of Gumbel noise: with one-sided noise of the same rates a list passes it."""
    rate, stage = 0.05, GumbelStage(epsilon=1, start=HALF)
    heights = np.full(20, -20)
    moved = heights + np.where(np.arange(20) < 10, 10, -10)
    losses = {"geometric": 0.0, "gumbel": 0.0}
    for one, other in ((heights, moved), (moved, heights)):
        p, q = (np.array(geometric(each.tolist(), 0, rate, rate)) for each in (one, other))
        losses["geometric"] = max(losses["geometric"], diverge(p, q, 8))
        p, q = first_of(one, rate), first_of(other, rate)
        losses["gumbel"] = max(losses["gumbel"], diverge(p, q, 8))
    assert losses["gumbel"] <= stage.rdp(8) < losses["geometric"] / 1.15


def test_unequal_rates_lose_more_than_a_stage():
    """With a threshold of twice the rate, found by quadrature, a list passes what is charged for equal rates."""
    t = np.linspace(-12, 25, 20001)

    def law(heights, fast):
        density = fast * np.exp(-fast * t - np.exp(-fast * t))
        below, found = density, []
        for height in heights:
            stays = np.exp(-np.exp(-(t - height)))
            found.append(np.trapezoid(below * (1 - stays), t))
            below = below * stays
        return np.array([*found, np.trapezoid(below, t)])

    heights, moves = long_list(0.0, 1.0, upward_end=0.6, step=0.05)
    stage = GumbelStage(epsilon=1)
    equal = diverge(law(heights, 1.0), law(heights + moves, 1.0), 2)
    assert equal == pytest.approx(
        diverge(first_of(heights, 1), first_of(heights + moves, 1), 2), rel=1e-3
    )
    assert equal <= stage.rdp(2)
    assert diverge(law(heights, 2.0), law(heights + moves, 2.0), 2) > stage.rdp(2)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_two_searches_from_0_lose_no_more_than_two_stages(adjacency):
    quantile = made(0.5, adjacency, lower=None, cap=3)
    edges = quantile.grid.edges.tolist()
    zero = (len(edges) - 1) // 2
    [(stage, times)] = quantile.cost.parts
    assert isinstance(stage, GumbelStage)
    assert times == 2

    def law(records):
        first, second = (search_law(part, records, edges, 0.5) for part in quantile.parts)
        # The second is made only if the first ended at its first test.
        return np.concatenate([first[1:], first[0] * second])

    assert edges[zero] == 0
    found = worst(pairs_of(quantile, (-2, 0, 2), 3, 1, adjacency, law), quantile.cost)
    assert max(found.values()) <= 1 + 1e-9, found


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize(("adjacency", "rows"), [("add-remove", 1), ("replace-one", 2)])
def test_an_interval_loses_no_more_than_two_stages(q, adjacency, rows):
    interval = QuantileInterval(
        q=q,
        epsilon=2,
        adjacency=adjacency,
        rows_per_unit=rows,
        lower=0,
        cap=7,
        growth=2,
        search_noise="gumbel",
    )
    edges = interval.grid.edges.tolist()

    def law(records):
        up, down = (search_law(part, records, edges, q) for part in interval.parts)
        return np.outer(up, down).ravel()

    found = worst(pairs_of(interval, (0, 2, 7), 4, rows, adjacency, law), interval.cost)
    assert max(found.values()) <= 1 + 1e-9, found


# ---- quantiles: what is known of the place ---------------------------------------------------------------


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("hint", [None, 30])
def test_rank_errors_hold(q, hint):
    """Over columns of every shape the rank lies within what is printed, but for 5% at most."""
    quantile = made(q, "add-remove", epsilon=4, cap=1 << 20, growth=1.05, size_hint=hint)
    edges = quantile.grid.edges.tolist()
    part = quantile.parts[0]
    for records in (
        [1] * 40,
        list(range(40)),
        [0] * 20 + [1 << 20] * 20,
        [3] * 10 + list(range(100, 130)),
    ):
        law, target = search_law(part, records, edges, q), Fraction(str(q)) * len(records)
        wrong = 0.0
        for found, chance in enumerate(law):
            edge = part.edge(None if found == len(law) - 1 else found)
            low, high = quantile.errors(edge)
            # Too few lie behind the edge that was reached, or too many behind the one before it.
            behind = [
                sum(x < edges[i] for x in records) for i in (edge - 1, edge) if 0 <= i < len(edges)
            ]
            if part.upward:
                over = (behind[0] if edge > 0 else 0) > target + Fraction(high)
                short = edge < len(edges) and behind[-1] < target + Fraction(low)
                wrong += float(chance) * (over or short)
        assert wrong <= 0.05


@pytest.mark.parametrize("upward", [True, False])
def test_an_interval_misses_as_often_as_it_may_and_a_step_less_is_convicted(upward):
    """Many records at one value just at the quantile, and nothing before it: P(miss) = 1/(1 + e^(rate s))."""
    interval = QuantileInterval(
        q=0.5,
        epsilon=1,
        adjacency="add-remove",
        lower=0,
        cap=64,
        growth=2,
        search_noise="gumbel",
        confidence=0.9,
    )
    part = interval.parts[0 if upward else 1]
    rate, stop, wrong = float(part.scan.noise.rate), -part.scan.threshold, 0.05
    # Upward an edge with just enough records below it may fail, downward one with a step more.
    height = 0 if upward else 1

    def miss(early):
        # All tests before it are hopeless.
        law = first_of([-(10**4)] * 5 + [height + early], rate)
        return float(law[-1])

    assert 0.9 * wrong < miss(stop) <= wrong
    assert miss(stop - 1) > wrong


def test_intervals_hold_the_quantile_as_often_as_they_say():
    """Exactly, for each of some columns: the ends of all pairs of edges where both searches may end."""
    interval = QuantileInterval(
        q=0.5, epsilon=3, adjacency="add-remove", lower=0, cap=64, growth=1.2, search_noise="gumbel"
    )
    edges = interval.grid.edges.tolist()
    for records in ([5] * 21, list(range(21)), [1] * 10 + [50] * 11, [0] * 11 + [63] * 10):
        quantile = sorted(records)[math.ceil(len(records) / 2) - 1]
        up, down = (search_law(part, records, edges, 0.5) for part in interval.parts)
        held = 0.0
        for i, j in np.ndindex(up.size, down.size):
            ends = [
                part.edge(None if place == len(edges) else place)
                for part, place in zip(interval.parts, (i, j), strict=True)
            ]
            low, high = interval.ends(*ends)
            held += float(up[i] * down[j]) * (low <= quantile <= high)
        assert held >= 0.95


# ---- clips -----------------------------------------------------------------------------------------------


def clip_search(sides, adjacency, rows=1):
    signed = sides != "above"
    grid = BucketGrid.geometric(lower=None if signed else 0, cap=4, growth=2)
    return ClipSearch(
        epsilon=Fraction(1),
        grid=grid,
        sides=sides,
        lower=Fraction(-4 if signed else 0),
        cap=Fraction(4),
        tail=1,
        rows_per_unit=rows,
        adjacency=adjacency,
        gumbel=Fraction(3, 2),
    )


def beyond(edges, records):
    """Counts of records at or beyond each of some edges, from the definition."""
    return [sum(x >= edge for x in records) for edge in edges]


def clip_law(search, records):
    """The law of what all searches of a clip find."""
    grid = search.grid.edges.tolist()
    if search.sides == "above":
        lists = [beyond(grid, records)]
    else:
        outward = [edge for edge in grid if edge > 0]
        up = beyond(outward, records)
        # Below 0 a record lies beyond an edge if it is less than its negative.
        down = [sum(-search.grid.edges[-1] <= x < -edge for x in records) for edge in outward]
        lists = [down, up] if search.sides == "both" else [np.add(up, down).tolist()]
    laws = [
        first_of([-count + search.tail for count in one], search.scan.noise.rate) for one in lists
    ]
    return laws[0] if len(laws) == 1 else np.outer(*laws).ravel()


SIDES = {"above": (0, 1, 2, 4), "magnitude": (-3, -1, 1, 3), "both": (-3, -1, 1, 3)}


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_clips_lose_no_more_than_their_stages(sides, adjacency, rows):
    search = clip_search(sides, adjacency, rows)
    assert search.cost == repeat(GumbelStage(epsilon=Fraction(3, 2)), 2 if sides == "both" else 1)
    law_of = {}

    def law(records):
        key = tuple(sorted(records))
        if key not in law_of:
            law_of[key] = clip_law(search, key)
        return law_of[key]

    found = worst(pairs_of(search, SIDES[sides], 3, rows, adjacency, law), search.cost)
    assert max(found.values()) <= 1 + 1e-9, found


def test_one_stage_is_too_little_for_a_unit_that_crosses_from_one_side_to_the_other():
    search = clip_search("both", "replace-one")
    one, other = clip_law(search, (-3, -3, -3)), clip_law(search, (-3, -3, 3))
    stage = GumbelStage(epsilon=Fraction(3, 2))
    assert max(diverge(one, other, 22), diverge(other, one, 22)) <= repeat(stage, 2).rdp(22)
    found = 0.0
    for records in itertools.combinations_with_replacement((-3, 3), 6):
        for place in range(6):
            moved = [*records]
            moved[place] = -moved[place]
            p, q = clip_law(search, records), clip_law(search, moved)
            found = max(found, float(np.log(p / q).max()))
    assert found > float(stage.pure()) * 0.9


def test_what_the_search_counts_is_what_the_definition_counts():
    """The runs of the library against the plain counts, and a release by a seed against its law."""
    for sides, values in SIDES.items():
        search = clip_search(sides, "add-remove")
        records = [values[place % 4] for place in range(11)]
        runs = search.runs(BucketCounts.of(records, grid=search.grid))
        heights = [np.repeat(answers, lengths) + search.tail for answers, lengths in runs]
        laws = [first_of(one, search.scan.noise.rate) for one in heights]
        whole = laws[0] if len(laws) == 1 else np.outer(*laws).ravel()
        np.testing.assert_allclose(whole, clip_law(search, records), rtol=1e-12)


def test_records_beyond_a_clip_are_as_few_as_is_said():
    search = replace(clip_search("above", "add-remove"), tail=2)
    records, wrong, missed = [4] * 9 + [1] * 30, Fraction(1, 20), 0.0
    law = clip_law(search, records)
    for place, chance in enumerate(law[:-1]):
        found = sum(x >= search.grid.edges[place] for x in records)
        missed += float(chance) * (found > search.beyond(place + 1, wrong))
    assert missed <= wrong


# ---- groups ----------------------------------------------------------------------------------------------


def test_a_unit_that_changes_groups_pays_two_stages_and_one_is_convicted():
    quantile = made(0.5, "add-remove")
    whole = cost_of_groups(quantile.cost, most=1, anywhere=False, exchanged=True, growing=False)
    assert whole == repeat(GumbelStage(epsilon=quantile.cost.epsilon_), 2)
    edges = quantile.grid.edges.tolist()

    def both(first, second):
        return np.outer(
            *(search_law(quantile.parts[0], each, edges, 0.5) for each in (first, second))
        ).ravel()

    pairs, values = [], (0, 2, 7)
    for first, second in itertools.product(columns(values, 2), columns(values, 2)):
        for left, joined in itertools.product(values, values):
            # It leaves one group and joins the other, or is replaced within the first.
            pairs += [
                (both((*first, left), second), both(first, (*second, joined))),
                (both((*first, left), second), both((*first, joined), second)),
            ]
    assert max(worst(pairs, whole).values()) <= 1 + 1e-9
    assert worst(pairs, quantile.cost)["rdp"] > 1.2


def test_groups_of_a_unit_that_comes_pay_a_stage_each():
    cost = GumbelStage(epsilon=1, start=HALF)
    assert cost_of_groups(cost, most=3, anywhere=False, exchanged=False, growing=False) == repeat(
        cost, 3
    )
    # Rows that may be anywhere have no proof but that of the epsilon.
    anywhere = cost_of_groups(cost, most=3, anywhere=True, exchanged=False, growing=False)
    assert anywhere == sd.cost.Pure(epsilon=Fraction(9, 2))


# ---- what is gained, and what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.sample(4)
def test_rank_errors_at_equal_rho_are_smaller(q, adjacency, epsilon):
    """Of exact laws: the root mean square of the rank error over that of one-sided noise, where four edges come on each record."""
    options = {"q": q, "adjacency": adjacency, "lower": 0, "cap": 1e6, "method": "above-threshold"}
    pure = Quantile(epsilon=epsilon, **options)
    low, high = 0.1, 10.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        other = Quantile(epsilon=middle, search_noise="gumbel", **options)
        low, high = (middle, high) if other.cost.zcdp() <= pure.cost.zcdp() else (low, middle)
    gumbel = Quantile(epsilon=low, search_noise="gumbel", **options)
    b = Fraction(str(q)).denominator
    ranks = np.arange(-math.ceil(240 / epsilon), math.ceil(240 / epsilon)) / 4
    answers, errors = np.floor(b * ranks), []
    for mechanism in (pure, gumbel):
        noise = mechanism.parts[0].scan.noise
        law = (
            first_of(answers, noise.rate)
            if mechanism is gumbel
            else np.array(geometric(answers.astype(int).tolist(), 0, noise.rate, noise.rate))
        )
        errors.append(math.sqrt(float(law[:-1] @ ranks**2)))
    assert errors[1] <= 0.6 * errors[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ratio": 2}, "Quantile.ratio must be 1 with Gumbel noise"),
        (
            {"method": "permute-and-flip"},
            "Quantile.search_noise must be geometric with permute-and-flip",
        ),
        ({"search_noise": "laplace"}, "Quantile.search_noise must be"),
        ({"q": 1.5}, "Quantile.q must be"),
    ],
)
def test_what_has_no_price_is_refused(options, says):
    given = {"q": 0.5, "epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 9}
    with pytest.raises(InvalidParameter, match=says):
        Quantile(**given | {"search_noise": "gumbel"} | options)


def test_a_clip_of_gumbel_noise_costs_its_stages_beside_the_totals():
    common = {"epsilon": 1, "adjacency": "replace-one", "lower": -5, "cap": 9}
    made = ClippedSum(**common, clip_gumbel=0.25, total_rho=0.1)
    assert made.cost == compose(repeat(GumbelStage(epsilon=0.25), 2), sd.cost.ZCDP(rho=0.1))
    assert isinstance(ClippedVariance(**common, clip_gumbel=0.25).cost, Cost)
    found = made.release([1, 2, 30, -4] * 50, entropy=Seeded(3))
    assert found.low <= found.estimate <= found.high
    with pytest.raises(InvalidParameter, match="ClippedSum.clip_gumbel must be"):
        ClippedSum(**common, clip_gumbel=0)


@pytest.mark.parametrize("kind", ["quantile", "sum"])
@pytest.mark.slow
def test_the_audit_finds_no_more_than_is_charged(kind):
    mechanism = (
        made(0.5, "add-remove", cap=1 << 10)
        if kind == "quantile"
        else ClippedSum(
            epsilon=1,
            adjacency="add-remove",
            lower=0,
            cap=8,
            growth=2,
            clip_gumbel=1,
            total_rho=0.5,
        )
    )
    audit.exact(mechanism, answers_a=[1, 2, 7], answers_b=[1, 2]).raise_if_broken()
