"""Reads releases as terms: which of their numbers are an answer plus noise of a known law.

What was selected by its own noise is no such number, and what was folded into a range has only its
interval.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

from sordino.errors import InvalidParameter
from sordino.figures.terms import Combination, Opaque, Origin, Term


def read_terms(release: Any, caller: str, *, only: Any = None) -> dict[Any, Term]:
    """Return the numbers of a release as terms, by the names of their rows.

    Or that row `only`, if it is one.

    Raises
    ------
    InvalidParameter
        If they are no answers plus noise of a known law.
    """
    release = getattr(release, "result", release)
    origin = _find_origin(release)
    own = getattr(release, "list_terms", None)
    terms: dict[Any, Term] = _list_terms(release, origin, only) if own is None else own(origin)
    if not terms:
        raise InvalidParameter(
            f"{caller} needs a release with Laplace or Gaussian noise of its own: a count, a "
            "histogram, a top k that was measured, a sum, or what LaplaceMechanism or "
            "GaussianMechanism released."
        )
    return terms


def _find_origin(release: Any) -> Origin:
    """Return what stands for a release: always the same for the same one."""
    try:
        known = vars(release).get("_origin")
    except TypeError:
        return Origin()
    if known is None:
        known = Origin()
        # Releases are frozen; this says nothing of them, and is shown nowhere.
        object.__setattr__(release, "_origin", known)
    return cast("Origin", known)


def _list_terms(release: Any, origin: Origin, only: Any = None) -> dict[Any, Term]:
    """Return the terms of a release that lists numbers with noise of one mechanism, else none."""
    mechanism: Any = getattr(release, "mechanism", None)
    rows = getattr(release, "rows", None)
    if isinstance(mechanism, tuple):
        # Of what was selected the fresh measurement counts, which is the last mechanism.
        measured = rows and all(getattr(row, "measured", None) is not None for row in rows)
        mechanism = mechanism[-1] if measured else None
    if not getattr(mechanism, "adds_noise", False):
        return {}
    values: list[Any]
    if rows is not None:
        names = [row.item for row in rows]
        values = [getattr(row, "measured", row.estimate) for row in rows]
    elif hasattr(release, "values"):
        values = release.values.tolist()
        names = list(range(len(values)))
    else:
        # A number alone is a `value`, a count of a session an `estimate`.
        values, names = [getattr(release, "value", getattr(release, "estimate", None))], [0]
    if only in names:
        place = names.index(only)
        names, values = [only], [values[place]]
    common: dict[str, Any] = {
        "origin": origin,
        "law": mechanism.noise,
        "step": mechanism.step,
        # What a session counts is not negative; what a mechanism was handed may be.
        "counts": rows is not None
        or (not hasattr(release, "value") and not hasattr(release, "values")),
    }
    return {
        # The step is a power of two: a released value is a whole number of steps.
        name: Term(
            row=name, value=round(Fraction(value) / mechanism.step) * mechanism.step, **common
        )
        for name, value in zip(names, values, strict=True)
    }


def read_one(release: Any) -> Combination | None:
    """Return a single released figure; None if it is none, or nothing is known of its noise."""
    if hasattr(release, "rows") or hasattr(release, "values"):
        return None
    origin = _find_origin(release)
    own = getattr(release, "list_terms", None)
    terms: dict[Any, Term] = _list_terms(release, origin) if own is None else own(origin)
    if len(terms) == 1:
        return Combination({next(iter(terms.values())): Fraction(1)})
    if hasattr(release, "interval_at"):
        figure: Any = release
        return Combination({Opaque(figure, Fraction(figure.estimate)): Fraction(1)})
    return None
