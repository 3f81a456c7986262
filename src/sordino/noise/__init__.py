"""Probability laws on the whole numbers with exact samplers, and one continuous law, which is not exact.

No epsilon is known here.
"""

from __future__ import annotations

from sordino.noise._bernoulli import bernoulli, bernoulli_exp
from sordino.noise._binomial import binomial
from sordino.noise._discrete_gaussian import DiscreteGaussian
from sordino.noise._first_head import first_head
from sordino.noise._first_success import first_success
from sordino.noise._geometric import Geometric
from sordino.noise._law import Law, Sampler
from sordino.noise._uniform import uniform_below
from sordino.noise.discrete_laplace import DiscreteLaplace
from sordino.noise.generalized_cauchy import GeneralizedCauchy
from sordino.noise.probability import Probability
from sordino.noise.staircase import Staircase

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GeneralizedCauchy",
    "Geometric",
    "Law",
    "Probability",
    "Sampler",
    "Staircase",
    "bernoulli",
    "bernoulli_exp",
    "binomial",
    "first_head",
    "first_success",
    "uniform_below",
]
