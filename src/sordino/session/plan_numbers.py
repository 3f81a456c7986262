"""Plans quantiles, sums, means and variances: what is asked, what it costs, and how counts are released."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sordino.constraints import POSITIVE
from sordino.data import PrivacyUnit, Source, prepare_numbers
from sordino.entropy import Entropy
from sordino.estimators import BucketCounts, ClippedMean, ClippedSum, ClippedVariance, Quantile, Quantiles
from sordino.session.plan import Payer, Plan, Rows
from sordino.session.table_numbers import Estimator, Numbers, TableNumbers


def estimator_of(
    name: str,
    source: Source,
    unit: PrivacyUnit,
    rows: Rows,
    /,
    *,
    epsilon: Any,
    q: Any = None,
    **options: Any,
) -> Estimator:
    """Return the estimator of a sum, a mean, a variance, one quantile, or several."""
    shared = _estimator_options(name, unit, rows, epsilon) | options
    if name == "sum":
        return ClippedSum(**shared)
    if name == "mean":
        return ClippedMean(size_is_public=size_is_public(unit, rows, source), **shared)
    if name == "variance":
        return ClippedVariance(size_is_public=size_is_public(unit, rows, source), **shared)
    if not several(q):
        return Quantile(q=q, **shared)
    return Quantiles(q=tuple(q), size_is_public=size_is_public(unit, rows, source), **shared)


def several(q: Any) -> bool:
    """Tell whether several quantiles were asked for, and not a single one."""
    # A text can be iterated over as well; it is refused later, as no number.
    return isinstance(q, Iterable) and not isinstance(q, str)


def _estimator_options(name: str, unit: PrivacyUnit, rows: Rows, epsilon: Any) -> dict[str, Any]:
    budget: Fraction = POSITIVE(f"{name}.epsilon", epsilon)
    if rows.by is None:
        adjacency: str = unit.adjacency
    else:
        # A unit that moves from one group to another leaves the one and joins the other: within a group
        # nobody is replaced.
        adjacency = "add-remove"
        # Under replace-one the unit that leaves and the one that joins may have a part in different groups.
        budget /= rows.groups(name) * (1 if unit.adjacency == "add-remove" else 2)
    return {"epsilon": budget, "adjacency": adjacency, "rows_per_unit": unit.max_rows or 1}


def size_is_public(unit: PrivacyUnit, rows: Rows, source: Source) -> bool:
    """Tell whether neighbors have equally many rows.

    They do if nothing filters, groups or computes them, and no rule of the format drops any.
    """
    # Lines of CSV that do not parse are dropped, and so may be rows of a view: how many is private.
    whole = rows.where is None and rows.by is None and not source.drops and not source.computed
    return whole and unit.column is None and unit.adjacency == "replace-one"


def plan_numbers(
    name: str,
    source: Source,
    unit: PrivacyUnit,
    rows: Rows,
    /,
    *,
    salt: bytes,
    epsilon: Any,
    q: Any = None,
    **options: Any,
) -> Plan[Any]:
    """Check the question and return the release, from public things alone: no row has been read."""
    estimator = estimator_of(name, source, unit, rows, epsilon=epsilon, q=q, **options)
    question = prepare_numbers(
        source,
        unit,
        column=rows.column,
        grid=estimator.grid,
        where=rows.where,
        salt=salt,
        by=rows.by,
        domain=rows.domain,
        groups_per_unit=rows.groups_per_unit,
        squares=name == "variance",
    )
    labels = None if question.domain is None else tuple(question.groups)
    mechanism = TableNumbers(
        estimator=estimator, adjacency=unit.adjacency, labels=labels, groups_per_unit=rows.groups(name)
    )

    def finish(payer: Payer, counts: tuple[BucketCounts, ...], entropy: Entropy) -> Any:
        return payer.release(mechanism, Numbers(question, counts), entropy=entropy)

    listed = [float(one) for one in q] if several(q) else q
    public = {
        "column": rows.column,
        "q": listed,
        "where": rows.where,
        "by": rows.by,
        "groups_per_unit": rows.groups_per_unit,
    }
    return Plan(name, question, public, (mechanism,), finish)
