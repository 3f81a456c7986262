"""Sensitivity statements and the grid: what rounding may do to them, by brute force."""

from __future__ import annotations

import itertools
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st

from sordino import COUNTING, InvalidParameter, Sensitivity
from sordino.constraints import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    POWER_OF_TWO,
    SHARE,
    TRUTH,
    WHOLE,
    exact,
)
from sordino.grid import (
    CLAMP,
    KEPT,
    add,
    bound_in_steps,
    fit_rate,
    from_steps,
    largest,
    step_for,
    to_steps,
)

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
anything = st.one_of(
    st.floats(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.decimals(),
    st.fractions(),
)
steps = st.sampled_from(
    [
        Fraction(1),
        Fraction(1, 1024),
        Fraction(8),
        Fraction(1, 2**60),
        Fraction(2**63),
        Fraction(2**64),
        Fraction(2**70),
    ]
)


def statement(**changes):
    return Sensitivity(**({"bound": 1, "monotone": True, "adjacency": "add-remove"} | changes))


def test_spread_replaces_the_rule_of_two():
    assert COUNTING.spread == 1
    assert statement(monotone=False, bound=0.1).spread == Fraction(1, 5)
    assert statement(bound=Decimal("2.5")).spread == Fraction(5, 2)


@pytest.mark.parametrize("monotone", [True, False])
def test_two_answers_part_by_no_more_than_all_move_together(monotone):
    """By brute force over all moves of three answers that a statement allows."""
    for bound, l1 in itertools.product(range(1, 5), range(1, 9)):
        said = statement(bound=bound, monotone=monotone, step=1, l1=l1)
        allowed = [
            moved
            for moved in itertools.product(range(-bound, bound + 1), repeat=3)
            if sum(map(abs, moved)) <= l1 and not (monotone and min(moved) < 0 < max(moved))
        ]
        assert said.spread == max(max(moved) - min(moved) for moved in allowed)


def test_monotone_answers_belong_to_add_remove():
    with pytest.raises(InvalidParameter, match="must be False under replace-one, .*; got True"):
        statement(adjacency="replace-one")


def test_a_statement_over_k_answers():
    over = COUNTING.over(5)
    assert (over.bound, over.norm, over.size, over.step) == (5, "l1", 5, 1)
    assert COUNTING.over(4, "l2").bound == 2
    assert float(COUNTING.over(3, "l2").bound) == pytest.approx(math.sqrt(3), abs=1e-15)
    assert Fraction(COUNTING.over(3, "l2").bound) ** 2 >= 3
    assert statement(bound=1.5, step=1).over(2).bound == 4, (
        "on a grid of 1 an answer that moves by 1.5 moves by up to 2"
    )
    with pytest.raises(InvalidParameter, match="Sensitivity.over turns"):
        over.over(2)
    with pytest.raises(InvalidParameter, match="Sensitivity.over turns"):
        COUNTING.over(2, "each")
    with pytest.raises(InvalidParameter, match="Sensitivity.over.k must be a whole number"):
        COUNTING.over(0)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=6),
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(0, 8),
    st.data(),
)
def test_two_statements_bound_any_answers_that_keep_them(moves, each, more_l1, more_l2, data):
    bound = max(1, *(abs(move) for move in moves)) + each
    l1 = data.draw(st.none() | st.just(max(1, sum(map(abs, moves)) + more_l1)))
    l2 = data.draw(st.none() | st.just(math.isqrt(sum(move**2 for move in moves)) + 1 + more_l2))
    kept = moves[: data.draw(st.integers(1, len(moves)))]
    said = statement(bound=bound, step=1, l1=l1, l2=l2)
    assert sum(map(abs, kept)) <= said.over(len(kept)).bound
    assert sum(move**2 for move in kept) <= Fraction(said.over(len(kept), "l2").bound) ** 2


