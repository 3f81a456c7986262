"""Says what releases and accounts cost, in words: an epsilon alone tells nobody anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sordino.constraints import exact
from sordino.cost import Approximate, ApproximateZCDP
from sordino.cost.odds import bound_account, say_odds, say_odds_of, write_guarantee
from sordino.cost.several import say_days_of
from sordino.population import call_unit
from sordino.report.read import ReportedRelease
from sordino.report.words import call_people, say_number
from sordino.unit_columns import narrow_odds

# Of a rho beyond all reason no epsilon is looked for.
_LARGEST_RHO = 10**4
_FRACTION = re.compile(r"([0-9]{1,80})(?:/([0-9]{0,79}[1-9][0-9]{0,79}))?", re.ASCII)


def read_epsilon(told: ReportedRelease) -> Fraction | None:
    """Return the epsilon of a release, never less than it is; None if it has none."""
    # The estimate of what was measured again is made of all looks: all of them count.
    if _has_looks(told):
        return read_fraction(told.facts.get("total_epsilon"))
    said = told.facts.get("cost")
    # What a program wrote as a float may be a little below the fraction that was spent.
    if isinstance(said, Mapping) and said.get("notion") == "pure":
        found = read_fraction(said.get("exact"))
        if found is not None:
            return found
    return read_fraction(told.facts.get("epsilon"))


def _has_looks(told: ReportedRelease) -> bool:
    return "total_epsilon" in told.facts


def _read_spent(told: ReportedRelease, name: str) -> float | None:
    """Return an amount that a release spent, of several looks that of all together."""
    return told.number(f"total_{name}" if _has_looks(told) else name)


def read_fraction(value: Any) -> Fraction | None:
    """Return a number above 0 that was written down, as "1/3" or as a float.

    None for anything else.
    """
    # Anybody may have written it: a power of ten beyond all reason would take for ever.
    written = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    found = Fraction(int(written[1]), int(written[2] or 1)) if written is not None else exact(value)
    return found if found is not None and 0 < found < 10**6 else None


def say_hidden_from(told: ReportedRelease, said: str) -> str:
    """Return a sentence on what a reader learns of somebody as one of those who are protected."""
    return narrow_odds(
        said, told.text("unit"), None if told.text("called") is None else call_people(told)
    )


def say_spent(told: ReportedRelease) -> str:
    """Return what one release spent, in a sentence or two; empty where it does not say it."""
    if (cost := _read_cost(told)) is not None:
        return say_hidden_from(told, say_odds_of(cost))
    if (_read_spent(told, "rho") or 0) >= _LARGEST_RHO:
        return "It has no epsilon that always holds."
    return "What all of its looks cost together is not known." if _has_looks(told) else ""


def say_guarantee(told: ReportedRelease) -> str | None:
    """Return the epsilon and delta of what a release spent, with all of its looks, if known."""
    cost = _read_cost(told)
    return None if cost is None else write_guarantee(cost)


def _read_cost(told: ReportedRelease) -> Approximate | ApproximateZCDP | None:
    """Return what a release cost, of several looks all of them: never what was asked for."""
    if (epsilon := read_epsilon(told)) is not None:
        delta = _read_chance(_read_spent(told, "delta"))
        return None if delta is None else Approximate(epsilon=epsilon, delta=delta)
    rho, failing = _read_spent(told, "rho"), _read_chance(_read_spent(told, "failures"))
    if rho is None or not 0 < rho < _LARGEST_RHO or failing is None:
        return None
    return ApproximateZCDP(rho=rho, delta=failing)


def say_measure(told: ReportedRelease) -> str:
    """Return what one release spent where that is no epsilon, for auditors; else nothing."""
    rho = _read_spent(told, "rho")
    if rho is None or rho <= 0 or read_epsilon(told) is not None:
        return ""
    return f"{'All of its looks' if _has_looks(told) else 'It'} spent rho {say_number(rho)}."


def _read_chance(value: Any) -> Fraction | None:
    """Return a delta that was written down, 0 where none is; None for what is no delta."""
    found = read_fraction(value) if value else Fraction(0)
    return found if found is not None and found < 1 else None


def add_epsilons(releases: Sequence[ReportedRelease]) -> Fraction | None:
    """Return the epsilon of several releases together.

    None if one has none, or may fail, or protects others.
    """
    found = [read_epsilon(told) for told in releases]
    about = {(told.text("unit"), told.text("adjacency")) for told in releases}
    known = [epsilon for epsilon in found if epsilon is not None]
    pure = all(not _read_spent(told, "delta") and not told.simulated for told in releases)
    return (
        sum(known, Fraction(0))
        if known and len(known) == len(found) and len(about) == 1 and pure
        else None
    )


def say_promise(account: Mapping[str, Any]) -> str:
    """Return what an account may lose in its whole life, in words.

    Empty where it does not say it.
    """
    meter, sums = account.get("meter"), _find_sums(account)
    epsilon, delta = read_fraction(account.get("epsilon")), _read_chance(account.get("delta"))
    # A share has deltas and rhos of its own; epsilon and delta are those of the whole account.
    failing = _read_chance(sums.get("failures_limit", sums.get("limit")))
    if epsilon is None or delta is None or failing is None or (failing and failing >= delta):
        return ""
    order = read_fraction(_read_exactly(sums, "order")) if meter == "renyi" else None
    rho = read_fraction(_read_exactly(account, "limit")) if meter == "zcdp" else None
    bound = bound_account(
        epsilon,
        delta,
        order=order if order is not None and order > 1 else None,
        rho=rho if rho is not None and rho < _LARGEST_RHO else None,
        failing=failing,
    )
    unit = str(account.get("unit"))
    return narrow_odds(say_odds(epsilon, bound=bound), unit, call_unit(unit))


def say_account_days(account: Mapping[str, Any]) -> list[str]:
    """Return what an account means for somebody who is many of its units; nothing if nobody is."""
    epsilon, delta = read_fraction(account.get("epsilon")), _read_chance(account.get("delta"))
    if epsilon is None or delta is None:
        return []
    guarantee: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    # With deltas beside them rhos hold unless a release fails: then the guarantee is what is left.
    if account.get("meter") == "zcdp" and not _read_chance(_find_sums(account).get("limit")):
        guarantee["rho"] = read_fraction(_read_exactly(account, "limit")) or 0
    return say_days_of(str(account.get("unit")), str(account.get("adjacency")), guarantee)


def _find_sums(account: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an account says of its deltas, and of its order if it has one."""
    found = account.get("renyi", account.get("failures"))
    return found if isinstance(found, Mapping) else {}


def _read_exactly(said: Mapping[str, Any], name: str) -> Any:
    """Return an amount as it stands under "exact"; as a float where nothing does."""
    exactly = said.get("exact")
    return exactly.get(name, said.get(name)) if isinstance(exactly, Mapping) else said.get(name)
