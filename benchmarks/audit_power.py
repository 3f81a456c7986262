"""The statistical auditor: how much of a known loss it sees, how fast it convicts, and how often it is wrong."""

from __future__ import annotations

import math
import time

import sordino_audit as audit
from benchmarks.measuring import table, verdict
from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    ExponentialMechanism,
    GaussianSparseVector,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    Seeded,
    Sensitivity,
    SparseVector,
)
from sordino.cost import Pure
from sordino_audit import Subject
from sordino_audit.controls.enumerated import CONTROLS

EITHER_WAY = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
BATCH, CONFIDENCE = 1000, 0.999
MANY, FEWER = 1_000_000, 200_000  # runs a side; fewer where every run goes through Python
QUICK, SLOW, ROUNDS = (
    50_000,
    5000,
    13,
)  # where alarms are counted: runs a side, and of the slow ones; audits of each


class Streamed:
    """A sparse vector that is asked one question after the other."""

    def __init__(self, mechanism):
        self.mechanism, self.cost = mechanism, mechanism.cost

    def box(self, answers, entropy):
        def run():
            outcomes = []
            for _ in range(BATCH):
                with self.mechanism.open(entropy=entropy) as stream:
                    asked = []
                    for answer in answers:
                        asked.append(-1 if (gap := stream.ask(answer).gap) is None else gap)
                        if stream.closed:
                            break
                outcomes.append(tuple(asked))
            return outcomes

        return run, BATCH


class Leading:
    """An exponential mechanism, index and lead of its own releases."""

    def __init__(self, mechanism):
        self.mechanism, self.cost = mechanism, mechanism.cost

    def box(self, answers, entropy):
        def run():
            chosen = (self.mechanism.release(answers, entropy=entropy) for _ in range(BATCH))
            return [(choice.index, choice.gap) for choice in chosen]

        return run, BATCH


def known(epsilon, sensitivity=COUNTING, **more):
    return {"epsilon": epsilon, "sensitivity": sensitivity} | more


SPARSE = SparseVector(threshold=0, positives=1, **known(2, EITHER_WAY))
LEAD = ExponentialMechanism(**known(2, EITHER_WAY))
TIGHT = (
    ("LaplaceMechanism, epsilon 1", LaplaceMechanism(**known(1)), [0], [1], MANY),
    ("LaplaceMechanism, epsilon 3", LaplaceMechanism(**known(3)), [0], [1], MANY),
    (
        "LaplaceMechanism, two answers, epsilon 1",
        LaplaceMechanism(**known(1, COUNTING.over(2))),
        [0, 0],
        [1, 1],
        MANY,
    ),
    (
        "NoisyTopK k=1, n=3, counts, epsilon 1",
        NoisyTopK(k=1, **known(1)),
        [0, 0, 0],
        [0, 1, 1],
        MANY,
    ),
    (
        "NoisyTopK k=2, n=3, replace-one, epsilon 1",
        NoisyTopK(k=2, **known(1, EITHER_WAY)),
        [0, 0, 0],
        [-1, -1, 1],
        MANY,
    ),
    (
        "NoisyTopK with Gumbel noise, epsilon 1",
        NoisyTopK(k=1, noise="gumbel", **known(1)),
        [-3, 0, 0],
        [-3, 1, 1],
        MANY,
    ),
    (
        "ExponentialMechanism without the lead, epsilon 2",
        ExponentialMechanism(gap=False, **known(2)),
        [0, 2, 2],
        [1, 2, 2],
        MANY,
    ),
    ("ExponentialMechanism with the lead, epsilon 2", Leading(LEAD), [0, 0], [1, -1], FEWER),
    (
        "PermuteAndFlip, epsilon 2",
        PermuteAndFlip(**known(2, EITHER_WAY)),
        [0, 2, 2],
        [1, 1, 1],
        MANY,
    ),
    ("RandomizedResponse, epsilon 1", RandomizedResponse(epsilon=1), [5, 0, 0], [0, 0, 9], MANY),
    ("SparseVector, one positive, epsilon 2", SPARSE, [0, 0], [1, -1], FEWER),
    ("the same, as a stream", Streamed(SPARSE), [0, 0], [1, -1], FEWER),
    (
        "HybridTopK k=1, epsilon 2",
        HybridTopK(k=1, threshold=0, **known(2, EITHER_WAY)),
        [0, 0],
        [1, 1],
        MANY,
    ),
    (
        "HybridSparseVector k=1, epsilon 2",
        HybridSparseVector(k=1, threshold=0, **known(2, EITHER_WAY)),
        [0, 0],
        [1, -1],
        MANY,
    ),
)
NOT_TIGHT = (
    (
        "AdaptiveSparseVector, epsilon 4",
        AdaptiveSparseVector(threshold=0, at_least=1, **known(4, EITHER_WAY)),
        [0, 0],
        [1, -1],
        FEWER,
    ),
    (
        "GumbelSparseVector, epsilon 2",
        GumbelSparseVector(threshold=0, positives=1, **known(2, EITHER_WAY)),
        [3, -3],
        [4, -4],
        FEWER,
    ),
    (
        "GaussianSparseVector, rho 1/2",
        GaussianSparseVector(
            threshold=1, positives=1, rho=0.5, questions=2, sensitivity=EITHER_WAY
        ),
        [1, 0],
        [0, 1],
        FEWER,
    ),
)


