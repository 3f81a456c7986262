"""Exceptions and signal handlers in the middle of a draw: words are lost at worst, never handed out twice, and never known."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import count

import numpy as np
import pytest

from sordino import Seeded, entropy
from sordino.entropy import System
from support.interrupts import interrupted as interrupted_by_keyboard


class Interrupt(BaseException):
    """What a signal handler raises."""


def interrupted(call, at):
    """Call, and raise before line number `at` that is run in the module of the words; return whether there was such a line."""
    lines = count(1)

    def line(frame, event, arg):
        if event == "line" and next(lines) == at:
            raise Interrupt
        return line

    before = sys.gettrace()
    sys.settrace(
        lambda frame, event, arg: line if frame.f_code.co_filename == entropy.__file__ else None
    )
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("make", [System, lambda: Seeded(5)], ids=["system", "seeded"])
@pytest.mark.parametrize("drawn", [0, 1, 8000])
@pytest.mark.parametrize(
    "wanted", [6, 2000, 10_000]
)  # out of the pool, out of a new one, and around it
@pytest.mark.sample(4)
def test_an_interrupt_anywhere_in_a_draw_hands_out_no_word_twice_and_no_zeros(make, drawn, wanted):
    for at in count(1):
        source = make()
        words = [source.words(drawn)]
        ended = not interrupted(
            lambda source=source, words=words: words.append(source.words(wanted)), at
        )
        words += [source.words(6), source.words(2000), source.words(8191)]
        seen = np.concatenate(words)
        assert seen.all(), f"words that were wiped were handed out after an interrupt at line {at}"
        assert np.unique(seen).size == seen.size
        if ended:
            assert at > 3
            return


@pytest.mark.parametrize("drawn", [0, 1, 200, 8000])
def test_an_interrupt_anywhere_while_words_are_forgotten_hands_out_no_word_twice_and_no_zeros(
    drawn,
):
    for at in count(1):
        source = System()
        words = [source.words(drawn), source.words(1)]
        ended = not interrupted(source.renew, at)
        words += [source.words(6), source.words(2000), source.words(8191)]
        seen = np.concatenate(words)
        assert seen.all(), f"words that were wiped were handed out after an interrupt at line {at}"
        assert np.unique(seen).size == seen.size
        if ended:
            assert at > 3
            return


def handled(call, at, handler):
    """Call, and let a signal handler run before line number `at` in the module of the words; return whether there was such a line."""
    lines, came = count(1), []

    def line(frame, event, arg):
        if event == "line" and next(lines) == at:
            came.append(at)
            handler()
        return line

    before = sys.gettrace()
    sys.settrace(
        lambda frame, event, arg: line if frame.f_code.co_filename == entropy.__file__ else None
    )
    try:
        call()
    finally:
        sys.settrace(before)
    return bool(came)


@pytest.mark.parametrize("inside", ["words", "renew"])
@pytest.mark.parametrize("answers", ["words", "renew", "renew and words"])
@pytest.mark.parametrize("drawn", [0, 1, 200, 8000])
@pytest.mark.sample(4)
def test_a_signal_handler_may_release_at_any_line(inside, answers, drawn):
    """As a release in a handler does, it forgets words, draws some, or both, while words are drawn or forgotten."""
    for at in count(1):
        source = System()
        words = [source.words(drawn), source.words(1)]

        def handler(source=source, words=words):
            if "renew" in answers:
                source.renew()
            if "words" in answers:
                words.append(source.words(5))

        def call(source=source, words=words):
            return words.append(source.words(250)) if inside == "words" else source.renew()

        ended = not handled(call, at, handler)
        words += [source.words(6), source.words(2000), source.words(8191)]
        seen = np.concatenate(words)
        assert seen.all(), f"words that were wiped were handed out after a handler at line {at}"
        assert np.unique(seen).size == seen.size
        if ended:
            assert at > 3
            return


HANDLED = """
import os, signal, sys
import numpy as np
import sordino as sd
from sordino import entropy

found, done = [], entropy.{inside}
source = {source}

def doing(*given):  # a signal that arrives in the middle of a draw
    made = done(*given)
    signal.raise_signal(signal.SIGUSR1)
    return made

entropy.{inside} = doing
signal.signal(signal.SIGUSR1, {handler})
signal.alarm(20)  # nobody waits for a deadlock
"""

DRAWING = """
found.append(source.words(9000))
found.append(source.words(9000))
words = np.concatenate(found)
assert words.size == 3 * 9000 and words.all() and np.unique(words).size == words.size
"""

FORKING = """
reader, writer = os.pipe()
mine = source.words(9000)
if 0 in found:
    os.write(writer, mine[:64].tobytes())
    os._exit(0)
theirs = np.frombuffer(os.read(reader, 512), dtype=np.uint64)
os.waitpid(found[0], 0)
assert theirs.size == 64 and theirs.all() and not np.isin(theirs, mine).any()
"""


def ran(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("inside", ["_read_keystream", "_start_keystream"])
@pytest.mark.parametrize("source", ["sd.SYSTEM", "sd.Seeded(5)"])
@pytest.mark.sample(4)
def test_a_signal_handler_may_draw_in_the_middle_of_a_draw(source, inside):
    handler = f"lambda *_: (setattr(entropy, '{inside}', done), found.append(source.words(9000)))"
    done = ran(HANDLED.format(source=source, handler=handler, inside=inside) + DRAWING)
    assert done.returncode == 0, done.stderr


def test_a_child_that_is_forked_in_the_middle_of_a_draw_draws_words_of_its_own():
    handler = "lambda *_: (setattr(entropy, '_read_keystream', done), found.append(os.fork()))"
    done = ran(
        HANDLED.format(source="sd.SYSTEM", handler=handler, inside="_read_keystream") + FORKING
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("drawn", [0, 1, 8000])
def test_an_interrupt_anywhere_keeps_no_lock(drawn):
    """Other threads would wait for ever."""
    for at in count(1):
        source, taken = System(), []
        source.words(drawn)
        ended = (
            interrupted_by_keyboard(lambda source=source: (source.words(37), source.renew()), at)
            is None
        )

        def other(source=source, taken=taken):
            taken.append(source._stream.lock.acquire(timeout=5))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert taken == [True], f"line {at}"
        if ended:
            assert at > 10
            return
