"""The examples on the pages run, and no page waits to be filled in."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "packages/sordino-audit/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = re.compile(r"^```(?:python|pycon)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def name(path):
    return path.relative_to(ROOT).as_posix()


def examples(text):
    return "\n".join(block for block in EXAMPLES.findall(text) if ">>> " in block)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page.read_text(encoding="utf-8"))], ids=name
)
@pytest.mark.slow
def test_examples_on_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(
        examples(page.read_text(encoding="utf-8")), {}, name(page), name(page), 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert not runner.run(test).failed


def offenders(check, pages=PAGES):
    """Return what a check finds on each page, but for the pages on which it finds nothing."""
    found = {name(page): list(check(page, page.read_text(encoding="utf-8"))) for page in pages}
    return {page: wrong for page, wrong in found.items() if wrong}


def dead_links(page, text):
    """Return the targets of links inside the tree that are not there."""
    targets = [target for target in LINK.findall(text) if not re.match(r"\w+:", target)]
    return [target for target in targets if not (page.parent / target).exists()]


def test_links_inside_the_tree_lead_somewhere():
    assert offenders(dead_links) == {}


def test_a_link_that_leads_nowhere_is_found():
    text = "[a](docs/index.md#there) [b](docs/nosuch.md) [c](https://example.org/nosuch)"
    assert dead_links(ROOT / "README.md", text) == ["docs/nosuch.md"]


RELEASE = re.compile(
    r"^[^#\n]*\bsordino (?:top|above|count|histogram|quantile|sum|mean|variance|randomize|select) (?:\\\n|.)*",
    re.MULTILINE,
)
# A name without an ending is that of a declared table, whose declaration says who pays.
PAYER = re.compile(r"--(?:no-)?ledger\b|--seed\b|sordino \w+ \w[\w-]*(?=\s)")
SHOWN = re.compile(r"^```(?:console|text|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def released(text):
    """Return the commands in the blocks of a page that a reader would type, but for summaries of their options."""
    commands = [line for block in SHOWN.findall(text) for line in RELEASE.findall(block)]
    return [line for line in commands if "--epsilon E" not in line]


def without_payer(page, text):
    """Return the commands of a page that release something and do not say who pays."""
    return [line for line in released(text) if not PAYER.search(line)]


def test_a_release_that_is_shown_says_who_pays():
    assert offenders(without_payer) == {}


def test_releases_on_pages_are_found():
    page = "```console\n$ cat x | sordino above - -c 1 \\\n    --ledger b.db\n$ sordino count x.csv\n```\nsordino top y\n"
    assert released(page) == [
        "$ cat x | sordino above - -c 1 \\\n    --ledger b.db",
        "$ sordino count x.csv",
    ]
    assert without_payer(None, page) == ["$ sordino count x.csv"]
    known = {
        line.split("sordino ")[1].split()[0]
        for page in PAGES
        for line in released(page.read_text(encoding="utf-8"))
    }
    assert {"top", "above", "select", "quantile", "randomize", "count", "sum"} <= known


def test_the_first_screen_is_short():
    """A table of one's own, its output and where to go on: all else is a page of its own."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 120
    assert readme.index("## Your table") < readme.index("## Which command")
    for peer in ("cwida/privacy", "BigQuery", "Snowflake", "AWS Clean Rooms"):
        assert peer in readme


def test_no_page_waits_to_be_filled():
    marker = "OUTPUT-TO" + "-FILL"
    assert [name(page) for page in PAGES if marker in page.read_text(encoding="utf-8")] == []


UNREADABLE = re.compile(r"\\frac\d\d\s*\$|\\tag\b|\\rm\b")
"""Formulas that the builder of the pages cannot read: a fraction of two digits at the end, and two old commands."""


def test_formulas_can_be_read_by_the_builder_of_the_pages():
    assert offenders(lambda page, text: UNREADABLE.findall(text)) == {}


def test_a_formula_that_cannot_be_read_is_found():
    for formula in (r"$x-\frac12$", r"$a \tag{1}$", r"${\rm bound}$"):
        assert UNREADABLE.search(formula)
    for formula in (r"$x-\frac{1}{2}$", r"$\frac12x$", r"$\frac d2$"):
        assert not UNREADABLE.search(formula)
