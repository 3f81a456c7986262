"""Mechanisms for labels that nobody listed: no labels at all, labels that are none, public orders, and what is refused before a draw."""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import pickle

import numpy as np
import pytest

import sordino as sd
from mechanisms.test_raising_values import VALUES, Liar
from sordino import COUNTING, InvalidParameter, Seeded, Sensitivity, UnlistedHistogram, UnlistedTopK
from sordino.mechanisms.unlisted.occurring import counting, read_occurring

FIVE = counting(5)
MAKERS = {
    "top": lambda **other: UnlistedTopK(
        **{"k": 3, "epsilon": 3, "delta": 1e-6, "sensitivity": FIVE} | other
    ),
    "top, Laplace": lambda **other: UnlistedTopK(
        **{"k": 9, "epsilon": 3, "delta": 1e-6, "sensitivity": FIVE, "noise": "laplace"} | other
    ),
    "counts": lambda **other: UnlistedHistogram(
        **{"epsilon": 3, "delta": 1e-6, "sensitivity": FIVE} | other
    ),
    "counts, Gaussian": lambda **other: UnlistedHistogram(
        **{"rho": 0.3, "delta": 1e-6, "sensitivity": FIVE} | other
    ),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
COUNTS, LABELS = [900, 4, 700, 3, 800], ["kiwi", "fig", "plum", "lime", "apple"]


@every
def test_no_labels_at_all_are_a_table_too(make):
    for nothing in ([], (), np.zeros(0)):
        found = make().release(nothing, labels=[], entropy=Seeded(1))
        assert found.labels == ()
        assert json.dumps(found.to_dict())


@every
def test_labels_and_no_positions_are_told(make):
    found = make().release(COUNTS, labels=LABELS, entropy=Seeded(1))
    assert found.labels == ("kiwi", "apple", "plum")
    assert found.simulated
    told = json.dumps(found.to_dict()) + repr(found)
    assert "indices" not in told
    assert "fig" not in told
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        assert not isinstance(value, np.ndarray) or value.base is None


@every
def test_the_order_of_the_table_and_counts_below_the_least_decide_nothing(make):
    """A release is a function of the labels and their counts: no position, and nobody who does not take part, enters."""
    m = make(least=3)
    more = ["b", *LABELS, "z", "apple", "fig"]
    for seed in range(10):
        one = m.release(COUNTS, labels=LABELS, entropy=Seeded(seed))
        order = np.random.default_rng(seed).permutation(5)
        other = m.release(
            np.array(COUNTS)[order], labels=[LABELS[i] for i in order], entropy=Seeded(seed)
        )
        longer = m.release([2, *COUNTS, 0, 5, 9], labels=more, entropy=Seeded(seed))
        assert one.labels == other.labels == longer.labels


@every
def test_what_is_no_label_is_left_out_and_raises_nothing(make):
    odd = [None, 5, b"bytes", float("nan"), Liar(), ("a",), object(), "kiwi", "kiwi"]
    found = make().release([900] * 9, labels=odd, entropy=Seeded(1))
    assert found.labels == ("kiwi",)

    class Text(str):
        __slots__ = ()

        def __lt__(self, other):
            raise RuntimeError("private")

        __hash__ = None

    subclass = read_occurring([5, 4], [Text("b"), np.str_("a")], 1, "x")
    assert subclass.labels == ["a", "b"]
    assert [type(label) for label in subclass.labels] == [str, str]
    assert subclass.counts.tolist() == [4, 5]


@pytest.mark.parametrize("least", [1, 3])
def test_of_labels_that_are_given_twice_the_largest_count_counts(least):
    """One unit moves each count by a step; the first one of those that occur could move by ten."""
    for counts in (
        [least - 1, 10],
        [10, least - 1],
        [least, 10],
        [10, least],
        [least - 1, least - 1],
    ):
        before = read_occurring(counts, ["a", "a"], least, "x")
        after = read_occurring([counts[0] + 1, counts[1]], ["a", "a"], least, "x")
        largest = max(counts)
        assert before.counts.tolist() == [largest] * (largest >= least)
        assert after.counts.tolist() in ([largest], [largest + 1])


@every
def test_counts_that_are_no_numbers_do_not_occur(make):
    values = [value for value, _ in VALUES.values()] + [None, math.nan, -math.inf, "900", 10**400]
    labels = [f"{i:03}" for i in range(len(values))]
    found = make().release(values, labels=labels, entropy=Seeded(1))
    assert found.labels == (labels[-1],), "what is beyond 2^52 counts as 2^52"


@every
def test_public_mistakes_are_refused_before_a_draw(make):
    class Unused:
        simulated = True

        def words(self, n):
            raise AssertionError("noise was drawn")

    m = make()
    for answers, labels in (
        ([1, 2], ["a"]),
        ([1], None),
        (3, ["a"]),
        ([1, 2], "ab"),
        (np.array([[1]]), ["a"]),
        ({1: 2}, ["a"]),
    ):
        with pytest.raises(InvalidParameter, match=r"^Unlisted\w+\.release needs") as caught:
            m.release(answers, labels=labels, entropy=Unused())
        assert "2" not in str(caught.value)
    for bad in (7, None, "seed"):
        with pytest.raises(
            InvalidParameter, match="release needs entropy such as SYSTEM or Seeded"
        ):
            m.release([1], labels=["a"], entropy=bad)


@every
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"delta": 0}, r"delta must be a number in \(0, 1\); got 0"),
        ({"delta": 1}, r"delta must be a number in \(0, 1\); got 1"),
        ({"delta": None}, r"delta must be a number in \(0, 1\)"),
        (
            {"delta": 1e-300, "least": 1 << 52},
            "must have a threshold of at most 2^52".replace("^", r"\^"),
        ),
        ({"least": 0}, "least must be a whole number, at least 1; got 0"),
        ({"above": math.nan}, "above must be a finite number"),
        ({"above": 1e30}, r"must have a threshold of at most 2\^52; got one beyond"),
        ({"k": 0}, "k must be a whole number, at least 1; got 0"),
        ({"sensitivity": COUNTING}, "must bound all counts together, l1=M .* Give max_rows"),
        ({"sensitivity": COUNTING.over(3)}, "must be a statement about each answer"),
        (
            {
                "sensitivity": Sensitivity(
                    bound=2, monotone=True, adjacency="add-remove", step=1, l1=4
                )
            },
            "must be about counts of units: bound=1, step=1, .*; got bound=2",
        ),
        (
            {
                "sensitivity": Sensitivity(
                    bound=1, monotone=False, adjacency="add-remove", step=1, l1=4
                )
            },
            "must be about counts of units",
        ),
        (
            {
                "sensitivity": Sensitivity(
                    bound=1, monotone=True, adjacency="add-remove", step=1, l1=0.5
                )
            },
            "must let a unit count for at least one label",
        ),
    ],
)
@pytest.mark.each_value
def test_parameters_that_are_refused(make, changes, says):
    with pytest.raises(InvalidParameter, match=says) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


