"""A stream of questions to a sparse vector.

Answers come one at a time, noise is drawn ahead and wiped.

Claim: the transcript is the fold of `step` over the answers; each draw of noise serves once, in one
process. Proof: docs/proofs/sparse-vector.md, "Streams"; docs/proofs/adaptive-sparse-vector.md.
Floats: none but the gap, a whole number of steps less the public threshold.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, NoReturn, Self, SupportsIndex, final

import numpy as np

from sordino.cost import Cost, Pure
from sordino.entropy import Entropy
from sordino.errors import StreamClosed
from sordino.grid import CLAMP, to_steps
from sordino.mechanisms.crossings.branches import Branching, Cut, centers, cuts_of
from sordino.mechanisms.crossings.crossings import Ahead, State, affordable, step
from sordino.process import Process
from sordino.releases import Verdict, short_repr
from sordino.scrubbing import scrubbed

_FIRST_DRAWS, _MOST_DRAWS = 64, 4096
_CLOSED_MESSAGE = "This stream is closed; open another one, at its own cost. Nothing was answered."
BUSY = (
    "This stream is answering a question; a signal handler cannot ask it, too. Nothing was "
    "answered."
)


class OpenStream(ABC):
    """The base of every stream of questions.

    It has one owner, answers one question at a time, and is never copied.

    Attributes
    ----------
    mechanism : object
        Whose noise it draws.
    """

    __slots__ = ("_busy", "_lock", "_process", "mechanism")

    def __init__(self, mechanism: Any) -> None:
        self.mechanism = mechanism
        self._busy = False
        # Reentrant, so that a signal handler in the middle of a question does not wait for itself.
        self._lock = threading.RLock()
        self._process = Process()

    def __repr__(self) -> str:
        return short_repr(
            self,
            {
                "mechanism": self.mechanism,
                "asked": self.asked,
                "spent": self.spent,
                "closed": self.closed,
            },
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"A {type(self).__name__} cannot be copied or pickled: its noise must answer every "
            "question only once."
        )

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    @abstractmethod
    def asked(self) -> int:
        """How many questions were answered."""

    @property
    @abstractmethod
    def spent(self) -> Cost:
        """Cost of the transcript so far."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True once no further question is answered."""

    @abstractmethod
    def close(self) -> None:
        """End the stream and wipe its noise."""


