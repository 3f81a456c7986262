"""One algorithm, one file: public parameters in fields, private answers as an argument of `release`."""

from __future__ import annotations

from sordino.mechanisms._additive import GaussianMechanism, LaplaceMechanism
from sordino.mechanisms._noisy_top_k import NoisyTopK

__all__ = ["GaussianMechanism", "LaplaceMechanism", "NoisyTopK"]
