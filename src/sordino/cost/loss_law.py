"""The law of the total loss of a fixed list of costs, summed over a lattice, and its delta curve.

Every cost with finite ends has a dominating law of the loss on a few equally spaced points;
independent sums of these dominate the adaptive composition [zhu2022, Thm 10]. Losses are whole
multiples of one unit, rounded up where they do not fit; masses are floats whose relative error is
bounded and added. Many intervals of which each may turn, by what was released before it, have one
law together, which dominates them all ("Orders that turn"). Proof: docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from sordino.cost.base import Cost, order_key
from sordino.cost.conversion import round_up, settled
from sordino.cost.gumbel_stage import GumbelStage, stage_delta
from sordino.cost.randomized_choice import RandomizedChoice, choice_masses
from sordino.cost.range import BoundedRange, Pure, Range, masses
from sordino.cost.rdp import RDP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Cells of the longest law: it has twice as many points, and they are found one after the other.
CELLS_OF_LAW = 1 << 14
# Cells times rounds, which is how much work a law takes: a quarter of a second.
WORK_OF_LAW = 1 << 24
# An end that misses the grid is raised to it, by at most this share of the larger end where there
# is room.
_FINE_SHARE = Fraction(1, 1 << 13)
# The largest relative error of one operation on floats.
_UNIT_ROUNDOFF = 2.0**-53


def turns(part: Cost, texts: Container[str]) -> bool:
    """Tell whether the part is an interval whose order may depend on what was released before.

    It does not turn if both ends are equal, or if its orientation is one of `texts`.
    """
    return isinstance(part, Range) and part.low != part.high and part.orientation not in texts


def find_turning(
    parts: Iterable[tuple[Cost, int]], texts: Container[str]
) -> dict[tuple[Fraction, Fraction], int]:
    """Return how many intervals turn, by their smaller and larger end.

    Which end is which does not matter.
    """
    found: dict[tuple[Fraction, Fraction], int] = {}
    for part, count in parts:
        if isinstance(part, Range) and turns(part, texts):
            ends = min(part.low, part.high), max(part.low, part.high)
            found[ends] = found.get(ends, 0) + count
    return found


class Grid(NamedTuple):
    """Both ends in cells of one width, which is the larger end divided by `most`.

    The smaller end has `fewer` cells, rounded up.
    """

    fewer: int
    most: int


def fit_grid(ratio: Fraction, finest: int) -> Grid | None:
    """Return the coarsest grid that meets `ratio` closely, or the closest one.

    None without any room.

    Parameters
    ----------
    ratio : Fraction
        The smaller end divided by the larger one, in (0, 1).
    finest : int
        The most cells that the larger end may have.
    """
    top, bottom = ratio.as_integer_ratio()
    best, least = None, Fraction(1)
    for most in range(1, finest + 1):
        # Up: a wider interval has the larger curve.
        fewer = -(-top * most // bottom)
        lead = Fraction(fewer * bottom - top * most, most * bottom)
        if best is None or lead < least:
            best, least = Grid(fewer, most), lead
        if lead <= _FINE_SHARE:
            break
    return best


def find_grid(other: Fraction, top: Fraction, count: int, finest: int) -> Grid | None:
    """Return the grid on which `count` parts with the ends `other` < `top` are summed.

    None without room.
    """
    room = min(finest // count, WORK_OF_LAW // count**2)
    return fit_grid(other / top, room)


@lru_cache(maxsize=32)
def turning_masses(top: Fraction, count: int, grid: Grid) -> tuple[float, ...]:
    """Return the masses of the law at the losses -n, ..., n cells, n = `count` times `grid.most`.

    They are rounded up: delta is sum of mass (1 - e^(epsilon - loss)) over the losses above
    epsilon.

    Parameters
    ----------
    top : Fraction
        The larger end, in nats, above 0; count * top at most 600.
    count : int
        How many parts there are, at least 1.
    grid : Grid
        The cells, as `find_grid` gives them.
    """
    cells = count * grid.most
    curve = _curve_of_turns(top, count, grid)
    above = _masses_above(curve, float(top / grid.most))
    # The law is its own mirror image: what is at a loss under one law is at its negative under the
    # other.
    below = [mass * math.exp(-float(top / grid.most * j)) for j, mass in enumerate(above, 1)]
    middle = max(0.0, 1 - math.fsum(above) - math.fsum(below))
    # A round multiplies and adds; its masses rest on exponentials of losses, which round as they
    # are large.
    lost = (count * (16 + 4 * float(top)) + 16 * cells) * _UNIT_ROUNDOFF
    return tuple(mass * (1 + lost) for mass in (*reversed(below), middle, *above))


def _curve_of_turns(top: Fraction, count: int, grid: Grid) -> Floats:
    """Return delta at 0, 1, ... cells, for the player who picks the order of every part.

    The player picks it by what came before. Under the first law u_k(x) is what can be reached with
    k parts left and a loss of x so far: u_0(x) = (1 - e^-x)^+, and u_k(x) is the larger mean of
    u_{k-1} after one part in either order. Then delta at a loss of j cells is u_n at -j cells.
    """
    import numpy as np  # noqa: PLC0415  (costs load nothing until there is a law to sum)

    small, large = float(top / grid.most * grid.fewer), float(top)
    falls_small, rises_large = masses(small, large)
    falls_large, rises_small = masses(large, small)
    width, cells = grid.most + grid.fewer, count * grid.most
    # With k parts left u is 0 below -k * most cells: the array begins there, and moves down by
    # `most` a part. So after the larger rise a loss stands where it stood, and after the others
    # further down.
    worth = -np.expm1(-np.arange(cells + 1) * float(top / grid.most))
    for _ in range(count):
        there = rises_large * worth + falls_small * _moved(worth, width)
        back = rises_small * _moved(worth, grid.most - grid.fewer) + falls_large * _moved(
            worth, 2 * grid.most
        )
        worth = np.maximum(there, back)
    turned: Floats = worth[::-1]
    return turned


def _moved(worth: Floats, places: int) -> Floats:
    """Return the array moved up by some places, with zeros below."""
    import numpy as np  # noqa: PLC0415

    result = np.zeros_like(worth)
    if places < worth.size:
        result[places:] = worth[: worth.size - places]
    return result


def _masses_above(curve: Floats, cell: float) -> list[float]:
    """Return masses at 1, 2, ... cells whose curve is at least `curve` at every cell and between.

    With A the mass above j cells, the curve there is e^-cell times the curve one cell further up,
    plus (1 - e^-cell) A. Solved for A from the end: where rounding would make a mass negative it is
    0, the curve comes out larger, and the next mass is smaller for it.
    """
    share, kept = -math.expm1(-cell), math.exp(-cell)
    found: list[float] = []
    reached = above = 0.0
    for wanted in curve[-2::-1].tolist():
        needed = max(above, (wanted - kept * reached) / share)
        found.append(needed - above)
        reached, above = kept * reached + share * needed, needed
    return found[::-1]


POINTS = 1 << 13  # of one cost repeated
WORK = 1 << 18  # products of points over all sums of different costs
KINDS = 256  # of different costs
CELLS = 64  # of the grid for a curve that has no corners of its own
COARSER = (
    255,
    60,
)  # cells of intervals that turn, where the finest law leaves no room for the other parts
TEXTS = 3  # of orientations: each doubles the number of orders that are summed
LARGEST = 600  # nats; beyond this e^loss leaves the floats
# Where the chords of a stage lose no more than a share of 10^-9, and e^loss stays small.
_SMALLEST_STAGE, _LARGEST_STAGE, _STAGE_SLACK = 1e-3, 100.0, 1e-9
_UNDERFLOW_LOSS = 1e-280  # more than what underflow can lose


_INTERVALS = Pure | Range | BoundedRange | GumbelStage | RandomizedChoice


@dataclass(frozen=True)
class Lattice:
    """A dominating law of one loss, paid `count` times.

    It has probability `masses[j]` for the loss `offset + j * step`, step > 0.
    """

    offset: Fraction
    step: Fraction
    masses: tuple[float, ...]
    count: int

    @property
    def points(self) -> int:
        """How many points the sum of all `count` losses has."""
        return (len(self.masses) - 1) * self.count + 1


@dataclass(frozen=True, eq=False)
class LossLaw:
    """The positive losses of a fixed list, decreasing, with upper bounds of their probabilities.

    Both are arrays of one shape (n,).
    """

    losses: Floats
    masses: Floats

    def delta(self, epsilon: float) -> float:
        """Return sum over losses l > epsilon of mass (1 - e^(epsilon - l)), rounded up."""
        import numpy as np  # noqa: PLC0415  (costs load nothing until there is a law to sum)

        if not self.losses.size or epsilon >= self.losses[0]:
            return 0.0
        # Losses fall and their negatives rise, as the search needs: those above epsilon come first.
        count = int(np.searchsorted(-self.losses, -epsilon))
        total = float(self.masses[:count] @ -np.expm1(epsilon - self.losses[:count]))
        # All terms are positive, so that what rounding loses is a share of their sum.
        return min(1.0, total * (1 + 1e-13 + 2 * count * _UNIT_ROUNDOFF) + _UNDERFLOW_LOSS)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon whose `delta` is at most the given one, close to the least."""
        import numpy as np  # noqa: PLC0415

        if self.delta(0.0) <= delta:
            return 0.0
        with np.errstate(divide="ignore"):  # masses may have left the floats
            reached, kept = (
                np.cumsum(self.masses),
                np.logaddexp.accumulate(np.log(self.masses) - self.losses),
            )
        at_losses = reached - np.exp(kept + self.losses)  # the curve at each loss, up to rounding
        # Between two losses delta is `reached` - e^(epsilon + `kept`): the guess solves this for
        # epsilon.
        place = max(int(np.searchsorted(at_losses, delta)) - 1, 0)
        inside = float(reached[place]) - delta
        guess = math.log(inside) - float(kept[place]) if inside > 0 else 0.0
        return settled(
            self.delta, max(guess, 0.0), delta, math.nextafter(float(self.losses[0]), math.inf)
        )


