"""Exact audits: seconds to bound the loss of noisy top-k, of every claim, and of every broken control."""

from __future__ import annotations

import statistics
import time

import sordino_audit as audit
from benchmarks.measuring import table, verdict
from sordino import COUNTING, NoisyTopK, Sensitivity
from sordino_audit.controls.continuous import CONTINUOUS
from sordino_audit.controls.enumerated import CONTROLS

EITHER_WAY = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
CASES = (
    (
        "k=2, n=3, counts, epsilon 1",
        NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING),
        (0, 0, 0),
        (0, 0, 1),
        2,
    ),
    (
        "k=2, n=3, replace-one, epsilon 1",
        NoisyTopK(k=2, epsilon=1, sensitivity=EITHER_WAY),
        (0, 0, 0),
        (-1, -1, 1),
        2,
    ),
    (
        "k=2, n=4, counts, epsilon 2",
        NoisyTopK(k=2, epsilon=2, sensitivity=COUNTING),
        (0, 0, 0, 0),
        (0, 0, 1, 1),
        None,
    ),
)


def spent(job):
    """CPU seconds of a job that runs in this process alone."""
    started = time.process_time()
    job()
    return time.process_time() - started


def claims():
    assert not any(claim.broken for claim in audit.run_claims())


def judged(control):
    assert control.audited().broken == control.broken


def report():
    rows = []
    for name, mechanism, a, b, target in CASES:
        found = audit.exact(mechanism, answers_a=a, answers_b=b)
        assert not found.broken
        assert found.complete
        assert abs(found.epsilon_at_least - float(mechanism.epsilon)) < 1e-9, "the loss is attained"
        seconds = statistics.median(
            spent(lambda m=mechanism, a=a, b=b: audit.exact(m, answers_a=a, answers_b=b))
            for _ in range(3)
        )
        limits = (f"{target} s", verdict(seconds < target)) if target else ("none", "")
        rows.append(
            (f"NoisyTopK({name}), all gaps", f"{found.vectors:,}", f"{seconds:.2f}", *limits)
        )
    seconds = spent(claims)
    rows.append(("all claims, once", "", f"{seconds:.2f}", "600 s", verdict(seconds < 600)))
    controls = (*CONTROLS, *CONTINUOUS)
    slowest = max(spent(lambda control=control: judged(control)) for control in controls)
    rows.append(
        (
            f"slowest of {len(controls)} controls, once",
            "",
            f"{slowest:.2f}",
            "60 s",
            verdict(slowest < 60),
        )
    )
    return [
        "## Exact audits",
        "",
        "Every noise vector down to a tail of 1e-15 through the mechanism's own decision, both orders of the pair (3 runs). Every control got its verdict.",
        "",
        *table(("audit", "noise vectors", "CPU seconds", "target", ""), rows),
    ]
