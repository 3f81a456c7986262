"""One algorithm, one file: public parameters in fields, private answers as an argument of `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.mechanisms._above_threshold import AboveThreshold
    from sordino.mechanisms._adaptive_sparse_vector import AdaptiveSparseVector
    from sordino.mechanisms._additive import GaussianMechanism, LaplaceMechanism
    from sordino.mechanisms._composite import CompositeMechanism
    from sordino.mechanisms._composite_table import CompositeTable
    from sordino.mechanisms._counted_stream import CountedStream
    from sordino.mechanisms._exponential_mechanism import ExponentialMechanism
    from sordino.mechanisms._folded import FoldedMechanism
    from sordino.mechanisms._gaussian_sparse_vector import GaussianSparseVector
    from sordino.mechanisms._gumbel_sparse_vector import GumbelSparseVector
    from sordino.mechanisms._hybrid_sparse_vector import HybridSparseVector
    from sordino.mechanisms._hybrid_top_k import HybridTopK
    from sordino.mechanisms._noisy_top_k import NoisyTopK
    from sordino.mechanisms._permute_and_flip import PermuteAndFlip
    from sordino.mechanisms._randomized_response import RandomizedResponse
    from sordino.mechanisms._smooth_mechanism import SmoothMechanism
    from sordino.mechanisms._smooth_selection import SmoothSelection
    from sordino.mechanisms._smooth_step_selection import SmoothStepSelection
    from sordino.mechanisms._sparse_vector import SparseVector
    from sordino.mechanisms._step_selection import StepSelection
    from sordino.mechanisms._stream import Stream

_HOMES = {
    "_above_threshold": ("AboveThreshold",),
    "_adaptive_sparse_vector": ("AdaptiveSparseVector",),
    "_additive": ("GaussianMechanism", "LaplaceMechanism"),
    "_composite": ("CompositeMechanism",),
    "_composite_table": ("CompositeTable",),
    "_counted_stream": ("CountedStream",),
    "_exponential_mechanism": ("ExponentialMechanism",),
    "_folded": ("FoldedMechanism",),
    "_gaussian_sparse_vector": ("GaussianSparseVector",),
    "_gumbel_sparse_vector": ("GumbelSparseVector",),
    "_hybrid_sparse_vector": ("HybridSparseVector",),
    "_hybrid_top_k": ("HybridTopK",),
    "_noisy_top_k": ("NoisyTopK",),
    "_permute_and_flip": ("PermuteAndFlip",),
    "_randomized_response": ("RandomizedResponse",),
    "_smooth_mechanism": ("SmoothMechanism",),
    "_smooth_selection": ("SmoothSelection",),
    "_smooth_step_selection": ("SmoothStepSelection",),
    "_sparse_vector": ("SparseVector",),
    "_step_selection": ("StepSelection",),
    "_stream": ("Stream",),
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
