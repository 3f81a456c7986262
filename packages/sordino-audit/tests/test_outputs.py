"""Which outputs are the same, that none is lost, and that each is a function of its own noise: else a broken mechanism is acquitted."""

from __future__ import annotations

import json
import math
import struct
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, InvalidParameter, LaplaceMechanism
from sordino.cost import Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.enumeration.laws import region
from sordino_audit.enumeration.outcomes import Book, key, seen, unique_rows

LITTLE = Pure(epsilon=Fraction(1, 100))


def told(a, b, **options):
    """Return the audit of a mechanism whose output is `a` for one side and `b` for the other; functions are given the noise."""
    outputs = [
        each if callable(each) else (lambda z, each=each: [each for _ in z]) for each in (a, b)
    ]
    subject = Subject(
        laws=[Finite([1, 1, 1])], play=lambda bit, z: outputs[bit](z[:, 0]), cost=LITTLE
    )
    return audit.exact(subject, answers_a=0, answers_b=1, **options)


# --- weights ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "laws", [[Finite([(1 << 22) - 1, 1])] * 3, [Finite([1 << 31])] * 3, [Finite([1 << 30, 1])] * 2]
)
def test_weights_whose_product_leaves_64_bits_are_refused_before_they_are_multiplied(laws):
    subject = Subject(
        laws=laws, play=lambda bit, z: np.where(z.sum(axis=1) == 0, bit, 7), cost=LITTLE
    )
    with pytest.raises(InvalidParameter, match=r"whole numbers below 2\^52"):
        audit.exact(subject, answers_a=0, answers_b=1)


def test_large_weights_that_fit_are_counted_exactly():
    laws = (Finite([(1 << 16) - 1, 0, 1]),) * 3
    played = region(laws, 1e-15, 100)
    assert sum(played.weight.tolist()) == (1 << 16) ** 3 == int(played.total[0])
    assert played.noise.shape == (8, 3), "only vectors with an impossible part are dropped"
    subject = Subject(
        laws=laws, play=lambda bit, z: np.where(z.sum(axis=1) == 0, bit, 7), cost=LITTLE
    )
    assert audit.exact(subject, answers_a=0, answers_b=1).epsilon_at_least == math.inf


def test_a_mass_that_does_not_add_up_is_a_fault(monkeypatch):
    monkeypatch.setattr(audit.enumeration.laws, "weights", lambda law, x: np.full(x.size, 2))
    with pytest.raises(InvalidParameter, match="a fault of the audit"):
        region((Finite([1, 2]),), 1e-15, 100)
    with pytest.raises(InvalidParameter, match="a fault of the audit"):
        region((Geometric(Fraction(1)),), 1e-3, 100)


# --- equality --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.each_value
def test_packed_rows_are_the_rows(kind, width):
    draws = np.random.default_rng(7)
    ends = (
        [0, 1]
        if kind == "?"
        else [
            np.iinfo(kind).min,
            np.iinfo(kind).min + 1,
            0,
            1,
            np.iinfo(kind).max - 1,
            np.iinfo(kind).max,
        ]
    )
    for rows in (
        draws.choice(np.array(ends, dtype=kind), (400, width)),
        draws.integers(0, 2, (400, width)).astype(kind),
    ):
        first, which = unique_rows(rows)
        expected, back = np.unique(rows, axis=0, return_inverse=True)
        assert len(first) == len(expected)
        assert np.array_equal(rows[first], expected)
        assert np.array_equal(which, back.reshape(-1))


def test_unsigned_rows_do_not_become_floats():
    def outputs(bit, z):
        high = np.where(z == 0, np.uint64(0), np.uint64(1) << np.uint64(58))
        return np.column_stack([high, ((z == 2) * (1 - bit)).astype(np.uint64)])

    report = told(lambda z: outputs(0, z), lambda z: outputs(1, z))
    assert report.outputs == 3
    assert report.epsilon_at_most == math.inf


