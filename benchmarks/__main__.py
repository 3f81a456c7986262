"""Run all jobs (or the named ones) and write their sections of benchmarks/results.md; the sections of other jobs stay as they are.

python -m benchmarks [samplers top_k sets unlisted sparse_vector selection quantile ranks equal_rho totals people tables lookups study buckets fast_paths streams readings bounded smooth command start coverage ledger series audit audit_power audit_peers timing accounting plans surface report spark_overhead]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import machine

JOBS = (
    "samplers",
    "top_k",
    "sets",
    "unlisted",
    "sparse_vector",
    "selection",
    "quantile",
    "ranks",
    "equal_rho",
    "totals",
    "people",
    "tables",
    "lookups",
    "study",
    "buckets",
    "fast_paths",
    "streams",
    "readings",
    "bounded",
    "smooth",
    "command",
    "start",
    "coverage",
    "ledger",
    "series",
    "audit",
    "audit_power",
    "audit_peers",
    "timing",
    "accounting",
    "plans",
    "surface",
    "report",
    "spark_overhead",
)
_JOB = "import importlib, sys; print(*importlib.import_module(f'benchmarks.{sys.argv[1]}').report(), sep='\\n')"
RESULTS = Path(__file__).with_name("results.md")


def written():
    """Return the sections of the results as they were last written, by job."""
    if not RESULTS.exists():
        return {}
    _, *sections = RESULTS.read_text(encoding="utf-8").split("<!-- job ")
    return {
        name: text.strip() for name, text in (section.split(" -->\n", 1) for section in sections)
    }


def main() -> None:
    sections = written()
    for name in sys.argv[1:] or JOBS:
        print(f"benchmark {name} ...", file=sys.stderr, flush=True)
        # In a process of its own: what one job leaves in memory is no part of the next one's figures.
        report = subprocess.run(
            [sys.executable, "-c", _JOB, name], stdout=subprocess.PIPE, text=True, check=True
        )
        sections[name] = report.stdout.strip()
        print(sections[name])
        parts = ["# Benchmark results", "", *machine(), ""]
        for job in JOBS:
            parts += [f"<!-- job {job} -->", "", sections[job], ""] if job in sections else []
        RESULTS.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
