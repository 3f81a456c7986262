"""Which sensitivity statement a mechanism accepts, refused before any answer is seen."""

from __future__ import annotations

from typing import Any

from sordino.constraints import DOMAIN_SIZE, shown
from sordino.errors import InvalidParameter
from sordino.sensitivity import Norm, Sensitivity


def checked_sensitivity(sensitivity: Any, owner: str) -> Sensitivity:
    """Return `sensitivity` if it is a `Sensitivity`, else raise `InvalidParameter`."""
    if not isinstance(sensitivity, Sensitivity):
        raise InvalidParameter(
            f"{owner}.sensitivity must be a Sensitivity(bound=, monotone=, adjacency=), such as COUNTING; got {shown(sensitivity)}."
        )
    return sensitivity


def set_fields(mechanism: object, **values: Any) -> None:
    """Set the fields of a frozen mechanism while it is made."""
    for name, value in values.items():
        object.__setattr__(mechanism, name, value)


def each_answer(sensitivity: Sensitivity, owner: str) -> Sensitivity:
    """Return the statement if it is about each answer, else raise `InvalidParameter`."""
    if sensitivity.norm != "each":
        raise InvalidParameter(
            f"{owner}.sensitivity must be a statement about each answer (norm 'each'); got norm {sensitivity.norm!r}."
        )
    return sensitivity


def checked_size(domain_size: Any, owner: str, k: int = 1) -> int | None:
    """Return the public size of a domain, None if none was given, else raise `InvalidParameter` if it is none or below `k`."""
    if domain_size is None:
        return None
    size: int = DOMAIN_SIZE(f"{owner}.domain_size", domain_size)
    if k > size:
        raise InvalidParameter(f"{owner}.k must be at most the domain size {size}; got {k}.")
    return size


def whole_vector(sensitivity: Sensitivity, norm: Norm, n: int, owner: str) -> None:
    """Raise `InvalidParameter` unless the statement covers a vector of `n` answers in this norm; one answer fits any norm."""
    if n == 1:
        return
    if sensitivity.norm != norm:
        raise InvalidParameter(
            f"{owner} releases {n} answers together only under a statement about their {norm.upper()} norm; got norm "
            f"{sensitivity.norm!r}. If each answer moves by at most the bound, use sensitivity.over({n}, {norm!r})."
        )
    if sensitivity.size is not None and n > sensitivity.size:
        raise InvalidParameter(
            f"{owner} was given a statement about {sensitivity.size} answers; got {n}. Use sensitivity.over({n}, {norm!r})."
        )
    if sensitivity.step is None and sensitivity.size is None:
        raise InvalidParameter(
            f"{owner} needs to know how many answers are rounded to the grid: give Sensitivity(size={n}) or a step "
            "that the answers are multiples of."
        )
