"""The mechanisms, one file each.

Public parameters are fields, private answers an argument of `release`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.mechanisms.above_threshold import AboveThreshold as AboveThreshold
    from sordino.mechanisms.adaptive_sparse_vector import (
        AdaptiveSparseVector as AdaptiveSparseVector,
    )
    from sordino.mechanisms.additive import (
        GaussianMechanism as GaussianMechanism,
        LaplaceMechanism as LaplaceMechanism,
    )
    from sordino.mechanisms.composite import CompositeMechanism as CompositeMechanism
    from sordino.mechanisms.composite_table import CompositeTable as CompositeTable
    from sordino.mechanisms.crossings.counted_stream import CountedStream as CountedStream
    from sordino.mechanisms.crossings.stream import Stream as Stream
    from sordino.mechanisms.exponential_mechanism import (
        ExponentialMechanism as ExponentialMechanism,
    )
    from sordino.mechanisms.folded import FoldedMechanism as FoldedMechanism
    from sordino.mechanisms.gaussian_sparse_vector import (
        GaussianSparseVector as GaussianSparseVector,
    )
    from sordino.mechanisms.gumbel_sparse_vector import GumbelSparseVector as GumbelSparseVector
    from sordino.mechanisms.histogram_top_k import HistogramTopK as HistogramTopK
    from sordino.mechanisms.hybrid_sparse_vector import HybridSparseVector as HybridSparseVector
    from sordino.mechanisms.hybrid_top_k import HybridTopK as HybridTopK
    from sordino.mechanisms.joint_top_k import JointTopK as JointTopK
    from sordino.mechanisms.noisy_top_k import NoisyTopK as NoisyTopK
    from sordino.mechanisms.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from sordino.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
    from sordino.mechanisms.smooth.smooth_mechanism import SmoothMechanism as SmoothMechanism
    from sordino.mechanisms.smooth.smooth_selection import SmoothSelection as SmoothSelection
    from sordino.mechanisms.smooth.smooth_step_selection import (
        SmoothStepSelection as SmoothStepSelection,
    )
    from sordino.mechanisms.sparse_vector import SparseVector as SparseVector
    from sordino.mechanisms.step_selection import StepSelection as StepSelection
    from sordino.mechanisms.unlisted.limited_top_k import LimitedTopK as LimitedTopK
    from sordino.mechanisms.unlisted.unlisted_histogram import (
        UnlistedHistogram as UnlistedHistogram,
    )
    from sordino.mechanisms.unlisted.unlisted_top_k import UnlistedTopK as UnlistedTopK
else:
    __getattr__, __dir__ = lazy(__name__)
