"""`sordino top --unlisted` says which way it took, why, and how many units a label needs; a guess can be given."""

from __future__ import annotations

import pytest


@pytest.fixture
def unlisted(top):
    """`sordino top` on the shop, where nobody lists its products."""

    def call(*flags, **changes):
        nobody = {"domain": None, "domain_column": None, "delta": "1e-6"}
        return top("--unlisted", *flags, **nobody | changes)

    return call


WAYS = {
    "counted": ((), {"max_rows": 1}, "histogram"),
    "selected": (("--method", "gaps"), {"max_rows": 1}, "gaps"),
    "nothing found": (("--where", "product = 'salt'"), {"max_rows": 1}, "histogram"),
    "any number of labels": ((), {}, "gaps"),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_its_reason_and_its_threshold_are_said(unlisted, name):
    flags, changes, method = WAYS[name]
    told = unlisted(*flags, "--format", "json", **changes).json
    assert told["method"] == method
    assert ("label_threshold" in told) == ("max_rows" in changes)
    table = unlisted(*flags, "--format", "table", "--details", **changes).out
    assert f"Method: {method}. {told['why']}" in table
    needed = f"about {told['label_threshold']} people" if "max_rows" in changes else "many people"
    assert f"nobody listed the labels. A label needs {needed} to appear." in table
    # A list without rows was made in one of the two ways as well.
    assert ("the best of a noisy histogram" in table) == (method == "histogram")


def test_a_guess_of_the_kth_count_is_weighed_and_told(unlisted, sordino, orders, tmp_path):
    about = ("--ledger", tmp_path / "b.db", "--account", "shop")
    limits = ("--epsilon", 9, "--delta", "1e-5", "--failures", "5e-6")
    made = sordino("ledger", "create", *about, "--unit", "customer", "--source", orders, *limits)
    assert made.code == 0
    known = {"epsilon": 1, "max_rows": 8, "k": 3}
    without = unlisted(*about, "--format", "json", **known).json
    weighed = unlisted(*about, "--format", "json", kth_count=400, **known).json
    assert (without["method"], weighed["method"]) == ("histogram", "gaps")
    assert "without a guess of the counts" in without["why"]
    assert "of what finds a count of 400 it disturbs the order least" in weighed["why"]
    hopeless = unlisted(*about, "--format", "table", "--details", kth_count=3, **known).out
    assert "No threshold lies as low as a count of 3: few labels will be found." in hopeless


@pytest.mark.parametrize(
    ("flags", "changes", "message"),
    [
        (
            ("--method", "gaps"),
            {"max_rows": 1},
            "top_k.kth_count must not be given where one way is left",
        ),
        ((), {}, "top_k.kth_count must not be given where one way is left"),
    ],
)
def test_a_guess_that_decides_nothing_is_refused(unlisted, flags, changes, message):
    result = unlisted(*flags, kth_count=5, **changes)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_guess_beside_a_list_is_refused(top):
    result = top(kth_count=5)
    assert (result.code, result.out) == (2, "")
    assert "belongs to Domain.unlisted (--unlisted)" in result.err
