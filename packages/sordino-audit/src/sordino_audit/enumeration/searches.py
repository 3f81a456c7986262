"""What the auditor looks at for searches by a noisy threshold, also those of quantiles.

A scan stops with a probability that is a series over the noise of the threshold, with what is
left of it. A quantile is a search made of scans; every way that it may end is listed.

Claim: each listed probability lies between its two decimals. Proof:
docs/proofs/above-threshold.md, "The audit".
Floats: they say how many terms are added and how much noise is played; none enters a probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from typing import Any, cast

from sordino.columns import BucketCounts
from sordino.errors import InvalidParameter
from sordino.estimators import Quantile, QuantileInterval, Quantiles, SizedQuantile
from sordino.estimators.quantiles.quantiles import Place
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch, Runs
from sordino.grid import Steps
from sordino.mechanisms import AboveThreshold
from sordino.mechanisms.crossings.threshold_scan import GumbelScan, ThresholdScan, weight
from sordino.noise import DiscreteLaplace
from sordino.noise.probability import Bounds
from sordino_audit.enumeration import decimals
from sordino_audit.enumeration.laws import TOO_MANY
from sordino_audit.enumeration.subject import Stated, Subject, make_step_reader

_LOST_PROBABILITY = 1e-45
_MOST_SCAN_TERMS = 4_000_000
_KEPT_POWERS = 1 << 13
_WEIGHT_DIGITS = 60

Listed = list[tuple[int | None, Bounds]]


def above_threshold(mechanism: AboveThreshold, n: int) -> Subject:
    """Return the law of the first answer above."""
    scan = mechanism.scan()
    return Subject(
        laws=[],
        stated=lambda steps: positions(scan, steps.tolist()),
        steps=_make_step_function(mechanism, n),
        cost=mechanism.cost,
        # Nested answers are fewer pairs than any statement about each answer says: they are taken
        # as neighbors on the caller's word.
        sensitivity=None if mechanism.nested else mechanism.sensitivity,
        name=repr(mechanism),
    )


def _make_step_function(mechanism: AboveThreshold, n: int) -> Callable[[Any], Steps]:
    """Return a function turning answers into `n` whole numbers of steps, as the mechanism does."""
    checked = make_step_reader(mechanism, n)

    def steps(answers: Any) -> Steps:
        checked(answers)
        return mechanism.steps(answers)

    return steps


def positions(
    scan: ThresholdScan | GumbelScan,
    answers: Sequence[int],
    lengths: Sequence[int] | None = None,
) -> Listed:
    """Return each position, and None, with bounds of its probability.

    Of Gumbel noise there is a closed form. Of geometric noise: given the noise z of the threshold
    the tests are independent, s = P(Z_i >= threshold + z - answer), P(first at k) = s_k times the
    product of 1 - s_i before. Terms are added up to where no test is certain any more, and on until
    the rest is small; the rest is geometric up to the products, which rise.

    Raises
    ------
    InvalidParameter
        If the noise is so wide, or the answers so many, that this would take too long.
    """
    tests = [
        f
        for f, times in zip(answers, lengths or [1] * len(answers), strict=True)
        for _ in range(times)
    ]
    if isinstance(scan, GumbelScan):
        return _list_gumbel_positions([f - scan.threshold for f in tests], scan.noise.rate)
    last = _last_threshold_noise(scan, tests)
    # Refused before anything is computed.
    if (last + 1) * len(tests) > _MOST_SCAN_TERMS:
        raise InvalidParameter(
            TOO_MANY.format(limit=_MOST_SCAN_TERMS, what="tests of the noisy threshold")
        )
    rate, start = scan.threshold_noise.rate, scan.threshold
    first = decimals.subtract(decimals.ONE, _kept_power(rate, 1))  # P(Z = 0)
    sums: list[Bounds] = [decimals.ZERO] * (len(tests) + 1)
    for z in range(last + 1):
        so_far = decimals.multiply(first, _kept_power(rate, z))
        for k, f in enumerate(tests):
            # Noise is never negative: a test whose depth is 0 or less says yes for certain.
            p = _kept_power(scan.noise.rate, max(start + z - f, 0))
            sums[k] = decimals.add_bounds(sums[k], decimals.multiply(so_far, p))
            so_far = decimals.multiply(so_far, decimals.subtract(decimals.ONE, p))
        # What is left is that all tests said no.
        sums[-1] = decimals.add_bounds(sums[-1], so_far)
    return list(
        zip([*range(len(tests)), None], _add_rest(scan, tests, last + 1, first, sums), strict=True)
    )


def _list_gumbel_positions(heights: list[int], rate: Fraction) -> Listed:
    """Return P(m) = w_m / (A_m A_(m-1)) of each test, and 1/A_n of none.

    w_i = e^(rate h_i), and A_m is 1 and the first m of them.
    """
    listed: Listed = []
    before = decimals.ONE
    for m, height in enumerate(heights):
        one = weight([height], [1], rate, _WEIGHT_DIGITS)
        after = decimals.add_bounds(before, one)
        listed.append((m, decimals.divide(one, decimals.multiply(after, before))))
        before = after
    return [*listed, (None, decimals.divide(decimals.ONE, before))]


def _add_rest(
    scan: ThresholdScan, tests: list[int], z: int, first: Bounds, sums: list[Bounds]
) -> list[Bounds]:
    """Add what noise of at least `z` gives, where all depths are positive.

    Products of 1 - s lie between those at `z` and 1.
    """
    rate, both = scan.threshold_noise.rate, scan.threshold_noise.rate + scan.noise.rate
    short, found = decimals.ONE, []  # the product at z, from below, to 1
    for f, known in zip(tests, sums, strict=False):
        depth = scan.noise.rate * (scan.threshold + z - f)
        # The sum of (1 - r0) r0^x r^(depth at x) over x >= z, both ratios together.
        start = decimals.multiply(first, decimals.enclose_decay(rate * z + depth))
        tail = decimals.divide(start, decimals.subtract(decimals.ONE, decimals.enclose_decay(both)))
        found.append(decimals.add_bounds(known, decimals.multiply(short, tail)))
        fails = decimals.subtract(decimals.ONE, decimals.enclose_decay(depth))
        short = decimals.multiply(short, fails)[0], Decimal(1)
    return [*found, decimals.add_bounds(sums[-1], decimals.multiply(short, _kept_power(rate, z)))]


@lru_cache(maxsize=64)
def _power_table(rate: Fraction) -> list[Bounds]:  # noqa: ARG001 - the key of the cache
    return [decimals.ONE]


@lru_cache(maxsize=64)
def _first_power(rate: Fraction) -> Bounds:
    return decimals.enclose_decay(rate)


def _kept_power(rate: Fraction, n: int) -> Bounds:
    """Return bounds of e^(-rate n), n >= 0.

    Those of small n are kept, each a product with the one before.
    """
    if n >= _KEPT_POWERS:
        return decimals.enclose_decay(rate * n)
    table = _power_table(rate)
    # Each power is the one before times r, rounded outward: cheaper than an exponential for each.
    while n >= len(table):
        table.append(decimals.multiply(table[-1], _first_power(rate)))
    return table[n]


def _last_threshold_noise(scan: ThresholdScan, tests: list[int]) -> int:
    """Return up to which noise of the threshold terms are added.

    All depths are positive then, and what the rest blurs is small.
    """
    certain = max(0, max(tests) - scan.threshold)  # noise up to here is met by a test for certain
    rates: tuple[Fraction, Fraction] = scan.threshold_noise.rate, scan.noise.rate
    return (
        certain
        + 1
        + math.ceil((math.log(len(tests)) - math.log(_LOST_PROBABILITY)) / float(sum(rates)))
    )


# ---- quantiles -----------------------------------------------------------------------------------


_MOST_EDGES = 64
_MOST_SIZES = 500

Part = RankSearch | RankChoice
Draws = tuple[tuple[Part, int | None], ...]
"""Which part of a release was played, and the position where it ended."""


# Neighbors may have different numbers of records, so that `n` says nothing, here and below.
def quantile(mechanism: Quantile, n: int) -> Subject:  # noqa: ARG001
    """Return the law of the edge or bucket."""
    _check_edges(mechanism)
    return Subject(
        laws=[], stated=partial(_quantile_law, mechanism), cost=mechanism.cost, name=repr(mechanism)
    )


def sized_quantile(mechanism: SizedQuantile, n: int) -> Subject:  # noqa: ARG001 - as above
    """Return the law of the noisy number of records with the edge or bucket that follows."""
    _check_edges(mechanism)
    if mechanism.size_noise is not None:
        _check_sizes(mechanism.size_noise)
    return Subject(
        laws=[],
        stated=partial(_sized_law, mechanism),
        cost=mechanism.cost,
        name=repr(mechanism),
    )


def quantile_interval(mechanism: QuantileInterval, n: int) -> Subject:  # noqa: ARG001 - as above
    """Return the law of the two edges where the searches end."""
    _check_edges(mechanism)
    return Subject(
        laws=[], stated=partial(_interval_law, mechanism), cost=mechanism.cost, name=repr(mechanism)
    )


def quantiles(mechanism: Quantiles, n: int) -> Subject:  # noqa: ARG001 - as above
    """Return the law of all edges together."""
    _check_edges(mechanism)
    _check_sizes(mechanism.size_noise)
    return Subject(
        laws=[],
        stated=partial(_quantiles_law, mechanism),
        cost=mechanism.cost,
        name=repr(mechanism),
    )


def _check_sizes(noise: DiscreteLaplace) -> None:
    if _farthest_noise(noise) > _MOST_SIZES:
        raise InvalidParameter(
            "audit.exact plays quantiles for each of the numbers of records that the noise may "
            f"say, at most {_MOST_SIZES} of them; got noise of the rate {float(noise.rate):.3g}. "
            "Audit a larger epsilon."
        )


def _check_edges(mechanism: Quantile | SizedQuantile | Quantiles | QuantileInterval) -> None:
    if mechanism.grid.size > _MOST_EDGES:
        raise InvalidParameter(
            f"audit.exact lists all edges where a quantile may end, at most {_MOST_EDGES}; got "
            f"{mechanism.grid.size}. Audit it with a larger growth."
        )


def _quantile_law(mechanism: Quantile, values: Any) -> Stated:
    """Return the law of (part, edge or bucket), from which all that is released is computed."""
    runs = Runs.of(BucketCounts.of(values, grid=mechanism.grid))
    return _multiply_paths(quantile_paths(mechanism, runs), runs)


def _sized_law(mechanism: SizedQuantile, values: Any) -> Stated:
    """Return the law of (number, part, edge or bucket).

    Numbers that hardly ever come up are left out, and count against the mechanism.
    """
    counts = BucketCounts.of(values, grid=mechanism.grid)
    if mechanism.size_noise is None:
        chances = {mechanism.size_hint or 1: decimals.ONE}
    else:
        chances = _size_law(mechanism.size_noise, counts.records)
    laws: dict[Quantile, list[tuple[Any, Bounds]]] = {}
    for size, chance in chances.items():
        plan = cast("Quantile", mechanism.for_size(size))
        # Many numbers lead to one plan, whose law is computed once.
        if plan not in laws:
            runs = Runs.of(counts.onto(plan.grid))
            laws[plan] = list(_multiply_paths(quantile_paths(plan, runs), runs))
        for output, given in laws[plan]:
            yield (size, plan.cuts, output), decimals.multiply(chance, given)


def _size_law(noise: DiscreteLaplace, records: int) -> dict[int, Bounds]:
    """Return the noisy numbers of records with bounds of their probability.

    P(noise = x) = (1 - r)/(1 + r) r^|x|, and no number is below 0.
    """
    r = decimals.enclose_decay(noise.rate)
    center = decimals.divide(
        decimals.subtract(decimals.ONE, r), decimals.add_bounds(decimals.ONE, r)
    )
    found: dict[int, Bounds] = {}
    for x in range(-_farthest_noise(noise), _farthest_noise(noise) + 1):
        chance = decimals.multiply(center, decimals.enclose_decay(noise.rate * abs(x)))
        size = max(0, records + x)
        found[size] = decimals.add_bounds(found.get(size, decimals.ZERO), chance)
    return found


def _interval_law(mechanism: QuantileInterval, values: Any) -> Stated:
    """Return the law of both edges together: each search has fresh noise."""
    runs = Runs.of(BucketCounts.of(values, grid=mechanism.grid))
    up, down = mechanism.parts
    paths = (
        ((up.edge(below), down.edge(above)), ((up, below), (down, above)))
        for below, above in product(_list_test_ends(up), _list_test_ends(down))
    )
    return _multiply_paths(paths, runs)


def _quantiles_law(mechanism: Quantiles, values: Any) -> Stated:
    """Return the law of the edges of all quantiles.

    Sizes that hardly ever come up are left out, and count against the mechanism.
    """
    counts = BucketCounts.of(values, grid=mechanism.grid)
    # Several numbers of records may have the same targets: their probabilities add up, unless the
    # number is released.
    chances: dict[tuple[int | None, Quantiles, tuple[int, ...]], Bounds] = {}
    for size, chance in _size_law(mechanism.size_noise, counts.records).items():
        plan = cast("Quantiles", mechanism.for_size(size))
        case = size if mechanism.adapts else None, plan, plan.targets(size)
        chances[case] = decimals.add_bounds(chances.get(case, decimals.ZERO), chance)
    # The number of records and the searches have independent noise: their probabilities multiply.
    for (released, plan, targets), chance in chances.items():
        runs = Runs.of(counts.onto(plan.grid))
        for output, given in _multiply_paths(quantiles_paths(plan, targets), runs):
            told = output if released is None else (released, output)
            yield told, decimals.multiply(chance, given)


def _farthest_noise(noise: DiscreteLaplace) -> int:
    """Return how far the noise that is played goes.

    Beyond it lies a probability of less than 1e-30.
    """
    # e^-70 is about 4e-31, and noise has two tails.
    return math.ceil(70 / float(noise.rate))


def quantile_paths(mechanism: Quantile, runs: Runs) -> Iterator[tuple[Any, Draws]]:
    """Yield each output (part, edge or bucket) with what leads to it."""
    first = mechanism.parts[0]
    for found in _list_part_ends(first, runs):
        edge = _edge_of_end(first, found)
        # The estimator's own rule says whether a second part follows.
        if not mechanism.goes_on(edge):
            yield (0, edge), ((first, found),)
            continue
        second = mechanism.parts[1]
        for again in _list_part_ends(second, runs):
            yield (1, _edge_of_end(second, again)), ((first, found), (second, again))


def quantiles_paths(mechanism: Quantiles, targets: tuple[int, ...]) -> Iterator[tuple[Any, Draws]]:
    """Yield the edges of all quantiles, for these target ranks, with what leads to them."""

    def split(below: Place, above: Place) -> Iterator[tuple[tuple[int, ...], Draws]]:
        if above.number - below.number <= 1:
            yield (), ()
            return
        middle, search, upward = mechanism.search(below, above, targets)
        # As of a search that has no edge to test.
        ends: list[tuple[int, Draws]] = [(above.edge if upward else below.edge, ())]
        if search is not None:
            ends = [(search.edge(found), ((search, found),)) for found in _list_test_ends(search)]
        for edge, draw in ends:
            place = Place(middle, edge, upward)
            for (left, before), (right, after) in product(split(below, place), split(place, above)):
                yield (*left, edge, *right), (*before, *draw, *after)

    return split(*mechanism.ends)


def _list_part_ends(part: Part, runs: Runs) -> list[int | None]:
    """Return the positions where a part may end, the same for all columns."""
    return (
        [*range(int(part.lattice(runs)[1].sum()))]
        if isinstance(part, RankChoice)
        else _list_test_ends(part)
    )


def _list_test_ends(search: RankSearch) -> list[int | None]:
    return [*range(search.last - search.first), None]


def _edge_of_end(part: Part, found: int | None) -> int:
    return (found or 0) if isinstance(part, RankChoice) else part.edge(found)


def _multiply_paths(paths: Iterator[tuple[Any, Draws]], runs: Runs) -> Stated:
    """Return each output with bounds of its probability; each part has fresh noise."""
    laws: dict[Part, dict[int | None, Bounds]] = {}
    for output, draws in paths:
        for part, _ in draws:
            # A part is met on many paths; its law is computed once.
            if part not in laws:
                laws[part] = dict(law_of(part, runs))
        yield output, decimals.product_of(laws[part][found] for part, found in draws)


def law_of(part: Part, runs: Runs) -> Listed:
    """Return the law of the position where a part ends."""
    answers, lengths = (array.tolist() for array in part.lattice(runs))
    if isinstance(part, RankSearch):
        return positions(part.scan, answers, lengths)
    listed = [depth for depth, times in zip(answers, lengths, strict=True) for _ in range(times)]
    # Candidates of one depth have the same chance, which is computed once.
    chance = _weigh_choice if part.exponential else _first_head_probability
    known = {depth: chance(depth, listed, part) for depth in set(listed)}
    return [(i, known[depth]) for i, depth in enumerate(listed)]


def _weigh_choice(depth: int, listed: list[int], part: RankChoice) -> Bounds:
    """Return bounds of the share that a candidate of this depth has of the weights e^(-rate d)."""
    weights = {each: decimals.enclose_decay(part.rate * each) for each in set(listed)}
    return decimals.divide(weights[depth], decimals.sum_of(weights[each] for each in listed))


def _first_head_probability(depth: int, listed: list[int], part: RankChoice) -> Bounds:
    """Return bounds of the probability that a candidate of this depth is the first to show heads.

    All candidates are in random order.

    With p_j the chance of heads of j, and its place in the order uniform: the integral over t in
    [0, 1] of p (1 - p_j t) over all others j, a polynomial whose coefficients are the elementary
    symmetric functions of the p_j, with alternating signs.
    """
    heads = {each: decimals.enclose_decay(part.rate * each) for each in set(listed)}
    others = list(listed)
    # The winner itself is none of its rivals; others of its depth are.
    others.remove(depth)
    sums: list[Bounds] = [decimals.ONE]
    for each in others:
        # One more factor of the product of 1 + p_j t.
        sums = [
            decimals.add_bounds(a, decimals.multiply(heads[each], b))
            for a, b in zip([*sums, decimals.ZERO], [decimals.ZERO, *sums], strict=True)
        ]
    terms = [decimals.divide(one, (Decimal(k), Decimal(k))) for k, one in enumerate(sums, start=1)]
    # Terms have alternating signs.
    left = decimals.subtract(decimals.sum_of(terms[::2]), decimals.sum_of(terms[1::2]))
    # Rounding may take the lower bound below 0, which no probability is.
    return decimals.multiply(heads[depth], (max(left[0], Decimal(0)), left[1]))
