"""Runs the tests of a mutant in a process of its own, and says what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mutants import witness
from mutants.overlay import lay_over
from mutants.places import Change, Mutant, find_change, find_tests, source_roots

TESTS = Path(__file__).resolve().parents[1]
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "mutants.witness")
SECONDS = 180
"""So long may the tests of one mutant take: one that hangs says nothing."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: "convicted" by a test, "survived" all of them, or "no verdict" and why."""

    name: str
    word: Literal["convicted", "survived", "no verdict"]
    why: str
    seconds: float


def try_mutant(mutant: Mutant, project: Path) -> Verdict:
    """Run the tests of a mutant over a source that has its change."""
    change = find_change(mutant, source_roots(project))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        return _judge(mutant.name, find_tests(mutant, project), project, Path(folder), change)


def run_control(tests: Sequence[str], project: Path) -> Verdict:
    """Run tests over the source as it is, where all of them must pass: then it has "survived"."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        return _judge("control", tests, project, Path(folder), None)


def _judge(
    name: str, tests: Sequence[str], project: Path, folder: Path, change: Change | None
) -> Verdict:
    report, places = folder / "report.json", [str(TESTS)]
    told = {witness.REPORT: str(report)}
    if change is not None:
        tree = folder / "source"
        tree.mkdir()
        told |= {witness.MODULE: change.module, witness.FILE: str(lay_over(change, tree))}
        places.insert(0, str(tree))
    known = os.environ.get("PYTHONPATH")
    told["PYTHONPATH"] = os.pathsep.join([*places, *([known] if known else [])])
    # One test that fails is enough; of the source as it is all are of interest.
    first = () if change is None else ("-x",)
    begun = time.monotonic()
    ended, output = _run(
        [sys.executable, "-m", "pytest", *PYTEST, *first, *tests],
        project,
        os.environ | told,
        change,
    )
    seconds = time.monotonic() - begun
    said = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
    if not ended:
        return Verdict(name, "no verdict", f"its tests took longer than {SECONDS} seconds", seconds)
    if not said or said["broken"] or not (said["failed"] or said["passed"]):
        why = "; ".join(said.get("broken", ())) or f"no test ran\n{output[-2000:]}"
        return Verdict(name, "no verdict", why, seconds)
    if said["failed"]:
        return Verdict(name, "convicted", ", ".join(said["failed"]), seconds)
    return Verdict(name, "survived", f"{said['passed']} tests passed", seconds)


def _run(
    command: list[str], project: Path, env: dict[str, str], change: Change | None
) -> tuple[bool, str]:
    """Return whether a command has ended in time, and what it wrote."""
    with subprocess.Popen(
        command,
        cwd=project,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            # Of the control, which runs all tests, nobody knows how long it takes.
            output, _ = process.communicate(timeout=None if change is None else SECONDS)
        except subprocess.TimeoutExpired:
            # With whatever its tests have started.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, ""
    return True, output
