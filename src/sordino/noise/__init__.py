"""Laws on the whole numbers with exact samplers, and one continuous law, which is not exact.

No epsilon is known here.
"""

from __future__ import annotations

from sordino.noise.discrete_gaussian import DiscreteGaussian
from sordino.noise.generalized_cauchy import GeneralizedCauchy
from sordino.noise.geometric import DiscreteLaplace, Geometric
from sordino.noise.law import Law, Sampler
from sordino.noise.probability import Probability
from sordino.noise.samplers.bernoulli import bernoulli, bernoulli_exp, binomial
from sordino.noise.samplers.first_success import first_head, first_success, first_successes
from sordino.noise.samplers.uniform import uniform_below
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
    "first_successes",
    "uniform_below",
]
