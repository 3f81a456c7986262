"""A plan: what a release will cost and give, as a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

from sordino.cost import Cost, compose
from sordino.cost.odds import say_odds_of
from sordino.ledger import Preview
from sordino.ledger.left import say_more
from sordino.record import describe_spent, list_spent
from sordino.releases import plain
from sordino.results.sentences import CLIPPED_RANKS
from sordino.session.plans.widths import PlannedFigure
from sordino.tabular import Kind, Row, Tabular, WithRows, list_row_columns
from sordino.unit_columns import narrow_odds

NOTHING = "No figure is expected: with so little epsilon nothing is found of what is assumed."


@final
@dataclass(frozen=True, kw_only=True)
class PlannedChoice:
    """How likely a release names the right items, of data that are assumed to be like that.

    Attributes
    ----------
    like : str
        What is assumed of the data.
    right : float
        How likely all that is named is right, and nothing that is right is left out for want of
        noise: of a top k, that each item is one of the k largest; above a threshold, that just
        those above it are found.
    share : float
        The share of right items that is named, on average.
    wrong : float
        How many wrong ones are named, on average.
    error : float
        Standard error of `right`, from so many `runs`.
    runs : int
    """

    like: str
    right: float
    share: float
    wrong: float
    error: float
    runs: int


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(WithRows[PlannedFigure], Tabular):
    """What a release will cost and give. Nothing was read but the schema, nothing was charged.

    Attributes
    ----------
    release : str
        Which release, such as "top_k".
    epsilon : float or None
        The budget that was asked for, or found for a goal.
    rows : tuple of PlannedFigure
        How wide intervals will be.
    choices : tuple of PlannedChoice
        How likely the right items are named; empty where nothing is chosen.
    cost : Cost
        What would be reserved at most.
    account : Preview or None
        What would be left of the account; None if nobody pays.
    assumed : str
        What is assumed of the data, in words; empty where nothing is.
    left_out : tuple of str
        Rules by which rows do not count, or count as something else, in words.
    odds : str
        What the cost means for one person, in one sentence.
    method : str or None
        How the items of a selection are found.
    goal : str or None
        What epsilon was found for: it is the smallest of three digits that reaches it.
    threshold : int or None
        Of a histogram of which only some cells are shown: which noisy counts these are.
    simulated : bool
        True: what a plan shows comes from made-up or public data.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"],
    ...                        "product": ["tea", "tea", "tea", "rice"]})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), ledger=None)
    >>> plan = session.plan.histogram("product", epsilon=1, domain=["coffee", "rice", "tea"])
    >>> [(row.figure, row.like, row.widest) for row in plan]
    [('each count', 'any data', 18.0)]
    """

    release: str
    epsilon: float | None
    rows: tuple[PlannedFigure, ...]
    choices: tuple[PlannedChoice, ...]
    cost: Cost
    account: Preview | None
    assumed: str
    left_out: tuple[str, ...]
    odds: str
    method: str | None = None
    goal: str | None = None
    threshold: int | None = None
    simulated: bool = True

    def __repr__(self) -> str:
        epsilon = "" if self.epsilon is None else f", epsilon={self.epsilon:g}"
        return f"Plan({self.release}{epsilon}, rows={len(self.rows)}, cost={self.cost})"

    def __str__(self) -> str:
        return "\n".join([*self.list_figures(), *self.list_choices(), *self.list_notes()])

    def list_rows(self) -> list[Row]:
        """Return the figures, each as a mapping of names."""
        return [
            {field.name: getattr(row, field.name) for field in fields(row)} for row in self.rows
        ]

    def _list_columns(self) -> dict[str, Kind]:
        return list_row_columns(self)

    def list_figures(self) -> list[str]:
        """Return how wide intervals will be, a sentence for each kind of figure."""
        nothing = [NOTHING] if self.is_empty else []
        return [say_planned_figure(row) for row in self.rows] or nothing

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected of what is assumed: no group is found, for one."""
        return not self.rows and not self.choices and bool(self.assumed)

    def list_choices(self) -> list[str]:
        """Return how likely the right items are named, a sentence for each assumption."""
        said = [_say_choice(choice) for choice in self.choices]
        # What is right in a plan is right of clipped sums alone.
        return [*said, CLIPPED_RANKS] if said and self.release == "top_sums" else said

    def list_notes(self) -> list[str]:
        """Return what stands below the figures, in sentences."""
        notes = [f"Goal {self.goal}: reached with epsilon {self.epsilon:g}."] if self.goal else []
        if self.threshold is not None:
            notes.append(f"Shown: noisy counts of {self.threshold:,} or more.")
        notes += [f"Assumed: {self.assumed}."] if self.assumed else []
        notes += [f"Left out: {'; '.join(self.left_out)}."] if self.left_out else []
        return [
            *notes,
            f"Cost: {self._say_cost()}.",
            self._say_account(),
            self.odds,
        ]

    def _list_notes(self, rows: int) -> list[str]:  # noqa: ARG002 - there are few
        return [*self.list_choices(), *self.list_notes(), "Nothing was read, nothing was charged."]

    def list_details(self) -> list[str]:
        """Return what the cost is by itself, where it is not the epsilon that was asked."""
        spent = list_spent(self.cost)
        return [f"By itself: {describe_spent(spent)}."] if "rho" in spent else []

    def _say_cost(self) -> str:
        """Return the cost: the epsilon that was asked where noise has none, or a larger one."""
        spent = list_spent(self.cost)
        if "rho" not in spent or self.epsilon is None:
            return describe_spent(spent)
        fails = spent.get("failures") or spent["delta"]
        return f"epsilon {self.epsilon:.6g}{f', delta {fails:.12g}' if fails else ''}"

    def _say_account(self) -> str:
        seen = self.account
        if seen is None:
            return "Account: none; nobody pays, and nothing would remember it."
        return f"Account {seen.account}: {seen.say_left()} would be left. {say_more(seen.more)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return {
            "type": "Plan",
            "release": self.release,
            "epsilon": self.epsilon,
            "method": self.method,
            "goal": self.goal,
            "threshold": self.threshold,
            "rows": plain(self.rows),
            "choices": plain(self.choices),
            "spent": list_spent(self.cost),
            "cost": self.cost.to_dict(),
            "account": None if self.account is None else self.account.to_dict(),
            "assumed": self.assumed,
            "left_out": list(self.left_out),
            "odds": self.odds,
        }


