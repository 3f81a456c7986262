"""Which mechanism finds labels that nobody listed: by public numbers alone, with the thresholds and a reason."""

from __future__ import annotations

import math

import pytest

from sordino import InvalidParameter, UnlistedHistogram, UnlistedTopK
from sordino.plan import choose_unlisted

FEW = {"k": 10, "labels": 3, "epsilon": 1, "delta": 1e-6}


def test_few_labels_a_unit_take_noise_on_all_counts():
    found = choose_unlisted(**FEW)
    assert isinstance(found.mechanism, UnlistedHistogram)
    assert found.mechanism.k == 10
    assert [one.way for one in found.alternatives] == ["laplace", "one-sided"]
    assert found.alternatives[0].mechanism is found.mechanism
    assert "45" in found.why
    assert "\n" not in found.why


def test_many_labels_a_unit_take_one_sided_noise():
    found = choose_unlisted(k=2, labels=1000, epsilon=1, delta=1e-6)
    assert isinstance(found.mechanism, UnlistedTopK)
    assert found.mechanism.threshold < 50 < found.alternatives[1].threshold


def test_gaussian_noise_is_compared_where_an_account_takes_it():
    wide = {"k": 100, "labels": 30, "epsilon": 1, "delta": 1e-6}
    assert all(one.way != "gaussian" for one in choose_unlisted(**wide).alternatives)
    found = choose_unlisted(**wide, rho=0.02)
    assert found.alternatives[0].way == "gaussian"
    assert found.mechanism.cost.rho == found.mechanism.noise.rate * 30


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_guess_of_the_counts_decides_among_what_finds_them(adjacency):
    ways = choose_unlisted(**FEW, adjacency=adjacency, rho=0.02).alternatives
    spread = 1 if adjacency == "add-remove" else 2
    assert {one.way: one.order_noise for one in ways} == pytest.approx(
        {
            "one-sided": math.sqrt(2) * 10 * spread,
            "laplace": 6 * spread,
            "gaussian": math.sqrt(3 * spread / 0.02),
        }
    )
    for hint in (0, 30, 60, 100, 200, 1000):
        found = choose_unlisted(**FEW, adjacency=adjacency, rho=0.02, kth_count=hint)
        reached = [one for one in ways if one.threshold <= hint]
        if reached:
            assert found.alternatives[0].order_noise == min(one.order_noise for one in reached)
        else:
            assert found.alternatives[0].threshold == min(one.threshold for one in ways)
            assert "few labels will be found" in found.why
        assert f"{found.mechanism.threshold}" in found.why


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 0}, r"choose_unlisted\.k must be a whole number"),
        ({"labels": 0}, r"choose_unlisted\.labels must be a whole number"),
        ({"epsilon": 0}, r"choose_unlisted\.epsilon must be"),
        ({"delta": 1}, r"choose_unlisted\.delta must be"),
        ({"rho": -1}, r"choose_unlisted\.rho must be"),
        ({"adjacency": "other"}, r"choose_unlisted\.adjacency must be"),
        ({"least": 0}, r"choose_unlisted\.least must be"),
        ({"kth_count": -1}, r"choose_unlisted\.kth_count must be"),
    ],
)
def test_what_is_refused(changes, says):
    with pytest.raises(InvalidParameter, match=says):
        choose_unlisted(**FEW | changes)
