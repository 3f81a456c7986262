"""Writes the public facts beside amounts as JSON, with a nonce that makes every event its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sordino.errors import InvalidParameter
from sordino.ledger.amounts import Meter, exact_amounts, read_cost
from sordino.receipt import read_clock
from sordino.sensitivity import Sensitivity


def nonce() -> str:
    """Return 128 fresh bits as hexadecimal text."""
    # No noise, but unpredictable as well: whoever guessed a key could draw from the charge.
    return os.urandom(16).hex()


def body_of(**facts: Any) -> str:
    """Return the body of an event: its facts, the time for a human reader, and a nonce."""
    # Sorted names and no NaN: the text is hashed, and any program must be able to read it.
    return json.dumps(
        {"time": read_clock(), "nonce": nonce(), **facts}, allow_nan=False, sort_keys=True
    )


def described(things: Sequence[Any], meter: Meter) -> list[dict[str, Any]]:
    """Return the name of each mechanism or cost to charge, and its exact amounts on the meter.

    For our own mechanisms and costs this includes the cost and the public parameters. What others
    keep in their fields may be private, and is left out.
    """
    facts = []
    for thing in things:
        amounts = exact_amounts(thing, meter)
        fact: dict[str, Any] = {"name": type(thing).__name__, meter.measure: str(amounts.main)}
        if meter.order is not None:
            fact["epsilon"] = None if amounts.pure is None else str(amounts.pure)
            fact["delta"] = str(amounts.failing)
        if _is_sordino_cost(cost := read_cost(thing, "pure")):
            fact["cost"] = cost.to_dict()
            # Only our own classes surely show public parameters alone.
            if thing is not cost and type(thing).__module__.startswith("sordino."):
                fact["parameters"] = repr(thing)
        facts.append(fact)
    return facts


def find_alone(body: Mapping[str, Any]) -> Fraction:
    """Return how much more what a charge is for loses by itself than it adds to a sum of epsilons.

    It is 0 unless the charge refined another release, as those of earlier versions could; `body` is
    that of its reservation.
    """
    try:
        return sum((_alone_of(fact.get("cost", {})) for fact in body["charges"]), Fraction(0))
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        # In a damaged file the facts may be anything, and an account is shown all the same;
        # `verify` says so.
        return Fraction(0)


def _alone_of(cost: Mapping[str, Any]) -> Fraction:
    if cost.get("notion") == "composition":
        return sum((part["count"] * _alone_of(part) for part in cost["parts"]), Fraction(0))
    if cost.get("notion") != "added":
        return Fraction(0)
    added, alone = map(Fraction, cost["exact"])
    return alone - added


def find_rho(body: Mapping[str, Any]) -> Fraction | None:
    """Return the rho that a charge was reserved with, if each cost is a rho or a pure epsilon."""
    try:
        return sum((_rho_of(fact["cost"]) for fact in body["charges"]), Fraction(0))
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _rho_of(cost: Mapping[str, Any]) -> Fraction:
    if cost["notion"] == "composition":
        return sum((part["count"] * _rho_of(part) for part in cost["parts"]), Fraction(0))
    if cost["notion"] == "zcdp":
        return Fraction(cost["exact"])
    # Any other notion has no name here, which ends the search.
    return {"pure": Fraction(cost["exact"]) ** 2 / 2}[cost["notion"]]


def _is_sordino_cost(cost: Any) -> bool:
    # A composition of ours may hold a part of somebody else's class.
    return type(cost).__module__.startswith("sordino.cost.") and all(
        _is_sordino_cost(part) for part, _ in getattr(cost, "parts", ())
    )


def recorded(detail: dict[str, Any] | None) -> dict[str, Any]:
    """Return details as JSON-ready values, or raise `InvalidParameter`."""
    if detail is not None and not isinstance(detail, dict):
        raise InvalidParameter(
            f"detail must be a dict of public, JSON-ready values; got a {type(detail).__name__}."
        )
    try:
        plain: dict[str, Any] = json.loads(
            json.dumps(detail or {}, allow_nan=False, sort_keys=True, default=_encode_detail_value)
        )
    except (TypeError, ValueError, RecursionError):
        raise InvalidParameter(
            "detail must be a dict of public, JSON-ready values; it holds one that JSON cannot "
            "express."
        ) from None
    return plain


def _encode_detail_value(value: Any) -> Any:
    # As text, because a float would not be the exact number.
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if isinstance(value, Sensitivity) or _is_sordino_cost(value):
        return value.to_dict()
    raise TypeError
