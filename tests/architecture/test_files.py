"""What holds for every file: where chance may come from, which errors may be caught, what must not be written down."""

from __future__ import annotations

import ast
import re
import subprocess

from architecture.source import ROOT, Module, library

MAY_USE_RANDOMNESS = {
    "entropy.py": "the one door through which chance enters a release",
    "ledger/account/records.py": "keys of charges, which are no noise",
}
MAY_CATCH_EVERYTHING = {
    "cli/__init__.py": "main: a bug ends as one fixed sentence and exit code 1, because a traceback may show private rows",
    "cli/write.py": "a copy that could not be kept, for whatever reason: the release was paid for, and is written",
    "study/study.py": "a copy that could not be kept, for whatever reason: the releases were paid for, and are written",
    "ledger/store/sqlite.py": "a connection that could not be prepared is closed, and the same error goes on",
    "ledger/store/postgres.py": "a connection that failed is closed, and the same error goes on",
    "ledger/account/charge.py": "a mechanism that failed keeps its charge, and the same error goes on",
    "ledger/account/charged_stream.py": "a question that failed keeps its charge, and the same error goes on",
    "sordino_audit/black_boxes/runs.py": "a black box that raises: the type of its error is an outcome, and counted",
    "scrubbing.py": "an error that leaves is swept, and the same error goes on",
    "session/request.py": "an error of the caller's own function is noted, and the same error goes on",
    "session/executor.py": "the law of after the charge: what is neither ours nor the caller's becomes one constant sentence",
    "sources/delta.py": "before the charge: the package that reads logs has errors of several kinds, and they may quote a log",
    "sources/engine.py": "the run wrapper: any failure of the engine after the charge becomes one constant sentence",
    "sources/arrow_interface.py": "a callback of the engine: what left it would be printed by Python with what it holds",
    "sources/frames.py": "a value of unknown type whose own methods raise is a missing value; a plan that fails is a source that fails",
    "sources/spark/progress.py": "what Spark says while it is watched or stopped may hold private words, and decides nothing",
    "grid.py": "a private value whose own methods raise is a missing value",
}

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|NotImplemented" + r"Error)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~$>)}\]-])/(?:home|root|Users|tmp|mnt|opt|srv|workspace)/\w")
INDEX_ADDRESS = re.compile(
    r"https?://[^\s\"'<>]*/simple\b|file:/{3}|--(?:extra-)?index-[u]rl|--find-[l]inks|\b(?:pypi|files)\.python[h]osted\.org|\bpypi\.[o]rg"
)
ABOVE = re.compile(r"(?<![\w./])(?:\.\./)+[\w.-]*")


def kept_files():
    """Return what git keeps, or would keep: what it tracks and what it does not ignore."""
    if (ROOT / ".git").exists():
        command = [
            "git",
            "-C",
            str(ROOT),
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\0"
        )
        paths = [ROOT / line for line in listed if line]
    else:  # an unpacked source archive, with what its users made in it
        made = re.compile(r"\.(?!ci$|gitignore$).*|demo|build|dist|_build|__pycache__|.*\.egg-info")
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(map(made.fullmatch, path.relative_to(ROOT).parts))
        ]
    return sorted(path for path in paths if path.is_file())


def kept_texts():
    for path in kept_files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def offenders(check, modules=None):
    """Return what a check finds in each file, but for the files in which it finds nothing."""
    modules = library().values() if modules is None else modules
    return {module.place: found for module in modules if (found := list(check(module)))}


def randomness(module):
    """Return the lines that import or name a source of chance other than entropy."""
    for node in module.nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        for full in names:
            if re.match(
                r"(?:random|secrets)(?:\.|$)|(?:np|numpy)\.random|os\.u?random|uuid\.uuid", full
            ):
                yield f"line {node.lineno}: {full}"


def test_chance_enters_through_entropy_only():
    found = offenders(randomness)
    assert {place: lines for place, lines in found.items() if place not in MAY_USE_RANDOMNESS} == {}
    assert set(MAY_USE_RANDOMNESS) == set(found), "who needs no exception any more has none"


def catch_all(module):
    """Return the lines that catch, or suppress, whatever comes."""
    for node in module.nodes:
        caught = []
        if isinstance(node, ast.ExceptHandler):
            caught = (
                [None]
                if node.type is None
                else node.type.elts
                if isinstance(node.type, ast.Tuple)
                else [node.type]
            )
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            caught = node.args
        for one in caught:
            if one is None or ast.unparse(one) in {"Exception", "BaseException"}:
                yield f"line {node.lineno}"


def test_errors_are_caught_by_name():
    found = offenders(catch_all)
    assert {
        place: lines for place, lines in found.items() if place not in MAY_CATCH_EVERYTHING
    } == {}
    assert set(MAY_CATCH_EVERYTHING) == set(found), "who needs no exception any more has none"


def unfinished(module):
    """Return the words that promise what is not there."""
    return UNFINISHED.findall(module.text)


def test_nothing_is_left_unfinished():
    assert offenders(unfinished) == {}


def test_the_checks_see_what_they_look_for():
    def seen(check, text):
        return offenders(check, [Module("sordino.a", ""), Module("sordino.b", text)])

    assert seen(randomness, "x = 1\nimport random") == {"b.py": ["line 2: random"]}
    assert seen(randomness, "from numpy import random")
    assert seen(randomness, "import numpy as np\nnp.random.default_rng()")
    assert seen(randomness, "import secrets")
    assert seen(catch_all, "try:\n    f()\nexcept:\n    pass") == {"b.py": ["line 3"]}
    assert seen(catch_all, "try:\n    f()\nexcept (ValueError, Exception):\n    pass")
    assert seen(catch_all, "with contextlib.suppress(BaseException):\n    f()")
    assert not seen(catch_all, "try:\n    f()\nexcept ValueError:\n    pass")
    assert seen(unfinished, "# FIX" + "ME: later") == {"b.py": ["FIX" + "ME"]}
    assert MACHINE_PATH.search(" /ho" + "me/somebody/x")
    assert not MACHINE_PATH.search("docs/home/x")


def test_the_tree_is_seen():
    seen = {path.relative_to(ROOT).as_posix() for path in kept_files()}
    assert {"Makefile", ".ci/run", "pyproject.toml", "src/sordino/__init__.py"} <= seen
    assert not {path for path in seen if path.startswith((".venv/", "demo/"))}


def test_no_file_knows_the_machine_it_was_written_on():
    here = r"(?<![\w.~-])" + re.escape(f"{ROOT.parent}/") if len(ROOT.parts) > 2 else "(?!)"
    patterns = (MACHINE_PATH, INDEX_ADDRESS, re.compile(here))
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in kept_texts()
        for pattern in patterns
        if (match := pattern.search(text))
    ]
    assert not found


def test_no_file_reaches_out_of_the_tree():
    found = [
        f"{path.relative_to(ROOT)}: {above}"
        for path, text in kept_texts()
        for above in ABOVE.findall(text)
        if not (path.parent / above).resolve().is_relative_to(ROOT)
    ]
    assert not found


def test_constraints_name_versions_only():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert lines == sorted(lines, key=str.casefold)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
