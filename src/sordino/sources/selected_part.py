"""The rows of a table that one release is about: those of some days, say, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from sordino.sources.computed_columns import TypedColumns, write_unit_column
from sordino.sources.engine import literal
from sordino.unit_columns import UnitColumn


@final
@dataclass(frozen=True, kw_only=True)
class SelectedPart:
    """What a release reads of a table, before anything else is asked of it.

    Whether a row is read follows from that row alone, and from public values. So rows of other
    parts decide about nothing (docs/proofs/parts-of-an-account.md).

    Parameters
    ----------
    of : UnitColumn
        The time by which rows are of a part: one of the columns of the unit.
    first, last : str or None
        The first and the last part that is read, as the cut writes them; None: no end there.
    low, high : int or None
        The same in whole hours, days, months or years since 1970, as an account counts them. None
        where the whole table is read that is not closed.
    closed : int or None
        The last part that the account has closed, as this release knows it; None without parts.
    closed_text : str or None
        How it is written; None where none is closed.
    """

    of: UnitColumn
    first: str | None = None
    last: str | None = None
    low: int | None = None
    high: int | None = None
    closed: int | None = None
    closed_text: str | None = None

    @property
    def text(self) -> str | None:
        """The parts that were named, as they are written; None where none was."""
        if self.low is None:
            return None
        return self.first if self.first == self.last else f"{self.first}..{self.last}"

    @property
    def kept_as(self) -> str | None:
        """What is kept of it with a release: which rows it read; None of all of a table."""
        return self.text if self.low is not None or self.first is None else f"{self.first}.."

    def add_to(self, where: str | None) -> str | None:
        """Return which rows count, as a filter would say it, with the filter of the asker."""
        if self.low is None:
            return where
        ends = f"= '{self.first}'"
        if self.first != self.last:
            ends = f"BETWEEN '{self.first}' AND '{self.last}'"
        said = f"{self.of.short} {ends}"
        return said if not where else f"{said} AND ({where})"

    def list_rules(self) -> list[str]:
        """Return which rows are left out because their part is closed, in words."""
        if self.low is not None or self.first is None:
            return []
        return [f"rows whose {self.of.short} is before {self.first}, which is closed"]

    def write(self, source: TypedColumns) -> tuple[str, frozenset[int]]:
        """Return what is true of a row that is read, total, and the columns that it reads.

        Empty where all rows are.
        """
        ends: Sequence[tuple[str, str | None]] = ((">=", self.first), ("<=", self.last))
        if self.first is self.last is None:
            return "", frozenset()
        sql, index = write_unit_column(self.of, source, "part")
        # By bytes: a collation may see nothing in what stands between digits.
        bytes_of = source.backend.dialect.words.code_points.format
        text = bytes_of(sql)
        tests = [f"{text} {sign} {bytes_of(literal(end))}" for sign, end in ends if end is not None]
        return f"coalesce({' AND '.join(tests)}, FALSE)", frozenset({index})
