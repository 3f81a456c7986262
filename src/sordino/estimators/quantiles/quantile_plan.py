"""The plan of a quantile: how it is searched for, and what that costs. No rule reads a record.

Claim: what `QuantilePlan` returns costs what it says. Proof: docs/proofs/quantile.md, which also
says where the rules of choice come from. Floats: logarithms of public numbers; they choose, and no
cost depends on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

from sordino.columns.bucket_grid import BucketGrid
from sordino.constraints import Number, to_fraction
from sordino.cost import BoundedRange, Cost, GumbelStage, Pure, Range, compose
from sordino.cost.range import LARGER_FIRST
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch
from sordino.grid import fit_rate
from sordino.mechanisms.crossings.threshold_scan import GumbelScan, ThresholdScan, nested_cost
from sordino.mechanisms.race import Gumbel
from sordino.noise import Geometric

Adjacency = Literal["add-remove", "replace-one"]
SearchNoise = Literal["geometric", "gumbel"]
_EARLY_STOP_NATS = math.log(1000)  # a search may end before the first record once in a thousand
# Below this share of the records, with nothing known of their number, a search from the lowest edge
# passes too few of them.
_SAFE_SHARE = Fraction(1, 20)
# The mean of a standard Gumbel variable: the largest of many exponential ones.
_EULER = 0.5772156649015329
_LARGEST_PLAN_NUMBER = Fraction(1 << 1000)
# Plans of sizes that agree in so many binary digits are the same.
_SIZE_DIGITS = 5


def flips(q: Fraction, epsilon: Fraction, edges: int, size_hint: int | None) -> bool:
    """Return whether permute-and-flip is the better method.

    It is if enough records lie on either side of the quantile to be seen.

    `epsilon` is for each row of a unit.
    """
    # The rule of docs/proofs/quantile.md, "Which way": accuracy depends on it, privacy does not.
    return (
        size_hint is not None
        and _to_float(epsilon * min(q, 1 - q) * size_hint / 2) >= math.log(edges) + 5
    )


def walks_far(share: Fraction, rate: Fraction, edges: int, size_hint: int) -> bool:
    """Return whether a walk past `share` of the records is unlikely to end before the first record.

    Each of the edges may end it with probability e^(-rate share size_hint) at most, `rate` in nats
    a record.
    """
    return _to_float(rate * share * size_hint) >= math.log(edges) + _EARLY_STOP_NATS


def walk_is_safe(share: Fraction, rate: Fraction, edges: int, size_hint: int | None) -> bool:
    """Return `walks_far`; without a size hint a twentieth of the records is taken to be enough."""
    return share >= _SAFE_SHARE if size_hint is None else walks_far(share, rate, edges, size_hint)


def upward(q: Fraction, rate: Fraction, edges: int, size_hint: int | None) -> bool:
    """Return whether to search from the lowest edge up.

    For q >= 1/2, and below that if the walk is safe.

    Upward needs less noise for small q, and passes fewer records.
    """
    return q >= Fraction(1, 2) or walk_is_safe(q, rate, edges, size_hint)


def correction(
    rate: Fraction, threshold_rate: Fraction, step: float, size_hint: int | None
) -> float:
    """Return by how many records the threshold is raised.

    A search then ends near its target on average. Where more than `rate` edges come on each record,
    the largest noise of many tests ends a search early, and that of the threshold late. The edges
    for each record are guessed: `size_hint` records over values that differ by a factor e, with
    edges a step of this logarithm apart. Rates in nats a record.
    """
    crowding = count_crowding(rate, step, size_hint)
    return (
        (math.log(crowding) + _EULER) / float(rate) - 1 / float(threshold_rate)
        if crowding > 1
        else 0.0
    )


def count_crowding(rate: Fraction, step: float, size_hint: int | None) -> float:
    """Return about how many edges lie where the noise still decides, 0 where nothing is known."""
    if size_hint is None:
        return 0.0
    return 1 / (_to_float(Fraction(size_hint)) * step * float(rate))


def find_step(growth: Number, cuts: int) -> float:
    """Return about the logarithm of the factor between edges, each step being cut in parts."""
    return math.log1p(_to_float(to_fraction(growth) - 1)) / cuts


def choose_cuts(records: float, growth: Number, most: int) -> int:
    """Return into how many parts the steps of a grid are cut: a divisor of the most there may be.

    So that about one record lies between two edges at a place with so many `records` over values
    that differ by a factor e; or as many as the noise blurs, if they are given in that unit.
    """
    wanted = max(records * find_step(growth, 1), 1.0)
    # Halves of the most, and powers of two.
    halved = [most >> bit for bit in range(most.bit_length()) if not most % (1 << bit)]
    known = [*halved, *(1 << bit for bit in range(len(halved)))]
    return min(known, key=lambda cuts: (abs(math.log(cuts / wanted)), cuts))


def round_size(records: int) -> int:
    """Return a number of records with few binary digits, at least 1, which plans are made for."""
    size = max(1, records)
    spare = max(0, size.bit_length() - _SIZE_DIGITS)
    return (size + (1 << spare >> 1)) >> spare << spare


def _to_float(number: Fraction) -> float:
    return float(min(number, _LARGEST_PLAN_NUMBER))


@final
@dataclass(frozen=True)
class QuantilePlan:
    """What is done for public parameters, and what it costs.

    Attributes
    ----------
    q, ratio : Fraction
        The share of the records below the quantile, and e1/e2.
    grid : BucketGrid
    step : float
        About the logarithm of the factor between two edges.
    hint : int or None
        About how many records there are.
    rows : int
        How many records one unit has at most.
    adjacency : {"add-remove", "replace-one"}
    noise : {"geometric", "gumbel"}
        Of the tests and of the threshold.
    guided : bool
        Whether the hint chooses directions and how both signs are searched. If not, it moves
        thresholds alone, and no cost follows from it.
    """

    q: Fraction
    grid: BucketGrid
    step: float
    hint: int | None
    rows: int
    adjacency: Adjacency
    ratio: Fraction
    noise: SearchNoise = "geometric"
    guided: bool = True

    def choose(
        self, budget: Fraction, *, exponential: bool
    ) -> tuple[tuple[RankChoice], Pure | BoundedRange]:
        """Return the choice among all buckets, by the exponential mechanism or permute-and-flip."""
        # Depths of two buckets move apart by at most `spread` lattice steps.
        a, b = self.q.as_integer_ratio()
        # Twice the h of docs/proofs/quantile.md, "Permute-and-flip", for either kind of neighbors.
        spread = 2 * self.rows * (max(a, b - a) if self.adjacency == "add-remove" else b)
        rate = fit_rate(budget / spread, "Quantile", stepped=False)
        cost = BoundedRange if exponential else Pure
        return (RankChoice(b, a, rate, exponential),), cost(epsilon=spread * rate)

    def find_with_gumbel(
        self, budget: Fraction, *, signed: bool
    ) -> tuple[tuple[RankSearch | RankChoice, ...], Cost]:
        """Return the search or the choice with Gumbel noise, whichever is nearer at equal rho.

        The rule is that of docs/proofs/quantile.md, "A choice with Gumbel noise".
        """
        parts, cost = self.searches(budget, signed=signed)
        middle = self.adjacency == "add-remove" and abs(self.q - Fraction(1, 2)) < Fraction(1, 4)
        return self.choose(budget, exponential=True) if middle or len(parts) > 1 else (parts, cost)

    def searches(self, budget: Fraction, *, signed: bool) -> tuple[tuple[RankSearch, ...], Cost]:
        """Return one search, or with both signs and no safe walk two from 0.

        The second one is for the case of need.
        """
        size, hint = self.grid.size, self.hint if self.guided else None
        up = (
            self.q >= Fraction(1, 2)
            if signed
            else upward(self.q, self._unit(budget, up=True) / self.rows, size, hint)
        )
        # With both signs the walk goes up from q = 1/2 on, else down: it passes the larger share
        # either way.
        share = max(self.q, 1 - self.q)
        if not signed or (
            hint and walks_far(share, self._unit(budget, up=up) / self.rows, size, hint)
        ):
            return self._composed(self._search(self._unit(budget, up=up), up, 0, size))
        # The grid is symmetric around 0, its middle edge, where both searches begin.
        zero = (size - 1) // 2
        ends = {True: (zero, size), False: (0, zero + 1)}
        if self.noise == "gumbel":
            # Two stages, of which the second is chosen after the first.
            return self._composed(
                *(
                    self._search(self._unit(budget / 2, up=way), way, *ends[way])
                    for way in (up, not up)
                )
            )
        both = BothSides(share, self.adjacency, self.rows)
        one, other = both.units(budget, self.ratio)
        parts = self._search(one, up, *ends[up]), self._search(other, not up, *ends[not up])
        # From the rates that are used, which may be smaller than those that were asked for.
        first, second = (self._rates(part) for part in parts)
        return parts, both.cost(first, second)

    def pair(self, budget: Fraction) -> tuple[tuple[RankSearch, ...], Cost]:
        """Return a search up over all edges and one down, both made in any case."""
        size = self.grid.size
        if self.noise == "geometric" and self.adjacency == "replace-one" and self.rows > 1:
            # What raises the answers of one search lowers those of the other, so that both
            # thresholds are never paid in full (docs/proofs/quantile-interval.md).
            unit = budget / (self.ratio + 2)
            parts = tuple(self._search(unit, up, 0, size) for up in (True, False))
            (u1, u2), (d1, d2) = (self._rates(part) for part in parts)
            return parts, Pure(epsilon=max(u1, d1) + u2 + d2)
        # Each with half of the budget.
        return self._composed(
            *(self._search(self._unit(budget / 2, up=up), up, 0, size) for up in (True, False))
        )

    def _composed(self, *parts: RankSearch) -> tuple[tuple[RankSearch, ...], Cost]:
        costs = [self._cost(*self._rates(part), up=part.upward) for part in parts]
        return parts, costs[0] if len(costs) == 1 else compose(*costs)

    def _search(self, unit: Fraction, up: bool, first: int, last: int) -> RankSearch:
        """Return a search over edges `first` to `last` - 1 with e2 = `unit` for a whole unit."""
        a, b = self.q.as_integer_ratio()
        limit, rate = (
            fit_rate(e / (b * self.rows), "Quantile", stepped=False)
            for e in (self.ratio * unit, unit)
        )
        scan: ThresholdScan | GumbelScan
        if self.noise == "gumbel":
            # The place where such a search ends has a logistic law, which is moved to the target.
            crowding = max(1.0, count_crowding(b * rate, self.step, self.hint))
            scan = GumbelScan(round(math.log(crowding) / float(rate)), Gumbel(rate))
        else:
            threshold = round(b * correction(b * rate, b * limit, self.step, self.hint))
            scan = ThresholdScan(threshold, Geometric(limit), Geometric(rate))
        return RankSearch(up, first, last, -1, self.grid.size, b, a if up else b - a, 0, scan)

    def _unit(self, budget: Fraction, *, up: bool) -> Fraction:
        """Return e2 for a whole unit.

        Costs are proportional to the rates, so one division finds it.
        """
        return budget / Fraction(self._cost(self.ratio, Fraction(1), up=up).pure())

    def _cost(self, limit: Fraction, unit: Fraction, *, up: bool) -> Range | Pure | GumbelStage:
        """Return the cost of a search with e1 = `limit` and e2 = `unit`, each for a whole unit."""
        if self.noise == "gumbel":
            # A unit that comes or goes moves all answers within an interval, in which no move lies
            # at q of its length. Of one that has other records it may lie anywhere.
            start = min(self.q, 1 - self.q) if self.adjacency == "add-remove" else Fraction(0)
            return GumbelStage(epsilon=unit, start=start)
        # Downward a search counts from the other end, which is the mirrored column with 1 - q in
        # place of q.
        offset = self.q if up else 1 - self.q
        if self.adjacency == "add-remove":
            return nested_cost(limit, unit, offset, orientation=LARGER_FIRST)
        if self.rows > 1:
            # A unit that has several other records may lose this much in either order.
            return Pure(epsilon=limit + unit)
        # This also covers a record that only one of the two data sets has, as where a predicate
        # drops it.
        return Range(low=max(unit, (1 - offset) * limit), high=limit + unit)

    def _rates(self, part: RankSearch) -> tuple[Fraction, Fraction]:
        """Return e1 and e2 of a search, for a whole unit."""
        steps, scan = part.weight * self.rows, part.scan
        limit = scan.threshold_noise if isinstance(scan, ThresholdScan) else scan.noise
        return limit.rate * steps, scan.noise.rate * steps


@final
@dataclass(frozen=True)
class BothSides:
    """Two searches that begin at 0, the second only if the first one ended at its first test.

    Attributes
    ----------
    share : Fraction
        The share of the records that the first search counts until it stops, at least 1/2: q
        upward, 1 - q downward.
    adjacency : {"add-remove", "replace-one"}
    rows : int
        How many records one unit has at most.
    """

    share: Fraction
    adjacency: Adjacency
    rows: int

    def units(self, budget: Fraction, ratio: Fraction) -> tuple[Fraction, Fraction]:
        """Return e2 of the first search and of the second one, each for a whole unit.

        The first is as large as it may be, the second as what is left allows. Neither is smaller
        than what half of the budget would allow it by itself.
        """
        p = self.share
        # Which part of its threshold's rate a search costs (docs/proofs/quantile.md, "Two
        # searches").
        ours, theirs = (p, 1 - p) if self.adjacency == "add-remove" else (Fraction(1), Fraction(1))
        # The second number leaves the second search half of the budget.
        first = budget / max(1 + ours * ratio, 2 * theirs)
        # Either end of the interval may be the larger one. Without the second limit quantiles far
        # from the middle, and large ratios, would cost more than the budget: half more for q = 1
        # and equal rates.
        second = min((budget - theirs * first) / (1 + theirs * ratio), (budget / p - first) / ratio)
        return first, second

    def cost(
        self, first: tuple[Fraction, Fraction], second: tuple[Fraction, Fraction]
    ) -> Range | Pure:
        """Return what both lose, from e1 and e2 of each, for a whole unit."""
        (u1, u2), (d1, d2), p = first, second, self.share
        # A unit that has other records may lower the first test, and move the second search both
        # ways.
        moved = max(u1 + u2, u2 + d1 + d2)
        if self.adjacency == "replace-one" and self.rows > 1:
            return Pure(epsilon=moved)
        high = max(p * u1 + u2, (1 - p) * (u2 + d1) + d2)
        low = max((1 - p) * u1, p * (u2 + d1), (1 - p) * d2)
        if self.adjacency == "add-remove":
            return Range(low=low, high=high, orientation=LARGER_FIRST)
        # One record that moves, or one that only one of the two data sets has, as where a predicate
        # drops it.
        return Range(low=max(u1 + u2, d2, low), high=max(u2 + d1 + d2, high))