def test_of_two_statements_the_better_one_counts():
    said = statement(step=1, l1=3)
    assert [said.over(k).bound for k in (1, 2, 3, 4, 100)] == [1, 2, 3, 3, 3]
    assert Fraction(said.over(100, "l2").bound) ** 2 >= 3
    assert float(said.over(100, "l2").bound) == pytest.approx(math.sqrt(3), abs=1e-15)
    assert statement(step=1, l1=4).over(9, "l2").bound == 2
    assert statement(step=1, l2=2).over(9).bound == 6
    assert statement(step=1, l2=2).over(2).bound == 2
    assert said.to_dict()["l1"] == 3.0
    assert "l1" not in COUNTING.to_dict()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_second_statement_needs_a_grid_and_norm_each(norm):
    with pytest.raises(InvalidParameter, match=r"Sensitivity.step must be given with l"):
        statement(**{norm: 2})
    with pytest.raises(InvalidParameter, match="is a second statement beside norm 'each'"):
        statement(step=1, norm="l1", **{norm: 2})


@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        ("bound", POSITIVE),
        ("monotone", TRUTH),
        ("step", POWER_OF_TWO),
        ("size", COUNT),
        ("adjacency", None),
        ("norm", None),
    ],
)
def test_bad_statements_are_refused(name, constraint):
    invalid = constraint.invalid if constraint else ("", "swap", None, 3)
    for bad in invalid:
        if bad is None and name in {"step", "size"}:
            continue
        with pytest.raises(InvalidParameter, match=rf"^Sensitivity\.{name} must be .*; got "):
            statement(**{name: bad})
    for good in constraint.valid if constraint else ():
        statement(**{name: good})


@pytest.mark.parametrize(
    "constraint", [POSITIVE, NOT_NEGATIVE, SHARE, FINITE, COUNT, WHOLE, TRUTH, POWER_OF_TWO]
)
def test_constraints_know_their_own_examples(constraint):
    for good in constraint.valid:
        assert constraint("x", good) == good
    for bad in constraint.invalid:
        with pytest.raises(InvalidParameter, match=r"^x must be .*; got "):
            constraint("x", bad)


def test_a_float_means_its_shortest_decimal():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(np.float64(0.1)) == Fraction(1, 10)
    assert exact(np.int32(3)) == 3
    assert exact(1e-300) == Fraction(1, 10**300)
    for not_a_number in (math.nan, math.inf, True, "1", None, 1j, Decimal("nan"), Decimal("inf")):
        assert exact(not_a_number) is None


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_the_chosen_step_lies_in_its_window(scale):
    step = step_for(statement(), scale**2, "X")
    assert scale / (1 << 21) < step <= scale / (1 << 20)
    assert POWER_OF_TWO("step", step) == step
    assert step_for(COUNTING, scale**2, "X") == 1


@given(st.lists(anything, min_size=1, max_size=8), steps)
def test_every_answer_has_a_step(answers, step):
    got = to_steps(answers, step, "X")
    assert got.dtype == np.int64
    assert got.shape == (len(answers),)
    assert (np.abs(got) <= CLAMP).all()


