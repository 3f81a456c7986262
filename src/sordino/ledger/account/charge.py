"""A charge: a reservation that mechanisms draw from, each draw durable before its noise exists."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NoReturn, Self, final

from sordino.errors import InvalidParameter, LedgerConflict, LedgerError, SimulatedRelease
from sordino.ledger import schema
from sordino.ledger.account.charged_stream import ChargedStream, check_streams
from sordino.ledger.account.records import body_of, described
from sordino.ledger.amounts import Meter, check_claims, exact_amounts, firm_amounts, nano_up
from sordino.ledger.history import chained
from sordino.ledger.operation import Operation
from sordino.ledger.parts import PartRange
from sordino.ledger.renyi import Amounts
from sordino.ledger.store.store import Store, carry_out
from sordino.process import Process
from sordino.receipt import Receipt
from sordino.record import Record
from sordino.scrubbing import scrubbed

_USED_ELSEWHERE_MESSAGE = (
    "This charge was drawn from or settled elsewhere (a copy of this process, or a write whose "
    "outcome is unknown). Nothing was released; what the ledger holds stays charged."
)
_FORKED_MESSAGE = (
    "This process was forked in the middle of a release, which belongs to the other one. Nothing "
    "was released here."
)


@final
class Charge:
    """A reservation in an account; `Ledger.reserve` makes it.

    Leaving its `with` block settles: what was never drawn returns to the account. On a pure meter,
    and into the pure sum of the Rényi meter, so does what a mechanism with a proof for each
    transcript did not spend (docs/explanation/refunds.md). Leaving by an exception, or a crash at
    any moment, leaves the full reservation charged. It belongs to the process that reserved it.

    Attributes
    ----------
    id : str
        128 random bits, as hexadecimal text.
    label : str
        What the caller called it.
    account : str
        The account that is charged.
    reserved : Fraction
        The exact worst case, in epsilon or, on the zCDP meter, in rho; on the Rényi meter the
        divergence at the order of the account.
    time : str
        When it was reserved, as the ledger has it: UTC, ISO 8601.
    receipt : Receipt
        `id`, `account` and `time`, which a release of a session carries.
    parts : tuple of PartRange
        Which parts of the account it is about, in order; none for the whole table, and on an
        account without parts.
    closed : int or None
        On an account with parts up to which one all were closed when this was reserved. Rows of
        these, and of them alone, are no part of the whole table: a release without `parts` must
        leave them out. It is below all parts where none is closed; None on an account without
        parts.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer", source="orders.parquet")
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
        "_parted",
        "_process",
        "_sheets",
        "_spent",
        "_state",
        "_store",
        "_streams",
        "_worst",
        "account",
        "closed",
        "id",
        "label",
        "parts",
        "reserved",
        "time",
    )

    def __init__(
        self,
        *,
        store: Store,
        account: str,
        meter: Meter,
        adjacency: str,
        charge: str,
        key: str,
        label: str,
        reserved: Amounts,
        time: str,
        allow_approximate: bool,
        parts: tuple[PartRange, ...] = (),
        closed: int | None = None,
    ) -> None:
        self.id = charge
        self.parts = parts
        self.closed = closed
        # Accounts with parts have operations of their own.
        self._parted = "" if closed is None else "parts"
        self._key = key
        self.label = label
        self.account = account
        self.reserved = reserved.main
        # An epsilon that no column can hold counts as none; then the pure sum is not looked at any
        # more.
        self._worst = reserved.without_pure() if reserved.rounded_up().impure else reserved
        self.time = time
        self._store = store
        self._meter = meter
        self._adjacency = adjacency
        self._approximate = allow_approximate
        # The worst case of each draw and what was really spent; its length is the next slot.
        self._spent: list[tuple[Amounts, Amounts]] = []
        self._streams: list[ChargedStream] = []
        # How many of its releases the ledger has kept.
        self._sheets = 0
        self._state: Literal["open", "settled", "charged in full"] = "open"
        self._process = Process()
        self._lock = threading.RLock()
        self._busy = False

    def __repr__(self) -> str:
        return (
            f"Charge(account={self.account!r}, label={self.label!r}, "
            f"reserved={float(self.reserved):.12g}, drawn={float(self.drawn):.12g}, "
            f"state={self._state!r})"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "A Charge cannot be copied or pickled: it belongs to the process that reserved it."
        )

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._close_in_full()
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
        return self._drawn().main

    def _drawn(self) -> Amounts:
        return sum((worst for worst, _ in self._spent), Amounts())

    @scrubbed
    def release(self, mechanism: Any, answers: Any, *, entropy: Any = None, **private: Any) -> Any:
        """Record a draw durably, then let the mechanism release.

        Parameters
        ----------
        mechanism : object
            With `.cost` and `.release`.
        answers : object
            Private; handed to the mechanism and to nothing else.
        entropy : Entropy, optional
            Where the noise comes from; the operating system if not given. A simulated one is
            refused.
        **private : object
            Further private arguments of `mechanism.release`.

        Returns
        -------
        object
            What `mechanism.release` returns.

        Raises
        ------
        SimulatedRelease
            If the entropy is simulated. Nothing is drawn. If the release says that it is simulated,
            the draw stays charged.
        LedgerConflict
            If the charge is not open in this process, was used by a copy of it, or what remains of
            it is too small; if the mechanism is for another adjacency. No noise is drawn.
        InvalidParameter
            If the mechanism has no cost on the meter of the account, or is not exact and that was
            not allowed.
        """
        self._check_open()
        entropy = _require_real_entropy(entropy)
        # Durable before any noise exists: no crash can release without a charge.
        slot = self._draw(mechanism, entropy)
        try:
            result = mechanism.release(answers, entropy=entropy, **private)
        except BaseException:
            # Why it failed may depend on the answers, so nothing that follows from it may return.
            self._close_in_full()
            raise
        # A signal handler may have forked meanwhile: both would have a release, with noise of their
        # own, for one draw.
        if not self._process.is_here():
            raise LedgerConflict(_FORKED_MESSAGE)
        if getattr(result, "simulated", None) is not False:
            self._close_in_full()
            raise SimulatedRelease(
                "The release says that it is simulated, or does not say; its charge stays."
            )
        self._note(slot, mechanism, result)
        return result

    def open(self, mechanism: Any, *, entropy: Any = None) -> ChargedStream:
        """Record a draw of the worst case durably, then open a stream of the mechanism.

        What the stream really spent is settled if it was closed, or its block left, without an
        error. Settling closes what is still open.

        Parameters
        ----------
        mechanism : object
            With `.cost` and `.open`, such as a `SparseVector`.
        entropy : Entropy, optional
            Where the noise comes from; the operating system if not given. A simulated one is
            refused.

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
            self._close_in_full()
            raise
        stream = ChargedStream(
            opened, settle=partial(self._ended, slot, mechanism), fail=self._close_in_full
        )
        self._streams.append(stream)
        return stream

    def draw(self, mechanism: Any) -> int:
        """Record durably that `mechanism` is about to draw its noise; `release` does this first.

        `SYSTEM` forgets the words that it drew ahead: a copy of this memory that was made before
        knows nothing of the noise.

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
            If the charge is not open in this process, was used by a copy of it, or what remains of
            it is too small; if the mechanism is for another adjacency.
        InvalidParameter
            If the mechanism has no cost on the meter of the account, or is not exact and that was
            not allowed.
        """
        return self._draw(mechanism, _require_real_entropy(None))

    def _draw(self, mechanism: Any, entropy: Any) -> int:
        """Record a draw, then let the entropy of its noise forget what it drew ahead."""
        # Numpy is needed for noise, not for ledgers.
        from sordino.entropy import renew  # noqa: PLC0415

        self._check_open()
        check_claims(mechanism, adjacency=self._adjacency, allow_approximate=self._approximate)
        worst = exact_amounts(mechanism, self._meter)
        if self._worst.pure is None:
            worst = worst.without_pure()
        with self._alone():
            slot, before = len(self._spent), self._drawn()
            after = before + worst
            if not after.is_within(self._worst):
                raise LedgerConflict(
                    f"This draw needs {self._meter.measure} {_write_amount(worst.main)} but "
                    f"{_write_amount(self.reserved - before.main)} of "
                    f"{_write_amount(self.reserved)} remains in charge "
                    f"{self.label!r}{_write_rest(self._meter)}. Nothing was drawn."
                )
            # Differences of the rounded sum, not rounded differences: many draws of half a
            # billionth fit where their sum fits.
            was, now = before.rounded_up(), after.rounded_up()
            drawn = {
                "slot": slot,
                "before": was.main,
                "amount": now.main - was.main,
                "pure": now.pure - was.pure,
                "failing": now.failing - was.failing,
                "body": body_of(slot=slot, draws=described([mechanism], self._meter)),
            }
            # It changes nothing if the ledger knows other draws than this process, or the charge is
            # closed.
            if not self._do(schema.of_account(schema.DRAW, self._parted), drawn):
                raise LedgerConflict(_USED_ELSEWHERE_MESSAGE)
            self._spent.append((worst, worst))
        # After the draw is durable: a copy of the memory from before must not know the words of
        # this noise.
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
            actual = sum((spent for _, spent in self._spent), Amounts()).rounded_up()
            drawn = self._drawn().rounded_up()
            closing = {
                "reserved": nano_up(self.reserved),
                "drawn": drawn.main,
                "draws": len(self._spent),
                "amount": actual.main,
                "pure": actual.pure,
                "failing": drawn.failing,
                "body": body_of(),
            }
            if not self._do(schema.of_account(schema.SETTLE, self._parted), closing):
                raise LedgerConflict(_USED_ELSEWHERE_MESSAGE)
            self._state = "settled"

    def keep(self, record: Record) -> None:
        """Keep in the ledger what was released with this charge, so that it can be printed again.

        `Session.keep` calls this for a release of a session. It is kept beside the history of the
        account, and stays: whoever may read the ledger may read it. `Ledger.read_release` returns
        it.

        Parameters
        ----------
        record : Record
            What was released, and nothing private. The records of one charge are numbered as they
            come.

        Raises
        ------
        LedgerConflict
            If the charge was not settled by this process: a failed, an open or a voided charge
            keeps nothing.
        LedgerError
            If the ledger cannot be written. The charge stays as it is.
        InvalidParameter
            If it is no record, or none that a ledger can hold.
        """
        if not isinstance(record, Record):
            raise InvalidParameter(f"Charge.keep takes a Record; got a {type(record).__name__}.")
        text = record.to_text()
        # After the settlement and not with it: nothing about the copy may stand in the way of the
        # account.
        if not self._process.is_here() or self._state != "settled":
            raise LedgerConflict(
                f"Charge {self.label!r} must have been settled by this process before its release "
                f"is kept (it is {self._state}). Nothing was kept."
            )
        with self._lock:
            digest, part = chained(text), self._sheets
            kept = {
                "part": part,
                "form": record.form,
                "digest": digest,
                "sheet": text,
                "body": body_of(part=part, form=record.form, digest=digest, characters=len(text)),
            }
            if not self._do(schema.KEEP, kept):
                raise LedgerConflict(
                    f"Charge {self.label!r} was given up or kept elsewhere. Nothing was kept now."
                )
            self._sheets = part + 1

    def _do(self, operation: Operation, parameters: dict[str, Any]) -> bool:
        known = {"account": self.account, "charge": self.id, "key": self._key}
        return carry_out(self._store, operation, {**known, **parameters}, account=self.account)

    def _settle_at_the_end(self) -> None:
        """Settle, but never lose a release because the ledger cannot be reached any more."""
        try:
            self.settle()
        except LedgerConflict:
            raise
        except LedgerError as error:
            self._close_in_full()
            # If nothing would have come back, nothing is lost and nobody is warned.
            if self._returns():
                warnings.warn(
                    f"The charge {self.label!r} stays in full: it could not be settled. {error}",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def _returns(self) -> bool:
        """Tell whether settling gives anything back."""
        actual = sum((spent for _, spent in self._spent), Amounts())
        return actual.rounded_up() != self._worst.rounded_up()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread at a time write about this charge, and no signal handler in between."""
        with self._lock:
            self._check_open()
            # The lock lets its own thread in again, and so a signal handler; that one is refused
            # here.
            if self._busy:
                raise LedgerConflict(
                    f"Charge {self.label!r} is being used; a signal handler cannot use it too. "
                    "Nothing was drawn."
                )
            try:
                # Inside of the `try`: an interrupt right after it must not leave the charge busy
                # for ever.
                self._busy = True
                yield
            finally:
                self._busy = False

    def _note(self, slot: int, mechanism: Any, result: Any) -> None:
        """Remember what a release really spent, so the rest can return where a proof allows it."""
        worst = self._spent[slot][0]
        by_transcript = getattr(mechanism, "per_transcript", False) is True
        said = _amounts_if_stated(result, self._meter)
        honest = said is not None and said.main <= worst.main and said.failing <= worst.failing
        # What a transcript spent is a pure bound of that transcript, but for a failure that is
        # charged beside it. On the other meters it may be more than what the whole mechanism costs
        # on average.
        found, most = _firm_if_stated(result, self._meter), _firm_if_stated(mechanism, self._meter)
        proved = by_transcript and found is not None and most is not None and found.is_within(most)
        if said is None or not (honest or (proved and self._meter.name != "pure")):
            self._close_in_full()
            raise LedgerConflict(
                "The release says that it spent more than its mechanism declared. The full "
                "reservation stays charged."
            )
        # The bound must hold for each transcript, not only in the worst case, and only pure bounds
        # add up so.
        if by_transcript and self._meter.name == "pure":
            self._spent[slot] = (worst, Amounts(said.main))
        elif proved and self._meter.name == "renyi" and worst.pure:
            # Of the three sums the pure one alone: the others never fall
            # (docs/proofs/renyi-accounts.md).
            assert found is not None  # noqa: S101  (so says `proved`)
            assert found.pure is not None  # noqa: S101  (so says `_firm_if_stated`)
            self._spent[slot] = (worst, replace(worst, pure=min(found.pure, worst.pure)))

    def _ended(self, slot: int, mechanism: Any, spent: Any) -> None:
        """Remember what a stream spent that closed without an error, if it can still be settled."""
        with self._lock:
            if self._state == "open":
                self._note(slot, mechanism, spent)

    def _close_streams(self) -> None:
        """End all streams: what is settled can no longer grow."""
        for stream in tuple(self._streams):
            stream.close()

    def _close_in_full(self) -> None:
        """Close the charge without giving anything back."""
        if self._state == "open":
            self._state = "charged in full"

    def _check_open(self) -> None:
        if not self._process.is_here():
            raise LedgerConflict(
                "This charge belongs to the process that reserved it, not to a fork of it. Nothing "
                "was drawn."
            )
        if self._state != "open":
            raise LedgerConflict(
                f"Charge {self.label!r} is closed ({self._state}); reserve a new one. Nothing was "
                "drawn."
            )


