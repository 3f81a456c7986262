"""Every door behind which noise is drawn, each with a private number in what it is handed.

The keys are the names of the methods in the library; an architecture test finds a door that is missing here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import sordino as sd
from sordino.columns import BucketCounts, Total
from sordino.columns.bucket_sums import BucketSums
from sordino.columns.clipped_steps import Moments
from sordino.estimators.clipped.clipped_again import ClippedAgain
from sordino.estimators.column_release import count_numbers
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.estimators.quantiles.weighed_quantiles import WeighedQuantiles
from sordino.estimators.quantiles.weigher import build_weigher, find_weight
from sordino.sensitivity import Sensitivity
from sordino.session.bounded_total import BoundedFigure, BoundedTotal
from sordino.session.column_figures import PrivateNumbers
from sordino.session.local import LocalReports
from sordino.session.table_numbers import TableNumbers

COUNTING = sd.COUNTING
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
UNLISTED = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=2)
COLUMN = {"adjacency": "add-remove", "cap": 1e9, "epsilon": 1}
SMOOTH = {"beta": 0.05, "candidates": 4, "ceiling": 8, "floor": 0.5, "epsilon": 1}

Door = Callable[[Any, Any], Any]
"""From a private number and entropy to a release."""


def _answers(plant: Any) -> list[Any]:
    return [3, plant, 5, 7]


def _counts(estimator: Any, plant: Any) -> sd.BucketCounts:
    counts = np.full(estimator.grid.size + 1, 3, dtype=np.int64)
    counts[2] = int(plant) % (1 << 40)
    return sd.BucketCounts(grid=estimator.grid, counts=counts)


def _clip(estimator: Any, entropy: Any) -> Any:
    return estimator.clip_from(sd.BucketCounts.of([4, 5, 6], grid=estimator.grid), entropy=entropy)


def _release(make: Callable[[], Any]) -> Door:
    return lambda plant, entropy: make().release(_answers(plant), entropy=entropy)


def _release_each(make: Callable[[], Any]) -> Door:
    def door(plant: Any, entropy: Any) -> Any:
        estimator = make()
        return estimator.release_each([_counts(estimator, plant)], entropy=entropy)

    return door


def _unlisted(make: Callable[[], Any]) -> Door:
    return lambda plant, entropy: make().release(
        _answers(plant), labels=["a", f"label {plant}", "b", "c"], entropy=entropy
    )


def _one(make: Callable[[], Any]) -> Door:
    return lambda plant, entropy: make().release(plant, entropy=entropy)


def _asked(make: Callable[[], Any]) -> Door:
    def door(plant: Any, entropy: Any) -> Any:
        with make().open(entropy=entropy) as stream:
            return [stream.ask(plant), stream.ask(plant)]

    return door


def _clipped_sum() -> Any:
    return sd.ClippedSum(lower=0, **COLUMN)


def _clipped_sums() -> Any:
    return sd.ClippedSums(groups=2, lower=0, **COLUMN)


def _clipped_means(weight_cap: int | None = None) -> Any:
    return sd.ClippedMeans(groups=2, lower=0, weight_cap=weight_cap, **COLUMN)


def _weighed() -> Any:
    return WeighedQuantiles(
        searches=sd.Quantile(q=0.5, lower=0, rows_per_unit=4, **COLUMN),
        bits=2,
        adjacency="add-remove",
        grouped=False,
        weigher=build_weigher(1, "add-remove", 4),
        weight_cap=None,
    )


def _count_rows(plant: float) -> Any:
    return BucketCounts.of([float(plant)], grid=_weighed().row_grid)


def _clipped_variances(weight_cap: int | None = None) -> Any:
    return sd.ClippedVariances(groups=2, lower=0, weight_cap=weight_cap, **COLUMN)


def _clipped_mean() -> Any:
    return sd.ClippedMean(lower=0, **COLUMN)


def _clipped_variance() -> Any:
    return sd.ClippedVariance(lower=0, **COLUMN)


def _again(figure: Any, total: Any, entropy: Any) -> Any:
    again = ClippedAgain(
        figure=figure, clips=(_clip(figure, sd.SYSTEM),), budget=sd.cost.Pure(epsilon=1)
    )
    return again.release_one(total, 3, 0, entropy=entropy)


def _add_noise(figure: Any, total: Any, entropy: Any) -> Any:
    clip = _clip(figure, sd.SYSTEM)
    return figure.add_noise(total, 3, clip, figure.noise_for(clip), entropy=entropy)


def _figure(plant: Any, entropy: Any) -> Any:
    total = BoundedTotal(
        kind="sum", epsilon=1, adjacency="add-remove", lower=0, cap=100, bounds=(0, 10**9)
    )
    return total.release(BoundedFigure(Total(int(plant), 3, 0), None), entropy=entropy)


def _sums(estimator: Any, plant: Any) -> BucketSums:
    return BucketSums.of([3.0, float(plant), 5.0], estimator.search.ladder)


def _table(plant: Any, entropy: Any) -> Any:
    shared = count_numbers(Fraction(1, 20), adjacency="add-remove", rows=1)
    mechanism = TableNumbers(estimator=_clipped_sum(), adjacency="add-remove", shared=shared)
    numbers = PrivateNumbers(_sums(mechanism.estimator, plant), int(plant), int(plant))
    return mechanism.release(numbers, entropy=entropy)


def _local(plant: Any, entropy: Any) -> Any:
    mechanism = sd.CompositeMechanism(lower=0, upper=100, epsilon=1)
    return LocalReports(mechanism=mechanism).release(
        iter([np.array([3.0, float(plant)])]), entropy=entropy
    )


def _markers(plant: Any, entropy: Any) -> Any:
    b, c = [128, int(plant) % (1 << 40), 96], [72, 97, 101]
    return sd.genomics.most_significant(
        b=b, c=c, families=150, epsilon=1, method="step", entropy=entropy
    )


DOORS: dict[str, Door] = {
    "AboveThreshold.release": _release(
        lambda: sd.AboveThreshold(threshold=10**12, epsilon=0.01, sensitivity=COUNTING)
    ),
    "AdaptiveSparseVector.open": _asked(
        lambda: sd.AdaptiveSparseVector(
            threshold=10**12, at_least=2, epsilon=0.01, sensitivity=COUNTING
        )
    ),
    "AdaptiveSparseVector.release": _release(
        lambda: sd.AdaptiveSparseVector(
            threshold=10**12, at_least=2, epsilon=0.01, sensitivity=COUNTING
        )
    ),
    "BoundedTotal.release": _figure,
    "ClipSearch.release": lambda plant, entropy: _clipped_sum().search.release(
        _counts(_clipped_sum(), plant), entropy=entropy
    ),
    "ClippedAgain.release_one": lambda plant, entropy: _again(_clipped_sum(), int(plant), entropy),
    "ClipSearch.release_each": lambda plant, entropy: _clipped_sum().search.release_each(
        _sums(_clipped_sum(), plant), entropy=entropy
    ),
    "ClippedColumn.clip_from": lambda plant, entropy: _clipped_mean().clip_from(
        _counts(_clipped_mean(), plant), entropy=entropy
    ),
    "ClippedMean.add_noise": lambda plant, entropy: _add_noise(
        _clipped_mean(), int(plant), entropy
    ),
    "ClippedMean.finish": lambda plant, entropy: _clipped_mean().finish(
        int(plant), 3, _clip(_clipped_mean(), sd.SYSTEM), entropy=entropy
    ),
    "ClippedMean.release": _release(_clipped_mean),
    "NoisyTotals.add_noise": lambda plant, entropy: _add_noise(_clipped_sum(), int(plant), entropy),
    "ClippedSum.finish": lambda plant, entropy: _clipped_sum().finish(
        int(plant), _clip(_clipped_sum(), sd.SYSTEM), entropy=entropy
    ),
    "ClippedSum.release": _release(_clipped_sum),
    "ClippedMeans.add_noise": lambda plant, entropy: _add_noise(
        _clipped_means(2), int(plant), entropy
    ),
    "WeighedClip.find_clips": lambda plant, entropy: _clipped_means().find_clips(
        _clipped_means().count_each([([plant] * 3, 1.0)], 2), entropy=entropy
    ),
    "WeighedClip.find_weight": lambda plant, entropy: _clipped_means().find_weight(
        _clipped_means().count_rows([([plant] * 3, 1.0)]), entropy=entropy
    ),
    "find_weight": lambda plant, entropy: find_weight(
        _weighed().weigher, None, _count_rows(plant), entropy=entropy
    ),
    "WeighedQuantiles.find_weight": lambda plant, entropy: _weighed().find_weight(
        _count_rows(plant), entropy=entropy
    ),
    "WeighedQuantiles.release_each": lambda plant, entropy: _weighed().release_each(
        [BucketCounts.of([plant], grid=_weighed().grid)], 2, entropy=entropy
    ),
    "ClippedMeans.finish_each": lambda plant, entropy: _clipped_means().finish_each(
        [(int(plant), 3), (1, 1)], [_clip(_clipped_means(), sd.SYSTEM)] * 2, 2, entropy=entropy
    ),
    "ClippedMeans.release": lambda plant, entropy: _clipped_means().release(
        [([plant, 2.0], 1.0)], entropy=entropy
    ),
    "SharedClip.clip_from": lambda plant, entropy: _clipped_sums().clip_from(
        _clipped_sums().count_wholes([(plant, 1.0)]), entropy=entropy
    ),
    "ClippedSums.finish_each": lambda plant, entropy: _clipped_sums().finish_each(
        [int(plant), 3], _clip(_clipped_sums(), sd.SYSTEM), entropy=entropy
    ),
    "ClippedSums.release": lambda plant, entropy: _clipped_sums().release(
        [(plant, 1.0)], entropy=entropy
    ),
    "ClippedVariance.add_noise": lambda plant, entropy: _add_noise(
        _clipped_variance(), (3, 0, int(plant), int(plant)), entropy
    ),
    "ClippedVariance.finish": lambda plant, entropy: _clipped_variance().finish(
        (3, 0, int(plant), int(plant)), _clip(_clipped_variance(), sd.SYSTEM), entropy=entropy
    ),
    "ClippedVariance.finish_each": lambda plant, entropy: _clipped_variance().finish_each(
        [Moments(3, 0, int(plant), int(plant) ** 2)],
        [_clip(_clipped_variance(), sd.SYSTEM)],
        entropy=entropy,
    ),
    "ClippedVariance.release": _release(_clipped_variance),
    "ClippedVariances.add_noise": lambda plant, entropy: _add_noise(
        _clipped_variances(2), (3, 0, int(plant), int(plant)), entropy
    ),
    "ClippedVariances.finish_each": lambda plant, entropy: _clipped_variances().finish_each(
        [(3, 0, int(plant), int(plant))] * 2,
        _clip(_clipped_variances(), sd.SYSTEM),
        2,
        entropy=entropy,
    ),
    "ClippedVariances.release": lambda plant, entropy: _clipped_variances().release(
        [([plant, 2.0], 1.0)], entropy=entropy
    ),
    "CompositeMechanism.release": _one(
        lambda: sd.CompositeMechanism(lower=0, upper=10**12, epsilon=1)
    ),
    "CompositeMechanism.reports": lambda plant, entropy: sd.CompositeMechanism(
        lower=0, upper=10**12, epsilon=1
    ).reports(_answers(plant), entropy=entropy),
    "CompositeTable.release": _one(
        lambda: sd.CompositeTable(lower=0, upper=10**12, epsilon=1, inputs=5)
    ),
    "CompositeTable.reports": lambda plant, entropy: sd.CompositeTable(
        lower=0, upper=10**12, epsilon=1, inputs=5
    ).reports(_answers(plant), entropy=entropy),
    "ExponentialMechanism.release": _release(
        lambda: sd.ExponentialMechanism(epsilon=1, sensitivity=COUNTING)
    ),
    "FoldedMechanism.release": _one(
        lambda: sd.FoldedMechanism(lower=0, upper=2**40, epsilon=1, sensitivity=COUNTING)
    ),
    "GaussianMechanism.release": _one(lambda: sd.GaussianMechanism(rho=0.01, sensitivity=COUNTING)),
    "GaussianSparseVector.open": _asked(
        lambda: sd.GaussianSparseVector(
            threshold=10**12, positives=2, rho=0.01, sensitivity=COUNTING, questions=5
        )
    ),
    "GaussianSparseVector.release": _release(
        lambda: sd.GaussianSparseVector(
            threshold=10**12, positives=2, rho=0.01, sensitivity=COUNTING, questions=5
        )
    ),
    "GumbelSparseVector.release": _release(
        lambda: sd.GumbelSparseVector(
            threshold=10**12, positives=2, epsilon=0.01, sensitivity=COUNTING
        )
    ),
    "HybridSparseVector.release": _release(
        lambda: sd.HybridSparseVector(k=2, threshold=10**12, epsilon=0.01, sensitivity=COUNTING)
    ),
    "HybridTopK.release": _release(
        lambda: sd.HybridTopK(k=2, threshold=10**12, epsilon=0.01, sensitivity=COUNTING)
    ),
    "HistogramTopK.release": _release(
        lambda: sd.HistogramTopK(k=2, epsilon=0.01, sensitivity=COUNTING.over(1 << 20))
    ),
    "JointTopK.release": _release(lambda: sd.JointTopK(k=2, epsilon=0.01, sensitivity=COUNTING)),
    "LaplaceMechanism.release": _one(
        lambda: sd.LaplaceMechanism(epsilon=0.001, sensitivity=COUNTING)
    ),
    "LimitedTopK.release": _unlisted(
        lambda: sd.LimitedTopK(k=2, best=3, epsilon=0.001, delta=1e-9, sensitivity=COUNTING)
    ),
    "LocalReports.release": _local,
    "NoisyTopK.release": _release(lambda: sd.NoisyTopK(k=2, epsilon=0.01, sensitivity=COUNTING)),
    "PermuteAndFlip.release": _release(lambda: sd.PermuteAndFlip(epsilon=1, sensitivity=COUNTING)),
    "Quantile.release": _release(lambda: sd.Quantile(q=0.5, lower=0, **COLUMN)),
    "ColumnQuantiles.release_each": _release_each(lambda: sd.Quantile(q=0.5, lower=0, **COLUMN)),
    "QuantileInterval.release": _release(lambda: sd.QuantileInterval(q=0.5, lower=0, **COLUMN)),
    "QuantilesWithIntervals.release": _release(
        lambda: QuantilesWithIntervals(
            sd.Quantile(q=0.5, lower=0, **COLUMN), (sd.QuantileInterval(q=0.5, lower=0, **COLUMN),)
        )
    ),
    "QuantilesWithIntervals.release_each": _release_each(
        lambda: QuantilesWithIntervals(
            sd.Quantile(q=0.5, lower=0, **COLUMN), (sd.QuantileInterval(q=0.5, lower=0, **COLUMN),)
        )
    ),
    "Quantiles.release": _release(lambda: sd.Quantiles(q=(0.25, 0.5, 0.75), lower=0, **COLUMN)),
    "RandomizedResponse.release": _release(lambda: sd.RandomizedResponse(epsilon=1)),
    "SmoothMechanism.release": lambda plant, entropy: sd.SmoothMechanism(
        epsilon=1, beta=0.05, ceiling=8, floor=0.5, law="quartic"
    ).release(plant, smooth_bound=2, entropy=entropy),
    "SmoothSelection.release": lambda plant, entropy: sd.SmoothSelection(**SMOOTH).release(
        _answers(plant), smooth_bound=2, entropy=entropy
    ),
    "SmoothStepSelection.release": lambda plant, entropy: sd.SmoothStepSelection(**SMOOTH).release(
        _answers(plant), smooth_bound=2, entropy=entropy
    ),
    "SparseVector.open": _asked(
        lambda: sd.SparseVector(threshold=10**12, positives=2, epsilon=0.01, sensitivity=COUNTING)
    ),
    "SparseVector.release": _release(
        lambda: sd.SparseVector(threshold=10**12, positives=2, epsilon=0.01, sensitivity=COUNTING)
    ),
    "StepSelection.release": _release(lambda: sd.StepSelection(epsilon=1, sensitivity=EITHER)),
    "SummedColumn.release_each": lambda plant, entropy: _clipped_mean().release_each(
        _sums(_clipped_mean(), plant), entropy=entropy
    ),
    "TableNumbers.release": _table,
    "UnlistedHistogram.release": _unlisted(
        lambda: sd.UnlistedHistogram(epsilon=0.01, delta=1e-9, sensitivity=UNLISTED, above=10**12)
    ),
    "UnlistedTopK.release": _unlisted(
        lambda: sd.UnlistedTopK(k=2, epsilon=0.01, delta=1e-9, sensitivity=UNLISTED, above=10**12)
    ),
    "most_significant": _markers,
}