def test_one_budget_and_not_two():
    for given in ({}, {"epsilon": 1, "rho": 0.1}):
        with pytest.raises(
            InvalidParameter, match=r"either epsilon, .*, or rho, .*; got (neither|both)\."
        ):
            UnlistedHistogram(delta=1e-6, sensitivity=FIVE, **given)
    for bad in (0, -1, math.inf, "1"):
        with pytest.raises(InvalidParameter, match=r"must be a number in \(0, inf\)"):
            UnlistedHistogram(delta=1e-6, sensitivity=FIVE, epsilon=bad)
        with pytest.raises(InvalidParameter, match=r"must be a number in \(0, inf\)"):
            UnlistedTopK(k=2, delta=1e-6, sensitivity=FIVE, epsilon=bad)


@every
def test_frozen_hashable_and_public_in_fields(make):
    m = make()
    assert m == make() == dataclasses.replace(m)
    assert hash(m) == hash(make())
    assert pickle.loads(pickle.dumps(m)) == m
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.k = 5
    larger = dataclasses.replace(m, delta=1e-3)
    assert larger.threshold < m.threshold, "a threshold follows anew from new parameters"


@every
def test_what_was_not_found_is_nowhere_in_a_release(make):
    secret = "a label that nobody may see"
    found = make().release([900, 1], labels=["kiwi", secret], entropy=Seeded(1))
    kept = pickle.dumps(found) + repr(found).encode() + json.dumps(found.to_dict()).encode()
    assert secret.encode() not in kept
    assert not any(
        referent is secret for referent in gc.get_referents(found, found.__dict__, found.labels)
    )


def test_odd_items_of_two_units_are_rounded_up():
    """Replace-one, l1 = 3: one of both units may have two labels."""
    three = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1, l1=3)
    assert UnlistedTopK(k=1, epsilon=1, delta=1e-6, sensitivity=three).threshold == (
        UnlistedTopK(k=1, epsilon=1, delta=1e-6, sensitivity=counting(2, either=True)).threshold
    )


def test_ties_are_decided_by_the_order_of_the_labels():
    """Astral characters after the basic ones, as their bytes are: code points, and no 16-bit units."""
    high = [10**9] * 4
    labels = ["\U00010000", "\uffff", "b", "B"]
    occurring = read_occurring(high, labels, 1, "x")
    assert (
        occurring.labels
        == ["B", "b", "\uffff", "\U00010000"]
        == sorted(labels, key=lambda text: text.encode())
    )


def test_gaps_and_measurements_are_combined():
    top = UnlistedTopK(k=2, epsilon=3, delta=1e-6, sensitivity=FIVE).release(
        COUNTS, labels=LABELS, entropy=Seeded(2)
    )
    assert top.indices.tolist() == [1, 0]
    fresh = sd.LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)).release(
        [900, 800], entropy=Seeded(3)
    )
    both = sd.combine_gaps(top, fresh)
    assert (both.variances < fresh.standard_error**2).all()
    short = UnlistedTopK(k=5, epsilon=3, delta=1e-6, sensitivity=FIVE).release(
        COUNTS, labels=LABELS, entropy=Seeded(2)
    )
    assert short.crossed
    bounds = sd.lower_bound(short)
    assert ((bounds < short.estimates) & (bounds > 0)).all()
    assert short.estimates.tolist() == pytest.approx([900, 800, 700][: len(short.labels)], abs=120)


@pytest.mark.slow
def test_a_million_labels():
    counts = np.ones(10**6, dtype=np.int64)
    counts[::1000] = 5000
    labels = [f"{i:07}" for i in range(10**6)]
    found = UnlistedTopK(k=10, epsilon=1, delta=1e-6, sensitivity=FIVE).release(
        counts, labels=labels
    )
    assert len(found.labels) == 10
    assert all(int(label) % 1000 == 0 for label in found.labels)
