"""Noise that no seed would ever show: words never wrap, whatever is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from sordino import (
    COUNTING,
    SYSTEM,
    AdaptiveSparseVector,
    HybridSparseVector,
    HybridTopK,
    NoisyTopK,
    SparseVector,
)
from sordino.noise import DiscreteLaplace
from sordino.noise.geometric import _WORD_LIMIT

EDGE = _WORD_LIMIT - 1  # the furthest draw that a word holds
FAR = 1 << 90


def play(monkeypatch, *batches):
    """Make Laplace noise play these draws, as the sampler would hand them out."""
    left = [
        np.array(batch, dtype=object if max(map(abs, batch)) > EDGE else np.int64)
        for batch in batches
    ]
    monkeypatch.setattr(DiscreteLaplace, "sample", lambda _law, n, _entropy: left.pop(0)[:n])


@pytest.mark.parametrize("edge", [EDGE, FAR])
def test_gaps_of_a_top_k(monkeypatch, edge):
    m = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, noise="laplace")
    play(monkeypatch, [-edge, edge, -edge, -edge])
    found = m.release([-(2**60), 2**60, 7, 5], entropy=SYSTEM)
    assert found.indices.tolist() == [1, 2]
    assert found.gaps.tolist() == [float(2 * edge + 2**52 - 7), 2.0]


@pytest.mark.parametrize("edge", [EDGE, FAR])
def test_gaps_of_the_hybrids(monkeypatch, edge):
    top = HybridTopK(k=2, threshold=3, epsilon=1, sensitivity=COUNTING, noise="laplace")
    play(monkeypatch, [edge, -edge, -edge])  # the threshold comes last
    found = top.release([2**60, -(2**60)], entropy=SYSTEM)
    assert (found.indices.tolist(), found.gaps.tolist(), found.crossed) == (
        [0],
        [float(2 * edge + 2**52 - 3)],
        True,
    )
    vector = HybridSparseVector(
        k=1,
        threshold=3,
        epsilon=1,
        sensitivity=COUNTING,
        noise="laplace",
        threshold_noise="laplace",
    )
    play(monkeypatch, [-edge], [edge, -edge])
    found = vector.release([2**60, 0], entropy=SYSTEM)
    assert (found.indices.tolist(), found.gaps.tolist()) == ([0], [float(2 * edge + 2**52 - 3)])


@pytest.mark.parametrize("edge", [EDGE, FAR])
@pytest.mark.parametrize(
    "m",
    [
        SparseVector(
            threshold=-(2**52),
            positives=2,
            epsilon=1,
            sensitivity=COUNTING,
            noise="laplace",
            threshold_noise="laplace",
        ),
        AdaptiveSparseVector(
            threshold=-(2**52),
            at_least=2,
            epsilon=1,
            sensitivity=COUNTING,
            noise="laplace",
            threshold_noise="laplace",
            branches=1,
        ),
    ],
    ids=["sparse", "adaptive"],
)
def test_gaps_of_sparse_vectors_in_lists_and_streams(monkeypatch, m, edge):
    for threshold, query, gap in ((-edge, edge, float(2 * edge + 2**53)), (edge, -edge, None)):
        play(monkeypatch, [query], [threshold])
        assert m.release([2**60], entropy=SYSTEM).gaps.tolist() == ([] if gap is None else [gap])
        play(monkeypatch, [threshold], [query])
        with m.open(entropy=SYSTEM) as stream:
            assert stream.ask(2**60).gap == gap
