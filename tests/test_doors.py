"""Behind every door: words that were drawn ahead are forgotten first, and no error brings a private number out."""

from __future__ import annotations

import sys
from itertools import count

import numpy as np
import pytest

import sordino as sd
from sordino import scrubbing as module
from sordino.entropy import System
from sordino.ledger import Budget, Ledger
from support.doors import DOORS
from support.interrupts import interrupted, lines_of
from support.remnants import printed, remnants

SECRET = 1048573
"""A prime, below the number of records that a bucket may have."""

STAGES = {
    "ClippedMean.release": 2,
    "ClippedSum.release": 2,
    "ClippedMeans.release": 3,
    "ClippedSums.release": 2,
    "ClippedVariance.release": 2,
    "Quantiles.release": 3,
    "TableNumbers.release": 2,
}
"""Doors with several stages, each of which begins afresh."""


class Plain:
    """Entropy as users make it: it knows nothing of `renew`."""

    simulated = False

    def __init__(self):
        self.asked = 0

    def words(self, n):
        self.asked += 1
        return sd.SYSTEM.words(n)


class Renewed(Plain):
    """Entropy that keeps words, and notes when it is told to forget them."""

    def __init__(self):
        super().__init__()
        self.renewed = []

    def renew(self):
        self.renewed.append(self.asked)


class Failing(Plain):
    """Entropy that fails when it is asked for the `at`-th time."""

    def __init__(self, at, make):
        super().__init__()
        self.at, self.make = at, make

    def words(self, n):
        drawn = super().words(n)
        if self.asked == self.at:
            raise self.make()
        return drawn


def clean(error):
    """Fail if the secret can be found from an error."""
    ways = sorted(set(remnants(error, SECRET)))
    assert not ways, ways[:10]
    assert str(SECRET) not in printed(error)


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.sample(2)
def test_a_door_renews_before_the_first_word(name):
    entropy = Renewed()
    DOORS[name](SECRET, entropy)
    assert entropy.asked, "it drew nothing: the test says nothing"
    assert entropy.renewed
    assert entropy.renewed[0] == 0
    assert len(set(entropy.renewed)) >= STAGES.get(name, 1)


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.sample(2)
def test_entropy_without_the_method_works(name):
    entropy = Plain()
    DOORS[name](SECRET, entropy)
    assert entropy.asked


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("make", [KeyboardInterrupt, MemoryError], ids=lambda make: make.__name__)
@pytest.mark.sample(4)
def test_entropy_that_fails_leaves_no_remnants(name, make):
    failed = 0
    for at in (1, 2):
        entropy = Failing(at, make)
        try:
            DOORS[name](SECRET, entropy)
        except make as error:
            failed += 1
            clean(error)
    assert failed


def interrupt_everywhere(name, places):
    def call():
        DOORS[name](SECRET, sd.Seeded(7))

    call()  # what is kept is made
    total, struck = lines_of(call), 0
    for at in sorted({1 + total * place // places for place in range(places)}):
        error = interrupted(call, at)
        if error is not None:
            struck += 1
            clean(error)
    assert struck


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.sample(4)
def test_an_interrupt_at_some_lines_leaves_no_remnants(name):
    interrupt_everywhere(name, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_an_interrupt_at_many_lines_leaves_no_remnants(name):
    interrupt_everywhere(name, 60)


def test_an_interrupt_while_remnants_are_swept_leaves_none():
    struck = 0
    for at in count(1):
        entropy = Failing(1, MemoryError)
        answers = [3, SECRET]
        mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))

        def call(mechanism=mechanism, answers=answers, entropy=entropy):
            try:
                mechanism.release(answers, entropy=entropy)
            except MemoryError:
                return

        error = interrupted(call, at, inside=module.__file__)
        if error is None:
            break
        struck += 1
        clean(error)
    assert struck > 10


@pytest.mark.slow
def test_a_stack_that_is_too_deep_leaves_no_remnants():
    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))
    mechanism.release([3, 5])

    def deep(levels):
        if levels:
            return deep(levels - 1)
        return mechanism.release([3, SECRET])

    depth, frame, errors = 0, sys._getframe(), 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    for levels in range(sys.getrecursionlimit() - depth - 40, sys.getrecursionlimit() - depth):
        try:
            deep(levels)
        except RecursionError as error:
            errors += 1
            clean(error)
    assert errors > 10


