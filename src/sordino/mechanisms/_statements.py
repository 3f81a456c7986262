"""Which sensitivity statement a mechanism accepts, refused before any answer is seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sordino.constraints import DOMAIN_SIZE, Constraint, one_of, shown
from sordino.errors import InvalidParameter
from sordino.sensitivity import Norm, Sensitivity


@dataclass(frozen=True, slots=True)
class _Statement:
    """The check of a sensitivity statement; with `each` it must be about each answer."""

    says: str
    each: bool

    def __call__(self, name: str, value: Any, /) -> Sensitivity:
        if not isinstance(value, Sensitivity):
            raise InvalidParameter(
                f"{name} must be a Sensitivity(bound=, monotone=, adjacency=), such as COUNTING; got {shown(value)}."
            )
        if self.each and value.norm != "each":
            raise InvalidParameter(f"{name} must be a statement about each answer (norm 'each'); got norm {value.norm!r}.")
        return value


def one_of_the_laws(*names: str) -> Constraint:
    """Return the constraint that a value names a family of laws; a law stands for its family.

    `dataclasses.replace` hands back the law of the old parameters.
    """
    by_name = one_of(*names)
    return replace(by_name, convert=lambda value: by_name.convert(getattr(value, "name", value)))


@dataclass(frozen=True, slots=True)
class _DomainSize:
    """The check of the public size of a domain; None: answers come as a list."""

    says: str = "int"

    def __call__(self, name: str, value: Any, /) -> int | None:
        return checked_size(value, name.removesuffix(".domain_size"))


DOMAIN = _DomainSize()
ANY_STATEMENT = _Statement("Sensitivity", each=False)
EACH_ANSWER = _Statement("Sensitivity", each=True)
EACH_ANSWER_MEANS = 'A statement about each answer (norm "each"), such as `COUNTING`.'
STEP_MEANS = (
    "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: without a step of your own that "
    "is about 2^31 noise scales."
)


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
