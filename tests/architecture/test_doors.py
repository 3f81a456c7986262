"""Every way into a release is a door: words that were drawn ahead are forgotten behind it, and errors leave nothing private behind."""

from __future__ import annotations

import ast
import re

import pytest

from architecture.source import library
from support.doors import DOORS

NO_DOORS = {
    "AddsNoise.release": "the base of two mechanisms that are doors, see `INHERITED`",
    "BranchingMechanism.release": "the base of two mechanisms that are doors, see `INHERITED`",
    "Charge.open": "the ledger's own door: it renews after the draw is durable (tests/noise/test_copies.py)",
    "Charge.release": "the ledger's own door: it renews after the draw is durable (tests/noise/test_copies.py)",
    "LabelSelection.release": "the base of two mechanisms that are doors, see `INHERITED`",
    "ColumnQuantiles.release": "the base of three estimators that are doors, see `INHERITED`",
    "Payer.open": "a protocol",
    "Payer.release": "a protocol",
    "RangeMechanism.release": "the base of two mechanisms that are doors, see `INHERITED`",
    "RangeMechanism.reports": "the base of two mechanisms that are doors, see `INHERITED`",
    "SelectsOne.release": "the base of four mechanisms that are doors, see `INHERITED`",
    "Session.__init__": "keeps entropy, and draws nothing",
    "Uncharged.open": "hands everything on to a door",
    "Uncharged.release": "hands everything on to a door",
    "black_box": "plays made-up data",
    "crossings": "the inside of a sparse vector, behind its door",
    "domain_crossings": "the inside of a sparse vector, behind its door",
}
INHERITED = {
    f"{mechanism}.{method}": f"{base}.{method}"
    for base, mechanisms, methods in (
        ("AddsNoise", ("LaplaceMechanism", "GaussianMechanism"), ("release",)),
        ("BranchingMechanism", ("SparseVector", "AdaptiveSparseVector"), ("release",)),
        ("ColumnQuantiles", ("Quantile", "Quantiles", "QuantileInterval"), ("release",)),
        ("LabelSelection", ("UnlistedTopK", "LimitedTopK"), ("release",)),
        ("RangeMechanism", ("CompositeMechanism", "CompositeTable"), ("release", "reports")),
        (
            "SelectsOne",
            ("ExponentialMechanism", "PermuteAndFlip", "RandomizedResponse", "StepSelection"),
            ("release",),
        ),
    )
    for mechanism in mechanisms
    for method in methods
}
"""Doors whose text stands in a base."""

NAMES = {name.rpartition(".")[2] for name in DOORS}
"""How methods are called that are doors: release, open, finish and so on."""

NOT_PRIVATE_BY_ITSELF = {
    "clipped_steps": "the inside of sums and means, behind their doors",
    "ThresholdScan.first": "the inside of a search, behind its door",
    "ThresholdScan.first_each": "the inside of a search, behind its door",
    "select": "the inside of most_significant, behind its door, and of the command, which lets no error out",
}


