"""One million exact draws against NumPy's inexact geometric and OpenDP's exact integer Laplace; one position among a million trials."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np

from benchmarks.measuring import medians, table, verdict
from sordino.entropy import SYSTEM
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric, first_head, first_success

N = 1_000_000
RUNS = 200


def report():
    return [*geometric(), "", *laplace(), "", *gaussian(), "", *firsts()]


def geometric():
    rows = []
    generator = np.random.default_rng(1)
    for text in ("1/2", "1/50", "1/10000", "1/1000000000"):
        rate = Fraction(text)
        p = -np.expm1(-float(rate))
        ours, theirs = medians(
            lambda: Geometric(rate).sample(N, SYSTEM), lambda: generator.geometric(p, N)
        )
        draws = Geometric(rate).sample(N, SYSTEM)
        law = Geometric(rate)
        assert abs(draws.mean() - law.mean) < 6 * (law.variance / N) ** 0.5, (
            "our draws have the mean of the law"
        )
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
        *table(
            (
                "rate",
                "ours ms",
                "NumPy ms",
                "ratio",
                "target",
                "bytes a draw at peak",
                "target",
                "",
            ),
            rows,
        ),
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
        assert abs(draws.var() / law.variance - 1) < 0.02, (
            "both draw the discrete Laplace law of scale 50"
        )
    ratio = theirs_seconds / ours_seconds
    return [
        "## Discrete Laplace, 1e6 draws, scale 50",
        "",
        "OpenDP `make_laplace` on a vector of 1e6 32-bit zeros (5 runs) against `DiscreteLaplace.sample`; both exact.",
        "",
        *table(
            ("ours ms", "OpenDP ms", "OpenDP / ours", "target", ""),
            [
                (
                    f"{ours_seconds * 1e3:.1f}",
                    f"{theirs_seconds * 1e3:.0f}",
                    f"{ratio:.0f}x",
                    "100x",
                    verdict(ratio >= 100),
                )
            ],
        ),
    ]


def gaussian():
    law = DiscreteGaussian(Fraction(1, 5000))
    (seconds,) = medians(lambda: law.sample(N, SYSTEM))
    return [
        "## Discrete Gaussian, 1e6 draws, sigma 50",
        "",
        f"Ours: {seconds * 1e3:.0f} ms (no target).",
    ]


def firsts():
    """The two searches over runs of equal trials, against one exact coin for every trial."""
    rate, lengths = Fraction(1, 20), np.full(RUNS, N // RUNS)
    rows = []
    (every,) = medians(lambda: Geometric(rate).sample(N, SYSTEM))
    for name, draw, least in (("first success", first_success, 200), ("first head", first_head, 0)):
        depths = (
            least + np.arange(RUNS)[::-1]
        )  # trials become likelier; 200 steps are e^-10, and once in a hundred draws none succeeds
        (seconds,) = medians(lambda: draw(depths, lengths, rate, SYSTEM), rounds=2001)
        found = [draw(depths, lengths, rate, SYSTEM) for _ in range(200)]
        assert len(set(found)) > 180, "positions are spread over the million"
        rows.append(
            (
                name,
                f"{seconds * 1e6:.0f}",
                f"{every * 1e6:,.0f}",
                f"{every / seconds:,.0f}x",
                "150 us",
                verdict(seconds < 150e-6),
            )
        )
    return [
        f"## The first success, and the first head in random order, of {N:,} trials in {RUNS} runs",
        "",
        "One position (median of 2001 draws) against one exact geometric noise for each trial.",
        "",
        *table(("search", "ours us", "every trial us", "ratio", "target", ""), rows),
    ]
