"""How the time of a release grows with rows, units, items, groups, k and bound, beside the engine's own query: one picture, and a table.

python -m benchmarks.growth      # writes its section of scale.md, and the picture
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

from experiments.drawing import COLORS, Panel, Picture

from benchmarks.measuring import table, write_section
from benchmarks.scale import measure, write_rows

FIGURE = Path(__file__).with_name("scale-growth.svg")
ROWS = 2_000_000
# What grows, which release is asked, and the values that are tried; all else is as `write_rows` has it.
SWEEPS = {
    "rows": ("mean", (100_000, 1_000_000, 10_000_000)),
    "units": ("mean", (2_000, 20_000, 200_000, 2_000_000)),
    "items": ("top", (10, 1_000, 10_000, 100_000)),
    "groups": ("mean by item", (1, 100, 1_000, 10_000)),
    "k": ("top", (1, 10, 100, 1_000)),
    "rows of a unit that count": ("mean", (1, 5, 20, 100)),
}


def measure_one(name, kind, value, rounds):
    rows = value if name == "rows" else ROWS
    items = value if name in {"items", "groups"} else 1_000
    with tempfile.TemporaryDirectory(prefix="scale-") as made:
        folder = Path(made, "rows")
        write_rows(folder, rows, units=value if name == "units" else None, items=items)
        return measure(
            folder,
            kind,
            m=value if name == "rows of a unit that count" else 10,
            k=min(value, items) if name == "k" else min(10, items),
            items=items,
            rounds=rounds,
        )


def draw(found):
    picture = Picture(960, 520)
    picture.legend(60, 20, ("release, whole process", "engine's own query"), wide=190)
    for place, (name, (kind, values)) in enumerate(SWEEPS.items()):
        across, down = place % 3, place // 3
        seconds = [[one[who]["seconds"] for one in found[name]] for who in ("release", "engine")]
        most = max(map(max, seconds)) * 1.1
        # Powers of ten along the horizontal axis.
        xs = [math.log10(value) for value in values]
        panel = Panel(
            picture,
            (60 + 310 * across, 70 + 235 * down, 250, 165),
            (xs[0], xs[-1]),
            (0, most),
            f"{kind}: {name}",
            x_ticks=False,
        )
        for x, value in zip(xs, values, strict=True):
            picture.text(panel.at(x, 0)[0], 250 + 235 * down, f"{value:,}", "middle")
        for color, ys in zip(COLORS, seconds, strict=False):
            panel.line(xs, ys, color)
    picture.text(20, 60, "seconds")
    picture.write(FIGURE)


def report(rounds=3):
    found = {}
    for name, (kind, values) in SWEEPS.items():
        found[name] = []
        for value in values:
            found[name].append(measure_one(name, kind, value, rounds))
            print(name, value, found[name][-1], file=sys.stderr, flush=True)
    draw(found)
    rows = [
        [name, kind, f"{value:,}", f"{release:.2f} s", f"{engine:.2f} s", f"{release / engine:.2f}"]
        for name, (kind, values) in SWEEPS.items()
        for value, one in zip(values, found[name], strict=True)
        for release, engine in [(one["release"]["seconds"], one["engine"]["seconds"])]
    ]
    return [
        "## How the time grows",
        "",
        f"One thing grows, the others stay: {ROWS:,} rows, a tenth as many units, 1,000 items, k 10, at most 10 rows or items of a unit. Whole processes, medians of {rounds}, release and engine by turns: a "
        "start of the interpreter and of the library is in each release, one of the engine in each query.",
        "",
        f"![Seconds of a release and of the engine's own query, for six things that grow]({FIGURE.name})",
        "",
        *table(["grows", "release", "to", "seconds", "engine", "ratio"], rows),
        "",
        "Made with `python -m benchmarks.growth`.",
    ]


if __name__ == "__main__":
    write_section(FIGURE.with_name("scale.md"), "growth", report())
