"""The scripts in `examples` do five jobs from start to end, as their users would start them."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import sordino as sd

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import page_outputs  # noqa: E402

# The ledger that each of them leaves behind: its account, and what is left there. The last one tidies up.
LEFT = {
    "data_scientist.py": ("science.db", "shop", 0.75),
    "office.sh": ("budget.db", "survey", 0.5),
    "operator.sh": ("new-machine/budget.db", "purchases", 1.9),
    "geneticist.sh": ("trios.db", "trios", 2),
    "engineer.py": None,
}
FAST = "engineer.py"


@pytest.mark.parametrize(
    "script",
    [pytest.param(name, marks=[] if name == FAST else [pytest.mark.slow]) for name in LEFT],
)
def test_an_example_does_its_job(script, tmp_path):
    programs = page_outputs.put_programs(tmp_path)
    page_outputs.put_purchases(tmp_path)
    done = subprocess.run(
        ["sh" if script.endswith(".sh") else "python", str(ROOT / "examples" / script)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    if LEFT[script] is None:
        assert "One more: None" in done.stdout
    else:
        file, account, left = LEFT[script]
        assert sd.Ledger.open(tmp_path / file, account=account).remaining == Fraction(str(left))
    if script == "office.sh":
        cells, incomes = (
            (tmp_path / name).read_text(encoding="utf-8").splitlines()
            for name in ("cells.csv", "incomes.csv")
        )
        # Five regions by four ages, a margin for each of them, and the total.
        assert (len(cells), len(incomes)) == (1 + 5 * 4 + 5 + 4 + 1, 1 + 5 * 3)
        table = list(csv.DictReader(cells))
        # In a few runs no whole numbers fit; estimates add up as well.
        name = "published" if table[0]["published"] else "estimate"
        inside = [float(row[name]) for row in table if row["region"] and row["age"]]
        assert sum(inside) == float(table[-1][name])
