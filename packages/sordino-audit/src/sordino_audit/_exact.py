"""The exact audit of a mechanism: play all noise that matters through its own decision.

The rest is bounded.

Claim: `epsilon_at_least` <= loss; `epsilon_at_most` >= loss of every audited output; the deltas
hold for every output.
Proof: docs/proofs/exact-audit.md.
Floats: none decides; see the modules that this one calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sordino.constraints import (
    COUNT,
    NOT_NEGATIVE,
    SHARE,
    TRUTH,
    Number,
    exact as exact_number,
    shown,
)
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino_audit.continuous.continuous import Asked, Continuous, points
from sordino_audit.continuous.integrals import CellBudget
from sordino_audit.continuous.report import loss as continuous_loss, report as continuous_report
from sordino_audit.enumeration.laws import region
from sordino_audit.enumeration.neighbours import checked_pair, list_answers, worst_pairs
from sordino_audit.enumeration.outcomes import Book, Partition
from sordino_audit.enumeration.pairs import Audit, Pair
from sordino_audit.enumeration.subject import Subject
from sordino_audit.enumeration.subjects import subject_of
from sordino_audit.report import ExactReport

_SMALLEST_TAIL = 1e-60
_LARGEST_ORDER = 1_000_000


def exact(
    mechanism: Any,
    *,
    answers_a: Any = None,
    answers_b: Any = None,
    neighbours: Iterable[Any] | None = None,
    search: bool = False,
    n: int | None = None,
    limit: int = 200,
    partition: Partition | Iterable[Number] | None = None,
    orders: Iterable[Number] | None = None,
    epsilons: Iterable[Number] | None = None,
    tail: float = 1e-15,
    slack: float = 1e-6,
    vectors: int = 4_000_000,
) -> ExactReport:
    """Bound the privacy loss of a mechanism between neighbors, for certain.

    Every noise vector that is likely enough goes through the mechanism's own decision.
    Probabilities are whole counts times powers of e^-rate, enclosed in decimals; the noise that is
    not played is bounded exactly and counted against the mechanism (for it, in `epsilon_at_least`).
    Both orders of every pair are compared. A continuous law (`audit.Density`, `audit.Race`,
    `audit.Crossings`) is not played: the logarithms of its densities are enclosed, cell by cell,
    and integrated.

    Parameters
    ----------
    mechanism : mechanism, Subject, Density, Race or Crossings
        A mechanism of this library, one of these, or an object with a method `audited(n)` that
        returns one.
    answers_a, answers_b : array of numbers, shape (n,)
        Made-up answers of two neighboring data sets; for a subject with `play`, or with a density,
        whatever it takes. With a domain size also a mapping from positions to the answers that are
        not 0.
    neighbours : iterable of pairs, optional
        Several such pairs, instead of one.
    search : bool
        Look for the worst pair within the sensitivity statement: small answers, all extreme moves,
        then steps uphill from the worst.
    n : int, optional
        Number of answers, at least 1; needed for `search` without answers to start from.
    limit : int
        How many pairs a search may try, at least 1.
    partition : callable, or iterable of number, optional
        Puts an output (a number, or a tuple for rows) into a class; of a continuous law: the rising
        numbers that cut its outputs. The bounds are then about classes: those from below hold for
        the mechanism itself, those from above for who sees the class only.
    orders : iterable of number, optional
        Rényi orders, in (1, 10^6]. None: 1.5, 2, 8 and 32, unless all that is claimed is a pure
        epsilon, of which they say nothing new.
    epsilons : iterable of number, optional
        Where the hockey stick is bounded (>= 0, nats). None: at a pure claim, and where it says
        more than that also at a quarter, half and three quarters of it; else where the claim allows
        a delta of 1e-3 and 1e-6.
    tail : float
        Probability of the noise that need not be played, or of the gaps that need not be looked at,
        in [1e-60, 1).
    slack : float
        Share in (0, 1) by which the tail may blur the ratio of an audited output. Of a continuous
        law: how far apart the bounds of the loss may be.
    vectors : int
        How many noise vectors may be played, at least 1: memory is about 100 bytes for each and
        answer. Of a continuous law: how many cells, and points of integrals, may be looked at; if
        they are used up, the bounds are farther apart.

    Returns
    -------
    ExactReport

    Raises
    ------
    InvalidParameter
        If a pair is not neighboring under the claim (with its distance), the noise is too wide to
        be played, the outputs need a partition, or a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> top = sd.NoisyTopK(k=1, epsilon=1.0, sensitivity=sd.COUNTING)
    >>> report = audit.exact(top, answers_a=[0, 0, 0], answers_b=[0, 1, 1])
    >>> report.broken, round(report.epsilon_at_least, 6), round(report.epsilon_at_most, 5)
    (False, 1.0, 1.0)
    >>> report.raise_if_broken()
    """
    TRUTH("audit.exact.search", search)
    limit, vectors = COUNT("audit.exact.limit", limit), COUNT("audit.exact.vectors", vectors)
    share, left_out = (
        float(SHARE("audit.exact.slack", slack)),
        float(SHARE("audit.exact.tail", tail)),
    )
    if left_out < _SMALLEST_TAIL:
        raise InvalidParameter(f"audit.exact.tail must be at least {_SMALLEST_TAIL:g}; got {tail}.")
    pairs = _collect_pairs(answers_a, answers_b, neighbours)
    size = COUNT("audit.exact.n", n) if n is not None else _count_answers(mechanism, pairs)
    subject = subject_of(mechanism, size)
    _check_pairs(pairs, subject, mechanism)
    orders_asked = _read_orders(orders)
    epsilons_asked = _read_epsilons(epsilons)
    # Continuous laws are integrated; the rest of this function is about noise that can be played.
    if isinstance(subject, Continuous):
        asked = Asked(
            slack=share,
            tail=left_out,
            budget=CellBudget(vectors),
            cuts=points(partition, "audit.exact.partition"),
        )
        if search:
            pairs = [
                *pairs,
                # What the search finds is reported together with the pairs that were given.
                *worst_pairs(
                    lambda a, b: continuous_loss(subject, a, b, asked), subject, size, pairs, limit
                ),
            ]
        return continuous_report(subject, pairs, asked, orders_asked, epsilons_asked)
    if partition is not None and not callable(partition):
        raise InvalidParameter(f"audit.exact.partition must be a function; got {shown(partition)}.")
    if partition is not None and subject.cost_of is not None:
        raise InvalidParameter(
            "audit.exact.partition must be None where each output has its own cost: a class has "
            "none."
        )
    # The region depends on the laws alone, so that the same noise is played for both sides of every
    # pair.
    played = region(subject.laws, left_out, vectors)
    audit = Audit(subject=subject, book=Book(subject, played, partition, vectors), slack=share)
    if search:
        pairs = [*pairs, *worst_pairs(audit.loss, subject, size, pairs, limit)]
    return audit.report(pairs, orders_asked, epsilons_asked)


def _collect_pairs(a: Any, b: Any, neighbours: Iterable[Any] | None) -> list[Pair]:
    if (a is None) != (b is None) or (a is not None and neighbours is not None):
        raise InvalidParameter(
            "audit.exact needs answers_a and answers_b, or neighbours, a list of such pairs, and "
            "not both."
        )
    if not isinstance(neighbours, Iterable | None):
        raise InvalidParameter(
            "audit.exact.neighbours must be a list of pairs (answers_a, answers_b)."
        )
    # A generator of pairs is read once, here.
    pairs: list[Any] = [(a, b)] if a is not None else [] if neighbours is None else list(neighbours)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise InvalidParameter(
            "audit.exact.neighbours must be a list of pairs (answers_a, answers_b)."
        )
    return [(a, b) for a, b in pairs]


def _count_answers(mechanism: Any, pairs: list[Pair]) -> int:
    if isinstance(mechanism, Continuous) and pairs:
        # It knows how many answers it takes.
        return 1
    if isinstance(mechanism, Subject):
        if not pairs:
            raise InvalidParameter(
                "audit.exact needs answers_a and answers_b, or neighbours, "
                "or search=True with n, how many answers."
            )
        return len(mechanism.laws)
    # A domain has a size of its own, whatever is listed of it.
    domain = getattr(mechanism, "domain_size", None)
    if isinstance(domain, int):
        return domain
    if not pairs:
        raise InvalidParameter(
            "audit.exact needs answers_a and answers_b, or neighbours, "
            "or search=True with n, how many answers."
        )
    # What a unit has there is rows, whose number its law does not take.
    if isinstance(mechanism, WeighedClip):
        return 1
    return max(1, len(list_answers(pairs[0][0])))


def _check_pairs(pairs: list[Pair], subject: Subject | Continuous, mechanism: Any) -> None:
    """Raise `InvalidParameter` unless all pairs are neighbors and some of them differ.

    Which pairs are neighbors is known as far as the subject has a sensitivity statement.
    """
    if subject.sensitivity is None or not pairs:
        return
    domain = getattr(mechanism, "domain_size", None)
    # Over a domain what is not listed is 0: pairs are compared position by position.
    size = domain if isinstance(domain, int) else None
    differ = [checked_pair(a, b, subject.sensitivity, size) for a, b in pairs]
    if not any(differ):
        raise InvalidParameter(
            "audit.exact needs neighbours that differ; got the same answers on both sides."
        )


def _read_orders(values: Any) -> list[Fraction] | None:
    if values is None:
        return None
    # What is no number becomes None, which is refused below.
    numbers = [exact_number(value) for value in values] if isinstance(values, Iterable) else [None]
    if any(number is None or not 1 < number <= _LARGEST_ORDER for number in numbers):
        raise InvalidParameter(
            f"audit.exact.orders must be a list of numbers in (1, {_LARGEST_ORDER}]."
        )
    return [number for number in numbers if number is not None]


def _read_epsilons(values: Any) -> list[Fraction] | None:
    if values is None:
        return None
    if not isinstance(values, Iterable):
        raise InvalidParameter(
            f"audit.exact.epsilons must be a list of numbers; got {shown(values)}."
        )
    return [NOT_NEGATIVE("audit.exact.epsilons", value) for value in values]
