"""Says what releases and accounts cost, in words: an epsilon alone tells nobody anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sordino.charts.figure import as_number
from sordino.constraints import exact
from sordino.cost.odds import bound_loss, say_odds
from sordino.report.read import Told
from sordino.report.words import say_number

_FRACTION = re.compile(r"([0-9]{1,80})(?:/([0-9]{0,79}[1-9][0-9]{0,79}))?", re.ASCII)
_DELTA = Fraction(1, 10**6)
"""How rarely more is learned than is told of a cost that has no epsilon by itself."""


def read_epsilon(told: Told) -> Fraction | None:
    """Return the epsilon of a release, never less than it is; None if it has none."""
    # A refined release cannot be told apart from what it refines: all looks together count.
    if _has_looks(told):
        return read_fraction(told.facts.get("total_epsilon"))
    said = told.facts.get("cost")
    # What a program wrote as a float may be a little below the fraction that was spent.
    if isinstance(said, Mapping) and said.get("notion") == "pure":
        found = read_fraction(said.get("exact"))
        if found is not None:
            return found
    return read_fraction(told.facts.get("epsilon"))


def _has_looks(told: Told) -> bool:
    return "total_epsilon" in told.facts


def _read_spent(told: Told, name: str) -> float | None:
    """Return an amount that a release spent, of several looks that of all together."""
    return told.number(f"total_{name}" if _has_looks(told) else name)


def read_fraction(value: Any) -> Fraction | None:
    """Return a number above 0 that was written down, as "1/3" or as a float; None for anything else."""
    # Anybody may have written it: a power of ten beyond all reason would take for ever.
    written = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    found = Fraction(int(written[1]), int(written[2] or 1)) if written is not None else exact(value)
    return found if found is not None and 0 < found < 10**6 else None


def say_spent(told: Told) -> str:
    """Return what one release spent, in a sentence or two; empty where it does not say it."""
    epsilon, delta = read_epsilon(told), _read_spent(told, "delta")
    if epsilon is not None:
        return f"{say_odds(epsilon)}{say_failing(delta)}"
    rho, failures = _read_spent(told, "rho"), _read_spent(told, "failures")
    if rho is None or rho <= 0:
        return "What all of its looks cost together is not known." if _has_looks(told) else ""
    spent = "All of its looks" if _has_looks(told) else "It"
    return f"{spent} spent rho {say_number(rho)}. {_say_rho(rho)}{say_failing(failures)}"


def say_failing(delta: float | None) -> str:
    """Return how likely a bound does not hold; empty where it always does."""
    return f" This holds but for a chance of {say_number(delta)} (delta)." if delta else ""


def _say_rho(rho: float) -> str:
    from sordino.cost import ZCDP  # noqa: PLC0415  (few releases have a rho)

    epsilon = read_fraction(bound_loss(ZCDP(rho=rho), _DELTA)) if rho < 1e4 else None
    if epsilon is None:
        return "Its noise has no epsilon that always holds."
    return f"But for a chance of {float(_DELTA):g}: {say_odds(epsilon)}"


def add_epsilons(releases: Sequence[Told]) -> Fraction | None:
    """Return the epsilon of several releases together.

    None if one has none, or may fail, or protects others.
    """
    found = [read_epsilon(told) for told in releases]
    about = {(told.text("unit"), told.text("adjacency")) for told in releases}
    known = [epsilon for epsilon in found if epsilon is not None]
    pure = all(not _read_spent(told, "delta") and not told.simulated for told in releases)
    return (
        sum(known, Fraction(0)) if known and len(known) == len(found) and len(about) == 1 and pure else None
    )


def say_promise(account: Mapping[str, Any]) -> str:
    """Return what an account may lose in its whole life, in words."""
    epsilon, delta = read_fraction(account.get("epsilon")), as_number(account.get("delta"))
    return "" if epsilon is None else f"{say_odds(epsilon)}{say_failing(delta)}"
