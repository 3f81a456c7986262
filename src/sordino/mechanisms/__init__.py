"""The mechanisms, one file each. Public parameters are fields, private answers an argument of `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.mechanisms.above_threshold import AboveThreshold
    from sordino.mechanisms.adaptive_sparse_vector import AdaptiveSparseVector
    from sordino.mechanisms.additive import GaussianMechanism, LaplaceMechanism
    from sordino.mechanisms.composite import CompositeMechanism
    from sordino.mechanisms.composite_table import CompositeTable
    from sordino.mechanisms.crossings.counted_stream import CountedStream
    from sordino.mechanisms.crossings.stream import Stream
    from sordino.mechanisms.exponential_mechanism import ExponentialMechanism
    from sordino.mechanisms.folded import FoldedMechanism
    from sordino.mechanisms.gaussian_sparse_vector import GaussianSparseVector
    from sordino.mechanisms.gumbel_sparse_vector import GumbelSparseVector
    from sordino.mechanisms.hybrid_sparse_vector import HybridSparseVector
    from sordino.mechanisms.hybrid_top_k import HybridTopK
    from sordino.mechanisms.noisy_top_k import NoisyTopK
    from sordino.mechanisms.permute_and_flip import PermuteAndFlip
    from sordino.mechanisms.randomized_response import RandomizedResponse
    from sordino.mechanisms.smooth.smooth_mechanism import SmoothMechanism
    from sordino.mechanisms.smooth.smooth_selection import SmoothSelection
    from sordino.mechanisms.smooth.smooth_step_selection import SmoothStepSelection
    from sordino.mechanisms.sparse_vector import SparseVector
    from sordino.mechanisms.step_selection import StepSelection

_HOMES = {
    "above_threshold": ("AboveThreshold",),
    "adaptive_sparse_vector": ("AdaptiveSparseVector",),
    "additive": ("GaussianMechanism", "LaplaceMechanism"),
    "composite": ("CompositeMechanism",),
    "composite_table": ("CompositeTable",),
    "crossings.counted_stream": ("CountedStream",),
    "exponential_mechanism": ("ExponentialMechanism",),
    "folded": ("FoldedMechanism",),
    "gaussian_sparse_vector": ("GaussianSparseVector",),
    "gumbel_sparse_vector": ("GumbelSparseVector",),
    "hybrid_sparse_vector": ("HybridSparseVector",),
    "hybrid_top_k": ("HybridTopK",),
    "noisy_top_k": ("NoisyTopK",),
    "permute_and_flip": ("PermuteAndFlip",),
    "randomized_response": ("RandomizedResponse",),
    "smooth.smooth_mechanism": ("SmoothMechanism",),
    "smooth.smooth_selection": ("SmoothSelection",),
    "smooth.smooth_step_selection": ("SmoothStepSelection",),
    "sparse_vector": ("SparseVector",),
    "step_selection": ("StepSelection",),
    "crossings.stream": ("Stream",),
}
__all__ = [
    "AboveThreshold",
    "AdaptiveSparseVector",
    "CompositeMechanism",
    "CompositeTable",
    "CountedStream",
    "ExponentialMechanism",
    "FoldedMechanism",
    "GaussianMechanism",
    "GaussianSparseVector",
    "GumbelSparseVector",
    "HybridSparseVector",
    "HybridTopK",
    "LaplaceMechanism",
    "NoisyTopK",
    "PermuteAndFlip",
    "RandomizedResponse",
    "SmoothMechanism",
    "SmoothSelection",
    "SmoothStepSelection",
    "SparseVector",
    "StepSelection",
    "Stream",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
