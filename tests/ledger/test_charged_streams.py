"""A stream in a charge: its worst case is drawn before its noise, what it did not spend returns if it ends well, and only then."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.fakes import (
    REAL,
    Entropy,
    Mechanism,
    Result,
    child,
    finished,
    in_child,
    in_threads,
    make,
    resumed,
    spent,
)
from sordino.cost import Pure
from sordino.errors import InvalidParameter, LedgerConflict, SimulatedRelease, StreamClosed
from sordino.ledger import Charge, Ledger
from sordino.ledger.amounts import amount_of, nano_up
from sordino.mechanisms import SparseVector
from sordino.sensitivity import COUNTING

HIGH, LOW = 10**9, -(10**9)
TENTH = Fraction(1, 10)
WORST = SparseVector(
    threshold=0, positives=3, epsilon=0.8, sensitivity=COUNTING, split=0.25
)  # 0.2 and three times 0.2


@dataclass(frozen=True)
class Streaming:
    """A mechanism with streams that note what happens and spend what they are told."""

    epsilon: Any = 0.5
    spends: Any = 0.1
    simulated: Any = False
    error: BaseException | None = None
    per_transcript: Any = True
    exact: bool = True
    seen: list[Any] = field(default_factory=list, compare=False)

    @property
    def cost(self) -> Pure:
        return Pure(epsilon=self.epsilon)

    def open(self, *, entropy: Any) -> Any:
        self.seen.append("open")
        mechanism = self

        class Stream(SimpleNamespace):
            def __enter__(self):
                return self

            def ask(self, answer, threshold=None):
                mechanism.seen.append(answer)
                if mechanism.error is not None:
                    raise mechanism.error
                return Result(Pure(epsilon=0), mechanism.simulated)

            def close(self):
                self.closed = True

        return Stream(mechanism=self, spent=Pure(epsilon=self.spends), closed=False, asked=0)


@pytest.mark.parametrize(
    ("answers", "found"), [([], 0), ([LOW] * 5, 0), ([LOW, HIGH, LOW], 1), ([HIGH] * 3, 3)]
)
def test_what_a_stream_did_not_spend_returns(ledger, answers, found):
    with ledger.reserve(WORST, label="watch") as charge, charge.open(WORST) as stream:
        assert [stream.ask(answer).above for answer in answers] == [
            answer == HIGH for answer in answers
        ]
        assert stream.spent.pure() == (len(answers) > 0) * 2 * TENTH + found * 2 * TENTH
        assert ledger.remaining == 2 * TENTH, "until it ends, all of it is spent"
        assert (stream.mechanism, stream.asked) == (WORST, len(answers))
    assert stream.closed
    assert spent(ledger) == stream.spent.pure()
    (line,) = ledger.statement().charges
    assert (line.state, line.drawn) == ("settled", 8 * TENTH)


def test_the_draw_is_durable_before_the_stream_exists(ledger):
    seen = []

    class Looking(Streaming):
        def open(self, *, entropy):
            (line,) = Ledger.open(ledger._store.address, account="orders").statement().charges
            seen.append((line.state, line.drawn))
            return super().open(entropy=entropy)

    with ledger.reserve(Pure(epsilon=0.7)) as charge, charge.open(Looking(), entropy=REAL):
        pass
    assert seen == [("drawn", 5 * TENTH)]
    assert spent(ledger) == TENTH


def test_settling_closes_what_is_open_so_that_nothing_is_asked_after_the_refund(ledger):
    with ledger.reserve(WORST) as charge:
        stream = charge.open(WORST)
        stream.ask(HIGH)
        assert not stream.closed
    assert stream.closed
    assert spent(ledger) == 4 * TENTH
    with pytest.raises(StreamClosed):
        stream.ask(HIGH)
    assert stream.spent.pure() == 4 * TENTH
    stream.close()
    with pytest.raises(StreamClosed), stream:
        pass
    assert spent(ledger) == 4 * TENTH


def test_closing_early_gives_back_at_the_end_and_once(ledger):
    with ledger.reserve(Pure(epsilon=1)) as charge:
        first, second = (
            charge.open(Streaming(), entropy=REAL),
            charge.open(Streaming(spends=0.2), entropy=REAL),
        )
        first.close()
        first.close()
        assert ledger.remaining == 0
        charge.settle()
        assert second.closed
    assert spent(ledger) == 3 * TENTH


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_in_the_block_leaves_the_full_reservation(ledger, error):
    def stopped():
        with ledger.reserve(Pure(epsilon=0.9)) as charge, charge.open(WORST) as stream:
            stream.ask(LOW)
            raise error

    with pytest.raises(error):
        stopped()
    assert spent(ledger) == 9 * TENTH


def test_an_exception_that_is_caught_around_the_stream_leaves_it_too(ledger):
    with ledger.reserve(Pure(epsilon=0.9)) as charge:
        with pytest.raises(ZeroDivisionError), charge.open(WORST) as stream:
            stream.ask(1 / 0)
        assert stream.closed
        with pytest.raises(LedgerConflict, match=r"closed \(charged in full\)"):
            charge.open(WORST)
    assert spent(ledger) == 9 * TENTH


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("no"), KeyboardInterrupt(), LedgerConflict("no")]
)
def test_a_question_that_fails_keeps_everything_even_if_it_is_caught(ledger, error):
    with (
        ledger.reserve(Streaming()) as charge,
        charge.open(Streaming(error=error), entropy=REAL) as stream,
        pytest.raises(type(error)),
    ):
        stream.ask(1)
    assert spent(ledger) == 5 * TENTH


@pytest.mark.parametrize("error", [StreamClosed("over"), InvalidParameter("threshold")])
def test_a_refusal_that_is_about_public_things_keeps_nothing(ledger, error):
    with (
        ledger.reserve(Streaming()) as charge,
        charge.open(Streaming(error=error), entropy=REAL) as stream,
        pytest.raises(type(error)),
    ):
        stream.ask(1)
    assert spent(ledger) == TENTH


def test_a_stream_that_cannot_be_opened_keeps_everything(ledger):
    class Failing(Streaming):
        def open(self, *, entropy):
            raise ZeroDivisionError

    with ledger.reserve(Pure(epsilon=0.7)) as charge, pytest.raises(ZeroDivisionError):
        charge.open(Failing(), entropy=REAL)
    assert spent(ledger) == 7 * TENTH


def test_only_mechanisms_with_a_proof_for_each_transcript_give_back(ledger):
    with (
        ledger.reserve(Streaming()) as charge,
        charge.open(Streaming(per_transcript=False), entropy=REAL),
    ):
        pass
    assert spent(ledger) == 5 * TENTH


def test_another_meter_gives_nothing_back(place):
    ledger = make(place, 20, delta=1e-6, meter="zcdp")
    before = ledger.remaining
    with ledger.reserve(WORST) as charge, charge.open(WORST) as stream:
        stream.ask(LOW)
    assert stream.spent.pure() < WORST.cost.pure()
    assert before - ledger.remaining == amount_of(nano_up(WORST.cost.zcdp()))


def test_a_stream_that_spent_more_than_declared_keeps_the_full_charge(ledger):
    with (
        ledger.reserve(Pure(epsilon=0.9)) as charge,
        pytest.raises(LedgerConflict, match="more than its mechanism declared"),
    ):
        charge.open(Streaming(spends=0.6), entropy=REAL).close()
    assert spent(ledger) == 9 * TENTH


@pytest.mark.parametrize("entropy", [Entropy(simulated=True), Entropy(simulated=None), object()])
def test_simulated_entropy_opens_nothing(ledger, entropy):
    mechanism = Streaming()
    with ledger.reserve(mechanism) as charge, pytest.raises(SimulatedRelease):
        charge.open(mechanism, entropy=entropy)
    assert mechanism.seen == []
    assert spent(ledger) == 0


@pytest.mark.parametrize("says", [True, None, 0])
def test_a_simulated_verdict_is_refused_and_charged(ledger, says):
    mechanism = Streaming(simulated=says)
    with (
        ledger.reserve(mechanism) as charge,
        charge.open(mechanism, entropy=REAL) as stream,
        pytest.raises(SimulatedRelease),
    ):
        stream.ask(1)
    assert spent(ledger) == 5 * TENTH


def test_what_is_refused_before_the_draw(ledger):
    with ledger.reserve(Pure(epsilon=0.3), label="small") as charge:
        with pytest.raises(
            InvalidParameter,
            match=r"a mechanism with streams, such as a SparseVector; got a Mechanism",
        ):
            charge.open(Mechanism(0.1))
        with pytest.raises(LedgerConflict, match=r"needs epsilon 0\.8 but 0\.3 of 0\.3 remains"):
            charge.open(WORST)
        with pytest.raises(InvalidParameter, match="not exact"):
            charge.open(Streaming(0.1, exact=False))
        for never in ({"passes": 2}, {"domain_size": 9}):
            whole = SparseVector(
                threshold=0, positives=1, epsilon=0.3, sensitivity=COUNTING, **never
            )
            with pytest.raises(InvalidParameter, match="one pass and without a domain size"):
                charge.open(whole)
    assert spent(ledger) == 0
    with pytest.raises(LedgerConflict, match=r"closed \(settled\)"):
        charge.open(WORST)


def test_it_is_no_thing_to_copy_and_shows_nothing_private(ledger):
    with ledger.reserve(WORST) as charge, charge.open(WORST) as stream:
        stream.ask(86753099173)
        assert "86753099173" not in repr(stream)
        for attempt in (
            lambda: pickle.dumps(stream),
            lambda: copy.copy(stream),
            lambda: copy.deepcopy(stream),
        ):
            with pytest.raises(TypeError, match="cannot be copied"):
                attempt()


# ---- processes and threads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [0, 2])
@pytest.mark.sample(4)
def test_a_killed_process_leaves_the_full_reservation(place, asked):
    make(place)
    readable, writable = os.pipe()

    def watching():
        ledger = Ledger.open(place, account="orders")
        with (
            ledger.reserve(Pure(epsilon=0.9), label="watch") as charge,
            charge.open(WORST) as stream,
        ):
            for _ in range(asked):
                stream.ask(LOW)
            os.write(writable, b"x")
            signal.pause()

    process = child(watching)
    os.close(writable)
    assert os.read(readable, 1) == b"x"
    os.close(readable)
    os.kill(process, signal.SIGKILL)
    assert finished(process) == -signal.SIGKILL
    ledger = Ledger.open(place, account="orders")
    (line,) = ledger.statement().charges
    assert (line.state, line.drawn) == ("drawn", 8 * TENTH)
    assert spent(ledger) == 9 * TENTH
    ledger.void(line.id, reason="its process was killed")
    assert spent(ledger) == 8 * TENTH, "what was drawn stays, what was never drawn returns"


def test_a_fork_can_neither_ask_nor_settle_and_the_parent_goes_on(ledger):
    with ledger.reserve(WORST) as charge, charge.open(WORST) as stream:
        stream.ask(LOW)

        def in_a_copy():
            for attempt in (lambda: stream.ask(HIGH), stream.__enter__):
                with pytest.raises(StreamClosed, match="another|not to a fork"):
                    attempt()
            stream.close()
            stream.__exit__(None, None, None)
            stream.__exit__(ValueError, ValueError(), None)
            with pytest.raises(LedgerConflict, match="not to a fork"):
                charge.settle()

        assert in_child(in_a_copy) == 0
        assert ledger.remaining == 2 * TENTH
        assert stream.ask(HIGH).above
    assert spent(ledger) == 4 * TENTH


def test_a_fork_made_while_a_thread_holds_the_locks_is_not_stuck(ledger):
    with ledger.reserve(WORST) as charge, charge.open(WORST) as stream, stream._lock, charge._lock:
        assert in_child(stream.close) == 0


def test_a_process_that_outlives_its_parent_gives_nothing_back(place):
    make(place)

    def parent():
        ledger = Ledger.open(place, account="orders")
        charge = ledger.reserve(WORST)
        stream = charge.open(WORST)
        stream.ask(LOW)
        assert in_child(stream.close) == 0
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(parent) == -signal.SIGKILL
    assert spent(Ledger.open(place, account="orders")) == 8 * TENTH


def test_a_machine_resumed_twice_settles_once(ledger):
    charge = ledger.reserve(WORST)
    stream = charge.open(WORST)
    stream.ask(HIGH)
    twin = resumed(charge)
    charge.settle()
    with pytest.raises(LedgerConflict, match="drawn from or settled elsewhere"):
        twin.settle()
    assert spent(ledger) == 4 * TENTH


def test_threads_share_a_stream_and_close_it_once(ledger):
    mechanism = SparseVector(threshold=0, positives=50, epsilon=1, sensitivity=COUNTING)
    verdicts, stop = [], threading.Event()
    with ledger.reserve(mechanism) as charge:
        stream = charge.open(mechanism)

        def ask():
            while not stop.is_set():
                try:
                    verdicts.append(stream.ask(HIGH))
                except StreamClosed:
                    return

        def settle():
            while len(verdicts) < 20:
                pass
            charge.settle()
            stop.set()

        in_threads([ask, ask, ask, settle])
    assert stream.closed
    total = sum((verdict.charged for verdict in verdicts), Fraction(0))
    assert stream.spent.pure() == total
    exactly = spent(ledger)
    assert total <= exactly < total + Fraction(1, 10**9), (
        "every verdict that anybody got is paid for"
    )


def test_streams_closed_by_threads_are_all_noted(ledger):
    with ledger.reserve(Pure(epsilon=1)) as charge:
        streams = [charge.open(Streaming(TENTH, TENTH / 2), entropy=REAL) for _ in range(10)]
        in_threads([stream.close for stream in streams for _ in range(2)])
    assert spent(ledger) == 5 * TENTH


def test_a_stream_opened_while_the_charge_is_settled_gives_nothing_back(ledger, monkeypatch):
    """The draw came in time, the note of its end did not: then all of it stays."""
    late = []
    close = Charge._close_streams

    def slow(charge):
        close(charge)
        if not late:
            late.append(charge.open(Streaming(), entropy=REAL))

    monkeypatch.setattr(Charge, "_close_streams", slow)
    with ledger.reserve(Streaming()) as charge:
        pass
    assert late[0].closed
    assert spent(ledger) == 5 * TENTH
    assert charge._state == "settled"