def join_plans(
    plans: Sequence[tuple[str, Plan]], unit: str | None = None, called: str | None = None
) -> Plan:
    """Return one plan of figures that one charge pays, each with what it is of.

    Each was planned behind those before it, so the last one knows what the account would say.
    `unit` is whom they protect, as an account writes it, and `called` what one of them is called.
    """
    listed = [one for _, one in plans]
    account, cost = listed[-1].account, compose(*(one.cost for one in listed))
    named = [
        replace(row, figure=f"{row.figure} of {about}") for about, one in plans for row in one.rows
    ]
    return replace(
        listed[-1],
        release=listed[0].release,
        epsilon=sum(one.epsilon or 0 for one in listed),
        rows=tuple(named),
        cost=cost,
        assumed="; ".join(dict.fromkeys(one.assumed for one in listed if one.assumed)),
        left_out=tuple(dict.fromkeys(rule for one in listed for rule in one.left_out)),
        odds=narrow_odds(
            say_odds_of(cost, None if account is None else account.delta), unit, called
        ),
    )


def say_planned_figure(row: PlannedFigure) -> str:
    """Return one figure in words."""
    if row.standard_error is not None and row.widest is None:
        return f"{row.figure} ({row.like}): standard error {row.standard_error:.6g}."
    if row.typical is None and row.widest is None:
        return f"{row.figure} ({row.like}): no interval, or one without an end."
    if row.narrowest == row.widest:
        return f"{row.figure} ({row.like}): ± {_half(row.widest)}{_say_off(row)}."
    high = (
        "without an end"
        if row.widest is None
        else f"± {_half(row.widest)} at most ({row.sure:.0%} sure)"
    )
    width = f"± {_half(row.narrowest)} to ± {_half(row.typical)}, {high}"
    return f"{row.figure} ({row.like}): {width}{_say_off(row)}."


def _say_off(row: PlannedFigure) -> str:
    """Return how far figures lie from those without noise, and how often intervals reach as far."""
    if row.off is None or row.held is None:
        return ""
    # Of few runs: rounded down, as everywhere.
    return (
        f"; off the figure without noise by {row.off:.6g} at most, which "
        f"{math.floor(100 * row.held)}% of the intervals held"
    )


def _half(width: float | None) -> str:
    return "?" if width is None else f"{width / 2:.6g}"


def _say_choice(one: PlannedChoice) -> str:
    """Return how likely a choice is right, in words."""
    return (
        f"Right items ({one.like}): all of them with {_say_chance(one.right)}, give or take "
        f"{math.ceil(200 * one.error)} points; on average {_say_chance(one.share)} of them and "
        f"{one.wrong:.2g} wrong ones."
    )


def _say_chance(chance: float) -> str:
    """Return a chance in percent, rounded down: a few runs are never certain."""
    return "over 99%" if chance > 0.99 else f"{math.floor(100 * chance)}%"