APART = [
    (1, True),
    (0, False),
    ((1, (True,)), (1, (1,))),
    (1, Fraction(1)),
    (1, np.int64(1)),
    (np.int64(1), np.int32(1)),
    ("1", b"1"),
    (None, "None"),
    (frozenset([0]), frozenset([False])),
    ((), frozenset()),
    (1, (1,)),
    (lambda z: z * 0, lambda z: (z * 0).astype(bool)),
    (lambda z: z * 0, lambda z: (z * 0).astype(np.uint8)),
    (lambda z: (z * 0).astype(np.uint8), lambda z: np.zeros((len(z), 1), int)),
    (lambda z: np.zeros((len(z), 4), int), lambda z: np.zeros((len(z), 2, 2), int)),
    (lambda z: np.zeros(len(z), int), lambda z: np.zeros((len(z), 1), int)),
    (lambda z: np.zeros((len(z), 0), int), lambda z: np.zeros((len(z), 0, 2), int)),
]


@pytest.mark.parametrize(("a", "b"), APART)
def test_outputs_that_can_be_told_apart_are_told_apart(a, b):
    assert told(a, b).epsilon_at_least == math.inf
    assert told(a, a).epsilon_at_least == 0


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, -0.0), (math.nan, -math.nan), (1.0, math.nextafter(1.0, 2.0))]
)
@pytest.mark.parametrize("kind", ["f8", "f4", "f2"])
@pytest.mark.each_value
def test_a_partition_sees_the_bits_of_floats(a, b, kind):
    def bits(x):
        return struct.pack("<d", x)

    for shape in (list, np.array):
        mixed = [lambda z, x=x, shape=shape: shape([[x, a, 7.0][i] for i in z]) for x in (a, b)]
        report = told(*mixed, partition=bits)
        assert report.outputs == 3
        assert report.epsilon_at_most == math.inf, "only one side has the other one"
    if np.array([a]).astype(kind).tobytes() != np.array([b]).astype(kind).tobytes():
        rows = [
            lambda z, x=x: np.array([[x, a], [a, a], [7.0, 7.0]], dtype=kind)[z] for x in (a, b)
        ]
        assert told(*rows, partition=lambda row: bits(row[0])).epsilon_at_most == math.inf


@pytest.mark.parametrize(
    "bad",
    [
        1.0,
        (0.0,),
        ((-0.0,),),
        [1],
        {1: 2},
        1j,
        object(),
        np.float64(1),
        math.nan,
        lambda z: z / 3,
        lambda z: z.astype(complex),
    ],
)
def test_outputs_that_cannot_be_told_apart_for_certain_are_refused(bad):
    with pytest.raises(
        InvalidParameter,
        match="outputs that are whole numbers, .*; got a value of type .* give partition=",
    ):
        told(bad, bad)


@pytest.mark.parametrize(
    "bad", [3, iter([1, 2, 3]), (1, 2, 3), "abc", np.int64(3), np.array(3), None]
)
def test_rows_come_in_an_array_or_a_list(bad):
    with pytest.raises(InvalidParameter, match="in an array or a list"):
        told(lambda z: bad, lambda z: bad)
    with pytest.raises(InvalidParameter, match="in an array or a list"):
        told(lambda z: np.ma.array(z, mask=z == 0), lambda z: z)


def test_texts_and_objects_in_arrays():
    words = [
        lambda z, pair=pair: np.array(["x", *pair])[z]
        for pair in (("a", "b"), ("b", "a"), ("a", "c"))
    ]
    assert told(words[0], words[1]).epsilon_at_least == 0
    assert told(words[0], words[2]).epsilon_at_least == math.inf
    assert told(words[0], words[2], partition=lambda word: word == "x").epsilon_at_least == 0
    objects = [lambda z, x=x: np.array([None, x, "y"], dtype=object)[z] for x in (1, True)]
    assert told(*objects).epsilon_at_least == math.inf
    lists = [lambda z, x=x: [[[x], [2], [3]][i] for i in z] for x in (1, 4)]
    assert told(*lists, partition=tuple).epsilon_at_least == math.inf


@pytest.mark.parametrize("bad", [math.nan, 0.5, [1], object()])
def test_classes_are_held_to_the_same_rule(bad):
    mechanism = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    with pytest.raises(
        InvalidParameter, match=r"partition must return .*; got a value of type \w+\.$"
    ):
        audit.exact(
            mechanism,
            answers_a=0,
            answers_b=1,
            partition=lambda output: bad if output[0] > 3 else 0,
        )
    with pytest.raises(InvalidParameter, match="partition must be a function; got 3"):
        audit.exact(mechanism, answers_a=0, answers_b=1, partition=3)
    assert told(1, 1, partition=lambda output: True).epsilon_at_least == 0
    assert not audit.exact(
        mechanism, answers_a=0, answers_b=1, partition=lambda output: True
    ).broken


