"""Figures of a column in which all rows of a person count, with weights, where nothing bounds them.

`numbers` has the figures themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, cast

from sordino.constraints import COUNT, shown
from sordino.declared import parameter
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.questions import NumberQuestion, PrivacyUnit
from sordino.session.column_figures import Searching, Weighing
from sordino.session.column_request import ColumnRequest
from sordino.session.request import R, Table, checked_later, is_unlisted


class WeighedRequest(ColumnRequest[R]):
    """A figure of a column that may be of weighed rows."""

    kept: ClassVar[tuple[str, ...]] = (*ColumnRequest.kept, "weight_cap")

    weight_cap: int | Literal["auto"] | None = parameter(
        checked_later,
        "Let all rows of a person count, who counts as at most so many in all groups together: a "
        "number, or auto, which finds about the .9 quantile on a twentieth of epsilon.",
        more="A person with more rows has a smaller weight for each; `max_rows` does not count "
        "then. It is auto where nothing else bounds the rows of a person (`max_rows`), or with "
        "`per_person` its groups. What is found of one, a clip or a weight, is for all groups. The "
        "figure is one with these weights: no interval is private of the plain one over rows, of "
        "which a single person with enough rows makes anything.",
        default=None,
    )

    def settle(self, unit: PrivacyUnit) -> Self:
        """Weigh the rows of each person, where nothing bounds them."""
        if self.weight_cap is not None:
            self._check_weight_cap(unit)
            return self
        if unit.column is None or self.has_public_ends:
            return self
        any_rows = unit.max_rows is None and self.per_person is None
        in_some_groups = self.groups_per_unit is not None and not is_unlisted(self.domain)
        if any_rows and in_some_groups:
            raise UnboundedContribution(
                f"{self.name}.groups_per_unit (--groups-per-unit) must go with a bound on the rows "
                "of a person in each group (--max-rows), or one number of them (--per-person); got "
                "neither. Leave it out: then all rows of a person count, with weights."
            )
        # One number of a person in each group it is in.
        any_groups = self.per_person is not None and self.by is not None
        weighs = (any_rows or any_groups) and not in_some_groups
        return replace(self, weight_cap="auto") if weighs else self

    @property
    def has_public_ends(self) -> bool:
        """Whether rows are moved between public ends, and a declared range is asked for."""
        return False

    def _check_weight_cap(self, unit: PrivacyUnit) -> None:
        """Refuse weights where there is nothing to weigh."""
        if self.weight_cap != "auto":
            COUNT(f"{self.name}.weight_cap, unless 'auto',", self.weight_cap)
        reason = {
            "each row is somebody else, and counts once": unit.column is None,
            "with bounds rows are moved between public ends": self.has_public_ends,
            "one number of each person, without groups, counts once": self.by is None
            and self.per_person is not None,
            "groups_per_unit bounds what a person has": self.groups_per_unit is not None
            and not is_unlisted(self.domain),
        }
        for why, holds in reason.items():
            if holds:
                raise InvalidParameter(
                    f"{self.name}.weight_cap (--weight-cap) must be left out here, because {why}; "
                    f"got {shown(self.weight_cap)}."
                )

    @property
    def weighs(self) -> bool:
        """Whether rows of a person count with weights, however many there are."""
        return self.weight_cap is not None

    @property
    def declared_weight(self) -> int | None:
        """As how many rows a person counts at most, if that is declared; None where it is found."""
        return None if self.weight_cap == "auto" else self.weight_cap

    @property
    def searches_together(self) -> bool:
        """Whether one search is over what persons have in all groups together."""
        return True

    @property
    def clips_together(self) -> bool:
        """Whether what is found, a clip or a weight, is of what a person has in all groups."""
        return self.weighs

    def ask_for(self, table: Table, estimator: Searching) -> NumberQuestion:
        """Return what an estimator asks about the column."""
        if not self.weighs:
            return super().ask_for(table, estimator)
        # First it is counted how many rows each person has.
        rows = cast("Weighing", estimator).row_grid
        return self.ask(
            table, rows, weigh_grid=estimator.grid, weigh_each=not self.searches_together
        )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {**super().detail(), "weight_cap": self.weight_cap}
