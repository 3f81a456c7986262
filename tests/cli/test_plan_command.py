"""`sordino plan accuracy`: the numbers of `plan.accuracy`, options that mirror the constructors, refusals with exit code 2."""

from __future__ import annotations

import pytest

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    HybridSparseVector,
    HybridTopK,
    NoisyTopK,
    PermuteAndFlip,
    Sensitivity,
    SparseVector,
    plan,
)

COUNTS = ("--sensitivity", 1, "--monotone", "--step", 1)


def test_a_sparse_vector_by_margin_and_by_probability(sordino):
    own = (
        "--threshold",
        1000,
        "-c",
        2,
        "--correction",
        "optimal",
        "--correction-run",
        50,
        "--split",
        "0.25",
        "--epsilon",
        1,
    )
    m = SparseVector(
        threshold=1000,
        positives=2,
        epsilon=1,
        sensitivity=COUNTING,
        correction="optimal",
        correction_run=50,
        split=0.25,
    )
    found = sordino(
        "plan", "accuracy", "sparse-vector", "--answers", 50, "--alpha", 20, *own, *COUNTS
    )
    assert found.code == 0
    assert found.err == ""
    expected = plan.accuracy(m, answers=50, alpha=20)
    assert found.json["beta"] == expected.beta
    assert found.json["statement"] == expected.statement
    least = sordino(
        "plan",
        "accuracy",
        "sparse-vector",
        "--answers",
        50,
        "--beta",
        "0.05",
        *own,
        *COUNTS,
        "--format",
        "csv",
    )
    assert least.out.splitlines()[0] == "alpha,beta,answers"
    assert (
        float(least.out.splitlines()[1].split(",")[0])
        == plan.accuracy(m, answers=50, beta=0.05).alpha
    )


def test_selections_and_searches(sordino):
    for name, m, own in (
        ("permute-and-flip", PermuteAndFlip(epsilon=1, sensitivity=COUNTING), ()),
        (
            "noisy-top-k",
            NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, noise="gumbel"),
            ("-k", 3, "--noise", "gumbel"),
        ),
        (
            "hybrid-top-k",
            HybridTopK(k=3, threshold=2, epsilon=1, sensitivity=COUNTING),
            ("-k", 3, "--threshold", 2),
        ),
        (
            "hybrid-sparse-vector",
            HybridSparseVector(k=3, threshold=2, epsilon=1, sensitivity=COUNTING, split=0.5),
            ("-k", 3, "--threshold", 2, "--split", "0.5"),
        ),
        (
            "adaptive-sparse-vector",
            AdaptiveSparseVector(
                threshold=2, at_least=3, epsilon=1, sensitivity=COUNTING, noise="laplace"
            ),
            ("--at-least", 3, "--threshold", 2, "--noise", "laplace"),
        ),
    ):
        found = sordino(
            "plan",
            "accuracy",
            name,
            "--answers",
            9,
            "--alpha",
            5,
            "--epsilon",
            1,
            *own,
            *COUNTS,
            "--format",
            "table",
        )
        assert found.out.strip() == plan.accuracy(m, answers=9, alpha=5).statement


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("sparse-vector", "--epsilon", 1, "--alpha", 1),
            "--threshold must be given for sparse-vector",
        ),
        (("noisy-top-k", "--epsilon", 1, "--alpha", 1), "-k must be given for noisy-top-k"),
        (("exponential", "--epsilon", 1, "--alpha", 1, "-k", 2), "-k is no option of exponential"),
        (
            ("permute-and-flip", "--epsilon", 1, "--alpha", 1, "--resample"),
            "--resample is no option of permute-and-flip",
        ),
        (("permute-and-flip", "--epsilon", 1), "needs alpha, a margin, or beta"),
        (("permute-and-flip", "--epsilon", 1, "--beta", 2), "beta must be a number in"),
        (("permute-and-flip", "--epsilon", "nan", "--alpha", 1), "not a finite decimal number"),
        (
            (
                "sparse-vector",
                "--epsilon",
                1,
                "--alpha",
                1,
                "--threshold",
                1,
                "-c",
                1,
                "--split",
                "half",
            ),
            "--split must be 'variance' or 'success' or a number; got 'half'",
        ),
    ],
)
def test_bad_options_end_with_exit_code_2(sordino, arguments, says):
    found = sordino("plan", "accuracy", *arguments, "--answers", 5, *COUNTS)
    assert found.code == 2
    assert found.out == ""
    assert says in found.err


