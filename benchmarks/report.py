"""How long a report of twenty releases takes, and how large it is: all kinds, an account with a hundred charges."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import compile_package, process, table, verdict

ROUNDS = 7
MOST_SECONDS, MOST_BYTES = 2.0, 1_500_000
KINDS = ("top", "above", "histogram", "quantile", "mean")
_PAGE = """
import json, sys, time
from pathlib import Path
from sordino.report import make_report
documents, account = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
Path(sys.argv[2]).write_text(make_report(documents, account=account), encoding="utf-8")
print(time.process_time())
"""


def make_document(place, rows):
    """Return what a command prints, of a kind that changes with the place."""
    kind = KINDS[place % len(KINDS)]
    labels = [{"rank": n + 1, "item": f"label {n}"} for n in range(rows)]
    if kind == "quantile":
        labels = [{"q": (n + 1) / 10} for n in range(9)]
    figures = [
        {**label, "estimate": 900.0 - n, "low": 880.0 - n, "high": 920.0 - n, "gap": 1.0}
        for n, label in enumerate(labels)
    ]
    return {
        "release": kind,
        "id": f"{place:032x}",
        "account": "shop",
        "time": "2026-11-24",
        "epsilon": 0.1,
        "delta": 0,
        "mechanisms": ["NoisyTopK", "LaplaceMechanism"],
        "adjacency": "add-remove",
        "unit": "column customer",
        "max_rows": 3,
        "item": "product" if kind != "quantile" else None,
        "column": "price",
        "domain": "file products.csv",
        "threshold": 500,
        "confidence": 0.95,
        "confidence_together": 0.5,
        "left_out": ["rows without a value in customer"],
        "method": "gaps",
        "simulated": False,
        "exact": True,
        "cost": {"notion": "pure", "epsilon": 0.1, "exact": "1/10"},
        "version": "0",
        "schema": 1,
        "rows": figures,
    }


def make_account(charges):
    """Return a statement of an account."""
    listed = [
        {
            "label": "top",
            "reserved": 0.1,
            "settled": 0.1,
            "time": f"2026-{1 + n // 28:02d}-{1 + n % 28:02d}",
            "kept": 0,
        }
        for n in range(charges)
    ]
    facts = {
        "account": "shop",
        "unit": "customer",
        "adjacency": "add-remove",
        "measure": "epsilon",
        "head": "ab" * 32,
    }
    sums = {
        "epsilon": 20.0,
        "delta": 0.0,
        "limit": 20.0,
        "spent": charges / 10,
        "remaining": 20 - charges / 10,
    }
    return facts | sums | {"charges": listed, "shares": {}}


def report():
    compile_package()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        told, page = Path(folder) / "told.json", Path(folder) / "report.html"
        for releases, each in ((1, 10), (20, 10), (20, 200)):
            documents = [make_document(place, each) for place in range(releases)]
            told.write_text(json.dumps([documents, make_account(100)]), encoding="utf-8")
            ran = [
                process(sys.executable, "-c", _PAGE, str(told), str(page))[:2]
                for _ in range(ROUNDS)
            ]
            taken, size = statistics.median(seconds for _, seconds in ran), page.stat().st_size
            # Of the processor alone: on a busy machine the other figure says how busy it is.
            worked = statistics.median(float(printed) for printed, _ in ran)
            reached = verdict(taken < MOST_SECONDS and size < MOST_BYTES)
            rows.append(
                (releases, each, f"{taken:.2f}", f"{worked:.2f}", f"{size / 1e3:,.0f}", reached)
            )
    return [
        "## Reports",
        "",
        f"A page of releases of {len(KINDS)} kinds and an account with 100 charges, in a process of its own: start, "
        f"pictures and all. At most {MOST_SECONDS:g} s and {MOST_BYTES / 1e6:g} MB. Medians of {ROUNDS} processes.",
        "",
        *table(("releases", "rows each", "s", "s of a processor", "kB", ""), rows),
    ]
