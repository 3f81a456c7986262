"""Several quantiles of one column: the middle one splits the records, and each half is split again.

Claim: a record is in one search of each level, so L levels cost a noisy number of records and L
times e under add-remove, L times 2e under replace-one, where the number, at the rate e, is in the
price of the levels; e is the rate times the rows of a unit [durfee2023, Lemma B.2 and Sec. B.3;
kaplan2022]. Proof: docs/proofs/quantiles.md. Noise: one-sided geometric on whole counts; discrete
Laplace on the number of records with a number. Floats: the edges, which are public, and what is
computed from the edges that were found; no count, no cost and no comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, cast, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.constraints import PROPORTION, TRUTH, Number, shown, to_fraction
from sordino.cost import Cost, Pure, compose, repeat
from sordino.declared import Converted, derived, parameter
from sordino.entropy import Entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.column_release import NumbersShare
from sordino.estimators.quantiles.column_quantiles import ColumnQuantiles, group_by_plan
from sordino.estimators.quantiles.quantile import CONFIDENCE, QuantileValue, beyond
from sordino.estimators.quantiles.quantile_plan import (
    choose_cuts,
    correction,
    find_step,
    round_size,
    walk_is_safe,
)
from sordino.estimators.quantiles.rank_search import RankSearch, Runs, find_each
from sordino.grid import fit_rate
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan, nested_cost
from sordino.noise import DiscreteLaplace, Geometric
from sordino.population import Population
from sordino.receipt import Receipt
from sordino.tabular import Row, Tabular

# The same fractions as for one quantile.
_SHARE_DENOMINATOR = 1 << 20


@final
class QuantileValues(Tabular):
    """The quantiles of one release, in rising order: values with one mechanism and one cost.

    It has a length, can be indexed and iterated over, and taken apart: `low, middle, high = found`.
    The cost of each value is that of the whole release: they are not sold apart.

    Parameters
    ----------
    values : iterable of QuantileValue
        One at least.

    Examples
    --------
    >>> import sordino as sd
    >>> quartiles = sd.Quantiles(
    ...     q=(0.25, 0.5, 0.75), epsilon=3, adjacency="add-remove", lower=0, cap=1e6
    ... )
    >>> found = quartiles.release(range(1000), entropy=sd.Seeded(7))
    >>> len(found), found.simulated, found.cost == quartiles.cost
    (3, True, True)
    """

    # No tuple: frames take a tuple for a list of columns, and would not ask for its rows.
    __slots__ = ("_values",)

    def __init__(self, values: Iterable[QuantileValue]) -> None:
        self._values = tuple(values)

    def __iter__(self) -> Iterator[QuantileValue]:
        """Iterate over the values."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    def __getitem__(self, place: int) -> QuantileValue:
        """Return the value of one quantile, by its place."""
        return self._values[place]

    def __repr__(self) -> str:
        return f"QuantileValues({', '.join(map(repr, self._values))})"

    @property
    def mechanism(self) -> Any:
        """The mechanism with its public parameters."""
        return self[0].mechanism

    @property
    def cost(self) -> Cost:
        """What the release spent, all values together."""
        return self[0].cost

    @property
    def simulated(self) -> bool:
        """True if the noise came from a seed."""
        return self[0].simulated

    @property
    def exact(self) -> bool:
        """True: the law computed in the audit is the law that is sampled."""
        return True

    @property
    def numbers_share(self) -> NumbersShare | None:
        """How many rows held a number, which is told once for all values; None if nobody looked."""
        return self[0].numbers_share

    @property
    def receipt(self) -> Receipt | None:
        """Where the ledger has the charge of all values together."""
        return self[0].receipt

    @property
    def confidence(self) -> float:
        """Of the interval of each value, and of how far its rank may lie."""
        return self[0].confidence

    @property
    def population(self) -> Population | None:
        """Of whom all values together are."""
        return self[0].population

    @property
    def records(self) -> int | None:
        """About how many records with a number there are, where the grid follows from that."""
        return self[0].records

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge, which all values share."""
        for value in self:
            value.take_receipt(receipt)

    def take_population(self, population: Population) -> None:
        """Take what says of whom the release is, which all values share."""
        for value in self:
            value.take_population(population)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        listed = [value.to_dict() for value in self]
        shared = ("mechanism", "cost", "simulated", "exact", "receipt", "population", "confidence")
        common = {name: listed[0][name] for name in shared if name in listed[0]}
        own = [
            {name: value for name, value in one.items() if name not in {"type", *common}}
            for one in listed
        ]
        return {"type": "QuantileValues", "values": own, **common}

    def list_rows(self) -> list[Row]:
        """Return one row for each quantile."""
        # Where there are intervals, what releases the quantiles is the first of several mechanisms.
        first = self.mechanism[0] if isinstance(self.mechanism, tuple) else self.mechanism
        return [
            {"q": float(q)} | record
            for q, value in zip(first.q, self, strict=True)
            for record in value.list_rows()
        ]


class Place(NamedTuple):
    """Where the records were split, or an end of the grid.

    `number` counts the quantiles from 1 (0 and m + 1 are the ends), `edge` the edges from 0 (-1 and
    K are the ends); the rank of the edge lies between its target + `low` and its target + `high`.
    `upward` says whether the search for it went upward.
    """

    number: int
    edge: int
    upward: bool
    low: float = 0.0
    high: float = 0.0


class _Walk(NamedTuple):
    """Between which places the records of a column are split, for which ranks; private."""

    below: Place
    above: Place
    targets: tuple[int, ...]
    runs: Runs


def _check_rising(name: str, value: Any) -> tuple[Number, ...]:
    """Return several quantiles as they were given, or raise `InvalidParameter`."""
    given = (
        tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else ()
    )
    # They are compared as they will be used: two that round to one fraction are refused.
    shares = [
        PROPORTION(f"Each of {name}", one).limit_denominator(_SHARE_DENOMINATOR) for one in given
    ]
    if not shares or any(one >= other for one, other in pairwise(shares)):
        raise InvalidParameter(
            f"{name} must be at least one number in [0, 1], strictly rising, and no two closer "
            "than 2^-20; got "
            f"{shown(value) if not shares else 'numbers in another order, or equal ones'}. For one "
            "quantile there is Quantile."
        )
    return given


@final
class Quantiles(ColumnQuantiles[QuantileValues]):
    """Release several quantiles of a column for the budget of ceil(log2(m + 1)) searches.

    There is no range to guess.

    For one quantile take `Quantile`. Where very many records share one value, a quantile may come
    out as its neighbor among `q`.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> quartiles = sd.Quantiles(
    ...     q=(0.25, 0.5, 0.75), epsilon=3, adjacency="add-remove", lower=0, cap=1e6
    ... )
    >>> [round(found.value, -1) for found in quartiles.release(range(1000), entropy=sd.Seeded(7))]
    [250.0, 500.0, 750.0]
    """

    q: Converted[Iterable[Number], tuple[Number, ...]] = parameter(
        _check_rising,
        "In [0, 1], strictly rising; each is taken as the nearest fraction with a denominator "
        "of at most 2^20.",
    )
    adapts: bool = parameter(
        TRUTH,
        "Whether the noisy number of records, which is released in any case, says how fine the "
        "grid is, up to `cuts`, and corrects thresholds; or the size hint, if there is one.",
        default=False,
    )
    levels: int = derived("How many searches each record is in.")
    noise: Geometric = derived("The law of the noise of thresholds and counts, in records.")
    size_noise: DiscreteLaplace = derived(
        "The law of the noise of the number of records that hold a number, which is always private."
    )
    threshold_correction: int = derived(
        "By how many records thresholds are raised, so that searches end near their targets on "
        "average; 0 without a size hint."
    )

    def derive(self) -> None:
        """Divide the budget among the levels.

        Each level has a part, and under add-remove the number of records has one.
        """
        super().derive()
        rows = self.rows_per_unit
        # ceil(log2(m + 1)) for m quantiles: the depth of the tree that halves them.
        levels = len(self.q).bit_length()
        # A unit that has other records moves either their number or what the searches count, and
        # both less the more the other one: so under replace-one their number is in the price of the
        # levels (docs/proofs/quantiles.md, "A level").
        exchanged = self.adjacency == "replace-one"
        part = to_fraction(self.epsilon) / (levels if exchanged else levels + 1)
        rate = fit_rate(part / ((2 if exchanged else 1) * rows), "Quantiles", stepped=False)
        e = rate * rows
        # The searches of one level that a unit is in: the one it was in and the one it goes to.
        cost = repeat(Pure(epsilon=2 * e) if exchanged else nested_cost(e, e), levels)
        size_rate = rate if exchanged else fit_rate(part / rows, "Quantiles", stepped=False)
        if not exchanged:
            cost = compose(Pure(epsilon=size_rate * rows), cost)
        self._set(
            levels=levels,
            noise=Geometric(rate),
            size_noise=DiscreteLaplace(size_rate),
            threshold_correction=round(
                correction(rate, rate, find_step(self.growth, self.cuts), self.size_hint)
            ),
            cost=cost,
        )

    @property
    def size_epsilon_spent(self) -> float:
        """What the number of records costs; under replace-one it is in the price of the levels."""
        return float(self.size_noise.rate * self.rows_per_unit)

    @property
    def deviation(self) -> float:
        """How wide the noise of a search is, in records."""
        return math.sqrt(2 * self.noise.variance)

    @property
    def reach_of_size(self) -> int:
        """How far the noisy number lies from the true one at most, with 95%."""
        return -self.size_noise.quantile((1 - CONFIDENCE) / 2)

    @cached_property
    def _shares(self) -> tuple[Fraction, ...]:
        """The quantiles as exact shares, between the ends 0 and 1."""
        shares = [to_fraction(one).limit_denominator(_SHARE_DENOMINATOR) for one in self.q]
        return (Fraction(0), *shares, Fraction(1))

    def choose(self, size: int) -> Quantiles:
        """Return the same quantiles over some of the edges, for so many records."""
        if not self.adapts:
            return self
        # What somebody says of their number goes before a noisy one.
        size = size if self.size_hint is None else round_size(self.size_hint)
        wanted = choose_cuts(float(size * self.noise.rate / 2), self.growth, self.cuts)
        return replace(self, cuts=wanted, size_hint=size, adapts=False)

    def _release_counts(
        self, counts: Sequence[BucketCounts], entropy: Entropy
    ) -> list[QuantileValues]:
        drawn = self.size_noise.sample(len(counts), entropy).tolist()
        # A noisy number below 0 would put targets beyond the lowest edge: it counts as 0.
        sizes = [max(0, one.records + noise) for one, noise in zip(counts, drawn, strict=True)]
        plans = [cast("Quantiles", self.for_size(size)) for size in sizes]
        released: dict[int, QuantileValues] = {}
        for plan, places in group_by_plan(plans):
            some = [counts[place].onto(plan.grid) for place in places]
            found = plan.find_places(some, [sizes[place] for place in places], entropy)
            for place, each in zip(places, found, strict=True):
                released[place] = self._values(plan, sizes[place], each, entropy.simulated)
        return [released[place] for place in range(len(counts))]

    def find_places(
        self, counts: Sequence[BucketCounts], sizes: Sequence[int], entropy: Entropy
    ) -> list[list[Place]]:
        """Return the places of all quantiles of each column, among so many records each."""
        bottom, top = self.ends
        # All targets are fixed here, before any search, by the noisy number of records.
        walks = [
            _Walk(bottom, top, self.targets(size), Runs.of(one))
            for size, one in zip(sizes, counts, strict=True)
        ]
        return self._split(walks, entropy)

    def _values(
        self, plan: Quantiles, size: int, places: Sequence[Place], simulated: bool
    ) -> QuantileValues:
        """Return what is released of one column, of the places of all its quantiles."""
        off = self._size_error()
        # Of whole numbers an edge means one less upward than downward: so that values do not fall,
        # each is at least the one before.
        rising = accumulate((plan.value_of(place.edge, place.upward) for place in places), max)
        rate = float(self.noise.rate)
        return QuantileValues(
            QuantileValue(
                value=value,
                capped=beyond(place.edge, plan.grid, place.upward, signed=self.lower is None),
                rank_error_low=place.low - off,
                rank_error_high=place.high + off,
                records=size if self.adapts else None,
                limited_by_grid=self.is_limited(value, size, rate) if self.adapts else None,
                mechanism=self,
                cost=self.cost,
                simulated=simulated,
            )
            for value, place in zip(rising, places, strict=True)
        )

    @property
    def ends(self) -> tuple[Place, Place]:
        """The ends of the grid, the places to start from."""
        return Place(0, -1, True), Place(len(self._shares) - 1, self.grid.size, True)

    def targets(self, size: int) -> tuple[int, ...]:
        """Return the ranks to look for among `size` records, with the ends 0 and `size`.

        `size` is a noisy number.
        """
        return tuple(math.ceil(share * size) for share in self._shares)

    def search(
        self, below: Place, above: Place, targets: tuple[int, ...]
    ) -> tuple[int, RankSearch | None, bool]:
        """Return what comes next between two places, a function of what is public.

        The number of the middle quantile, the search for it (None if no edge lies between the
        places), and whether it goes upward.
        """
        # Halving the list gives the fewest levels, and each level costs.
        middle = (below.number + above.number) // 2
        upward = self._upward(below.number, middle, above.number)
        # With no edge between two places there is nothing to decide, and no noise is drawn.
        if above.edge - below.edge <= 1:
            return middle, None, upward
        # The target is a difference of such ranks. A share of the records that are left would move
        # along with a record, and a level would cost more.
        target = (
            targets[middle] - targets[below.number]
            if upward
            else targets[above.number] - targets[middle]
        )
        scan = ThresholdScan(target + self.threshold_correction, self.noise, self.noise)
        return (
            middle,
            RankSearch(
                upward, below.edge + 1, above.edge, below.edge, above.edge, 1, 0, target, scan
            ),
            upward,
        )

    def _upward(self, low: int, middle: int, high: int) -> bool:
        """Return whether to search from the lower place up.

        If only one of the two places is an end of the grid, and the walk from it is safe, the
        search starts there. The rank of an end is exact; that of a place that was found may be off
        by all the records that share its value. Otherwise the search starts from the place that is
        farther away in records.
        """
        under, over = (
            self._shares[middle] - self._shares[low],
            self._shares[high] - self._shares[middle],
        )
        # Public numbers only: the direction of a search tells nothing.
        from_bottom, from_top = low == 0, high == len(self._shares) - 1
        if from_bottom != from_top and walk_is_safe(
            under if from_bottom else over, self.noise.rate, self.grid.size, self.size_hint
        ):
            return from_bottom
        return under >= over

    def _split(self, walks: Sequence[_Walk], entropy: Entropy) -> list[list[Place]]:
        """Return the places of all quantiles between the two of each column, in rising order.

        In all columns these are the places of the same two quantiles.
        """
        if walks[0].above.number - walks[0].below.number <= 1:
            return [[] for _ in walks]
        renew(entropy)  # each search is a stage of its own
        asked = [self.search(walk.below, walk.above, walk.targets) for walk in walks]
        going = [
            (search, walk.runs) for (_, search, _), walk in zip(asked, walks, strict=True) if search
        ]
        edges = iter(
            find_each([search for search, _ in going], [runs for _, runs in going], entropy)
        )
        places = []
        for (middle, search, upward), (below, above, *_) in zip(asked, walks, strict=True):
            if search is not None:
                places.append(self.place(middle, search, next(edges), below, above))
            else:
                edge = above.edge if upward else below.edge
                places.append(Place(middle, edge, upward, above.low, below.high))
        found = list(zip(walks, places, strict=True))
        left = self._split([walk._replace(above=place) for walk, place in found], entropy)
        right = self._split([walk._replace(below=place) for walk, place in found], entropy)
        return [
            [*before, place, *after]
            for before, place, after in zip(left, places, right, strict=True)
        ]

    def place(
        self, number: int, search: RankSearch, edge: int, below: Place, above: Place
    ) -> Place:
        """Return the place of an edge that a search found, and what neighbors tell of its rank."""
        # The errors add up along the path. A search that finds nothing ends at a place, whose bound
        # then takes the place of `short`.
        short, over = search.errors(edge, self._wrong)
        if search.upward:
            return Place(
                number,
                edge,
                True,
                above.low if edge == search.last else below.low - short,
                below.high + over,
            )
        return Place(
            number,
            edge,
            False,
            above.low - over,
            below.high if edge < search.first else above.high + short,
        )

    @property
    def _wrong(self) -> float:
        """How often each bound of a place may fail.

        Two on each level, and two for the number of records.
        """
        return (1 - CONFIDENCE) / (2 * (self.levels + 1))

    def _size_error(self) -> float:
        """Return how far targets may be off because the number of records is noisy."""
        # A target is a rank rounded up, which adds at most 1.
        return 1 - math.log(self._wrong) / float(self.size_noise.rate)


_WITNESS_CAP = 1 << 60
_claim = ClaimsAbout("Quantiles", proof="quantiles.md")
CLAIMS = (
    _claim(
        "All edges together are private for the searches of each level, and under add-remove for "
        "the noisy number of records, which is in their price under replace-one.",
        ("durfee2023, Lemma B.2 and Sec. B.3", "kaplan2022"),
        (
            # So much that the noise of the number of records takes nothing away.
            Quantiles(
                q=(0.5,), epsilon=40, adjacency="replace-one", lower=0, cap=_WITNESS_CAP, growth=2
            ),
            (0,) * 5 + (_WITNESS_CAP,) * 4,
            (0,) * 4 + (_WITNESS_CAP // 2,) + (_WITNESS_CAP,) * 4,
        ),
        tight=True,
    ),
)