BAD = {
    "an array of another shape": np.array([[SECRET, SECRET]]),
    "times": np.array([SECRET], dtype="M8[s]"),
    "a set": {SECRET},
    "texts": np.array([str(SECRET)] * 3),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_refusal_leaves_no_remnants(bad):
    for mechanism in (
        sd.NoisyTopK(k=2, epsilon=1, sensitivity=sd.COUNTING),
        sd.SparseVector(threshold=10, positives=2, epsilon=1, sensitivity=sd.COUNTING),
        sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING),
        sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=100),
        sd.Quantile(q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=100),
    ):
        with pytest.raises(sd.InvalidParameter) as caught:
            mechanism.release(BAD[bad])
        clean(caught.value)
    for refuse in (
        lambda: sd.BucketCounts(
            grid=sd.BucketGrid.geometric(lower=0, cap=100, growth=2), counts=[SECRET]
        ),
        lambda: sd.BucketCounts.of(
            np.array([[SECRET]]), grid=sd.BucketGrid.geometric(lower=0, cap=100, growth=2)
        ),
        lambda: sd.smooth.tdt([SECRET], [1, 2], families=10, beta=1),
        lambda: sd.smooth.quantile(np.array([[SECRET]]), lower=0, upper=10, beta=1, q=0.5),
        lambda: sd.smooth.mean([SECRET]),
        lambda: sd.genomics.damped_tdt([SECRET], [1, 2], families=10, damping=3),
        lambda: sd.genomics.most_significant(b=[SECRET], c=[1, 2], families=10, epsilon=3),
    ):
        with pytest.raises(sd.InvalidParameter) as caught:
            refuse()
        clean(caught.value)


class Hollow:
    """A mechanism of the caller's that fails and keeps what it was handed."""

    cost = sd.cost.Pure(epsilon=0.125)
    sensitivity = sd.COUNTING
    exact = True

    def release(self, answers, *, entropy):
        kept = [answers]
        raise AttributeError("no such name", name="x", obj=kept)


@pytest.fixture
def ledger(tmp_path):
    names = {"adjacency": "add-remove", "unit": "user", "source": "name:doors"}
    return Ledger.create(tmp_path / "b.db", account="a", budget=Budget(epsilon=9), **names)


