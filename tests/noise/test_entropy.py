"""Words are never repeated: not by a second call, a thread, or a forked child; what was handed out is wiped."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest

from sordino import SYSTEM, Entropy, InvalidParameter, Seeded
from sordino.entropy import System, fresh_entropy, renew


def test_words_are_uniform_and_fresh():
    words = SYSTEM.words(200_000)
    assert words.dtype == np.uint64
    assert np.unique(words).size == words.size
    bits = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(words.size * 64)


@pytest.mark.parametrize("entropy", [SYSTEM, Seeded(1), System()], ids=repr)
def test_successive_calls_never_repeat(entropy):
    seen = np.concatenate([entropy.words(n) for n in (1, 3, 8192, 8191, 2, 100_000, 5, 0)])
    assert np.unique(seen).size == seen.size == 1 + 3 + 8192 + 8191 + 2 + 100_000 + 5


def test_a_seed_is_one_stream_however_it_is_cut():
    whole = Seeded(9).words(300_000)
    parts = Seeded(9)
    assert np.array_equal(whole, np.concatenate([parts.words(n) for n in (7, 0, 200_000, 99_993)]))
    assert not np.array_equal(whole[:9], Seeded(10).words(9))
    assert Seeded(0).words(2).tolist() == [17881934263095500575, 5102290887774801055], (
        "the same on every machine"
    )


def test_simulated_shows():
    assert Seeded(1).simulated
    assert not SYSTEM.simulated
    assert isinstance(SYSTEM, Entropy)
    assert isinstance(Seeded(1), Entropy)
    assert repr(SYSTEM) == "SYSTEM"
    assert repr(Seeded(3)) == "Seeded(3)"


def test_pickles_hold_no_key():
    assert pickle.loads(pickle.dumps(SYSTEM)) is SYSTEM
    assert SYSTEM._stream.key not in pickle.dumps(SYSTEM)
    again = pickle.loads(pickle.dumps(Seeded(3)))
    assert again.words(4).tolist() == Seeded(3).words(4).tolist()


def test_handed_out_words_are_wiped_and_the_key_moves_on():
    system = System()
    words = system.words(1000)
    assert not np.isin(words, system._stream.pool).any()
    assert not system._stream.pool[:1000].any()
    key = system._stream.key
    system.words(50_000)
    assert system._stream.key != key


def test_what_was_drawn_ahead_is_wiped_when_a_release_begins():
    system = System()
    system.words(5)
    ahead, key = system._stream.pool, system._stream.key
    coming = ahead[5:].copy()
    assert coming.all()
    renew(system)
    assert not ahead.any(), "nobody finds them later"
    fresh = system.words(ahead.size)
    assert not np.isin(fresh, coming).any()
    assert system._stream.key != key


def test_the_key_takes_fresh_bytes_before_each_use(monkeypatch):
    """Two streams with one key, as copies of the memory have, go on differently, and alike only where the system says the same."""
    one, other = System(), System()
    one.words(3)
    other._stream.key = one._stream.key
    one.renew()
    other.renew()
    assert not np.isin(one.words(50), other.words(50)).any()
    other._stream.key = one._stream.key
    monkeypatch.setattr(os, "urandom", bytes)
    assert one.words(9000).tolist() == other.words(9000).tolist()


def test_entropy_of_other_makes_need_not_forget():
    class Plain:
        simulated = False

        def words(self, n):
            return SYSTEM.words(n)

    plain = Plain()
    assert fresh_entropy(plain, "test") is plain
    seeded = Seeded(9)
    first = seeded.words(3)
    renew(seeded)
    renew(None)
    assert [*first.tolist(), *seeded.words(3).tolist()] == Seeded(9).words(6).tolist(), (
        "a seed is one stream"
    )
    for bad in (7, None, "seed"):
        with pytest.raises(InvalidParameter, match="test needs entropy such as SYSTEM or Seeded"):
            fresh_entropy(bad, "test")


def test_a_fork_that_inherits_a_held_lock_draws_its_own_words():
    """A thread may hold the lock when another one forks: the child must not wait for it."""
    system = System()
    system.words(5)
    held, forked = threading.Event(), threading.Event()

    def hold():
        with system._stream.lock:
            held.set()
            forked.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of the thread, which is what this is about
        child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            system.renew()
            os._exit(0 if system.words(3).all() else 1)
        finally:
            os._exit(2)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_that_begin_releases_share_no_word():
    drawn = []

    def draw():
        found = []
        for size in range(400):
            renew(SYSTEM)
            found.append(SYSTEM.words(size % 7 * 50))
        drawn.append(np.concatenate(found))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(drawn)
    assert words.all()
    assert np.unique(words).size == words.size


@pytest.mark.parametrize(
    "entropy", [SYSTEM, System()], ids=["with the hook", "by the process number alone"]
)
def test_a_forked_child_draws_its_own_words(entropy):
    entropy.words(5)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            inherited = entropy._stream
            os.write(writer, entropy.words(64).tobytes() + bytes([not inherited.pool.any()]))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    theirs = np.frombuffer(said[:512], dtype=np.uint64)
    ours = entropy.words(64)  # what the child would have drawn from an inherited pool
    assert theirs.size == 64
    assert not np.isin(theirs, ours).any()
    assert not np.isin(theirs, entropy.words(8000)).any()
    if entropy is not SYSTEM:
        assert said[512] == 1, "the parent's coming words are wiped from the child's memory"


def test_threads_share_no_word():
    drawn = []

    def draw():
        drawn.append(np.concatenate([SYSTEM.words(37) for _ in range(400)]))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(drawn)
    assert np.unique(words).size == words.size == 4 * 400 * 37


@pytest.mark.parametrize("seed", [-1, 1.5, None, True, "7"])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidParameter, match="Seeded.seed must be a whole number, at least 0"):
        Seeded(seed)