@given(st.lists(finite, min_size=1, max_size=8), steps)
def test_steps_are_exact_floors(answers, step):
    wanted = [max(-CLAMP, min(CLAMP, math.floor(Fraction(x) / step))) for x in answers]
    assert to_steps(answers, step, "X").tolist() == wanted
    assert to_steps(np.array(answers, dtype=object), step, "X").tolist() == wanted
    assert to_steps(np.array(answers, dtype=np.longdouble), step, "X").tolist() == wanted


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), steps)
def test_whole_numbers_are_exact_too(answers, step):
    wanted = [max(-CLAMP, min(CLAMP, math.floor(Fraction(x) / step))) for x in answers]
    assert to_steps(np.array(answers, dtype=np.int64), step, "X").tolist() == wanted
    assert to_steps(answers, step, "X").tolist() == wanted
    positive = np.array([abs(x) for x in answers], dtype=np.uint64)
    assert to_steps(positive, step, "X").tolist() == [min(CLAMP, abs(x) // step) for x in answers]


def test_named_values_of_the_clamp():
    got = to_steps([math.nan, -math.inf, math.inf, 0.5, -0.5, -1e-320], Fraction(1), "X")
    assert got.tolist() == [-CLAMP, -CLAMP, CLAMP, 0, -1, -1]
    assert to_steps(-1e-320, Fraction(2**70), "X").tolist() == -1
    assert to_steps([True, False], Fraction(1), "X").tolist() == [1, 0]
    assert to_steps(
        [Decimal("1e999999"), Decimal("-1e999999"), Decimal("sNaN"), 10**400], Fraction(1), "X"
    ).tolist() == [
        CLAMP,
        -CLAMP,
        -CLAMP,
        CLAMP,
    ]


@pytest.mark.parametrize(
    "answers",
    [
        [],
        np.zeros((2, 2)),
        1j,
        "12",
        np.array(["2020"], dtype="M8[Y]"),
        np.array(["a"]),
        {},
        {1},
        print,
    ],
)
def test_other_shapes_are_refused_without_a_word_about_values(answers):
    with pytest.raises(
        InvalidParameter, match=r"^X\.release needs a number or a one-dimensional array"
    ):
        to_steps(answers, Fraction(1), "X")


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=5),
    st.lists(st.floats(-3, 3), min_size=5, max_size=5),
    st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(4)]),
    st.sampled_from(["each", "l1", "l2"]),
)
def test_the_bound_in_steps_holds_for_every_pair(answers, moves, step, norm):
    other = [a + m for a, m in zip(answers, moves, strict=False)]
    exactly = [abs(Fraction(a) - Fraction(b)) for a, b in zip(answers, other, strict=True)]
    size = len(answers)
    bound = {
        "each": max(exactly),
        "l1": sum(exactly),
        "l2": Fraction(math.sqrt(float(sum(x * x for x in exactly)))) * Fraction(1000001, 1000000)
        + Fraction(1, 10**9),
    }[norm]
    if not bound:
        return
    moved = np.abs(to_steps(answers, step, "X") - to_steps(other, step, "X")).tolist()
    real = {"each": max(moved), "l1": sum(moved), "l2": math.sqrt(sum(x * x for x in moved))}[norm]
    # the statement names no step: the mechanism rounds, so the bound in steps must cover the rounding
    told = statement(bound=bound, norm=norm, size=None if norm == "each" else size, monotone=False)
    try:
        claimed = bound_in_steps(told, step, "X")
    except InvalidParameter:
        assert bound / step < KEPT * (bound / step + size + 1), "refused because the grid is coarse"
        return
    assert real <= claimed * (1 + Fraction(1, 10**12))


def test_rounding_a_vector_can_move_every_answer_by_a_step():
    moved = to_steps([0.95] * 4, Fraction(1), "X") - to_steps([1.05] * 4, Fraction(1), "X")
    assert np.abs(moved).sum() == 4, "an L1 distance of 0.4 has become 4 steps"
    fine = Fraction(1, 1 << 16)
    assert bound_in_steps(statement(bound=0.5, norm="l1", size=4), fine, "X") == (1 << 15) + 4
    assert bound_in_steps(statement(bound=0.5, norm="l2", size=4), fine, "X") == (1 << 15) + 2
    assert bound_in_steps(COUNTING.over(4), Fraction(1), "X") == 4, "counts are on the grid already"
    assert bound_in_steps(statement(norm="l1", step=1), Fraction(1), "X") == 1
    with pytest.raises(InvalidParameter, match="more noise than its budget needs"):
        bound_in_steps(statement(bound=0.4, norm="l1", size=4), Fraction(1), "X")
    with pytest.raises(InvalidParameter, match="a bound of at least one step"):
        bound_in_steps(statement(bound=0.5, norm="l1", step=1), Fraction(1), "X")


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=100))
def test_rates_are_exact_or_rounded_down_by_little(ideal):
    rate = fit_rate(ideal, "X")
    assert rate <= ideal
    assert rate >= ideal * Fraction(999, 1000)
    if ideal.denominator <= 1 << 40:
        assert rate == ideal


