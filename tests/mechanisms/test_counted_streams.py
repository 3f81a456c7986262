"""A stream whose questions count: the verdicts of a list with the same noise, no gaps, an end after so many questions, no refund."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import pytest

from sordino import (
    COUNTING,
    Budget,
    GaussianSparseVector,
    InvalidParameter,
    Ledger,
    Seeded,
    StreamClosed,
)
from sordino.cost import RDP, Pure
from sordino.entropy import SYSTEM
from sordino.mechanisms import CountedStream
from sordino.mechanisms.crossings.branches import Cut
from sordino.mechanisms.gaussian_sparse_vector import play
from support.sparse_vectors import Handed

HIGH, LOW = 10**9, -(10**9)
TWO = GaussianSparseVector(threshold=100, positives=2, rho=1, sensitivity=COUNTING, questions=4)


def streamed(q, positives, rho, xi):
    mechanism = SimpleNamespace(
        threshold=0,
        positives=positives,
        questions=len(q),
        noise=Handed(xi),
        threshold_noise=Handed(rho),
        step=Fraction(1),
        cost=RDP(rho=1),
        cut=lambda threshold=None: Cut(0, Fraction(0)),
    )
    found = []
    with CountedStream(mechanism, Seeded(1)) as stream:
        for place, answer in enumerate(q):
            if stream.closed:
                break
            if stream.ask(answer).above:
                found.append(place)
        return found, stream.asked


@pytest.mark.parametrize(("q", "positives"), [((0, 0), 1), ((1, -1, 0), 2)])
def test_a_stream_and_a_list_say_the_same_of_the_same_noise(q, positives):
    import numpy as np

    for noise in product(range(-2, 3), repeat=1 + len(q)):
        rho, xi = noise[:1], noise[1:]
        places, asked = play(np.array(q), Handed(rho), Handed(xi), positives, SYSTEM)
        assert streamed(q, positives, rho, xi) == (places.tolist(), asked)


def test_it_ends_after_so_many_questions():
    with TWO.open(entropy=Seeded(1)) as stream:
        said = [stream.ask(LOW) for _ in range(4)]
        assert not any(verdict.above for verdict in said)
        assert stream.closed
        with pytest.raises(StreamClosed, match="closed; open another one"):
            stream.ask(HIGH)
        assert stream.asked == 4


def test_it_ends_after_so_many_positives_and_shows_no_gap():
    with TWO.open() as stream:
        assert stream.spent == Pure(epsilon=0)
        first, second = stream.ask(HIGH), stream.ask(HIGH)
        assert stream.closed
    assert (first.above, first.gap, first.branch, first.charged, first.cost) == (
        True,
        None,
        0,
        math.inf,
        TWO.cost,
    )
    assert (second.above, second.gap, second.charged, second.cost) == (
        True,
        None,
        0,
        Pure(epsilon=0),
    )
    assert first.to_dict()["charged"] is None
    assert stream.spent == TWO.cost
    assert not first.simulated


def test_no_bound_on_questions_where_they_are_free():
    m = GaussianSparseVector(
        threshold=0, positives=1, rho=1, epsilon=1, sensitivity=COUNTING, noise="exponential"
    )
    with m.open(entropy=Seeded(2)) as stream:
        for _ in range(500):
            stream.ask(LOW)
        assert not stream.closed


def test_each_question_may_have_its_threshold():
    with TWO.open(entropy=Seeded(1)) as stream:
        assert not stream.ask(500, threshold=10**6).above
        with pytest.raises(
            InvalidParameter, match="GaussianSparseVector.threshold must be a finite number"
        ):
            stream.ask(500, threshold=math.nan)
        assert stream.ask(500, threshold=-(10**6)).above
        assert stream.asked == 2


def test_threads_get_no_question_too_many():
    m = GaussianSparseVector(
        threshold=0, positives=10**3, rho=1, sensitivity=COUNTING, questions=200
    )
    stream, answered = m.open(entropy=Seeded(1)), []

    def ask():
        while True:
            try:
                answered.append(stream.ask(LOW))
            except StreamClosed:
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == stream.asked == 200
    assert sum(verdict.cost == m.cost for verdict in answered) == 1


def test_it_cannot_be_copied_or_used_in_a_fork():
    stream = TWO.open(entropy=Seeded(1))
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            attempt(stream)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            stream.ask(1)
            os.write(writing, b"answered")
        except StreamClosed:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 20) == b"refused"
    os.close(reading)
    os.close(writing)
    assert stream.ask(1).gap is None


def test_a_ledger_keeps_the_whole_charge(tmp_path):
    ledger = Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=9, delta=1e-6, meter="zcdp"),
        adjacency="add-remove",
        unit="user",
        source="made up",
    )
    before = ledger.remaining
    m = GaussianSparseVector(
        threshold=0,
        positives=1,
        rho=Fraction(1, 8),
        epsilon=Fraction(1, 4),
        sensitivity=COUNTING,
        noise="laplace",
    )
    with ledger.reserve(m, label="stream") as charge, charge.open(m) as stream:
        stream.ask(LOW)
    assert before - ledger.remaining == m.cost.zcdp() == Fraction(3, 8)
