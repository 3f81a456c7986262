"""The figures of the house count what they say, and what must be nothing is nothing."""

from __future__ import annotations

import sys
import textwrap

import pytest

from architecture import figures

EXAMPLE = '''"""A docstring is no code,

however long it is."""

from sordino.noise.law import Law  # a comment at the end of a line

SIZE = 2
"""An attribute has one, too."""


def add(a, b):
    """Add."""
    # A comment of its own.
    return (
        a
        + b  # noqa: X1
    )
'''


def test_a_docstring_a_comment_and_a_blank_line_are_no_code():
    seen = figures.count(EXAMPLE)
    assert sorted(seen.code) == [5, 7, 11, 14, 15, 16, 17]
    assert seen.comments == 2, "what a tool is told is no comment for a reader"
    assert seen.wide == 0
    assert figures.count(EXAMPLE.replace("# noqa: X1", "# noqa: X1  (and why)")).comments == 3
    assert figures.count(f"x = 1  # {'y' * figures.WIDEST}\n").wide == 1


def test_tokens_are_those_of_code():
    assert figures.count("x = f(1, 2)\n").tokens == 8
    assert figures.count('"""Words."""\nx = f(1, 2)  # words\n').tokens == 8


def house(monkeypatch, **modules):
    """Put a small library in the place of the real one."""
    texts = {name.replace("__", "."): textwrap.dedent(text) for name, text in modules.items()}
    monkeypatch.setattr(figures, "sources", lambda: texts)
    monkeypatch.setattr(figures, "tree", lambda module: figures.ast.parse(texts[module]))
    figures.imports.cache_clear()


@pytest.fixture(autouse=True)
def _forget():
    yield
    figures.imports.cache_clear()


def test_who_imports_whom(monkeypatch):
    house(
        monkeypatch,
        sordino="",
        sordino__a="from sordino.a._leaf import x",
        sordino__a___leaf="x = 1",
        sordino__a___main="def late():\n    from sordino.a import _leaf",
        sordino__b="",
        sordino__b___far="from sordino.a._leaf import x\nfrom sordino.a._main import _hidden\nfrom sordino.b._near import _y",
        sordino__b___near="import sordino.b._far",
        sordino__a___only="",
        sordino__a___user="from . import _only",
    )
    assert figures.with_one_importer() == ["sordino.a._only", "sordino.b._far", "sordino.b._near"]
    assert figures.through_walls() == [
        "sordino.b._far: sordino.a._leaf.x",
        "sordino.b._far: sordino.a._main._hidden",
    ]
    assert figures.circles() == [("sordino.b._far", "sordino.b._near")]


def test_names_and_lines_that_stand_twice(monkeypatch):
    block = "".join(f"y{n} = {n}\n" for n in range(7))
    house(
        monkeypatch,
        sordino__a=f"def f(): pass\n{block}",
        sordino__b=f"class f: pass\nz = 0\n# words\n{block}",
        sordino__c="f = 1\n",
    )
    assert figures.defined_twice() == {"f": 2}
    assert figures.letter_equal() == [("sordino.a", 2, "sordino.b", 4, 7)]


def test_no_module_needs_one_that_needs_it():
    assert figures.circles() == []


def test_the_picture_of_the_packages_is_that_of_the_code():
    sys.path.insert(0, str(figures.ROOT / "docs"))
    import house_picture

    drawn = house_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == house_picture.picture(), "python docs/house_picture.py draws it anew"
    for name in ("cli", "session", "mechanisms", "noise"):
        assert f">{name}</text>" in drawn


def test_arrows_that_follow_from_others_are_left_out(monkeypatch):
    sys.path.insert(0, str(figures.ROOT / "docs"))
    import house_picture

    house(
        monkeypatch,
        sordino="",
        sordino__a="import sordino.b\nimport sordino.c",
        sordino__b="import sordino.c\nimport sordino.errors",
        sordino__c="",
        sordino__errors="",
    )
    assert house_picture.arrows([["a"], ["b"], ["c"], ["errors"]]) == {("a", "b"), ("b", "c")}


def test_the_way_of_a_release_is_counted():
    files, functions, names = figures.way_of_top()
    assert "session/session.py" in names
    assert files == len(names)
    assert functions > files
