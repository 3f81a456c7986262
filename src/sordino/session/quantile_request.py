"""Quantiles of a column: of rows that count, or of all rows with weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, cast, final

import numpy as np

from sordino.columns import BucketGrid
from sordino.constraints import COUNT, SHARE, Number, OrNone, shown, to_fraction
from sordino.cost import Cost, Pure, compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import Quantile, Quantiles, QuantileValue, QuantileValues, SizedQuantile
from sordino.estimators.quantiles.quantile_interval import QuantileInterval, QuantilesWithIntervals
from sordino.estimators.quantiles.quantile_plan import SearchNoise
from sordino.estimators.quantiles.sized_quantile import SIZE_SHARE
from sordino.estimators.quantiles.weighed_quantiles import WeighedQuantiles
from sordino.estimators.quantiles.weigher import (
    MOST_WEIGHT_BITS,
    WEIGHT_SHARE,
    build_weigher,
    check_weight_cap,
)
from sordino.questions.totals import BYTES_OF_CELL
from sordino.session.column_request import GROWTH_MEANS
from sordino.session.request import Table, checked_later
from sordino.session.table_numbers import Groups, Searches, choose_search_noise
from sordino.session.weighed_request import WeighedRequest

Quantiling = Searches | WeighedQuantiles
Options = dict[str, Any]
"""What an estimator takes, by its names."""
_PEOPLE_BITS = 22
"""So many people may be in one bucket."""
_COARSEST = Fraction(101, 100)
"""The factor between edges of a grid that is cut no finer."""
_NEAREST = 2.0**-900
"""A grid with edges nearer to 0 than that, or farther than one over it, is not cut."""


def _list_several(_name: str, q: Any) -> Any:
    """Keep several quantiles as a tuple, which can be read twice, and a single one as it is."""
    # A text can be iterated over as well; it is refused later, as no number.
    return tuple(q) if isinstance(q, Iterable) and not isinstance(q, str) else q


@final
class QuantileRequest(WeighedRequest[QuantileValue | QuantileValues | Groups]):
    """Release a quantile of a column of numbers, or several, without a range to guess.

    With a unit column all rows of each unit count, with weights (see `weight_cap`). With
    `PrivacyUnit(..., max_rows=M)` at most M rows of each unit count instead (see
    `groups_per_unit`), chosen by their ranks and a secret salt.

    Rows without a number (NULL and NaN alike) do not count, and how many do is private. With
    `max_rows` they are chosen like any other: one without a number takes a place of its unit.

    Returns
    -------
    QuantileValue, QuantileValues or Groups
        For one q, for several, or with `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> incomes = pl.DataFrame({"income": [21_000, 34_000, 28_500, 90_000, 45_000] * 400})
    >>> session = sd.Session(incomes, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> 30_000 < session.quantile("income", q=0.5, epsilon=1, lower=0, cap=1e9).value < 40_000
    True
    """

    name: ClassVar[str] = "quantile"
    # It is not measured again: what it releases is no noisy number.
    kept: ClassVar[tuple[str, ...]] = ()

    # `Quantile` checks these, as it does for everybody.
    q: Number | Sequence[Number] = parameter(
        _list_several,
        "Which quantiles, rising, such as 0.5,0.99.",
        more="A number in [0, 1], or a list of them, which are released together (`Quantiles`).",
    )
    growth: Number | None = parameter(
        checked_later,
        f"{GROWTH_MEANS} Unless said, as fine as a noisy number of rows allows, on which a "
        "twentieth of epsilon is spent.",
        more="Up to 700,000 edges in all, on a server 131,072; `records` of the release is that "
        "number. Several quantiles have it in any case.",
        default=None,
    )
    size_hint: int | None = parameter(
        checked_later,
        "About how many rows count, as far as that is public; a single quantile then spends "
        "nothing on that.",
        default=None,
    )
    interval_share: Number | None = parameter(
        OrNone(SHARE),
        "Share of epsilon for an interval of each quantile, in the unit of the column.",
        more="In (0, 1): `low` and `high` contain it with 95%. None: all of epsilon goes to the "
        "value, and only its rank error is known.",
        default=0.5,
    )
    integer: bool = parameter(
        checked_later, "The values are whole numbers, and so is what is released.", default=False
    )

    @property
    def listed(self) -> tuple[Number, ...] | None:
        """The quantiles of a list; None where a single one is asked for."""
        return self.q if isinstance(self.q, tuple) else None

    def build_estimator(self, table: Table, more: Fraction = Fraction(1)) -> Quantiling:
        """Return the estimator of a quantile or several, with intervals if a share is for them."""
        options = self.options(table, more)
        if not self.weighs:
            # Of rows of a unit that are in any group nothing has other noise.
            free = not self.counts_together(table)
            return self._build_searches(table, options, choose=free)
        found, reason = None, None
        for bits in range(self._count_weight_bits(table, options), 0, -1):
            try:
                found = self._build_weighed(table, options, bits)
            except InvalidParameter as error:
                # Of several reasons the first one is about what was asked for.
                reason = reason or error
            else:
                break
        if found is None:
            raise cast("InvalidParameter", reason)
        return found

    @property
    def searches_together(self) -> bool:
        """Whether one search is over what persons have in all groups together."""
        return False

    @property
    def moves_between_groups(self) -> bool:
        """Whether a unit may pay for a group that it leaves, and for one that it joins."""
        return self.by is not None

    def _count_weight_bits(self, table: Table, options: Options) -> int:
        """Return in which part of a unit rows may weigh at most, as a power of two."""
        # A bucket has room for about 2^60 / K steps: for so many people, all with one number.
        room = 60 - _PEOPLE_BITS - self._find_grid(table, options).size.bit_length()
        return min(MOST_WEIGHT_BITS, room)

    def _build_weighed(self, table: Table, options: Options, bits: int) -> WeighedQuantiles:
        """Return the estimator over weighed rows, of which a unit counts as 2^bits at most."""
        epsilon, adjacency = options["epsilon"], options["adjacency"]
        weigher, declared = None, self.declared_weight
        check_weight_cap(self.name, declared, 1 << bits)
        if declared is None:
            weigher = build_weigher(epsilon, adjacency, 1 << bits)
            epsilon *= 1 - WEIGHT_SHARE
        own: Options = {**options, "epsilon": epsilon, "rows_per_unit": 1 << bits}
        if self.by is not None:
            # A step of a weight is a record, in any of the groups: one that a unit leaves, and one
            # that it joins.
            times = 1 if adjacency == "add-remove" else 2
            part = epsilon / (times << bits)
            own |= {"epsilon": part, "adjacency": "add-remove", "rows_per_unit": 1}
        if self.size_hint is not None:
            own["size_hint"] = self._count_steps(bits)
        beside = None if weigher is None else weigher.cost
        return WeighedQuantiles(
            searches=self._build_searches(table, own, choose=self.by is None, beside=beside),
            bits=bits,
            adjacency=adjacency,
            grouped=self.by is not None,
            weigher=weigher,
            weight_cap=declared,
        )

    def _count_steps(self, bits: int) -> int:
        """Return how many steps of weights so many rows have as there are by the size hint."""
        hint: int = COUNT("quantile.size_hint", self.size_hint)
        if self.declared_weight is None:
            raise InvalidParameter(
                "quantile.size_hint must go with a declared weight (--weight-cap N) where rows of "
                f"a person have weights, by which they are counted; got {shown(hint)} and none."
            )
        return max(1, (hint << bits) // self.declared_weight)

    def _build_searches(
        self, table: Table, options: Options, *, choose: bool, beside: Cost | None = None
    ) -> Searches:
        """Return what searches, with Gumbel noise where the account gets more from that.

        It may `choose` unless rows of a unit are in any group; `beside` is what finds weights.
        """
        pure = self._build_with(table, options, flips=self._may_flip(table))
        if not choose:
            return pure
        found = Pure(epsilon=self.epsilon_to_find)
        other = choose_search_noise(
            self.name,
            table,
            self.wrap(table, pure, None if self.by is None else ()),
            found if beside is None else compose(found, beside),
            lambda times: self._build_with(
                table, {**options, "epsilon": options["epsilon"] * times}, noise="gumbel"
            ),
        )
        return other or pure

    def _may_flip(self, table: Table) -> bool:
        """Tell whether permute-and-flip costs no more than a search does.

        Other accounts than those of pure epsilons count what a search loses on either side, and so
        do groups of which a unit leaves one and joins another one.
        """
        pure = table.price is None or table.price.is_pure
        return pure and (self.by is None or table.unit.adjacency == "add-remove")

    def _build_with(
        self,
        table: Table,
        options: Options,
        *,
        flips: bool = False,
        noise: SearchNoise = "geometric",
    ) -> Searches:
        """Return the estimator with these options, and noise of this kind."""
        own: Options = {"size_hint": self.size_hint, "integer": self.integer}
        shared = own | options
        epsilon = shared.pop("epsilon")
        share = Fraction(0) if self.interval_share is None else to_fraction(self.interval_share)
        wanted = (cast("Number", self.q),) if self.listed is None else self.listed
        sized = self.growth is None
        if sized:
            shared |= self._find_fineness(table, shared)
        values: Quantile | SizedQuantile | Quantiles
        # Several quantiles have a share of their own for the number of rows.
        counts_rows = sized and self.listed is None and self.size_hint is None
        size = epsilon * SIZE_SHARE if counts_rows else 0
        rest = epsilon - size
        if self.listed is not None:
            # Down the tree of several quantiles noise is geometric on every account.
            values = Quantiles(q=wanted, epsilon=rest * (1 - share), adapts=sized, **shared)
        elif not sized:
            values = Quantile(q=wanted[0], epsilon=rest * (1 - share), search_noise=noise, **shared)
        else:
            values = SizedQuantile(
                q=wanted[0],
                epsilon=size + rest * (1 - share),
                size_epsilon=size or None,
                flips=flips,
                search_noise=noise,
                **shared,
            )
        if not share:
            return values
        each = rest * share / len(wanted)
        return QuantilesWithIntervals(
            values,
            tuple(
                QuantileInterval(q=one, epsilon=each, search_noise=noise, **shared)
                for one in wanted
            ),
        )

    def _find_grid(self, table: Table, options: Options) -> BucketGrid:
        """Return the edges of whatever searches with these options."""
        shared = {**options, "integer": self.integer, "epsilon": 1}
        fine = self._find_fineness(table, shared) if self.growth is None else {}
        return Quantile(q=0, **shared | fine).grid

    def _find_fineness(self, table: Table, options: Options) -> Options:
        """Return what makes a grid as fine as an answer has room for."""
        coarse = {**options, "growth": _COARSEST, "epsilon": 1}
        return {
            "growth": _COARSEST,
            "cuts": self._find_cuts(table, Quantile(q=0, **coarse).grid),
        }

    def _find_cuts(self, table: Table, grid: BucketGrid) -> int:
        """Return into how many parts each step of the grid may be cut: what an answer has room for.

        The number of groups is public, and so is the source.
        """
        edges = grid.edges
        # Engines fail on products that no float is near enough to, and on differences beyond all.
        far = max(-float(edges[0]), float(edges[-1])) > 1 / _NEAREST
        if far or np.abs(edges[edges != 0]).min(initial=1) < _NEAREST:
            return 1
        room = table.source.count_cells(self.count_groups(), BYTES_OF_CELL)
        most = max(1, min(1 << 16, room // edges.size))
        # With few odd factors, so that it has many divisors.
        spare = max(0, most.bit_length() - 3)
        return most >> spare << spare

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        q = self.q if self.listed is None else [float(one) for one in self.listed]
        return {"column": self.column, "q": q, **super().detail()}
