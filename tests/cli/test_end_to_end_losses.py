"""The command on neighbouring files, with all noise played: the exact loss of stdout, messages and exit code, the engine included.

The noise is handed to the laws where a release draws it. Everything else is what users run: files, DuckDB, sessions, formats.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import Sensitivity, audit
from sordino.audit import Subject
from sordino.cost import Pure
from sordino.noise import DiscreteLaplace, Geometric

BASE = [f"u{i % 3},{('tea', 'rice')[i % 2]},{i}" for i in range(6)]
ONE_USER = {
    "an ordinary unit": ["u9,tea,1"],
    "a unit with many rows": ["u9,tea,1", "u9,tea,2", "u9,rice,3", "u9,unlisted,4"],
    "a unit of broken lines": ["u9", 'u9,"tea,1', "u9,tea,1,2,3,4"],
    "a unit without numbers": ["u9,rice,nan", "u9,tea,99999999999999999999"],
}


@pytest.fixture
def noise_of(monkeypatch):
    """Hand the next draws to all laws: the rows that the auditor plays."""
    waiting = []

    def drawn(law, n, entropy):
        taken, waiting[:] = waiting[:n], waiting[n:]
        assert len(taken) == n, "a release draws more noise than the audit thinks"
        return np.array(taken, dtype=np.int64)

    for law in (Geometric, DiscreteLaplace):
        monkeypatch.setattr(law, "sample", drawn)
    return waiting


def played(sordino, waiting, folder, arguments):
    """Return how the auditor plays a command on a list of lines."""

    known = {}

    def play(lines, noise):
        return [known.get((lines, row)) or known.setdefault((lines, row), run(lines, row)) for row in map(tuple, noise.tolist())]

    def run(lines, row):
        path = folder / "orders.csv"
        path.write_text("user,product,price\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
        waiting[:] = row
        result = sordino(arguments[0], path, *arguments[1:], "--synthetic", "--seed", 1, "--no-quiet")
        assert not waiting, "all noise was used"
        return result.code, result.out, result.err

    return play


COMMANDS = {
    "count of units": (("count", "--user", "user", "--units", "--epsilon", 4), [DiscreteLaplace(Fraction(4))], 1e-6),
    "count of rows": (("count", "--user", "user", "--max-rows", 2, "--epsilon", 8), [DiscreteLaplace(Fraction(4))], 1e-6),
    "histogram": (
        ("histogram", "--item", "product", "--user", "user", "--max-rows", 1, "--epsilon", 3, "--format", "csv"),
        [DiscreteLaplace(Fraction(3))] * 2,
        1e-5,
    ),
}


def check(sordino, waiting, tmp_path, name, what, tail=None):
    arguments, laws, usual = COMMANDS[name]
    if name == "histogram":
        (tmp_path / "items.csv").write_text("name\ntea\nrice\n", encoding="utf-8")
        arguments = (*arguments, "--domain", tmp_path / "items.csv")
    epsilon = arguments[arguments.index("--epsilon") + 1]
    subject = Subject(
        laws=laws, play=played(sordino, waiting, tmp_path, arguments), cost=Pure(epsilon=epsilon), name=f"sordino {name}, {what}"
    )
    return audit.exact(subject, answers_a=tuple(BASE), answers_b=(*BASE, *ONE_USER[what]), tail=tail or usual), epsilon


def test_what_a_reader_sees_of_one_count_loses_what_it_costs(sordino, noise_of, tmp_path):
    report, epsilon = check(sordino, noise_of, tmp_path, "count of units", "a unit with many rows", tail=1e-3)
    report.raise_if_broken()
    assert report.delta_at_claim < 0.1
    assert epsilon - 0.1 < report.epsilon_at_least <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("what", ONE_USER)
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "histogram"])
def test_what_a_reader_sees_of_a_count_loses_what_it_costs(sordino, noise_of, tmp_path, name, what):
    report, epsilon = check(sordino, noise_of, tmp_path, name, what)
    report.raise_if_broken()
    assert report.delta_at_claim < 1e-2
    assert report.epsilon_at_least <= epsilon
    if what == "a unit with many rows":
        assert report.epsilon_at_least == pytest.approx(epsilon, abs=2e-2), "the unit counts for all that is allowed, and no more"


@pytest.mark.slow
@pytest.mark.parametrize("what", ONE_USER)
def test_what_a_reader_sees_of_a_histogram_loses_what_it_costs(sordino, noise_of, tmp_path, what):
    report, epsilon = check(sordino, noise_of, tmp_path, "histogram", what)
    report.raise_if_broken()
    assert report.delta_at_claim < 1e-3
    assert report.epsilon_at_least <= epsilon


@pytest.mark.slow
def test_what_a_reader_sees_of_a_top_one_loses_what_it_costs(sordino, noise_of, tmp_path):
    """Selection and measurement together: a rate for each, found by running it once."""
    (tmp_path / "items.csv").write_text("name\ntea\nrice\n", encoding="utf-8")
    arguments = ("top", "--item", "product", "--user", "user", "-k", 1, "--epsilon", 6, "--domain", tmp_path / "items.csv")
    arguments = (*arguments, "--selection-share", "0.5")
    subject = Subject(
        laws=[Geometric(Fraction(3)), Geometric(Fraction(3)), DiscreteLaplace(Fraction(3))],
        play=played(sordino, noise_of, tmp_path, arguments),
        cost=Pure(epsilon=6),
        name="sordino top",
    )
    report = audit.exact(subject, answers_a=tuple(BASE), answers_b=(*BASE, "u9,tea,1"), tail=1e-3)
    report.raise_if_broken()
    assert report.delta_at_claim < 0.5
    assert 2.5 < report.epsilon_at_least <= 6


def test_a_leak_in_the_message_would_be_seen(sordino, noise_of, tmp_path, monkeypatch):
    """The same audit, on a command whose message depends on the rows."""
    import click

    from sordino.session import Session

    count = Session.count_distinct_units

    def chatty(self, **options):
        release = count(self, **options)
        click.echo(f"read {(tmp_path / 'orders.csv').stat().st_size} bytes", err=True)
        return release

    monkeypatch.setattr(Session, "count_distinct_units", chatty)
    report, _ = check(sordino, noise_of, tmp_path, "count of units", "an ordinary unit", tail=1e-3)
    assert report.broken
    assert report.epsilon_at_most == math.inf


def test_the_statement_of_the_audit_is_the_one_of_the_session(sordino, noise_of, tmp_path):
    """The rates that are played here are those that the release uses: its noise is drawn from laws of these rates."""
    from sordino import LaplaceMechanism

    statement = Sensitivity(bound=2, monotone=True, adjacency="add-remove", norm="l1", step=1)
    assert LaplaceMechanism(epsilon=8, sensitivity=statement).noise == COMMANDS["count of rows"][1][0]
