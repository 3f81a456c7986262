"""What a search spent is a part of its release: a sentence on stderr may follow it, and nothing else that depends on rows."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz.questions import Question
from fuzz.releases import _shape, released, without_odds
from sordino.cli import write

ABOVE = {"how": "command", "name": "above", "epsilon": "8", "threshold": "100"}
SCHEMA = pa.schema([("u", pa.string()), ("g", pa.string())])
QUESTION = Question(kind="items", unit="u", item="g", domain={"list": ["a", "b"]})


def seen(folder, release, rows):
    """Return what the fuzzer takes for public of a table with so many units of one label."""
    folder.mkdir()
    table = pa.table({"u": [f"u{row}" for row in range(rows)], "g": ["a"] * rows}, schema=SCHEMA)
    pq.write_table(table, folder / "t.parquet")
    return released(
        SimpleNamespace(target=folder / "t.parquet", csv=None), QUESTION, release, folder, "HIDDEN"
    )


@pytest.mark.parametrize("form", ["json", "csv", "table"])
@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.each_value
def test_the_odds_of_a_search_follow_its_release(tmp_path, form, ledger):
    """A label far above the threshold is found, and spends more than none: the sentence says the epsilon of the release."""
    release = ABOVE | {"format": form, "ledger": ledger}
    none, many = (seen(tmp_path / str(rows), release, rows) for rows in (0, 1000))
    assert none.public == many.public
    assert "exit 0" in none.public


@pytest.mark.parametrize("form", ["json", "table"])
def test_odds_of_anything_else_are_found(tmp_path, monkeypatch, form):
    """Broken twin: the sentence knows more than the release says: how much was found, told in another epsilon."""

    def leaky(record, run):
        write.say(f"At epsilon {len(record.rows) + 20}, someone who thought so")

    monkeypatch.setattr(write, "_say_odds", leaky)
    release = ABOVE | {"format": form, "ledger": False}
    none, many = (seen(tmp_path / str(rows), release, rows) for rows in (0, 1000))
    assert none.public != many.public


def test_odds_stay_where_they_are_not_those_of_the_release():
    err = "A note.\nAt epsilon 0.5, someone who thought something.\n"
    assert without_odds(err, "Spent: epsilon 0.5. Protects", "table", asked=1) == "A note.\n\n"
    assert without_odds(err, '{"epsilon": 0.5, "x": 1}', "json", asked=1) == "A note.\n\n"
    assert without_odds(err, "item,estimate", "csv", asked=1) == "A note.\n\n"
    assert without_odds(err, "Spent: epsilon 0.6. Protects", "table", asked=1) == err
    assert without_odds(err, '{"epsilon": null}', "json", asked=1) == err
    assert without_odds(err, "item,estimate", "csv", asked=0.4) == err
    assert without_odds("A note.\n", "Spent: epsilon 0.5.", "table", asked=1) == "A note.\n"
    # Four digits are shown, rounded up.
    rounded = err.replace("epsilon 0.5,", "epsilon 0.03865,")
    assert without_odds(rounded, '{"epsilon": 0.0386463}', "json", asked=1) == "A note.\n\n"
    for other in ("0.0386", "0.03866"):
        assert without_odds(rounded, f'{{"epsilon": {other}}}', "json", asked=1) == rounded


def test_a_warning_of_a_low_share_follows_the_share_that_is_released():
    """It is a function of a noisy number that stands beside it; a warning beside a high share would know more."""
    low = {"numbers_share_low": 0.4, "warning": "the figure may be about few of the rows."}
    some = {"numbers_share_high": 0.9, "warning": "at least 10% of the rows held no number."}
    high = {"numbers_share_low": 0.99}
    assert _shape(some | {"numbers_share_low": 0.8}, keep=False) == _shape(
        {"numbers_share_high": 0.99, "numbers_share_low": 0.8}, keep=False
    )
    assert _shape(low, keep=False) == _shape(high, keep=False)
    for leaky in (low | high, some | {"numbers_share_high": 0.99}, {"warning": low["warning"]}):
        assert "warning" in _shape(leaky, keep=False)
    assert "warning" in _shape(low | {"warning": "another one"}, keep=False)
