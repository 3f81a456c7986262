"""Writes the record for the public registry.

The owner's words, and ours about what the ledger has.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sordino.cost.conversion import round_up_written
from sordino.cost.several import say_days_of
from sordino.statements.owner import FIELDS, OWNER_MUST_ADD, Owner
from sordino.unit_columns import has_several_columns, say_unit_of

_NEIGHBOURS = {
    "add-remove": (
        "Neighbouring data sets differ by {one}, which one of them has and the other has not"
    ),
    "replace-one": "Neighbouring data sets have equally many units and differ by {one}, which "
    "{is_} replaced: the number of units is not protected",
}
_ADDED = {
    "epsilon": "The epsilons of all releases are added, in exact fractions (sequential "
    "composition); what a release reserved and, by the proof of its mechanism, did not spend, "
    "comes back.",
    "rho": "The rhos of all releases are added, in exact fractions (sequential composition under "
    "zero-concentrated differential privacy), up to the largest rho that is still (epsilon, "
    "delta)-private.",
    "divergence": "The Renyi divergences of all releases at one order are added, and beside them "
    "their epsilons; one of the two sums stays within its limit, and so do the deltas of releases "
    "that may fail.",
}
_FAILURES = " The deltas of releases that may fail are added beside them."
_PARTS = (
    " They are added for each {0} by itself, by what a release reads: nobody is in two of these, "
    "so each {0} has the whole budget. What reads the whole table counts for all of them, future "
    "ones too."
)
_RELEASED = {
    "account": (
        "Many releases",
        "All releases of an account with a budget for its whole life, charged before a row is "
        "read. What does not fit in the budget is refused.",
    ),
    "batch": (
        "Many releases",
        "{number} releases that were charged together, in one step, before a row was read. They "
        "are some of those of an account with a budget; what all of its releases promise together "
        "is the statement of the account.",
    ),
    "release": (
        "One release",
        "One of the releases of an account with a budget; what they promise together is the "
        "statement of the account.",
    ),
}
"""What a statement is about: the word of the registry, and ours."""
_WHOLE = {
    "account": "What all releases of the account may lose together at most",
    "batch": "What all of these releases may lose together at most, fixed before a row was read; "
    "what they spent may be less",
    "release": (
        "What the release may lose at most, fixed before a row was read; what it spent may be less"
    ),
}
_SECURITY = (
    "Floating point: noise is drawn on whole numbers in exact arithmetic, so that no float decides "
    "about it{but}. Randomness: from the operating system, through AES-256-CTR. Timing: the "
    "running time of a release is not protected, and must stay with the data holder. Platform: "
    "where sordino reads the table, every row is evaluated by itself, and none decides whether "
    "there is an error, a message or an exit code."
)


def build_record(promise: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
    """Return the record for the registry, with every field that it needs.

    Parameters
    ----------
    promise : mapping of str to object
        What the ledger has, as the second part of a statement says it.
    owner : Owner
        What the owner of the data says.
    """
    ours = _write_stated_fields(promise)
    deployment: dict[str, Any] = {}
    for known in FIELDS:
        value = owner.said.get(known.path) if known.owner else ours[known.path]
        if value is None:
            if not known.needed:
                continue
            value = [OWNER_MUST_ADD] if known.kind == "texts" else OWNER_MUST_ADD
        group, dot, name = known.path.partition(".")
        if dot:
            deployment.setdefault(group, {})[name] = value
    return {
        "url_slug": owner.said.get("url_slug", OWNER_MUST_ADD),
        # A board decides about the rest.
        "status": "Draft",
        "tier": find_tier(owner),
        "deployment": deployment,
    }


def list_missing(owner: Owner) -> list[str]:
    """Return the fields that the owner has still to fill in, in the order of the registry."""
    return [
        known.path
        for known in FIELDS
        if known.owner and known.needed and known.path not in owner.said
    ]


def find_tier(owner: Owner) -> int:
    """Return the tier of the registry that a record has: how much of what it asks for is said."""
    missing = {known.tier for known in FIELDS if known.path in list_missing(owner)}
    # The first tier asks for what every record needs.
    return min(missing - {1}, default=4) - 1 if missing - {1} else 3


def _write_stated_fields(promise: Mapping[str, Any]) -> dict[str, Any]:
    """Return what sordino says in each of its fields, by its path."""
    guarantee = promise["guarantee"]
    released, details = _RELEASED[promise["about"]]
    return {
        "dp_variant.variant_name": guarantee["variant"],
        "privacy_loss.privacy_unit": _write_stated_unit(promise["unit"]),
        "privacy_loss.privacy_unit_details": _write_neighbours(promise),
        "privacy_loss.privacy_parameters": {
            name: round_up_written(Fraction(guarantee[name]))
            for name in ("epsilon", "delta", "rho")
            # A rho that holds unless a release fails is none without the delta of that.
            if name in guarantee and not (name == "rho" and "failures" in guarantee)
        },
        "privacy_loss.privacy_parameters_details": _write_parameters(promise),
        "deployment_model.model_name": "Central",
        "deployment_model.release_type": released,
        "deployment_model.release_type_details": details.format(number=promise.get("charged")),
        "accounting.composition": _ADDED[promise["measure"]]
        + (_FAILURES if "failures" in guarantee else "")
        + (_PARTS.format(promise["parts"]["cut"]) if "parts" in promise else ""),
        "implementation.mechanisms": _write_mechanisms(promise),
    }


def _write_stated_unit(unit: str) -> str:
    if has_several_columns(unit):
        whom = say_unit_of(unit, "person")
        return f"{whom[0].upper()}{whom[1:]}: all rows that have the same values in {unit}"
    return "One row" if unit == "each row" else f"All rows that have the same value in {unit}"


def _write_neighbours(promise: Mapping[str, Any]) -> str:
    unit = promise["unit"]
    rows, several = unit == "each row", has_several_columns(unit)
    of = f"with the same values in {unit}" if several else f"of one value of {unit}"
    told = _NEIGHBOURS[promise["adjacency"]].format(
        one="one row" if rows else f"all rows {of}",
        is_="is" if rows else "are",
    )
    most = promise.get("max_rows")
    told += "." + (f" Of the rows of a unit at most {most} count." if most else "")
    return " ".join([told, *say_days_of(unit, promise["adjacency"], promise["guarantee"])])


def _write_parameters(promise: Mapping[str, Any]) -> str:
    guarantee = promise["guarantee"]
    said = ", ".join(
        f"{name} {_write_stated_number(guarantee[name])}"
        for name in ("epsilon", "delta", "rho", "failures", "divergence", "order")
        if name in guarantee
    )
    whole = _WHOLE[promise["about"]]
    share = f" It is a share of account {promise['parent']}." if promise.get("parent") else ""
    shared = (
        " It was charged together with others of one batch, and this is what all of them may lose."
    )
    looks = promise.get("looks")
    together = (
        f" It is put together of several, and this is what all {looks} looks may lose."
        if looks
        else ""
    )
    return f"{whole}: {said}.{share}{shared if promise.get('batch') else ''}{together}"


def _write_stated_number(number: str) -> str:
    return number if "/" not in number else f"{round_up_written(Fraction(number)):.12g}"


def _write_mechanisms(promise: Mapping[str, Any]) -> str:
    digests = promise["proofs"]["pages"]
    listed = [_write_mechanism(one, digests) for one in promise["mechanisms"]]
    named = "; ".join(dict.fromkeys(listed)) or "none so far"
    but = (
        ""
        if promise["exact"]
        else ", but for mechanisms of others, and those for ideal arithmetic only"
    )
    return (
        f"Library: sordino {promise['version']}. Mechanisms: {named}. {_SECURITY.format(but=but)} "
        f"Checked by: sordino audit --all, and sordino verify on this statement. History: event "
        f"{promise['history']['event']} of the account, hash {promise['history']['head']}."
    )


def _write_mechanism(one: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    pages = [
        f"docs/proofs/{page}, signed {digests[page][:12]}"
        for page in one["proofs"]
        if page in digests
    ]
    name = " and ".join(one["of"]) if "of" in one else one["name"]
    return f"{name} ({'; '.join(pages) or 'no proof page of sordino'})"