def audited(subject, pair, samples, claimed, seed, cost_of=None):
    boxes, batch = [], 20 * BATCH
    for i, answers in enumerate(pair):
        entropy = Seeded(2 * seed + i)
        if hasattr(subject, "box"):
            box, batch = subject.box(answers, entropy)
        else:
            box = audit.black_box(subject, answers, entropy=entropy, batch=batch)
        boxes.append(box)
    started = time.process_time()
    found = audit.statistical(
        *boxes,
        samples=samples,
        confidence=CONFIDENCE,
        claimed=claimed,
        batch=batch,
        cost_of=cost_of,
    )
    return found, time.process_time() - started


def truth(subject, a, b):
    """The loss between the two lists, for certain."""
    return audit.exact(
        getattr(subject, "mechanism", subject), answers_a=a, answers_b=b
    ).epsilon_at_least


def seen():
    """How much of the loss of tight mechanisms is seen."""
    rows = []
    for name, mechanism, a, b, samples in TIGHT:
        found, seconds = audited(mechanism, (a, b), samples, mechanism.cost, 1)
        loss = truth(mechanism, a, b)
        share = found.epsilon_at_least / loss
        assert not found.broken
        cells = (
            f"{samples:,}",
            f"{found.epsilon_at_least:.4f} of {loss:.4f}",
            f"{share:.3f}",
            f"{seconds:.1f}",
        )
        rows.append((name, *cells, "0.85", verdict(share >= 0.85)))
    return rows


def controls():
    """The verdict on every control, from its outcomes alone; how many are wrong."""
    rows, wrong = [], 0
    for control in CONTROLS:
        subject = control.subject
        if not isinstance(subject, Subject):
            continue  # a continuous law: there is no sampler of it here
        found, seconds = audited(subject, control.pair, MANY, subject.cost, 1, subject.cost_of)
        wrong += found.broken != control.broken
        loss = "inf" if control.loss == math.inf else f"{control.loss:.3g}"
        beyond = f"{found.epsilon_at_least:.3f}" + (
            f", {found.beyond_at_least:.3f} beyond a charge" if subject.cost_of else ""
        )
        right = "broken" if control.broken else "sound"
        rows.append(
            (
                control.name,
                right,
                beyond,
                loss,
                f"{seconds:.1f}",
                verdict(found.broken == control.broken and seconds < 60),
            )
        )
    return rows, wrong


def alarms():
    """How many audits of sound mechanisms there were, and how many of them raised an alarm."""
    raised, audits = 0, 0
    for seed in range(ROUNDS):
        for _, mechanism, a, b, samples in (*TIGHT, *NOT_TIGHT):
            runs = SLOW if samples == FEWER else QUICK
            raised += audited(mechanism, (a, b), runs, mechanism.cost, 100 + seed)[0].broken
            audits += 1
    return audits, raised


def report():
    parts = [
        "## Statistical audits",
        "",
        f"Confidence {CONFIDENCE}; half of the runs are for learning. The loss is what the exact audit finds between the two lists.",
        "",
        *table(
            ("tight mechanism", "runs a side", "loss seen", "share", "CPU seconds", "target", ""),
            seen(),
        ),
        "",
    ]
    rows, wrong = controls()
    parts += [
        f"Every control of whole numbers from its outcomes alone ({MANY:,} runs a side), target: the right verdict in under 60 s; {wrong} wrong.",
        "",
        *table(("control", "truth", "loss seen", "loss", "CPU seconds", ""), rows),
        "",
    ]
    audits, raised = alarms()
    parts.append(
        f"False alarms in {audits} audits: {ROUNDS} of each mechanism above and of {', '.join(name for name, *_ in NOT_TIGHT)} "
        f"({QUICK:,} runs a side, {SLOW:,} of sparse vectors, streams and leads): {raised}, target 0: {verdict(raised == 0)}."
    )
    lying = audited(LaplaceMechanism(**known(1.1)), ([0], [1]), MANY, Pure(epsilon=1), 1)[0]
    parts.append(
        f"A Laplace mechanism that spends 1.1 and claims 1 is {'convicted' if lying.broken else '**not convicted**'}."
    )
    return parts
