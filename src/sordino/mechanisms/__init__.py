"""One algorithm, one file: public parameters in fields, private answers as an argument of `release`."""

from __future__ import annotations

from sordino.mechanisms._additive import GaussianMechanism, LaplaceMechanism
from sordino.mechanisms._exponential_mechanism import ExponentialMechanism
from sordino.mechanisms._noisy_top_k import NoisyTopK
from sordino.mechanisms._permute_and_flip import PermuteAndFlip
from sordino.mechanisms._randomized_response import RandomizedResponse
from sordino.mechanisms._sparse_vector import SparseVector
from sordino.mechanisms._stream import Stream

__all__ = [
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "NoisyTopK",
    "PermuteAndFlip",
    "RandomizedResponse",
    "SparseVector",
    "Stream",
]