def test_keys_of_numbers_and_tuples_of_them_are_themselves():
    assert key((1, (2, 3))) == (1, (2, 3))
    assert seen(np.array([[1, 2], [3, 4], [1, 2]]), 3, None).keys == [(1, 2), (3, 4)]


# --- rows are independent --------------------------------------------------------------------------------------------------------


def middle(noise):
    """Tell of a company only where the rows of the middle are: the first and the last rows give nothing away."""
    return np.where(np.abs(noise[:, 0]) < 2, len(noise) % 97, 0)


@pytest.mark.parametrize(
    "decide",
    [
        lambda v: v[:, 0] - v.max(),
        lambda v: (v[:, 1] == v[:, 1].max()).astype(int),
        lambda v: v[:, 0] - v[0, 0],
        lambda v: np.arange(len(v)),
        lambda v: np.minimum(v[:, 0], 9) if len(v) > 64 else v[:, 0] * 0,
        lambda v: (v[:, 0] - v.max()).tolist(),
        lambda v: np.where(v[:, 0] > 2, int(len(v) == 1), 0),
        middle,
    ],
)
def test_rows_that_depend_on_their_company_are_refused(decide):
    subject = Subject(laws=[DiscreteLaplace(Fraction(1))] * 2, decide=decide, cost=LITTLE)
    with pytest.raises(InvalidParameter, match="a function of the answers and its own noise"):
        audit.exact(subject, answers_a=(1, 0), answers_b=(0, 0), tail=1e-6)


def test_a_play_that_depends_on_the_order_of_rows_is_refused():
    def ascending(bit, z):
        return z[:, 0] * 0 + int(len(z) > 1 and z[0, 0] > z[-1, 0])

    with pytest.raises(InvalidParameter, match="a function of the answers and its own noise"):
        audit.exact(
            Subject(laws=[Finite([1] * 999)], play=ascending, cost=LITTLE), answers_a=0, answers_b=1
        )


# --- drawn again -----------------------------------------------------------------------------------------------------------------


def test_what_is_drawn_again_is_known_by_type_and_value():
    outputs = [(0, 1), (0, True), (2, 2)]
    for again, left in (((0, 1), 2), ((0, True), 2), ("nothing of the kind", 3)):
        subject = Subject(
            laws=[Finite([1, 2, 3])],
            play=lambda q, z: [outputs[i] for i in z[:, 0]],
            cost=LITTLE,
            again=again,
        )
        book = Book(subject, region(subject.laws, 1e-15, 10), None)
        law = book.outcomes(0)
        assert len(law.ids) == left
        total = sum(law.certified(int(i))[0] for i in law.ids) / law.region.total[0]
        assert float(total) == pytest.approx(1, abs=1e-15)


def test_noise_proves_nothing_everywhere_about_what_is_conditioned():
    """Laplace noise of rate 1 of which only values above 3 are released: the answer decides how likely that is."""
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1))],
        decide=lambda v: np.maximum(v[:, 0], 3),
        cost=Pure(epsilon=1),
        again=3,
    )
    report = audit.exact(subject, answers_a=(0,), answers_b=(4,))
    assert report.epsilon_everywhere == math.inf
    assert not report.declared
    folded = Subject(
        laws=[DiscreteLaplace(Fraction(1))],
        decide=lambda v: np.abs(v[:, 0]),
        cost=Pure(epsilon=1),
        again=0,
    )
    book = Book(folded, region(folded.laws, 1e-15, 100), None)
    r = math.exp(-1)
    c = (1 - r) / (1 + r)
    for answer, truth in ((0, 2 * c * r / (1 - c)), (1, (c + c * r * r) / (1 - c * r))):
        law = book.outcomes(np.array([answer]))
        low, high = law.certified(book._numbers[1])
        total = law.region.total
        assert float(low / total[1]) <= truth * (1 + 1e-15)
        assert truth <= float((high + law.rest) / total[0]) * (1 + 1e-15)
        assert float(low / total[0]) == pytest.approx(truth, rel=1e-13)


def test_what_is_not_json_is_pictured():
    report = told(frozenset([1]), b"x")
    assert json.loads(json.dumps(report.to_dict()))["witness"]["output"] in {
        "frozenset({1})",
        "b'x'",
    }
