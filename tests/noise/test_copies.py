"""A machine image that is resumed twice: nothing secret that was drawn before a release is used in it, so the copies' noise differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def copies(kind):
    """Run a program that copies itself; return how many words each copy drew, and how many both did."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    command = [sys.executable, "-m", "support.copies", kind]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_two_copies_release_different_noise():
    ours, theirs = copies("values")["values"]
    assert len(ours) == len(theirs) == 8
    assert not set(ours) & set(theirs)


@pytest.mark.parametrize(
    "kind",
    ["sessions", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("doors", "ledger"))],
)
def test_two_copies_share_no_word(kind):
    found = copies(kind)
    assert found
    for name, (ours, theirs, both) in found.items():
        assert ours, f"{name} drew nothing: the test says nothing about it"
        assert theirs, name
        assert both == 0, f"{both} of {ours} words of {name} were known before it began"


def test_a_stream_shares_what_it_has_drawn_and_nothing_else():
    found = copies("streams")
    assert found.pop("what it has") == [0, 0, 0], (
        "these questions are answered with noise that was drawn before the copy"
    )
    assert len(found) == 3
    for name, (ours, theirs, both) in found.items():
        assert ours, name
        assert theirs, name
        assert both == 0, name
