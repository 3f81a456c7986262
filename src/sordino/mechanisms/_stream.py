"""A stream of questions: the thin shell around a pure step, with noise drawn ahead and wiped as it is used.

Claim: the transcript is the fold of `step` over the answers; each draw of noise serves once, in one process.
Proof: docs/proofs/sparse-vector.md, "Streams".
Floats: none but the gap, a whole number of steps less the public threshold.
"""

from __future__ import annotations

import math
import os
import threading
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, SupportsIndex, final

import numpy as np

from sordino.cost import Pure
from sordino.entropy import Entropy
from sordino.errors import StreamClosed
from sordino.grid import CLAMP, to_steps
from sordino.mechanisms._ahead import Ahead, Sampler
from sordino.mechanisms._crossings import State, step
from sordino.mechanisms._thresholds import Cut
from sordino.releases import Verdict, pictured

_FIRST, _MOST = 64, 4096


class Streamed(Protocol):
    """What a stream needs to know of its mechanism."""

    @property
    def positives(self) -> int:
        """How many may be found."""
        ...

    @property
    def resample(self) -> bool:
        """Whether each positive is followed by a new threshold."""
        ...

    @property
    def step(self) -> Fraction:
        """Width of the grid."""
        ...

    @property
    def noise(self) -> Sampler:
        """The noise of questions."""
        ...

    @property
    def threshold_noise(self) -> Sampler:
        """The noise of thresholds."""
        ...

    @property
    def exact(self) -> bool:
        """Whether what is sampled is what is proved."""
        ...

    def spent(self, positives: int, thresholds: int = 1) -> Pure:
        """Return the cost of a transcript."""
        ...

    def cut(self, threshold: Any = None) -> Cut:
        """Return a public threshold on the grid."""
        ...


@final
class Stream:
    """An open sparse vector: answers come one at a time and each gets a verdict; `SparseVector.open` makes it.

    It closes when enough positives were found or its `with` block is left. Share it between threads if you like, not between processes:
    a copy would give the same noise to other questions, so a fork of the process is refused, and so is a pickle.

    Attributes
    ----------
    mechanism : SparseVector
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
    >>> stream.closed, stream.spent == m.cost
    (True, True)
    """

    __slots__ = (
        "_asked",
        "_charges",
        "_closed",
        "_common",
        "_lock",
        "_noise",
        "_process",
        "_simulated",
        "_state",
        "_step",
        "_thresholds",
        "mechanism",
    )

    def __init__(self, mechanism: Streamed, entropy: Entropy) -> None:
        self.mechanism = mechanism
        self._step = _InSteps(mechanism.step)
        self._common = mechanism.cut()
        self._thresholds = Ahead(mechanism.threshold_noise, entropy, 1, 1)
        self._noise = Ahead(mechanism.noise, entropy, _FIRST, _MOST)
        self._simulated = entropy.simulated
        # What a verdict adds to what was spent: by whether it is above, and whether it is the first to meet its threshold.
        self._charges = tuple(tuple(mechanism.spent(above, first) for first in (0, 1)) for above in (0, 1))
        self._state = State(mechanism.positives)
        self._asked = 0
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return pictured(self, {"mechanism": self.mechanism, "asked": self.asked, "spent": self.spent, "closed": self.closed})

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A Stream cannot be copied or pickled: its noise must answer every question only once.")

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return self._asked

    @property
    def spent(self) -> Pure:
        """Cost of the transcript so far: each threshold that a question has met, and each positive."""
        state = self._state
        return self.mechanism.spent(self.mechanism.positives - state.left, state.stages)

    @property
    def closed(self) -> bool:
        """True once enough positives were found or the stream was left."""
        return self._closed or not self._state.left

    def ask(self, answer: Any, threshold: Any = None) -> Verdict:
        """Compare one private answer, with fresh noise, with the noisy threshold.

        Parameters
        ----------
        answer : number
            Private. Anything: what is no number, or NaN, is the lowest value.
        threshold : number, optional
            Public threshold of this question, instead of the one of the mechanism; the correction is added to either.

        Returns
        -------
        Verdict

        Raises
        ------
        StreamClosed
            If the stream has found enough, was left, or belongs to another process. Nothing is answered.
        InvalidParameter
            If the threshold is no finite number, or beyond 2^52 steps. Nothing is answered.
        """
        cut = self._common if threshold is None else self.mechanism.cut(threshold)
        height = self._step.of(answer) - cut.steps
        self._check_process()
        with self._lock:
            self._check_open()
            state = self._state
            first = state.threshold is None
            if first:
                state = State(state.left, self._thresholds.take(), state.stages + 1)
            self._state, lift = step(state, height + self._noise.take(), resample=self.mechanism.resample)
            self._asked += 1
            if not self._state.left:
                self._wipe()
        cost = self._charges[lift is not None][first]
        return Verdict(
            above=lift is not None,
            gap=None if lift is None else cut.gap(lift, self.mechanism.step),
            branch=None if lift is None else 0,
            charged=cost.epsilon_,
            mechanism=self.mechanism,
            cost=cost,
            simulated=self._simulated,
            exact=self.mechanism.exact,
        )

    def close(self) -> None:
        """End the stream: the noise of the threshold and the noise drawn ahead are wiped."""
        if self._process != os.getpid():  # a fork wipes its copy; the lock may have been held when it was made
            self._wipe()
            return
        with self._lock:
            self._wipe()

    def _wipe(self) -> None:
        self._closed = True
        self._state = State(self._state.left, None, self._state.stages)
        self._thresholds.wipe()
        self._noise.wipe()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StreamClosed("This stream belongs to the process that opened it, not to a fork of it. Nothing was answered.")

    def _check_open(self) -> None:
        self._check_process()
        if self.closed:  # also if an interrupt came between the last positive and the wiping
            raise StreamClosed("This stream is closed; open another one, at its own cost. Nothing was answered.")


@final
class _InSteps:
    """`grid.to_steps` for one answer, quick for floats and integers of 64 bits."""

    __slots__ = ("_exponent", "_inverse", "_limit", "_step")

    def __init__(self, unit: Fraction) -> None:
        self._step = unit
        self._exponent = unit.numerator.bit_length() - unit.denominator.bit_length()
        self._inverse = math.ldexp(1.0, -self._exponent)
        self._limit = math.ldexp(float(CLAMP), self._exponent)

    def of(self, answer: Any) -> int:
        """Return the answer in steps, rounded down, clamped to +-2^52; what is no number is the lowest."""
        kind = type(answer)
        if kind is float or kind is np.float64:
            answer = float(answer)
            if -self._limit < answer < self._limit:
                scaled = math.floor(answer * self._inverse)
                return -1 if not scaled and answer < 0 else scaled  # an underflow still lies below zero
            return CLAMP if answer > 0 else -CLAMP  # NaN is not above 0
        if kind is int or kind is np.int64:
            whole = int(answer)
            return max(-CLAMP, min(CLAMP, whole >> self._exponent if self._exponent >= 0 else whole << -self._exponent))
        return int(to_steps([answer], self._step, "Stream.ask")[0])
