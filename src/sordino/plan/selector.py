"""Chooses what selects the best of m candidates most often, from public numbers, and says why.

Claim: none about privacy: whichever is chosen is private by its own proof, and the choice looks at
nothing private. Proof: docs/proofs/choosing-a-selector.md. Floats: figures are compared; equal
inputs give equal choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, TRUTH, Constraint, Number
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    PermuteAndFlip,
    RandomizedResponse,
    SmoothSelection,
    SmoothStepSelection,
    StepSelection,
)
from sordino.plan.designs import Design, noise_alone
from sordino.plan.winning import winning
from sordino.sensitivity import Sensitivity

_MOST_COMPARED_CANDIDATES = 1 << 22
"""More candidates than this are not tried: scores of the caller are a number for each of them."""


def _convert_candidates(value: Any) -> int | None:
    count: int | None = COUNT.convert(value)
    return count if count is not None and count <= _MOST_COMPARED_CANDIDATES else None


# The last two are examples for tests: numbers that fit, and others that do not.
_CANDIDATE_COUNT = Constraint(
    "a whole number from 1 to 2^22", _convert_candidates, (1, 20), (0, -1, 1.5, True, None, 1 << 23)
)
SUCCESS_MARGIN = 0.002
"""Figures that lie closer together are equal, and the simpler mechanism is chosen."""

# By the type of the mechanism that is chosen.
_SELECTOR_REASONS = {
    "StepSelection": (
        "its noise is whole windows, the least that hides how far a score moves, and pays nothing "
        "for the other candidates"
    ),
    "RandomizedResponse": (
        "what is known about how far scores move would take more noise than hiding which one is "
        "the best"
    ),
    "PermuteAndFlip": (
        "epsilon is small against the lead of the best, and fine noise does as well as whole "
        "windows"
    ),
    "SmoothStepSelection": (
        "the smooth bound is far below the sensitivity, and hiding it from all losers takes a "
        "small part of epsilon"
    ),
    "SmoothSelection": (
        "epsilon is small for so many candidates: step noise would spend most of it on the losers, "
        "a heavy tail does not"
    ),
}


@final
@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A mechanism, and how likely it selects the best on a public design.

    Attributes
    ----------
    mechanism : object
        Ready to release.
    success : float
        Probability that the best candidate of the design is selected.

    Examples
    --------
    >>> import sordino as sd
    >>> found = sd.plan.choose_selector(m=5, epsilon=3)
    >>> found.alternatives[0].mechanism is found.mechanism, round(found.alternatives[0].success, 3)
    (True, 0.834)
    """

    mechanism: Any
    success: float


@final
@dataclass(frozen=True, kw_only=True)
class Selector:
    """What `choose_selector` chose.

    Attributes
    ----------
    mechanism : object
        The mechanism, ready to release.
    success : float
        Probability that it selects the best candidate of the public design.
    why : str
        The reason, in two sentences; public.
    alternatives : tuple of Alternative
        All that were compared, the likeliest first; the one that was chosen among them.

    Examples
    --------
    >>> import sordino as sd
    >>> moves = sd.Sensitivity(bound=0.3, monotone=False, adjacency="replace-one")
    >>> found = sd.plan.choose_selector(m=20, epsilon=3, sensitivity=moves)
    >>> type(found.mechanism).__name__
    'StepSelection'
    >>> [type(other.mechanism).__name__ for other in found.alternatives]
    ['StepSelection', 'PermuteAndFlip', 'RandomizedResponse']
    """

    mechanism: Any
    success: float
    why: str
    alternatives: tuple[Alternative, ...]


