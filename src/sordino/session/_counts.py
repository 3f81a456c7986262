"""The methods of a session that count."""

from __future__ import annotations

from typing import Any, Literal

from sordino.constraints import POSITIVE, Number
from sordino.data import prepare_counts
from sordino.session._desk import Asks
from sordino.session._plan import Progress, checked_bounds, plan_count, plan_histogram
from sordino.session._results import Count, Histogram


def histogram(
    self: Asks,
    item: str,
    *,
    epsilon: Number,
    domain: Any,
    where: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    progress: Progress | None = None,
) -> Histogram:
    """Release the count of distinct units of every item of a public domain.

    One unit can touch every item of the domain, so the noise grows with its size, unless the unit is a row or `max_rows` bounds
    how many items a unit counts for. Parameters and errors as for `top_k`.

    Parameters
    ----------
    bounds : tuple of number, optional
        A declared range (low, high) of every count, as for `count`.
    """
    total, ends = POSITIVE("histogram.epsilon", epsilon), checked_bounds("histogram", bounds)
    plan = plan_histogram(self._items(item, domain, where), item=item, epsilon=total, where=where, bounds=ends)
    return self._do(plan, progress)


def count(
    self: Asks,
    *,
    epsilon: Number,
    where: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    progress: Progress | None = None,
) -> Count:
    """Release the number of rows. With a unit column this needs `PrivacyUnit(..., max_rows=M)`: each unit counts for at most M.

    Parameters
    ----------
    epsilon : number
        Budget of the release.
    where : str, optional
        A row predicate.
    bounds : tuple of number, optional
        A declared range (low, high), public: the count is published within a slightly wider one, `output_range`, and unbiased wherever
        it lies in the declared range. A count beyond is moved to its nearer end by rule (`FoldedMechanism`).
    progress : callable, optional
        Called with percentages while the engine works.

    Raises
    ------
    UnboundedContribution
        If nothing bounds the rows of one unit.
    InvalidParameter
        Before the charge, also if the bounds are less apart than one unit can move the count.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> session = sd.Session(pl.DataFrame({"x": [1] * 40}), unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> rows = session.count(epsilon=1, bounds=(0, 100))
    >>> [round(end, 2) for end in rows.output_range], 30 < rows.estimate < 50
    ([-0.58, 100.58], True)
    """
    return _number(self, "count", "rows", epsilon, where, bounds, progress)


def count_distinct_units(
    self: Asks,
    *,
    epsilon: Number,
    where: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    progress: Progress | None = None,
) -> Count:
    """Release the number of distinct units. Parameters as for `count`."""
    return _number(self, "count_distinct_units", "units", epsilon, where, bounds, progress)


def _number(
    self: Asks,
    what: str,
    kind: Literal["rows", "units"],
    epsilon: Number,
    where: str | None,
    bounds: tuple[Number, Number] | None,
    progress: Progress | None,
) -> Count:
    ends = checked_bounds(what, bounds)
    question = prepare_counts(self._desk.source, self._desk.unit, kind=kind, where=where)
    return self._do(plan_count(what, question, epsilon=POSITIVE(f"{what}.epsilon", epsilon), where=where, bounds=ends), progress)
