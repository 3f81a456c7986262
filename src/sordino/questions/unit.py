"""The unit of privacy: who is protected, and how many rows or items of one unit may count.

The sensitivity of the counts of this package, with the reason for each. Proof:
docs/proofs/counts.md.

A unit contributes to the answers only through its own rows: the line and type rules, the predicate,
and the choice of at most M items are functions of one unit's own rows, public values and a salt. So
between neighbors only one unit's contribution changes.

- Items, unit column, no cap: an item counts a unit once, so each count moves by at most 1. The unit
  may touch every item: k counts released together move by at most k in L1.
- Items, at most M items a unit: each count still moves by at most 1. If the unit is added or
  removed, at most M counts move. If it is replaced, it leaves at most M items and joins at most M
  others: 2M. In any case at most k. Counts of which m move by at most 1 move by at most m in L1,
  and by the root of m in L2.
- Items, one row one unit: as with M = 1.
- Rows: min(rows of the unit, M) lies in 0..M. So the sum over units moves by at most M, whether the
  unit is added, removed or replaced. One row one unit: M = 1.
- Units: a unit counts once or not at all: 1.

Adding a unit lowers no count, and removing it raises none: all counts are monotone under
add-remove. A replaced unit can lower one count and raise another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

from sordino.constraints import ADJACENCY, COUNT, shown, text
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.sensitivity import Adjacency, Sensitivity
from sordino.unit_columns import UnitColumn, read_unit_columns, write_unit_columns

_MOST_ROWS = (1 << 63) - 1


@final
@dataclass(frozen=True)
class PrivacyUnit:
    """What one protected unit is: all rows with the same value in a column, or one row.

    Parameters
    ----------
    column : str, sequence of str, or None
        The column that names the unit (a customer, a device). Rows without a value there count for
        nobody and are dropped. None: one row is one unit; `PrivacyUnit.row()` says it more clearly.
        Several: the rows that agree in each of them, such as ["customer_id", "day(ordered_at)"],
        which protects a customer *on one day*. There a time may be cut to a `year`, `quarter`,
        `month`, `week`, `day` or `day_hour`; one with a zone at an offset that is said,
        "day(ordered_at at '+01:00')". Somebody with rows on d days is d units. Every column must be
        a fact of its own row: none that was computed from other rows of the person.
    adjacency : {"add-remove", "replace-one"}
        Neighboring data sets differ by all rows of one unit. These are added or removed, or
        replaced by other rows.
    max_rows : int, optional
        Each unit contributes at most this many rows, or distinct items where items are counted.
    called : str, optional
        What a unit is called below tables, such as "customer"; "person" unless said.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.questions import PrivacyUnit
    >>> PrivacyUnit("customer_id").identity
    'column "customer_id"'
    >>> PrivacyUnit.row().identity
    'each row'
    >>> PrivacyUnit(["customer_id", "day(ordered_at)"]).identity
    'columns "customer_id", day("ordered_at")'
    """

    column: str | Sequence[str] | None
    adjacency: Adjacency = "add-remove"
    max_rows: int | None = None
    # Only what people read differs by it.
    called: str | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.column, tuple | list):
            # The class is frozen: as an account writes them, so that equal units are equal.
            written = tuple(one.text for one in read_unit_columns(self.column))
            object.__setattr__(self, "column", written)
        elif self.column is not None:
            text(self.column, "PrivacyUnit.column")
        ADJACENCY("PrivacyUnit.adjacency", self.adjacency)
        if self.called is not None:
            text(self.called, "PrivacyUnit.called")
        if self.max_rows is not None:
            # No table has more rows, and engines count in as many bits.
            if COUNT("PrivacyUnit.max_rows", self.max_rows) > _MOST_ROWS:
                raise InvalidParameter(
                    f"PrivacyUnit.max_rows must be at most {_MOST_ROWS}; got "
                    f"{shown(self.max_rows)}. Leave it out where nothing shall bound the rows of a "
                    "person."
                )
            if self.column is None:
                raise InvalidParameter(
                    "PrivacyUnit.max_rows needs a column of persons: one row is already at most "
                    "one; got 'each row'."
                )

    @classmethod
    def row(cls, adjacency: Adjacency = "add-remove") -> PrivacyUnit:
        """Return the unit "one row": every row is a unit of its own.

        Parameters
        ----------
        adjacency : {"add-remove", "replace-one"}
            Neighboring data sets have one row more or less, or one row replaced.
        """
        return cls(None, adjacency=adjacency)

    @property
    def identity(self) -> str:
        """The text that a ledger stores: who is protected by its account."""
        # With the word `column` in front, so that no name of a column reads as the unit "each row".
        if self.parts:
            return write_unit_columns(self.parts)
        return "each row" if self.column is None else f'column "{self.column}"'

    @property
    def parts(self) -> tuple[UnitColumn, ...]:
        """The columns of a unit of several; none of another one."""
        several = isinstance(self.column, tuple | list)
        return read_unit_columns(tuple(self.column or ())) if several else ()

    @property
    def columns(self) -> tuple[UnitColumn, ...]:
        """All of its columns; none where each row is a unit."""
        if self.column is None or self.parts:
            return self.parts
        return (UnitColumn(str(self.column)),)

    @property
    def components(self) -> tuple[str, ...]:
        """Its columns as an account writes them; none where each row is a unit."""
        return tuple(one.text for one in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table that it is of; none where each row is a unit."""
        return tuple(one.name for one in self.columns)

    @property
    def key(self) -> str | None:
        """What the column is called by which rows are of one unit; None where each row is one."""
        return ", ".join(self.components) if self.parts else self.names[0] if self.names else None

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as JSON-ready values."""
        return {"unit": self.identity, "adjacency": self.adjacency, "max_rows": self.max_rows}


# ---- sensitivity ---------------------------------------------------------------------------------


Kind = Literal["items", "rows", "units"]
VectorNorm = Literal["l1", "l2"]


def each_answer(kind: Kind, unit: PrivacyUnit, *, one_item: bool = False) -> Sensitivity:
    """Return how far any one count of this kind moves between neighbors.

    `one_item` says that no unit has two items, whatever its rows are.

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
                "A count of rows must have a bound on the rows of each person; got none. Say it "
                "where the table is opened, such as max_rows=5 (--max-rows 5), or count people: "
                "count_distinct_units (--units)."
            )
        bound = unit.max_rows
    return Sensitivity(
        bound=bound,
        monotone=_is_monotone(unit),
        adjacency=unit.adjacency,
        step=1,
        l1=_moving_items(unit, one_item=one_item) if kind == "items" else None,
    )


def all_answers(kind: Kind, unit: PrivacyUnit, k: int, norm: VectorNorm = "l1") -> Sensitivity:
    """Return how far `k` counts released together move between neighbors, in one of two norms."""
    # A unit may have some items only. But a count of rows or of units it moves each time that it is
    # asked.
    return each_answer(kind, unit).over(k, norm)


def _moving_items(unit: PrivacyUnit, *, one_item: bool) -> int | None:
    """Return how many counts of items can move between neighbors, by 1 each.

    None if any number can.
    """
    cap = 1 if one_item or unit.column is None else unit.max_rows
    if cap is None:
        return None
    # A replaced unit takes its items away and brings others: twice as many counts can move.
    return cap if unit.adjacency == "add-remove" else 2 * cap


def _is_monotone(unit: PrivacyUnit) -> bool:
    # A unit that is added lowers no count. A replaced one can lower one count and raise another.
    return unit.adjacency == "add-remove"
