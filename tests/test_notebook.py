"""The notebook of the tutorials: its cells run in order, and return what they say without anything private or dated."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTEBOOKS = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if path.read_text(encoding="utf-8").startswith("---\nfile_format: mystnb")
]
CELL = re.compile(r"```\{code-cell\} python3\n(.*?)```", re.DOTALL)


def run(path):
    """Return what the last line of each cell returns, as a notebook shows it."""
    names, shown = {}, []
    for cell in CELL.findall(path.read_text(encoding="utf-8")):
        *lines, last = cell.rstrip().split("\n")
        # A last line that is a part of a longer statement ends no expression.
        try:
            expression = compile(last, path.name, "eval")
        except SyntaxError:
            exec(compile(cell, path.name, "exec"), names)
            continue
        exec(compile("\n".join(lines), path.name, "exec"), names)
        value = eval(expression, names)
        picture = getattr(value, "_repr_html_", None)
        shown.append(repr(value) if picture is None else picture())
    return shown


def test_there_is_a_notebook():
    assert [path.name for path in NOTEBOOKS] == ["a-page-of-figures.md"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_in_order_and_return_the_same_each_time(path):
    first = run(path)
    assert first == run(path)
    assert len(first) >= 6
    assert not re.search(r"0x[0-9a-f]{6,}|\d{4}-\d\d-\d\d", " ".join(first)), (
        "an address, or a date"
    )


# What the engine takes for a notebook: a program without a file, in which IPython says that its kernel runs.
IN_A_KERNEL = """
import sys, types
shell = type("Shell", (), {"config": {"IPKernelApp": {}}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = None
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = true")
except duckdb.InvalidInputException:
    print("refused")
import polars as pl, sordino as sd
told = []
session = sd.Session(pl.DataFrame({"u": range(50)}), unit=sd.PrivacyUnit("u"), entropy=sd.Seeded(7))
print(session.count_distinct_units(epsilon=8, progress=told.append).estimate, told[-1])
"""


def test_a_notebook_without_pictures_of_progress_is_no_obstacle():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_KERNEL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["refused", "50.0", "100.0"], done.stderr
    assert done.stderr == ""
