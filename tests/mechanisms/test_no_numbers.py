"""Whatever is no number is the lowest answer: in a list, as the only answer, and in a stream; it never raises."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from sordino.grid import CLAMP, to_steps

EITHER = sd.Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
VECTOR = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", norm="l1", size=4)
SPARSE = {"threshold": 0, "epsilon": 8, "sensitivity": EITHER}
MECHANISMS = [
    sd.NoisyTopK(k=1, epsilon=1, sensitivity=EITHER),
    sd.NoisyTopK(k=1, epsilon=1, sensitivity=EITHER, noise="gumbel"),
    sd.ExponentialMechanism(epsilon=1, sensitivity=EITHER),
    sd.PermuteAndFlip(
        epsilon=1, sensitivity=sd.Sensitivity(bound=1.5, monotone=False, adjacency="replace-one")
    ),
    sd.RandomizedResponse(epsilon=1),
    sd.StepSelection(epsilon=1, sensitivity=EITHER),
    sd.LaplaceMechanism(epsilon=1, sensitivity=VECTOR),
    sd.GaussianMechanism(rho=1, sensitivity=sd.COUNTING.over(4, "l2")),
    sd.SparseVector(positives=2, **SPARSE),
    sd.AdaptiveSparseVector(at_least=2, **SPARSE),
    sd.GumbelSparseVector(positives=2, **SPARSE),
    sd.GaussianSparseVector(threshold=0, positives=2, rho=2, sensitivity=EITHER, questions=9),
    sd.HybridTopK(k=1, **SPARSE),
    sd.HybridSparseVector(k=1, **SPARSE),
]
STREAMS = [mechanism for mechanism in MECHANISMS if hasattr(mechanism, "open")]


class Indexed:
    """A whole number by its method, and no number by its type."""

    def __index__(self):
        return 10**6


MISSING = [None, pd.NA, pd.NaT, math.nan, np.timedelta64("NaT"), np.datetime64("NaT")]
NOTHINGS = [
    *MISSING,
    *(np.timedelta64(3, unit) for unit in ("D", "ns", "Y")),
    np.timedelta64("NaT", "ns"),
    np.datetime64("2020-01-01"),
    dt.date(2020, 1, 1),
    dt.timedelta(3),
    Decimal("NaN"),
    Decimal("sNaN"),
    1j,
    np.complex128(3),
    "7",
    b"7",
    np.str_("7"),
    (),
    {},
    [9, 9],
    Indexed(),
    object(),
]
every = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__
)


def released(mechanism, answers):
    return json.dumps(mechanism.release(answers, entropy=sd.Seeded(1)).to_dict())


@every
def test_what_is_no_number_is_the_lowest_in_a_list(mechanism):
    lowest = released(mechanism, [-math.inf, 1, -math.inf, 2])
    for nothing in NOTHINGS:
        array = np.empty(4, dtype=object)
        array[0], array[1], array[2], array[3] = nothing, 1, nothing, 2
        for answers in ([nothing, 1, nothing, 2], (nothing, 1, nothing, 2), array):
            assert released(mechanism, answers) == lowest, repr(nothing)


@every
def test_an_answer_that_is_missing_is_the_lowest_as_the_only_one(mechanism):
    lowest = released(mechanism, -math.inf)
    for nothing in [*MISSING, np.timedelta64(3, "D")]:
        assert released(mechanism, nothing) == lowest, repr(nothing)


@pytest.mark.parametrize("mechanism", STREAMS, ids=lambda mechanism: type(mechanism).__name__)
def test_what_is_no_number_is_the_lowest_in_a_stream(mechanism):
    for nothing in NOTHINGS:
        with (
            mechanism.open(entropy=sd.Seeded(1)) as stream,
            mechanism.open(entropy=sd.Seeded(1)) as other,
        ):
            assert stream.ask(nothing).to_dict() == other.ask(-math.inf).to_dict(), repr(nothing)


@every
@pytest.mark.parametrize(
    "wrong", ["7", b"7", object(), {1}, {1: 2}], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.each_value
def test_what_is_neither_a_number_nor_a_list_by_its_type_is_refused(mechanism, wrong):
    with pytest.raises(sd.InvalidParameter, match="needs a number or a one-dimensional array"):
        released(mechanism, wrong)


COLUMNS = {
    "pandas": lambda values: pd.Series(values, dtype="Int64"),
    "pandas array": lambda values: pd.array(values, dtype="Int64"),
    "pandas on Arrow": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
    "Polars": lambda values: pl.Series(values, dtype=pl.Int64),
    "Polars, 128 bits": lambda values: pl.Series(values, dtype=pl.Int128),
    "Arrow": lambda values: pa.array(values, pa.int64()),
    "Arrow, in chunks": lambda values: pa.chunked_array([values], pa.int64()),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_missing_number_does_not_round_those_of_others(column):
    odd = (1 << 54) - 1  # no float has it
    whole, holed = (
        to_steps(column([odd, other]), Fraction(4), "test").tolist() for other in (7, None)
    )
    assert whole == [odd // 4, 1]
    assert holed == [odd // 4, -CLAMP]
