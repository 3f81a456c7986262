"""What the auditor looks at for figures within bounds: stated laws of clips, totals and noise.

No finite number of draws decides these releases. Totals are put in classes: with Laplace noise
they lose nothing, with Gaussian noise a little.

Claim: each listed probability lies between its two decimals; with Laplace noise no output loses
more than its class. Proof: docs/proofs/above-threshold.md, "The audit"; docs/proofs/folded.md;
docs/proofs/composite.md.
Floats: none.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from sordino.columns import BucketCounts
from sordino.cost import ZCDP
from sordino.errors import InvalidParameter
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedVariance,
    ClippedVariances,
)
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.shared_clip import SharedClip
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino.mechanisms import CompositeMechanism, CompositeTable, FoldedMechanism
from sordino.mechanisms.bounded.random_rounding import number
from sordino.mechanisms.folded import check_covered
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Staircase
from sordino.noise.probability import Bounds
from sordino_audit.enumeration import decimals
from sordino_audit.enumeration.searches import positions
from sordino_audit.enumeration.subject import Stated, Subject, make_step_reader


def folded(mechanism: FoldedMechanism, n: int) -> Subject | None:
    """Return the law of a folded staircase; None for Laplace noise, which is played."""
    law = mechanism.noise
    if not isinstance(law, Staircase):
        return None
    check_covered(law, mechanism.sensitivity, n)
    low, high = mechanism.ends
    on_grid = make_step_reader(mechanism, n)
    return Subject(
        laws=[],
        steps=lambda answers: np.clip(on_grid(answers), low, high),
        stated=lambda steps: staircase(law, int(steps[0]), low, high),
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def staircase(law: Staircase, x: int, low: int, high: int) -> Stated:
    """Yield the folded outputs of an answer with bounds of their probabilities.

    Numerator and denominator of each rise with r, so that bounds of r give bounds of both.
    """
    ends = [Fraction(bound) for bound in decimals.enclose_decay(law.rate)]
    # Numbers 0, 1, 2, ... have the weight flat + (period - flat) r in their first period, and r
    # times as much in each further one. Both signs have it; 0 is counted once.
    wholes = [2 * (law.flat + (law.period - law.flat) * r) / (1 - r) - 1 for r in ends]
    # An output beyond an end keeps its place in the period, so that one period lies outside on
    # either side.
    for output in range(low - law.period + 1, high + law.period):
        level = int(law.level(np.array(abs(output - x))))
        # At and beyond the ends an output stands for all whole periods farther out: r^k adds up to
        # 1/(1 - r).
        tops = [r**level / (1 if low < output < high else 1 - r) for r in ends]
        least, most = min(tops) / wholes[1], max(tops) / wholes[0]
        yield output, (decimals.enclose_ratio(least)[0], decimals.enclose_ratio(most)[1])


def composite(mechanism: CompositeMechanism | CompositeTable, n: int) -> Subject:
    """Return the law of composite noise, with the rounding at random of the value to the grid."""
    if n != 1:
        raise InvalidParameter(
            "audit.exact needs one value on each side for composite noise, "
            f"whose reports are drawn alone; got {n}."
        )

    def stated(values: Any) -> Stated:
        value = np.atleast_1d(np.asarray(values, dtype=object))[0]
        for place, probability in enumerate(law(mechanism, value)):
            # Outputs that cannot happen are not listed.
            if probability:
                yield place, decimals.enclose_ratio(probability)

    return Subject(laws=[], stated=stated, cost=mechanism.cost, name=repr(mechanism))


def law(mechanism: CompositeMechanism | CompositeTable, value: Any) -> list[Fraction]:
    """Return the probability of each output for a value, rounding to the grid included."""
    grid = mechanism.grid
    place = (number(value, grid.low, grid.high) - grid.low) / grid.step
    # A value outside the range counts as the end that is nearer.
    return grid.law(max(Fraction(0), min(Fraction(2 * grid.noise.inputs), place)))


# ---- clipped totals ------------------------------------------------------------------------------


_MOST_CLIPPED_RECORDS = 16
_CELLS = {
    1: 160,
    2: 32,
    3: 10,
}  # for Gaussian noise on so many totals: how many cells of each are told apart
# The first digits of pi: a number below it, and above it with the last digit raised.
_PI = (
    Decimal("3.14159265358979323846264338327950288419716939937510582097494459"),
    Decimal("3.14159265358979323846264338327950288419716939937510582097494460"),
)

Clipped = ClippedSum | ClippedSums | ClippedMean | ClippedMeans | ClippedVariance | ClippedVariances


# Neighbors may have different numbers of records, so that `n` says nothing.
def clipped(mechanism: Clipped, n: int) -> Subject:  # noqa: ARG001
    """Return the law of the clip, and of the noisy totals within it."""
    return Subject(
        laws=[],
        stated=partial(_clipped_law, mechanism),
        cost=mechanism.cost,
        # Cells of Gaussian noise hold numbers of different ratios.
        merged=isinstance(mechanism.total_cost, ZCDP),
        name=repr(mechanism),
    )


def _clipped_law(mechanism: Clipped, values: Any) -> Stated:
    """Return the law of (tests of each search, class of each noisy total)."""
    if len(values) > _MOST_CLIPPED_RECORDS:
        raise InvalidParameter(
            f"audit.exact needs at most {_MOST_CLIPPED_RECORDS} records for a clipped sum or mean; "
            f"got {len(values)}."
        )
    if isinstance(mechanism, WeighedClip) and mechanism.weight_cap is None:
        raise InvalidParameter(
            f"audit.exact needs {type(mechanism).__name__} with a declared weight_cap: what is "
            "found is a `Quantile`, which is audited by itself. Declare it."
        )
    if isinstance(mechanism, SharedClip) and mechanism.groups_of_clip < mechanism.groups:
        raise InvalidParameter(
            f"audit.exact needs {type(mechanism).__name__} with one clip of all groups; got a clip "
            "of each."
        )
    if isinstance(mechanism, SharedClip) and mechanism.counter is not None:
        raise InvalidParameter(
            f"audit.exact needs {type(mechanism).__name__} that count no units: what lies beyond "
            "the clip would hang on a noisy number. Raise epsilon, or lower groups."
        )
    for tests, chance in clips(mechanism, values):
        clip = mechanism.search.clip(tests, simulated=True)
        # The noise depends on the clip alone, which is public once it was released.
        law, ends = mechanism.noise_for(clip).mechanism.noise, reach(mechanism, clip)
        tell = (
            partial(cells, law, _CELLS[len(ends)])
            if isinstance(law, DiscreteGaussian)
            else partial(thirds, law)
        )
        classes = [
            tell(total, *end)
            for total, end in zip(totals(mechanism, values, clip), ends, strict=True)
        ]
        # Each total has fresh noise: given the clip the probabilities of their classes multiply.
        for each in product(*(enumerate(one) for one in classes)):
            yield (
                # A search in vain is written as 0: any other one tests an edge at least.
                (*((0 if one is None else one) for one in tests), *(place for place, _ in each)),
                decimals.product_of([chance, *(one for _, one in each)]),
            )


def clips(mechanism: Clipped, values: Any) -> list[tuple[tuple[int | None, ...], Bounds]]:
    """Return what the searches may find, with bounds of the probability.

    That is how many edges each of them tests, None for all in vain.
    """
    search = mechanism.search
    if isinstance(mechanism, WeighedClip):
        counts = mechanism.count_weights(values, mechanism.weight_cap or 1)
    elif isinstance(mechanism, ClippedSums):
        counts = mechanism.count_wholes(values)
    else:
        counts = BucketCounts.of(values, grid=mechanism.grid)
    runs = search.runs(counts)
    laws = [positions(search.scan, answers.tolist(), lengths.tolist()) for answers, lengths in runs]
    # Each search has fresh noise: the law of all of them is a product.
    return [
        (
            tuple(None if place is None else place + 1 for place, _ in each),
            decimals.product_of(one for _, one in each),
        )
        for each in product(*laws)
    ]


def totals(mechanism: Clipped, values: Any, clip: Clip) -> list[int]:
    """Return the totals that meet the noise, in noise steps, as `release` does."""
    shift = mechanism.noise_for(clip).shift
    return [total >> shift for total in mechanism.totals(values, clip)]


def reach(mechanism: Clipped, clip: Clip) -> list[tuple[int, int]]:
    """Return two numbers for each total, in noise steps.

    No small list of records has a total below the first or above the second.
    """
    # One record more than a list may have: no total lies beyond the ends.
    shift, most = mechanism.noise_for(clip).shift, _MOST_CLIPPED_RECORDS + 1
    if isinstance(mechanism, ClippedVariance):
        # No record adds less than 0, or more than the squared width, to any of three totals.
        end = (most * (clip.high - clip.low) ** 2 >> shift) + 1
        return [(-2 * end, 2 * end), (0, 3 * end)] if mechanism.size_is_public else [(0, end)] * 3
    if isinstance(mechanism, ClippedMean) and not mechanism.size_is_public:
        return [(0, (most * (clip.top - clip.bottom) >> shift) + 1)] * 2
    if isinstance(mechanism, ClippedMeans):
        # A unit adds no more to any total than all that its rows weigh, times the width.
        width = (clip.top - clip.bottom) << mechanism.bits
        return [(0, (most * width >> shift) + 1)] * (mechanism.totals_of_group * mechanism.groups)
    if isinstance(mechanism, ClippedVariances):
        square = (clip.high - clip.low) ** 2 << mechanism.bits
        return [(0, (most * square >> shift) + 1)] * (3 * mechanism.groups)
    if isinstance(mechanism, ClippedSums):
        end = (most * clip.high >> shift) + 1
        return [(0 if mechanism.totals_grow else -end, end)] * mechanism.groups
    return [((most * min(clip.bottom, 0) >> shift) - 1, (most * max(clip.top, 0) >> shift) + 1)]


def thirds(law: DiscreteLaplace, total: int, low: int, high: int) -> list[Bounds]:
    """Bound the probabilities that total plus noise is at most `low`, between, or at least `high`.

    This takes low <= total <= high > low.

    Two totals between the ends have the same ratio at every number up to `low`, that of the whole
    class, and so from `high` on: there the log ratio is the rate times how far they are apart,
    which no number between exceeds.
    """
    whole = decimals.add_bounds(decimals.ONE, decimals.enclose_decay(law.rate))

    def tail(distance: int) -> Bounds:  # P(noise >= distance) = r^distance / (1 + r), distance >= 0
        return decimals.divide(decimals.enclose_decay(law.rate * distance), whole)

    below, above = tail(total - low), tail(high - total)
    # The three probabilities add up to 1; the bound may fall below 0, which is cut off.
    middle = decimals.subtract(decimals.ONE, decimals.add_bounds(below, above))
    return [below, decimals.within_one(middle), above]


def cells(law: DiscreteGaussian, parts: int, total: int, low: int, high: int) -> list[Bounds]:
    """Return bounds of the probabilities that total plus noise lies in each of many cells.

    The cells are the same for every total with low <= total <= high: equal parts from eight
    deviations below `low` to eight above `high`, and what lies beyond on either side.

    Raises
    ------
    InvalidParameter
        If the noise is so narrow that its masses are no integrals: a rate above 1.
    """
    if law.rate > 1:
        raise InvalidParameter(
            "audit.exact needs Gaussian totals with noise of a deviation of a step or more. Lower "
            "total_rho."
        )
    far = 8 * (math.isqrt(math.floor(1 / (2 * law.rate))) + 1)
    first, last = low - far, high + far
    # Where each cell begins, as noise: integrals are taken between half steps.
    starts = [first + (last - first) * part // parts - total for part in range(parts + 1)]
    integrals = [_integral(law.rate, start - Fraction(1, 2)) for start in starts]
    # The sum of all weights is sqrt(pi / rate), times 1 + 2 (e^(-pi^2 / rate) + ...), and pi^2 > 9.
    near = decimals.root(decimals.divide(_PI, decimals.enclose_ratio(law.rate)))
    ripple = decimals.enclose_decay(9 / law.rate)[1]
    whole = (
        near[0],
        decimals.multiply(
            near, decimals.sum_of([decimals.ONE, (ripple, ripple), (ripple, ripple)])
        )[1],
    )

    def between(one: int, other: int, weight: Bounds) -> Bounds:
        off = _off(law.rate, one, other)
        least, most = decimals.subtract(weight, (off, off)), decimals.add_bounds(weight, (off, off))
        return decimals.within_one(decimals.divide((least[0], most[1]), whole))

    found = [
        between(one, other, decimals.subtract(after, before))
        for (one, before), (other, after) in pairwise(zip(starts, integrals, strict=True))
    ]

    def beyond(
        distance: int,
    ) -> Bounds:  # P(noise >= distance): half of what lies farther than that
        half = _integral(law.rate, distance - Fraction(1, 2))
        near = between(1 - distance, distance, decimals.add_bounds(half, half))
        return decimals.within_one(
            decimals.divide(
                decimals.subtract(decimals.ONE, near), decimals.enclose_ratio(Fraction(2))
            )
        )

    return [beyond(1 - starts[0]), *found, beyond(starts[-1])]


def _off(rate: Fraction, first: int, after: int) -> Decimal:
    """Return how far the sum of e^(-rate x^2) from `first` to `after` - 1 may be from the integral.

    The integral is from half a step before the one to half a step before the other.
    """
    # Over one step the midpoint is off by at most 1/24 of the largest second derivative, which is
    # at most (2 rate + 4 rate^2 x^2) e^(-rate x^2).
    ends = abs(first - Fraction(1, 2)), abs(after - Fraction(1, 2))
    nearest = Fraction(0) if first <= 0 < after else min(ends)
    curved = (2 * rate + 4 * rate**2 * max(ends) ** 2) * (after - first) / 24
    return decimals.multiply(
        decimals.enclose_ratio(curved), decimals.enclose_decay(rate * nearest**2)
    )[1]


def _integral(rate: Fraction, end: Fraction) -> Bounds:
    """Return bounds of the integral of e^(-rate x^2) from 0 to `end`, which may be negative."""
    if end < 0:
        low, high = _integral(rate, -end)
        return high.copy_negate(), low.copy_negate()
    # end e^-u (1 + 2u/3 + (2u)^2/(3 5) + ...) with u = rate end^2: all terms are positive.
    exponent = rate * end**2
    step = decimals.enclose_ratio(2 * exponent)
    term = total = decimals.ONE
    odd, rising, smallest = 1, math.ceil(4 * exponent), Decimal(10) ** -60
    # Beyond these each term is at most half of the one before: all others together are at most the
    # last one.
    while rising > odd + 2 or term[1] > smallest:
        odd += 2
        term = decimals.divide(decimals.multiply(term, step), (Decimal(odd), Decimal(odd)))
        total = decimals.add_bounds(total, term)
    rest = Decimal(0), term[1]
    return decimals.product_of(
        [
            decimals.enclose_ratio(end),
            decimals.enclose_decay(exponent),
            decimals.add_bounds(total, rest),
        ]
    )
