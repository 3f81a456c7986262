"""What a release holds in memory is what it says: its arrays are parts of no larger ones."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import sordino as sd

COUNTING = sd.COUNTING
LISTS = {
    "top k": sd.NoisyTopK(k=2, epsilon=8, sensitivity=COUNTING),
    "top k, Laplace": sd.NoisyTopK(k=2, epsilon=8, sensitivity=COUNTING, noise="laplace"),
    "top k, Gumbel": sd.NoisyTopK(k=2, epsilon=8, sensitivity=COUNTING, noise="gumbel"),
    "joint top k": sd.JointTopK(k=2, epsilon=8, sensitivity=COUNTING),
    "hybrid top k": sd.HybridTopK(k=2, threshold=100, epsilon=8, sensitivity=COUNTING),
    "hybrid sparse vector": sd.HybridSparseVector(
        k=2, threshold=100, epsilon=8, sensitivity=COUNTING
    ),
    "sparse vector": sd.SparseVector(threshold=100, positives=2, epsilon=8, sensitivity=COUNTING),
    "adaptive sparse vector": sd.AdaptiveSparseVector(
        threshold=100, at_least=2, epsilon=8, sensitivity=COUNTING
    ),
    "Gumbel sparse vector": sd.GumbelSparseVector(
        threshold=100, positives=2, epsilon=8, sensitivity=COUNTING
    ),
    "Gaussian sparse vector": sd.GaussianSparseVector(
        threshold=100, positives=2, rho=1, questions=200, sensitivity=COUNTING
    ),
    "above threshold": sd.AboveThreshold(threshold=100, epsilon=8, sensitivity=COUNTING),
    "Laplace": sd.LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(120)),
    "Gaussian": sd.GaussianMechanism(rho=1, sensitivity=COUNTING.over(120, "l2")),
    "exponential": sd.ExponentialMechanism(epsilon=1, sensitivity=COUNTING),
    "permute and flip": sd.PermuteAndFlip(epsilon=1, sensitivity=COUNTING),
}
ANSWERS = [500, 40, 30, 20, 10, 0]


def hidden(value):
    """Yield the memory that arrays of a value keep alive and do not show."""
    if isinstance(value, np.ndarray):
        if value.base is not None:
            yield value.base
    elif isinstance(value, list | tuple):
        for item in value:
            yield from hidden(item)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("made", LISTS)
@pytest.mark.each_value
def test_no_array_of_a_release_is_a_part_of_a_larger_one(made, times):
    """The first k of an order kept the noisy order of all items alive: epsilon 1 was told apart like 4."""
    release = LISTS[made].release(ANSWERS * times, entropy=sd.Seeded(5))
    for field in fields(release):
        assert list(hidden(getattr(release, field.name))) == [], field.name


def test_positions_of_a_domain_are_no_parts_either():
    top = sd.NoisyTopK(k=2, epsilon=8, sensitivity=COUNTING, domain_size=1000)
    release = top.release(np.array(ANSWERS), positions=np.arange(6), entropy=sd.Seeded(5))
    assert [list(hidden(getattr(release, field.name))) for field in fields(release)] == [[]] * len(
        fields(release)
    )