def _require_real_entropy(entropy: Any) -> Any:
    """Return entropy that nobody can predict, by default the operating system's.

    A simulated one raises `SimulatedRelease`.
    """
    if entropy is None:
        # Numpy is needed for noise, not for ledgers.
        from sordino.entropy import SYSTEM  # noqa: PLC0415

        entropy = SYSTEM
    if getattr(entropy, "simulated", None) is not False:
        raise SimulatedRelease(
            "A ledger takes only real entropy; got a simulated one. Nothing was drawn."
        )
    return entropy


def _amounts_if_stated(thing: Any, meter: Meter) -> Amounts | None:
    """Return what a release or a mechanism says that it costs on a meter.

    None if it does not say.
    """
    try:
        return exact_amounts(thing, meter)
    except InvalidParameter:
        return None


def _firm_if_stated(thing: Any, meter: Meter) -> Amounts | None:
    """Return the epsilon that a release or a mechanism says, and the delta beside it.

    None if it does not.
    """
    try:
        return firm_amounts(thing, meter)
    except InvalidParameter:
        return None


def _write_amount(amount: Fraction) -> str:
    return f"{float(amount):.12g}"


def _write_rest(meter: Meter) -> str:
    if meter.order is None:
        return ""
    return (
        " (or its epsilon or delta does not fit)"
        if meter.name == "renyi"
        else " (or its delta does not fit)"
    )
