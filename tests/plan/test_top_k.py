"""A list or a set: the rule says when a set wins, and real releases say so, too."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import COUNTING, InvalidParameter, JointTopK, NoisyTopK, Seeded, Sensitivity
from sordino.plan import choose_top_k
from sordino.plan.top_k import find_needed


def synthetic(k, m, decay, kth):
    return np.round(kth * (k / np.arange(1.0, m + 1)) ** decay).astype(np.int64)


def recall(mechanism, counts, runs=30):
    k, entropy = mechanism.k, Seeded(5)
    least = counts[k - 1]
    found = [mechanism.release(counts, entropy=entropy).indices for _ in range(runs)]
    # Ties with the last of the best count as found.
    return np.mean([(counts[indices] >= least).mean() for indices in found])


SHAPES = [
    (10, 3000, 1.0),
    (10, 100_000, 0.8),
    (100, 3000, 0.8),
    (25, 3000, 0.5),
    (100, 100_000, 0.3),
]


@pytest.mark.parametrize(("k", "m", "decay"), SHAPES)
@pytest.mark.sample(4)
def test_a_set_has_hardly_a_wrong_item_above_what_is_needed_and_many_below(k, m, decay):
    known = {"k": k, "epsilon": 1, "sensitivity": COUNTING}
    needed = find_needed(k, m, decay)
    above = synthetic(k, m, decay, 1.25 * needed * k)
    assert recall(JointTopK(**known), above) > 0.98
    assert recall(JointTopK(**known), above) > recall(NoisyTopK(**known), above) + 0.02
    below = synthetic(k, m, decay, 0.6 * needed * k)
    assert recall(JointTopK(**known), below) < 0.5
    assert recall(JointTopK(**known), below) < recall(NoisyTopK(**known), below)


def test_what_is_needed_is_where_no_count_of_wrong_sets_outweighs_the_best():
    """All counts beyond the k-th are 0: the logarithm of each number of wrong sets, against what they lose."""
    k, m = 40, 4000
    for decay in (0.0, 0.5, 1.0):
        needed = find_needed(k, m, decay)
        logs = [
            math.lgamma(m - h + 1) - math.lgamma(k - h + 2) - math.lgamma(m - k)
            for h in range(1, k + 1)
        ]
        loss = [needed * k / 2 * (k / h) ** decay for h in range(1, k + 1)]
        worst = max(one - other for one, other in zip(logs, loss, strict=True))
        assert -10 < worst < 10, "of two hundred or more nats"


def test_the_rule():
    known = {"k": 100, "m": 3000, "epsilon": 1}
    needed = find_needed(100, 3000, 0.5)
    assert isinstance(choose_top_k(**known).mechanism, NoisyTopK)
    assert isinstance(choose_top_k(**known, kth_count=99 * needed).mechanism, NoisyTopK)
    found = choose_top_k(**known, kth_count=101 * needed)
    assert found.mechanism == JointTopK(k=100, epsilon=1, sensitivity=COUNTING)
    assert (found.kth, found.needed) == (pytest.approx(1.01 * needed), needed)
    assert isinstance(choose_top_k(**known, kth_count=10**9, ordered=True).mechanism, NoisyTopK)
    # Counts that move both ways have twice the noise in either; flat lists need more than steep ones.
    either = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
    assert choose_top_k(**known, kth_count=150 * needed, sensitivity=either).kth == pytest.approx(
        0.75 * needed
    )
    assert find_needed(100, 3000, 0) > 2 * needed > 2 * find_needed(100, 3000, 1)
    for choice in (choose_top_k(**known), found, choose_top_k(**known, kth_count=5)):
        assert choice.why.startswith(type(choice.mechanism).__name__ + ": ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 0}, r"plan\.choose_top_k\.k must be a whole number, at least 1; got 0\."),
        ({"k": 3000}, r"plan\.choose_top_k\.k must be less than m, 3000; got 3000\."),
        ({"m": 1.5}, r"plan\.choose_top_k\.m must be a whole number from 1 to 2\^52; got 1\.5\."),
        ({"epsilon": 0}, r"plan\.choose_top_k\.epsilon must be"),
        (
            {"kth_count": -1},
            r"plan\.choose_top_k\.kth_count must be a number in \[0, inf\); got -1\.",
        ),
        ({"decay": -1}, r"plan\.choose_top_k\.decay must be"),
        ({"ordered": 1}, r"plan\.choose_top_k\.ordered must be True or False; got 1\."),
    ],
)
def test_mistakes_are_named(changes, words):
    with pytest.raises(InvalidParameter, match=f"^{words}"):
        choose_top_k(**({"k": 100, "m": 3000, "epsilon": 1} | changes))