def test_a_statement_about_the_answers_is_needed(sordino):
    found = sordino(
        "plan", "accuracy", "permute-and-flip", "--answers", 5, "--epsilon", 1, "--alpha", 1
    )
    assert found.code == 2
    assert "--sensitivity" in found.err


def test_which_mechanism_selects_best(sordino):
    smooth = ("--beta", 0.02, "--floor", 0.23, "--typical", 0.29)
    flags = ("-m", 20, "--epsilon", 6, "--sensitivity", 2, "--adjacency", "replace-one", *smooth)
    found = sordino("plan", "selector", *flags).json
    assert (found["plan"], found["mechanism"]["name"]) == ("selector", "SmoothStepSelection")
    assert found["why"].startswith(
        "SmoothStepSelection selects the best of 20 with probability 0.99"
    )
    assert len(found["alternatives"]) == 5
    assert found["success"] == found["alternatives"][0]["success"]
    exact = sordino("plan", "selector", *flags, "--exact", "--format", "csv").out.splitlines()
    assert exact[0] == "mechanism,success"
    assert "SmoothSelection" not in {line.partition(",")[0] for line in exact}
    assert sordino("plan", "selector", "-m", 5, "--epsilon", 1, "--format", "table").out.startswith(
        "RandomizedResponse selects"
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("-m", 0), "m must be"),
        (("-m", 5, "--beta", 0.1), "needs beta, floor and typical together"),
        (("-m", 5, "--beta", 0.1, "--floor", 1, "--typical", 1), "sensitivity must say"),
    ],
)
def test_a_selector_needs_public_numbers_that_make_sense(sordino, flags, says):
    found = sordino("plan", "selector", *flags, "--epsilon", 1)
    assert (found.code, found.out) == (2, "")
    assert says in found.err


@pytest.mark.slow
def test_a_hybrid_knows_how_many_answers_there_are(sordino):
    """Of answers that move both ways and are just k, nobody but the threshold is left: less noise."""
    line = (
        "plan",
        "accuracy",
        "hybrid-top-k",
        "-k",
        3,
        "--threshold",
        50,
        "--epsilon",
        1,
        "--beta",
        "0.05",
    )
    either = {"sensitivity": Sensitivity(bound=1, monotone=False, adjacency="replace-one")}
    for answers in (3, 9):
        known = {"k": 3, "threshold": 50, "epsilon": 1, "candidates": answers, **either}
        said = sordino(
            *line, "--answers", answers, "--sensitivity", 1, "--adjacency", "replace-one"
        ).json
        assert said["alpha"] == float(
            plan.accuracy(HybridTopK(**known), answers=answers, beta=0.05).alpha
        )


def test_a_list_or_a_set(sordino):
    line = ("plan", "top-k", "-k", 100, "-m", 3000, "--epsilon", 1)
    found = sordino(*line, "--kth-count", 800, "--format", "json").json
    assert (found["plan"], found["mechanism"]["name"], found["kth"]) == ("top-k", "JointTopK", 8.0)
    assert sordino(*line, "--format", "table").out.startswith(
        "NoisyTopK: nothing is known about the count"
    )
    either = sordino(
        *line, "--kth-count", 800, "--adjacency", "replace-one", "--format", "csv"
    ).out.splitlines()
    assert either[0] == "mechanism,kth,needed"
    assert either[1].startswith("JointTopK,4.0,3.7")
    assert sordino(*line, "--kth-count", -1).code == 2
