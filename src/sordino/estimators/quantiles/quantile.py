"""A quantile of a column without a guessed range.

A noisy search over the edges of a geometric grid.

Claim: one search over counts below rising edges less q for every record has its loss in [-max(q e2,
(1 - q) e1), q e1 + e2] under add-remove and costs e1 + e2 under replace-one, e1 and e2 the rates
times the rows of a unit [durfee2023, Lemma B.1]; two searches from 0, the second only if the first
ended there, lose less than the sum of both; permute-and-flip over the buckets is epsilon-private
[mckenna2020, Thm 1]. Proof: docs/proofs/quantile.md. Noise: one-sided geometric on a lattice of 1/b
records, q = a/b, or Gumbel of one rate, a stage for each search; runs of empty buckets cost no
draws. Floats: the edges, which are public, and what is computed from the edge or bucket that was
found; with Gumbel noise they propose where it is. No count and no cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.constraints import (
    POSITIVE,
    PROPORTION,
    TRUTH,
    Number,
    OrNone,
    one_of,
    shown,
    to_fraction,
)
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.estimators.column_release import ColumnRelease, Weights
from sordino.estimators.quantiles.column_quantiles import ColumnQuantiles
from sordino.estimators.quantiles.quantile_plan import QuantilePlan, SearchNoise, find_step, flips
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch, Runs, find_each
from sordino.population import Population
from sordino.releases import HasEstimate

CONFIDENCE = 0.95
SEARCH_NOISE = one_of("geometric", "gumbel")
SEARCH_NOISE_MEANS = (
    "Of a search and of its threshold: one-sided geometric, or Gumbel, which costs less where a "
    "delta or a rho is counted (`cost.GumbelStage`), and more of a pure epsilon."
)
# Noise is drawn in steps of 1/b of a record for q = a/b, so b must not be too large
# (docs/proofs/quantile.md, "What is played").
_QUANTILE_DENOMINATOR = 1 << 20


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantileValue(HasEstimate, ColumnRelease):
    """A quantile, as far as the grid says.

    Attributes
    ----------
    value : float
        An edge of the grid, or with permute-and-flip the middle between two edges; in the unit of
        the values. `estimate` is the same.
    capped : bool
        True if the quantile may lie beyond the cap (with `lower=None`: beyond either end); the
        value is that end then.
    rank_error_low, rank_error_high : float
        With probability at least 95% the rank of the value lies between target + low and target +
        high, in records; low <= 0 <= high. Records that share the bucket of the target rank, or the
        bucket next to the value on the side of the target, count as lying at the target; with
        permute-and-flip those that share the bucket of the value, and no others. Buckets are those
        of `searched_grid`. The rank itself is not public where the number of records is not.
    low, high : float or None
        With an interval (`Session.quantile`): ends that the quantile lies between with 95%, in the
        unit of the values; the value lies there, too. None without one.
    true_low, true_high : float or None
        The same for the quantile of all rows. In a session with `max_rows` rows are left out, and
        nothing is known of them: then these ends are infinite.
    too_few : bool or None
        Whether the interval leaves out less than a tenth of the edges of the whole grid: then there
        are too few records to tell the quantile.
    records : int or None
        About how many records with a number there are, where the grid follows from that: with its
        noise, which is much larger than that of the rank. None where nothing was spent on it.
    limited_by_grid : bool or None
        Whether so many records could be told apart better than the edges are; then the bucket of
        the value holds many of them. None where the grid does not follow from their number.
    weights : Weights or None
        Where all rows of people count (`Session.quantile` with a unit column and no `max_rows`):
        how they were weighed. Then it is a quantile of rows with these weights, and records are
        such rows.

    Examples
    --------
    >>> import sordino as sd
    >>> median = sd.Quantile(q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=1000)
    >>> found = median.release(range(1000), entropy=sd.Seeded(7))
    >>> found.capped, found.rank_error_low < 0 < found.rank_error_high
    (False, True)
    """

    value: float
    capped: bool
    rank_error_low: float
    rank_error_high: float
    low: float | None = None
    high: float | None = None
    records: int | None = None
    limited_by_grid: bool | None = None
    size: int | None = field(default=None, repr=False)
    """What the grid follows from, where it is counted in steps of weights; else None."""
    weights: Weights | None = field(default=None, repr=False)

    def take_population(self, population: Population) -> None:
        """Take what says of whom it is, and add how rows were weighed."""
        super().take_population(
            population if self.weights is None else self.weights.tell(population)
        )

    @property
    def searched_grid(self) -> BucketGrid:
        """The grid that was searched: some of the edges, where it follows from `records`.

        A function of what was released.
        """
        first = self.mechanism[0] if isinstance(self.mechanism, tuple) else self.mechanism
        # Where the number was public there is a hint instead.
        size = first.size_hint if self.records is None else self.size or self.records
        grid: BucketGrid = (first if size is None else first.for_size(size)).grid
        return grid

    def _own(self) -> dict[str, Any]:
        # Of a grid that was given whole nothing is said of either.
        unsaid = {name for name in ("records", "limited_by_grid") if getattr(self, name) is None}
        return {name: value for name, value in super()._own().items() if name not in unsaid}

    @property
    def true_low(self) -> float | None:
        """The lower end for all rows; None without an interval."""
        return -math.inf if self.low is not None and self.leaves_rows_out else self.low

    @property
    def true_high(self) -> float | None:
        """The upper end for all rows; None without an interval."""
        return math.inf if self.high is not None and self.leaves_rows_out else self.high

    @property
    def too_few(self) -> bool | None:
        """Whether the interval leaves hardly anything out; None without an interval."""
        if self.low is None or self.high is None:
            return None
        # Where there are intervals, what releases the quantiles is the first of several mechanisms.
        first = self.mechanism[0] if isinstance(self.mechanism, tuple) else self.mechanism
        # Edges lie closer where values are small, as people tell them apart: in steps of a factor.
        # An interval says something if it leaves out one in ten of them.
        edges = first.grid.edges
        inside = edges.searchsorted(self.high, "right") - edges.searchsorted(self.low)
        return bool(10 * inside > 9 * edges.size)


@final
class Quantile(ColumnQuantiles[QuantileValue]):
    """Release a quantile of a column without a range to guess.

    The value is found on a grid: its steps are fine near `lower`, and grow by a constant factor far
    from it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or the cap is not above `lower`.

    Examples
    --------
    >>> import sordino as sd
    >>> incomes = [21_000, 34_000, 28_500, 90_000, 45_000] * 400
    >>> median = sd.Quantile(
    ...     q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=1e9, growth=1.05
    ... )
    >>> 30_000 < median.release(incomes, entropy=sd.Seeded(7)).value < 40_000
    True
    """

    q: Number = parameter(
        PROPORTION,
        "The share of the records below the value; taken as the nearest fraction with a "
        "denominator of at most 2^20.",
    )
    method: Literal["above-threshold", "permute-and-flip", "exponential"] | None = parameter(
        OrNone(one_of("above-threshold", "permute-and-flip", "exponential")),
        "None: permute-and-flip if the size hint says that epsilon min(q, 1 - q) size_hint / "
        "(2 rows_per_unit) >= ln(edges) + 5, else above-threshold. With Gumbel noise the one of "
        "above-threshold and exponential that is nearer at equal rho: exponential for q between "
        "1/4 and 3/4, and where `lower` is None and two searches would be needed.",
        default=None,
    )
    ratio: Number = parameter(
        POSITIVE,
        "e1/e2, for above-threshold: more means fewer values far beyond the target, and more noise "
        "near it. With Gumbel noise both are equal.",
        default=1,
    )
    search_noise: SearchNoise = parameter(
        SEARCH_NOISE,
        f"{SEARCH_NOISE_MEANS} The method exponential has Gumbel noise in either case.",
        default="geometric",
    )
    hint_guides: bool = parameter(
        TRUTH,
        "Whether the size hint chooses directions and the number of searches. If not, it moves "
        "thresholds alone, and no cost follows from it.",
        default=True,
    )
    parts: tuple[RankSearch | RankChoice, ...] = derived(
        "What is done, in this order: one search over all edges, or one choice among all buckets; "
        "with `lower=None` and no size hint that allows one search, a search from 0, up for q >= "
        "1/2 and else down, and if that ends at its first test one from 0 the other way."
    )

    def derive(self) -> None:
        """Choose the method, and set what it does and costs."""
        super().derive()
        share = share_of(self.q)
        budget, rows = to_fraction(self.epsilon), self.rows_per_unit
        step, ratio = find_step(self.growth, self.cuts), to_fraction(self.ratio)
        # All that follows is chosen from public numbers (docs/proofs/quantile.md, "Which way").
        plan = QuantilePlan(
            share,
            self.grid,
            step,
            self.size_hint,
            rows,
            self.adjacency,
            ratio,
            self.search_noise,
            self.hint_guides,
        )
        parts: tuple[RankSearch | RankChoice, ...]
        method, signed = self.method, self.lower is None
        if self.search_noise == "gumbel":
            self._check_gumbel(ratio)
        elif method is None and flips(share, budget / rows, self.grid.size, self.size_hint):
            method = "permute-and-flip"
        if method is None and self.search_noise == "gumbel":
            parts, cost = plan.find_with_gumbel(budget, signed=signed)
        elif method is None or method == "above-threshold":
            parts, cost = plan.searches(budget, signed=signed)
        else:
            parts, cost = plan.choose(budget, exponential=method == "exponential")
        self._set(parts=parts, cost=cost)

    @property
    def deviation(self) -> float:
        """How wide the noise of the first search, or of the choice, is, in records."""
        return self.parts[0].deviation

    def _check_gumbel(self, ratio: Fraction) -> None:
        """Refuse what the price of Gumbel noise is not proved for."""
        if ratio != 1:
            raise InvalidParameter(
                "Quantile.ratio must be 1 with Gumbel noise, whose price is that of equal rates; "
                f"got {shown(self.ratio)}."
            )
        if self.method == "permute-and-flip":
            raise InvalidParameter(
                "Quantile.search_noise must be geometric with permute-and-flip, which has noise of "
                "its own; got 'gumbel'. Leave out one of them."
            )

    def _release_counts(
        self, counts: Sequence[BucketCounts], entropy: Entropy
    ) -> list[QuantileValue]:
        runs = [Runs.of(one) for one in counts]
        found = [(0, edge) for edge in self._find_each(0, runs, entropy)]
        # Both were paid for in any case, and whether the second is made depends on a released edge
        # only (docs/proofs/quantile.md, "Two searches").
        going = [column for column, (_, edge) in enumerate(found) if self.goes_on(edge)]
        if going:
            second = self._find_each(1, [runs[column] for column in going], entropy)
            for column, edge in zip(going, second, strict=True):
                found[column] = 1, edge
        return [self._value(place, edge, simulated=entropy.simulated) for place, edge in found]

    def _find_each(self, place: int, runs: Sequence[Runs], entropy: Entropy) -> list[int]:
        """Return what a part finds in each column."""
        part = self.parts[place]
        if isinstance(part, RankChoice):
            return [part.find(one, entropy) for one in runs]
        return find_each([part] * len(runs), runs, entropy)

    def _value(self, place: int, found: int, *, simulated: bool) -> QuantileValue:
        """Return what is released where a part found this.

        Computed of it and of public parameters.
        """
        part = self.parts[place]
        low, high = self.errors(found, place)
        return QuantileValue(
            value=self.value_of(found, None if isinstance(part, RankChoice) else part.upward),
            capped=beyond(
                found,
                self.grid,
                isinstance(part, RankChoice) or part.upward,
                signed=self.lower is None,
            ),
            rank_error_low=low,
            rank_error_high=high,
            mechanism=self,
            cost=self.cost,
            simulated=simulated,
        )

    def goes_on(self, edge: int) -> bool:
        """Return whether a second search follows the first one, which found `edge`.

        It does if there is one, and the first search ended at its first test: no other edge may
        lead on, or both together lose more than they cost.
        """
        first = self.parts[0]
        return len(self.parts) > 1 and isinstance(first, RankSearch) and edge == first.edge(0)

    def errors(self, edge: int, place: int = 0) -> tuple[float, float]:
        """Return the rank errors, low and high, of what part `place` found.

        They are a function of public values alone.

        `edge` is the edge where a search ended; of a bucket, which is chosen among all, they do not
        depend on it.
        """
        part = self.parts[place]
        # Each search has two bounds, and two searches share the 5%.
        wrong = (1 - CONFIDENCE) / (2 * len(self.parts))
        if isinstance(part, RankChoice):
            # Of K + 1 buckets K at most do not hold the target.
            # One bound with the whole 5%: the depth of a bucket bounds both sides at once.
            farther = part.error(self.grid.size, 1 - CONFIDENCE)
            return -farther, farther
        short, over = part.errors(edge, wrong)
        before = self.parts[0]
        # Both searches ended at their first test: each bounds one side.
        if place and edge == part.edge(0) and isinstance(before, RankSearch):
            over = before.errors(edge, wrong)[0]
        # Upward too few records lie below the edge by `short` at most, too many by `over` at most.
        return (0.0 - short, over) if part.upward else (0.0 - over, short)


def share_of(q: Number) -> Fraction:
    """Return q as the fraction that is meant.

    Its denominator is how many steps of noise a record has.
    """
    return to_fraction(q).limit_denominator(_QUANTILE_DENOMINATOR)


def beyond(edge: int, grid: BucketGrid, upward: bool, *, signed: bool) -> bool:
    """Return whether the quantile may lie beyond the cap, or, with both signs, beyond either end.

    Upward an edge is reached if enough records lie below it, downward if enough lie at or above it:
    the first and the last edge say different things. A bucket says what its upper edge says upward;
    the last one has none, as a search that reached no edge.
    """
    # At the top: upward no test passed (K), downward the first one did (K - 1). At the bottom it is
    # the mirror image.
    return edge >= grid.size - (not upward) or (signed and edge < upward)


# Its grid by powers of two has 60 edges: a run of equal counts that approaches the cost.
_FAR_CAP = 1 << 60
_LONG_GRID: dict[str, Any] = {"lower": 0, "cap": _FAR_CAP, "growth": 2}
_SHORT_GRID: dict[str, Any] = {"lower": 0, "cap": 7, "growth": 2, "epsilon": 2}
_FLIPS: dict[str, Any] = {**_LONG_GRID, "epsilon": 2, "method": "permute-and-flip"}
_GUMBEL: dict[str, Any] = {"search_noise": "gumbel", "method": "above-threshold"}
# One record more in the middle of a long run of equal counts.
_BETWEEN_RUNS = (
    (0,) * 4 + (_FAR_CAP,) * 4,
    (0,) * 4 + (_FAR_CAP // 2,) + (_FAR_CAP,) * 4,
)
# One record that moves there from below all edges.
_UP_TO_A_RUN = ((0,) * 5 + (_FAR_CAP,) * 4, _BETWEEN_RUNS[1])
_BOTH_CAP = (1 << 31) - 1  # by powers of two 31 edges on either side of 0
_BOTH_SIDES: dict[str, Any] = {"lower": None, "cap": _BOTH_CAP, "growth": 2, "epsilon": 3}
_NEAR_CAP = 3 << 29  # in the last bucket before the cap
_AROUND_0 = ((-_NEAR_CAP, -_FAR_CAP, _FAR_CAP, _FAR_CAP), (-_FAR_CAP, _FAR_CAP, _FAR_CAP))
_claim = ClaimsAbout("Quantile", proof="quantile.md")
CLAIMS = (
    _claim(
        "The edge that a search ends at is private for what the counts below rising edges, less q "
        "for every record, lose.",
        ("durfee2023, Lemma B.1", "durfee2023, Cor. A.1 and A.2"),
        (Quantile(q=0.5, epsilon=3, adjacency="add-remove", **_LONG_GRID), *_BETWEEN_RUNS),
        (
            Quantile(q=0.25, epsilon=3, adjacency="add-remove", ratio=4, **_LONG_GRID),
            (0,) + (_FAR_CAP,) * 3,
            (0,) * 2 + (_FAR_CAP,) * 3,
        ),
        (Quantile(q=0.5, epsilon=2, adjacency="replace-one", **_LONG_GRID), *_UP_TO_A_RUN),
        (Quantile(q=0, adjacency="add-remove", **_SHORT_GRID), (4,), (2, 4)),
        tight=True,
    ),
    _claim(
        "Two searches from 0, the second only if the first ended at its first test, lose less than "
        "both by themselves.",
        ("durfee2023, Lemma B.1",),
        (Quantile(q=0.5, adjacency="add-remove", **_BOTH_SIDES), *_AROUND_0),
        (
            Quantile(q=0.9, adjacency="add-remove", **_BOTH_SIDES),
            (_FAR_CAP,) * 3,
            (_FAR_CAP,) * 2,
        ),
        (
            Quantile(q=0.25, adjacency="add-remove", ratio=4, **_BOTH_SIDES),
            (-_FAR_CAP,) * 3,
            (-_FAR_CAP,) * 2,
        ),
        (
            Quantile(q=0.5, adjacency="replace-one", **_BOTH_SIDES),
            (-_NEAR_CAP, _FAR_CAP, _FAR_CAP),
            (_FAR_CAP,) * 3,
        ),
        tight=True,
    ),
    _claim(
        "The bucket that permute-and-flip chooses is epsilon-differentially private.",
        ("mckenna2020, Thm 1",),
        (
            Quantile(q=0.5, adjacency="add-remove", **_FLIPS),
            (0,) + (1,) * 2 + (_FAR_CAP,) * 2,
            (1,) * 2 + (_FAR_CAP,) * 2,
        ),
        (
            Quantile(q=0.75, adjacency="replace-one", **_FLIPS),
            (0,) * 3 + (1,) * 4 + (_FAR_CAP,),
            (0,) * 2 + (1,) * 4 + (_FAR_CAP,) * 2,
        ),
    ),
    _claim(
        "With Gumbel noise of one rate the edge of a search has the Rényi divergences and deltas "
        "of one stage, which starts at q of the way that answers move.",
        ("durfee2023, Lemma B.1", "durfee2023, Thm 1"),
        (
            Quantile(q=0.5, epsilon=3, adjacency="add-remove", **_GUMBEL, **_LONG_GRID),
            *_BETWEEN_RUNS,
        ),
        (
            Quantile(q=0.25, epsilon=3, adjacency="replace-one", **_GUMBEL, **_LONG_GRID),
            *_UP_TO_A_RUN,
        ),
        (
            Quantile(q=0.5, adjacency="add-remove", **_GUMBEL, **_BOTH_SIDES),
            *_AROUND_0,
        ),
    ),
    _claim(
        "The bucket that the exponential mechanism chooses has bounded range, of twice as far as a "
        "unit moves the depth of a bucket.",
        ("mcsherry2007, Thm 6", "dong2020"),
        (
            Quantile(q=0.5, epsilon=3, adjacency="add-remove", method="exponential", **_LONG_GRID),
            *_BETWEEN_RUNS,
        ),
        (
            Quantile(
                q=0.25, epsilon=3, adjacency="replace-one", method="exponential", **_LONG_GRID
            ),
            *_UP_TO_A_RUN,
        ),
        (
            Quantile(q=0.9, adjacency="add-remove", search_noise="gumbel", **_BOTH_SIDES),
            *_AROUND_0,
        ),
    ),
)