def name_intervals(
    parts: frozenset[tuple[Cost, int]], *, stages: bool
) -> frozenset[tuple[Cost, int]]:
    """Return the parts with every Rényi curve that has a pure epsilon replaced by that epsilon.

    A curve bounds moments and no single loss; the pure epsilon bounds each, and has a dominating
    law. With `stages` what has a law of more points, a stage with Gumbel noise and randomized
    response among many, is replaced by the interval of its loss as well.
    """
    if not any(isinstance(part, RDP | GumbelStage | RandomizedChoice) for part, _ in parts):
        return parts
    named: Counter[Cost] = Counter()
    for part, count in parts:
        epsilon = part.pure() if isinstance(part, RDP) else math.inf
        if isinstance(epsilon, Fraction):
            named[Pure(epsilon=epsilon)] += count
        else:
            named[_interval_of(part) if stages else part] += count
    return frozenset(named.items())


def _interval_of(part: Cost) -> Cost:
    return part.interval if isinstance(part, GumbelStage | RandomizedChoice) else part


@lru_cache(maxsize=8)
def loss_laws(parts: frozenset[tuple[Cost, int]]) -> tuple[tuple[LossLaw, ...], ...]:
    """Return the ways to sum the list.

    Of each way the largest curve of its laws dominates the list.

    A way has one law for each order in which intervals with equal orientation texts can lie, 2^n
    for n texts. Intervals without a text turn from part to part (`sordino.cost.loss_law`). There is
    no way if there are too many points.
    """
    named = name_intervals(parts, stages=False)
    found, plain = _sum_laws(named), name_intervals(named, stages=True)
    # The law of a stage has many points; where the sums have too many, the few of its interval may
    # do.
    return found if found or plain == named else _sum_laws(plain)


