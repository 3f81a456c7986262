"""The sensitivity of the counts of this package, with the reason for each. Proof: docs/proofs/counts.md.

A unit contributes to the answers only through its own rows: the line and type rules, the predicate, and the
choice of at most M items are functions of one unit's own rows, public values and a salt. So between neighbors
only one unit's contribution changes.

- Items, unit column, no cap: an item counts a unit once, so each count moves by at most 1. The unit may touch
  every item: k counts released together move by at most k in L1.
- Items, at most M items a unit: each count still moves by at most 1. If the unit is added or removed, at most
  M counts move. If it is replaced, it leaves at most M items and joins at most M others: 2M. In any case at
  most k.
- Items, one row one unit: as with M = 1.
- Rows: min(rows of the unit, M) lies in 0..M. So the sum over units moves by at most M, whether the unit is
  added, removed or replaced. One row one unit: M = 1.
- Units: a unit counts once or not at all: 1.

Adding a unit lowers no count, and removing it raises none: all counts are monotone under add-remove. A
replaced unit can lower one count and raise another.
"""

from __future__ import annotations

from typing import Literal

from sordino.constraints import COUNT
from sordino.data.questions.unit import PrivacyUnit
from sordino.errors import UnboundedContribution
from sordino.sensitivity import Sensitivity

Kind = Literal["items", "rows", "units"]


def each_answer(kind: Kind, unit: PrivacyUnit) -> Sensitivity:
    """Return how far any one count of this kind moves between neighbors.

    Raises
    ------
    UnboundedContribution
        If rows are counted and nothing bounds how many rows one unit has.
    """
    # An item, a unit, or a row that is a unit counts once or not at all.
    bound = 1
    if kind == "rows" and unit.column is not None:
        if unit.max_rows is None:
            raise UnboundedContribution(
                "A count of rows must have a bound on the rows of one unit; got a unit column without one. "
                "Give PrivacyUnit.max_rows (--max-rows), or count distinct units instead."
            )
        bound = unit.max_rows
    return Sensitivity(bound=bound, monotone=_is_monotone(unit), adjacency=unit.adjacency, step=1)


def all_answers(kind: Kind, unit: PrivacyUnit, k: int) -> Sensitivity:
    """Return how far `k` counts released together move between neighbors, in L1."""
    k = COUNT("k", k)
    each = each_answer(kind, unit)
    # A unit may have some items only. But a count of rows or of units it moves each time that it is asked.
    if kind != "items":
        return each.over(k)
    # Each of the k counts moves by at most 1, so k is a bound in any case.
    most = k
    cap = 1 if unit.column is None else unit.max_rows
    if cap is not None:
        # A replaced unit takes its items away and brings others: twice as many counts can move.
        most = min(k, cap if unit.adjacency == "add-remove" else 2 * cap)
    return Sensitivity(
        bound=most, monotone=_is_monotone(unit), adjacency=unit.adjacency, norm="l1", step=1, size=k
    )


def _is_monotone(unit: PrivacyUnit) -> bool:
    # A unit that is added lowers no count. A replaced one can lower one count and raise another.
    return unit.adjacency == "add-remove"
