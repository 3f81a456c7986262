"""What releases about a column of numbers say of its rows.

How many held a number, from a noisy count of those and one of all others, and how those of people
were weighed (docs/proofs/weighted-means.md).

Claim: between neighbors the two counts move by at most as many rows as one unit has, in all,
replaced by twice as many; `low` and `high` contain the share with at least its confidence. Proof:
docs/proofs/numbers-share.md. Noise: discrete Laplace, from `LaplaceMechanism`. Floats:
post-processing of two released whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

from sordino.constraints import Number, to_fraction
from sordino.estimators.intervals import interval
from sordino.mechanisms import LaplaceMechanism
from sordino.population import Population
from sordino.releases import Release, Values, plain
from sordino.sensitivity import Adjacency, Sensitivity

LOW_SHARE, FEW = 0.95, 0.5
"""A share that is surely below the first is worth a warning: so many of a hundred rows say nothing,
or were read in a wrong way. One that may be below the second is worth one, too."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NumbersShare(Release):
    """The share of the rows that count that held a number.

    Attributes
    ----------
    estimate : float or None
        In [0, 1]; None if the noisy counts tell nothing, as where there are hardly any rows.
    low, high : float
        Ends that contain the share with a probability of at least 95%; 0 and 1 where nothing is
        known.

    Examples
    --------
    >>> import pandas as pd
    >>> import sordino as sd
    >>> bills = pd.DataFrame({"amount": ["12.50", "7", "1.234,50", "800"] * 500})
    >>> session = sd.Session(bills, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> total = session.sum("amount", epsilon=4, lower=0, cap=1e6)
    >>> round(total.numbers_share.estimate, 1), total.numbers_share.is_low
    (0.8, True)
    """

    estimate: float | None
    low: float
    high: float

    @property
    def is_low(self) -> bool:
        """Whether the figure leaves rows out for sure, or may be about few of them.

        From what was released alone: the interval decides, which is wide where rows are few.
        """
        return self.high < LOW_SHARE or self.may_be_few

    @property
    def may_be_few(self) -> bool:
        """Whether the interval leaves it open that fewer than half of the rows held a number."""
        return self.low < FEW

    def list_facts(self) -> dict[str, float | None]:
        """Return what is said of it beside a figure, by the names that JSON and CSV have."""
        return {
            "numbers_share": self.estimate,
            "numbers_share_low": self.low,
            "numbers_share_high": self.high,
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ColumnRelease(Release):
    """What every release about a column of numbers says of itself.

    Attributes
    ----------
    numbers_share : NumbersShare or None
        How many of the rows that count held a number, where a session was asked for that. Its cost
        is part of `cost`.
    """

    numbers_share: NumbersShare | None = None

    def _own(self) -> dict[str, Any]:
        own = super()._own()
        # Most releases have none, and say nothing about it.
        if self.numbers_share is None:
            own.pop("numbers_share")
        return own

    def _list_figures(self) -> dict[str, Any]:
        """Return the fields without how many rows held a number, which is said beside them."""
        own = super()._list_figures()
        own.pop("numbers_share", None)
        return own | self._list_doubts()

    def _list_doubts(self) -> dict[str, Any]:
        """Return what its interval is not about, and whether it leaves anything out.

        Nothing without one.
        """
        known = [name for name in ("true_low", "true_high", "too_few") if hasattr(self, name)]
        return {name: value for name in known if (value := getattr(self, name)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        doubts: dict[str, Any] = plain(self._list_doubts())
        return super().to_dict() | doubts | {"confidence": self.confidence}

    @property
    def confidence(self) -> float:
        """Of its intervals, and of how far a rank may lie."""
        return 0.95

    @property
    def leaves_rows_out(self) -> bool:
        """Whether units count for some of their rows only, and nothing is known of the others."""
        return self.population is not None and self.population.is_bounded


@final
@dataclass(frozen=True, kw_only=True)
class Weights:
    """How rows of people were weighed, and how many people count beyond the clip; public.

    Attributes
    ----------
    cap : int
        A unit with more rows, in all groups together, counts as so many.
    bits : int
        A row has the weight floor(2^bits / max(rows of its unit, cap)).
    beyond : int or None
        About as many units' worth of rows are meant to lie beyond the clip; None without one.
    """

    cap: int
    bits: int
    beyond: int | None = None

    @property
    def rows_of_step(self) -> float:
        """As how many rows a step of a weight counts: `cap` are all of a unit."""
        return self.cap / (1 << self.bits)

    def tell(self, population: Population) -> Population:
        """Return what says of whom a release is, with these."""
        # Of thousands of groups all have the same.
        if (population.weight_cap, population.units_beyond) == (self.cap, self.beyond):
            return population
        return replace(population, weight_cap=self.cap, units_beyond=self.beyond)


CONFIDENCE = Fraction(95, 100)


def count_numbers(epsilon: Fraction, *, adjacency: Adjacency, rows: int) -> LaplaceMechanism:
    """Return what releases the two counts: of rows with a number, and of rows without.

    Parameters
    ----------
    epsilon : Fraction
        Budget of both together.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    rows : int
        How many rows of one unit count at most, in all groups together.
    """
    # Each row is in one of the two counts. A replaced unit takes its rows away and brings others.
    bound = rows if adjacency == "add-remove" else 2 * rows
    statement = Sensitivity(
        bound=bound,
        monotone=adjacency == "add-remove",
        adjacency=adjacency,
        norm="l1",
        step=1,
        size=2,
    )
    return LaplaceMechanism(epsilon=epsilon, sensitivity=statement)


def estimate_share(counts: Values, *, confidence: Number = CONFIDENCE) -> NumbersShare:
    """Return the share that two released counts tell, and an interval of it.

    Parameters
    ----------
    counts : Values
        What `count_numbers` released: rows with a number, and rows without.
    confidence : number
        In (0, 1): least probability with which the interval holds.
    """
    # Each of the two intervals may be wrong with half of what is left.
    each = 1 - (1 - to_fraction(confidence)) / 2
    lows, highs = (ends.clip(min=0).tolist() for ends in interval(counts, confidence=each))
    (fewest_known, fewest_missing), (most_known, most_missing) = lows, highs
    # Few numbers among many rows without is the least share; 0 of 0 rows tell nothing.
    low = fewest_known / (fewest_known + most_missing) if fewest_known else 0.0
    high = most_known / (most_known + fewest_missing) if fewest_missing else 1.0
    known, missing = counts.values.clip(min=0).tolist()
    share = known / (known + missing) if known + missing > 0 else None
    # Ends of 0 and 1 say that nothing is known: then no number in between is worth more than any
    # other.
    if (low, high) == (0.0, 1.0):
        share = None
    return NumbersShare(
        estimate=share,
        low=low,
        high=high,
        mechanism=counts.mechanism,
        cost=counts.cost,
        simulated=counts.simulated,
    )
