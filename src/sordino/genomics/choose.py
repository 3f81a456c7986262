"""Chooses the method that selects the most significant marker, from public numbers alone.

Simulated families with a fixed seed, never the data, say how well a method with a budget does, and
so with which epsilon a goal is reached.

Claim: none about privacy: whatever is chosen is private, and the choice looks at nothing private.
Proof: docs/proofs/most-significant.md, "The public design". Floats: counts are rounded normal
numbers, and figures of public numbers are compared; equal inputs give equal choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, TRUTH, Number, one_of, shown
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter
from sordino.genomics.method import (
    BOUND,
    FAMILIES,
    ROUNDING,
    SMOOTH,
    Method,
    Scale,
    build_mechanism,
)
from sordino.mechanisms import RandomizedResponse, SmoothSelection, StepSelection
from sordino.plan.designs import (
    LEADING,
    MOST_DRAWN,
    Design,
    Floats,
    deviates,
    least_of,
    magnitudes,
    normal,
    rows_for,
)
from sordino.plan.goals import seek_right
from sordino.plan.selector import SUCCESS_MARGIN, Alternative, likeliest, reason
from sordino.plan.winning import winning_rows
from sordino.sensitivity import Sensitivity
from sordino.smooth import tdt_ceiling, tdt_statistic

SHARE = 2 / 3
"""Share of the parents that are heterozygous, and so tell something, as simulated in
[yamamoto2024]."""

_FAMILIES_SEED = 20240824

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Families:
    """Counts of m markers without effect, shape (rows, w).

    `standing` says how many markers each of the w stands for, shape (w,); None where each stands
    for one.
    """

    b: Counts
    c: Counts
    standing: Floats | None = None

    @property
    def totals(self) -> Counts:
        """How many transmissions each marker has."""
        return self.b + self.c


def synthetic(markers: int, families: int) -> Families:
    """Return rows of markers that are inherited by chance.

    About 2/3 of the parents are heterozygous, and pass on either allele.
    """
    rows, entropy = rows_for(markers), Seeded(_FAMILIES_SEED)
    mean, width = typical(families)
    size = rows * min(markers, MOST_DRAWN)
    # Normal numbers with the mean and the variance of binomial ones, moved to counts that are
    # possible.
    if markers <= MOST_DRAWN:
        drawn, standing = mean + width * normal(size, entropy), None
        # Without an effect either allele is passed on with probability 1/2.
        signed = normal(size, entropy)
    else:
        signed, standing = magnitudes(markers, entropy)
        drawn = (mean + width * normal(signed.size, entropy)).reshape(signed.shape)
        # The last one stands for markers that hardly differ from chance. It is given the fewest
        # transmissions of all markers, which decide how much noise there is.
        drawn[:, -1] = mean + width * deviates(least_of(markers, rows, entropy))
    total = np.clip(np.rint(drawn), 0, 2 * families)
    b = np.clip(np.rint((total + np.sqrt(total) * signed) / 2), 0, total).astype(np.int64)
    c = total.astype(np.int64) - b
    return Families(b.reshape(rows, -1), c.reshape(rows, -1), standing)


def typical(families: int) -> tuple[float, float]:
    """Return mean and standard deviation of the number of transmissions."""
    return 2 * families * SHARE, math.sqrt(2 * families * SHARE * (1 - SHARE))


Name = Literal["damped", "step", "smooth-step", "heavy-tail", "randomized-response"]

NAMES = ("damped", "step", "smooth-step", "heavy-tail", "randomized-response")
_METHODS_ON_REQUEST = {"damped"}
"""It compares another statistic, and is never chosen by itself."""
_METHOD_NAME, _SCALE_NAME = one_of(*NAMES), one_of("sqrt", "raw")
# Shares of the steepest beta that are tried (docs/proofs/most-significant.md, "The public design").
_BETA_FACTORS = {"smooth-step": (1.0,), "heavy-tail": (1.0, 0.8)}
MOST_COMPARED = 32
"""So many selections in turn are looked at, and no more: `success` is about the first ones of
more."""
_NEAREST = 8
"""Beside so many markers it is looked at first whether a heavy tail does: beside all others takes
long."""
_RAW_BETA = 12
"""Divided by the number of families it is the beta of the raw statistic.

