"""What every selection and sparse vector refuses before it looks at an answer: public mistakes, each with a sentence that names it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import (
    COUNTING,
    SYSTEM,
    AdaptiveSparseVector,
    ExponentialMechanism,
    GaussianSparseVector,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    InvalidParameter,
    JointTopK,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    SparseVector,
    StepSelection,
)

COMMON = {"epsilon": 1, "sensitivity": COUNTING}
VECTORS = {
    "SparseVector": lambda **other: SparseVector(
        **{"threshold": 3, "positives": 2} | COMMON | other
    ),
    "AdaptiveSparseVector": lambda **other: AdaptiveSparseVector(
        **{"threshold": 3, "at_least": 2} | COMMON | other
    ),
    "GumbelSparseVector": lambda **other: GumbelSparseVector(
        **{"threshold": 3, "positives": 2} | COMMON | other
    ),
    "GaussianSparseVector": lambda **other: GaussianSparseVector(
        **{"threshold": 3, "positives": 2, "rho": 1, "sensitivity": COUNTING, "questions": 9}
        | other
    ),
}
LISTS = {
    "NoisyTopK": lambda **other: NoisyTopK(**{"k": 3} | COMMON | other),
    "JointTopK": lambda **other: JointTopK(**{"k": 3} | COMMON | other),
    "HybridTopK": lambda **other: HybridTopK(**{"k": 3, "threshold": 5} | COMMON | other),
    "HybridSparseVector": lambda **other: HybridSparseVector(
        **{"k": 3, "threshold": 5} | COMMON | other
    ),
}
CHOICES = {
    "ExponentialMechanism": lambda: ExponentialMechanism(**COMMON),
    "PermuteAndFlip": lambda: PermuteAndFlip(**COMMON),
    "RandomizedResponse": lambda: RandomizedResponse(epsilon=1),
    "StepSelection": lambda: StepSelection(**COMMON),
}
EVERY = VECTORS | LISTS | CHOICES


class Unused:
    """Entropy that nobody may ask: what is refused draws no noise."""

    simulated = True

    def words(self, n):
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize("name", EVERY)
def test_no_candidates(name):
    for nothing in ([], np.zeros(0), ()):
        with pytest.raises(
            InvalidParameter,
            match=rf"^{name}\.release needs a number or a one-dimensional array of at least one",
        ):
            EVERY[name]().release(nothing, entropy=Unused())


@pytest.mark.parametrize("name", LISTS)
def test_fewer_candidates_than_k(name):
    with pytest.raises(
        InvalidParameter, match=rf"^{name}\.k must be at most the number of answers 2; got 3\.$"
    ):
        LISTS[name]().release([1, 2], entropy=Unused())
    with pytest.raises(
        InvalidParameter, match=rf"^{name}\.k must be at most the domain size 2; got 3\.$"
    ):
        LISTS[name](domain_size=2)
    with pytest.raises(
        InvalidParameter,
        match=rf"^{name}\.release takes positions only when domain_size was given\.$",
    ):
        LISTS[name]().release([1, 2, 3], positions=[0, 1, 2], entropy=Unused())


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, math.nan, "2"])
def test_how_many(bad):
    for name, make in VECTORS.items():
        what = "at_least" if name == "AdaptiveSparseVector" else "positives"
        with pytest.raises(InvalidParameter, match=rf"^{name}\.{what} must be"):
            make(**{what: bad})
    for name, make in LISTS.items():
        with pytest.raises(InvalidParameter, match=rf"^{name}\.k must be"):
            make(k=bad)
    with pytest.raises(InvalidParameter, match=r"^SparseVector\.passes must be"):
        VECTORS["SparseVector"](passes=bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, math.inf, "9", (1 << 52) + 1])
def test_domain_sizes(bad):
    for name, make in (
        LISTS | {name: VECTORS[name] for name in ("SparseVector", "AdaptiveSparseVector")}
    ).items():
        with pytest.raises(
            InvalidParameter, match=rf"^{name}\.domain_size must be a whole number from 1 to 2\^52"
        ):
            make(domain_size=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "3", 1 << 60])
def test_thresholds_that_are_no_finite_numbers(bad):
    for name, make in VECTORS.items():
        for thresholds in ([1, bad], np.array([1, bad], dtype=object)):
            with pytest.raises(InvalidParameter, match=rf"^{name}\.release\.thresholds must"):
                make().release([1, 2], thresholds, entropy=Unused())
    for name, make in (
        VECTORS | {name: LISTS[name] for name in ("HybridTopK", "HybridSparseVector")}
    ).items():
        with pytest.raises(InvalidParameter, match=rf"^{name}\.threshold must"):
            make(threshold=bad)
    for name in ("SparseVector", "AdaptiveSparseVector", "GaussianSparseVector"):
        if bad is not None:  # the mechanism's own
            with (
                VECTORS[name]().open(entropy=SYSTEM) as stream,
                pytest.raises(InvalidParameter, match=rf"^{name}\.threshold must"),
            ):
                stream.ask(5, bad)


@pytest.mark.parametrize("thresholds", [[], [1], [1, 2, 3], 5, [[1, 2]], "12", np.ones((2, 1))])
def test_thresholds_of_the_wrong_length(thresholds):
    for name, make in VECTORS.items():
        with pytest.raises(
            InvalidParameter, match=rf"^{name}\.release\.thresholds must be a list of 2 numbers"
        ):
            make().release([1, 2], thresholds, entropy=Unused())


@pytest.mark.parametrize("bad", [0, -1, (), (2, 1), (0, 1), 33, 1.5, None])
def test_branches(bad):
    with pytest.raises(
        InvalidParameter,
        match=r"^AdaptiveSparseVector\.branches must be a whole number from 1 to 32",
    ):
        VECTORS["AdaptiveSparseVector"](branches=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "best", True])
def test_corrections(bad):
    for name in ("SparseVector", "AdaptiveSparseVector"):
        with pytest.raises(InvalidParameter, match=rf"^{name}\.correction must be"):
            VECTORS[name](correction=bad)


def test_a_stream_has_one_pass_and_no_domain():
    for options in ({"passes": 2}, {"domain_size": 9}):
        with pytest.raises(
            InvalidParameter,
            match=r"^SparseVector\.open needs a mechanism with one pass and without a domain size",
        ):
            VECTORS["SparseVector"](**options).open(entropy=Unused())
    with pytest.raises(
        InvalidParameter,
        match=r"^AdaptiveSparseVector\.open needs a mechanism without a domain size",
    ):
        VECTORS["AdaptiveSparseVector"](domain_size=9).open(entropy=Unused())


@pytest.mark.parametrize("name", VECTORS)
def test_what_is_no_number_is_an_ordinary_lowest_answer(name):
    """Private: nothing is refused, and nothing else happens than to an answer far below."""
    made = VECTORS[name](
        threshold=0,
        **(
            {"noise": "laplace"}
            if name not in {"GumbelSparseVector", "GaussianSparseVector"}
            else {}
        ),
    )
    for strange in (math.nan, -math.inf, None, "nan", b"5", object()):
        assert made.release([strange, 1 << 50], entropy=SYSTEM).indices.tolist() == [1]
