"""Chooses the method that selects the most significant marker, from public numbers: sizes and the budget.

Claim: none about privacy: whatever is chosen is private, and the choice looks at nothing private. Proof:
docs/proofs/most-significant.md, "The public design".
Floats: figures of public numbers are compared; equal inputs give equal choices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, TRUTH, Number, one_of, shown
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter
from sordino.genomics.method import BOUND, FAMILIES, ROUNDING, SMOOTH, Method, Scale, build_mechanism
from sordino.mechanisms import RandomizedResponse, StepSelection
from sordino.plan.selector import Alternative, likeliest, reason
from sordino.plan.winning import Design, normal, rows_for, winning
from sordino.sensitivity import Sensitivity
from sordino.smooth import tdt_ceiling, tdt_statistic

Name = Literal["damped", "step", "smooth-step", "heavy-tail", "randomized-response"]

NAMES = ("damped", "step", "smooth-step", "heavy-tail", "randomized-response")
_METHODS_ON_REQUEST = {"damped"}
"""It compares another statistic, and is never chosen by itself."""
_METHOD_NAME, _SCALE_NAME = one_of(*NAMES), one_of("sqrt", "raw")
# Shares of the steepest beta that are tried (docs/proofs/most-significant.md, "The public design").
_BETA_FACTORS = {"smooth-step": (1.0,), "heavy-tail": (1.0, 0.8)}
_RAW_BETA = 12
"""Divided by the number of families it is the beta of the raw statistic.

