"""Top-k over labels that nobody listed, from the table to the release: what is found, said and paid."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.questions import Domain

UNLISTED = Domain.unlisted(delta=1e-6)


def table(sizes, *, rows=1):
    """Each unit has one item: so many units for each label."""
    labels = [label for label, size in sizes.items() for _ in range(size * rows)]
    users = [user for user in range(sum(sizes.values())) for _ in range(rows)]
    return pl.DataFrame({"user": users, "item": labels})


SIZES = {"ä": 900, "b": 700, "B": 500, "b ": 300, "rare": 3, "once": 1}


def session(frame, *, most=1, adjacency="add-remove", **options):
    unit = sd.PrivacyUnit("user", adjacency=adjacency, max_rows=most)
    return sd.Session(frame, unit=unit, **{"ledger": None} | options)


def account(path, **budget):
    return sd.Ledger.create(
        path,
        account="a",
        budget=sd.Budget(**{"epsilon": 3} | budget),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("user"),
        source="name:t",
    )


def test_labels_with_many_units_are_found_and_rare_ones_never():
    release = session(table(SIZES)).top_k("item", k=6, epsilon=2, domain=UNLISTED, method="gaps")
    assert [row.item for row in release] == ["ä", "b", "B", "b "]
    assert release.crossed
    for row in release:
        assert row.low <= row.estimate <= row.high
        assert row.gap >= 0
    assert release.cost.split_failure()[0] == Fraction(1, 10**6)


def test_an_empty_table_and_a_table_of_rare_labels_are_answers():
    for sizes in ({"a": 1}, {"a": 3, "b": 2}):
        release = session(table(sizes)).top_k("item", k=3, epsilon=1, domain=UNLISTED)
        assert len(release) == 0
        assert release.crossed
    empty = table({"a": 1}).clear()
    assert len(session(empty).top_k("item", k=3, epsilon=1, domain=UNLISTED)) == 0


def test_what_is_missing_is_no_label():
    frame = pl.DataFrame(
        {"user": range(4000), "item": [None] * 1000 + [""] * 1000 + ["x"] * 1000 + ["a\0b"] * 1000}
    )
    release = session(frame).top_k("item", k=4, epsilon=2, domain=UNLISTED)
    assert [row.item for row in release] == ["x"]


def test_all_of_epsilon_may_search():
    release = session(table(SIZES)).top_k(
        "item", k=2, epsilon=1, domain=UNLISTED, selection_share=1, method="gaps"
    )
    assert [row.item for row in release] == ["ä", "b"]
    assert all(row.estimate is None and row.low is None and row.measured is None for row in release)
    assert release.cost.split_failure()[1].pure() == 1
    short = session(table(SIZES)).top_k(
        "item", k=6, epsilon=3, domain=UNLISTED, selection_share=1, method="gaps"
    )
    for row in short:
        assert abs(row.estimate - SIZES[row.item]) < 60


def test_the_threshold_is_public_and_the_one_that_was_derived():
    few, many = (
        session(table(SIZES), most=most).top_k(
            "item", k=5, epsilon=1, domain=UNLISTED, selection_share=1, method="gaps"
        )
        for most in (1, 1000)
    )
    assert few.label_threshold < many.label_threshold
    edge = session(table(SIZES)).top_k(
        "item",
        k=5,
        epsilon=1,
        domain=Domain.unlisted(delta=1e-6, least=50),
        selection_share=1,
        method="gaps",
    )
    assert edge.label_threshold == few.label_threshold + 49


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_one_unit_more_or_less_moves_nothing_but_its_own_labels(adjacency):
    """Noise that is next to nothing shows what the mechanism is handed."""
    base = table(SIZES)
    more = pl.concat([base, pl.DataFrame({"user": [10**6], "item": ["new"]})])
    one, other = (
        session(frame, adjacency=adjacency, entropy=sd.Seeded(4)).top_k(
            "item", k=6, epsilon=10_000, domain=UNLISTED, method="gaps"
        )
        for frame in (base, more)
    )
    assert [row.item for row in one] == [row.item for row in other]


def test_an_account_pays_the_delta_whatever_is_found_and_gets_epsilon_back(tmp_path):
    ledger = account(tmp_path / "l.db", delta=1e-5, failures=5e-6)
    frame = table({"a": 2, "b": 900})
    asked = session(frame, ledger=ledger, name="t")
    asked.top_k("item", k=5, epsilon=1, domain=UNLISTED, method="gaps")
    asked.top_k(
        "item",
        k=5,
        epsilon=1,
        domain=Domain.unlisted(delta=2e-6),
        where="item = 'a'",
        method="gaps",
    )
    told = json.loads("[" + ",".join(ledger.export()) + "]")
    assert ledger.verify().raise_if_broken() is None
    statement = ledger.statement()
    assert Fraction(statement.to_dict()["renyi"]["exact"]["failures_spent"]) == Fraction(3, 10**6)
    # The list had one of five labels, and then none: most of epsilon has returned.
    assert statement.to_dict()["renyi"]["epsilon_spent"] < 1
    assert told


@pytest.mark.parametrize("meter", ["renyi", "zcdp"])
def test_when_no_delta_is_left_nothing_is_read(tmp_path, meter):
    ledger = account(tmp_path / "l.db", delta=1e-5, failures=1e-6, meter=meter)
    asked = session(table(SIZES), ledger=ledger, name="t")
    asked.top_k("item", k=5, epsilon=0.5, domain=UNLISTED)
    with pytest.raises(sd.BudgetExceeded, match="Nothing was"):
        asked.top_k("item", k=5, epsilon=0.5, domain=UNLISTED)


def test_an_account_of_rhos_pays_a_rho_and_a_delta(tmp_path):
    """Selections pay the rho of their epsilon, counts with Gaussian noise that of the noise; nothing comes back."""
    ledger = account(tmp_path / "l.db", delta=1e-5, failures=5e-6, meter="zcdp", epsilon=9)
    asked = session(table({"a": 2, "b": 900}), ledger=ledger, name="t")
    paid = Fraction(0)
    for number, ask in enumerate(
        (
            lambda: asked.top_k("item", k=5, epsilon=0.5, domain=UNLISTED, method="gaps"),
            lambda: asked.top_k(
                "item", k=5, epsilon=0.5, domain=UNLISTED, where="item = 'a'", method="gaps"
            ),
            lambda: asked.top_k("item", k=5, epsilon=0.5, domain=UNLISTED, method="histogram"),
            lambda: asked.histogram("item", epsilon=0.5, domain=UNLISTED),
            lambda: asked.above("item", threshold=100, positives=3, epsilon=0.5, domain=UNLISTED),
        ),
        1,
    ):
        release = ask()
        drawn = release.mechanism if isinstance(release.mechanism, tuple) else (release.mechanism,)
        # Of what was drawn the rho of what holds unless it fails.
        for part in drawn:
            paid += (
                sum(
                    n * getattr(one, "firm", one).zcdp()
                    for one, n in sd.cost.repeat(part.cost, 2).parts
                )
                / 2
            )
        statement = ledger.statement()
        assert statement.failures.spent == Fraction(number, 10**6)
        assert 0 <= statement.spent - paid < Fraction(number, 10**9)
        assert statement.charges[-1].delta == Fraction(1, 10**6)
    assert ledger.verify().raise_if_broken() is None
    with pytest.raises(
        sd.BudgetExceeded, match="Nothing of the delta for labels that nobody listed"
    ):
        asked.histogram("item", epsilon=0.5, domain=UNLISTED)
    # What lists its labels goes on.
    asked.histogram("item", epsilon=0.5, domain=["a", "b"])
    assert ledger.verify().sound


@pytest.mark.parametrize("budget", [{}, {"delta": 1e-6}, {"delta": 1e-6, "meter": "zcdp"}])
def test_accounts_without_a_delta_for_labels_refuse(tmp_path, budget):
    ledger = account(tmp_path / "l.db", **budget)
    asked = session(table(SIZES), ledger=ledger, name="t")
    with pytest.raises((sd.InvalidParameter, sd.BudgetExceeded)) as told:
        asked.top_k("item", k=5, epsilon=0.5, domain=UNLISTED)
    assert "delta" in str(told.value)
    assert ("--failures F --meter zcdp" in str(told.value)) == ("meter" in budget)
    assert len(list(ledger.history())) == 1


@pytest.mark.parametrize(
    ("options", "most", "message"),
    [
        ({"noise": "gumbel"}, 1, "top_k.noise must not be 'gumbel'"),
        (
            {"threshold": 5},
            None,
            "top_k.threshold must not be given where nobody listed the labels and",
        ),
        (
            {"method": "histogram"},
            None,
            "top_k.method must not be given where nobody listed the labels and",
        ),
        ({"method": "histogram", "noise": "laplace"}, 1, "top_k.noise must not be 'laplace'"),
        ({"selection_share": 0}, 1, "top_k.selection_share must be"),
        ({"selection_share": 1, "simultaneous": True}, 1, "top_k.selection_share must be below 1"),
        # A place is held for each of the k, so that memory would end the release after its charge.
        ({"k": 2**31, "epsilon": 1e12, "method": "gaps"}, 1, r"top_k.k must be at most 1048576"),
        ({"k": 2**31, "epsilon": 1e12}, None, r"top_k.k must be at most 1048576"),
        ({"threshold": -(10**300)}, 1, r"above must be at least -2\^52"),
        ({"method": "gaps", "measure_noise": "gaussian"}, 1, "top_k.measure_noise must be laplace"),
        (
            {"noise": "laplace", "measure_noise": "gaussian"},
            1,
            "top_k.measure_noise must be laplace",
        ),
        ({"measure_noise": "gaussian"}, None, "top_k.measure_noise must be laplace"),
    ],
)
@pytest.mark.sample(2)
def test_bad_requests_are_refused_before_the_charge(options, most, message):
    with pytest.raises((sd.InvalidParameter, sd.UnboundedContribution), match=message):
        session(table(SIZES), most=most).top_k(
            "item", **{"k": 5, "epsilon": 1, "domain": UNLISTED} | options
        )


def test_labels_that_were_found_are_a_list_of_known_size(tmp_path):
    ledger = account(tmp_path / "l.db")
    found = UNLISTED.found(["b", "B"])
    with pytest.raises(
        sd.InvalidParameter, match=r"top_k.k must be at most the size of the domain, 2; got 3"
    ):
        session(table(SIZES), ledger=ledger, name="t").top_k("item", k=3, epsilon=1, domain=found)
    assert len(list(ledger.history())) == 1, "nothing is charged for it"


def test_noise_that_is_asked_for_by_name_is_what_measures(tmp_path):
    """A unit with many labels and few places is selected one-sided, if nobody asks for another noise."""
    ledger = account(tmp_path / "l.db", epsilon=9, delta=1e-4, failures=1e-5)
    for noise, law in (
        (None, sd.UnlistedTopK),
        ("laplace", sd.UnlistedTopK),
        ("gaussian", sd.UnlistedHistogram),
    ):
        asked = session(table(SIZES), most=1000, ledger=ledger, name="t")
        found = asked.top_k("item", k=2, epsilon=1, domain=UNLISTED, measure_noise=noise)
        assert type(found.mechanism[0]) is law
    assert found.mechanism[0].noise.name == "gaussian"


def test_units_with_many_labels_count_for_so_many_of_them():
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "user": np.repeat(np.arange(500), 40),
            "item": [f"i{n}" for n in rng.integers(0, 60, 20_000)],
        }
    )
    release = session(frame, most=40).top_k(
        "item", k=5, epsilon=3, domain=UNLISTED, selection_share=1, method="gaps"
    )
    assert len(release) == 5
    assert not math.isnan(release.rows[0].gap)


# ---- which way ---------------------------------------------------------------------------------------------


def test_units_with_one_label_are_counted_all_at_once():
    release = session(table(SIZES)).top_k("item", k=6, epsilon=1, domain=UNLISTED)
    assert release.method == "histogram"
    assert [row.item for row in release] == ["ä", "b", "B", "b "]
    assert release.label_threshold == 15
    for row in release:
        assert row.low - 3 <= SIZES[row.item] <= row.high + 3
        assert row.measured >= release.label_threshold
    assert release.rows[-1].gap == release.rows[-1].measured - release.label_threshold
    assert release.cost.split_failure() == (Fraction(1, 10**6), sd.cost.Pure(epsilon=1))


def test_a_list_that_is_full_says_with_which_count_a_row_would_still_be_in_it():
    frame = table({"a": 900, "b": 700, "c": 500})
    release = session(frame).top_k("item", k=2, epsilon=10, domain=UNLISTED)
    assert [row.item for row in release] == ["a", "b"]
    assert abs(release.rows[-1].gap - 200) < 20
    assert release.crossed is False


def test_units_with_many_labels_and_few_places_are_selected():
    release = session(table(SIZES), most=2000).top_k("item", k=3, epsilon=2, domain=UNLISTED)
    assert release.method == "gaps"


def test_units_with_any_number_of_labels_compete_among_the_best():
    release = session(table(SIZES), most=None).top_k("item", k=2, epsilon=3, domain=UNLISTED)
    assert [row.item for row in release] == ["ä", "b"]
    assert release.label_threshold is None, "it hangs on a private count"
    assert all(math.isfinite(row.true_high) for row in release)


def test_an_account_with_a_delta_gets_gaussian_noise_where_that_is_smaller(tmp_path):
    ledger = account(tmp_path / "l.db", delta=1e-5, failures=5e-6)
    asked = session(table(SIZES), most=8, ledger=ledger, name="t")
    release = asked.top_k("item", k=50, epsilon=0.5, domain=UNLISTED)
    assert release.method == "histogram"
    assert release.mechanism[0].rho is not None
    assert release.cost.split_failure()[0] == Fraction(1, 10**6)
    pure = asked.top_k(
        "item", k=50, epsilon=0.5, domain=UNLISTED, measure_noise="laplace", method="histogram"
    )
    assert pure.mechanism[0].epsilon == Fraction(1, 2)
    assert ledger.verify().raise_if_broken() is None


@pytest.mark.parametrize(
    ("hint", "method", "said"),
    [
        (
            None,
            "histogram",
            "Gaussian noise on all counts of a unit finds labels .* without a guess",
        ),
        (
            400,
            "gaps",
            "One-sided noise for k selections finds .* of what finds a count of 400 it disturbs",
        ),
        (
            3,
            "histogram",
            "No threshold lies as low as a count of 3: few labels will be found. Gaussian noise",
        ),
    ],
)
def test_a_guess_of_the_kth_count_decides_the_way_and_is_told(tmp_path, hint, method, said):
    """Worked out from the thresholds and deviations that docs/proofs/unlisted.md compares."""
    ledger = account(tmp_path / "l.db", delta=1e-5, failures=5e-6)
    asked = session(table(SIZES), most=8, ledger=ledger, name="t")
    release = asked.top_k("item", k=3, epsilon=1, domain=UNLISTED, kth_count=hint)
    assert release.method == method
    assert re.search(said, release.why)
    assert f"about {release.label_threshold} on" in release.why
    [*_, line] = ledger.statement().charges
    assert line.detail.get("kth_count") == (None if hint is None else str(hint))


@pytest.mark.parametrize(
    ("options", "most", "why"),
    [
        ({"method": "gaps"}, 1, "Asked for by name."),
        ({"noise": "laplace"}, 1, "Asked for by name."),
        ({"method": "histogram", "measure_noise": "laplace"}, 2000, "Asked for by name."),
        ({"measure_noise": "gaussian", "method": "histogram"}, 2000, "Asked for by name."),
        ({}, None, "The one way where nothing bounds how many labels a unit counts for."),
        (
            {"method": "histogram"},
            1,
            "Laplace noise on all counts of a unit finds labels from a count of about 15 on.",
        ),
    ],
)
def test_a_way_that_was_asked_for_says_so(options, most, why):
    release = session(table(SIZES), most=most).top_k(
        "item", k=3, epsilon=1, domain=UNLISTED, **options
    )
    assert release.why == why


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", [None, "histogram"])
@pytest.mark.each_value
def test_gaussian_noise_that_was_asked_for_by_name_is_taken(method, adjacency):
    # At this epsilon Laplace noise would have the lower threshold, and selections the least noise.
    asked = session(table(SIZES), adjacency=adjacency)
    release = asked.top_k(
        "item", k=1, epsilon=12, domain=UNLISTED, measure_noise="gaussian", method=method
    )
    assert release.method == "histogram"
    assert release.mechanism[0].rho is not None


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"method": "gaps"}, 1),
        ({"noise": "exponential"}, 1),
        ({"measure_noise": "gaussian"}, 1),
        ({"measure_noise": "laplace", "method": "histogram"}, 1),
        ({}, None),
        ({"domain": ["ä", "b", "B"]}, 1),
    ],
)
def test_a_guess_that_decides_nothing_is_refused(options, most):
    asked = session(table(SIZES), most=most)
    with pytest.raises(sd.InvalidParameter, match=r"top_k.kth_count (must not|belongs to)"):
        asked.top_k(
            "item", **{"k": 2, "epsilon": 1, "domain": UNLISTED, "kth_count": 100} | options
        )


@pytest.mark.parametrize("guess", [-1, math.nan, "many"])
def test_a_guess_is_a_count(guess):
    with pytest.raises(sd.InvalidParameter, match="top_k.kth_count must be"):
        session(table(SIZES)).top_k("item", k=2, epsilon=1, domain=UNLISTED, kth_count=guess)


@pytest.mark.parametrize(
    ("options", "most"), [({"method": "gaps"}, 1), ({"noise": "laplace"}, 1), ({}, None)]
)
def test_gaussian_noise_is_refused_where_labels_are_selected(options, most):
    with pytest.raises(
        sd.InvalidParameter, match="top_k.measure_noise must be laplace where nobody listed"
    ):
        session(table(SIZES), most=most).top_k(
            "item", k=2, epsilon=1, domain=UNLISTED, measure_noise="gaussian", **options
        )


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.slow
def test_intervals_hold_as_often_as_promised_given_that_a_label_was_found(simultaneous):
    sizes = {f"l{number:03d}": 8 + number for number in range(60)}
    frame = table(sizes)
    wrong = found = all_hold = 0
    for seed in range(60):
        asked = session(frame, entropy=sd.Seeded(seed))
        release = asked.top_k(
            "item",
            k=20,
            epsilon=0.5,
            domain=UNLISTED,
            simultaneous=simultaneous,
            method="histogram",
        )
        missed = [not row.low <= sizes[row.item] <= row.high for row in release]
        wrong, found, all_hold = (
            wrong + sum(missed),
            found + len(missed),
            all_hold + (not any(missed)),
        )
    assert wrong <= 0.05 * found + 3 * math.sqrt(0.05 * found)
    if simultaneous:
        assert all_hold >= 60 * 0.95 - 3 * math.sqrt(60 * 0.0475)


# ---- histograms and thresholds -----------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["histogram", "above"])
def test_all_labels_above_the_threshold_are_counted_in_their_order(ask):
    asked = session(table(SIZES))
    if ask == "histogram":
        release = asked.histogram("item", epsilon=2, domain=UNLISTED)
    else:
        release = asked.above("item", threshold=400, positives=1, epsilon=2, domain=UNLISTED)
        assert release.asked is None
        assert release.label_threshold == 400
    found = [row.item for row in release]
    assert found == (["B", "b", "b ", "ä"] if ask == "histogram" else ["B", "b", "ä"])
    for row in release:
        assert abs(row.estimate - SIZES[row.item]) < 30
        assert row.low <= row.estimate <= row.high
    assert release.cost.split_failure()[0] == Fraction(1, 10**6)


def test_rare_labels_stay_below_a_threshold_of_ones_own():
    release = session(table(SIZES)).above(
        "item", threshold=1, positives=9, epsilon=2, domain=UNLISTED
    )
    assert release.label_threshold > 1
    assert "once" not in {row.item for row in release}


@pytest.mark.parametrize(
    ("ask", "options", "message"),
    [
        ("above", {"adaptive": True}, "above.adaptive must not be given where nobody listed"),
        ("above", {"noise": "laplace"}, "above.noise must not be given where nobody listed"),
        ("above", {"method": "gaps"}, "above.method must not be given where nobody listed"),
        ("histogram", {"bounds": (0, 5)}, "histogram.bounds must not be given where nobody listed"),
        # It has no float, which would be found after the charge.
        ("above", {"threshold": -(10**300)}, r"above must be at least -2\^52"),
    ],
)
def test_what_belongs_to_a_list_is_refused(ask, options, message):
    needed = {"epsilon": 1, "domain": UNLISTED} | (
        {"threshold": 5, "positives": 1} if ask == "above" else {}
    )
    asked = getattr(session(table(SIZES)), ask)
    with pytest.raises(sd.InvalidParameter, match=message):
        asked("item", **needed | options)


@pytest.mark.parametrize("ask", ["histogram", "above"])
def test_units_with_any_number_of_labels_are_refused_there(ask):
    needed = {"epsilon": 1, "domain": UNLISTED} | (
        {"threshold": 5, "positives": 1} if ask == "above" else {}
    )
    asked = getattr(session(table(SIZES), most=None), ask)
    with pytest.raises(sd.UnboundedContribution, match="max_rows"):
        asked("item", **needed)
