"""Every public name works, explains itself with an example that runs, stands in the reference, and costs nothing until it is used."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
import sordino_audit

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "click",
    "cryptography",
    "duckdb",
    "narwhals",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "scipy",
}
NAMES = {name: getattr(sordino, name) for name in sordino.__all__} | {
    "sordino_audit": sordino_audit
}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public(thing):
    """Return what a reader of the reference meets: the thing itself, or the public names of a module."""
    if inspect.ismodule(thing):
        return {f"{thing.__name__}.{name}": getattr(thing, name) for name in thing.__all__}
    return {getattr(thing, "__name__", type(thing).__name__): thing}


def members(cls):
    """Return the public methods and properties that a class defines itself."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not name.startswith("_") and documents_itself(value)
    }


def documents_itself(value):
    return (
        inspect.isfunction(value)
        or isinstance(value, property | classmethod | staticmethod)
        or hasattr(value, "func")
    )


def needs_example(thing):
    """Tell whether a name is one that a reader calls: errors are caught, constants are handed over."""
    return callable(thing) and not (inspect.isclass(thing) and issubclass(thing, BaseException))


def silent(full, thing):
    """Yield the name of a thing, and those of its members, that say nothing about themselves."""
    if not inspect.getdoc(thing):
        yield full
    if inspect.isclass(thing):
        yield from (
            f"{full}.{member}"
            for member, value in members(thing).items()
            if not inspect.getdoc(value)
        )


def test_every_public_name_is_there_and_documented():
    assert [
        member
        for named in NAMES.values()
        for full, thing in public(named).items()
        for member in silent(full, thing)
    ] == []


def test_every_release_says_where_nan_goes():
    """Nothing private raises: a reader must know what an answer that is no number looks like."""
    found = [
        name
        for name in dir(sordino)
        if inspect.isclass(made := getattr(sordino, name))
        and hasattr(made, "release")
        and "NaN" not in (inspect.getdoc(made.release) or "")
    ]
    assert found == []


def test_a_name_without_documentation_is_found():
    class Silent:
        """Words."""

        def method(self): ...

        def _private(self): ...

    assert list(silent("Silent", Silent)) == ["Silent.method"]
    assert list(silent("f", lambda: None)) == ["f"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=OPTIONS)
    for full, thing in public(NAMES[name]).items():
        tests = finder.find(thing, full, module=False, globs={})
        if needs_example(thing):
            assert any(test.examples for test in tests), f"{full} shows no example"
        for test in tests:
            assert not runner.run(test).failed, test.name


def test_the_list_of_public_names_is_what_one_sees():
    assert len(set(sordino.__all__)) == len(sordino.__all__)
    assert {name for name in dir(sordino) if not re.fullmatch(r"__\w+__", name)} == set(
        sordino.__all__
    )


def test_every_error_mechanism_and_estimator_is_public():
    errors = {name for name, one in vars(sordino.errors).items() if isinstance(one, type)}
    made = {*sordino.mechanisms.__all__, *sordino.estimators.__all__}
    assert errors <= set(sordino.__all__)
    assert made - set(sordino.__all__) == {"CountedStream", "Stream", "weigh_looks"}


@pytest.mark.parametrize(
    "package",
    [
        "sordino",
        *(
            f"sordino.{name}"
            for name in (
                "columns",
                "estimators",
                "mechanisms",
                "plan",
                "questions",
                "session",
                "sources",
            )
        ),
    ],
)
def test_type_checkers_see_the_same_names(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    assert {alias.asname or alias.name for node in block.body for alias in node.names} == set(
        module.__all__
    )
    assert set(module.__all__) <= set(dir(module))
    assert all(hasattr(module, name) for name in module.__all__)


def test_a_command_that_selects_loads_nothing_that_adds_up_numbers():
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, sordino.cli.work, sordino.session.session; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {
        "narwhals",
        "sordino.estimators.quantiles.quantile",
        "sordino.mechanisms.folded",
        "sordino.session.column_request",
        "sordino.session.numbers",
    } & set(seen)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = sordino.nosuch


def test_the_reference_lists_every_public_name():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    assert {
        name for name in NAMES if not re.search(rf"^ *(?:sordino\.)?{name}$", page, re.MULTILINE)
    } == set()


def loaded_by(statement):
    """Return the top-level modules, outside the standard library, that a statement loads in a new interpreter."""
    script = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return (
        {module.partition(".")[0] for module in run.stdout.split()}
        - set(sys.stdlib_module_names)
        - {"sordino"}
    )


def test_importing_sordino_loads_the_standard_library_only():
    assert loaded_by("import sordino") == set()
    assert loaded_by("import numpy") & HEAVY == {"numpy"}, "the check sees nothing"


def test_a_mechanism_needs_numpy_only():
    assert loaded_by("import sordino; sordino.NoisyTopK") & HEAVY <= {"numpy"}
