"""Releases the most significant markers: one private selection after the other.

Claim: epsilon-differentially private if one family is replaced. Proof:
docs/proofs/most-significant.md. Noise: that of the mechanism; k selections have epsilon/k each.
Floats: as the method.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.constraints import COUNT, POSITIVE, Number
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.genomics.choose import Name, choose_method
from sordino.genomics.method import FAMILIES, Method, Scale
from sordino.releases import Choice, TopK
from sordino.scrubbing import scrubbed
from sordino.smooth.values import tables


@scrubbed
def most_significant(
    *,
    b: Any,
    c: Any,
    families: int,
    epsilon: Number,
    k: int = 1,
    scale: Scale = "sqrt",
    method: Name | None = None,
    beta: Number | None = None,
    damping: Number | None = None,
    exact: bool = False,
    entropy: Entropy = SYSTEM,
) -> Choice | TopK:
    """Release which marker has the largest transmission disequilibrium, or which k have.

    Neighbors are data of as many families of which one was replaced by any other, which may change
    both counts of all markers. Something is released whatever the budget: where it is too small for
    so many markers, one of them at random. Ask `choose_method(...).success` first.

    Parameters
    ----------
    b, c : array of int, shape (m,)
        Private: for each marker how often heterozygous parents transmitted the one and the other
        allele. A family has two parents, so b + c is at most 2 * families; what is no such count
        becomes one by rule, in silence: NaN and what is below 0 become 0, b at most 2 * families, c
        at most what b leaves of that; fractions are rounded down. How many markers there are is
        public.
    families : int
        How many families there are: public, from 1 to 2^28.
    epsilon : number
        Budget of all k selections together, in (0, inf).
    k : int
        How many markers, from 1 to m: one after the other, each with epsilon/k, the ones before
        left out.
    scale, method, beta, damping, exact
        As for `choose_method`, which chooses what is not given.
    entropy : Entropy
        Where the noise comes from.

    Returns
    -------
    Choice
        If k is 1. Its `mechanism` is the one that was used.
    TopK
        If k is above 1: positions in the order in which they were selected, without gaps.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> b, c = [128, 103, 96, 88, 131], [72, 97, 101, 104, 63]
    >>> sd.genomics.most_significant(b=b, c=c, families=150, epsilon=3, entropy=sd.Seeded(7)).index
    4
    >>> best = sd.genomics.most_significant(b=b, c=c, families=150, epsilon=6, k=2,
    ...                                     entropy=sd.Seeded(7))
    >>> best.indices.tolist()
    [4, 0]
    """
    owner = "genomics.most_significant"
    count, budget = COUNT(f"{owner}.k", k), POSITIVE(f"{owner}.epsilon", epsilon)
    fresh_entropy(entropy, owner)
    # Private counts become tables first, so nothing that follows can fail because of one.
    first, second = (
        np.atleast_1d(counts)
        for counts in tables(b, c, FAMILIES(f"{owner}.families", families), owner)
    )
    size = first.size
    if count > size:
        raise InvalidParameter(
            f"{owner}.k must be at most the number of markers, {size}; got {count}."
        )
    # The method depends on sizes and the budget, which are public. A fraction divides the budget
    # exactly.
    chosen = choose_method(
        markers=size,
        families=families,
        epsilon=epsilon if count == 1 else budget / count,
        k=count,
        scale=scale,
        method=method,
        beta=beta,
        damping=damping,
        exact=exact,
    )
    picked = select(
        chosen,
        first,
        second,
        count,
        lambda mechanism, scores, **more: mechanism.release(scores, entropy=entropy, **more),
    )
    return together(picked)


def together(picked: list[tuple[int, Choice]]) -> Choice | TopK:
    """Return what `select` found as one release."""
    releases = [choice for _, choice in picked]
    if len(releases) == 1:
        return releases[0]
    return TopK(
        indices=np.array([index for index, _ in picked], dtype=np.int64),
        gaps=np.zeros(0),
        mechanism=tuple(choice.mechanism for choice in releases),
        # What the releases spent: each at most epsilon/k, less where a rate was rounded down.
        cost=Pure(epsilon=sum((choice.cost.pure() for choice in releases), Fraction(0))),
        simulated=any(choice.simulated for choice in releases),
        exact=all(choice.exact for choice in releases),
    )


def select(
    method: Method, b: Any, c: Any, k: int, release: Callable[..., Choice]
) -> list[tuple[int, Choice]]:
    """Return k selections with the positions of the winners among all markers.

    Each selection leaves out the winners before it.

    Parameters
    ----------
    method : Method
        For as many markers as there are counts.
    b, c : array of int, shape (m,)
        Private.
    k : int
        At most m.
    release : callable
        Takes a mechanism, scores and further private arguments; returns the release.
    """
    # Counts become tables by rule once, before anything else looks at them.
    first, second = tables(b, c, method.families, "genomics.most_significant")
    left = np.arange(first.size)
    found = []
    for i in range(k):
        # A mechanism for a smooth bound is made for as many candidates as are left.
        here = method if i == 0 else method.among(left.size)
        scores, more = here.private(first[left], second[left])
        # The next selection may depend on the winner, which is public by now
        # (docs/proofs/most-significant.md, "Several markers").
        choice = release(here.mechanism, scores, **more)
        # The place among all markers, not among those that are left.
        found.append((int(left[choice.index]), choice))
        left = np.delete(left, choice.index)
    return found
