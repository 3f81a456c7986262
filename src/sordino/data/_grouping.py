"""Checks the groups of a question: each group has a public label and is released by itself.

One unit counts in a bounded number of groups only.
"""

from __future__ import annotations

from typing import Any

from sordino.constraints import COUNT, shown
from sordino.data._domain import Domain
from sordino.data._source import Source
from sordino.data._unit import PrivacyUnit
from sordino.errors import InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.estimators import BucketGrid

GROUPS = 1 << 16
"""A question asks about at most this many groups."""

COUNTS = 1 << 26
"""A question asks for at most this many counts: one for each group and bucket, all of them held in memory."""


def grouping(
    source: Source,
    unit: PrivacyUnit,
    grid: BucketGrid,
    *,
    by: str | None,
    domain: Any,
    groups_per_unit: int | None,
) -> tuple[Domain | None, int | None]:
    """Return the domain of the groups, and in how many of them a unit counts.

    That number is None if a unit is a row, which is in one group.

    Raises
    ------
    InvalidParameter, UnknownDomain, UnboundedContribution
        If the groups are not public, too many, or nothing bounds how many a unit is in.
    """
    if by is None:
        if domain is not None or groups_per_unit is not None:
            raise InvalidParameter(
                "domain and groups_per_unit belong to by, the column of the groups; got them without one."
            )
        return None, None
    if domain is None:
        raise UnknownDomain(
            "Groups must come from a public domain: a list of labels, Domain.from_file, Domain.from_sql or "
            "Domain.range (--domain, --domain-sql, --domain-range); got none."
        )
    # Every group of the domain is released, also an empty
    # one. So which groups there are must not depend on rows.
    known = (domain if isinstance(domain, Domain) else Domain.of(domain)).resolve(source)
    if known.kind == "assumed public":
        raise UnknownDomain(
            "Groups must come from a domain that is listed; one that "
            "is assumed public is read from the rows themselves."
        )
    if known.size > GROUPS:
        raise InvalidParameter(f"domain must have at most {GROUPS} groups; got {known.size}.")
    if known.size * (grid.size + 1) > COUNTS:
        raise InvalidParameter(
            f"domain must have at most {COUNTS // (grid.size + 1)} groups "
            f"with {grid.size} edges; got {known.size}. Raise the growth."
        )
    # A row is in one group. A bound of 1 says so; any other bound is a mistake.
    if unit.column is None:
        if groups_per_unit is not None and groups_per_unit != 1:
            raise InvalidParameter(
                f"groups_per_unit is for unit columns: a row is in one group; got {shown(groups_per_unit)}."
            )
        return known, None
    if groups_per_unit is None:
        raise UnboundedContribution(
            "Groups must have a bound on how many of them one unit counts in; got a unit column without one. "
            "Give groups_per_unit (--groups-per-unit)."
        )
    return known, COUNT("groups_per_unit", groups_per_unit)
