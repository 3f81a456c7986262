"""The statistical auditor: how much of a known loss it sees, how fast it convicts, and how often it is wrong."""

from __future__ import annotations

import math
import time

from benchmarks.measuring import table, verdict
from sordino import COUNTING, LaplaceMechanism, NoisyTopK, Seeded, Sensitivity, audit
from sordino.audit._broken import CONTROLS
from sordino.cost import Pure

EITHER_WAY = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
BATCH, SAMPLES, CONFIDENCE = 20_000, 1_000_000, 0.999
TIGHT = (
    ("LaplaceMechanism, epsilon 1", LaplaceMechanism(epsilon=1, sensitivity=COUNTING), [0], [1], 1),
    ("LaplaceMechanism, epsilon 3", LaplaceMechanism(epsilon=3, sensitivity=COUNTING), [0], [1], 3),
    ("LaplaceMechanism, two answers, epsilon 1", LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)), [0, 0], [1, 1], 1),
    ("NoisyTopK k=1, n=3, counts, epsilon 1", NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING), [0, 0, 0], [0, 1, 1], 1),
    ("NoisyTopK k=2, n=3, replace-one, epsilon 1", NoisyTopK(k=2, epsilon=1, sensitivity=EITHER_WAY), [0, 0, 0], [-1, -1, 1], 1),
)


def audited(subject, pair, samples, claimed, seed, cost_of=None):
    a, b = (audit.black_box(subject, x, entropy=Seeded(2 * seed + i), batch=BATCH) for i, x in enumerate(pair))
    started = time.perf_counter()
    found = audit.statistical(a, b, samples=samples, confidence=CONFIDENCE, claimed=claimed, batch=BATCH, cost_of=cost_of)
    return found, time.perf_counter() - started


def report():
    rows = []
    for name, mechanism, a, b, truth in TIGHT:
        found, seconds = audited(mechanism, (a, b), SAMPLES, mechanism.cost, 1)
        share = found.epsilon_at_least / truth
        assert not found.broken
        rows.append(
            (name, f"{found.epsilon_at_least:.4f} of {truth}", f"{share:.3f}", f"{seconds:.1f}", "0.85", verdict(share >= 0.85))
        )
    parts = [
        "## Statistical audits",
        "",
        f"{SAMPLES:,} runs on each side, confidence {CONFIDENCE}; half of the runs are for learning.",
        "",
        *table(("tight mechanism", "loss seen", "share", "seconds", "target", ""), rows),
        "",
    ]
    rows, wrong = [], 0
    for control in CONTROLS:
        subject = control.subject
        found, seconds = audited(subject, control.pair, SAMPLES, subject.cost, 1, subject.cost_of)
        wrong += found.broken != control.broken
        loss = "inf" if control.loss == math.inf else f"{control.loss:.3g}"
        seen = f"{found.epsilon_at_least:.3f}" + (f", {found.beyond_at_least:.3f} beyond a charge" if subject.cost_of else "")
        right = "broken" if control.broken else "sound"
        rows.append((control.name, right, seen, loss, f"{seconds:.1f}", verdict(found.broken == control.broken and seconds < 60)))
    parts += [
        f"Every control from its outcomes alone, target: the right verdict in under 60 s; {wrong} wrong.",
        "",
        *table(("control", "truth", "loss seen", "loss", "seconds", ""), rows),
        "",
    ]
    alarms, audits = 0, 0
    for seed in range(40):
        for _, mechanism, a, b, _ in TIGHT:
            alarms += audited(mechanism, (a, b), 50_000, mechanism.cost, 100 + seed)[0].broken
            audits += 1
    parts.append(
        f"False alarms in {audits} audits of the tight mechanisms (50,000 runs a side): {alarms}, target 0: {verdict(alarms == 0)}."
    )
    lying = audited(LaplaceMechanism(epsilon=1.1, sensitivity=COUNTING), ([0], [1]), SAMPLES, Pure(epsilon=1), 1)[0]
    parts.append(f"A Laplace mechanism that spends 1.1 and claims 1 is {'convicted' if lying.broken else '**not convicted**'}.")
    return parts
