"""Run all jobs (or the named ones) and write their sections of benchmarks/results.md; the sections of other jobs stay as they are.

python -m benchmarks [samplers top_k sparse_vector selection quantile buckets streams bounded smooth command start coverage ledger audit audit_power audit_peers timing accounting]
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import machine

JOBS = (
    "samplers",
    "top_k",
    "sparse_vector",
    "selection",
    "quantile",
    "buckets",
    "streams",
    "bounded",
    "smooth",
    "command",
    "start",
    "coverage",
    "ledger",
    "audit",
    "audit_power",
    "audit_peers",
    "timing",
    "accounting",
)
RESULTS = Path(__file__).with_name("results.md")


def written():
    """Return the sections of the results as they were last written, by job."""
    if not RESULTS.exists():
        return {}
    _, *sections = RESULTS.read_text(encoding="utf-8").split("<!-- job ")
    return {name: text.strip() for name, text in (section.split(" -->\n", 1) for section in sections)}


def main() -> None:
    sections = written()
    for name in sys.argv[1:] or JOBS:
        print(f"benchmark {name} ...", file=sys.stderr, flush=True)
        sections[name] = "\n".join(import_module(f"benchmarks.{name}").report()).strip()
        print(sections[name])
        parts = ["# Benchmark results", "", *machine(), ""]
        for job in JOBS:
            parts += [f"<!-- job {job} -->", "", sections[job], ""] if job in sections else []
        RESULTS.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
