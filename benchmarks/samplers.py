"""One million exact draws against NumPy's inexact geometric and OpenDP's exact integer Laplace."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np

from benchmarks.measuring import medians, table, verdict
from sordino.entropy import SYSTEM
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric

N = 1_000_000


def report():
    return [*geometric(), "", *laplace(), "", *gaussian()]


def geometric():
    rows = []
    generator = np.random.default_rng(1)
    for text in ("1/2", "1/50", "1/10000", "1/1000000000"):
        rate = Fraction(text)
        p = -np.expm1(-float(rate))
        ours, theirs = medians(lambda: Geometric(rate).sample(N, SYSTEM), lambda: generator.geometric(p, N))
        draws = Geometric(rate).sample(N, SYSTEM)
        law = Geometric(rate)
        assert abs(draws.mean() - law.mean) < 6 * (law.variance / N) ** 0.5, "our draws have the mean of the law"
        tracemalloc.start()
        Geometric(rate).sample(N, SYSTEM)
        peak = tracemalloc.get_traced_memory()[1] / N
        tracemalloc.stop()
        ratio = ours / theirs
        rows.append(
            (
                text,
                f"{ours * 1e3:.1f}",
                f"{theirs * 1e3:.1f}",
                f"{ratio:.2f}x",
                "4x",
                f"{peak:.0f}",
                "64",
                verdict(ratio <= 4 and peak < 64),
            )
        )
    return [
        "## One-sided geometric, 1e6 draws",
        "",
        "NumPy's `Generator.geometric` (PCG64, floats, not exact) against ours (AES-256, exact). Target: within 4x at the first three rates, no cliff at the last.",
        "",
        *table(("rate", "ours ms", "NumPy ms", "ratio", "target", "bytes a draw at peak", "target", ""), rows),
    ]


def laplace():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32"), size=N), dp.l1_distance(T="i32")
    theirs = dp.m.make_laplace(*space, scale=50.0)
    zeros = np.zeros(N, dtype=np.int32)
    law = DiscreteLaplace(Fraction(1, 50))
    (ours_seconds,) = medians(lambda: law.sample(N, SYSTEM))
    (theirs_seconds,) = medians(lambda: theirs(zeros), rounds=5)
    for draws in (law.sample(N, SYSTEM), np.asarray(theirs(zeros))):
        assert draws.size == N
        assert abs(draws.var() / law.variance - 1) < 0.02, "both draw the discrete Laplace law of scale 50"
    ratio = theirs_seconds / ours_seconds
    return [
        "## Discrete Laplace, 1e6 draws, scale 50",
        "",
        "OpenDP `make_laplace` on a vector of 1e6 32-bit zeros (5 runs) against `DiscreteLaplace.sample`; both exact.",
        "",
        *table(
            ("ours ms", "OpenDP ms", "OpenDP / ours", "target", ""),
            [(f"{ours_seconds * 1e3:.1f}", f"{theirs_seconds * 1e3:.0f}", f"{ratio:.0f}x", "100x", verdict(ratio >= 100))],
        ),
    ]


def gaussian():
    law = DiscreteGaussian(Fraction(1, 5000))
    (seconds,) = medians(lambda: law.sample(N, SYSTEM))
    return ["## Discrete Gaussian, 1e6 draws, sigma 50", "", f"Ours: {seconds * 1e3:.0f} ms (no target)."]
