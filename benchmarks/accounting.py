"""Epsilon at delta 1e-6 of fixed batches by every route and by the peers, how many releases fit into an account, and the speed of adding up."""

from __future__ import annotations

import random

from benchmarks import fitting
from benchmarks.measuring import medians, table, verdict
from sordino import accounting, cost

DELTA = 1e-6
HERE = "one column, upward, fixed threshold, replace-one"
UP = cost.Range(low=0.05, high=0.1, orientation=HERE)
FREE = cost.Range(low=0.05, high=0.1)


def opendp_exponential(width, count):
    """OpenDP's own noisy max with Gumbel noise, measured by it in zCDP, composed and converted."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32"), size=8), dp.linf_distance(T="i32")
    scale = 2 / width  # not monotone: scores of sensitivity 1 move apart by 2
    one = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
    many = dp.c.make_composition([one] * count)
    return dp.c.make_zCDP_to_approxDP(many).map(1).epsilon(DELTA)


def cell(route):
    return f"{route.epsilon:.4f}" if route.epsilon < float("inf") else "-"


def tightness():
    batches = [
        ("20 quantile searches, one orientation", [UP] * 20, 1.3984),
        ("20 quantile searches, free", [FREE] * 20, 1.4150),
        ("100 quantile searches, one orientation", [UP] * 100, 3.4460),
        ("100 quantile searches, free", [FREE] * 100, 3.4498),
        ("20 pure 0.1", [cost.Pure(epsilon=0.1)] * 20, 1.7887),
        ("20 exponential mechanisms 0.1", [cost.BoundedRange(epsilon=0.1)] * 20, None),
        ("100 exponential mechanisms 0.1", [cost.BoundedRange(epsilon=0.1)] * 100, None),
    ]
    rows = []
    for name, batch, target in batches:
        found = accounting.compare(batch, delta=DELTA)
        ours = min(route.epsilon for route in found.routes[:4])
        reached = "" if target is None else verdict(ours <= target + 5e-5)
        rows.append(
            (
                name,
                *map(cell, found.routes),
                f"{ours:.4f}",
                "" if target is None else f"{target:.4f}",
                reached,
            )
        )
    return rows


def peers():
    rows = []
    for count in (20, 100):
        ours = cost.repeat(cost.BoundedRange(epsilon=0.1), count).epsilon(DELTA)
        reference = accounting.pld([cost.BoundedRange(epsilon=0.1)] * count).epsilon(DELTA)
        rows.append(
            (
                count,
                f"{ours:.4f}",
                f"{reference:.4f}",
                f"{opendp_exponential(0.1, count):.4f}",
                f"{0.1 * count:.1f}",
            )
        )
    return rows


def mixed():
    draw = random.Random(3)
    kinds = (
        lambda x: cost.Pure(epsilon=x),
        lambda x: cost.ZCDP(rho=x * x),
        lambda x: cost.Range(low=x, high=2 * x),
        lambda x: cost.BoundedRange(epsilon=x),
        lambda x: cost.RDP(rho=x * x, laplace=x, laplace_steps="continuous"),
    )
    return [kinds[i % 5](round(draw.uniform(0.001, 0.1), 4)) for i in range(1000)]


def speed():
    one = cost.ZCDP(rho=0.1)
    same, equal, many = [one] * 100_000, [cost.ZCDP(rho=0.1) for _ in range(100_000)], mixed()
    deltas = iter(range(10**6))

    def fresh():  # another list each time, so that nothing is remembered
        return cost.compose(*many, cost.Pure(epsilon=1 + next(deltas) / 1000))

    jobs = (
        ("100,000 times the same cost", lambda: cost.compose(*same), 10),
        ("100,000 equal costs", lambda: cost.compose(*equal), None),
        ("1,000 different costs: compose and epsilon(1e-6)", lambda: fresh().epsilon(DELTA), 50),
        ("1,000 different costs: compose alone", fresh, None),
        (
            "20 oriented searches: epsilon(1e-6)",
            lambda: cost.compose(*[UP] * 20, cost.Pure(epsilon=1 + next(deltas) / 1000)).epsilon(
                DELTA
            ),
            None,
        ),
    )
    taken = medians(*(job for _, job, _ in jobs))
    return [
        (
            name,
            f"{seconds * 1e3:.1f}",
            target or "",
            "" if target is None else verdict(seconds * 1e3 <= target),
        )
        for (name, _, target), seconds in zip(jobs, taken, strict=True)
    ]


def report():
    return [
        "## Epsilon of fixed batches",
        "",
        "Epsilon at delta 1e-6. A quantile search is two thresholds of 0.05: loss in [-0.05, 0.1]. Ours is the best of the first four "
        "routes; PLD is dp_accounting at an interval of 1e-4, fed with our dominating pairs.",
        "",
        *table(("batch", "sum", "zCDP", "RDP", "exact", "PLD", "ours", "target", ""), tightness()),
        "",
        "Exponential mechanisms of 0.1 (bounded range): ours, dp_accounting on the chords of the same curve, OpenDP's `make_noisy_max` "
        "with Gumbel noise under zCDP composed and converted by OpenDP, and the sum.",
        "",
        *table(("calls", "ours", "dp_accounting", "OpenDP", "sum"), peers()),
        "",
        *table(("adding up", "ms", "target", ""), speed()),
        "",
        *fitting.report(),
    ]
