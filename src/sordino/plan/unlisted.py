"""Chooses the mechanism for labels that nobody listed, from public numbers, and says why.

Claim: none about privacy: whichever is chosen is private by its own proof, and the choice looks at
nothing private. Proof: docs/proofs/unlisted.md, "Which one". Floats: figures are compared; equal
inputs give equal choices.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, final

from sordino.constraints import (
    ADJACENCY,
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    WHOLE_SHARE,
    Number,
    shown,
    to_fraction,
)
from sordino.errors import InvalidParameter
from sordino.mechanisms import UnlistedHistogram, UnlistedTopK
from sordino.sensitivity import Adjacency, Sensitivity

Way = Literal["one-sided", "laplace", "gaussian"]
_NAMES: dict[Way, str] = {
    "one-sided": "one-sided noise for k selections",
    "laplace": "Laplace noise on all counts of a unit",
    "gaussian": "Gaussian noise on all counts of a unit",
}


@final
@dataclass(frozen=True, kw_only=True)
class UnlistedWay:
    """One way to select unlisted labels.

    Attributes
    ----------
    way : {"one-sided", "laplace", "gaussian"}
        The noise: for k selections, or on all counts of a unit together.
    mechanism : UnlistedTopK or UnlistedHistogram
        Ready to release.
    threshold : int
        Counts from about here on are found.
    order_noise : float
        Standard deviation of the noise of the difference of two counts.

    Examples
    --------
    >>> import sordino as sd
    >>> found = sd.plan.choose_unlisted(k=10, labels=3, epsilon=1, delta=1e-6)
    >>> [(one.way, one.threshold) for one in found.alternatives]
    [('laplace', 45), ('one-sided', 144)]
    """

    way: Way
    mechanism: UnlistedTopK | UnlistedHistogram
    threshold: int
    order_noise: float


@final
@dataclass(frozen=True, kw_only=True)
class UnlistedChoice:
    """What `choose_unlisted` chose.

    Attributes
    ----------
    mechanism : UnlistedTopK or UnlistedHistogram
        The mechanism, ready to release.
    why : str
        The reason, in a sentence or two; public.
    alternatives : tuple of UnlistedWay
        All that were compared, the best first: the first one was chosen.

    Examples
    --------
    >>> import sordino as sd
    >>> found = sd.plan.choose_unlisted(k=2, labels=50, epsilon=1, delta=1e-6, kth_count=400)
    >>> type(found.mechanism).__name__, found.mechanism.threshold
    ('UnlistedTopK', 36)
    """

    mechanism: UnlistedTopK | UnlistedHistogram
    why: str
    alternatives: tuple[UnlistedWay, ...]


def choose_unlisted(
    *,
    k: int,
    labels: int,
    epsilon: Number,
    delta: Number,
    rho: Number | None = None,
    adjacency: Adjacency = "add-remove",
    least: int = 1,
    kth_count: Number | None = None,
    share: Number = 1,
    among: Collection[Way] = tuple(_NAMES),
) -> UnlistedChoice:
    """Choose how to find the k labels with the largest counts, where nobody listed the labels.

    Parameters
    ----------
    k : int
        How many labels at most.
    labels : int
        How many labels a unit counts for at most.
    epsilon : number
        Budget of pure noise.
    delta : number
        In (0, 1): how likely a label may be released that only one unit has.
    rho : number, optional
        Budget of Gaussian noise, on an account that takes it. Without one Gaussian noise is not
        compared.
    adjacency : {"add-remove", "replace-one"}
        Which tables are neighbors.
    least : int
        The least count that takes part.
    kth_count : number, optional
        A public guess of the count of the k-th label. With one, of all ways whose threshold it
        reaches the one with the least noise is chosen; without one, the one with the least
        threshold and noise together.
    share : number
        In (0, 1]: how much of epsilon a selection of k has if its labels are measured afterwards.
        Noise on all counts needs no second look.
    among : collection of str
        Which ways are compared; "gaussian" only where there is a rho.

    Returns
    -------
    UnlistedChoice

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    The noise of an order is that of the difference of two counts: sqrt(2) k/epsilon, 2 M/epsilon or
    sqrt(M/rho) for M labels a unit, and for twice as many steps under replace-one. It is a rule of
    thumb, not a theorem.

    Examples
    --------
    >>> import sordino as sd
    >>> found = sd.plan.choose_unlisted(k=10, labels=3, epsilon=1, delta=1e-6)
    >>> type(found.mechanism).__name__, found.mechanism.threshold
    ('UnlistedHistogram', 45)
    """
    name = "choose_unlisted."
    k, labels = COUNT(name + "k", k), COUNT(name + "labels", labels)
    POSITIVE(name + "epsilon", epsilon)
    SHARE(name + "delta", delta)
    WHOLE_SHARE(name + "share", share)
    COUNT(name + "least", least)
    ADJACENCY(name + "adjacency", adjacency)
    if rho is not None:
        POSITIVE(name + "rho", rho)
    hint = None if kth_count is None else float(NOT_NEGATIVE(name + "kth_count", kth_count))
    allowed = {way for way in among if way != "gaussian" or rho is not None}
    if not allowed or not allowed <= _NAMES.keys():
        raise InvalidParameter(
            f"{name}among must name at least one of {', '.join(_NAMES)}, the last one with a rho; "
            f"got {shown(among)}."
        )
    spread = 1 if adjacency == "add-remove" else 2
    sensitivity = Sensitivity(
        bound=1, monotone=spread == 1, adjacency=adjacency, step=1, l1=spread * labels
    )
    common: dict[str, Any] = {"k": k, "delta": delta, "sensitivity": sensitivity, "least": least}
    budget = float(to_fraction(epsilon))
    ways = []
    if "one-sided" in allowed:
        part = to_fraction(epsilon) * to_fraction(share)
        noise = math.sqrt(2) * k * spread / (budget * float(to_fraction(share)))
        ways.append(_way("one-sided", UnlistedTopK(epsilon=part, **common), noise))
    if "laplace" in allowed:
        noise = 2 * labels * spread / budget
        ways.append(_way("laplace", UnlistedHistogram(epsilon=epsilon, **common), noise))
    if "gaussian" in allowed and rho is not None:
        noise = math.sqrt(labels * spread / float(to_fraction(rho)))
        ways.append(_way("gaussian", UnlistedHistogram(rho=rho, **common), noise))
    ordered = tuple(sorted(ways, key=lambda one: _rank(one, hint)))
    return UnlistedChoice(
        mechanism=ordered[0].mechanism, why=_say(ordered, hint), alternatives=ordered
    )


def _way(
    way: Way,
    mechanism: UnlistedTopK | UnlistedHistogram,
    order_noise: float,
) -> UnlistedWay:
    return UnlistedWay(
        way=way, mechanism=mechanism, threshold=mechanism.threshold, order_noise=order_noise
    )


def _rank(one: UnlistedWay, hint: float | None) -> tuple[float, float]:
    """Return how a way is ranked; the least is the best."""
    if hint is None:
        # Counts that stand clear of the threshold by two deviations are found and ordered.
        return 0, one.threshold + 2 * one.order_noise
    # Whatever finds the k-th label, by its noise; else the one that comes closest.
    return (0, one.order_noise) if one.threshold <= hint else (1, float(one.threshold))


def _say(ordered: tuple[UnlistedWay, ...], hint: float | None) -> str:
    best = ordered[0]
    name = _NAMES[best.way]
    found = f"{name[0].upper()}{name[1:]} finds labels from a count of about {best.threshold} on"
    others = ", ".join(f"{one.threshold} with {_NAMES[one.way]}" for one in ordered[1:])
    if hint is not None and best.threshold > hint:
        lowest = f", which is the lowest ({others})" if others else ""
        return (
            f"No threshold lies as low as a count of {hint:g}: few labels will be found. "
            f"{found}{lowest}."
        )
    if not others:
        return f"{found}."
    if hint is None:
        return (
            f"{found}; without a guess of the counts its threshold and noise are the least "
            f"({others})."
        )
    return f"{found}, and of what finds a count of {hint:g} it disturbs the order least ({others})."