def _sum_laws(parts: frozenset[tuple[Cost, int]]) -> tuple[tuple[LossLaw, ...], ...]:
    """Return the ways to sum parts that have a law each, or none."""
    # Concentrated and Rényi costs are known by curves only, and have no dominating law here.
    if len(parts) > KINDS or not all(isinstance(part, _INTERVALS) for part, _ in parts):
        return ()
    # In one order in every process: sums of floats depend on it in their last digits.
    listed = sorted(parts, key=lambda entry: (entry[1], order_key(entry[0])))
    names = sorted(
        {
            part.orientation
            for part, _ in parts
            if isinstance(part, Range) and part.orientation is not None
        }
    )
    # With many texts there are too many orders: each interval then turns as if it had none.
    texts = names if len(names) <= TEXTS else []
    # The finest cells that the sums have room for; without intervals that turn all cells are the
    # same.
    laws: tuple[LossLaw, ...] = ()
    for finest in (CELLS_OF_LAW, *COARSER) if find_turning(listed, texts) else ():
        laws = _sum_in_every_order(listed, texts, finest)
        if laws and not _misses_a_grid(listed, texts, finest):
            return (laws,)
        if laws:
            break
    # Ends that missed their grid were raised, so that laws of three points may be the smaller
    # bound.
    plain = _sum_in_every_order(listed, texts, 0)
    return tuple(way for way in (laws, plain) if way)