def functions(tree):
    """Yield the functions of a module with their names, those of methods after that of their class."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{method.name}", method)
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            )


def takes_entropy(function):
    return "entropy" in {argument.arg for argument in function.args.kwonlyargs}


def uses(function):
    """Return the nodes in which the entropy is read, in the order of the text, each with the call it is handed to and how."""
    found = []
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Call):
            found += [(given, node, None) for given in node.args]
            found += [(given.value, node, given.arg) for given in node.keywords]
    handed = {id(given): (call, name) for given, call, name in found}
    names = [
        node
        for node in ast.walk(ast.Module(function.body, []))
        if isinstance(node, ast.Name) and node.id == "entropy"
    ]
    return [
        handed.get(id(node), (None, None))
        for node in sorted(names, key=lambda node: (node.lineno, node.col_offset))
    ]


def begins_afresh(function):
    """Tell whether the first thing that happens to the entropy is that it is renewed, or it is only handed on to doors by its name."""
    calls = uses(function)
    if calls and all(
        name == "entropy" and ast.unparse(call.func).rpartition(".")[2] in NAMES
        for call, name in calls
    ):
        return True
    return (
        bool(calls)
        and calls[0][0] is not None
        and ast.unparse(calls[0][0].func) in {"fresh_entropy", "renew"}
    )


def is_door(function):
    return any(ast.unparse(decorator) == "scrubbed" for decorator in function.decorator_list)


FOUND = {
    name: function
    for module in library().values()
    for name, function in functions(module.tree)
    if takes_entropy(function)
}
FOUND |= {door: FOUND[text] for door, text in INHERITED.items()}
PUBLIC = {
    name: function
    for name, function in FOUND.items()
    if not name.rpartition(".")[2].startswith("_")
}


def test_all_doors_are_known_to_the_tests():
    assert set(PUBLIC) | {"Session.__init__"} == set(DOORS) | set(NO_DOORS)
    assert not set(DOORS) & set(NO_DOORS)


def test_what_is_handed_entropy_by_name_begins_afresh():
    forgetful = [
        name for name in sorted(set(FOUND) - set(NO_DOORS)) if not begins_afresh(FOUND[name])
    ]
    assert forgetful == [], "each must begin with fresh_entropy(entropy, ...)"


def test_what_is_handed_entropy_by_name_leaves_no_remnants():
    doors = [*DOORS, "Charge.release", "Session.__init__"]
    assert [name for name in sorted(doors) if not is_door(FOUND[name])] == []
    assert not is_door(ast.parse("@cache\ndef release(self, *, entropy): ...").body[0])


def private_parameters(function):
    """Tell whether the docstring calls one of the parameters private."""
    text = ast.get_docstring(function) or ""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return (
        section is not None
        and re.search(r"^ +(?:Private|The private)\b", section[1], re.MULTILINE) is not None
    )


def handed_something_private():
    return {
        name: function
        for module in library().values()
        if not module.in_auditor  # made-up data
        for name, function in functions(module.tree)
        if private_parameters(function)
    }


def test_what_is_handed_something_private_leaves_no_remnants():
    found = handed_something_private()
    assert {
        "BranchingMechanism.release",
        "tdt",
        "BucketCounts.of",
        "damped_tdt",
        "Stream.ask",
        "ChargedStream.ask",
    } <= set(found)
    assert {name for name, function in found.items() if not is_door(function)} == set(
        NOT_PRIVATE_BY_ITSELF
    )


def test_each_method_of_a_session_is_a_door():
    import sordino as sd

    names = [name for kind in sd.Session.__mro__ for name in vars(kind) if not name.startswith("_")]
    methods = {name: value for name in names if callable(value := getattr(sd.Session, name))}
    # Only doors are asked for: other decorators wrap, too. A batch reads rows at its end, behind the door of `ReleaseExecutor.run`.
    assert {name for name, value in methods.items() if value.__code__.co_name != "door"} == {
        "batch"
    }
    assert sd.session.executor.ReleaseExecutor.run.__code__.co_name == "door"
    assert {"top_k", "watch", "sum", "randomize", "batch"} <= set(methods)


FORGETFUL = [
    "def release(self, answers, *, entropy): return play(answers, self.law.sample(3, entropy))",
    "def release(self, answers, *, entropy):\n    words = entropy.words(3)\n    fresh_entropy(entropy, 'x')",
    "def release(self, answers, *, entropy):\n    checked_entropy(entropy, 'x')\n    return self.law.sample(3, entropy)",
    "def release(self, answers, *, entropy): return 0",
    "def release(self, answers, *, entropy): return run(answers, entropy=entropy)",
    "def finish(self, total, *, entropy): return self.stage.release(total, entropy=entropy), self.noise.noisy(total, entropy)",
]
FRESH = [
    "def release(self, answers, *, entropy):\n    fresh_entropy(entropy, 'x')\n    return self.law.sample(3, entropy)",
    "def release(self, answers, *, entropy): return released(self, answers, fresh_entropy(entropy, 'x'))",
    "def clip_from(self, counts, *, entropy): return self.search.release(counts, entropy=entropy)",
]


@pytest.mark.parametrize("text", FORGETFUL)
def test_the_check_finds_a_door_that_forgets(text):
    assert not begins_afresh(ast.parse(text).body[0])


@pytest.mark.parametrize("text", FRESH)
def test_the_check_knows_a_door_that_does_not(text):
    assert begins_afresh(ast.parse(text).body[0])
