"""A slice of the soak of commands, always the same, and broken commands that it convicts."""

from __future__ import annotations

import random
import subprocess
import sys

import click
import pytest

from soak.command_files import NUMBER, TEXT
from soak.command_laws import breaches, differences
from soak.command_lines import RECIPES, Case, leaves, make_case
from soak.command_runs import Outcome
from soak.command_words import value_for
from soak.commands import TWINS, run


def looked(*arguments):
    """Run the soak; the seeds are those that the clock of no machine decides."""
    return run([str(word) for word in arguments])


@pytest.mark.slow
def test_a_slice_finds_nothing(capfd):
    assert looked("--seed", 11, "--cases", 6, "--minutes", 5) == 0, capfd.readouterr().out
    told = capfd.readouterr().out
    assert "of 6 command lines" in told
    assert "exit code 0" in told


QUICK = {"rows-left-in-a-file": "count", "exit-code-seven": "ledger"}
SLOW = {
    "nobody-asks-who-pays": "count",
    "a-bad-line-refuses": "histogram",
    "message-quotes-a-field": "above",
    "header-before-the-charge": "top",
    "uncaught": "select",
    "charged-and-refused": "top",
    "ledger-keeps-a-row": "select",
    "warning": "above",
}
LAW = {
    "message-quotes-a-field": "no_mark: a private value on stderr",
    "header-before-the-charge": "refused:",
    "exit-code-seven": "code: exit code 7",
    "uncaught": "silence: a traceback",
    "rows-left-in-a-file": "no_mark: a private value in the file tmp/",
    "charged-and-refused": "ledger: a charge of a run that ended with 2",
    "ledger-keeps-a-row": "no_mark: a private value in the file case/l.db",
    "a-bad-line-refuses": "neighbors: exit codes",
    "warning": "silence: a traceback or a warning",
    "nobody-asks-who-pays": "paid: a release of which nobody said who pays",
}


@pytest.mark.parametrize(
    "twin", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
@pytest.mark.sample(4)
def test_what_is_broken_is_found(twin, capfd):
    assert (
        looked(
            "--seed",
            5,
            "--cases",
            1500,
            "--minutes",
            10,
            "--broken",
            twin,
            "--only",
            (QUICK | SLOW)[twin],
        )
        == 1
    )
    assert f"FOUND {LAW[twin]}" in capfd.readouterr().out


def test_every_twin_is_tried():
    assert set(QUICK | SLOW) == set(TWINS) == set(LAW)


def test_every_command_is_tried_and_a_seed_is_a_case():
    cases = [make_case(seed) for seed in range(4000)]
    assert {case.path for case in cases} == set(leaves())
    assert cases[17] == make_case(17)
    intents = [case.intent for case in cases]
    assert intents.count("right") > 1900
    assert {case.stdout for case in cases} == {
        "file",
        "full",
        "closed",
        "gone",
        "early",
        "terminal",
    }
    assert {case.stderr for case in cases} == {"file", "full", "closed", "gone", "terminal"}


def test_recipes_name_commands_and_options_that_there_are():
    for path, recipe in RECIPES.items():
        known = {
            name for param in leaves()[path].params for name in (*param.opts, *param.secondary_opts)
        }
        for seed in range(50):
            given = {
                words[0]
                for words in recipe(random.Random(seed))
                if words[0].startswith("-") and words[0] != "-"
            }
            assert given <= known, path


def test_an_option_that_nobody_knows_is_tried_by_its_type():
    rng = random.Random(1)
    whole = click.Option(["--brand-new"], type=int)
    assert all(value_for(rng, whole, right=True).isdigit() for _ in range(20))
    choice = click.Option(["--other"], type=click.Choice(["one", "two"]))
    assert {value_for(rng, choice, right=True) for _ in range(20)} == {"one", "two"}


SEEN = {
    "a private value on stderr": {"code": 4, "err": f"Error: {TEXT}".encode()},
    "a private value on stdout": {"code": 0, "out": f'{{"a": "1.{NUMBER}"}}'.encode()},
    "bytes on stdout": {"code": 4, "out": b"rank\n", "err": b"Error: x"},
    "exit code 1": {"code": 1, "err": b"Error: x"},
    "no end": {"code": None},
    "a traceback": {"code": 1, "err": b"Traceback (most recent call last)"},
    "interrupted, and nobody did": {"code": 130, "err": b"Interrupted."},
    "MiB of memory": {"code": 0, "memory": 2 << 30},
    "left behind": {"code": 0, "left": {"tmp/x": b"a"}},
    "-journal": {"code": 0, "left": {"case/l.db-journal": b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"}},
    "on stderr of a quiet release": {"code": 0, "err": b"Look"},
    "nothing on stderr": {"code": 2},
    "more than one error": {"code": 2, "err": b"Error: a\nError: b\n"},
    "no JSON": {"code": 0, "out": b"a,b\n"},
    "a charge of a run that ended with 2": {
        "code": 2,
        "err": b"Error: x",
        "before": {"a": 0},
        "after": {"a": 5},
    },
    "less is spent": {"code": 0, "before": {"a": 5}, "after": {"a": 0}},
    "more is spent than allowed": {"code": 0, "before": {"a": 5}, "after": {"a": -1}},
    "without a charge": {"code": 0, "out": b"{}", "before": {"a": 5}, "after": {"a": 5}},
    "cannot be read": {"code": 0, "before": {"a": 5}},
}


@pytest.mark.parametrize("what", SEEN)
def test_each_law_convicts_what_breaks_it(what):
    line = ["count", "t.csv", "--epsilon", "1", "--ledger", "l.db", "--account", "a"]
    case = Case(1, line, ("count",), "right")
    seen = Outcome(**{"out": b"", "err": b"", "seconds": 1.0, "memory": 0, **SEEN[what]})
    assert any(what in found for found in breaches(case, seen))
    sound = Outcome(0, b"{}", b"", 1.0, 0, before={"a": 5}, after={"a": 6})
    assert not list(breaches(case, sound))


def test_a_release_that_nobody_pays_for_is_found():
    line = ["count", "t.csv", "--epsilon", "1"]
    seen = Outcome(0, b"{}", b"", 1.0, 0)
    assert list(breaches(Case(1, line, ("count",), "right"), seen)) == [
        "paid: a release of which nobody said who pays"
    ]
    for said in (
        ["--no-ledger"],
        ["--seed", "1", "--synthetic"],
        ["--ledger=l.db", "--account", "a"],
        ["-h"],
    ):
        assert not list(breaches(Case(1, [*line, *said], ("count",), "right"), seen))


def test_neighbors_that_differ_in_public_are_found():
    case = Case(1, ["count", "t.csv"], ("count",), "right")
    one, other = Outcome(0, b'{"a": 1}', b"", 1.0, 0), Outcome(0, b'{"a": 2}', b"", 1.0, 0)
    assert not list(differences(case, one, other))
    for change in ({"code": 4}, {"err": b"x"}, {"out": b'{"b": 1}'}):
        assert list(differences(case, one, Outcome(**{**vars(other), **change})))


@pytest.mark.slow
def test_it_ends_by_itself():
    line = [
        sys.executable,
        "-c",
        "from soak.commands import run; run(['--minutes', '0.01', '--seed', '3'])",
    ]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=120, check=False, env={**_paths()}
    )
    assert done.returncode == 0, done.stderr
    assert "command lines in" in done.stdout


def _paths():
    import os
    from pathlib import Path

    import sordino

    places = (Path(__file__).parents[1], Path(sordino.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