def _sum_in_every_order(
    listed: list[tuple[Cost, int]], texts: list[str], finest: int
) -> tuple[LossLaw, ...]:
    """Return the law of the sum for every way in which the texts can be ordered.

    None if one has no room.
    """
    laws = []
    # Intervals of one text turn together, those of two texts need not ("Oriented lists").
    for turned in product((False, True), repeat=len(texts)):
        mirrored = dict(zip(texts, turned, strict=True))
        lattices = _lattices_of_list(listed, mirrored, finest)
        unit = _units_per_nat(lattices) if lattices is not None else None
        if lattices is None or unit is None:
            return ()
        laws.append(_sum_independent_losses(lattices, unit))
    return tuple(laws)


def _lattices_of_list(
    listed: list[tuple[Cost, int]], mirrored: dict[str, bool], finest: int
) -> list[Lattice] | None:
    """Return a dominating law for every part, and one for all intervals of equal ends that turn."""
    lattices = []
    for part, count in listed:
        if turns(part, mirrored):
            continue
        lattice = (
            # The larger curve of both orders: a law that holds for either, so that nothing of it
            # turns.
            _stage_lattice(part, count)
            if isinstance(part, GumbelStage)
            else _dominating_lattice(part, count, mirrored)
        )
        if lattice is None or lattice.points > POINTS:
            return None
        lattices.append(lattice)
    for (other, top), count in find_turning(listed, mirrored).items():
        lattice = _turning_lattice(other, top, count, finest)
        if lattice is None:
            return None
        lattices.append(lattice)
    return lattices


def _misses_a_grid(listed: list[tuple[Cost, int]], texts: list[str], finest: int) -> bool:
    """Tell whether an end of an interval that turns was raised to its grid."""
    for (other, top), count in find_turning(listed, texts).items():
        grid = find_grid(other, top, count, finest) if count > 1 else None
        if grid is not None and other * grid.most != top * grid.fewer:
            return True
    return False


def _has_floats(end: Fraction) -> bool:
    return 0 < end <= LARGEST and round_up(end) >= 1e-300


