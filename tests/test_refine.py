"""Refining in a session: one account, the same answers, each look once, and nothing private anywhere."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

import sordino as sd
from sordino.entropy import System
from sordino.session.memory import Look
from support.fit import LEVEL
from support.interrupts import interrupted, lines_of
from support.remnants import printed, remnants

ITEMS = ["coffee", "rice", "tea"]
UNIT = sd.PrivacyUnit("u", max_rows=1)
LADDER = sd.Ladder(growth=2, looks=4)
FIRST_LOOKS = {
    "count": lambda s, e: s.count(epsilon=e),
    "count_distinct_units": lambda s, e: s.count_distinct_units(epsilon=e),
    "histogram": lambda s, e: s.histogram("item", epsilon=e, domain=ITEMS),
    "top_k": lambda s, e: s.top_k("item", k=2, epsilon=2 * e, domain=ITEMS),
    "top_k, threshold": lambda s, e: s.top_k("item", k=3, epsilon=2 * e, domain=ITEMS, threshold=-99),
}
every = pytest.mark.parametrize("kind", FIRST_LOOKS)


def orders(n=60):
    return pl.DataFrame(
        {"u": [f"u{i}" for i in range(n)], "item": [ITEMS[i % 7 % 3] for i in range(n)], "x": [1.0] * n}
    )


@pytest.fixture
def ledger(tmp_path):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:orders"}
    return sd.Ledger.create(tmp_path / "a.db", account="orders", budget=sd.Budget(epsilon=20), **about)


@pytest.fixture
def session(ledger):
    return sd.Session(orders(), unit=UNIT, ledger=ledger, name="orders", ladder=LADDER)


def seeded(seed=7, frame=None, **more):
    given = {"unit": UNIT, "entropy": sd.Seeded(seed), "ladder": LADDER} | more
    return sd.Session(orders() if frame is None else frame, **given)


def refused(call, match):
    with pytest.raises(sd.InvalidParameter, match=match) as caught:
        call()
    return caught.value


# ---- what it costs ----------------------------------------------------------------------------------------


@every
def test_all_looks_cost_the_finest_one(session, ledger, kind):
    rough = FIRST_LOOKS[kind](session, Fraction(1, 4))
    before = ledger.statement().spent
    finer = session.refine(rough, epsilon=Fraction(1, 4))
    assert type(finer) is type(rough)
    assert finer.cost.pure() == Fraction(1, 4)
    # All that was spent on it; of a top k with what has selected it.
    assert finer.total.pure() == rough.cost.pure() + Fraction(1, 4) == before + Fraction(1, 4)
    assert ledger.statement().spent == before + Fraction(1, 4)
    # Two rungs at once; what is left of epsilon is not charged.
    finest = finer.refine(epsilon=Fraction(9, 5))
    assert finest.cost.pure() == Fraction(3, 2)
    assert finest.total.pure() == rough.cost.pure() + Fraction(7, 4)
    assert ledger.statement().spent == before + Fraction(7, 4)
    assert ledger.verify().sound
    [*_, line] = ledger.statement().charges
    assert line.label == "refine"
    assert line.detail["look"] == 4
    assert line.detail["refines"] == finer.receipt.id


@every
def test_levels_of_all_looks_add_up_to_less_than_five_percent(kind):
    looks = [FIRST_LOOKS[kind](seeded(), Fraction(1, 4))]
    assert looks[0].total is None
    session = seeded()
    release = FIRST_LOOKS[kind](session, Fraction(1, 4))
    levels = [1 - release.confidence]
    for more in (Fraction(1, 4), Fraction(1, 2), Fraction(1)):
        release = session.refine(release, epsilon=more)
        levels.append(1 - release.confidence)
    assert levels == pytest.approx([0.025, 0.0125, 0.00625, 0.003125])
    assert sum(levels) < 0.05
    refused(lambda: session.refine(release, epsilon=100), "last look")


def test_without_a_ladder_intervals_are_as_they_were():
    assert seeded(ladder=None).count(epsilon=1).confidence == 0.95
    # What cannot be refined is not paid for.
    assert seeded().count(epsilon=1, noise="gaussian").confidence == 0.95
    assert seeded().count(epsilon=1, bounds=(0, 100)).confidence == 0.95


def test_an_account_that_is_too_small_leaves_the_look_as_it_was(tmp_path):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:orders"}
    small = sd.Ledger.create(tmp_path / "b.db", account="b", budget=sd.Budget(epsilon=1), **about)
    session = sd.Session(orders(), unit=UNIT, ledger=small, name="orders", ladder=LADDER)
    rough = session.count(epsilon=0.5)
    with pytest.raises(sd.BudgetExceeded):
        rough.refine(epsilon=1.5)
    assert small.statement().spent == Fraction(1, 2)
    assert rough.refine(epsilon=0.5).total.pure() == 1


def test_a_rung_that_is_not_reached_is_refused_before_the_charge(session, ledger):
    rough = session.count(epsilon=0.5)
    error = refused(lambda: rough.refine(epsilon=0.25), "at least 0.5, which the next look")
    assert "got 0.25" in str(error)
    assert ledger.statement().spent == Fraction(1, 2)
    assert rough.refine(epsilon=0.5).confidence == 0.9875


@pytest.mark.slow
def test_batches(session, ledger):
    with session.batch() as batch:
        rough = session.count(epsilon=0.5)
        counts = session.histogram("item", epsilon=0.5, domain=ITEMS)
    with session.batch() as batch:
        finer = session.refine(rough, epsilon=0.5)
        more = counts.refine(epsilon=0.5)
        # A look that is planned once cannot be planned again.
        refused(lambda: session.refine(rough, epsilon=0.5), "was not refined yet")
    assert batch.cost.pure() == 1
    assert finer.total.pure() == more.total.pure() == 1
    assert ledger.statement().spent == 2

    def fail():
        with session.batch():
            session.refine(finer, epsilon=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()
    assert session.refine(finer, epsilon=1).total.pure() == 2


@pytest.mark.parametrize("failures", [0, 5e-7])
def test_an_account_of_rhos_refuses(tmp_path, failures):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:orders"}
    budget = sd.Budget(epsilon=3, delta=1e-6, meter="zcdp", failures=failures)
    rhos = sd.Ledger.create(tmp_path / "z.db", account="z", budget=budget, **about)
    session = sd.Session(orders(), unit=UNIT, ledger=rhos, name="orders", ladder=LADDER)
    rough = session.count(epsilon=0.1, noise="laplace")
    spent = rhos.statement().spent
    refused(lambda: rough.refine(epsilon=0.1), "adds up epsilons")
    assert rhos.statement().spent == spent


def test_an_account_with_a_delta_takes_the_release_by_itself_into_its_divergences(tmp_path):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:orders"}
    both = sd.Ledger.create(tmp_path / "r.db", account="r", budget=sd.Budget(epsilon=9, delta=1e-6), **about)
    session = sd.Session(orders(), unit=UNIT, ledger=both, name="orders", ladder=LADDER)
    rough = session.count(epsilon=0.5, noise="laplace")
    rough.refine(epsilon=0.5)
    told = both.statement()
    order = told.renyi.order
    alone = sd.ledger.renyi.amounts_at(sd.cost.Pure(epsilon=Fraction(3, 2)), order).main
    assert told.renyi.epsilon_spent == 1
    assert float(told.charges[1].charged) == pytest.approx(float(alone), rel=1e-6)
    whole = sd.ledger.renyi.amounts_at(sd.cost.Pure(epsilon=1), order).main
    assert told.spent >= whole
    assert both.verify().sound


# ---- the same answers, each look once ---------------------------------------------------------------------


def test_rows_that_change_between_the_looks_change_nothing(tmp_path):
    path = tmp_path / "orders.parquet"
    orders(60).write_parquet(path)
    session = seeded(frame=path)
    rough = session.count(epsilon=Fraction(1, 2))
    orders(5000).write_parquet(path)
    assert session.count(epsilon=50).estimate == pytest.approx(5000, abs=10)
    path.unlink()
    # Nothing is read: the table is gone.
    finer = rough.refine(epsilon=Fraction(7, 2))
    assert finer.estimate == pytest.approx(60, abs=12)


def test_the_answers_of_the_first_look_are_used():
    """With noise of rate 800 the answer itself comes out: 30 then 60 rows would differ."""
    session = seeded(ladder=sd.Ladder(growth=1000, looks=2))
    rough = session.count(epsilon=Fraction(4, 5))
    assert rough.refine(epsilon=800).estimate == 60


@every
def test_a_look_is_refined_once(session, ledger, kind):
    rough = FIRST_LOOKS[kind](session, Fraction(1, 4))
    finer = rough.refine(epsilon=Fraction(1, 4))
    spent = ledger.statement().spent
    for again in (lambda: rough.refine(epsilon=1), lambda: session.refine(rough, epsilon=1)):
        refused(again, "was not refined yet")
    assert ledger.statement().spent == spent
    assert finer.refine(epsilon=Fraction(1, 2)).total.pure() == rough.cost.pure() + Fraction(3, 4)


def test_a_look_that_failed_after_its_charge_is_not_refined_again(session, ledger, monkeypatch):
    rough = session.count(epsilon=Fraction(1, 4))

    def fail(self, n):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(System, "words", fail)
        with pytest.raises(sd.DataSourceError):
            rough.refine(epsilon=Fraction(1, 4))
    assert ledger.statement().spent == Fraction(1, 2)
    refused(lambda: rough.refine(epsilon=1), "was not refined yet")


UNKNOWN = {
    "other noise": lambda s: s.count(epsilon=1, noise="gaussian"),
    "bounds": lambda s: s.count(epsilon=1, bounds=(0, 100)),
    "a sum": lambda s: s.sum("x", epsilon=1, lower=0, cap=10),
    "what lies above": lambda s: s.above(
        "item", threshold=1, positives=1, epsilon=4, measure_share=0.5, domain=ITEMS
    ),
    "an empty top k": lambda s: s.top_k("item", k=1, epsilon=1, domain=ITEMS, threshold=10**6),
    "a mechanism alone": lambda s: sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).release(3),
    "another session": lambda s: seeded(8).count(epsilon=1),
    "a copy": lambda s: copy.copy(s.count(epsilon=1)),
    "one that was pickled": lambda s: pickle.loads(pickle.dumps(s.count(epsilon=1))),
    "no release": lambda s: 3,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_refused(name):
    session = seeded()
    release = UNKNOWN[name](session)
    refused(lambda: session.refine(release, epsilon=1), "must be a count, histogram or top k")


def test_without_a_ladder_nothing_is_kept():
    session = seeded(ladder=None)
    rough = session.count(epsilon=1)
    refused(lambda: session.refine(rough, epsilon=1), r"Session.ladder must be given")
    refused(lambda: rough.refine(epsilon=1), "must be a count")
    assert session._desk.memory is None
    with pytest.raises(sd.InvalidParameter, match=r"Session.ladder must be a Ladder or None; got 2"):
        seeded(ladder=2)


def test_answers_are_forgotten_with_the_release_with_the_block_and_on_request():
    session = seeded()
    kept = session._desk.memory._looks
    rough = session.count(epsilon=1)
    assert len(kept) == 1
    finer = rough.refine(epsilon=1)
    assert list(kept) == [finer]
    del finer
    gc.collect()
    assert not kept
    with session:
        other = session.count(epsilon=1)
    assert not kept
    refused(lambda: other.refine(epsilon=1), "whose answers it still keeps")
    third = session.count(epsilon=1)
    session.forget()
    refused(lambda: third.refine(epsilon=1), "whose answers it still keeps")
    seeded(ladder=None).forget()


def test_only_the_answers_of_the_rows_are_kept():
    """The counts of all items stand behind those of the selected ones."""
    session = seeded()
    top = session.top_k("item", k=2, epsilon=1, domain=ITEMS)
    answers = session._desk.memory._looks[top].answers
    assert answers.size == 2
    assert answers.base is None


def list_kept_looks():
    # By its type alone: an object of another test may raise when asked for its class.
    return [one for one in gc.get_objects() if type(one) is Look]


@pytest.mark.slow
def test_a_session_that_is_gone_has_kept_nothing():
    gc.collect()
    # Sessions of other tests may still be there.
    before = {id(one) for one in list_kept_looks()}
    rough = seeded().count(epsilon=1)
    gc.collect()
    refused(lambda: rough.refine(epsilon=1), "must be a count")
    assert not [one for one in list_kept_looks() if id(one) not in before]


def test_a_fork_refines_nothing():
    session = seeded()
    rough = session.count(epsilon=1)
    child = os.fork()
    if not child:
        try:
            session.refine(rough, epsilon=1)
        except sd.InvalidParameter:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert rough.refine(epsilon=1).total.pure() == 2


# ---- the law ----------------------------------------------------------------------------------------------


def test_both_looks_of_a_session_have_the_joint_law():
    n = 40_000
    # One unit a label: every count is 1, and a unit moves one of them.
    frame = pl.DataFrame({"item": [str(i) for i in range(n)]})
    domain = frame["item"].to_list()
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(5), ladder=sd.Ladder(growth=2))
    rough = session.histogram("item", epsilon=Fraction(1, 2), domain=domain)
    finer = rough.refine(epsilon=Fraction(1, 2))
    coarse, fine = (np.array([row.estimate - 1 for row in one], dtype=int) for one in (rough, finer))
    r, s = math.exp(-0.5), math.exp(-1)

    def laplace(ratio, x):
        return (1 - ratio) / (1 + ratio) * ratio ** abs(x)

    def both(n, m):
        rest = (1 - s / r) * (1 - r * s) / (1 - s) ** 2 * laplace(r, n - m)
        return laplace(s, m) * (rest + (n == m) * (1 - r) ** 2 / (1 - s) ** 2 * s / r)

    window = [(a, b) for a in range(-3, 4) for b in range(-3, 4)]
    seen = [int(((coarse == a) & (fine == b)).sum()) for a, b in window]
    expected = [n * both(a, b) for a, b in window]
    seen.append(n - sum(seen))
    expected.append(n - sum(expected))
    assert stats.chisquare(seen, expected).pvalue > LEVEL


# ---- nothing private --------------------------------------------------------------------------------------

SECRET = 1009


def test_releases_and_sessions_show_no_answer():
    session = seeded(frame=orders(SECRET))
    releases = [FIRST_LOOKS[kind](session, Fraction(1, 1000)) for kind in ("count", "count_distinct_units")]
    releases += [release.refine(epsilon=Fraction(1, 1000)) for release in releases]
    for release in releases:
        text = f"{release!r} {release.to_dict()} {vars(release)} {pickle.dumps(release)!r}"
        assert str(SECRET) not in text
        assert "Look" not in text
    looks = list(session._desk.memory._looks.values())
    assert looks
    assert str(SECRET) not in f"{session!r} {vars(session)} {session._desk.memory!r} {looks}"
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(session._desk.memory)
        with pytest.raises(TypeError, match="cannot"):
            copied(looks[0])


WAYS = {
    "of the session": lambda session, release, epsilon: session.refine(release, epsilon=epsilon),
    "of the release": lambda session, release, epsilon: release.refine(epsilon=epsilon),
}
ways = pytest.mark.parametrize("way", WAYS)


@ways
@pytest.mark.parametrize("make", [KeyboardInterrupt, MemoryError])
def test_an_error_while_it_is_drawn_brings_no_answer_out(tmp_path, monkeypatch, make, way):
    path = tmp_path / "orders.parquet"
    orders(SECRET).write_parquet(path)
    session = sd.Session(path, unit=UNIT, ledger=None, ladder=LADDER)
    rough = session.count(epsilon=Fraction(1, 1000))

    def fail(self, n):
        raise make

    with monkeypatch.context() as patch:
        patch.setattr(System, "words", fail)
        with pytest.raises(BaseException) as caught:  # noqa: PT011  (whatever leaves)
            WAYS[way](session, rough, Fraction(1, 1000))
    assert isinstance(caught.value, sd.DataSourceError if make is MemoryError else make)
    assert not sorted(set(remnants(caught.value, SECRET)))
    assert str(SECRET) not in printed(caught.value)


@ways
def test_a_refusal_brings_no_answer_out(tmp_path, way):
    path = tmp_path / "orders.parquet"
    orders(SECRET).write_parquet(path)
    session = sd.Session(path, unit=UNIT, ledger=None, ladder=LADDER)
    rough = session.count(epsilon=Fraction(1, 1000))
    error = refused(lambda: WAYS[way](session, rough, Fraction(1, 10**6)), "refine.epsilon")
    assert not sorted(set(remnants(error, SECRET)))
    assert rough.refine(epsilon=Fraction(1, 1000)).total.pure() == Fraction(1, 500)


@ways
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_an_interrupt_at_some_lines_brings_no_answer_out_and_charges_no_less(tmp_path, way):
    path = tmp_path / "orders.parquet"
    orders(SECRET).write_parquet(path)
    about = {"adjacency": "add-remove", "unit": UNIT, "source": str(path)}
    ledger = sd.Ledger.create(tmp_path / "c.db", account="c", budget=sd.Budget(epsilon=1), **about)
    session = sd.Session(path, unit=UNIT, ledger=ledger, ladder=sd.Ladder(growth=2, looks=32))
    each = Fraction(1, 2000)

    def run(at=None):
        rough, found = session.count(epsilon=each), []
        before = ledger.statement().spent
        error = None
        if at is None:
            WAYS[way](session, rough, each)
        else:
            error = interrupted(lambda: found.append(WAYS[way](session, rough, each)), at)
        spent = ledger.statement().spent - before
        return error, spent, rough

    run()  # what is loaded is loaded
    rough = session.count(epsilon=each)
    total, struck = lines_of(lambda: WAYS[way](session, rough, each)), 0
    for at in sorted({1 + total * place // 12 for place in range(12)}):
        error, spent, rough = run(at)
        if error is None:
            continue
        struck += 1
        assert not sorted(set(remnants(error, SECRET)))
        assert str(SECRET) not in printed(error)
        assert spent in {0, each}
        if not spent:
            # Nothing was charged, so nothing was drawn, and the look is there.
            assert rough.refine(epsilon=each).total.pure() == 2 * each
    assert struck > 6


def test_a_refined_release_is_kept_with_both_epsilons(session, ledger):
    finer = session.count(epsilon=0.5).refine(epsilon=0.5)
    session.keep(finer)
    facts = ledger.read_release(finer.receipt.id).facts
    assert (facts["epsilon"], facts["total_epsilon"]) == (0.5, 1.0)
    counts = session.histogram("item", epsilon=0.5, domain=ITEMS).refine(epsilon=0.5)
    session.keep(counts)
    sheet = ledger.read_release(counts.receipt.id)
    assert sheet.facts["total_epsilon"] == 1.0
    assert "total" not in sheet.columns


def test_progress_is_told():
    told, session = [], seeded()
    session.count(epsilon=1).refine(epsilon=1, progress=told.append)
    assert told == [100.0]
