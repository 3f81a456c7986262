"""`sordino top` and a study without `-k`: ten items, or all of fewer that are listed."""

from __future__ import annotations

import json

import pytest

STUDY = """
table = "orders"
name = "best"

[budget]
epsilon = 1

[[release]]
name = "best"
kind = "top_k"
item = "product"
epsilon = 1
"""


@pytest.fixture
def declared(sordino, orders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = "product=items.csv"
    (tmp_path / "items.csv").write_text("product\ntea\nrice\nsalt\n", encoding="utf-8")
    whom = ("--person", "customer", "--max-rows", "3")
    done = sordino("declare", "orders.csv", *whom, "--epsilon", "9", "--labels", labels)
    assert done.code == 0, done.err
    return tmp_path


def test_a_command_needs_none(sordino, declared):
    """All three labels are listed, by every way to choose them."""
    for how in ([], ["--set"], ["--rank-by", "sum(price)", "--user", "customer"]):
        done = sordino("top", "orders", "--item", "product", "--epsilon", "1", *how)
        assert (done.code, len(done.json["rows"])) == (0, 3), done.err
    planned = sordino("top", "orders", "--item", "product", "--epsilon", "1", "--dry-run")
    assert planned.code == 0, planned.err
    assert sordino("top", "orders", "--item", "product", "-k", "4", "--epsilon", "1").code == 2


def test_a_study_needs_none(sordino, declared):
    (declared / "study.toml").write_text(STUDY, encoding="utf-8")
    done = sordino("run", "study.toml", "--run-id", "one", "--quiet")
    assert done.code == 0, done.err
    kept = json.loads((declared / "best-one" / "results.json").read_text(encoding="utf-8"))
    assert len(kept["releases"][0]["rows"]) == 3
