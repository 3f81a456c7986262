"""Sparse vectors without gaps: what a list says, and a stream whose questions are counted.

Claim: a release says which answers were above and how many were asked, and nothing else; a stream
says of each answer what a list would have said, of at most `questions` of them. Nothing is
refunded. Proof: docs/proofs/gaussian-sparse-vector.md; docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number
from sordino.cost import Cost, Pure
from sordino.entropy import Entropy
from sordino.errors import StreamClosed
from sordino.grid import to_steps
from sordino.mechanisms.crossings.branches import Cut, cut_at, cuts_at
from sordino.mechanisms.crossings.stream import BUSY, OpenStream, Stream
from sordino.noise import Sampler
from sordino.releases import Positives, Verdict
from sordino.scrubbing import scrubbed


class Quiet:
    """A sparse vector without gaps."""

    threshold: Number
    step: Fraction

    def cut(self, threshold: Number | None = None) -> Cut:
        """Return a public threshold (None: the one of the mechanism) on the grid.

        Raises
        ------
        InvalidParameter
            If it is no finite number or lies beyond 2^52 steps, where answers are clamped.
        """
        return self._cut_at(self.threshold if threshold is None else threshold, "threshold")

    def _cut_at(self, threshold: Any, what: str) -> Cut:
        return cut_at(f"{type(self).__name__}.{what}", threshold, Fraction(0), self.step)

    def heights(self, answers: Any, thresholds: Any = None) -> NDArray[np.int64]:
        """Return how far answers lie above their public thresholds, in steps, shape (n,).

        Raises
        ------
        InvalidParameter
            As in `release`.
        """
        name, what = type(self).__name__, "release.thresholds"
        steps = np.atleast_1d(to_steps(answers, self.step, name))
        if thresholds is None:
            # Both are within 2^52 steps, so the difference fits 64 bits.
            return steps - self.cut().steps
        # A threshold for each question, rounded up to the grid like the one of the mechanism.
        cuts = cuts_at(
            f"{name}.{what}", thresholds, steps.size, lambda value: self._cut_at(value, what)
        )
        return steps - np.array([cut.steps for cut in cuts], dtype=np.int64)

    def _pack(
        self, places: NDArray[np.int64], asked: int, cost: Cost, *, simulated: bool
    ) -> Positives:
        """Return the release: gaps and estimates are NaN."""
        # NaN, not 0: no gap was released, and nobody should read one. There is one branch and one
        # pass.
        return Positives(
            indices=places,
            gaps=np.full(places.size, np.nan),
            branches=np.zeros_like(places),
            passes=np.ones_like(places),
            asked=asked,
            estimates=np.full(places.size, np.nan),
            mechanism=self,
            cost=cost,
            simulated=simulated,
        )


_NO_COST = Pure(epsilon=0)


class Counting(Quiet):
    """A sparse vector without gaps whose questions count: it stops after so many, found or not."""

    positives: int
    questions: int | None
    noise: Any
    threshold_noise: Any
    cost: Cost


@dataclass(frozen=True)
class _SingleBranchMechanism:
    """The mechanism as a stream asks it.

    One branch and one threshold, whose cost is not counted here.
    """

    threshold: Any
    tokens: int
    branch_noise: tuple[Sampler, ...]
    threshold_noise: Sampler
    step: Fraction
    branch_tokens: ClassVar[tuple[int, ...]] = (1,)
    branch_corrections: ClassVar[tuple[Fraction, ...]] = (Fraction(0),)
    resample: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    # Nothing is counted here.
    def spent(self, tokens: int, thresholds: int = 1) -> Pure:  # noqa: ARG002
        return _NO_COST


@final
class CountedStream(OpenStream):
    """An open sparse vector whose questions count.

    Answers come one at a time and each gets a verdict.

    The method `open` of a `GaussianSparseVector` makes it. It closes when enough was found or
    asked, or its `with` block is left. Threads may share it, processes may not.

    Attributes
    ----------
    mechanism : GaussianSparseVector
    asked : int
        How many questions were answered.
    spent : Cost
        The whole cost of the mechanism once a question was asked.
    closed : bool

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.GaussianSparseVector(
    ...     threshold=100, positives=5, rho=0.5, sensitivity=sd.COUNTING, questions=3
    ... )
    >>> with m.open(entropy=sd.Seeded(7)) as stream:
    ...     [stream.ask(answer).above for answer in (3, 8, 170)]
    [False, False, True]
    >>> stream.closed, stream.spent == m.cost
    (True, True)
    """

    __slots__ = ("_stream",)

    mechanism: Counting

    def __init__(self, mechanism: Counting, entropy: Entropy) -> None:
        super().__init__(mechanism)
        plain = _SingleBranchMechanism(
            mechanism.threshold,
            mechanism.positives,
            (mechanism.noise,),
            mechanism.threshold_noise,
            mechanism.step,
        )
        # The stream within decides; what this one adds is the count of questions and the cost.
        self._stream = Stream(cast("Any", plain), entropy)

    def __enter__(self) -> Self:
        self._stream.__enter__()
        return self

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return self._stream.asked

    @property
    def spent(self) -> Cost:
        """The whole cost of the mechanism once a question was asked; nothing before."""
        return self.mechanism.cost if self.asked else _NO_COST

    @property
    def closed(self) -> bool:
        """True once enough was found or asked, or the stream was left."""
        return self._stream.closed or self.asked == self.mechanism.questions

    @scrubbed
    def ask(self, answer: Any, threshold: Any = None) -> Verdict:
        """Compare one private answer, with fresh noise, with the noisy threshold.

        Parameters
        ----------
        answer : number
            Private. Anything: what is no number, or NaN, is the lowest value.
        threshold : number, optional
            Public threshold of this question, instead of the one of the mechanism.

        Returns
        -------
        Verdict
            Without a gap. The first one carries the whole cost, whose pure epsilon is inf.

        Raises
        ------
        StreamClosed
            If enough was found or asked, the stream was left or belongs to another process, or a
            signal handler asks in the middle of another question. Nothing is answered.
        InvalidParameter
            If the threshold is no finite number, or beyond 2^52 steps. Nothing is answered.
        """
        if threshold is not None:
            self.mechanism.cut(threshold)
        # A fork may have copied the lock while it was held, so it must not wait for it: the stream
        # within refuses.
        if not self._process.is_here():
            self._stream.ask(answer)
        with self._lock:
            if self._busy:
                raise StreamClosed(BUSY)
            try:
                self._busy = True
                # Also if an interrupt came between the last question and its end. The stream within
                # then refuses.
                if self.closed:
                    self._stream.close()
                # The first question owes the whole cost, the others nothing more.
                first = not self._stream.asked
                said = self._stream.ask(answer, threshold)
                if self.closed:
                    self._stream.close()
            finally:
                self._busy = False
        cost = self.mechanism.cost if first else _NO_COST
        return Verdict(
            above=said.above,
            gap=None,
            branch=said.branch,
            threshold=said.threshold,
            estimate=None,
            charged=cost.pure(),
            mechanism=self.mechanism,
            cost=cost,
            simulated=said.simulated,
            exact=said.exact,
        )

    def close(self) -> None:
        """End the stream and wipe its noise.

        A question that a signal handler interrupts is still answered.
        """
        self._stream.close()
