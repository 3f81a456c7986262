"""A stream of questions that an account has paid for.

Its worst case is drawn before it opens, and what it did not spend returns when it is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn, Self, SupportsIndex, final

from sordino.errors import InvalidParameter, SimulatedRelease, StreamClosed
from sordino.process import Process
from sordino.scrubbing import scrubbed


def check_streams(mechanism: Any) -> None:
    """Refuse, before anything is drawn for it, a mechanism that would refuse to open a stream."""
    if not callable(getattr(mechanism, "open", None)):
        raise InvalidParameter(
            "Charge.open needs a mechanism with streams, such as a SparseVector; got a "
            f"{type(mechanism).__name__}."
        )
    if getattr(mechanism, "passes", 1) != 1 or getattr(mechanism, "domain_size", None) is not None:
        raise InvalidParameter(
            "Charge.open needs a mechanism with one pass and without a domain size: a stream "
            "cannot go back."
        )


@final
class ChargedStream:
    """A stream of questions in a charge; `Charge.open` and `Session.watch` make it.

    It answers as the stream of its mechanism does. Closing it, or leaving its `with` block without
    an error, tells the charge what was really spent. Whatever ends it otherwise (an error in the
    block, a question that failed, the end of the process) leaves the worst case charged.

    Attributes
    ----------
    mechanism : object
        With its public parameters.
    asked : int
        How many questions were answered.
    spent : Cost
        Cost of the transcript so far.
    closed : bool

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="alarms",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer", source="orders.parquet")
    >>> mechanism = sd.SparseVector(threshold=100, positives=3, epsilon=0.8,
    ...                             sensitivity=sd.COUNTING, split=0.25)
    >>> with ledger.reserve(mechanism) as charge, charge.open(mechanism) as stream:
    ...     [stream.ask(answer).above for answer in (-10**6, 10**6)]
    [False, True]
    >>> ledger.remaining  # 0.2 for the threshold and 0.2 for the one positive
    Fraction(3, 5)
    >>> folder.cleanup()
    """

    __slots__ = ("_asking", "_ended", "_fail", "_late", "_lock", "_process", "_settle", "_stream")

    def __init__(
        self, stream: Any, *, settle: Callable[[Any], None], fail: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._settle = settle
        self._fail = fail
        self._ended = False
        self._asking: set[int] = set()  # the threads that are in the middle of a question
        self._late = False  # a signal handler closed it in the middle of one
        self._lock = threading.RLock()  # reentrant: a signal handler may close what is being closed
        self._process = Process()

    def __repr__(self) -> str:
        return f"ChargedStream({self._stream!r})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "A ChargedStream cannot be copied or pickled: its noise must answer every question "
            "only once."
        )

    def __enter__(self) -> Self:
        self._check_process()
        self._stream.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._process.is_here():
            self._fail()  # why it ended may depend on the answers
        self.close()

    @property
    def mechanism(self) -> Any:
        """The mechanism with its public parameters."""
        return self._stream.mechanism

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return int(self._stream.asked)

    @property
    def spent(self) -> Any:
        """Cost of the transcript so far; it never falls."""
        return self._stream.spent

    @property
    def closed(self) -> bool:
        """True once enough was found or the stream was left."""
        return bool(self._stream.closed)

    @scrubbed
    def ask(self, answer: Any, threshold: Any = None) -> Any:
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

        Raises
        ------
        StreamClosed
            If the stream has found enough, was left, or belongs to another process. Nothing is
            answered.
        InvalidParameter
            If the threshold is no finite number, or beyond 2^52 steps. Nothing is answered.
        SimulatedRelease
            If the verdict says that it is simulated; the charge stays.
        """
        self._check_process()
        # A signal handler may ask in the middle of a question: only the outer one may close the
        # stream.
        me = threading.get_ident()
        outer = me not in self._asking
        try:
            self._asking.add(me)
            verdict = self._stream.ask(answer, threshold)
        except (StreamClosed, InvalidParameter):
            raise  # about the transcript and public numbers alone
        except BaseException:
            self._fail()  # it may have answered, and why it failed may depend on the answer
            raise
        finally:
            if outer:
                self._asking.discard(me)
                if self._late:
                    self.close()
        if getattr(verdict, "simulated", None) is not False:
            self._fail()
            raise SimulatedRelease(
                "The verdict says that it is simulated, or does not say; its charge stays."
            )
        return verdict

    def close(self) -> None:
        """End the stream and tell the charge what it spent; its noise is wiped.

        A signal handler may call it in the middle of a question. That question is still answered
        and paid for, and no other one is.
        """
        if not self._process.is_here():  # a fork wipes its copy, and has no say about the charge
            self._stream.close()
            return
        if threading.get_ident() in self._asking:
            self._late = (
                True  # before any lock: another thread may hold this one's and wait for the stream
            )
            return
        with self._lock:
            self._stream.close()  # no question is answered after this
            if not self._ended:
                self._ended = True
                self._settle(self._stream.spent)

    def _check_process(self) -> None:
        if not self._process.is_here():
            raise StreamClosed(
                "This stream belongs to the process that opened it, not to a fork of it. Nothing "
                "was answered."
            )
