"""Run all jobs (or the named ones) and write benchmarks/results.md.

python -m benchmarks [samplers top_k sparse_vector selection quantile buckets command start coverage ledger audit audit_power audit_peers timing accounting]
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


def main() -> None:
    chosen = sys.argv[1:] or JOBS
    parts = ["# Benchmark results", "", *machine(), ""]
    for name in chosen:
        print(f"benchmark {name} ...", file=sys.stderr, flush=True)
        parts += [*import_module(f"benchmarks.{name}").report(), ""]
    text = "\n".join(parts)
    if list(chosen) == list(JOBS):
        RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
