"""Selection by step noise in proportion to a private smooth bound of the sensitivity.

Claim: epsilon-differentially private for scores that move by at most a beta-smooth bound
[yamamoto2024; another noise and another cost]. Proof: docs/proofs/step-selection.md. Noise: the
height of a geometric level, times the bound: one draw of rate `rate` for each score. Floats: none
after scores and bound are on their grids; a bound may be off by a share of 2^-41, scores by
floor/2^22 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, Number, shown, to_fraction
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import RATE_DENOMINATOR, Steps, fit_rate, step_for, to_steps
from sordino.mechanisms.base import Mechanism
from sordino.mechanisms.smooth.clamped_bound import clamped_bound
from sordino.mechanisms.smooth.step_atoms import (
    DIGITS,
    Heights,
    heights,
    least_counts,
    levels_needed,
    ratio_for,
    win_probability,
)
from sordino.noise import Geometric
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.releases import Choice
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Sensitivity

_OWNER = "SmoothStepSelection"
_BOUND_ERROR = Fraction(1, 1 << 40)  # the share by which a bound may be too small
_SCALE_DIGITS = 24
_UNIT_DIGITS = DIGITS + _SCALE_DIGITS
_MOST_ATOMS = 1 << 20


@final
class SmoothStepSelection(Mechanism):
    """Select the largest of `candidates` private scores, with noise proportional to a smooth bound.

    It is for scores that could move far for some data, but do not for most. A smooth bound S says
    how far one unit can move any score *at these data*, and itself changes by a factor of at most
    e^beta between neighbors. The noise is the least that hides the winner's own move. The change of
    the scale shows in the noise of all losers, which costs the rest of the budget, or nothing if
    the scale is public (`floor` equal to `ceiling`).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, `floor` is above `ceiling`, beta is 0 while
        the bound may change, or epsilon is so small that noise would have millions of levels.

    Notes
    -----
    The bound is a statement about neighbors, on your word: data sets of as many units of which one
    is replaced, as in all of `sd.smooth`. A ledger for another adjacency refuses the mechanism.

    Examples
    --------
    >>> import sordino as sd
    >>> best = sd.SmoothStepSelection(epsilon=4, beta=0.05, candidates=4, ceiling=2, floor=0.1)
    >>> best.release([9.5, 3.25, 8.0, 1.5], smooth_bound=0.28, entropy=sd.Seeded(7)).index
    0
    >>> [round(float(share), 3) for share in best.split]
    [3.999, 0.001]
    """

    epsilon: Number = parameter(
        POSITIVE,
        "Budget of the selection. The losers' share is at most ln(candidates), and close to "
        "nothing from epsilon = ln(candidates)/2 + 2 or so on. Well below that most of the "
        "budget is theirs; then `SmoothSelection` may be better.",
    )
    beta: Number = parameter(
        NOT_NEGATIVE,
        "The bound is beta-smooth: S <= e^beta S' between neighbours. 0 only where `floor` equals "
        "`ceiling`.",
    )
    candidates: int = parameter(COUNT, "Number of scores, public.")
    ceiling: Number = parameter(
        POSITIVE,
        "Public bound of how far one unit can move any score of any data, in the unit of the "
        "scores.",
    )
    floor: Number = parameter(
        POSITIVE, "Public, at most the ceiling: smaller bounds are raised to it. It sets the grid."
    )
    rate: Fraction = derived(
        "Rate of the geometric law of the levels: the winner's share of the cost."
    )
    noise: Geometric = derived("That law.")
    split: _CostShares = derived(
        "What the winner costs, and what all losers cost together, in nats."
    )
    step: Fraction = derived(
        "Width of the grid of the scores, the power of two in (floor/2^21, floor/2^20]. Scores "
        "beyond 2^52 steps are clamped."
    )
    cost: Pure = derived("What a release spends: the sum of both shares, at most epsilon.")
    adjacency: ClassVar[str] = "replace-one"

    def derive(self) -> None:
        """Divide the budget between the winner and the losers, and set the noise and the grid."""
        high, low, smooth = (
            to_fraction(self.ceiling),
            to_fraction(self.floor),
            to_fraction(self.beta),
        )
        if low > high:
            raise InvalidParameter(
                f"{_OWNER}.floor must be at most ceiling, {shown(high)}; got {shown(low)}."
            )
        if not smooth and low < high:
            raise InvalidParameter(
                f"{_OWNER}.beta must be above 0 unless floor and ceiling are the same; got 0: a "
                "bound that no unit changes is one public number. Give it as both floor and "
                "ceiling, or give the beta of your bound."
            )
        step = step_for(
            Sensitivity(bound=low, monotone=False, adjacency="replace-one"), low**2, _OWNER
        )
        split = _split_budget(
            to_fraction(self.epsilon), self.candidates, ratio_for(smooth, low, high)
        )
        self._set(
            rate=split.winner,
            noise=Geometric(split.winner),
            split=split,
            step=step,
            cost=Pure(epsilon=sum(split)),
        )

    @property
    def heights(self) -> Heights:
        """The function from levels to their heights, in units of 2^-32 scales, whole."""
        return heights(ratio_for(*self._numbers))

    def atoms(self, n: int) -> tuple[float, ...]:
        """Return how much noise the first `n` levels stand for, in scales.

        They are 0, 2, and so on, each more than e^beta times the one before.

        Raises
        ------
        InvalidParameter
            If `n` is not a whole number, at least 1.

        Examples
        --------
        >>> import sordino as sd
        >>> noise = sd.SmoothStepSelection(epsilon=4, beta=0.1, candidates=9, ceiling=1, floor=0.01)
        >>> [round(height, 6) for height in noise.atoms(4)]
        [0.0, 2.0, 4.210342, 6.653147]
        """
        levels = range(COUNT(f"{_OWNER}.atoms.n", n))
        return tuple(height / (1 << DIGITS) for height in self.heights(levels))

    def success(self, scores: Any, *, smooth_bound: Any) -> float:
        """Return the probability that the largest of these scores is selected, of equals the first.

        It is for scores that are public.

        Parameters
        ----------
        scores : array of numbers, shape (candidates,)
            Made up, or public: the result is exact up to the rounding of floats, not private.
        smooth_bound : number or array of numbers, shape (candidates,)
            Of the same kind.

        Raises
        ------
        InvalidParameter
            As `release`.

        Examples
        --------
        >>> import sordino as sd
        >>> best = sd.SmoothStepSelection(epsilon=4, beta=0.05, candidates=4, ceiling=2, floor=0.1)
        >>> round(best.success([9.5, 3.25, 8.0, 1.5], smooth_bound=0.28), 4)
        1.0
        """
        steps, scale = self.on_grids(scores, smooth_bound)
        return win_probability(
            steps,
            self.rate,
            lambda levels: [
                Fraction(scale * height, 1 << _UNIT_DIGITS) for height in self.heights(levels)
            ],
        )

    @scrubbed
    def release(self, scores: Any, *, smooth_bound: Any, entropy: Entropy = SYSTEM) -> Choice:
        """Select, with fresh noise.

        Parameters
        ----------
        scores : array of numbers, shape (candidates,)
            Private; a score may be off by floor/2^22, what floats lose. NaN counts as the lowest
            value. Among equals, noise included, the smaller position wins: a public priority.
        smooth_bound : number or array of numbers, shape (candidates,)
            Private, the largest counts. It may be off by a share of 2^-41, or miss what is asked of
            it by 2^-40: what floats lose. What is no number counts as the ceiling.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Choice
            Without a gap.

        Raises
        ------
        InvalidParameter
            If there are not as many scores as candidates, or the bounds are neither one nor as
            many.
        """
        fresh_entropy(entropy, f"{_OWNER}.release")
        steps, scale = self.on_grids(scores, smooth_bound)
        levels = self.noise.sample(steps.size, entropy)
        # Only the best candidate of each level can win, so the sums of the others need not be
        # computed.
        ahead = champions(steps, levels)
        index = int(ahead[decide(steps[ahead], levels[ahead][None, :], scale, self.heights)[0]])
        return Choice(index=index, mechanism=self, cost=self.cost, simulated=entropy.simulated)

    @property
    def _numbers(self) -> tuple[Fraction, Fraction, Fraction]:
        """Return beta, floor and ceiling as exact numbers."""
        return to_fraction(self.beta), to_fraction(self.floor), to_fraction(self.ceiling)

    def on_grids(self, scores: Any, smooth_bound: Any) -> tuple[NDArray[np.int64], int]:
        """Return the scores in steps, shape (candidates,), and the scale in steps/2^24.

        Both are private.

        The scale is the bound and two steps, rounded up.
        """
        steps = np.atleast_1d(to_steps(scores, self.step, _OWNER))
        if steps.size != self.candidates:
            raise InvalidParameter(
                f"{_OWNER}.release needs as many scores as candidates, {self.candidates}; got "
                f"{steps.size}."
            )
        _, low, high = self._numbers
        bound = clamped_bound(smooth_bound, self.candidates, low, high, _OWNER)
        # Widened, because flooring the scores and the rounding of whoever computed them add to
        # their moves.
        return steps, math.ceil((bound * (1 + _BOUND_ERROR) / self.step + 2) * (1 << _SCALE_DIGITS))


def _split_budget(budget: Fraction, candidates: int, ratio: Fraction) -> _CostShares:
    """Return the shares of the budget, or raise `InvalidParameter`.

    It raises if a release would need too many atoms.
    """
    if ratio == 1:
        # The scale is one public number, so that the losers cost nothing.
        return _CostShares(fit_rate(budget, _OWNER, stepped=False), Fraction(0))
    # A smaller rate needs more levels. Where all of the budget needs too many, it is not divided:
    # it would take long.
    if levels_needed(ratio, budget) <= _MOST_ATOMS:
        split = _divide_cost(budget, candidates, ratio, _OWNER)
        if levels_needed(ratio, split.winner) <= _MOST_ATOMS:
            return split
    raise InvalidParameter(
        f"{_OWNER}.epsilon must be larger for {candidates} candidates and a bound that moves so "
        f"little: with {shown(budget)} noise would have more than a million levels. Raise epsilon, "
        "or lower the number of candidates."
    )


def champions(steps: NDArray[np.int64], levels: Steps) -> NDArray[np.intp]:
    """Return for each level that occurs the position of its largest score, of equals the first.

    No other candidate can win.
    """
    if levels.dtype == object:
        found: dict[int, int] = {}
        for i, level in enumerate(levels.tolist()):
            if level not in found or steps[i] > steps[found[level]]:
                found[level] = i
        return np.array(sorted(found.values()), dtype=np.intp)
    # Stable: within a level candidates stay in the order of their positions. Numbers of 16 bits are
    # sorted in linear time.
    order = np.argsort(
        levels.astype(np.uint16) if int(levels.max()) < 1 << 16 else levels, kind="stable"
    )
    begins = np.flatnonzero(np.diff(levels[order], prepend=-1))
    values = steps[order]
    best = np.repeat(np.maximum.reduceat(values, begins), np.diff(begins, append=values.size))
    reached = np.flatnonzero(values == best)
    first = reached[np.searchsorted(reached, begins)]
    return np.sort(order[first])


def decide(
    steps: NDArray[np.int64], levels: Steps, scale: int, heights: Heights
) -> NDArray[np.intp]:
    """Return the position of the largest score with its noise, of equals the first.

    There is one for each row of levels, which have shape (N, n).
    """
    n = steps.size
    drawn, at = np.unique(levels, return_inverse=True)
    noise = [scale * height for height in heights([int(level) for level in drawn.tolist()])]
    # A number for each candidate at each level: each sum is computed once, however often it occurs
    # in the rows.
    each = at.reshape(levels.shape) * n + np.arange(n)
    pairs, rows = np.unique(each, return_inverse=True)
    whose = pairs % n
    listed = zip(steps[whose].tolist(), (pairs // n).tolist(), whose.tolist(), strict=True)
    sums = [((step << _UNIT_DIGITS) + noise[level], -place) for step, level, place in listed]
    # The sums may not fit 64 bits: Python integers are ranked once, and the rows compare ranks.
    ranks = np.empty(len(sums), dtype=np.int64)
    ranks[sorted(range(len(sums)), key=sums.__getitem__)] = np.arange(len(sums))
    best: NDArray[np.intp] = ranks[rows.reshape(levels.shape)].argmax(axis=1)
    return best


# ---- how a budget is shared ----------------------------------------------------------------------
# How step noise under a private scale divides its budget: what the winner pays, and what all losers
# pay together.
#
# Claim: if `losers_fit`, losers whose noise follows a scale that differs between neighbors cost no
# more than what is spared for them. Proof: docs/proofs/step-selection.md, "All losers together".
# Floats: they only propose a rate; decimals with directed rounding decide.


_COST_DIGITS = 40
# Up to here levels are looked at one by one, beyond in groups, each about 1/128 of what is before
# it.
_DENSE_LEVELS = 128
_COVERED_NATS = 36.0  # the levels beyond are one group
_RATES_TRIED = 64  # rates that are tried from the budget downwards
_LEAST_RATE = 2.0**-30
_LINES_DRAWN = 12  # then halves

Floats = NDArray[np.float64]


class _CostShares(NamedTuple):
    """The parts of the cost, in nats.

    A move costs the winner the rate of the noise, and all losers together the rest.
    """

    winner: Fraction
    losers: Fraction


@lru_cache(maxsize=256)
def _divide_cost(budget: Fraction, candidates: int, ratio: Fraction, owner: str) -> _CostShares:
    """Return the largest rate found that leaves enough for the losers, a multiple of 2^-40.

    Raises
    ------
    InvalidParameter
        If the rate would be below 2^-30, or above 2^40.
    """
    # Nobody loses: the noise gets all of the budget, and what rounding its rate leaves is stated as
    # the losers'.
    if candidates == 1:
        rate = fit_rate(budget, owner, stepped=False)
        return _CostShares(rate, budget - rate)
    if budget > RATE_DENOMINATOR:
        raise InvalidParameter(
            f"{owner}.epsilon must be at most 2^40; got {shown(budget)}. With so much there is no "
            "noise left."
        )
    # Floats propose the largest rate. It is lowered by more and more until decimals agree that it
    # is affordable.
    units, less = math.floor(_propose_rate(float(budget), candidates, ratio) * RATE_DENOMINATOR), 1
    while units > _LEAST_RATE * RATE_DENOMINATOR:
        rate = Fraction(units, RATE_DENOMINATOR)
        if rate < budget and losers_fit(rate, budget - rate, candidates, ratio):
            return _CostShares(rate, budget - rate)
        units, less = units - less, 2 * less
    raise InvalidParameter(
        f"{owner}.epsilon must be larger for {candidates} candidates: noise of a rate above 2^-30 "
        f"would cost more than {shown(budget)}. Raise epsilon, or lower the number of candidates."
    )


def losers_fit(
    rate: Fraction, spare: Fraction, candidates: int, ratio: Fraction | None = None
) -> bool:
    """Return whether it is certain that all losers together cost at most `spare` nats.

    With n losers, theta = e^-spare and p_k = (1 - q) q^k it is enough that sum_k p_k v_k >= 0 for
    one of two v_k. One is v_k = rho_k - theta with rho_k = ((1 - q^(M-1))/(1 - q^M))^n. The other
    is the least value of e^-Y (e^(-psi_k min(Y, n l_M)) - theta) over 0 <= Y <= n l_(k+1), where
    l_j = -ln(1 - q^j) and psi_k = l_(M-1)/l_M - 1. M is `_fewest_allowed` of k, k + 3 where no
    ratio of the heights is given. Both rise with k: a group counts with its first value.
    """
    down, up = contexts(_COST_DIGITS)
    losers, theta = candidates - 1, exp_bounds(spare, _COST_DIGITS)[1]
    plain = weighed = Decimal(0)
    nodes = _group_levels(float(rate), candidates)
    # How much lies at each group and beyond; nothing lies beyond the last one.
    reached = [*(exp_bounds(rate * k, _COST_DIGITS) for k in nodes), (Decimal(0), Decimal(0))]
    for k, first, beyond, fewest in zip(
        nodes, reached[:-1], reached[1:], _fewest_allowed(nodes, ratio), strict=True
    ):
        mass = max(Decimal(0), down.subtract(first[0], beyond[1])), up.subtract(first[1], beyond[0])
        gain, least = _level_values(rate, k, fewest, losers, theta)
        # The sums are lower bounds: what is negative counts with the larger mass.
        plain = down.add(plain, down.multiply(mass[gain < 0], gain))
        weighed = down.add(weighed, down.multiply(mass[least < 0], least))
    return plain >= 0 or weighed >= 0


def _fewest_allowed(levels: Sequence[int], ratio: Fraction | None) -> list[int]:
    """Return with how many heights a loser stays behind each level at least.

    It does so if the scale costs it one.
    """
    # Where heights are not looked at any more, what holds for every ratio is taken.
    known = () if ratio is None else least_counts(ratio)
    return [max(k + 3, known[k]) if k < len(known) else k + 3 for k in levels]


def _level_values(
    rate: Fraction, k: int, fewest: int, losers: int, theta: Decimal
) -> tuple[Decimal, Decimal]:
    """Return lower bounds of both v_k of `losers_fit`, for one level k and its M, `fewest`."""
    down, up = contexts(_COST_DIGITS)
    two, three = _hazard_of_level(rate, fewest - 1), _hazard_of_level(rate, fewest)
    # rho_k. `exp` is rounded to nearest in any context, so the next decimal below is taken.
    kept = down.next_minus(
        down.exp(up.multiply(losers, up.subtract(two[1], three[0])).copy_negate())
    )
    gain = down.subtract(max(kept, Decimal(0)), theta)
    # Then no Y is worse than the largest.
    if gain >= 0:
        deep = down.next_minus(
            down.exp(up.multiply(losers, _hazard_of_level(rate, k + 1)[1]).copy_negate())
        )
        return gain, max(Decimal(0), down.multiply(deep, gain))
    # Beyond all digits: there is nothing to divide by.
    if three[0] <= 0:
        return gain, gain
    psi = up.subtract(up.divide(two[1], three[0]), 1)
    # The Y that is worst if all are allowed.
    worst = down.divide(down.next_minus(down.ln(down.divide(down.add(1, psi), theta))), psi)
    everyone = down.multiply(losers, three[0])
    # It is not reached: the least value is where `min` stops. The gain is negative, so its factor
    # is rounded up.
    if worst >= up.multiply(losers, three[1]):
        return gain, down.multiply(up.next_plus(up.exp(everyone.copy_negate())), gain)
    share = up.multiply(theta, up.divide(psi, down.add(1, psi)))
    return gain, up.multiply(share, up.next_plus(up.exp(worst.copy_negate()))).copy_negate()


@lru_cache(maxsize=1 << 14)
def _hazard_of_level(rate: Fraction, j: int) -> Bounds:
    """Return bounds of l_j = -ln(1 - q^j), j >= 1.

    That is minus the log of the probability of a level below j.
    """
    down, up = contexts(_COST_DIGITS)
    low, high = exp_bounds(rate * j, _COST_DIGITS)
    most, least = (
        up.next_plus(up.ln(up.subtract(1, low))),
        down.next_minus(down.ln(down.subtract(1, high))),
    )
    return most.copy_negate(), least.copy_negate()


def _group_levels(rate: float, candidates: int) -> tuple[int, ...]:
    """Return the first level of each group of levels, from 0 on; the last group has no end."""
    return _group_up_to(math.ceil((_COVERED_NATS + math.log(candidates)) / rate))


@lru_cache(maxsize=512)
def _group_up_to(last: int) -> tuple[int, ...]:
    """Return the first level of each group, of which the last one begins about there."""
    if last <= _DENSE_LEVELS:
        return tuple(range(last + 1))
    grown = _DENSE_LEVELS * (1 + 1 / _DENSE_LEVELS) ** np.arange(
        math.ceil(math.log(last / _DENSE_LEVELS) * (_DENSE_LEVELS + 1)) + 1
    )
    return (*range(_DENSE_LEVELS), *sorted({math.floor(x) for x in grown.tolist()}))


@lru_cache(maxsize=64)
def _float_groups(nodes: tuple[int, ...], ratio: Fraction) -> tuple[Floats, Floats]:
    """Return groups of levels and what `_fewest_allowed` says of them as floats.

    Only to be read.
    """
    return np.array(nodes, dtype=np.float64), np.array(
        _fewest_allowed(nodes, ratio), dtype=np.float64
    )


def _left_over(rate: float, spare: float, candidates: int, ratio: Fraction) -> float:
    """Return about the larger sum of `losers_fit`, in floats.

    At least 0 where that will say yes.
    """
    losers, theta = candidates - 1, math.exp(-spare)
    k, fewest = _float_groups(_group_levels(rate, candidates), ratio)
    tails = np.exp(-rate * k)
    mass = np.append(-tails[:-1] * np.expm1(-rate * np.diff(k)), tails[-1])
    one, two, three = (-np.log1p(-np.exp(-rate * j)) for j in (k + 1, fewest - 1, fewest))
    # Where nothing is lost the divisor is 0.
    with np.errstate(all="ignore"):
        psi = two / three - 1
        gain: Floats = np.exp(-losers * (two - three)) - theta
        worst = (np.log1p(psi) + spare) / psi
        steep = np.where(
            worst <= losers * three,
            -theta * psi / (1 + psi) * np.exp(-worst),
            np.exp(-losers * three) * gain,
        )
    least = np.where(gain >= 0, np.exp(-losers * one) * gain, steep)
    # What is no number is no yes.
    return float(np.fmax((mass * gain).sum(), (mass * least).sum()))


def _propose_rate(budget: float, candidates: int, ratio: Fraction) -> float:
    """Return about the largest rate that leaves enough, rounded down.

    Not every smaller one does.
    """
    rates = [budget * (1 - i / _RATES_TRIED) for i in range(1, _RATES_TRIED)]
    while rates[-1] > _LEAST_RATE:
        rates.append(rates[-1] / 2)
    above = budget
    for rate in rates:
        if _left_over(rate, budget - rate, candidates, ratio) >= 0:
            break
        above = rate
    else:
        return 0.0
    # Rates are whole numbers of units in the end: no float between two of them has to be looked at.
    unit = max(1 / RATE_DENOMINATOR, math.ulp(budget))

    def left_over(units: int) -> float:
        return _left_over(units * unit, max(0.0, budget - units * unit), candidates, ratio)

    low, high = math.floor(rate / unit), math.floor(above / unit) + 1
    return _find_last(left_over, low, high) * unit


def _find_last(value: Callable[[int], float], low: int, high: int) -> int:
    """Return the last whole number from `low` to below `high` whose value is at least 0.

    At `high` it is not.

    It is looked for where lines say, which is near soon, and then by halves, which always end.
    """
    # The first of the two lies within, if it is not the end itself: so values there are no
    # surprise.
    (x, at_x), (y, at_y) = (low, value(low)), (high - 1, value(high - 1))
    if at_y >= 0 or high - low == 1:
        return y
    high, looks = y, 0
    while high - low > 1:
        looks += 1
        line = (
            looks <= _LINES_DRAWN and math.isfinite(at_x) and math.isfinite(at_y) and at_x != at_y
        )
        z = math.floor(y - at_y * (y - x) / (at_y - at_x)) if line else (low + high) // 2
        z = max(low + 1, min(z, high - 1))
        (x, at_x), (y, at_y) = (y, at_y), (z, value(z))
        low, high = (z, high) if at_y >= 0 else (low, z)
    return low


_PUBLIC_SCALE = [
    SmoothStepSelection(epsilon=2, beta=0, candidates=n, ceiling=1, floor=1) for n in (2, 3)
]
_PRIVATE_SCALE = SmoothStepSelection(epsilon=1.125, beta=0.5, candidates=3, ceiling=4, floor=1)
_claim = ClaimsAbout("SmoothStepSelection", proof="step-selection.md")
CLAIMS = (
    _claim(
        "The index is epsilon-differentially private where scores move by at most a beta-smooth "
        "bound.",
        ("yamamoto2024",),
        # scores, and their smooth bound
        (_PRIVATE_SCALE, (0, 0, -5.5, 1), (-1, 1, -4.5, 1.5)),
        (_PRIVATE_SCALE, (0, 0, 0, 1), (-1, 1, 1, 1.625)),
    ),
    _claim(
        "Where the scale is public the winner alone pays, for any number of scores.",
        ("yamamoto2024",),
        (_PUBLIC_SCALE[0], (0, 0, 1), (-1, 1, 1)),
        (_PUBLIC_SCALE[1], (3, 3, -1, 1), (2, 4, 0, 1)),
        tight=True,
    ),
)
