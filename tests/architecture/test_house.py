"""The figures of the house count what they say, none passes its limit, and some are nothing."""

from __future__ import annotations

import textwrap
from collections import Counter

import pytest

from architecture import figures, limits
from architecture.figures import Figure
from architecture.source import Module

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
        + b
    )
'''


# ---- what is counted -----------------------------------------------------------------------------


@pytest.fixture
def house(monkeypatch):
    """Return a function that puts a small library in the place of the real one; `__` is a dot."""

    def build(**modules):
        texts = {name.replace("__", "."): textwrap.dedent(text) for name, text in modules.items()}
        homes = {name.rpartition(".")[0] for name in texts}
        built = {name: Module(name, text, is_package=name in homes) for name, text in texts.items()}
        monkeypatch.setattr(figures, "library", lambda: built)

    return build


def test_a_docstring_a_comment_and_a_blank_line_are_no_code():
    assert sorted(Module("x", EXAMPLE).code) == [5, 7, 11, 14, 15, 16, 17]


def test_tokens_are_those_of_code(house):
    assert Module("x", "x = f(1, 2)\n").tokens == 8
    assert Module("x", '"""Words."""\nx = f(1, 2)  # words\n').tokens == 8
    house(sordino="", sordino__a="x = f(1, 2)\ny = 1\n", sordino__b="z = 1\n")
    assert figures.tokens_a_line() == (4.7, ["a.py 5.5", "b.py 3.0"])


def test_the_auditor_is_counted_apart_wherever_it_stands(house):
    house(
        sordino="x = 1",
        sordino__a="",
        sordino__a__b="x = 1\ny = 2",
        sordino__audit="x = 1",
        sordino_audit="x = 1",
        sordino_audit__laws="x = 1\ny = 2\nz = 3",
    )
    assert figures.core_lines() == (3, ["sordino.a 2", "sordino 1"])
    assert figures.audit_lines().now == 5
    assert (figures.core_files().now, figures.audit_files().now) == (3, 3)
    assert figures.fullest_folder() == (2, ["sordino 2", "sordino.a 2", "sordino_audit 2"])
    assert figures.longest_file().places[0] == "sordino_audit/laws.py 3"


def test_wide_lines_and_kinds_that_are_asked_for(house):
    house(
        sordino="",
        sordino__session="from typing import Any\nx: Any\ny: list[typing.Any] = []  # Any",
        sordino__cli__command="isinstance(x, int)",
        sordino__noise=f"x: Any = isinstance(1, int)\n# {'y' * 98}\n# {'y' * 99}",
    )
    assert figures.any_in_front() == (2, ["session.py 2"])
    assert figures.isinstance_in_front() == (1, ["cli/command.py 1"])
    assert figures.wide_lines() == (1, ["noise.py 1"])


def test_who_imports_whom(house):
    house(
        sordino="",
        sordino__a="from sordino.a._leaf import x",
        sordino__a___leaf="x = 1",
        sordino__a___main="def late():\n    from sordino.a import _leaf",
        sordino__b="",
        sordino__b___far="""
        from sordino.a._leaf import x
        from sordino.a._main import _hidden
        from sordino.b._near import _y
        """,
        sordino__b___near="import sordino.b._far",
        sordino__a___only="",
        sordino__a___user="from . import _only",
        sordino_audit="from sordino.b import _near, __version__",
    )
    assert figures.single_importers().places == ["sordino.a._only", "sordino.b._far"]
    assert figures.private_imports().places == [
        "sordino.b._far: sordino.a._leaf.x",
        "sordino.b._far: sordino.a._main._hidden",
        "sordino.b._far: sordino.b._near._y",
        "sordino_audit: sordino.b._near",
    ]


def test_imports_for_types_and_in_functions_close_a_circle(house):
    house(
        sordino="",
        sordino__a="if TYPE_CHECKING:\n    from sordino.b import x",
        sordino__b="import sordino.c",
        sordino__c="def late():\n    from sordino import a",
        sordino__d="import sordino.e",
        sordino__e="from .d import y",
        sordino__f="import sordino.a",
    )
    three, two = ("sordino.a", "sordino.b", "sordino.c"), ("sordino.d", "sordino.e")
    assert figures.import_circles(when_loaded=False) == [three, two]
    assert figures.import_circles(when_loaded=True) == [two]
    assert (figures.circles().now, figures.widest_circle()) == (2, (3, list(three)))


def test_names_and_lines_that_stand_twice(house):
    block = "".join(f"y{n} = {n}\n" for n in range(7))
    house(
        sordino__a=f"def f(): pass\n{block}",
        sordino__b=f"class f: pass\nz = 0\n# words\n{block}",
        sordino__c="f = 1\n",
    )
    assert figures.names_defined_twice() == (1, ["f in 2 files: a.py, b.py"])
    assert figures.equal_lines() == (1, ["7 lines at sordino.a:2 and sordino.b:4"])


# ---- the limits ----------------------------------------------------------------------------------


def test_every_figure_but_a_question_has_a_limit():
    limited = {function.__name__ for function in [*figures.READ, *figures.RUN]}
    assert set(limits.read_limits()) == limited
    assert all(set(limit) == {"limit", "aim"} for limit in limits.read_limits().values())


def test_a_limit_that_is_passed_is_told_with_its_places():
    bounds = {"core_files": {"limit": 3, "aim": 2}}
    assert list(limits.passed({"core_files": Figure(3, ["a", "b", "c"])}, bounds)) == []
    [told] = limits.passed({"core_files": Figure(4, [*"abcdefg"])}, bounds)
    assert told.startswith("core_files is 4, and its limit is 3. Files of the library")
    assert [line.strip() for line in told.splitlines()[1:]] == [*"abcdef", "…"]


def test_a_limit_falls_with_its_figure_down_to_its_aim():
    text = "# Words.\nway_files = { limit = 9, aim = 1 }\ncore_files = { limit = 3, aim = 2 }\n"
    text += "core_lines = { limit = 50_000, aim = 9 }\n"
    bounds = limits.tomllib.loads(text)

    def seen(**now):
        measured = {name: Figure(value, []) for name, value in now.items()}
        return limits.lowered(text, measured), list(limits.fallen(measured, bounds))

    assert seen(core_files=4, way_files=9) == (text, [])
    assert seen(core_files=1)[0] == text.replace("limit = 3", "limit = 2")
    assert seen(core_lines=49_901) == (text, [])
    lower, [told] = seen(core_lines=41_234)
    assert lower == text.replace("50_000", "41_300")
    assert told == "core_lines is 41,234: its limit could fall from 50,000 to 41,300 (--lower)."


def test_the_way_of_a_release_keeps_its_limits():
    assert "sordino/session/releases.py" in figures.way_files().places
    assert figures.way_functions().now > figures.way_files().now
    measured = limits.measure([figures.way_files, figures.way_functions])
    assert list(limits.passed(measured, limits.read_limits())) == []


def test_the_default_run_keeps_its_limit(request):
    # Whoever runs a part of the tests sees fewer. Slow ones and those of Spark are never counted.
    collected = [
        one.path.name
        for one in request.session.items
        if one.get_closest_marker("slow") is None and "spark" not in one.path.parts
    ]
    measured = {"default_tests": figures.ranked(Counter(collected))}
    assert list(limits.passed(measured, limits.read_limits())) == []


# ---- what must be nothing, and what is drawn -----------------------------------------------------


def test_no_module_needs_one_that_needs_it_to_be_loaded():
    assert figures.import_circles(when_loaded=True) == []


@pytest.fixture
def house_picture(monkeypatch):
    monkeypatch.syspath_prepend(figures.ROOT / "docs")
    import house_picture

    return house_picture


def test_the_picture_of_the_packages_is_that_of_the_code(house_picture):
    drawn = house_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == house_picture.picture(), "python docs/house_picture.py draws it anew"
    for name in ("cli", "session", "mechanisms", "noise"):
        assert f">{name}</text>" in drawn


def test_arrows_that_follow_from_others_are_left_out(house, house_picture):
    house(
        sordino="",
        sordino__a="import sordino.b\nimport sordino.c",
        sordino__b="import sordino.c\nimport sordino.errors",
        sordino__c="",
        sordino__errors="",
    )
    assert house_picture.arrows([["a"], ["b"], ["c"], ["errors"]]) == {("a", "b"), ("b", "c")}
