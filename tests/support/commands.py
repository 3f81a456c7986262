"""The command, run in the process of the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    left: int = 0

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def sordino(capfd):
    """Run the command in this process."""
    # Tests that run no command load none.
    from sordino.cli import run

    def call(*arguments):
        capfd.readouterr()
        code = run([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call
