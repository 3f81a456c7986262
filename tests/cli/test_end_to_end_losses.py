"""The command on neighbouring files, with all noise played: the exact loss of stdout, messages and exit code, the engine included.

The noise is handed to the laws where a release draws it. Everything else is what users run: files, DuckDB, sessions, formats.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, Sensitivity, SparseVector
from sordino.cost import Pure
from sordino.mechanisms.crossings import stream
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Subject

BASE = [f"u{i % 3},{('tea', 'rice')[i % 2]},{i}" for i in range(6)]
ONE_USER = {
    "an ordinary unit": ["u9,tea,1"],
    "a unit with many rows": ["u9,tea,1", "u9,tea,2", "u9,rice,3", "u9,unlisted,4"],
    "a unit of broken lines": ["u9", 'u9,"tea,1', "u9,tea,1,2,3,4"],
    "a unit without numbers": ["u9,rice,nan", "u9,tea,99999999999999999999"],
}


pytestmark = pytest.mark.usefixtures("no_progress")


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


def played(sordino, waiting, folder, arguments, spare=0):
    """Return how the auditor plays a command on a list of lines; it may leave so many draws."""

    known = {}

    def play(lines, noise):
        return [
            known.get((lines, row)) or known.setdefault((lines, row), run(lines, row))
            for row in map(tuple, noise.tolist())
        ]

    def run(lines, row):
        path = folder / "orders.csv"
        path.write_text(
            "user,product,price\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
        waiting[:] = row
        result = sordino(
            arguments[0], path, *arguments[1:], "--synthetic", "--seed", 1, "--no-quiet"
        )
        assert len(waiting) in {0, spare}, "all noise was used"
        return result.code, result.out, result.err

    return play


COMMANDS = {
    "count of units": (
        ("count", "--user", "user", "--units", "--epsilon", 4),
        [DiscreteLaplace(Fraction(4))],
        1e-6,
    ),
    "count of rows": (
        ("count", "--user", "user", "--max-rows", 2, "--epsilon", 8),
        [DiscreteLaplace(Fraction(4))],
        1e-6,
    ),
    "histogram": (
        (
            "histogram",
            "--item",
            "product",
            "--user",
            "user",
            "--max-rows",
            1,
            "--epsilon",
            3,
            "--format",
            "csv",
        ),
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
        laws=laws,
        play=played(sordino, waiting, tmp_path, arguments),
        cost=Pure(epsilon=epsilon),
        name=f"sordino {name}, {what}",
    )
    return audit.exact(
        subject, answers_a=tuple(BASE), answers_b=(*BASE, *ONE_USER[what]), tail=tail or usual
    ), epsilon


def test_what_a_reader_sees_of_one_count_loses_what_it_costs(sordino, noise_of, tmp_path):
    report, epsilon = check(
        sordino, noise_of, tmp_path, "count of units", "a unit with many rows", tail=1e-3
    )
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
        assert report.epsilon_at_least == pytest.approx(epsilon, abs=2e-2), (
            "the unit counts for all that is allowed, and no more"
        )


@pytest.mark.slow
@pytest.mark.parametrize("what", ONE_USER)
def test_what_a_reader_sees_of_a_histogram_loses_what_it_costs(sordino, noise_of, tmp_path, what):
    report, epsilon = check(sordino, noise_of, tmp_path, "histogram", what)
    report.raise_if_broken()
    assert report.delta_at_claim < 1e-3
    assert report.epsilon_at_least <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels",
    [("--domain", "items.csv"), ("--domain-sql", "SELECT x FROM (VALUES ('tea'), ('rice')) t(x)")],
)
def test_what_a_reader_sees_of_a_top_one_loses_what_it_costs(sordino, noise_of, tmp_path, labels):
    """Selection and measurement together: a rate for each, found by running it once."""
    labels = (labels[0], items(tmp_path)) if labels[0] == "--domain" else labels
    arguments = ("top", "--item", "product", "--user", "user", "-k", 1, "--epsilon", 6, *labels)
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


def items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("name\ntea\nrice\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_what_a_reader_sees_of_a_top_one_above_a_threshold_loses_what_it_costs(
    sordino, noise_of, tmp_path
):
    """Whether anything is measured is decided by the selection: the noise of the measurement may be left over."""
    arguments = (
        "top",
        "--item",
        "product",
        "--user",
        "user",
        "-k",
        1,
        "--threshold",
        4,
        "--epsilon",
        6,
    )
    play = played(sordino, noise_of, tmp_path, (*arguments, "--domain", items(tmp_path)), spare=1)
    laws = [Geometric(Fraction(3))] * 3 + [DiscreteLaplace(Fraction(3))]
    subject = Subject(laws=laws, play=play, cost=Pure(epsilon=6), name="sordino top --threshold")
    report = audit.exact(subject, answers_a=tuple(BASE), answers_b=(*BASE, "u9,tea,1"), tail=1e-3)
    report.raise_if_broken()
    assert report.delta_at_claim < 0.5
    assert 2.5 < report.epsilon_at_least <= 6


@pytest.mark.slow
@pytest.mark.parametrize("what", [*ONE_USER, "a unit with rice alone"])
def test_what_a_reader_sees_of_items_above_loses_what_it_costs(sordino, noise_of, tmp_path, what):
    """The noise of both questions is drawn together, that of the threshold when the first is compared."""
    m = SparseVector(
        threshold=4, positives=1, epsilon=6, sensitivity=COUNTING, split=Fraction(1, 2)
    )
    arguments = (
        "above",
        "--item",
        "product",
        "--user",
        "user",
        "--threshold",
        4,
        "-c",
        1,
        "--epsilon",
        6,
        "--split",
        "0.5",
    )
    subject = Subject(
        laws=[m.noise, m.noise, m.threshold_noise],
        play=played(sordino, noise_of, tmp_path, (*arguments, "--domain", items(tmp_path))),
        cost=m.cost,
        name=f"sordino above, {what}",
    )
    lines = ONE_USER.get(what, ["u9,rice,1"])
    report = audit.exact(
        subject,
        answers_a=tuple(BASE),
        answers_b=(*BASE, *lines),
        tail=1e-6 if what == "a unit with rice alone" else 1e-4,
    )
    report.raise_if_broken()
    assert report.delta_at_claim < 1e-2
    assert report.epsilon_at_least <= 6
    if what == "a unit with rice alone":
        assert report.epsilon_at_least > 5.9, (
            "rice comes first in the domain: below with the threshold, tea above"
        )


@pytest.mark.slow
def test_what_a_reader_sees_of_a_stream_loses_what_it_costs(told, noise_of, monkeypatch):
    """Answers on standard input that move both ways; an answer that is no number is the lowest one."""
    either_way = Sensitivity(bound=1, monotone=False, adjacency="add-remove")
    m = SparseVector(threshold=0, positives=1, epsilon=4, sensitivity=either_way)
    monkeypatch.setattr(stream, "_FIRST_DRAWS", 1)
    monkeypatch.setattr(stream, "_MOST_DRAWS", 1)
    arguments = (
        "above",
        "-",
        "--threshold",
        0,
        "-c",
        1,
        "--epsilon",
        4,
        "--sensitivity",
        1,
        "--synthetic",
        "--seed",
        1,
        "--no-quiet",
    )
    unit = int(1 / m.step)

    def play(lines, noise):
        return [run(lines, row) for row in noise.tolist()]

    def run(lines, row):
        # One step of noise stands for a whole unit: the grid of the command is finer than the integers that are played.
        noise_of[:] = [x * unit for x in (row[1], row[0], *row[2:])]
        result = told("".join(f"{line}\n" for line in lines), *arguments)
        noise_of.clear()
        return result.code, result.out, result.err

    coarse = [type(law)(law.rate * unit) for law in (m.noise, m.threshold_noise)]
    subject = Subject(
        laws=[coarse[0], coarse[1], coarse[0]], play=play, cost=m.cost, name="sordino above -"
    )
    report = audit.exact(subject, answers_a=("a,0", "b,0"), answers_b=("a,1", "b,-1"), tail=1e-4)
    report.raise_if_broken()
    assert 3.5 < report.epsilon_at_least <= 4


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
    assert (
        LaplaceMechanism(epsilon=8, sensitivity=statement).noise == COMMANDS["count of rows"][1][0]
    )
