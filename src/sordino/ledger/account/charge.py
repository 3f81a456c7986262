"""One charge: a reservation that mechanisms draw from, each draw durable before its noise exists."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, final

from sordino.errors import InvalidParameter, LedgerConflict, LedgerError, SimulatedRelease
from sordino.ledger import schema
from sordino.ledger.account.charged_stream import ChargedStream, check_streams
from sordino.ledger.account.records import body_of, described
from sordino.ledger.amounts import MEASURES, check_claims, exact_cost, nano_up
from sordino.ledger.store.store import Store, carry_out
from sordino.process import Process
from sordino.receipt import Receipt
from sordino.remnants import no_remnants

_USED_ELSEWHERE_MESSAGE = (
    "This charge was drawn from or settled elsewhere (a copy of this process, or a write whose outcome is "
    "unknown). Nothing was released; what the ledger holds stays charged."
)
_FORKED_MESSAGE = (
    "This process was forked in the middle of a release, which belongs to the other one. Nothing was "
    "released here."
)


@final
class Charge:
    """A reservation in an account; `Ledger.reserve` makes it.

    Leaving its `with` block settles: what was never drawn returns to the account. On a pure meter, so does
    what a mechanism with a proof for each transcript did not spend (docs/explanation/refunds.md). Leaving by
    an exception, or a crash at any moment, leaves the full reservation charged. It belongs to the process
    that reserved it.

    Attributes
    ----------
    id : str
        128 random bits, as hexadecimal text.
    label : str
        What the caller called it.
    account : str
        The account that is charged.
    reserved : Fraction
        The exact worst case, in epsilon or, on the zCDP meter, in rho.
    time : str
        When it was reserved, as the ledger has it: UTC, ISO 8601.
    receipt : Receipt
        `id`, `account` and `time`, which a release of a session carries.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=sd.Budget(epsilon=1.0),
    ...                           adjacency="add-remove", unit="customer", source="orders.parquet")
    >>> mechanism = sd.LaplaceMechanism(epsilon=0.25, sensitivity=sd.COUNTING)
    >>> with ledger.reserve(sd.cost.Pure(epsilon=0.75), label="count") as charge:
    ...     count = charge.release(mechanism, 1234)
    >>> ledger.remaining
    Fraction(3, 4)
    >>> folder.cleanup()
    """

    __slots__ = (
        "_adjacency",
        "_approximate",
        "_busy",
        "_key",
        "_lock",
        "_meter",
        "_process",
        "_spent",
        "_state",
        "_store",
        "_streams",
        "account",
        "id",
        "label",
        "reserved",
        "time",
    )

    def __init__(
        self,
        *,
        store: Store,
        account: str,
        meter: str,
        adjacency: str,
        charge: str,
        key: str,
        label: str,
        reserved: Fraction,
        time: str,
        allow_approximate: bool,
    ) -> None:
        self.id = charge
        self._key = key
        self.label = label
        self.account = account
        self.reserved = reserved
        self.time = time
        self._store = store
        self._meter = meter
        self._adjacency = adjacency
        self._approximate = allow_approximate
        # The worst case of each draw and what was really spent; its length is the next slot.
        self._spent: list[tuple[Fraction, Fraction]] = []
        self._streams: list[ChargedStream] = []
        self._state: Literal["open", "settled", "kept"] = "open"
        self._process = Process()
        self._lock = threading.RLock()
        self._busy = False

    def __repr__(self) -> str:
        return (
            f"Charge(account={self.account!r}, label={self.label!r}, reserved={float(self.reserved):.12g}, "
            f"drawn={float(self.drawn):.12g}, state={self._state!r})"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("A Charge cannot be copied or pickled: it belongs to the process that reserved it.")

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._keep()
        elif self._state == "open":
            # Still open, so nothing has failed that may depend on the answers.
            self._settle_at_the_end()
        self._close_streams()

    @property
    def receipt(self) -> Receipt:
        """What a release says of this charge: its id, its account and its time."""
        return Receipt(id=self.id, account=self.account, time=self.time)

    @property
    def drawn(self) -> Fraction:
        """The exact sum of the worst cases drawn so far."""
        return sum((worst for worst, _ in self._spent), Fraction(0))

    @no_remnants
    def release(self, mechanism: Any, answers: Any, *, entropy: Any = None, **private: Any) -> Any:
        """Record a draw durably, then let the mechanism release.

        Parameters
        ----------
        mechanism : object
            With `.cost` and `.release`.
        answers : object
            Private; handed to the mechanism and to nothing else.
        entropy : Entropy, optional
            Where the noise comes from; the operating system if not given. A simulated one is refused.
        **private : object
            Further private arguments of `mechanism.release`.

        Returns
        -------
        object
            What `mechanism.release` returns.

        Raises
        ------
        SimulatedRelease
            If the entropy is simulated. Nothing is drawn. If the release says that it is simulated, the draw
            stays charged.
        LedgerConflict
            If the charge is not open in this process, was used by a copy of it, or what remains of it is too
            small; if the mechanism is for another adjacency. No noise is drawn.
        InvalidParameter
            If the mechanism has no cost on the meter of the account, or is not exact and that was not
            allowed.
        """
        self._check_open()
        entropy = _require_real_entropy(entropy)
        # Durable before any noise exists: no crash can release without a charge.
        slot = self._draw(mechanism, entropy)
        try:
            result = mechanism.release(answers, entropy=entropy, **private)
        except BaseException:
            # Why it failed may depend on the answers, so nothing that follows from it may return.
            self._keep()
            raise
        # A signal handler may have forked meanwhile: both would have a release, with noise of their own, for
        # one draw.
        if not self._process.is_here():
            raise LedgerConflict(_FORKED_MESSAGE)
        if getattr(result, "simulated", None) is not False:
            self._keep()
            raise SimulatedRelease(
                "The release says that it is simulated, or does not say; its charge stays."
            )
        self._note(slot, mechanism, result)
        return result

    def open(self, mechanism: Any, *, entropy: Any = None) -> ChargedStream:
        """Record a draw of the worst case durably, then open a stream of the mechanism.

        What the stream really spent is settled if it was closed, or its block left, without an error.
        Settling closes what is still open.

        Parameters
        ----------
        mechanism : object
            With `.cost` and `.open`, such as a `SparseVector`.
        entropy : Entropy, optional
            Where the noise comes from; the operating system if not given. A simulated one is refused.

        Returns
        -------
        ChargedStream
            To be used in a `with` block, inside that of the charge.

        Raises
        ------
        SimulatedRelease, LedgerConflict, InvalidParameter
            As for `release`; a mechanism without streams is refused, too. Nothing is drawn.
        """
        self._check_open()
        entropy = _require_real_entropy(entropy)
        check_streams(mechanism)
        slot = self._draw(mechanism, entropy)
        try:
            opened = mechanism.open(entropy=entropy)
        except BaseException:
            self._keep()
            raise
        stream = ChargedStream(opened, settle=partial(self._ended, slot, mechanism), fail=self._keep)
        self._streams.append(stream)
        return stream

    def draw(self, mechanism: Any) -> int:
        """Record durably that `mechanism` is about to draw its noise; `release` does this first.

        `SYSTEM` forgets the words that it drew ahead: a copy of this memory that was made before knows
        nothing of the noise.

        Parameters
        ----------
        mechanism : object
            A mechanism, or a cost.

        Returns
        -------
        int
            The slot of the draw, 0 for the first one of this charge.

        Raises
        ------
        LedgerConflict
            If the charge is not open in this process, was used by a copy of it, or what remains of it is too
            small; if the mechanism is for another adjacency.
        InvalidParameter
            If the mechanism has no cost on the meter of the account, or is not exact and that was not
            allowed.
        """
        return self._draw(mechanism, _require_real_entropy(None))

    def _draw(self, mechanism: Any, entropy: Any) -> int:
        """Record a draw, and then let the entropy that its noise comes from forget what it drew ahead."""
        from sordino.entropy import renew  # noqa: PLC0415  (numpy is needed for noise, not for ledgers)

        self._check_open()
        check_claims(mechanism, adjacency=self._adjacency, allow_approximate=self._approximate)
        worst = exact_cost(mechanism, self._meter)
        with self._alone():
            slot, before = len(self._spent), self.drawn
            if before + worst > self.reserved:
                raise LedgerConflict(
                    f"This draw needs {MEASURES[self._meter]} {_write_amount(worst)} but "
                    f"{_write_amount(self.reserved - before)} of {_write_amount(self.reserved)} "
                    f"remains in charge {self.label!r}. Nothing was drawn."
                )
            # Differences of the rounded sum, not rounded differences: many draws of half a billionth fit
            # where their sum fits.
            amount = nano_up(before + worst) - nano_up(before)
            drawn = {
                "slot": slot,
                "before": nano_up(before),
                "amount": amount,
                "body": body_of(slot=slot, draws=described([mechanism], self._meter)),
            }
            # It changes nothing if the ledger knows other draws than this process, or the charge is closed.
            if not self._do(schema.DRAW, drawn):
                raise LedgerConflict(_USED_ELSEWHERE_MESSAGE)
            self._spent.append((worst, worst))
        # After the draw is durable: a copy of the memory from before must not know the words of this noise.
        renew(entropy)
        return slot

    def settle(self) -> None:
        """Give back what was not spent, and close the charge and its streams.

        Leaving the `with` block does this.

        Raises
        ------
        LedgerConflict
            If the charge is not open in this process or was used by a copy of it.
        """
        self._check_open()
        # First, so that no stream spends anything after it was added up.
        self._close_streams()
        with self._alone():
            actual = nano_up(sum((spent for _, spent in self._spent), Fraction(0)))
            closing = {
                "reserved": nano_up(self.reserved),
                "drawn": nano_up(self.drawn),
                "draws": len(self._spent),
                "amount": actual,
                "body": body_of(),
            }
            if not self._do(schema.SETTLE, closing):
                raise LedgerConflict(_USED_ELSEWHERE_MESSAGE)
            self._state = "settled"

    def _do(self, operation: schema.Operation, parameters: dict[str, Any]) -> bool:
        known = {"account": self.account, "charge": self.id, "key": self._key}
        return carry_out(self._store, operation, {**known, **parameters}, account=self.account)

    def _settle_at_the_end(self) -> None:
        """Settle; a release that was made must not be lost because the ledger cannot be reached any more."""
        try:
            self.settle()
        except LedgerConflict:
            raise
        except LedgerError as error:
            self._keep()
            # If nothing would have come back, nothing is lost and nobody is warned.
            if self._returns():
                warnings.warn(
                    f"The charge {self.label!r} stays in full: it could not be settled. {error}",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def _returns(self) -> Fraction:
        """Return what settling gives back."""
        return self.reserved - sum((spent for _, spent in self._spent), Fraction(0))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread at a time write about this charge, and no signal handler in between."""
        with self._lock:
            self._check_open()
            # The lock lets its own thread in again, and so a signal handler; that one is refused here.
            if self._busy:
                raise LedgerConflict(
                    f"Charge {self.label!r} is being used; "
                    "a signal handler cannot use it too. Nothing was drawn."
                )
            try:
                # Inside of the `try`: an interrupt right after it must not leave the charge busy for ever.
                self._busy = True
                yield
            finally:
                self._busy = False

    def _note(self, slot: int, mechanism: Any, result: Any) -> None:
        """Remember what a release really spent, so that the rest can return where a proof allows it."""
        worst = self._spent[slot][0]
        by_transcript = getattr(mechanism, "per_transcript", False) is True
        spent = _cost_if_stated(result, self._meter)
        honest = spent is not None and spent <= worst
        if not honest and by_transcript and self._meter != "pure":
            # What a transcript spent is a pure bound of that transcript. On this meter it may be more than
            # what the whole mechanism costs on average.
            found, most = _cost_if_stated(result, "pure"), _cost_if_stated(mechanism, "pure")
            honest = found is not None and most is not None and found <= most
        if spent is None or not honest:
            self._keep()
            raise LedgerConflict(
                "The release says that it spent more than its "
                "mechanism declared. The full reservation stays charged."
            )
        # The bound must hold for each transcript, not only in the worst case, and only pure bounds add up so.
        if by_transcript and self._meter == "pure":
            self._spent[slot] = (worst, spent)

    def _ended(self, slot: int, mechanism: Any, spent: Any) -> None:
        """Remember what a stream spent that was closed without an error, while that can still be settled."""
        with self._lock:
            if self._state == "open":
                self._note(slot, mechanism, spent)

    def _close_streams(self) -> None:
        """End all streams: what is settled can no longer grow."""
        for stream in tuple(self._streams):
            stream.close()

    def _keep(self) -> None:
        """Close the charge without giving anything back."""
        if self._state == "open":
            self._state = "kept"

    def _check_open(self) -> None:
        if not self._process.is_here():
            raise LedgerConflict(
                "This charge belongs to the process that reserved it, not to a fork of it. Nothing was drawn."
            )
        if self._state != "open":
            raise LedgerConflict(
                f"Charge {self.label!r} is closed ({self._state}); reserve a new one. Nothing was drawn."
            )


def _require_real_entropy(entropy: Any) -> Any:
    """Return entropy that nobody can predict, by default the operating system's.

    A simulated one raises `SimulatedRelease`.
    """
    if entropy is None:
        from sordino.entropy import SYSTEM  # noqa: PLC0415  (numpy is needed for noise, not for ledgers)

        entropy = SYSTEM
    if getattr(entropy, "simulated", None) is not False:
        raise SimulatedRelease("A ledger takes only real entropy; got a simulated one. Nothing was drawn.")
    return entropy


def _cost_if_stated(thing: Any, meter: str) -> Fraction | None:
    """Return what a release or a mechanism says that it costs on a meter; None if it does not say."""
    try:
        return exact_cost(thing, meter)
    except InvalidParameter:
        return None


def _write_amount(amount: Fraction) -> str:
    return f"{float(amount):.12g}"
