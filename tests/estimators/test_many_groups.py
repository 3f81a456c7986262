"""Sums and means of many groups at once: each has the law that it has alone, and none knows of another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sordino import BucketCounts, ClippedMean, ClippedSum, Seeded
from sordino.columns.bucket_sums import BucketSums
from sordino.errors import InvalidParameter
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan
from sordino.noise import Geometric
from support.clipped_laws import scan_law
from support.fit import LEVEL

SHAPES = {
    "above": {"adjacency": "add-remove", "lower": 0},
    "magnitude": {"adjacency": "add-remove", "lower": None},
    "both": {"adjacency": "replace-one", "lower": None},
}
VALUES = [0.5, 2.0, 3.5, 7.0, -2.0, -6.0, None, 0.1, 0.2]


def made(shape, estimator=ClippedSum, **changed):
    return estimator(**{"epsilon": 2, "cap": 64, "growth": 2, **SHAPES[shape], **changed})


def repeated(values, ladder, groups):
    """The same records in each group."""
    one = BucketSums.of(values, ladder)
    size = one.bucket.size
    return replace(
        one,
        group=np.repeat(np.arange(groups), size),
        bucket=np.tile(one.bucket, groups),
        count=np.tile(one.count, groups),
        total=list(one.total) * groups,
        missing=np.tile(one.missing, groups),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
@pytest.mark.each_value
def test_one_group_is_what_it_is_alone(shape, estimator):
    subject = made(shape, estimator)
    for seed in range(20):
        [together] = subject.release_each(
            BucketSums.of(VALUES, subject.search.ladder), entropy=Seeded(seed)
        )
        assert together.to_dict() == subject.release(VALUES, entropy=Seeded(seed)).to_dict()


def law_of(subject, side):
    search = subject.search
    scan = search.scan
    answers, lengths = search.runs(BucketCounts.of(VALUES, grid=subject.grid))[side]
    tests = tuple(np.repeat(answers, lengths).tolist())
    return scan_law(scan.threshold, float(scan.threshold_noise.rate), float(scan.noise.rate), tests)


def fits(clips, subject, side):
    """Chi-square of which edge one of the searches found."""
    expected = np.array(law_of(subject, side)) * len(clips)
    found = np.zeros(expected.size)
    for clip in clips:
        tests = clip.tests[side]
        found[-1 if tests is None else tests - 1] += 1
    often = expected > 5
    pairs = [(found[often], expected[often]), (found[~often].sum(), expected[~often].sum())]
    observed, wanted = (np.append(*one) for one in zip(*pairs, strict=True))
    kept = wanted > 0
    return (
        stats.chisquare(
            observed[kept], wanted[kept] * observed[kept].sum() / wanted[kept].sum()
        ).pvalue
        > LEVEL
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_clips_of_many_groups_follow_their_law(shape):
    subject = made(shape, epsilon=6)
    clips = subject.search.release_each(
        repeated(VALUES, subject.search.ladder, 6000), entropy=Seeded(8)
    )
    assert all(fits(clips, subject, side) for side in range(len(clips[0].tests)))
    # Groups of the same edges have one clip, whose noise is drawn together.
    assert len({id(clip) for clip in clips}) == len({clip.tests for clip in clips})


def test_one_threshold_for_all_groups_is_convicted(monkeypatch):
    sample = Geometric.sample

    def shared(self, n, entropy):
        return np.repeat(sample(self, 1, entropy), n)

    monkeypatch.setattr(Geometric, "sample", shared)
    subject = made("above", epsilon=6)
    clips = subject.search.release_each(
        repeated(VALUES, subject.search.ladder, 6000), entropy=Seeded(8)
    )
    assert not fits(clips, subject, 0)


def test_noise_of_groups_is_their_own():
    subject = made("above", ClippedMean, epsilon=6)
    found = subject.release_each(repeated(VALUES, subject.search.ladder, 4000), entropy=Seeded(3))
    pairs = np.array([one.noisy for one in found if one.found.tests == (3,)], dtype=np.float64)
    law = next(one.noise.mechanism.noise for one in found if one.found.tests == (3,))
    assert len(pairs) > 500
    spread = pairs.std(axis=0)
    assert spread == pytest.approx(np.sqrt(law.variance), rel=0.15)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.15
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 0.15


def test_more_groups_than_are_looked_at_together(monkeypatch):
    subject = made("both")
    monkeypatch.setattr("sordino.columns.bucket_grid._CELLS_TOGETHER", 3 * (subject.grid.size + 1))
    sums = repeated(VALUES, subject.search.ladder, 10)
    assert len(subject.release_each(sums, entropy=Seeded(1))) == 10
    empty = replace(BucketSums.of([], subject.search.ladder), missing=np.zeros(7, dtype=np.int64))
    assert len(subject.release_each(empty, entropy=Seeded(1))) == 7
    assert subject.search.release_each(replace(empty, missing=np.zeros(0, dtype=np.int64))) == []


def test_levels_beyond_64_bits_are_searched_one_by_one():
    scan = ThresholdScan(
        (1 << 61) + 5,
        Geometric(made("above").search.scan.noise.rate),
        made("above").search.scan.noise,
    )
    answers = np.array([[0, (1 << 61) + 4], [0, 1]], dtype=np.int64)
    lengths = np.array([[3, 10**9], [1, 1]], dtype=np.int64)
    found = scan.first_each(answers, lengths, Seeded(4)).tolist()
    assert found[0] >= 3
    assert found[1] == -1


def test_sums_of_another_ladder_are_refused():
    one, other = made("above"), made("above", growth=3)
    with pytest.raises(InvalidParameter, match="its own ladder"):
        one.search.release_each(BucketSums.of(VALUES, other.search.ladder))