Its bound falls to the local sensitivity over N/10 families.
"""


def choose_method(
    *,
    markers: int,
    families: int,
    epsilon: Number,
    k: int = 1,
    scale: Scale = "sqrt",
    method: Name | None = None,
    beta: Number | None = None,
    damping: Number | None = None,
    exact: bool = False,
) -> Method:
    """Choose how to select the most significant marker, with parameters, before any count is seen.

    Each method is asked how likely it selects the best marker of simulated families: markers
    without effect, for which two parents of three are heterozygous, so that scores are like
    magnitudes of normal numbers. The likeliest is chosen; of equally likely ones the simplest.
    "damped", which compares another statistic, is left out unless it is asked for.

    Parameters
    ----------
    markers : int
        How many there are: public, at least 1.
    families : int
        How many there are: public, from 1 to 2^28 (scale "raw": see `sordino.smooth.tdt`).
    epsilon : number
        Budget of the selection of one marker, in (0, inf).
    k : int
        How many markers are selected one after the other, each with this epsilon: public, from 1 to
        `markers`. Methods are compared by how likely all of them are the best ones, in their order.
    scale : {"sqrt", "raw"}
        The statistic: abs(b - c) / sqrt(b + c), or its square. Both have the same best marker; the
        square needs more noise.
    method : str, optional
        "damped": `StepSelection` of `damped_tdt`; "step": `StepSelection` of the statistic with its
        global sensitivity; "smooth-step": `SmoothStepSelection`, and "heavy-tail":
        `SmoothSelection`, both with the smooth bound of `sordino.smooth.tdt`;
        "randomized-response": `RandomizedResponse`. All but "heavy-tail" are exact.
    beta : number, optional
        For "smooth-step" and "heavy-tail": another one than that of the rule.
    damping : number, optional
        Asks for "damped", with another damping than that of the rule: fewer transmissions b + c
        than any marker of interest has.
    exact : bool
        Whether to leave out "heavy-tail", whose guarantee is about ideal arithmetic: ledgers refuse
        it unless told otherwise.

    Returns
    -------
    Method
        With its mechanism, the reason, how likely it succeeds, and what else was compared.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or belongs to another method.

    Examples
    --------
    >>> import sordino as sd
    >>> print(sd.genomics.choose_method(markers=20, families=150, epsilon=1).why)
    heavy-tail selects the best of 20 with probability 0.2... on the public design: ...
    >>> sd.genomics.choose_method(markers=20, families=150, epsilon=3).name
    'smooth-step'

    Ask before you spend: of 100,000 markers the best one is lost at this budget.

    >>> found = sd.genomics.choose_method(markers=100_000, families=150, epsilon=3)
    >>> found.success < 0.01, {other.name: other.success < 0.01 for other in found.alternatives}
    (True, {...: True, ...: True, ...: True, ...: True})
    """
    return choose_for_goal(
        0.0,
        markers=markers,
        families=families,
        epsilon=epsilon,
        k=k,
        scale=scale,
        method=method,
        beta=beta,
        damping=damping,
        exact=exact,
        alone=False,
    )


def choose_for_goal(
    enough: float,
    *,
    markers: int,
    families: int,
    epsilon: Number,
    k: int,
    scale: Scale,
    method: Name | None,
    beta: Number | None,
    damping: Number | None,
    exact: bool,
    alone: bool,
) -> Method:
    """Return what `choose_method` does, where it succeeds often `enough`.

    A method that does not is not looked at to its end: its `success` is then too large, and below
    `enough`. `alone` says that so it may be with all that are not chosen.
    """
    owner = "genomics.choose_method"
    count, n = COUNT(f"{owner}.markers", markers), FAMILIES(f"{owner}.families", families)
    POSITIVE(f"{owner}.epsilon", epsilon)
    _SCALE_NAME(f"{owner}.scale", scale)
    several = COUNT(f"{owner}.k", k)
    if several > count:
        raise InvalidParameter(
            f"{owner}.k must be at most the number of markers, {count}; got {several}."
        )
    only_exact = TRUTH(f"{owner}.exact", exact)
    if method is not None:
        _METHOD_NAME(f"{owner}.method", method)
    if beta is not None:
        NOT_NEGATIVE(f"{owner}.beta", beta)
    if damping is not None:
        POSITIVE(f"{owner}.damping", damping)
    names = _list_allowed_methods(
        scale, method, beta=beta is not None, damping=damping is not None, exact=only_exact
    )
    return _choose_likeliest_method(
        count, n, epsilon, several, scale, names, beta, damping, enough, alone
    )


def _list_allowed_methods(
    scale: str, method: str | None, *, beta: bool, damping: bool, exact: bool
) -> tuple[str, ...]:
    """Return the methods that all options allow."""
    owner = "genomics.choose_method"
    if beta and damping:
        raise InvalidParameter(
            f"{owner} takes beta, for a smooth bound, or damping, for the method 'damped', and not "
            "both."
        )
    # What each option leaves. A method has to fit all of them.
    allowed = {
        f"the scale {scale!r}": set(NAMES) - ({"damped"} if scale == "raw" else set()),
        "exact=True": set(NAMES) - ({"heavy-tail"} if exact else set()),
        "a beta": set(SMOOTH) if beta else set(NAMES),
        "a damping": {"damped"} if damping else set(NAMES),
    }
    for what, names in allowed.items():
        if method is not None and method not in names:
            raise InvalidParameter(
                f"{owner}.method must fit {what}, as {' or '.join(sorted(names))} do; got "
                f"{shown(method)}."
            )
    wanted = (
        {method} if method is not None else set(NAMES) - (set() if damping else _METHODS_ON_REQUEST)
    )
    found = set.intersection(*allowed.values()) & wanted
    if not found:
        raise InvalidParameter(f"{owner}.damping needs the scale 'sqrt'; got {shown(scale)}.")
    return tuple(name for name in NAMES if name in found)


# A goal asks about the same families with one epsilon after the other.
@lru_cache(maxsize=4)
def _make_up(markers: int, families: int) -> Families:
    """Return made-up families, in each row those with the largest statistics first.

    That is what should be selected, whatever a method compares. Of very many only the first ones
    are put in order, among which those are if not all were drawn one by one.
    """
    design = synthetic(markers, families)
    statistic = tdt_statistic(design.b.ravel(), design.c.ravel(), families=families).reshape(
        design.b.shape
    )
    drawn = statistic if design.standing is None else statistic[:, :LEADING]
    order = np.broadcast_to(np.arange(statistic.shape[1]), statistic.shape).copy()
    order[:, : drawn.shape[1]] = np.argsort(-drawn, axis=1, kind="stable")
    b, c = (np.take_along_axis(counts, order, axis=1) for counts in (design.b, design.c))
    return Families(b, c, design.standing)


@lru_cache(maxsize=8)
def _list_designs(
    markers: int, families: int, k: int, scale: str, damping: Number | None, beta: Number | None
) -> tuple[Design, ...]:
    """Return what is selected from, one marker after the other.

    Each time those before are left out.
    """
    design = _make_up(markers, families)
    b, c, shape = design.b.ravel(), design.c.ravel(), design.b.shape
    asked = replace(
        _PLAIN, markers=markers, families=families, scale=scale, damping=damping, beta=beta
    )
    # As in a release: all scores, and for each row the largest of its smooth bounds.
    scores, bounds = asked.scores(b, c).reshape(shape), asked.bounds(b, c)
    if bounds is not None:
        bounds = np.maximum.accumulate(bounds.reshape(shape)[:, ::-1], axis=1)[:, ::-1]
    first = np.zeros(shape[0], dtype=np.int64)
    return tuple(
        Design(
            scores[:, i:],
            first,
            None if bounds is None else bounds[:, i],
            # What is left out was drawn by itself.
            None if design.standing is None else design.standing[i:],
        )
        for i in range(min(k, MOST_COMPARED))
    )


# Equal public numbers give the same choice, and comparing takes a while: it is kept.
@lru_cache(maxsize=64, typed=True)
def _choose_likeliest_method(
    markers: int,
    families: int,
    epsilon: Number,
    k: int,
    scale: str,
    names: tuple[str, ...],
    beta: Number | None,
    damping: Number | None,
    enough: float,
    alone: bool,
) -> Method:
    """Return the likeliest method among those named."""
    asked = replace(
        _PLAIN, markers=markers, families=families, scale=scale, beta=beta, damping=damping
    )
    found: list[Method] = []
    for name in names:
        last = not found and name == names[-1]
        tried = _build_methods(replace(asked, name=name), epsilon, last=last)
        # Beside a likelier one it is not chosen, and how likely it is then does not matter.
        bar = max([enough, *(method.success for method in found)]) if alone else 0.0
        rated = list[Method]()
        for method in tried:
            # Of one name with several parameters only the likeliest is kept.
            least = max([bar, *(other.success + SUCCESS_MARGIN for other in rated)])
            rated.append(replace(method, success=_success_on_designs(method, k, least)))
        if rated:
            found.append(max(rated, key=lambda method: method.success))
        # Whichever is chosen succeeds as often but for the margin: for a goal nobody has to know
        # which.
        if enough and rated and found[-1].success >= enough + SUCCESS_MARGIN:
            break
    # The rule is that of docs/proofs/choosing-a-selector.md, over the methods in the order of
    # `NAMES`.
    which = likeliest([method.success for method in found])
    compared = [Alternative(mechanism=method.mechanism, success=method.success) for method in found]
    return replace(
        found[which],
        why=reason(
            [method.name for method in found], compared, which, markers, min(k, MOST_COMPARED)
        ),
        alternatives=tuple(sorted(found, key=lambda method: -method.success)),
    )


def _build_methods(asked: Method, epsilon: Number, *, last: bool) -> list[Method]:
    """Return the method that is named, with each of the parameters that are tried.

    If nothing else is left to try, say why there is none.
    """
    if asked.name == "randomized-response":
        return [replace(asked, mechanism=RandomizedResponse(epsilon=epsilon))]
    if asked.name == "step":
        scale: Any = asked.scale
        # `ROUNDING` covers that of the statistics (docs/proofs/most-significant.md, "Floats").
        bound = tdt_ceiling(families=asked.families, scale=scale) + ROUNDING
        return [replace(asked, mechanism=_select_by_step(epsilon, bound))]
    if asked.name == "damped":
        mechanism = _select_by_step(epsilon, BOUND)
        return [replace(asked, damping=one, mechanism=mechanism) for one in _list_dampings(asked)]
    found: list[Method] = []
    refused: InvalidParameter | None = None
    for one in _list_betas(asked):
        smooth = replace(asked, beta=one)
        try:
            mechanism = build_mechanism(smooth.name, epsilon, smooth.markers, smooth)
        except InvalidParameter as error:  # too little epsilon for so many markers
            refused = error
        else:
            found.append(replace(smooth, mechanism=mechanism))
    if last and not found and refused is not None:
        raise refused
    return found


def _select_by_step(epsilon: Number, bound: Fraction) -> StepSelection:
    moved = Sensitivity(bound=bound, monotone=False, adjacency="replace-one")
    return StepSelection(epsilon=epsilon, sensitivity=moved)


def _list_dampings(asked: Method) -> list[Number]:
    if asked.damping is not None:
        return [asked.damping]
    # Half of the mean number of transmissions.
    return [max(1, math.floor(typical(asked.families)[0] / 2))]


def _list_betas(asked: Method) -> list[Number]:
    """Return the betas that are tried.

    The first makes the bound of the rarest marker as good as its local sensitivity; the others lie
    below it.
    """
    if asked.beta is not None:
        return [asked.beta]
    if asked.scale == "raw":
        return [_round_to_three_digits(_RAW_BETA / asked.families)]
    totals = _make_up(asked.markers, asked.families).totals
    rarest = max(5, float(np.median(totals.min(axis=1))))
    # The beta at which 2 e^(-beta floor((s - 3) / 2)) = 4 / sqrt(s) for the s transmissions of the
    # rarest marker.
    steep = math.log(math.sqrt(rarest) / 2) / math.floor(max(1.0, (rarest - 3) / 2))
    return [_round_to_three_digits(steep * part) for part in _BETA_FACTORS[asked.name]]


def _round_to_three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _success_on_designs(method: Method, k: int, enough: float) -> float:
    """Return the probability that the k best ones are selected one after the other.

    If it is not `enough`, what is returned is not either.
    """
    designs = _list_designs(
        method.markers, method.families, k, method.scale, method.damping, method.beta
    )
    chance: Any = 1.0
    # The last ones first: they lie closest to others, and so say soonest what is not enough.
    for i, design in reversed(tuple(enumerate(designs))):
        here = (method if i == 0 else method.among(method.markers - i)).mechanism
        # Whatever follows makes it no larger. So far below what is enough it is not chosen beside
        # one that is, and the choice is the same as if all were looked at to the end. Beside the
        # nearest alone it is likelier than beside all.
        if enough and isinstance(here, SmoothSelection):
            near = chance * winning_rows(here, design.nearest(_NEAREST))
            if near.mean() < enough - SUCCESS_MARGIN:
                return float(near.mean())
        chance = chance * winning_rows(here, design)
        if chance.mean() < enough - SUCCESS_MARGIN:
            break
    return float(chance.mean())


_PLAIN = Method(
    name="",
    markers=1,
    families=1,
    scale="sqrt",
    damping=None,
    beta=None,
    mechanism=None,
    success=math.nan,
    why="",
    alternatives=(),
)
"""What is not yet chosen."""


def find_epsilon(
    *,
    goal: str,
    markers: int,
    families: int,
    k: int = 1,
    scale: Scale = "sqrt",
    method: Name | None = None,
    beta: Number | None = None,
    damping: Number | None = None,
    exact: bool = False,
    fits: Callable[[Fraction], object] | None = None,
) -> Fraction:
    """Return the smallest epsilon that selects the best markers of made-up families as wished.

    What is asked is `choose_method(...).success`, epsilon by epsilon; no count is looked at.

    Parameters
    ----------
    goal : str
        "right with 90%" or, of three, "top 3 right with 90%": how likely all k are the best ones,
        in their order.
    markers, families, k, scale, method, beta, damping, exact
        As for `choose_method`.
    fits : callable, optional
        Is handed an epsilon and raises `BudgetExceeded` where there is not so much, such as
        `lambda epsilon: ledger.preview(sd.Pure(epsilon=epsilon), adjacency="replace-one")`.

    Returns
    -------
    Fraction
        Of three digits, from 0.0001 to 9990: the epsilon of all k selections together, as
        `most_significant` takes it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or no epsilon reaches the goal.
    BudgetExceeded
        If it takes more than fits; the message says what is reached with the most that does.

    Examples
    --------
    >>> import sordino as sd
    >>> public = {"markers": 40, "families": 150, "exact": True}
    >>> epsilon = sd.genomics.find_epsilon(goal="right with 90%", **public)
    >>> float(epsilon)
    3.41
    >>> sd.genomics.choose_method(epsilon=epsilon, **public).success >= 0.9
    True
    """
    owner = "genomics.find_epsilon"
    several = COUNT(f"{owner}.k", k)

    def succeed(epsilon: Fraction, enough: float) -> float:
        found = choose_for_goal(
            enough,
            markers=markers,
            families=families,
            epsilon=epsilon / several,
            k=several,
            scale=scale,
            method=method,
            beta=beta,
            damping=damping,
            exact=exact,
            alone=True,
        )
        return found.success

    return seek_right(owner, goal, several, succeed, fits, exact=True)
