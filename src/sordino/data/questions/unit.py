"""The unit of privacy: who is protected, and how many rows or items of one unit may count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from sordino.constraints import ADJACENCY, COUNT, text
from sordino.errors import InvalidParameter
from sordino.sensitivity import Adjacency


@final
@dataclass(frozen=True)
class PrivacyUnit:
    """What one protected unit is: all rows with the same value in a column, or one row.

    Parameters
    ----------
    column : str or None
        The column that names the unit (a customer, a device). Rows without a value there count for nobody and
        are dropped. None: one row is one unit; `PrivacyUnit.row()` says it more clearly.
    adjacency : {"add-remove", "replace-one"}
        Neighboring data sets differ by all rows of one unit. These are added or removed, or replaced by other
        rows.
    max_rows : int, optional
        Each unit contributes at most this many rows, or distinct items where items are counted.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.data import PrivacyUnit
    >>> PrivacyUnit("customer_id").identity
    'column "customer_id"'
    >>> PrivacyUnit.row().identity
    'each row'
    """

    column: str | None
    adjacency: Adjacency = "add-remove"
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if self.column is not None:
            text(self.column, "PrivacyUnit.column")
        ADJACENCY("PrivacyUnit.adjacency", self.adjacency)
        if self.max_rows is not None:
            COUNT("PrivacyUnit.max_rows", self.max_rows)
            if self.column is None:
                raise InvalidParameter(
                    "PrivacyUnit.max_rows needs a unit column: one "
                    "row is already at most one row; got 'each row'."
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
        return "each row" if self.column is None else f'column "{self.column}"'

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as JSON-ready values."""
        return {"unit": self.identity, "adjacency": self.adjacency, "max_rows": self.max_rows}
