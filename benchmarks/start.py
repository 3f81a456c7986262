"""How long it takes to start: the command's help and the first mechanism against importing NumPy."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from benchmarks.measuring import compile_package, process, table, verdict

ROUNDS = 15


def report():
    compile_package()
    command = str(Path(sys.executable).with_name("sordino"))
    lines = {
        "numpy": [sys.executable, "-c", "import numpy"],
        "help": [command, "--help"],
        "mechanism": [sys.executable, "-c", "import sordino; sordino.NoisyTopK"],
        "import": [sys.executable, "-c", "import sordino"],
    }
    seconds = {name: [] for name in lines}
    for line in lines.values():
        process(*line)
    for _ in range(ROUNDS):
        for name, line in lines.items():
            seconds[name].append(process(*line)[1])
    base = statistics.median(seconds["numpy"])
    rows = []
    for name, target in (("help", 1.0), ("mechanism", 1.6), ("import", None)):
        taken = statistics.median(seconds[name])
        shown = " ".join(lines[name]).replace(sys.executable, "python").replace(command, "sordino")
        reached = "" if target is None else verdict(taken <= target * base)
        rows.append(
            (
                f"`{shown}`",
                f"{taken * 1e3:.0f}",
                f"{taken / base:.2f}x",
                f"{target}x" if target else "",
                reached,
            )
        )
    return [
        "## Start",
        "",
        f'Against `python -c "import numpy"`: {base * 1e3:.0f} ms; medians of {ROUNDS} interleaved processes.',
        "",
        *table(("process", "ms", "ratio", "target", ""), rows),
    ]
