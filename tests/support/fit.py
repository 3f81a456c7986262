"""One false-alarm budget for all statistical tests: 1e-6 for the suite, shared by at most 200 tests."""

from __future__ import annotations

import numpy as np
from scipy import stats

LEVEL = 1e-6 / 200


def p_value(law, sample, bins=40):
    """Chi-square of the sample against the law, on bins of about equal probability."""
    sample = np.asarray(sample, dtype=np.int64)
    edges = sorted({law.quantile(p) for p in np.linspace(0.5 / bins, 1 - 0.5 / bins, bins)})
    below = np.concatenate([np.atleast_1d(law.cdf(np.array(edges))), [1.0]])
    expected = np.diff(below, prepend=0.0) * sample.size
    observed = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=len(edges) + 1)
    keep = expected > 5
    assert keep.sum() >= 2, "the law is too narrow for a test with bins"
    expected = np.append(expected[keep], expected[~keep].sum())
    observed = np.append(observed[keep], observed[~keep].sum())
    if expected[-1] <= 5:
        expected[-2] += expected[-1]
        observed[-2] += observed[-1]
        expected, observed = expected[:-1], observed[:-1]
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1)


def assert_fits(law, sample):
    assert p_value(law, sample) > LEVEL


def assert_convicted(law, sample):
    assert p_value(law, sample) < LEVEL
