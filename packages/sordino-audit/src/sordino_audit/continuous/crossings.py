"""A sparse vector with continuous noise: one noisy threshold, and answers that are above it or not.

Claim: probabilities and densities of transcripts as integrals over the noise of the threshold.
Proof: docs/proofs/exact-audit.md, "Crossings". Floats: outward, see `integrals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.constraints import COUNT, Number, shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous.integrals import Factor
from sordino_audit.continuous.laws import PLACE, Law
from sordino_audit.continuous.shared_shift import Outcome, Products, SharedShift, laws_of

_MOST_TRANSCRIPTS = 10_000
_UNIT_SCALE = Fraction(1)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Crossings(SharedShift):
    """A sparse vector: one draw for the threshold, fresh noise for every answer in every branch.

    An answer is tested in the branches in their order: is answer + noise - (threshold + its noise)
    at least the boundary? The first branch that says yes is released, counted from 1, and 0 if none
    does; with `gap` the difference, too. Outputs are tuples with one entry for each answer that was
    asked: 0, a branch, or with a gap (branch, gap).

    Parameters
    ----------
    threshold : Law
        The noise of the threshold.
    queries : Law or list of Law
        The noise of the answers: one law for every branch.
    cost : Cost
        What the mechanism claims to spend.
    positives : int, optional
        After how many answers above the threshold it stops. None: it asks all.
    at : number
        The threshold, which is public.
    boundaries : iterable of number, optional
        One for each branch. None: 0.
    gap : bool
        Whether gaps are released. Without a partition that needs log-concave laws, and at most one
        positive.
    outputs, cost_of, sensitivity, name
        As for `Race`; `cost_of` takes a transcript without gaps (with `outputs`: an output).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> law = audit.Law.exponential
    >>> sparse = audit.Crossings(
    ...     threshold=law(2), queries=law(4), positives=1, cost=sd.cost.Pure(epsilon=1)
    ... )
    >>> report = audit.exact(sparse, answers_a=[0, 0], answers_b=[1, -1])
    >>> round(report.epsilon_at_least, 9), report.witness.output, report.broken
    (1.0, (0, 1), False)
    """

    threshold: Law
    queries: Law | Iterable[Law]
    positives: int | None = None
    at: Number = 0
    boundaries: Iterable[Number] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        [threshold] = laws_of(self.threshold, "Crossings.threshold")
        queries = laws_of(self.queries, "Crossings.queries")
        boundaries = tuple(
            PLACE("Crossings.boundaries", x) for x in (self.boundaries or [0] * len(queries))
        )
        if len(boundaries) != len(queries):
            raise InvalidParameter(
                f"Crossings.boundaries must be one number for each of the {len(queries)} branches; "
                f"got {len(boundaries)}."
            )
        # The cells of a gap start at the boundary, and ends of cells are floats.
        if self.gap and any(Fraction(float(x)) != x for x in boundaries):
            raise InvalidParameter(
                "Crossings.boundaries must be floats, such as 0.5 but not 0.1, where gaps start at "
                "them."
            )
        if self.positives is not None:
            COUNT("Crossings.positives", self.positives)
        values = {
            "threshold": threshold,
            "queries": queries,
            "boundaries": boundaries,
            "at": PLACE("Crossings.at", self.at),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def _branches(self) -> list[tuple[Law, Fraction]]:
        """Return law and boundary of each branch."""
        return list(zip(self.queries, self.boundaries or (), strict=True))  # type: ignore[arg-type]

    def _answers(self, answers: Any) -> list[Fraction]:
        return [
            PLACE("audit.exact.answers", x)
            for x in np.atleast_1d(np.asarray(answers, dtype=object)).ravel().tolist()
        ]

    def _laws(self, answers: Any) -> list[Law]:  # noqa: ARG002 - the signature of the common part
        return list(dict.fromkeys([self.threshold, *(law for law, _ in self._branches())]))

    def _outcomes(self, answers: Any) -> list[Outcome]:
        found = []
        for label in self._transcripts(len(self._answers(answers))):
            # A gap is at least the boundary of the branch that said yes.
            won = [branch for branch in label if branch]
            start = self._branches()[won[0] - 1][1] if won else Fraction(0)
            found.append(Outcome(label, len(won) if self.gap else 0, start))
            if len(found) > _MOST_TRANSCRIPTS:
                raise InvalidParameter(
                    f"audit.exact compares at most {_MOST_TRANSCRIPTS} transcripts; "
                    "give fewer answers, or outputs=."
                )
        return found

    def _transcripts(self, n: int, found: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield all that can come out of `n` answers after `found` positives."""
        if n == 0 or (self.positives is not None and found == self.positives):
            yield ()
            return
        # 0: the answer is below the threshold in every branch.
        for branch in range(len(self._branches()) + 1):
            for following in self._transcripts(n - 1, found + (branch > 0)):
                yield (branch, *following)

    def _split(self, output: Any) -> tuple[Any, tuple[Fraction, ...]]:
        if not isinstance(output, tuple | list):
            raise InvalidParameter(
                "Crossings.outputs must be tuples with an entry for each answer that was asked; "
                f"got {shown(output)}."
            )
        label = tuple(entry[0] if isinstance(entry, tuple | list) else entry for entry in output)
        pairs = [entry for entry in output if isinstance(entry, tuple | list)]
        paired = all(len(entry) == 2 and entry[0] > 0 for entry in pairs) and len(
            pairs
        ) == self.gap * sum(branch > 0 for branch in label)
        if not set(label) <= set(range(len(self._branches()) + 1)) or not paired:
            raise InvalidParameter(
                "Crossings.outputs must have 0, a branch, or with a gap (branch, gap) "
                "for each answer that was asked."
            )
        return label, tuple(
            self._gap(gap, self._branches()[branch - 1][1]) for branch, gap in pairs
        )

    def _density(self, answers: Any, label: Any, reals: Sequence[Fraction]) -> list[Products]:
        return [self._product(answers, label, list(reals), "density")]

    def _beyond(self, answers: Any, label: Any, real: Fraction) -> Products:
        return self._product(answers, label, [real], "survival")

    def _product(
        self, answers: Any, label: Sequence[int], reals: list[Fraction], kind: Any
    ) -> Products:
        """Return the product over all tests.

        What was released of a positive says which function it has.
        """
        # The integral is over the noise t of the threshold; each factor is a function of t plus its
        # shift.
        factors, shifts = [Factor("density", self.threshold, _UNIT_SCALE)], [Fraction(0)]
        left = iter(reals)
        scores = self._answers(answers)
        found = sum(branch > 0 for branch in label)
        ended = found == self.positives  # then the last answer that was asked is the last positive
        if (
            len(label) > len(scores)
            or not (label[-1] > 0 if ended else len(label) == len(scores))
            or found > (self.positives or found)
        ):
            raise InvalidParameter(
                f"Crossings.outputs must be transcripts that can come out of {len(scores)} "
                f"answers; got {label!r}."
            )
        for score, branch in zip(scores, label, strict=False):
            base = Fraction(self.at) - score
            for i, (law, boundary) in enumerate(self._branches(), start=1):
                if i == branch:
                    factors.append(Factor(kind if reals else "survival", law, _UNIT_SCALE))
                    shifts.append(base + (next(left) if reals else boundary))
                    break
                # This branch was tried and said no.
                factors.append(Factor("cdf", law, _UNIT_SCALE))
                shifts.append(base + boundary)
        return Products(tuple(factors), tuple(shifts))

    def _kinks(self, answers: Any) -> list[Fraction]:
        scores = self._answers(answers)
        # Kinks lie where breaks of two factors meet. Cells may be cut anywhere, so that a place too
        # many is no harm.
        places = [
            Fraction(0),
            *(x - Fraction(self.at) - boundary for x in scores for _, boundary in self._branches()),
        ]
        return sorted({x - Fraction(self.at) - place for x in scores for place in places})
