"""Signal handlers in the middle of a question: nobody waits for himself, no noise serves twice, and what was answered is paid for."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import os, signal, sys, tempfile, warnings
import sordino as sd

class Signaling:  # words after a signal, which so arrives while a stream draws noise ahead
    simulated = False
    armed = False
    def words(self, n):
        if self.armed:
            self.armed = False
            signal.raise_signal(signal.SIGUSR1)
        return sd.SYSTEM.words(n)

signal.alarm(20)  # nobody waits for a deadlock
entropy, found = Signaling(), []
plain = sd.SparseVector(threshold=0, positives=2, epsilon=8, sensitivity=sd.COUNTING, split=0.5)
counted = sd.GaussianSparseVector(threshold=0, positives=2, rho=8, sensitivity=sd.COUNTING, questions=2)

def handled(what):
    def handler(*_):
        try:
            found.append(what())
        except sd.SordinoError as error:
            found.append(error)
    signal.signal(signal.SIGUSR1, handler)
    entropy.armed = True
"""

CLOSING = """
stream = {mechanism}.open(entropy=entropy)
handled(stream.close)
assert not stream.ask(-(10**9)).above, "the question is answered yet"
assert found == [None] and stream.closed and stream.asked == 1
inner = getattr(stream, "_stream", stream)
assert inner._state.threshold is None and all(not len(noise._block) for noise in inner._noise), "its noise is wiped"
try:
    stream.ask(10**9)
except sd.StreamClosed:
    sys.exit(0)
sys.exit("a closed stream has answered")
"""

ASKING = """
stream = {mechanism}.open(entropy=entropy)
handled(lambda: stream.ask(10**9))
assert stream.ask(10**9).above
assert [type(each) for each in found] == [sd.StreamClosed] and "signal handler" in str(found[0]), found
assert stream.asked == 1 and not stream.closed
assert stream.ask(10**9).above and stream.closed
"""

FAILING = """
stream = {mechanism}.open(entropy=entropy)
def stopping():
    stream.close()
    raise KeyboardInterrupt
handled(stopping)
try:
    stream.ask(10**9)
except KeyboardInterrupt:
    pass
inner = getattr(stream, "_stream", stream)
assert stream.closed and all(not len(noise._block) for noise in inner._noise), "its noise is wiped after an exception, too"
"""

BETWEEN = """
from sordino.mechanisms.crossings import stream as _stream
stream = sd.GaussianSparseVector(threshold=0, positives=2, rho=8, sensitivity=sd.COUNTING, questions=1).open(entropy=entropy)
handled(lambda: stream.ask(10**9))
cuts = _stream.cuts_of
def signaling(*given):  # after the questions were counted, and before the question is asked
    _stream.cuts_of = cuts
    signal.raise_signal(signal.SIGUSR1)
    return cuts(*given)
_stream.cuts_of = signaling
stream.ask(10**9, threshold=5)
assert stream.asked == 1 and "signal handler" in str(found[0]), found
"""

PAYING = """
folder = tempfile.TemporaryDirectory()
options = dict(budget=sd.Budget(epsilon=8), adjacency="add-remove", unit="person", source="s")
ledger = sd.Ledger.create(folder.name + "/b.db", account="a", **options)
with ledger.reserve(plain) as charge:
    stream = charge.open(plain, entropy=entropy)
    handled({what})
    assert stream.ask(10**9).above
    assert found == [None] and stream.closed
assert float(ledger.remaining) == {left}, float(ledger.remaining)
folder.cleanup()
"""


def ran(script):
    return subprocess.run(
        [sys.executable, "-c", START + script],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


@pytest.mark.parametrize("mechanism", ["plain", "counted"])
@pytest.mark.parametrize("script", [CLOSING, ASKING, FAILING], ids=["closing", "asking", "failing"])
@pytest.mark.sample(4)
def test_a_signal_handler_in_the_middle_of_a_question(script, mechanism):
    done = ran(script.format(mechanism=mechanism))
    assert done.returncode == 0, done.stderr


def test_no_question_too_many_is_counted():
    done = ran(BETWEEN)
    assert done.returncode == 0, done.stderr


def test_what_is_closed_in_the_middle_of_a_question_is_settled_after_it():
    """Half for the threshold, a quarter for each positive: the one that was answered yet is paid for."""
    done = ran(PAYING.format(what="stream.close", left=2))
    assert done.returncode == 0, done.stderr
