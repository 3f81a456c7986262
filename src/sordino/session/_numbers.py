"""The methods of a session that are about a column of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.constraints import Number
from sordino.session._desk import Asks
from sordino.session._plan import Progress, checked_bounds

if TYPE_CHECKING:
    from sordino.estimators import ClippedValue, QuantileValue, QuantileValues
    from sordino.session._bounded_total import BoundedValue
    from sordino.session._table_numbers import Groups


def quantile(
    self: Asks,
    column: str,
    *,
    q: Number | Sequence[Number],
    epsilon: Number,
    lower: Number | None,
    cap: Number,
    growth: Number = 1.01,
    unit: Number = 1.0,
    size_hint: int | None = None,
    where: str | None = None,
    by: str | None = None,
    domain: Any = None,
    groups_per_unit: int | None = None,
    progress: Progress | None = None,
) -> QuantileValue | QuantileValues | Groups:
    """Release a quantile of a column of numbers, or several, without a range to guess.

    With a unit column this needs `PrivacyUnit(..., max_rows=M)`: at most M rows of each unit count (in each group), chosen by a keyed hash
    of what they hold. Missing numbers count as the lowest.

    Parameters
    ----------
    column : str
        A column of whole numbers, decimals or floats; of a CSV source the texts are read as numbers.
    q : number, or list of numbers
        In [0, 1]; several are released together, strictly rising (`Quantiles`).
    epsilon : number
        Budget of the whole release.
    lower : number or None
        Public lower bound; None: values have both signs.
    cap : number
        Public: the largest value that is released. It can be generous.
    growth, unit, size_hint : optional
        As for `Quantile`: how fine the edges are, and about how many rows count, as far as that is public.
    where : str, optional
        A row predicate.
    by : str, optional
        A column of labels: one release for each label of `domain`, each with epsilon / G of the budget, or epsilon / (2 G) under
        replace-one, with G of `groups_per_unit` (1 where the unit is a row).
    domain : Domain or list of labels, optional
        The groups; rows with other labels are dropped.
    groups_per_unit : int, optional
        With `by` and a unit column: each unit counts in at most so many groups, chosen by a keyed hash.
    progress : callable, optional
        Called with percentages while the engine works.

    Returns
    -------
    QuantileValue, QuantileValues or Groups
        For one q, for several, or with `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict, DataSourceError
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
    rows = {"column": column, "where": where, "by": by, "domain": domain, "groups_per_unit": groups_per_unit}
    options = {"q": q, "epsilon": epsilon, "lower": lower, "cap": cap, "growth": growth, "unit": unit, "size_hint": size_hint}
    found: QuantileValue | QuantileValues | Groups = _released(self, "quantile", rows, options, progress)
    return found


def total(
    self: Asks,
    column: str,
    *,
    epsilon: Number,
    cap: Number,
    lower: Number | None = 0.0,
    growth: Number = 1.05,
    unit: Number = 1.0,
    where: str | None = None,
    by: str | None = None,
    domain: Any = None,
    groups_per_unit: int | None = None,
    bounds: tuple[Number, Number] | None = None,
    progress: Progress | None = None,
) -> ClippedValue | BoundedValue | Groups:
    """Release the sum of a column of numbers without a bound to guess: where to clip is found privately, then clipped rows are added.

    Missing numbers add nothing. The rows are read twice. Rows of a unit, groups and errors as for `quantile`.

    Parameters
    ----------
    column : str
        A column of whole numbers, decimals or floats.
    epsilon : number
        Budget of the whole release.
    cap : number
        Public: the largest clip. It can be generous.
    lower : number or None
        Public, at most 0: smaller numbers count as this. None: minus the cap.
    growth, unit : number
        As for `ClippedSum`: how fine the edges are that the clip is taken from.
    where, by, domain, groups_per_unit, progress : optional
        As for `quantile`.
    bounds : tuple of number, optional
        A declared range (low, high) of the sum, public: then no clip is looked for, each row is moved into `lower` and `cap`, which
        had better be close to the values, and rows are read once. The sum is published within a slightly wider range, `output_range`,
        and unbiased wherever it lies in the declared range; a sum beyond is moved to its nearer end by rule.

    Returns
    -------
    ClippedValue, BoundedValue (with `bounds`) or Groups
        With `by`: rows with item and release.
    """
    rows = {"column": column, "where": where, "by": by, "domain": domain, "groups_per_unit": groups_per_unit}
    options = {"epsilon": epsilon, "cap": cap, "lower": lower, "growth": growth, "unit": unit}
    found: ClippedValue | BoundedValue | Groups = _released(self, "sum", rows, options, progress, bounds)
    return found


def mean(
    self: Asks,
    column: str,
    *,
    epsilon: Number,
    cap: Number,
    lower: Number | None = 0.0,
    growth: Number = 1.05,
    unit: Number = 1.0,
    where: str | None = None,
    by: str | None = None,
    domain: Any = None,
    groups_per_unit: int | None = None,
    bounds: tuple[Number, Number] | None = None,
    progress: Progress | None = None,
) -> ClippedValue | BoundedValue | Groups:
    """Release the mean of a column of numbers without a bound to guess: as for `sum`, and with the number of rows where it is private.

    Missing numbers do not count. `lower` may be any number below the cap: the closer to the values, the less noise. Parameters and errors
    as for `sum`.

    With `bounds` the number of rows must be public: replace-one, each row a unit, no `where`, no `by`, and no CSV source, of which lines
    may be dropped. A missing number then counts as 0, moved between `lower` and `cap`. The output range tells the number of rows.

    Returns
    -------
    ClippedValue, BoundedValue (with `bounds`) or Groups
        With `by`: rows with item and release.
    """
    rows = {"column": column, "where": where, "by": by, "domain": domain, "groups_per_unit": groups_per_unit}
    options = {"epsilon": epsilon, "cap": cap, "lower": lower, "growth": growth, "unit": unit}
    found: ClippedValue | BoundedValue | Groups = _released(self, "mean", rows, options, progress, bounds)
    return found


def _released(
    self: Asks, name: Any, rows: dict[str, Any], options: dict[str, Any], progress: Progress | None, bounds: Any = None
) -> Any:
    from sordino.session._plan_numbers import Rows, plan_numbers  # noqa: PLC0415 - a release of counts need not load it

    salt, ends = self._desk.salt(), checked_bounds(name, bounds)
    about = (name, self._desk.source, self._desk.unit, Rows(**rows))
    if ends is None:
        return self._do(plan_numbers(*about, salt=salt, **options), progress)
    from sordino.session._plan_bounded import plan_bounded  # noqa: PLC0415

    return self._do(plan_bounded(*about, bounds=ends, salt=salt, **options), progress)