@final
class Stream(OpenStream):
    """An open sparse vector: answers come one at a time and each gets a verdict.

    The method `open` of a mechanism makes it. It closes when no further positive can be paid for or
    its `with` block is left. Share it between threads if you like, not between processes: a copy
    would give the same noise to other questions, so a fork of the process is refused, and so is a
    pickle.

    Attributes
    ----------
    mechanism : SparseVector or AdaptiveSparseVector
    asked : int
        How many questions were answered.
    spent : Pure
        Cost of the transcript so far; it never falls, and never exceeds the cost of the mechanism.
    closed : bool

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(threshold=100, positives=1, epsilon=4, sensitivity=sd.COUNTING)
    >>> with m.open(entropy=sd.Seeded(7)) as stream:
    ...     [stream.ask(answer).above for answer in (3, 8, 170)]
    [False, False, True]
    >>> stream.closed, stream.spent.pure() == m.cost.pure()
    (True, True)
    """

    __slots__ = (
        "_asked",
        "_charges",
        "_closed",
        "_common",
        "_noise",
        "_prices",
        "_simulated",
        "_state",
        "_step",
        "_thresholds",
    )

    mechanism: Branching

    def __init__(self, mechanism: Branching, entropy: Entropy) -> None:
        super().__init__(mechanism)
        self._step = _StepConverter(mechanism.step)
        self._common = cuts_of(mechanism, mechanism.threshold)
        self._prices = mechanism.branch_tokens
        self._thresholds = Ahead(mechanism.threshold_noise, entropy, 1, 1)
        self._noise = [
            Ahead(law, entropy, _FIRST_DRAWS, _MOST_DRAWS) for law in mechanism.branch_noise
        ]
        self._simulated = entropy.simulated
        # What a verdict adds to what was spent: by the branch that fired (the last row: none), and
        # by whether it is the first to meet its threshold.
        self._charges = tuple(
            tuple(mechanism.spent(tokens, first) for first in (0, 1))
            for tokens in (*self._prices, 0)
        )
        self._state = State(mechanism.tokens)
        self._asked = 0
        self._closed = False

    def __enter__(self) -> Self:
        self._check_open()
        return self

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return self._asked

    @property
    def spent(self) -> Pure:
        """Cost of the transcript so far.

        Each threshold that a question has met, and each positive.
        """
        state = self._state
        return self.mechanism.spent(self.mechanism.tokens - state.left, state.stages)

    @property
    def closed(self) -> bool:
        """True once no further positive can be paid for, or the stream was left."""
        return not self._open()

    @scrubbed
    def ask(self, answer: Any, threshold: Any = None) -> Verdict:
        """Compare one private answer, with fresh noise, with the noisy threshold.

        Parameters
        ----------
        answer : number
            Private. Anything: what is no number, or NaN, is the lowest value.
        threshold : number, optional
            Public threshold of this question, instead of the one of the mechanism; the correction
            is added to either.

        Returns
        -------
        Verdict

        Raises
        ------
        StreamClosed
            If no further positive can be paid for, the stream was left or belongs to another
            process, or a signal handler asks in the middle of another question. Nothing is
            answered.
        InvalidParameter
            If the threshold is no finite number, or beyond 2^52 steps. Nothing is answered.
        """
        # A wrong threshold is refused before any noise is taken.
        cuts = self._common if threshold is None else cuts_of(self.mechanism, threshold)
        height = self._step.of(answer)
        self._check_process()
        with self._lock:
            if self._busy:
                raise StreamClosed(BUSY)
            try:
                self._busy = True
                fired, first = self._answered(height, cuts)
            finally:
                self._busy = False
                # A signal handler may have closed the stream during the question, and could not
                # wipe it then.
                if self._closed:
                    self._wipe()
        # A signal handler may have forked in the middle: only one of the two may say what came out.
        self._check_process()
        branch, lift = (None, 0) if fired is None else fired
        cost = self._charges[-1 if branch is None else branch][first]
        return Verdict(
            above=branch is not None,
            gap=None if branch is None else cuts[branch].gap(lift, self.mechanism.step),
            branch=branch,
            threshold=self.mechanism.threshold if threshold is None else threshold,
            estimate=None
            if branch is None
            else cuts[branch].value(lift, self.mechanism.step) - centers(self.mechanism)[branch],
            charged=cost.epsilon_,
            mechanism=self.mechanism,
            cost=cost,
            simulated=self._simulated,
            exact=self.mechanism.exact,
        )

    def _answered(self, height: int, cuts: tuple[Cut, ...]) -> tuple[tuple[int, int] | None, bool]:
        """Return which branch fired and its lift (or None), and whether the threshold was new."""
        open_ = self._open()
        if not open_:
            raise StreamClosed(_CLOSED_MESSAGE)
        state = self._state
        first = state.threshold is None
        if first:
            state = State(state.left, self._thresholds.take(), state.stages + 1)
        # Each branch that can be paid for takes a draw, whichever fires. So question i meets the
        # i-th draw of each, as it does in a list.
        noisy = [
            height - cut.steps + noise.take()
            for cut, noise in zip(cuts, self._noise[:open_], strict=False)
        ]
        self._state, fired = step(state, noisy, self._prices, resample=self.mechanism.resample)
        self._asked += 1
        # After a positive some branches may be too dear for what is left: their noise is not needed
        # any more.
        if fired is not None:
            self._wipe(self._open())
        return fired, first

    def close(self) -> None:
        """End the stream: the noise of the threshold and the noise drawn ahead are wiped.

        A signal handler may call it in the middle of a question: that one is still answered, and no
        other one.
        """
        # A fork only wipes its copy, without the lock, which may have been held when the fork was
        # made.
        if not self._process.is_here():
            self._wipe()
            return
        with self._lock:
            self._closed = True
            if not self._busy:
                self._wipe()

    def _wipe(self, open_: int = 0) -> None:
        """Wipe the noise of branches that will not be asked any more; with none left everything."""
        for noise in self._noise[open_:]:
            noise.wipe()
        if not open_:
            self._closed = True
            self._state = State(self._state.left, None, self._state.stages)
            self._thresholds.wipe()

    def _check_process(self) -> None:
        """Raise `StreamClosed` in any process but the one that opened the stream."""
        if not self._process.is_here():
            raise StreamClosed(
                "This stream belongs to the process that opened it, not to a fork of it. Nothing "
                "was answered."
            )

    def _check_open(self) -> None:
        """Raise `StreamClosed` unless a question may be asked."""
        self._check_process()
        if self.closed:
            raise StreamClosed(_CLOSED_MESSAGE)

    def _open(self) -> int:
        """Return how many branches may be asked.

        It is 0 as well if an interrupt came between the last positive and the wiping: the tokens
        decide, too.
        """
        return 0 if self._closed else affordable(self._prices, self._state.left)


@final
class _StepConverter:
    """`grid.to_steps` for one answer, quick for floats and integers of 64 bits."""

    __slots__ = ("_exponent", "_inverse", "_limit", "_step")

    def __init__(self, unit: Fraction) -> None:
        self._step = unit
        # The step is a power of two, so that dividing by it only changes an exponent.
        self._exponent = unit.numerator.bit_length() - unit.denominator.bit_length()
        self._inverse = math.ldexp(1.0, -self._exponent)
        # Answers within this are not clamped.
        self._limit = math.ldexp(float(CLAMP), self._exponent)

    def of(self, answer: Any) -> int:
        """Return the answer in steps, rounded down, clamped to +-2^52.

        What is no number is the lowest.
        """
        kind = type(answer)
        if kind is float or kind is np.float64:
            answer = float(answer)
            if -self._limit < answer < self._limit:
                scaled = math.floor(answer * self._inverse)
                # A negative answer whose product underflows to 0 still lies below zero.
                return -1 if not scaled and answer < 0 else scaled
            # NaN is not above 0, so it becomes the lowest value.
            return CLAMP if answer > 0 else -CLAMP
        if kind is int or kind is np.int64:
            # Shifting a whole number rounds it down, exactly.
            whole = int(answer)
            return max(
                -CLAMP,
                min(
                    CLAMP,
                    whole >> self._exponent if self._exponent >= 0 else whole << -self._exponent,
                ),
            )
        return int(to_steps([answer], self._step, "Stream.ask")[0])
