"""Groups of a question: each has a label and is released by itself.

Their labels are public: they were listed, or a release found them among labels that nobody listed.
One unit counts in a bounded number of groups only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sordino.columns import BucketGrid
from sordino.constraints import COUNT, shown
from sordino.errors import InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.questions.counts import CountQuestion, prepare_counts, say_lacking, to_domain
from sordino.questions.domain import Domain
from sordino.questions.labels import name_columns
from sordino.questions.unit import PrivacyUnit
from sordino.sources.source import Source

GROUPS = 1 << 18
"""A question asks about at most this many groups."""

COUNTS = 1 << 26
"""A question asks for at most this many counts: one for each group and bucket, all of them held in
memory."""


def prepare_groups(
    source: Source,
    unit: PrivacyUnit,
    *,
    by: str | Sequence[str],
    domain: Any,
    groups_per_unit: int | None = None,
    where: str | None = None,
    salt: Any = b"",
    best: int | None = None,
) -> CountQuestion:
    """Check the question with which a release finds groups that nobody listed.

    It counts the units of every group. A unit counts in as many groups as later, and the salt
    decides which.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected.
    by : str or sequence of str
        The column of the groups, or several.
    domain : Domain
        A `Domain.unlisted`.
    groups_per_unit : int, optional
        With a unit column: in at most so many groups a unit counts.
    where, salt, best
        As in `prepare_counts`.

    Returns
    -------
    CountQuestion
        What a release finds with it goes into `NumberQuestion.among`.

    Raises
    ------
    InvalidParameter, UnboundedContribution, UnsafePredicate, DataSourceError
        If the question cannot be asked; nothing has been read.

    Examples
    --------
    >>> import polars
    >>> import sordino as sd
    >>> from sordino.questions import Domain, prepare_groups
    >>> from sordino.sources import open_source
    >>> rows = open_source(polars.DataFrame({"shop": ["x", "x", "y"], "customer": [1, 2, 2]}))
    >>> question = prepare_groups(
    ...     rows,
    ...     sd.PrivacyUnit("customer"),
    ...     by="shop",
    ...     domain=Domain.unlisted(delta=1e-6, least=2),
    ...     groups_per_unit=2,
    ...     salt=bytes(16),
    ... )
    >>> question.run().labels  # private: only a mechanism may see them
    ('x',)
    """
    if not (isinstance(domain, Domain) and domain.hidden):
        raise InvalidParameter(
            "prepare_groups.domain must be a Domain.unlisted; all others know their labels."
        )
    # The bound on groups is what a unit counts for here. How many of its rows count in each is
    # another one.
    counted = (
        unit
        if unit.column is None
        else replace(unit, max_rows=COUNT("groups_per_unit", groups_per_unit))
    )
    return prepare_counts(
        source, counted, kind="items", item=by, domain=domain, where=where, salt=salt, best=best
    )


def resolve_groups(domain: Any, by: str | Sequence[str], source: Source) -> Domain:
    """Return the domain of groups with its labels read, where they are listed."""
    return to_domain(domain).over(name_columns("by", by), "by").resolve(source)


def grouping(
    source: Source,
    unit: PrivacyUnit,
    grid: BucketGrid,
    *,
    by: str | Sequence[str] | None,
    domain: Any,
    groups_per_unit: int | None,
    most_groups: int | None = None,
) -> tuple[Domain | None, int | None]:
    """Return the domain of the groups, and in how many of them a unit counts.

    That number is None if a unit is a row, which is in one group, and if nothing bounds it.

    Raises
    ------
    InvalidParameter, UnknownDomain, UnboundedContribution
        If the groups are not public, too many, or a release finds them and nothing bounds how many
        a unit is in.
    """
    if by is None:
        if domain is not None or groups_per_unit is not None or most_groups is not None:
            raise InvalidParameter(
                "domain, groups_per_unit and most_groups belong to by, the column of the groups; "
                "got them without one."
            )
        return None, None
    if domain is None:
        raise UnknownDomain(f"The groups of this release {say_lacking(by)}.")
    # Every group of the domain is released, also an empty
    # one. So which groups there are must not depend on rows.
    known = resolve_groups(domain, by, source)
    if known.kind == "assumed public":
        raise UnknownDomain(
            "Groups must come from a domain that is listed; one that "
            "is assumed public is read from the rows themselves."
        )
    if known.hidden and most_groups is None:
        raise UnboundedContribution(
            "Groups that nobody listed must have a bound on how many of them are found; got none. "
            "Give most_groups (--most-groups)."
        )
    if not known.hidden and most_groups is not None:
        raise InvalidParameter(
            f"most_groups belongs to Domain.unlisted (--unlisted); got {shown(most_groups)} with "
            f"labels that are known ({known.origin})."
        )
    size = known.size if most_groups is None else COUNT("most_groups", most_groups)
    what = "domain must have" if most_groups is None else "most_groups must be"
    if size > GROUPS:
        raise InvalidParameter(f"{what} at most {GROUPS} groups; got {size}.")
    if size * (grid.size + 1) > COUNTS:
        raise InvalidParameter(
            f"{what} at most {COUNTS // (grid.size + 1)} groups with {grid.size} edges; got "
            f"{size}. Raise the growth."
        )
    return known, _bound_groups(unit, groups_per_unit, hidden=known.hidden)


def _bound_groups(unit: PrivacyUnit, groups_per_unit: int | None, *, hidden: bool) -> int | None:
    """Return in how many groups a unit counts; `hidden`: a release will find them."""
    # A row is in one group. A bound of 1 says so; any other bound is a mistake.
    if unit.column is None:
        if groups_per_unit is not None and groups_per_unit != 1:
            raise InvalidParameter(
                "groups_per_unit is for people with several rows: a row is in one group; got "
                f"{shown(groups_per_unit)}."
            )
        return None
    if groups_per_unit is not None:
        count: int = COUNT("groups_per_unit", groups_per_unit)
        return count
    if hidden:
        raise UnboundedContribution(
            "Groups that nobody listed must have a bound on how many of them each person counts "
            "in; got none. Give groups_per_unit, such as groups_per_unit=2 (--groups-per-unit 2)."
        )
    # The bound on rows is about all groups together.
    return None