def test_rates_that_cannot_be_kept_are_refused():
    with pytest.raises(InvalidParameter, match="X must ask for noise with a rate of at least"):
        fit_rate(Fraction(1, 3**26), "X")


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(1, 14))
def test_the_largest_with_the_smaller_position_first(values, m):
    wanted = sorted(range(len(values)), key=lambda i: (-values[i], i))[:m]
    assert largest(np.array(values), m).tolist() == wanted
    assert largest(np.array(values, dtype=object), m).tolist() == wanted


def test_noise_beyond_64_bits_is_added_exactly():
    huge = np.array([1 << 80, 3], dtype=object)
    assert add(np.array([1, 2]), huge).tolist() == [(1 << 80) + 1, 5]
    assert from_steps(huge, Fraction(1, 2)).tolist() == [float(1 << 79), 1.5]
    assert from_steps(np.array([3]), Fraction(1, 2)).tolist() == [1.5]


def test_statements_are_values():
    assert pickle.loads(pickle.dumps(COUNTING)) == COUNTING
    assert COUNTING.to_dict() == {
        "bound": 1.0,
        "monotone": True,
        "adjacency": "add-remove",
        "norm": "each",
        "step": 1.0,
        "size": None,
    }


SAME = {
    "a text is missing, not contagious": ([120, 7, 95, "n/a"], [120, 7, 95, None]),
    "NumPy scalars among objects": ([np.int64(5), np.int64(7), None], [5, 7, math.nan]),
    "narrow scalars": ([np.float32(5), np.bool_(True), np.uint8(3)], [5.0, 1, 3]),
    "whole numbers beyond 64 bits": (
        [2**53 + 3, 2**53 + 8, 2**64, -1],
        [2**53 + 3, 2**53 + 8, Fraction(2**64), -1.0],
    ),
    "nested things": ([5, [1], {}, 1j], [5, None, None, None]),
    "masked values": (np.ma.array([5, 6], mask=[0, 1]), [5, None]),
    "a masked scalar": ([5, np.ma.masked], [5, None]),
    "tiny decimals": (
        [Decimal("1e-999999999"), Decimal("-1e-999999999"), Decimal("1e999999999")],
        [0, -1e-300, math.inf],
    ),
    "a long double": ([np.longdouble("5.5"), np.longdouble("nan")], [5.5, math.nan]),
}


@pytest.mark.parametrize(("answers", "meant"), SAME.values(), ids=SAME)
@pytest.mark.parametrize("step", [Fraction(1), Fraction(4), Fraction(1, 4)])
@pytest.mark.each_value
def test_a_rule_of_each_value_alone(answers, meant, step):
    assert to_steps(answers, step, "X").tolist() == [
        int(to_steps([value], step, "X")[0]) for value in meant
    ]


@given(st.lists(anything, min_size=1, max_size=6), steps)
def test_no_value_sways_another(answers, step):
    assert to_steps(answers, step, "X").tolist() == [
        int(to_steps([value], step, "X")[0]) for value in answers
    ]


def test_a_signaling_float_is_silent():
    signaling = np.array([0x7F800001], dtype=np.uint32).view(np.float32)
    assert to_steps(signaling, Fraction(1), "X").tolist() == [-CLAMP]


def test_pandas_and_polars_columns():
    assert to_steps(pd.Series([1, None], dtype="Int64"), Fraction(1), "X").tolist() == [1, -CLAMP]
    assert to_steps(pd.Series([np.int64(5), None], dtype=object), Fraction(1), "X").tolist() == [
        5,
        -CLAMP,
    ]
    assert to_steps(pl.Series([1, 2]), Fraction(1), "X").tolist() == [1, 2]


def test_narrow_floats_mean_their_own_shortest_decimal():
    assert exact(np.float32(0.1)) == Fraction(1, 10)
    with pytest.raises(InvalidParameter, match="got a whole number of"):
        COUNT("x", -(10**5000))
