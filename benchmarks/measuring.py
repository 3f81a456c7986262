"""Medians of interleaved runs, and what machine they ran on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROUNDS = 7


def machine():
    cpu = platform.processor() or platform.machine()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            cpu = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = []
    for name in ("sordino", "numpy", "duckdb", "opendp", "cryptography"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} not installed")
    return [
        f"Machine: {cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}.",
        f"Versions: {', '.join(versions)}.",
        f"Every figure is the median of {ROUNDS} interleaved runs unless it says otherwise; compare ratios, not milliseconds.",
    ]


def medians(*jobs, rounds=ROUNDS):
    """Seconds of each job, medians over rounds in which every job runs once."""
    for job in jobs:
        job()
    seconds = [[] for _ in jobs]
    for _ in range(rounds):
        for taken, job in zip(seconds, jobs, strict=True):
            started = time.perf_counter()
            job()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in seconds]


def process(*command):
    """Run a command to its end; returns (stdout, seconds, peak resident bytes)."""
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    taken = time.perf_counter() - started
    child.stdout.close()
    child.stderr.close()
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}: {err.decode(errors='replace')}")
    return out.decode(), taken, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def verdict(reached):
    return "reached" if reached else "**missed**"


def table(header, rows):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]


__all__ = ["ROUNDS", "machine", "medians", "process", "table", "verdict"]
