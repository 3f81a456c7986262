"""Selection and Laplace mechanisms of OpenDP and diffprivlib, and ours, audited by our statistical auditor on the same inputs."""

from __future__ import annotations

import time
import warnings
from importlib.metadata import version

import sordino_audit as audit
from benchmarks.measuring import table
from sordino import COUNTING, ExponentialMechanism, LaplaceMechanism, NoisyTopK, PermuteAndFlip
from sordino.cost import ZCDP, Pure

SAMPLES, CONFIDENCE = 200_000, 0.9999
SCORES = [0, 0, 0], [0, 1, 1]


def ours():
    laplace = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    top = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    boxes = [audit.black_box(laplace, [x], batch=10_000) for x in (0, 1)]
    yield "sordino", "LaplaceMechanism, step 1", "0 and 1", boxes, 1, 10_000
    boxes = [audit.black_box(top, scores, batch=10_000) for scores in SCORES]
    yield "sordino", "NoisyTopK(k=1) with its gap", "scores 0, 0, 0 and 0, 1, 1", boxes, 1, 10_000
    for kind, more in ((PermuteAndFlip, {}), (ExponentialMechanism, {"gap": False})):
        boxes = [
            audit.black_box(kind(epsilon=1, sensitivity=COUNTING, **more), scores, batch=10_000)
            for scores in SCORES
        ]
        yield (
            "sordino",
            f"{kind.__name__}(epsilon=1)",
            "scores 0, 0, 0 and 0, 1, 1",
            boxes,
            1,
            10_000,
        )


def opendp():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    for kind, values in (("i32", (0, 1)), ("f64", (0.0, 1.0))):
        domain = dp.atom_domain(T=kind, nan=False) if kind == "f64" else dp.atom_domain(T=kind)
        laplace = dp.m.make_laplace(domain, dp.absolute_distance(T=kind), scale=1.0)
        boxes = [audit.black_box(laplace, value) for value in values]
        yield (
            "opendp",
            f"make_laplace, {kind}, scale 1",
            f"{values[0]} and {values[1]}",
            boxes,
            laplace.map(values[1]),
            None,
        )
    space = (
        dp.vector_domain(dp.atom_domain(T="i32"), size=3),
        dp.linf_distance(T="i32", monotonic=True),
    )
    for name, made in (
        ("make_noisy_max, scale 1", dp.m.make_noisy_max(*space, dp.max_divergence(), scale=1.0)),
        (
            "make_noisy_top_k, k=1, scale 1",
            dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=1, scale=1.0),
        ),
    ):
        boxes = [audit.black_box(made, scores) for scores in SCORES]
        yield "opendp", name, "scores 0, 0, 0 and 0, 1, 1 (monotonic)", boxes, made.map(1), None
    gumbel = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1.0)
    boxes = [audit.black_box(gumbel, scores) for scores in SCORES]
    yield (
        "opendp",
        "make_noisy_max under zCDP (Gumbel noise), scale 1",
        "scores 0, 0, 0 and 0, 1, 1 (monotonic)",
        boxes,
        ZCDP(rho=gumbel.map(1)),
        None,
    )
    response = dp.m.make_randomized_response_bool(prob=0.75)
    boxes = [audit.black_box(response, value) for value in (False, True)]
    yield (
        "opendp",
        "make_randomized_response_bool, prob 0.75",
        "False and True",
        boxes,
        response.map(1),
        None,
    )


def diffprivlib():
    from diffprivlib import mechanisms as m

    for name, mechanism, values in (
        ("Laplace(epsilon=1, sensitivity=1)", m.Laplace(epsilon=1, sensitivity=1), (0, 1)),
        (
            "Snapping(epsilon=1, sensitivity=1, lower=-10, upper=10)",
            m.Snapping(epsilon=1, sensitivity=1, lower=-10, upper=10),
            (0.0, 1.0),
        ),
        ("Geometric(epsilon=1, sensitivity=1)", m.Geometric(epsilon=1, sensitivity=1), (0, 1)),
        (
            "LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=1)",
            m.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=1),
            (0, 1),
        ),
        (
            "ExponentialHierarchical(epsilon=1, hierarchy=[['a', 'b'], ['c', 'd']])",
            m.ExponentialHierarchical(epsilon=1, hierarchy=[["a", "b"], ["c", "d"]]),
            ("a", "c"),
        ),
    ):
        boxes = [audit.black_box(mechanism, value) for value in values]
        yield "diffprivlib", name, f"{values[0]} and {values[1]}", boxes, 1, None
    for name, kind in (("Exponential", m.Exponential), ("PermuteAndFlip", m.PermuteAndFlip)):
        boxes = [
            kind(
                epsilon=1, sensitivity=1, utility=list(map(float, scores)), monotonic=True
            ).randomise
            for scores in SCORES
        ]
        yield (
            "diffprivlib",
            f"{name}(epsilon=1, sensitivity=1, monotonic=True)",
            "utilities 0, 0, 0 and 0, 1, 1",
            boxes,
            1,
            None,
        )


def words(claimed):
    return f"rho {float(claimed.rho):.4g}" if isinstance(claimed, ZCDP) else f"{float(claimed):.4g}"


def report():
    warnings.simplefilter("ignore")
    rows, notes = [], []
    for library in (ours, opendp, diffprivlib):
        for who, name, inputs, boxes, claimed, batch in library():
            started = time.process_time()
            cost = claimed if isinstance(claimed, ZCDP) else Pure(epsilon=claimed)
            found = audit.statistical(
                *boxes,
                samples=SAMPLES,
                confidence=CONFIDENCE,
                claimed=cost,
                batch=batch,
                name=f"{who} {name}",
            )
            taken = time.process_time() - started
            said = "**more than claimed**" if found.broken else "not broken"
            rows.append(
                (
                    who,
                    name,
                    inputs,
                    words(claimed),
                    f"{found.epsilon_at_least:.3f}",
                    said,
                    f"{taken:.0f}",
                )
            )
            if found.broken:
                notes.append(f"- {who} {name}, {inputs}: event `{found.witness}`.")
    return [
        "## Peers, audited",
        "",
        f"{SAMPLES:,} runs on each of the two inputs, confidence {CONFIDENCE:g} each; versions: sordino {version('sordino')}, opendp "
        f"{version('opendp')}, diffprivlib {version('diffprivlib')} (numpy {version('numpy')}). What was seen on these inputs, and no more: "
        '"not broken" is no proof of anything.',
        "",
        *table(("library", "mechanism", "inputs", "claimed", "loss at least", "", "CPU s"), rows),
        *(["", *notes] if notes else []),
    ]