def _dominating_lattice(part: Cost, count: int, mirrored: dict[str, bool]) -> Lattice | None:
    """Return the dominating law of one part that does not turn; None if its ends are not floats."""
    if not _has_floats(Fraction(part.pure())):
        return None
    # Randomized response, the two-point pair with equal ends.
    if isinstance(part, Pure):
        p_low, p_high = masses(round_up(part.epsilon_), round_up(part.epsilon_))
        return Lattice(-part.epsilon_, 2 * part.epsilon_, (p_low, p_high), count)
    if isinstance(part, RandomizedChoice):
        three = choice_masses(round_up(part.epsilon_), part.choices)
        return Lattice(-part.epsilon_, part.epsilon_, three, count)
    if isinstance(part, BoundedRange):
        return _bounded_range_lattice(part.epsilon_, count)
    if not isinstance(part, Range):
        return None
    # The order is known, or does not matter: the two-point law of that order dominates.
    turned = part.orientation is not None and mirrored.get(part.orientation, False)
    low, high = (part.high, part.low) if turned else (part.low, part.high)
    return Lattice(-low, low + high, masses(float(low), float(high)), count)


def _turning_lattice(other: Fraction, top: Fraction, count: int, finest: int) -> Lattice | None:
    """Return the dominating law of intervals that turn, with the ends `other` < `top`."""
    if not _has_floats(top) or count * top > LARGEST:
        return None
    # One alone, or where cells have no room: three points, whose curve is the larger one of both
    # orders.
    if count == 1 or finest == 0:
        reach, rest = float(top), float(other)
        p_top = masses(rest, reach)[1]
        p_none = math.exp(-rest) * -math.expm1(-float(top - other)) / -math.expm1(-(reach + rest))
        # Its masses are those under "Worse order" (dominating-pairs), at -top, 0 and top.
        lattice = Lattice(-top, top, (p_top * math.exp(-reach), p_none, p_top), count)
        return lattice if lattice.points <= POINTS else None
    grid = find_grid(other, top, count, finest)
    if grid is None:
        return None
    return Lattice(-count * top, top / grid.most, turning_masses(top, count, grid), 1)


