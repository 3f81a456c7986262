"""Session.watch: a stream that is charged before it answers, and gives back what it did not spend."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

import sordino as sd

HIGH, LOW = 10**9, -(10**9)


@pytest.fixture
def orders():
    return pl.DataFrame({"customer": ["a", "b"], "product": ["tea", "rice"]})


@pytest.fixture
def ledger(tmp_path):
    budget = sd.Budget(epsilon=3)
    return sd.Ledger.create(
        tmp_path / "b.db",
        account="shop",
        budget=budget,
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )


def session(orders, ledger=None, **changes):
    return sd.Session(
        orders,
        **({"unit": sd.PrivacyUnit("customer"), "ledger": ledger, "name": "orders"} | changes),
    )


def watch(s, **changes):
    return s.watch(
        **(
            {
                "threshold": 100,
                "positives": 3,
                "epsilon": 0.8,
                "sensitivity": sd.COUNTING,
                "split": 0.25,
            }
            | changes
        )
    )


def test_a_stream_is_charged_before_it_answers_and_settled_after(orders, ledger):
    with session(orders, ledger) as s:
        with watch(s) as stream:
            assert ledger.remaining == Fraction("2.2")
            assert [stream.ask(answer).above for answer in (LOW, HIGH, LOW)] == [False, True, False]
        assert stream.closed
    assert ledger.remaining == Fraction("2.6")
    (line,) = ledger.statement().charges
    assert (line.label, line.state) == ("watch", "settled")
    assert line.detail == {"threshold": "100", "positives": 3, "adaptive": False}


def test_an_error_in_the_block_leaves_the_full_charge(orders, ledger):
    def failing(s):
        with watch(s) as stream:
            stream.ask(LOW)
            stream.ask(1 / 0)

    with session(orders, ledger) as s, pytest.raises(ZeroDivisionError):
        failing(s)
    assert ledger.remaining == Fraction("2.2")


def test_the_adaptive_one(orders, ledger):
    with session(orders, ledger) as s, watch(s, adaptive=True, positives=2) as stream:
        while not stream.closed:
            verdict = stream.ask(HIGH)
            assert (verdict.above, verdict.branch) == (True, 0)
        assert stream.asked > 2
    assert ledger.remaining >= Fraction("2.2")


def test_nothing_is_charged_before_the_block_or_by_what_is_refused(orders, ledger):
    other = sd.Sensitivity(bound=1, monotone=False, adjacency="replace-one")
    with session(orders, ledger) as s:
        waiting = watch(s)
        for changes, words in (
            ({"positives": 0}, "SparseVector.positives must be"),
            ({"epsilon": None}, "SparseVector.epsilon must be"),
            ({"sensitivity": 3}, "SparseVector.sensitivity must be"),
            (
                {"sensitivity": other},
                "watch.sensitivity must be for the adjacency of the session, 'add-remove'; got 'replace-one'",
            ),
            ({"threshold": "7"}, "SparseVector.threshold must be"),
            ({"adaptive": None}, "watch.adaptive must be"),
            ({"passes": 2}, "watch.passes must not be given"),
            ({"domain_size": 9}, "watch.domain_size must not be given"),
        ):
            with pytest.raises(sd.InvalidParameter, match=words):
                watch(s, **changes)
        with s.batch(), pytest.raises(sd.InvalidParameter, match="outside a batch"):
            watch(s)
        with pytest.raises(sd.BudgetExceeded), watch(s, epsilon=4):
            pass
        assert ledger.remaining == 3
        with waiting as stream:
            stream.ask(LOW)
    assert ledger.remaining == Fraction("2.8")


def test_without_a_ledger_seeds_work_and_nothing_is_remembered(orders):
    verdicts = []
    for _ in range(2):
        with session(orders, entropy=sd.Seeded(7)) as s, watch(s, epsilon=2) as stream:
            verdicts.append([stream.ask(answer).gap for answer in (50, 104, 180)])
    assert verdicts[0] == verdicts[1]
    assert stream.closed
    with pytest.raises(sd.StreamClosed):
        stream.ask(1)
