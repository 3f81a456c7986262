"""A session says who pays for its releases: an account, nobody by a written word, or nobody because its noise is simulated."""

from __future__ import annotations

import inspect
from pathlib import Path

import polars as pl
import pytest

import sordino as sd

FRAME = pl.DataFrame({"u": ["a", "b"]})
UNIT = sd.PrivacyUnit("u")


def test_real_noise_needs_a_word_about_the_account():
    for entropy in ({}, {"entropy": sd.SYSTEM}):
        with pytest.raises(sd.InvalidParameter, match="ledger=None") as caught:
            sd.Session(FRAME, unit=UNIT, **entropy)
        assert "Session.ledger must be" in str(caught.value)
        assert "Ledger.open" in str(caught.value)
        assert sd.Session(FRAME, unit=UNIT, ledger=None, **entropy).count_distinct_units(epsilon=1)


def test_it_is_refused_before_the_source_is_opened():
    with pytest.raises(sd.InvalidParameter, match="ledger=None"):
        sd.Session("none.csv", unit=UNIT)
    with pytest.raises(sd.DataSourceError):
        sd.Session("none.csv", unit=UNIT, ledger=None)


def test_simulated_noise_needs_none(tmp_path):
    assert (
        sd.Session(FRAME, unit=UNIT, entropy=sd.Seeded(1)).count_distinct_units(epsilon=1).simulated
    )
    assert sd.Session(FRAME, unit=UNIT, ledger=None, entropy=sd.Seeded(1))
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit="u",
        source="name:x",
    )
    with pytest.raises(sd.SimulatedRelease):
        sd.Session(FRAME, unit=UNIT, ledger=ledger, entropy=sd.Seeded(1), name="x")


def test_the_default_can_be_read_and_is_no_ledger():
    default = inspect.signature(sd.Session).parameters["ledger"].default
    assert repr(default) == "<must be given>"
    with pytest.raises(sd.InvalidParameter, match="Session.ledger must be"):
        sd.Session(FRAME, unit=UNIT, ledger="budget.db")
    # Who hands the default on has said nothing.
    with pytest.raises(sd.InvalidParameter, match="ledger=None"):
        sd.Session(FRAME, unit=UNIT, ledger=default)
    assert Path("budget.db").exists() is False