def _bounded_range_lattice(width: Fraction, count: int) -> Lattice | None:
    """Return the law whose curve joins points of the curve of bounded range by chords.

    The chords lie above it.
    """
    cells = min(CELLS, (POINTS - 1) // count)
    if cells < 4:
        return None
    # The masses under "Chords" (dominating-pairs): half of the formula at the two ends.
    w = float(width)
    whole = math.tanh(w / cells / 2) / -math.expm1(-w)
    inner = [2 * whole * math.exp(-w + w * j / cells) for j in range(1, cells)]
    return Lattice(-width, 2 * width / cells, (whole * math.exp(-w), *inner, whole), count)


def _stage_lattice(stage: GumbelStage, count: int) -> Lattice | None:
    """Return the law whose curve joins points of the curve of a stage by chords.

    That curve is the larger one of both orders.
    """
    # As many cells on both sides of 0, where the two curves cross.
    half = min(CELLS, (POINTS - 1) // count) // 2
    masses_of_stage = stage_masses(stage, half)
    if masses_of_stage is None:
        return None
    return Lattice(-stage.pure(), stage.pure() / half, masses_of_stage, count)


def stage_masses(stage: GumbelStage, half: int) -> tuple[float, ...] | None:
    """Return the masses of a law that dominates a stage in either order; None where none is proved.

    They are at the losses -half, ..., half cells; `half` cells are the pure epsilon, and at most
    128.
    """
    width, top = float(stage.epsilon_), round_up(stage.pure())
    if half < 4 or not width * float(1 - stage.start) > _SMALLEST_STAGE or top > _LARGEST_STAGE:
        return None
    ratios = [math.exp(top * j / half) for j in range(half + 1)]
    deltas = [stage_delta(width, stage.start, top * j / half) for j in range(half)] + [0.0]
    # The step of the ratios as a share of them, which loses no digits.
    growth = math.expm1(top / half)
    slopes = [(deltas[j + 1] - deltas[j]) / (growth * ratios[j]) for j in range(half)] + [0.0]
    # Masses are changes of the slope; each is a difference, raised by more than it may have lost
    # ("Chords").
    gains = [
        ratios[j] * max(slopes[j] - slopes[j - 1], 0.0) * (1 + _STAGE_SLACK)
        + _STAGE_SLACK * deltas[j]
        for j in range(1, half + 1)
    ]
    # The curve is its own mirror image, and what is left is the mass of no loss.
    losses = [gain / ratio for gain, ratio in zip(gains, ratios[1:], strict=True)]
    rest = max(0.0, 1 - math.fsum(gains) - math.fsum(losses)) + 2 * _STAGE_SLACK
    return (*reversed(losses), rest, *gains)


def _units_per_nat(lattices: list[Lattice]) -> int | None:
    """Return how many units one nat has, so that all sums fit in 64 bits.

    None if there would be too many points.
    """
    # The 1 is for rounding up: each step and the offset grow by at most one unit.
    total = sum(
        lattice.count * (abs(lattice.offset) + len(lattice.masses) * (lattice.step + 1))
        for lattice in lattices
    )
    # Beyond the largest sum e^loss would leave the floats.
    if (
        sum(
            lattice.count * (lattice.offset + (len(lattice.masses) - 1) * lattice.step)
            for lattice in lattices
        )
        > LARGEST
    ):
        return None
    # The largest sum stays below 2^60 units, which 64 bits hold with room to spare.
    fitting = 1 << 60 - math.ceil(total).bit_length()
    exact = 1
    for lattice in lattices:
        exact = math.lcm(exact, lattice.offset.denominator, lattice.step.denominator)
        if exact > fitting:
            break
    size, span, work = 1, Fraction(0), 0
    for lattice in lattices:
        work += size * lattice.points
        span += (lattice.points - 1) * lattice.step
        size = size * lattice.points
        # Losses are whole units, so that there are no more points than units between their ends.
        if exact <= fitting:
            size = min(size, int(span * exact) + 1)
        if work > WORK:
            return None
    # With the common denominator nothing has to be rounded.
    # With less, `_sum_independent_losses` rounds losses up.
    return min(exact, fitting)


def _sum_independent_losses(lattices: list[Lattice], unit: int) -> LossLaw:
    """Return the law of the sum of independent losses."""
    import numpy as np  # noqa: PLC0415

    keys: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    weights: Floats = np.ones(1)
    lost = 0.0  # relative error of the masses so far
    for lattice in lattices:
        powered = _convolution_power(np.array(lattice.masses), lattice.count)
        # Up, which can only raise delta.
        start, step = (
            math.ceil(lattice.offset * unit) * lattice.count,
            math.ceil(lattice.step * unit),
        )
        own = start + step * np.arange(powered.size, dtype=np.int64)
        summed = np.add.outer(keys, own).ravel()
        keys, where = np.unique(summed, return_inverse=True)
        weights = np.bincount(where, np.multiply.outer(weights, powered).ravel(), keys.size).astype(
            np.float64
        )
        lost += (
            16 * lattice.count + 2 * powered.size * (powered.size.bit_length() + 2) + summed.size
        ) * _UNIT_ROUNDOFF
    positive = keys > 0
    # Losses are rounded up once more as floats; the masses are raised by all that they may have
    # lost.
    losses = keys[positive][::-1].astype(np.float64) / unit * (1 + 2.0**-51)
    return LossLaw(losses, weights[positive][::-1] * (1 + 2 * lost))


def _convolution_power(law: Floats, count: int) -> Floats:
    """Return the `count`-fold convolution of `law`.

    It sums positive products, so that no digits cancel.
    """
    import numpy as np  # noqa: PLC0415

    result, square = np.ones(1), law
    # By squaring: a count of n takes about 2 log2(n) convolutions at most.
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square = np.convolve(square, square)
    return result
