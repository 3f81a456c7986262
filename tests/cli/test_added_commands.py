"""Commands of other distributions: they work where these are installed, and elsewhere one sentence says what to install."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

SENTENCE = "Error: sordino audit is a package of its own, which is not installed: pip install 'sordino[audit]'.\n"


@pytest.fixture
def core_alone(monkeypatch):
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **_: importlib.metadata.EntryPoints()
    )


@pytest.mark.parametrize("arguments", [(), ("LaplaceMechanism",), ("--all",), ("--help",)], ids=str)
def test_a_command_that_is_not_installed_says_what_to_install(core_alone, sordino, arguments):
    done = sordino("audit", *arguments)
    assert (done.code, done.out, done.err) == (2, "", SENTENCE)


def test_the_help_lists_it_all_the_same(core_alone, sordino):
    assert "\n  audit " in sordino("--help").out


def test_where_it_is_installed_it_is_the_command(sordino):
    assert "Check claims of privacy" in sordino("audit", "--help").out


@pytest.mark.parametrize(
    "line", ["--help", "--version", "plan selector -m 3 --epsilon 1", "audti", "ledger --help"]
)
def test_only_a_command_that_is_added_is_looked_for(sordino, monkeypatch, line):
    """To look through everything that is installed takes a tenth of the start."""
    looked = []
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **asked: looked.append(asked) or ()
    )
    sordino(*line.split())
    assert looked == []
    sordino("audit", "--help")
    assert looked == [{"group": "sordino.commands", "name": "audit"}]


def test_the_help_does_not_even_load_what_would_look():
    code = "import sys; from sordino.cli import run; run(['--help']); print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
