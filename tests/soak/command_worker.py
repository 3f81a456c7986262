"""One worker: it imports everything once, forks for each line, asks the laws, and says what it saw as lines of JSON."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from soak import command_laws, command_twins
from soak.command_library import make_library
from soak.command_lines import Case, leaves, make_case
from soak.command_runs import Outcome, Stage, run_forked
from soak.commands import shell_line

SAID = 20
"""After so many cases it says what it saw."""

WARMED = (
    "duckdb",
    "rich.console",
    "rich.table",
    "rich.text",
    "rich.progress",
    "sordino.genomics",
    "sordino.plan",
    "sordino.session",
    "json",
)


def work(asked: argparse.Namespace) -> int:
    """Look at every so-manieth case, from the seed on."""
    _end_with_parent()
    home = Path(asked.folder)
    home.mkdir(parents=True)
    if os.geteuid() != 0:
        os.umask(0o022)
    leaves()
    for name in WARMED:
        importlib.import_module(name)
    stage = Stage(home)
    make_library(stage.library, stage.folder, asked.seed)
    if asked.broken is not None:
        command_twins.install(asked.broken)
    if asked.case is not None:
        return _show(make_case(asked.case), stage)
    end, number, done = (
        time.monotonic() + 60 * asked.minutes,
        asked.seed * 10_000_000 + asked.worker,
        0,
    )
    seen = _nothing()
    while time.monotonic() < end and (asked.cases is None or done < asked.cases):
        case = make_case(number)
        number += asked.processes
        if asked.only is not None and asked.only not in case.path:
            continue
        done += 1
        _look(case, stage, seen)
        if seen["found"] or seen["cases"] >= SAID:
            print(json.dumps(seen), flush=True)
            seen = _nothing()
    stage.clear()
    print(json.dumps(seen), flush=True)
    return 0


def _end_with_parent() -> None:
    """Ask the system to end this process with the one that started it, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _nothing() -> dict[str, Any]:
    return {
        "cases": 0, "runs": 0, "codes": Counter(), "paths": Counter(), "around": Counter(), "found": [], "slowest": 0.0, "largest": 0,
    }  # fmt: skip


def _look(case: Case, stage: Stage, seen: dict[str, Any]) -> None:
    one = run_forked(case, stage)
    found = list(command_laws.breaches(case, one))
    runs = [one]
    if case.paired and not found:
        variant = (
            "replaced" if {"replace-one", "randomize", "select"} & set(case.arguments) else "added"
        )
        runs.append(run_forked(case, stage, variant))
        found = list(command_laws.breaches(case, runs[1])) or list(
            command_laws.differences(case, *runs)
        )
    seen["cases"] += 1
    seen["runs"] += len(runs)
    seen["paths"][" ".join(case.path)] += len(runs)
    for outcome in runs:
        seen["codes"][str(outcome.code)] += 1
        seen["slowest"], seen["largest"] = (
            max(seen["slowest"], outcome.seconds),
            max(seen["largest"], outcome.memory),
        )
    around = seen["around"]
    around[f"line {case.intent}"] += 1
    around["pairs of neighbors"] += len(runs) - 1
    around["interrupted"] += one.signalled
    around["a process of its own"] += case.mode == "process"
    around["as nobody"] += case.nobody
    for name in ("stdout", "stderr"):
        around[f"{name} {getattr(case, name)}"] += getattr(case, name) != "file"
    for what in found:
        seen["found"].append(
            {
                "law": what,
                "like": _like(case, what),
                "seed": case.seed,
                "line": shell_line(case),
                "case": asdict(case),
                "stderr": one.err[-2000:].decode("latin-1"),
            }
        )


def _like(case: Case, what: str) -> str:
    """Return what findings of one kind have in common."""
    return f"{what.partition(':')[0]} {' '.join(case.path)} {''.join(c for c in what if not c.isdigit())}"


def _show(case: Case, stage: Stage) -> int:
    """Play one case and show all of it, marks and all: it is made up."""
    one = run_forked(case, stage)
    for part in (shell_line(case), repr(case), *_parts(one)):
        print(part, file=sys.stderr)
    found = list(command_laws.breaches(case, one))
    if case.paired:
        variant = (
            "replaced" if {"replace-one", "randomize", "select"} & set(case.arguments) else "added"
        )
        other = run_forked(case, stage, variant)
        for part in _parts(other):
            print(part, file=sys.stderr)
        found += [*command_laws.breaches(case, other), *command_laws.differences(case, one, other)]
    print(f"files: {stage.folder}" if found else "nothing was found", file=sys.stderr)
    for what in found:
        print(f"FOUND {what}", file=sys.stderr)
    return 0


def _parts(seen: Outcome) -> list[str]:
    return [
        f"exit code {seen.code}, {seen.seconds:.2f} s, {seen.memory >> 20} MiB, left {sorted(seen.left)}",
        f"spent {seen.before} {seen.after}",
        f"stdout {seen.out[:3000]!r}",
        f"stderr {seen.err[:3000]!r}",
    ]
