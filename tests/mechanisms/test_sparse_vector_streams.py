"""A stream is the fold of a pure step: the same transcript as the batch for the same noise, closed in time, nothing used twice."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import COUNTING, InvalidParameter, Seeded, Sensitivity, SparseVector, StreamClosed
from sordino.cost import Pure
from sordino.grid import to_steps
from sordino.mechanisms import Stream
from sordino.mechanisms.crossings.crossings import Ahead
from sordino.mechanisms.crossings.stream import _StepConverter
from sordino.noise import Geometric
from support.sparse_vectors import Handed, Rules, box, played

CANARY = 86753099173
ONE = SparseVector(threshold=100, positives=1, epsilon=4, sensitivity=COUNTING, split=0.25)
TWO = SparseVector(threshold=100, positives=2, epsilon=4, sensitivity=COUNTING, split=0.5)


def streamed(q, rules, rho, xi):
    """The transcript that a stream makes of this noise, as `played` reports it for the batch."""
    mechanism = SimpleNamespace(
        threshold=0,
        branch_corrections=(Fraction(0),),
        tokens=rules.positives,
        branch_tokens=(1,),
        resample=rules.resample,
        step=Fraction(1),
        exact=True,
        branch_noise=(Handed(xi),),
        threshold_noise=Handed(rho),
        spent=lambda positives, thresholds: Pure(epsilon=1000 * thresholds + positives),
    )
    found, asked, charged = [], 0, Fraction(0)
    with Stream(mechanism, Seeded(1)) as stream:
        for place, answer in enumerate(q):
            if stream.closed:
                break
            verdict = stream.ask(answer)
            asked += 1
            charged += verdict.charged
            assert verdict.cost.pure() == verdict.charged
            if verdict.above:
                found.append((place, int(verdict.gap), 1))
        assert stream.spent.pure() == charged
        assert stream.asked == asked
    stages, positives = divmod(int(charged), 1000)
    assert positives == len(found)
    return tuple(found), asked, stages


HALF = ("exponential", Fraction(1, 2))


@pytest.mark.parametrize(
    ("q", "rules", "width"),
    [
        ((0, 0), Rules(HALF, HALF), 8),
        ((1, -1, 0), Rules(HALF, HALF, positives=2), 5),
        ((1, -1), Rules(("laplace", Fraction(1, 2)), ("laplace", Fraction(1, 2)), positives=2), 4),
        ((0, -1, 1), Rules(HALF, HALF, positives=2, resample=True), 4),
    ],
)
@pytest.mark.sample(4)
def test_a_stream_and_a_batch_say_the_same_of_the_same_noise(q, rules, width):
    for rho, xi, _ in box(rules, len(q), width):
        assert streamed(q, rules, rho, xi) == played(q, rules, rho, xi)


@pytest.mark.parametrize("resample", [False, True])
def test_long_streams_too(resample):
    generator = np.random.default_rng(5)
    rules = Rules(HALF, HALF, positives=30, resample=resample)
    for _ in range(40):
        q, xi = generator.integers(-40, 10, 200).tolist(), generator.integers(0, 30, 200).tolist()
        rho = generator.integers(0, 10, 30).tolist()
        assert streamed(q, rules, rho, xi) == played(q, rules, rho, xi)


def test_it_closes_after_enough_and_refuses_then():
    with TWO.open(entropy=Seeded(1)) as stream:
        assert (stream.closed, stream.spent) == (False, Pure(epsilon=0))
        first = stream.ask(10**6)
        assert (first.above, first.branch, first.charged) == (True, 0, 3)
        assert stream.ask(-(10**6)).charged == 0
        assert stream.ask(10**6).charged == 1
        assert stream.closed
        with pytest.raises(StreamClosed, match="closed; open another one"):
            stream.ask(10**6)
    assert stream.spent.pure() == TWO.cost.pure()
    assert stream.asked == 3
    assert stream._state.threshold is None, "wiped"
    assert len(stream._noise[0]._block) == len(stream._thresholds._block) == 0
    with pytest.raises(StreamClosed), stream:
        pass


def test_an_interrupt_before_the_wiping_leaves_no_positive_too_many(monkeypatch):
    def interrupted(self, open_):
        raise KeyboardInterrupt

    stream = ONE.open(entropy=Seeded(1))
    with monkeypatch.context() as patch:
        patch.setattr(Stream, "_wipe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.ask(10**9)
    assert stream.closed
    assert stream.spent.pure() == ONE.cost.pure()
    with pytest.raises(StreamClosed):
        stream.ask(10**9)


def test_leaving_the_block_closes_and_keeps_what_was_spent():
    with ONE.open(entropy=Seeded(1)) as stream:
        stream.ask(-(10**9))
    assert stream.closed
    assert stream.spent == Pure(epsilon=1)
    with pytest.raises(StreamClosed):
        stream.ask(1)
    with pytest.raises(ZeroDivisionError), ONE.open() as broken:
        broken.ask(1 / 0)
    assert broken.closed
    assert broken.spent == Pure(epsilon=0)


@given(st.lists(st.integers(0, 200), max_size=60), st.integers(0, 50), st.booleans())
def test_what_is_spent_never_falls_and_is_the_sum_of_the_verdicts(values, seed, resample):
    m = SparseVector(threshold=100, positives=5, epsilon=2, sensitivity=COUNTING, resample=resample)
    total, before = Fraction(0), Fraction(0)
    with m.open(entropy=Seeded(seed)) as stream:
        for value in values:
            if stream.closed:
                break
            verdict = stream.ask(value)
            total += verdict.charged
            assert stream.spent.pure() == total >= before
            assert (verdict.gap is None) == (verdict.branch is None) == (not verdict.above)
            assert verdict.above or verdict.charged in {0, m.threshold_epsilon}
            before = total
    assert total <= m.cost.pure()


@pytest.mark.parametrize(
    "nothing", [math.nan, -math.inf, None, "12", [10**9], {}, Decimal("nan"), np.nan, b"7"]
)
def test_what_is_no_number_is_an_ordinary_answer_below(nothing):
    with TWO.open(entropy=Seeded(1)) as stream:
        stream.ask(0)
        verdict = stream.ask(nothing)
        assert (verdict.above, verdict.gap, verdict.charged) == (False, None, 0)


def test_infinity_is_above():
    with ONE.open() as stream:
        assert stream.ask(math.inf).above


numbers = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.integers(-9, 9),
    st.booleans(),
    st.none(),
    st.text(max_size=2),
    st.decimals(),
    st.fractions(),
    st.floats(width=32).map(np.float32),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.floats().map(np.float64),
    st.floats(-5e-324, 5e-324),
)


@given(numbers, st.integers(-60, 60))
@pytest.mark.slow
def test_one_answer_is_converted_as_lists_are(value, power):
    unit = Fraction(2) ** power
    assert _StepConverter(unit).of(value) == to_steps([value], unit, "x")[0]


@pytest.mark.parametrize("power", [-900, -53, 0, 53, 900])
def test_the_edges_of_the_clamp_are_converted_alike(power):
    unit = Fraction(2) ** power
    for steps in (2**52 - 1, 2**52, 2**52 + 1, 1, 0):
        for sign in (1, -1):
            exactly = sign * steps * unit
            for value in (
                float(exactly),
                math.nextafter(float(exactly), 0),
                math.nextafter(float(exactly), math.inf),
            ):
                assert _StepConverter(unit).of(value) == to_steps([value], unit, "x")[0]
            if exactly.denominator == 1:
                assert (
                    _StepConverter(unit).of(int(exactly)) == to_steps([int(exactly)], unit, "x")[0]
                )


def test_thresholds_of_their_own():
    m = SparseVector(threshold=0, positives=2, epsilon=40, sensitivity=COUNTING, correction=0.5)
    with m.open(entropy=Seeded(3)) as stream:
        assert not stream.ask(50, 1000).above
        verdict = stream.ask(5000, threshold=999.75)
        assert verdict.above
        assert verdict.gap == pytest.approx(4000.25, abs=20)
        assert (verdict.gap - 0.25) % 1 == 0
        for bad in (math.nan, "7", 1e300, True):
            with pytest.raises(InvalidParameter, match="SparseVector.threshold must"):
                stream.ask(5, threshold=bad)
        assert stream.asked == 2


def test_a_stream_cannot_go_back():
    for options in ({"passes": 2}, {"domain_size": 10}):
        m = SparseVector(threshold=1, positives=1, epsilon=1, sensitivity=COUNTING, **options)
        with pytest.raises(InvalidParameter, match="one pass and without a domain size"):
            m.open()
    with pytest.raises(InvalidParameter, match="SparseVector.open needs entropy"):
        ONE.open(entropy=3)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied(copied):
    with ONE.open() as stream, pytest.raises(TypeError, match="only once"):
        copied(stream)
    assert not hasattr(stream, "__dict__")


def test_it_belongs_to_its_process():
    with ONE.open() as stream:
        stream.ask(-1000)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                stream.ask(10**9)
                said = b"answered"
            except StreamClosed:
                said = b"refused"
            stream.close()
            os.write(writer, said if stream.closed else b"open")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 20) == b"refused"
        os.close(reader)
        os.close(writer)
        assert stream.ask(10**9).above


def test_threads_share_its_positives():
    m = SparseVector(threshold=0, positives=500, epsilon=9, sensitivity=COUNTING)
    found = []

    def work(stream):
        try:
            while True:
                found.append(stream.ask(10**9).above)
        except StreamClosed:
            return

    with m.open() as stream:
        workers = [threading.Thread(target=work, args=(stream,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert (len(found), sum(found), stream.asked) == (500, 500, 500)


def test_noise_is_handed_out_once_and_wiped():
    class Kept:
        def __init__(self):
            self.blocks, self.copies = [], []

        def sample(self, n, entropy):
            drawn = Geometric(Fraction(1, 50)).sample(n, entropy) + 1
            self.blocks.append(drawn)
            self.copies.append(drawn.copy())
            return drawn

    law = Kept()
    ahead = Ahead(law, Seeded(1), 4, 16)
    taken = [ahead.take() for _ in range(30)]
    assert [block.size for block in law.blocks] == [4, 8, 16, 16]
    assert taken == np.concatenate(law.copies)[:30].tolist()
    assert all(type(x) is int for x in taken)
    assert not np.concatenate(law.blocks)[:30].any()
    assert law.blocks[-1].any()
    ahead.wipe()
    assert not np.concatenate(law.blocks).any()


def test_noise_beyond_64_bits_is_compared_all_the_same():
    huge, rules = 1 << 70, Rules(HALF, HALF, positives=3)
    for q, rho, xi in (
        ((0, 5, -7), [huge], [1, 2, 3]),
        ((0, 5, -7), [-huge], [1, 2, 3]),
        ((0, 5, -7), [0], [huge, 2, -huge]),
        ((0, 5, -7), [huge], [huge, huge - 5, huge - 5]),
    ):
        values = [np.array(noise, dtype=object) for noise in (rho, xi)]
        a, b = streamed(q, rules, *values), played(q, rules, *values)
        assert [(place, float(lift)) for place, lift, _ in a[0]] == [
            (place, float(lift)) for place, lift, _ in b[0]
        ]
        assert a[1:] == b[1:]


def test_noise_beyond_64_bits_is_handed_out_too():
    ahead = Ahead(
        SimpleNamespace(sample=lambda n, entropy: np.array([1 << 70] * n, dtype=object)),
        Seeded(1),
        2,
        2,
    )
    assert [ahead.take() for _ in range(3)] == [1 << 70] * 3


def test_nothing_private_in_what_it_shows():
    with ONE.open(entropy=Seeded(1)) as stream:
        verdict = stream.ask(-CANARY)
        assert str(CANARY) not in repr(stream) + repr(verdict) + repr(verdict.to_dict())
        assert CANARY.to_bytes(8, "little") not in pickle.dumps(verdict)
        with pytest.raises(InvalidParameter) as caught:
            stream.ask(CANARY, threshold="x")
        assert str(CANARY) not in str(caught.value)
    assert "simulated" in repr(verdict)
    with ONE.open() as stream:
        assert not stream.ask(3).simulated


@pytest.mark.slow
def test_the_stream_has_the_law_that_is_audited():
    """P(below, above with lift 0) of two answers on the threshold, by a sum, against many streams."""
    m = SparseVector(
        threshold=0,
        positives=1,
        epsilon=4,
        sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1),
    )
    r0, rq = (math.exp(-law.rate) for law in (m.threshold_noise, m.noise))
    expected = sum((1 - r0) * r0**t * (1 - rq**t) * (1 - rq) * rq**t for t in range(100))
    entropy, hits, runs = Seeded(9), 0, 4000
    for _ in range(runs):
        with m.open(entropy=entropy) as stream:
            verdicts = [stream.ask(0)]
            if not stream.closed:
                verdicts.append(stream.ask(0))
            hits += [v.gap for v in verdicts] == [None, 0]
    assert abs(hits / runs - expected) < 6 * math.sqrt(expected * (1 - expected) / runs)
