"""Medians of interleaved runs, and what machine they ran on."""

from __future__ import annotations

import compileall
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sordino

ROUNDS = 7


def machine():
    cpu = platform.processor() or platform.machine()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            cpu = next(
                line.split(":", 1)[1].strip() for line in info if line.startswith("model name")
            )
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


# A process inherits the peak of the one that starts it, so a small one stands in between. It keeps the time, too.
_STARTER = """
import os, sys, time
started = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
os.write(int(sys.argv[1]), f"{time.perf_counter() - started} {usage.ru_maxrss}".encode())
sys.exit(os.waitstatus_to_exitcode(status))
"""


def process(*command):
    """Run a command to its end; returns (stdout, seconds, peak resident bytes)."""
    told, tell = os.pipe()
    with os.fdopen(told) as report:
        try:
            starter = [sys.executable, "-I", "-S", "-c", _STARTER, str(tell), *command]
            done = subprocess.run(starter, capture_output=True, pass_fds=[tell], check=False)
        finally:
            os.close(tell)
        if done.returncode:
            raise RuntimeError(
                f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )
        seconds, peak = report.read().split()
    return (
        done.stdout.decode(),
        float(seconds),
        int(peak) * (1 if sys.platform == "darwin" else 1024),
    )


def compile_package():
    """Compile the package to bytecode, as an installation does: an editable one may never have been."""
    compileall.compile_dir(Path(sordino.__file__).parent, quiet=1)


def verdict(reached):
    return "reached" if reached else "**missed**"


def table(header, rows):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]


def write_section(page, job, lines):
    """Put what a job says between its own marks in a page, at the end if it is not there yet; all else stays."""
    begin, end = f"<!-- job {job} -->", f"<!-- end of job {job} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2].strip()
    parts = [before.strip(), "\n".join([begin, "", *lines, "", end]), after]
    page.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")


__all__ = [
    "ROUNDS",
    "compile_package",
    "machine",
    "medians",
    "process",
    "table",
    "verdict",
    "write_section",
]