def leaving(call):
    """Return the error that leaves a call."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001  (whatever leaves is what the test is about)
        return error
    pytest.fail("nothing was raised: the test says nothing")


@pytest.mark.parametrize("at", [1, 2])
def test_a_charge_that_fails_leaves_no_remnants(ledger, monkeypatch, at):
    mechanism = sd.NoisyTopK(k=2, epsilon=0.01, sensitivity=sd.COUNTING)
    answers = (SECRET, 7, 5)
    with ledger.reserve(mechanism) as charge, monkeypatch.context() as patch:
        words, asked = System.words, count(1)

        def failing(self, n):
            if next(asked) == at:
                raise MemoryError
            return words(self, n)

        patch.setattr(System, "words", failing)
        if at == 1:
            error = leaving(lambda: charge.release(mechanism, answers))
        else:  # the draw is refused: the charge is spent
            charge._close_in_full()
            error = leaving(lambda: charge.release(mechanism, answers))
    clean(error)


def test_a_mechanism_of_the_callers_that_fails_leaves_no_remnants_in_the_library(ledger):
    with ledger.reserve(Hollow()) as charge:
        error = leaving(lambda: charge.release(Hollow(), (SECRET, 7)))
    assert type(error) is AttributeError
    clean(error)


def test_a_question_that_fails_leaves_no_remnants(ledger):
    mechanism = sd.SparseVector(threshold=10**9, positives=2, epsilon=0.01, sensitivity=sd.COUNTING)
    for stream in (mechanism.open(), ledger.reserve(mechanism).__enter__().open(mechanism)):
        stream.ask(3)
        error = leaving(
            lambda stream=stream: stream.ask(len(range(SECRET)), threshold=float("nan"))
        )
        assert isinstance(error, sd.InvalidParameter)
        clean(error)
        stream.close()
        error = leaving(lambda stream=stream: stream.ask(len(range(SECRET))))
        assert isinstance(error, sd.StreamClosed)
        clean(error)


def test_what_the_caller_was_handling_stays_as_it_was():
    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)

    def mine():
        kept = "mine"
        raise ZeroDivisionError(kept)

    try:
        try:
            mine()
        except ZeroDivisionError:
            mechanism.release([[1], [2]])
    except sd.InvalidParameter as error:
        assert type(error.__context__) is ZeroDivisionError
        assert error.__context__.__traceback__.tb_next.tb_frame.f_locals["kept"] == "mine"
        assert trace(error)[0].f_code.co_name == "test_what_the_caller_was_handling_stays_as_it_was"


def test_an_error_that_is_raised_again_while_it_is_handled_is_swept_again():
    """A writer that raises one stored error, and a caller that tries again in the handler of that very error."""
    secret, stored = 86753099, RuntimeError("the reader has gone")

    class Failing:
        simulated = False

        def words(self, n):
            raise stored

    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    try:
        mechanism.release(secret, entropy=Failing())
    except RuntimeError:
        with pytest.raises(RuntimeError) as caught:
            mechanism.release(secret + 1, entropy=Failing())
    assert caught.value is stored
    assert [*remnants(stored, secret), *remnants(stored, secret + 1)] == []
    assert not any("answers" in frame.f_locals for frame in trace(stored)[1:])


def trace(error):
    step, frames = error.__traceback__, []
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
    return frames


def test_lines_stay_and_causes_behind_them_go():
    @module.scrubbed
    def fail(private):
        try:
            int(f"no number {private}")
        except ValueError:
            raise KeyError("public") from None

    error = leaving(lambda: fail(SECRET))
    assert type(error) is KeyError
    assert error.__context__ is None
    assert [frame.f_code.co_name for frame in trace(error)][-2:] == ["door", "fail"]
    assert [frame.f_locals.get("private") for frame in trace(error)] == [None] * len(trace(error))
    assert fail.__name__ == "fail"


def test_groups_and_causes_are_swept_too():
    def inside(private):
        raise ValueError("public")

    @module.scrubbed
    def fail(private):
        errors = []
        for _ in range(3):
            try:
                inside(private)
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("public", errors[:2]) from errors[2]

    group = leaving(lambda: fail(SECRET))
    for error in (group, *group.exceptions, group.__cause__):
        assert [frame.f_code.co_name for frame in trace(error)][-1] in {"inside", "fail"}
        assert not [frame for frame in trace(error) if "private" in frame.f_locals]


def test_the_search_finds_what_is_planted():
    """In a variable, a container, an array, a closure, a generator, an iterator, a bound method, an attribute and a context."""

    class Holder:
        __slots__ = ("value",)

        def method(self):
            return self.value

    def nested(value):
        return lambda: value

    def yielding(value):
        yield value

    holder = Holder()
    holder.value = SECRET
    begun = yielding(SECRET)
    next(begun)
    arrays = np.array([1, 2, SECRET * 8])
    for planted in (
        SECRET,
        float(SECRET) / 1024,
        [{"x": (SECRET,)}],
        arrays[:2],
        str(SECRET),
        memoryview(arrays),
        nested(SECRET),
        begun,
        iter([SECRET]),
        holder,
        holder.method,
        [SECRET].append,
        ValueError(SECRET),
    ):
        error = ValueError()
        error.kept = planted
        assert list(remnants(error, SECRET)), planted
        with pytest.raises(AssertionError):
            clean(error)
    assert not list(remnants(ValueError(3.5, "public", arrays[:1].copy()), SECRET))