def choose_selector(
    *,
    m: int,
    epsilon: Number,
    sensitivity: Sensitivity | None = None,
    beta: Number | None = None,
    floor: Number | None = None,
    typical: Number | None = None,
    exact: bool = False,
    scores: Any = None,
) -> Selector:
    """Choose the mechanism that selects the best of m private scores most often, from public facts.

    Compared are `RandomizedResponse`; with a sensitivity also `StepSelection` and `PermuteAndFlip`;
    with a smooth bound also `SmoothStepSelection` and `SmoothSelection`. Each is asked how likely
    it selects the best of made-up scores. Nothing private is looked at, so the choice costs
    nothing; made from the data it would be another release.

    Parameters
    ----------
    m : int
        How many candidates there are: public, from 1 to 2^22.
    epsilon : number
        Budget of the selection, in (0, inf).
    sensitivity : Sensitivity, optional
        How far any one score moves between neighbors, for all data (norm "each"). Without it only
        `RandomizedResponse` is left.
    beta : number, optional
        If there is a smooth bound: how smooth it is, in nats a record. It needs `typical` and
        `floor`.
    floor : number, optional
        Smaller smooth bounds are raised to it.
    typical : number, optional
        About how large the smooth bound will be: a public guess; if it is wrong, the choice may be
        a bad one, and no less private.
    exact : bool
        Whether to leave out `SmoothSelection`, whose guarantee is about ideal arithmetic: ledgers
        refuse it unless told otherwise.
    scores : array of float, shape (m,) or (rows, m), optional
        Made-up scores like those that are expected, or public ones from elsewhere, one row for each
        try. Without them: magnitudes of standard normal numbers, such as the abs(z) of m tests of
        which none has an effect.

    Returns
    -------
    Selector
        With the mechanism, the reason, and all that were compared.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta, floor and typical are not given
        together.

    Notes
    -----
    The scale of scores decides more than the mechanism does: a statistic that moves less is
    selected with less noise. Select by abs(z), not by its square.

    Examples
    --------
    >>> import sordino as sd
    >>> moves = sd.Sensitivity(bound=2, monotone=False, adjacency="replace-one")
    >>> about = {"beta": 0.02, "floor": 0.23, "typical": 0.29}
    >>> found = sd.plan.choose_selector(m=20, epsilon=6, sensitivity=moves, **about)
    >>> print(found.why)
    SmoothStepSelection selects the best of 20 with probability 0.99 on the public design: ...
    """
    owner = "plan.choose_selector"
    count, budget, only_exact = (
        _CANDIDATE_COUNT(f"{owner}.m", m),
        POSITIVE(f"{owner}.epsilon", epsilon),
        TRUTH(f"{owner}.exact", exact),
    )
    # A smooth bound needs all three, so some of them without the others are a mistake.
    smooth = {"beta": beta, "floor": floor, "typical": typical}
    given = [name for name, value in smooth.items() if value is not None]
    if given and len(given) < len(smooth):
        raise InvalidParameter(
            f"{owner} needs beta, floor and typical together, for a smooth bound; got only "
            f"{' and '.join(given)}."
        )
    if given and sensitivity is None:
        raise InvalidParameter(
            f"{owner}.sensitivity must say how far scores move for any data, above which no smooth "
            "bound is; got none."
        )
    # Made-up scores, or public ones: never those that will be selected from.
    design = _make_design(scores, count, owner)
    # The order counts: of those that are about as good, the first one is chosen.
    made: list[Any] = [RandomizedResponse(epsilon=epsilon)]
    if sensitivity is not None:
        made = [
            StepSelection(epsilon=epsilon, sensitivity=sensitivity),
            *made,
            *_try_permute_and_flip(epsilon, sensitivity),
        ]
    if given and sensitivity is not None:
        NOT_NEGATIVE(f"{owner}.beta", beta)
        POSITIVE(f"{owner}.floor", floor)
        # No smooth bound is above the sensitivity.
        bound = float(min(POSITIVE(f"{owner}.typical", typical), sensitivity.bound))
        # One guess of the bound for all rows.
        design = Design(design.scores, design.best, np.full(len(design.scores), bound))
        limits = {
            "beta": beta,
            "floor": floor,
            "ceiling": sensitivity.bound,
            "candidates": count,
            "epsilon": budget,
        }
        made += smooth_ones(limits, exact=only_exact)
    return chosen([Alternative(mechanism=one, success=winning(one, design)) for one in made], count)


def _try_permute_and_flip(epsilon: Number, sensitivity: Sensitivity) -> list[Any]:
    try:
        return [PermuteAndFlip(epsilon=epsilon, sensitivity=sensitivity)]
    except (
        InvalidParameter
    ):  # its grid is too coarse for so small a budget, where step noise has none
        return []


def smooth_ones(limits: dict[str, Any], *, exact: bool) -> list[Any]:
    """Return the mechanisms for a smooth bound that epsilon is large enough for."""
    found = []
    # Simpler first: of those that are about as good the first is chosen.
    for kind in (SmoothStepSelection,) if exact else (SmoothStepSelection, SmoothSelection):
        try:
            found.append(kind(**limits))
        except InvalidParameter:
            if limits["floor"] > limits["ceiling"] or (
                limits["beta"] == 0 and limits["floor"] < limits["ceiling"]
            ):
                raise  # what is left to be refused is too small a budget
    return found


def chosen(alternatives: Sequence[Alternative], m: int) -> Selector:
    """Return the likeliest of the alternatives; if several are about as good, the first of them."""
    names = [type(one.mechanism).__name__ for one in alternatives]
    # The rule: docs/proofs/choosing-a-selector.md, "The rule".
    best = likeliest([one.success for one in alternatives])
    return Selector(
        mechanism=alternatives[best].mechanism,
        success=alternatives[best].success,
        why=reason(names, alternatives, best, m),
        alternatives=tuple(sorted(alternatives, key=lambda one: -one.success)),
    )


def likeliest(successes: Sequence[float]) -> int:
    """Return the position of the largest; if several are close to it, that of the first of them."""
    return next(
        i for i, success in enumerate(successes) if success >= max(successes) - SUCCESS_MARGIN
    )


def reason(
    names: Sequence[str], alternatives: Sequence[Alternative], best: int, m: int, k: int = 1
) -> str:
    """Say which was chosen, why, and how good the others are.

    Of k candidates that are selected in turn.
    """
    success, kind = alternatives[best].success, type(alternatives[best].mechanism).__name__
    what = f"the best of {m}" if k == 1 else f"the {k} best of {m}, in their order,"
    why = (
        f"{names[best]} selects {what} with probability {write_success(success)} "
        f"on the public design: {_SELECTOR_REASONS[kind]}."
    )
    # All others, the likeliest first.
    rest = [
        i for i in sorted(range(len(names)), key=lambda i: -alternatives[i].success) if i != best
    ]
    listed = ", ".join(f"{names[i]} {write_success(alternatives[i].success)}" for i in rest)
    return why + (f" Next: {listed}." if rest else "")


def write_success(probability: float) -> str:
    """Return a probability as people read it."""
    # Near 0 and 1 two digits after the point would say "never" or "always".
    return f"{probability:.2f}" if 0.005 <= probability < 0.995 else f"{probability:.3g}"


def _make_design(scores: Any, m: int, owner: str) -> Design:
    if scores is None:
        return noise_alone(m)
    try:
        # What is no array of numbers becomes an empty one, which is refused below in the same
        # words.
        rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    except (TypeError, ValueError):
        rows = np.zeros((0, 0))
    if rows.ndim != 2 or rows.shape[1] != m or not rows.size or not np.isfinite(rows).all():
        raise InvalidParameter(
            f"{owner}.scores must be finite numbers, {m} in each row, made up or public; got "
            "something else."
        )
    return Design(rows, rows.argmax(axis=1))
