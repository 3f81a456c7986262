"""Histograms of more cells than are shown: those whose noisy counts reach a public threshold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.estimators.rows import estimate_histogram_rows
from sordino.mechanisms import HistogramTopK
from sordino.questions import prepare_counts
from sordino.report import make_report
from sordino.results import describe
from sordino.results.legend import say_short
from sordino.session.noisy_histogram import choose_threshold
from sordino.session.request import LISTED
from sordino.sources import open_source

PARTS = {"a": 108, "b": 100, "c": 100}
"""1,080,000 cells: more than are shown without a threshold."""
DOMAIN = {name: [f"{name}{n:03d}" for n in reversed(range(size))] for name, size in PARTS.items()}
CELLS = list(DOMAIN)


def table(large=(40, 400), more=3000):
    """Two cells of many persons, and many of one."""
    places = [(1, 0, 0)] * large[0] + [(0, 99, 7)] * large[1]
    places += [(n % 108, n % 97, n % 89) for n in range(more)]
    rows = [
        (f"p{n}", *(f"{name}{at:03d}" for name, at in zip(CELLS, place, strict=True)))
        for n, place in enumerate(places)
    ]
    return pl.DataFrame(rows, schema=["id", *CELLS], orient="row")


def session(frame=None, most=1, **more):
    unit = sd.PrivacyUnit("id", max_rows=most)
    return sd.Session(
        table() if frame is None else frame,
        unit=unit,
        **({"entropy": sd.Seeded(3)} if "ledger" not in more else {}) | more,
    )


def test_the_threshold_is_the_least_with_one_empty_cell_expected():
    """P(noise >= T) is r^T/(1 + r); the numbers were computed apart from the code."""
    apart = {1: 1, 2: 1, 10: 2, 10**4: 9, 10**5: 12, 10**6: 14, 10**7: 16}
    for size, threshold in apart.items():
        question = prepare_counts(
            open_source(table(more=0)),
            sd.PrivacyUnit("id", max_rows=1),
            kind="items",
            item="a",
            domain=sd.Domain.range(0, size),
            salt=bytes(16),
        )
        assert choose_threshold("t", None, question, Fraction(1), None, size) == threshold
        r = math.exp(-1)
        more, fewer = (size * r**t / (1 + r) for t in (threshold - 1, threshold))
        assert fewer <= 1
        assert threshold == 1 or more > 1


def test_cells_that_reach_the_threshold_are_released_in_the_order_given(tmp_path):
    release = session().histogram(CELLS, epsilon=1, domain=DOMAIN)
    assert release.asked == math.prod(PARTS.values()) > LISTED
    assert release.threshold == 14
    assert all(row.estimate >= 14 for row in release)
    found = {row.item: row for row in release}
    for cell, count in ((("a001", "b000", "c000"), 40), (("a000", "b099", "c007"), 400)):
        assert found[cell].low <= count <= found[cell].high < 1.1 * count + 10
    shown = [
        tuple(DOMAIN[name].index(part) for name, part in zip(CELLS, row.item, strict=True))
        for row in release
    ]
    assert shown == sorted(shown), "labels were given backwards, and stand so"
    assert release.cost.pure() == 1
    mechanism = release.mechanism
    assert isinstance(mechanism, HistogramTopK)
    assert mechanism.domain_size == release.asked
    # In every form it says which cells are shown, and that others are not.
    record = describe(release)
    assert record.facts["threshold"] == 14
    assert record.facts["asked"] == release.asked
    assert any(
        "1,080,000 labels, those with a noisy count of 14 or more" in note for note in record.notes
    )
    assert any("allows for the selection" in note for note in record.notes)
    said = " ".join(say_short(record))
    assert "Shown: noisy counts of 14 or more, of 1,080,000; others may have people, too." in said
    assert "estimate: too high" in said
    page = make_report([release])
    assert "a noisy count of 14 or more, of 1,080,000; others may have people, too." in page
    assert "Released numbers of what was selected are too high" in page
    assert "histogram-top-k.md" in page
    assert "intervals.md" not in page, "the proof of intervals of what was not selected"
    with pytest.raises(sd.InvalidParameter, match="noise that has not selected"):
        session().remeasure(release, epsilon=1)
    # A plan says it before anything is read.
    plan = session().plan.histogram(CELLS, epsilon=1, domain=DOMAIN)
    assert plan.threshold == plan.to_dict()["threshold"] == 14
    assert "Shown: noisy counts of 14 or more." in plan.list_notes()
    assert session().plan.histogram("a", epsilon=1, domain=DOMAIN["a"]).threshold is None


def test_a_threshold_below_2_20_cells_is_optional_and_goes_with_every_noise():
    small = {"a": DOMAIN["a"], "b": DOMAIN["b"]}
    frame = table()
    every = session(frame).histogram(["a", "b"], epsilon=1, domain=small)
    assert len(every) == 10_800
    assert every.threshold is every.asked is None
    assert "threshold" not in every.to_dict()
    for more in ({}, {"noise": "gaussian"}, {"simultaneous": True}):
        some = session(frame).histogram(["a", "b"], epsilon=1, domain=small, threshold=30, **more)
        assert {row.item for row in some} == {("a001", "b000"), ("a000", "b099")}
        assert [row.item for row in some] == [
            row.item for row in every if row.item in {one.item for one in some}
        ]
        assert (some.together == 0.95) == ("simultaneous" in more)
    unlisted = session(frame).histogram(
        "a", epsilon=1, domain=sd.Domain.unlisted(delta=1e-6), threshold=100
    )
    assert [row.item for row in unlisted] == ["a000"]
    assert list(session(frame).histogram("a", epsilon=1, domain=["x"], threshold=50)) == []


def test_above_by_a_histogram_takes_a_range_and_shows_what_the_histogram_shows():
    frame = pl.DataFrame({"id": range(900), "n": [min(at % 60, 40) for at in range(900)]})
    domain = sd.Domain.range(0, 6_000_000)

    def ask(kind, **more):
        of = sd.Session(
            frame, unit=sd.PrivacyUnit("id", max_rows=1), ledger=None, entropy=sd.Seeded(5)
        )
        return getattr(of, kind)("n", epsilon=1, domain=domain, threshold=16, **more)

    above, shown = ask("above", positives=3, method="histogram"), ask("histogram")
    assert (above.method, above.cost) == ("histogram", shown.cost)
    assert {(row.item, row.low, row.high) for row in above} == {
        (row.item, row.low, row.high) for row in shown
    }
    assert "40" in {row.item for row in above}
    for more, message in [
        ({"threshold": 0.5}, r"above\.threshold must .* 6,000,000 items; got 0\.5, .* With 16 it"),
        ({"domain": sd.Domain.range(0, 10**7 + 1)}, "must be 'gaps' for more than 10,000,000"),
    ]:
        asked = {"epsilon": 1, "domain": domain, "threshold": 16, "positives": 3} | more
        with pytest.raises(sd.InvalidParameter, match=message):
            sd.Session(frame, unit=sd.PrivacyUnit("id", max_rows=1), ledger=None).above(
                "n", method="histogram", **asked
            )


def test_what_cannot_be_is_refused_before_the_charge(tmp_path):
    about = {"adjacency": "add-remove", "unit": sd.PrivacyUnit("id"), "source": "name:people"}
    ledger = sd.Ledger.create(
        tmp_path / "budget.db", account="people", budget=sd.Budget(epsilon=5), **about
    )
    asked = session(ledger=ledger, name="people")
    large = {
        name: [f"{name}{n}" for n in range(size)]
        for name, size in zip(CELLS, (220, 230, 210), strict=True)
    }
    for item, options, message in [
        (CELLS, {"domain": large}, r"^220 x 230 x 210 = 10,626,000 cells; at most 10,000,000\. "),
        (CELLS, {"domain": DOMAIN, "bounds": (0, 99)}, "not be given where a threshold says"),
        (CELLS, {"domain": DOMAIN, "threshold": 0}, "histogram.threshold must be"),
        (CELLS, {"domain": DOMAIN, "threshold": 2.5}, "histogram.threshold must be"),
        (CELLS, {"domain": DOMAIN, "noise": "gaussian"}, "noise must be laplace"),
        ("a", {"domain": "assume-public", "threshold": 5}, "go with labels that are listed"),
        ("a", {"domain": sd.Domain.range(0, 10**7 + 1)}, "10,000,001 cells; at most"),
        ("a", {"domain": sd.Domain.range(0, 10**7), "threshold": 1}, "about 2,689,414. With 16"),
    ]:
        with pytest.raises(sd.InvalidParameter, match=message):
            asked.histogram(item, **{"epsilon": 1} | options)
    assert ledger.remaining == 5
    # On an account of rhos it is Laplace noise, at its price.
    rhos = sd.Ledger.create(
        tmp_path / "rho.db",
        account="people",
        budget=sd.Budget(epsilon=20, delta=1e-6, meter="zcdp"),
        **about,
    )
    before = rhos.remaining
    release = session(ledger=rhos, name="people").histogram(CELLS, epsilon=1, domain=DOMAIN)
    assert release.mechanism.noise.name == "laplace"
    assert 0.46 < before - rhos.remaining < 0.5


def test_intervals_allow_for_the_selection_and_marginal_ones_are_convicted():
    """100,000 cells: 2,000 of 5 persons, 1,000 of 12, 200 of 40, all others empty."""
    size, truth = 10**5, np.repeat([5, 12, 40], [2000, 1000, 200])
    statement = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)
    mechanism = HistogramTopK(
        k=size, epsilon=1, sensitivity=statement.over(size), domain_size=size, threshold=12
    )
    entropy, held, marginal, named, together = sd.Seeded(5), [], [], [], []
    for _ in range(300):
        top = mechanism.release(truth, positions=np.arange(truth.size), entropy=entropy)
        true = np.append(truth, 0)[np.minimum(top.indices, truth.size)]
        said = estimate_histogram_rows(top, size=None, confidence=0.95)
        held.append((said.low <= true) & (true <= said.high))
        far = 1 - mechanism.noise.quantile(0.025)
        marginal.append(np.abs(top.values - true) < far)
        named.append(true)
        all_rows = estimate_histogram_rows(top, size=None, confidence=0.95, simultaneous=True)
        together.append(bool(((all_rows.low <= true) & (true <= all_rows.high)).all()))
    held, marginal, named = map(np.concatenate, (held, marginal, named))
    small = named <= 5
    assert small.sum() > 200, "the noise names some that hardly anybody is in"
    for which in (small, named == 12, named == 40):
        error = math.sqrt(0.05 * 0.95 / which.sum())
        assert held[which].mean() > 0.95 - 4 * error
    assert not marginal[small].any(), "the twin: all of them are missed"
    assert np.mean(together) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 300)
