"""Private values whose own methods raise: Python's own numbers behind them count, and everything else is missing."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sordino as sd

SECRET = "balance 86753099"


def _raise(*_given, **_named):
    raise RuntimeError(SECRET)


def raising(kind):
    """Return a subclass of a type of numbers all of whose methods raise."""
    spared = {
        "__new__",
        "__init__",
        "__class__",
        "__getattribute__",
        "__setattr__",
        "__del__",
        "__init_subclass__",
    }
    spared |= {
        "__subclasshook__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__sizeof__",
        "__dir__",
        "__doc__",
    }
    methods = {
        name: _raise for name in dir(kind) if callable(getattr(kind, name)) and name not in spared
    }
    methods |= {name: property(_raise) for name in ("numerator", "denominator", "real", "imag")}
    return type(f"Raising{kind.__name__}", (kind,), {"__hash__": kind.__hash__} | methods)


class Liar:
    """Not even its class can be asked for."""

    @property
    def __class__(self):
        raise RuntimeError(SECRET)


VALUES = {
    "int": (raising(int)(5), 5),
    "float": (raising(float)(5.5), 5.5),
    "Decimal": (raising(Decimal)("5.5"), Decimal("5.5")),
    "Fraction": (raising(Fraction)(11, 2), Fraction(11, 2)),
    "NumPy float": (raising(np.float64)(5.5), 5.5),
    "no number": (Liar(), None),
}
COUNTING = sd.COUNTING
LISTS = {
    "Laplace": lambda: sd.LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(3)),
    "Gaussian": lambda: sd.GaussianMechanism(rho=1, sensitivity=COUNTING.over(3, "l2")),
    "top k": lambda: sd.NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING),
    "joint top k": lambda: sd.JointTopK(k=1, epsilon=1, sensitivity=COUNTING),
    "hybrid top k": lambda: sd.HybridTopK(k=1, threshold=1, epsilon=1, sensitivity=COUNTING),
    "exponential": lambda: sd.ExponentialMechanism(epsilon=1, sensitivity=COUNTING),
    "permute and flip": lambda: sd.PermuteAndFlip(epsilon=1, sensitivity=COUNTING),
    "sparse vector": lambda: sd.SparseVector(
        threshold=1, positives=1, epsilon=1, sensitivity=COUNTING
    ),
    "above threshold": lambda: sd.AboveThreshold(threshold=1, epsilon=1, sensitivity=COUNTING),
    "step selection": lambda: sd.StepSelection(epsilon=1, sensitivity=COUNTING),
    "sum": lambda: sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=100),
    "mean": lambda: sd.ClippedMean(epsilon=1, adjacency="add-remove", lower=0, cap=100),
    "quantile": lambda: sd.Quantile(q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=100),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("made", LISTS)
@pytest.mark.each_value
def test_an_element_of_a_list_is_its_number_or_missing(made, kind):
    value, plain = VALUES[kind]
    mechanism = LISTS[made]()
    found, wanted = (
        mechanism.release([1, 2, one], entropy=sd.Seeded(3)).to_dict() for one in (value, plain)
    )
    assert json.dumps(found) == json.dumps(wanted)


class _Unhashable(type):
    """A type that cannot be put into a set."""

    def __eq__(cls, other):
        return cls is other

    __hash__ = None


class _RaisingHash(type):
    def __hash__(cls):
        raise RuntimeError(SECRET)


class _Silent:
    """A value that raises whatever it is asked for."""

    def __getattr__(self, name):
        raise RuntimeError(SECRET)


@pytest.mark.parametrize("kind", [_Unhashable, _RaisingHash], ids=lambda kind: kind.__name__)
def test_a_value_whose_type_has_no_hash_is_the_number_behind_it(kind):
    strange = kind("Strange", (float,), {})(5.5)
    for make in (
        lambda: sd.NoisyTopK(k=1, epsilon=1, sensitivity=sd.COUNTING),
        lambda: sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(3)),
        lambda: sd.ClippedSum(epsilon=1, lower=0, cap=100, adjacency="add-remove"),
    ):
        seen = [
            make().release([3, value, 7], entropy=sd.Seeded(1)).to_dict()
            for value in (strange, 5.5)
        ]
        assert seen[0] == seen[1]
    with sd.SparseVector(threshold=1, positives=1, epsilon=1, sensitivity=sd.COUNTING).open(
        entropy=sd.Seeded(1)
    ) as stream:
        assert SECRET not in repr(stream.ask(strange))


@pytest.mark.parametrize("name", ["silent", "liar"])
def test_a_single_answer_that_raises_says_nothing(name):
    answer = {"silent": _Silent, "liar": Liar}[name]()
    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    try:
        mechanism.release(answer, entropy=sd.Seeded(1))
    except sd.InvalidParameter as error:
        assert SECRET not in str(error)