Its bound falls to the local sensitivity over N/10 families.
"""


def choose_method(
    *,
    markers: int,
    families: int,
    epsilon: Number,
    scale: Scale = "sqrt",
    method: Name | None = None,
    beta: Number | None = None,
    damping: Number | None = None,
    exact: bool = False,
) -> Method:
    """Choose how the most significant marker is selected, with which parameters, before any count is seen.

    Each method is asked how likely it selects the best marker of simulated families: markers without effect,
    for which two parents of three are heterozygous. The likeliest is chosen; of equally likely ones the
    simplest. "damped", which compares another statistic, is left out unless it is asked for.

    Parameters
    ----------
    markers : int
        How many there are: public, at least 1.
    families : int
        How many there are: public, from 1 to 2^28 (scale "raw": see `sordino.smooth.tdt`).
    epsilon : number
        Budget of the selection of one marker, in (0, inf).
    scale : {"sqrt", "raw"}
        The statistic: abs(b - c) / sqrt(b + c), or its square. Both have the same best marker; the square
        needs more noise.
    method : str, optional
        "damped": `StepSelection` of `damped_tdt`; "step": `StepSelection` of the statistic with its global
        sensitivity; "smooth-step": `SmoothStepSelection`, and "heavy-tail": `SmoothSelection`, both with the
        smooth bound of `sordino.smooth.tdt`; "randomized-response": `RandomizedResponse`. All but
        "heavy-tail" are exact.
    beta : number, optional
        For "smooth-step" and "heavy-tail": another one than that of the rule.
    damping : number, optional
        Asks for "damped", with another damping than that of the rule: fewer transmissions b + c than any
        marker of interest has.
    exact : bool
        Whether to leave out "heavy-tail", whose guarantee is about ideal arithmetic: ledgers refuse it unless
        told otherwise.

    Returns
    -------
    Method
        With its mechanism and the reason.

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
    """
    owner = "genomics.choose_method"
    count, n = COUNT(f"{owner}.markers", markers), FAMILIES(f"{owner}.families", families)
    POSITIVE(f"{owner}.epsilon", epsilon)
    _SCALE_NAME(f"{owner}.scale", scale)
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
    return _choose_likeliest_method(count, n, epsilon, scale, names, beta, damping)


def _list_allowed_methods(
    scale: str, method: str | None, *, beta: bool, damping: bool, exact: bool
) -> tuple[str, ...]:
    """Return the methods that all options allow."""
    owner = "genomics.choose_method"
    if beta and damping:
        raise InvalidParameter(
            f"{owner} takes beta, for a smooth bound, or damping, for the method 'damped', and not both."
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
                f"{owner}.method must fit {what}, as {' or '.join(sorted(names))} do; got {shown(method)}."
            )
    wanted = {method} if method is not None else set(NAMES) - (set() if damping else _METHODS_ON_REQUEST)
    found = set.intersection(*allowed.values()) & wanted
    if not found:
        raise InvalidParameter(f"{owner}.damping needs the scale 'sqrt'; got {shown(scale)}.")
    return tuple(name for name in NAMES if name in found)


# Equal public numbers give the same choice, and comparing takes a while: it is kept.
@lru_cache(maxsize=64, typed=True)
def _choose_likeliest_method(
    markers: int,
    families: int,
    epsilon: Number,
    scale: str,
    names: tuple[str, ...],
    beta: Number | None,
    damping: Number | None,
) -> Method:
    """Return the likeliest method among those named."""
    design = made_up(markers, families)
    # The best marker of a row is that with the largest statistic, whatever a method compares.
    best = (
        tdt_statistic(design.b.ravel(), design.c.ravel(), families=families)
        .reshape(design.b.shape)
        .argmax(axis=1)
    )
    found: list[Method] = []
    for name in names:
        tried = _build_methods(
            name,
            markers,
            families,
            epsilon,
            scale,
            design,
            beta,
            damping,
            last=not found and name == names[-1],
        )
        rated = [replace(method, success=_success_on_design(method, design, best)) for method in tried]
        if rated:
            found.append(max(rated, key=lambda method: method.success))
    # The rule is that of docs/proofs/choosing-a-selector.md, over the methods in the order of `NAMES`.
    which = likeliest([method.success for method in found])
    compared = [Alternative(mechanism=method.mechanism, success=method.success) for method in found]
    return replace(found[which], why=reason([method.name for method in found], compared, which, markers))


def _build_methods(
    name: str,
    markers: int,
    families: int,
    epsilon: Number,
    scale: str,
    design: Families,
    beta: Number | None,
    damping: Number | None,
    *,
    last: bool,
) -> list[Method]:
    """Return a method with each of the parameters that are tried.

    If nothing else is left to try, say why there is none.
    """
    plain = Method(
        name=name,
        markers=markers,
        families=families,
        scale=scale,
        damping=None,
        beta=None,
        mechanism=None,
        success=math.nan,
        why="",
    )
    if name == "randomized-response":
        return [replace(plain, mechanism=RandomizedResponse(epsilon=epsilon))]
    if name == "step":
        # `ROUNDING` covers that of the statistics (docs/proofs/most-significant.md, "Floats").
        bound = tdt_ceiling(families=families, scale="raw" if scale == "raw" else "sqrt") + ROUNDING
        return [replace(plain, mechanism=StepSelection(epsilon=epsilon, sensitivity=_sensitivity_of(bound)))]
    if name == "damped":
        mechanism = StepSelection(epsilon=epsilon, sensitivity=_sensitivity_of(BOUND))
        return [replace(plain, damping=one, mechanism=mechanism) for one in _list_dampings(families, damping)]
    found: list[Method] = []
    refused: InvalidParameter | None = None
    for one in _list_betas(name, families, scale, design, beta):
        smooth = replace(plain, beta=one)
        try:
            found.append(replace(smooth, mechanism=build_mechanism(name, epsilon, markers, smooth)))
        except InvalidParameter as error:  # too little epsilon for so many markers
            refused = error
    if last and not found and refused is not None:
        raise refused
    return found


def _sensitivity_of(bound: Fraction) -> Sensitivity:
    return Sensitivity(bound=bound, monotone=False, adjacency="replace-one")


def _list_dampings(families: int, given: Number | None) -> list[Number]:
    if given is not None:
        return [given]
    # Half of the mean number of transmissions.
    return [max(1, math.floor(typical(families)[0] / 2))]


def _list_betas(name: str, families: int, scale: str, design: Families, given: Number | None) -> list[Number]:
    """Return the betas that are tried.

    The first makes the bound of the rarest marker as good as its local sensitivity; the others lie below it.
    """
    if given is not None:
        return [given]
    if scale == "raw":
        return [_round_to_three_digits(_RAW_BETA / families)]
    rarest = max(5, float(np.median(design.totals.min(axis=1))))
    # The beta at which 2 e^(-beta floor((s - 3) / 2)) = 4 / sqrt(s) for the s transmissions of the rarest
    # marker.
    steep = math.log(math.sqrt(rarest) / 2) / math.floor(max(1.0, (rarest - 3) / 2))
    return [_round_to_three_digits(steep * part) for part in _BETA_FACTORS[name]]


def _round_to_three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _success_on_design(method: Method, design: Families, best: Any) -> float:
    b, c = design.b.ravel(), design.c.ravel()
    # As in a release: all scores, and for each row the largest of its smooth bounds.
    scores, bounds = method.scores(b, c), method.bounds(b, c)
    shape = design.b.shape
    return winning(
        method.mechanism,
        Design(scores.reshape(shape), best, None if bounds is None else bounds.reshape(shape).max(axis=1)),
    )


# ---- simulated families ------------------------------------------------------------------------------------
# Simulated families with a fixed seed. The method is chosen on them, never on the data.
#
# Claim: none; nothing private is here. Proof: docs/proofs/most-significant.md, "The public design".
# Floats: counts are rounded normal numbers.


SHARE = 2 / 3
"""Share of the parents that are heterozygous, and so tell something, as simulated in [yamamoto2024]."""

_FAMILIES_SEED = 20240824

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Families:
    """Counts of m markers without effect, shape (rows, m)."""

    b: Counts
    c: Counts

    @property
    def totals(self) -> Counts:
        """How many transmissions each marker has."""
        return self.b + self.c


def made_up(markers: int, families: int) -> Families:
    """Return rows of markers that are inherited by chance.

    About 2/3 of the parents are heterozygous, and pass on either allele.
    """
    rows, entropy = rows_for(markers), Seeded(_FAMILIES_SEED)
    mean, width = typical(families)
    size = rows * markers
    # Normal numbers with the mean and the variance of binomial ones, moved to counts that are possible.
    total = np.clip(np.rint(mean + width * normal(size, entropy)), 0, 2 * families)
    # Without an effect either allele is passed on with probability 1/2.
    b = np.clip(np.rint((total + np.sqrt(total) * normal(size, entropy)) / 2), 0, total).astype(np.int64)
    return Families(b.reshape(rows, markers), (total.astype(np.int64) - b).reshape(rows, markers))


def typical(families: int) -> tuple[float, float]:
    """Return mean and standard deviation of the number of transmissions."""
    return 2 * families * SHARE, math.sqrt(2 * families * SHARE * (1 - SHARE))
