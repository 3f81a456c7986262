"""The audit plays many rows at once through the function that a release calls with one: it decides alike, in rows, alone and searched."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    GaussianMechanism,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    Seeded,
    grid,
)
from sordino.grid import largest
from sordino.mechanisms import additive, noisy_top_k
from sordino.mechanisms.noisy_top_k import decide
from sordino_audit.enumeration.subjects import subject_of


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.slow
def test_rows_are_decided_as_one_by_one(n):
    """All orders with ties of n values: what is compared is all that counts, and gaps of every size are differences."""
    rows = np.array(list(product(range(n), repeat=n)), dtype=np.int64) * 3
    for k in range(1, n + 1):
        winners, gaps = decide(rows, k)
        for row, best, leads in zip(rows, winners, gaps, strict=True):
            alone = decide(row, k)
            assert alone[0].tolist() == best.tolist()
            assert alone[1].tolist() == leads.tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.slow
def test_long_lists_are_searched_with_the_same_result(n, monkeypatch):
    rows = [np.array(row) for row in product(range(n), repeat=n)]
    sorted_ones = [[largest(row, m).tolist() for m in range(1, n + 1)] for row in rows]
    monkeypatch.setattr(grid, "_SHORT_LIST", 0)
    assert [[largest(row, m).tolist() for m in range(1, n + 1)] for row in rows] == sorted_ones


def test_the_boundary_between_sorting_and_searching_is_not_seen():
    entropy = np.random.default_rng(3)
    for n in (grid._SHORT_LIST, grid._SHORT_LIST + 1):
        for _ in range(50):
            row = entropy.integers(0, 9, n)
            assert (
                largest(row, 7).tolist()
                == sorted(range(n), key=lambda i, row=row: (-row[i], i))[:7]
            )


@pytest.mark.slow
def test_what_is_audited_is_what_is_released(monkeypatch):
    """A wrong decision put in the place of the right one changes releases, so it must not be a copy that is audited."""
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    subject = subject_of(mechanism, 3)
    assert subject.laws == (mechanism.noise,) * 3
    assert subject.played(np.array([3, 5, 4]), np.array([[0, 0, 1], [0, -4, -4]])).tolist() == [
        [1, 0],
        [0, 2],
    ]
    monkeypatch.setattr(noisy_top_k, "add", lambda steps, noise: steps + 0 * noise)
    assert mechanism.release([3, 5, 4], entropy=Seeded(1)).gaps.tolist() == [1], "no noise at all"
    with pytest.raises(
        InvalidParameter,
        match="a loss of at least 3.* where the noise allows 1 .* declares is false",
    ):
        audit.exact(mechanism, answers_a=(0, 0, 0), answers_b=(0, 1, 1))
    monkeypatch.undo()
    monkeypatch.setattr(
        noisy_top_k, "decide", lambda noisy, k: (noisy[..., :k] * 0, noisy[..., :k])
    )
    assert mechanism.release([3, 5, 4], entropy=Seeded(1)).indices.tolist() == [0]
    with pytest.raises(InvalidParameter, match=r"Subject\.shifts must be False"):
        audit.exact(mechanism, answers_a=(0, 0, 0), answers_b=(0, 1, 1))


class Handed:
    """A law whose draws are handed in."""

    variance = 1.0

    def __init__(self, noise):
        self.noise = np.array(noise)

    def sample(self, n, entropy):
        assert n == self.noise.size
        return self.noise


@pytest.mark.parametrize(
    ("mechanism", "answers", "released"),
    [
        (
            NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING),
            [3, 5, 5, 0],
            lambda top: [*top.indices.tolist(), *top.gaps.tolist()],
        ),
        (
            LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(3)),
            [3, -5, 7],
            lambda found: found.values.tolist(),
        ),
        (
            LaplaceMechanism(epsilon=1, sensitivity=COUNTING),
            [4],
            lambda found: found.values.tolist(),
        ),
        (
            GaussianMechanism(rho=1, sensitivity=COUNTING.over(2, "l2")),
            [3, -5],
            lambda found: found.values.tolist(),
        ),
    ],
)
def test_a_release_with_noise_that_is_handed_to_it_is_what_the_audit_plays(
    mechanism, answers, released
):
    """All that a release does to its noise is in the audited function: with a step of 1 both speak of the same numbers."""
    n = len(answers)
    subject = subject_of(mechanism, n)
    for noise in ([0] * n, list(range(n)), [-7, 11, 2, -30][:n]):
        expected = subject.played(subject.private(answers), np.array([noise]))[0].tolist()
        twin = dataclasses.replace(mechanism)
        assert twin.cost == mechanism.cost, "read before the law is exchanged"
        vars(twin)["noise"] = Handed(noise)
        assert released(twin.release(answers, entropy=Seeded(1))) == expected


def test_numbers_that_are_released_without_noise_are_convicted(monkeypatch):
    monkeypatch.setattr(additive, "add", lambda steps, noise: steps + 0 * noise)
    with pytest.raises(InvalidParameter, match="what the subject declares is false"):
        audit.exact(LaplaceMechanism(epsilon=1, sensitivity=COUNTING), answers_a=0, answers_b=1)


@pytest.mark.slow
def test_a_release_has_the_law_that_was_audited():
    """The sampler is proved elsewhere; here only that release and audit speak of the same mechanism."""
    mechanism = NoisyTopK(k=1, epsilon=2, sensitivity=COUNTING)
    book = audit.enumeration.outcomes.Book(
        subject_of(mechanism, 2),
        audit.enumeration.laws.region((mechanism.noise,) * 2, 1e-9, 10**6),
        lambda output: output[0],
    )
    law = book.outcomes(np.array([1, 0]))
    wins = float(law.certified(book._numbers[0])[0] / law.region.total[0])
    entropy = Seeded(5)
    hits = sum(int(mechanism.release([1, 0], entropy=entropy).indices[0]) == 0 for _ in range(4000))
    assert abs(hits / 4000 - wins) < 6 * 0.5 / 4000**0.5
