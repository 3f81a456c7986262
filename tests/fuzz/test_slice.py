"""A slice of the fuzzer in the default tests: whatever was ever found, some fixed seeds, and twins that must be found."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import broken, databases, engines
from fuzz.cases import from_text, shuffled, to_text
from fuzz.checks import check, examine
from fuzz.found import kept, load, of_twin, smaller
from fuzz.generate import make_case
from fuzz.questions import ask
from fuzz.sources import write
from fuzz.tables import pack, unpack
from fuzz.values import MINUS_NAN, NAN, identity
from support import postgres

SEEDS = range(1, 61)
QUICK = 20
"""How many of them are in the default run."""
SERVED = (8, 36, 158, 165)
"""Seeds whose cases are about a PostgreSQL server."""


@pytest.fixture(scope="module")
def server():
    databases.use_server(postgres.database())


def name(path):
    return path.stem


@pytest.mark.parametrize("path", kept(), ids=name)
@pytest.mark.sample(3)
def test_what_was_found_stays_mended(path):
    assert check(load(path)) is None


@pytest.mark.parametrize(
    "seeds",
    [SEEDS[:QUICK], pytest.param(SEEDS[QUICK:], marks=pytest.mark.slow)],
    ids=["first", "others"],
)
def test_a_slice_of_fixed_seeds(seeds):
    found = {}
    for seed in seeds:
        case = make_case(seed)
        if case.source["kind"] != "postgres":
            found[seed] = examine(case, pool=seed % 20 > 0, thorough=False).finding
    assert len(found) > len(seeds) * 0.8
    assert not {seed: str(finding) for seed, finding in found.items() if finding is not None}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("seed", SERVED)
def test_a_slice_of_a_server(seed):
    case = make_case(seed)
    assert case.source["kind"] == "postgres"
    assert check(case) is None


@pytest.mark.parametrize("twin", sorted(broken.TWINS))
@pytest.mark.sample(3)
def test_every_twin_is_convicted_by_what_found_it(twin):
    paths = of_twin(twin)
    assert paths
    broken.install(twin)
    try:
        assert all(check(load(path)) is not None for path in paths)
    finally:
        broken.mended()
        engines.forget()


# ---- the machine itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sample(4)
def test_a_file_keeps_a_case_to_the_last_bit(seed):
    case = make_case(seed)
    again = from_text(to_text(case, "a finding"))
    assert again == make_case(seed) or "nan" in to_text(case)  # NaN is not equal to itself
    for one, other in (
        (case.base.rows, again.base.rows),
        (case.added, again.added),
        (case.instead, again.instead),
    ):
        assert [tuple(map(identity, row)) for row in one] == [
            tuple(map(identity, row)) for row in other
        ]
    assert to_text(again, "a finding") == to_text(case, "a finding")


def test_rows_are_packed_in_runs():
    rows = (*((i, 7, NAN) for i in range(5000)), (0, 7, MINUS_NAN))
    assert len(pack(rows)) == 2
    assert [tuple(map(identity, row)) for row in unpack(pack(rows))] == [
        tuple(map(identity, row)) for row in rows
    ]


@pytest.mark.slow
def test_shared_engines_answer_as_fresh_ones_do(tmp_path):
    answers = {}
    for seed in range(12):
        case = make_case(seed)
        if case.source["kind"] == "postgres" or case.release is not None:
            continue
        for way in (engines.pooled, engines.fresh):
            with way(case.threads):
                folder = tmp_path / f"{seed}-{way.__name__}"
                folder.mkdir()
                written = write(case.source, case.joined(case.added), folder)
                outcome = ask(written.target, case.question, csv=written.csv, hidden=str(folder))
                written.close()
            answers.setdefault(seed, []).append((outcome.answers, outcome.shape))
    assert len(answers) >= 8
    assert all(one == other for one, other in answers.values())


@pytest.mark.slow
def test_a_finding_is_cut_down_and_finds_the_same():
    """Twenty rows of which one matters, in a source with options of which none does."""
    case = load(of_twin("wide-total")[0])
    longer = case.base.with_rows(
        shuffled((*case.base.rows, *[(None,) * len(case.base.names)] * 20), case)
    )
    case = case.change(base=longer, place="scattered", threads=2)
    broken.install("wide-total")
    try:
        finding = check(case)
        assert finding is not None
        least, again = smaller(case, finding, seconds=20)
        assert again.law == finding.law
        assert len(least.base.rows) + len(least.added) <= 3
        assert (least.place, least.threads) == ("last", 0)
    finally:
        broken.mended()
        engines.forget()


def test_seeds_make_cases_of_every_kind():
    cases = [make_case(seed) for seed in random.Random(5).sample(range(10_000), 400)]
    assert {case.source["kind"] for case in cases} >= {
        "csv",
        "excel",
        "parquet",
        "duckdb",
        "relation",
        "pandas",
        "polars",
        "lazy",
        "arrow",
    }
    assert {case.question.kind for case in cases} >= {"rows", "units", "items", "buckets", "totals"}
    assert {case.source.get("writer") for case in cases} >= {
        "pyarrow",
        "pandas",
        "polars",
        "duckdb",
    }
    assert {case.release["how"] for case in cases if case.release} == {"command", "session"}
    assert any(case.release and "beside" in case.release for case in cases)
    assert any(case.source.get("odd") for case in cases)
    assert any(len(case.base.rows) > 2048 for case in cases)
    assert any(case.threads for case in cases)


@pytest.mark.slow
def test_the_command_ends_by_itself_and_says_what_it_did(tmp_path):
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(
        [str(root / "tests"), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    )
    command = [
        sys.executable,
        "-m",
        "fuzz",
        "--cases",
        "30",
        "--minutes",
        "2",
        "--seed",
        "7",
        "--no-server",
        "--folder",
        tmp_path,
    ]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == (1 if "FOUND" in done.stdout else 0), done.stderr
    assert "30 cases of " in done.stdout
