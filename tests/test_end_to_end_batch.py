"""A batch of a session on neighbouring tables, with all noise played: the exact loss of its releases together, the engine included."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import PrivacyUnit, Seeded, Session
from sordino.cost import Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Subject

BASE = ("u0,tea", "u1,rice", "u2,tea", "u0,tea")
ONE_UNIT = {
    "one row": ("u9,tea",),
    "many rows": ("u9,tea", "u9,tea", "u9,rice", "u9,unlisted"),
    "missing values": ("u9,", "u9,NA", ",tea"),
    "broken lines": ("u9", 'u9,"tea', "u9,tea,1,2", "u9,t\x00a"),
}
RATE = Fraction(3)  # of each release, and of each half of a top one


@pytest.fixture
def waiting(monkeypatch):
    """Return the list of draws that all laws are handed."""
    left = []

    def sample(law, n, _):
        taken, left[:] = left[:n], left[n:]
        assert len(taken) == n, "a batch draws more noise than the audit thinks"
        return np.array(taken, dtype=np.int64)

    for law in (DiscreteLaplace, Geometric):
        monkeypatch.setattr(law, "sample", sample)
    return left


def shown(release):
    """Return everything that a reader of a release can see."""
    return repr(release), repr(release.cost), str(release.to_dict())


def audited(waiting, folder, laws, cost, ask, lines, tail):
    """Return the audit of a batch on the table with and without some lines."""
    path, known = folder / "orders.csv", {}

    def run(table, row):
        path.write_text("user,product\n" + "".join(f"{line}\n" for line in table), encoding="utf-8")
        waiting[:] = row
        unit = PrivacyUnit("user", adjacency="add-remove", max_rows=1)
        with Session(str(path), unit=unit, entropy=Seeded(1)) as session:
            with session.batch() as batch:
                pending = ask(session)
            seen = (repr(batch.cost), *(part for each in pending for part in shown(each.result)))
        assert not waiting, "all noise was used"
        return seen

    def play(table, noise):
        return [
            known.get((table, row)) or known.setdefault((table, row), run(table, row))
            for row in map(tuple, noise.tolist())
        ]

    subject = Subject(laws=laws, play=play, cost=Pure(epsilon=cost), name="a batch")
    return audit.exact(subject, answers_a=BASE, answers_b=BASE + lines, tail=tail)


def counts(session):
    return [
        session.count_distinct_units(epsilon=RATE),
        session.histogram("product", epsilon=RATE, domain=["tea"]),
    ]


def check_counts(waiting, tmp_path, what, tail):
    report = audited(
        waiting, tmp_path, [DiscreteLaplace(RATE)] * 2, 2 * RATE, counts, ONE_UNIT[what], tail
    )
    report.raise_if_broken()
    assert report.epsilon_at_least <= 2 * RATE
    return report


@pytest.mark.slow
@pytest.mark.parametrize("what", ONE_UNIT)
def test_what_one_unit_does_to_a_batch_is_paid_for(waiting, tmp_path, what):
    report = check_counts(waiting, tmp_path, what, 1e-5)
    if what == "many rows":
        assert report.epsilon_at_least > 5.9, "the unit counts once in each release"
    if what == "missing values":
        assert report.epsilon_at_least == pytest.approx(float(RATE), abs=1e-2), (
            "a unit, and none of the items"
        )


@pytest.mark.slow
def test_a_top_one_in_a_batch_is_paid_for_with_the_rest(waiting, tmp_path):
    def ask(session):
        # A unit has one row, so that a histogram would be taken.
        top = session.top_k("product", k=1, epsilon=2 * RATE, domain=["tea", "rice"], method="gaps")
        return [top, session.count_distinct_units(epsilon=RATE)]

    laws = [Geometric(RATE)] * 2 + [DiscreteLaplace(RATE)] * 2
    report = audited(waiting, tmp_path, laws, 3 * RATE, ask, ONE_UNIT["one row"], 1e-3)
    report.raise_if_broken()
    assert 5 < report.epsilon_at_least <= 3 * RATE


def test_a_batch_that_is_hardly_paid_for_would_be_seen(waiting, tmp_path):
    report = audited(
        waiting,
        tmp_path,
        [DiscreteLaplace(RATE)] * 2,
        Fraction(1, 2),
        counts,
        ONE_UNIT["one row"],
        0.3,
    )
    assert report.broken
    assert report.vectors < 10
