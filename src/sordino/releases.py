"""The results that mechanisms release.

Each knows its mechanism, its cost and whether it is real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number
from sordino.cost import Cost
from sordino.figures.derived_value import Derivable
from sordino.population import Population
from sordino.receipt import Receipt
from sordino.tabular import Kind, Row, Tabular, list_own_rows, list_row_columns

Label = str | tuple[str, ...]
"""What an item or a group is called: a text, or one text for each of several columns."""


def split_label(label: Label) -> tuple[str, ...]:
    """Return the parts of a label, by which labels are put in order: each by its code points."""
    return (label,) if isinstance(label, str) else label


def rank_labels(labels: Sequence[Label]) -> NDArray[np.int64]:
    """Return where each label stands among these in the order of code points, part by part."""
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[sorted(range(len(labels)), key=lambda place: split_label(labels[place]))] = np.arange(
        len(labels)
    )
    return ranks


def plain(value: Any) -> Any:
    """Return `value` ready for JSON: arrays as lists, fractions as numbers, NaN and inf as None."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | Fraction | Decimal):
        return plain(
            value.item() if isinstance(value, np.generic) else _fraction_to_number(Fraction(value))
        )
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    # A class that can describe itself is asked below.
    if is_dataclass(value) and not hasattr(value, "to_dict"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    # JSON has no NaN and no infinity.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.to_dict() if hasattr(value, "to_dict") else value


def _fraction_to_number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def parameters(mechanism: Any) -> dict[str, Any]:
    """Return the public parameters of a mechanism, as its constructor takes them.

    A law by its name.

    One that holds a whole other mechanism, or a release, lists what is said of it by itself.
    """
    if hasattr(mechanism, "list_parameters"):
        listed: dict[str, Any] = mechanism.list_parameters()
        return listed
    values = {
        field.name: getattr(mechanism, field.name) for field in fields(mechanism) if field.init
    }
    return {
        # The constructor takes a law by its name; the object behind it holds more than parameters.
        name: getattr(value, "name", value) if name.endswith("noise") else value
        for name, value in values.items()
    }


def short_repr(thing: Any, shown: dict[str, Any]) -> str:
    """Return the one-line picture `Name(field=value, ...)` of public values."""
    return (
        f"{type(thing).__name__}"
        f"({', '.join(f'{name}={_picture_value(value)}' for name, value in shown.items())})"
    )


def _picture_value(value: Any) -> str:
    # Rows are counted and not listed: a release may have very many of them.
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return f"<{len(value)} rows>"
    if isinstance(value, np.ndarray):
        # The first six numbers show of what kind they are, and keep the picture on one line.
        listed = [f"{x:g}" if isinstance(x, float) else str(x) for x in value[:6].tolist()]
        return "[" + ", ".join([*listed, *(["..."] if value.size > 6 else [])]) + "]"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value)
        if isinstance(value, Fraction)
        else repr(value)
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release(Tabular):
    """What every release says of itself.

    Attributes
    ----------
    mechanism : object
        The mechanism with its public parameters; a tuple of them where a release took several.
    cost : Cost
        What was really spent.
    simulated : bool
        True if the noise came from a seed: such a result protects nobody and no ledger settles it.
    exact : bool
        False for the few continuous laws whose guarantee holds in ideal arithmetic only.
    receipt : Receipt or None
        Of a release of a session, where the ledger has its charge. A mechanism alone gives none.
    total : Cost or None
        Of a release that measures another one again: what all looks cost; `cost` is that of the
        last one.
    population : Population or None
        Of a release of a session: whom it protects, and which rows count in it. A mechanism alone
        knows none.
    """

    mechanism: Any
    cost: Cost
    simulated: bool
    exact: bool = True
    receipt: Receipt | None = None
    total: Cost | None = None
    population: Population | None = None

    def __post_init__(self) -> None:
        # A part of an array keeps the whole alive: the first k of an order, and with them the order
        # of all noisy values, which nobody paid for. So a release holds arrays of its own.
        arrays = [name for name, value in vars(self).items() if isinstance(value, np.ndarray)]
        for name in arrays:
            object.__setattr__(self, name, getattr(self, name).copy())

    def __repr__(self) -> str:
        # What is simulated protects nobody, so that is said first.
        shown = (
            {"simulated": True} | self._own()
            if self.simulated
            else self._own() | {"cost": self.cost}
        )
        # What the last look cost is not what all have: both are said.
        return short_repr(self, shown if self.total is None else shown | {"total": self.total})

    def _own(self) -> dict[str, Any]:
        common = {field.name for field in fields(Release)}
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            # A field with repr=False is kept for later computations, and shown nowhere.
            if field.repr and field.name not in common
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        parts = self.mechanism if isinstance(self.mechanism, tuple) else (self.mechanism,)
        listed = [{"name": type(part).__name__} | plain(parameters(part)) for part in parts]
        return {
            "type": type(self).__name__,
            **plain(self._own()),
            "mechanism": listed if isinstance(self.mechanism, tuple) else listed[0],
            "cost": self.cost.to_dict(),
            "simulated": self.simulated,
            "exact": self.exact,
            **({} if self.total is None else {"total": self.total.to_dict()}),
            **({} if self.receipt is None else {"receipt": self.receipt.to_dict()}),
            **({} if self.population is None else {"population": self.population.to_dict()}),
        }

    def list_rows(self) -> list[Row]:
        """Return the rows of the release, each as a mapping of names to what was released.

        A single figure is one row; of arrays each place is one.
        """
        rows = getattr(self, "rows", None)
        if rows is None:
            return list_own_rows(self._list_figures())
        return [{field.name: getattr(row, field.name) for field in fields(row)} for row in rows]

    def _list_figures(self) -> dict[str, Any]:
        """Return what the release is, without what is said of it beside."""
        return self._own()

    def _list_columns(self) -> dict[str, Kind]:
        return list_row_columns(self)

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge.

        A session does this before anybody else holds the release.
        """
        object.__setattr__(self, "receipt", receipt)

    def take_population(self, population: Population) -> None:
        """Take what says of whom the release is, as `take_receipt` takes the receipt."""
        object.__setattr__(self, "population", population)


class HasEstimate:
    """Gives the `value` of a release the name that the figure of every release has."""

    value: float

    @property
    def estimate(self) -> float:
        """The figure: `value`, by the name that it has in every release."""
        return self.value

    def _list_figures(self) -> dict[str, Any]:
        """Return the fields, those that every release has by the names that they have there."""
        own: dict[str, Any] = super()._list_figures()  # type: ignore[misc]
        known = [name for name in ("estimate", "low", "high") if hasattr(self, name)]
        named = {name: getattr(self, name) for name in known}
        return named | {
            name: value for name, value in own.items() if name not in {"value", "interval"}
        }


class HasInterval(HasEstimate):
    """Gives the ends of the `interval` of a release the names that they have in every release."""

    interval: tuple[float, float]

    @property
    def low(self) -> float:
        """The lower end of `interval`."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """The upper end of `interval`."""
        return self.interval[1]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Value(Derivable, Release):
    """One released number.

    Attributes
    ----------
    value : float
        In the unit of the answer.
    standard_error : float
        Standard deviation of the noise, in the unit of the answer.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).release(1000, entropy=sd.Seeded(7))
    Value(simulated=True, value=997, standard_error=1.35696)
    """

    value: float
    standard_error: float

    @property
    def estimate(self) -> float:
        """The figure: `value`, by the name that it has in every release."""
        return self.value


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SmoothValue(Release):
    """One released number whose noise follows a private bound.

    It has no standard error, which would tell the bound.

    Attributes
    ----------
    value : float
        In the unit of the answer.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SmoothMechanism(epsilon=1, beta=0.1, ceiling=8, floor=0.125, law="quartic")
    >>> release = m.release(4.5, smooth_bound=0.5, entropy=sd.Seeded(7))
    >>> round(release.value, 3), release.exact
    (3.818, False)
    """

    value: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Values(Release):
    """Several numbers released together.

    Attributes
    ----------
    values : array of float, shape (n,)
        In the unit of the answers.
    standard_error : float
        Standard deviation of the noise of each, in the unit of the answers.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))
    >>> counts = m.release([50, 7], entropy=sd.Seeded(7))
    >>> counts.values.shape
    (2,)
    """

    values: NDArray[np.float64]
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopK(Release):
    """The items with the largest noisy answers, best first.

    Attributes
    ----------
    indices : array of int, shape (k,)
        Positions in the list of answers (in the domain, where a domain size was given).
    gaps : array of float, shape (min(k, n - 1),)
        How far each item lies above the next one, noise included, in the unit of the answers; all
        at least 0. The last one is the margin over the best item that was not selected. Empty after
        Gumbel noise.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.NoisyTopK(k=1, epsilon=2, sensitivity=sd.COUNTING)
    >>> top = mechanism.release([50, 7, 90], entropy=sd.Seeded(7))
    >>> top.indices.tolist(), top.cost, top.simulated
    ([2], Pure(epsilon=2), True)
    """

    indices: NDArray[np.int64]
    gaps: NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopSet(Release):
    """The set of the items with the largest answers, as `JointTopK` selected it.

    Nothing says which is best.

    Attributes
    ----------
    indices : array of int, shape (k,)
        Positions in the list of answers (in the domain, where a domain size was given), in rising
        order.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.JointTopK(k=2, epsilon=2, sensitivity=sd.COUNTING)
    >>> best = mechanism.release([50, 7, 90], entropy=sd.Seeded(7))
    >>> best.indices.tolist(), best.simulated
    ([0, 2], True)
    """

    indices: NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HistogramTop(Release):
    """The largest of a noisy histogram with their noisy answers, best first, s of at most k.

    Attributes
    ----------
    indices : array of int, shape (s,)
        Positions in the list of answers (in the domain, where a domain size was given).
    values : array of float, shape (s,)
        Their noisy answers, in the unit of the answers: too high on average, because they were
        selected.
    entries : array of float, shape (s,)
        With which noisy answer each would still have been selected; -inf where any would have been.
    crossed : bool or None
        Whether the threshold ended the list: s < k. None without one.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.HistogramTopK(k=2, epsilon=2, sensitivity=sd.COUNTING.over(3), threshold=60)
    >>> top = mechanism.release([50, 7, 90], entropy=sd.Seeded(7))
    >>> top.indices.tolist(), top.values.shape, top.crossed
    ([2], (1,), True)
    """

    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    entries: NDArray[np.float64]
    crossed: bool | None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HybridTop(Release):
    """The items with the largest noisy answers above a noisy threshold, best first, s of at most k.

    Attributes
    ----------
    indices : array of int, shape (s,)
        Positions in the list of answers (in the domain, where a domain size was given); never the
        threshold.
    gaps : array of float, shape (s,)
        How far each item lies above the next one, noise included, in the unit of the answers; all
        at least 0. The last one is the lead over the noisy threshold if that ended the list, else
        the margin over the best item that was not selected, the threshold among them.
    crossed : bool
        Whether the noisy threshold ended the list: s < k.
    threshold_margin : float or None
        The margin of the noisy threshold over the best item that was not selected, at least 0; None
        unless crossed.
    estimates : array of float, shape (s,)
        If crossed, the threshold plus the gaps down to it: unbiased before selection, too high
        after it. Each has twice the variance of the noise; half of that belongs to the threshold,
        and they share it. NaN if not crossed: nothing says how high the list lies.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.HybridTopK(k=3, threshold=60, epsilon=3, sensitivity=sd.COUNTING)
    >>> top = m.release([50, 7, 90], entropy=sd.Seeded(7))
    >>> top.indices.tolist(), top.crossed, top.estimates.shape
    ([2], True, (1,))
    """

    indices: NDArray[np.int64]
    gaps: NDArray[np.float64]
    crossed: bool
    threshold_margin: float | None
    estimates: NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnlistedTop(Release):
    """The labels with the largest noisy counts above a noisy threshold, of labels nobody listed.

    Best first, s of at most k.

    Attributes
    ----------
    labels : tuple of str, or of tuples of str, length s
        The labels. Whether there are others is not told.
    gaps : array of float, shape (s,)
        How far each noisy count lies above the next one; all at least 0. The last one is the lead
        over the noisy threshold if that ended the list, else the margin over whatever comes next,
        the threshold among them.
    crossed : bool
        Whether the noisy threshold ended the list: s < k. Of what lies below it nothing is told.
    estimates : array of float, shape (s,)
        If crossed, the threshold plus the gaps down to it, as `HybridTop` has them; else NaN.

    Examples
    --------
    >>> import sordino as sd
    >>> counts = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=5)
    >>> m = sd.UnlistedTopK(k=3, epsilon=3, delta=1e-6, sensitivity=counts)
    >>> top = m.release([60, 7, 90], labels=["pear", "fig", "plum"], entropy=sd.Seeded(7))
    >>> top.labels, top.crossed
    (('plum', 'pear'), True)
    """

    labels: tuple[Label, ...]
    gaps: NDArray[np.float64]
    crossed: bool
    estimates: NDArray[np.float64]

    @property
    def indices(self) -> NDArray[np.int64]:
        """Where each label stands among these in the order of code points, which decides ties."""
        return rank_labels(self.labels)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnlistedCounts(Release):
    """The labels that nobody listed whose noisy counts reach a threshold, best first.

    Attributes
    ----------
    labels : tuple of str, or of tuples of str, length s
        The labels. Whether there are others is not told.
    values : array of float, shape (s,)
        Their noisy counts, none below the threshold of the mechanism. Unbiased before selection,
        too high after it.
    standard_error : float
        Standard deviation of the noise of each.

    Examples
    --------
    >>> import sordino as sd
    >>> counts = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=2)
    >>> m = sd.UnlistedHistogram(epsilon=2, delta=1e-6, sensitivity=counts)
    >>> m.release([60, 7, 90], labels=["pear", "fig", "plum"], entropy=sd.Seeded(7)).labels
    ('plum', 'pear')
    """

    labels: tuple[Label, ...]
    values: NDArray[np.float64]
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Positives(Release):
    """The answers that a sparse vector found above their threshold, in the order it found them.

    Those of a `HybridSparseVector` are listed best first.

    Attributes
    ----------
    indices : array of int, shape (t,)
        Positions in the list of answers (in the domain, where a domain size was given).
    gaps : array of float, shape (t,)
        Noisy answer less noisy threshold, in the unit of the answers: raw, at least the correction.
        NaN in later passes, where a gap says nothing about its answer.
    branches : array of int, shape (t,)
        Which test found each, counted from 0; always 0 where there is one test.
    passes : array of int, shape (t,)
        In which pass, counted from 1.
    asked : int
        How many questions were asked until enough were found or the list ended, over all passes
        (`HybridSparseVector`: all).
    estimates : array of float, shape (t,)
        Threshold plus gap, less the mean of the noise: unbiased before selection, too high after
        it. NaN like the gap.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(threshold=100, positives=2, epsilon=4, sensitivity=sd.COUNTING)
    >>> m.release([3, 170, 8, 150, 2], entropy=sd.Seeded(7)).indices.tolist()
    [1, 3]
    """

    indices: NDArray[np.int64]
    gaps: NDArray[np.float64]
    branches: NDArray[np.int64]
    passes: NDArray[np.int64]
    asked: int
    estimates: NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FirstAbove(Release):
    """The first answer that reached a noisy threshold.

    Attributes
    ----------
    index : int or None
        Position in the list of answers; None if none reached it, which costs the same.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.AboveThreshold(threshold=100, epsilon=4, sensitivity=sd.COUNTING)
    >>> m.release([3, 8, 2], entropy=sd.Seeded(7))
    FirstAbove(simulated=True, index=None)
    """

    index: int | None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Verdict(Release):
    """What a stream says of one answer.

    `cost` is what this verdict adds to what the stream has spent.

    Attributes
    ----------
    above : bool
        Whether the noisy answer reached the noisy threshold.
    gap : float or None
        Noisy answer less noisy threshold, in the unit of the answers: raw, at least the correction.
        None if not above.
    branch : int or None
        Which test found it, counted from 0. None if not above.
    threshold : number
        The public threshold that the question was asked with.
    estimate : float or None
        Threshold plus gap, less the mean of the noise: unbiased before it is known whether the
        answer is found, too high after it. None like the gap.
    charged : Fraction or inf
        The epsilon of `cost`: 0 for an ordinary answer below; the first question also pays for the
        threshold. inf where nothing pure is claimed.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(threshold=100, positives=1, epsilon=4, sensitivity=sd.COUNTING,
    ...                     split=0.25)
    >>> with m.open(entropy=sd.Seeded(7)) as stream:
    ...     [(verdict.above, float(verdict.charged)) for verdict in map(stream.ask, [3, 5, 170])]
    [(False, 1.0), (False, 0.0), (True, 3.0)]
    """

    above: bool
    gap: float | None
    branch: int | None
    threshold: Number
    estimate: float | None
    charged: Fraction | float

    def __post_init__(self) -> None:
        # No array is held, so none has to be copied; streams make very many verdicts.
        pass


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Choice(Release):
    """One selected item.

    Attributes
    ----------
    index : int
        Position in the list of answers.
    gap : float or None
        Lead of the exponential mechanism, in the unit of the answers, at least 0: a logistic
        variable centered at how far the selected answer lies above all others together, known to be
        positive and rounded down to the grid. None where a mechanism releases none.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.PermuteAndFlip(epsilon=2, sensitivity=sd.COUNTING)
    >>> mechanism.release([50, 7, 90], entropy=sd.Seeded(7))
    Choice(simulated=True, index=2, gap=None)
    """

    index: int
    gap: float | None = None
