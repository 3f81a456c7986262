"""How many items a list has that nobody says: ten, or all of fewer that are listed."""

from __future__ import annotations

import polars as pl
import pytest

import sordino as sd

ROWS = pl.DataFrame(
    {
        "guest": [n for n in range(900) for _ in range(2)],
        "item": [f"i{(n * n) % 23:02}" for n in range(1800)],
        "price": [n % 9 for n in range(1800)],
    }
)
LABELS = [f"i{n:02}" for n in range(23)]
ASK = {
    "top_k": lambda s, **more: s.top_k("item", **more),
    "top_set": lambda s, **more: s.top_set("item", **more),
    "top_sums": lambda s, **more: s.top_sums("item", "price", **more),
}
LISTS = {
    "a list": (LABELS, 10),
    "fewer labels": (LABELS[:4], 4),
    "one label": (LABELS[:1], 1),
    "the table's own": ("assume-public", 10),
    "found": (sd.Domain.unlisted(delta=1e-6), 10),
}


def release(name, ledger=None, **more):
    with sd.Session(
        ROWS, unit=sd.PrivacyUnit("guest", max_rows=2), ledger=ledger, entropy=sd.Seeded(3)
    ) as session:
        return ASK[name](session, epsilon=8, **more)


NEITHER = {("top_set", "found"), ("top_sums", "the table's own")}
CASES = [(name, labels) for name in ASK for labels in LISTS if (name, labels) not in NEITHER]


@pytest.mark.parametrize(("name", "labels"), CASES)
def test_nothing_said_is_ten_or_all_of_fewer(name, labels):
    domain, many = LISTS[labels]
    found, same = release(name, domain=domain), release(name, domain=domain, k=many)
    assert [(row.item, row.estimate) for row in found] == [(row.item, row.estimate) for row in same]
    assert found.cost == same.cost
    assert found.population.k == same.population.k == many


def test_what_is_said_is_not_made_fit():
    with pytest.raises(sd.InvalidParameter, match="at most the size of the domain, 4; got 10"):
        release("top_k", domain=LABELS[:4], k=10)


def test_plans_and_goals_know_it():
    with sd.Session(ROWS, unit=sd.PrivacyUnit("guest", max_rows=2), ledger=None) as session:
        plan = session.plan.top_k("item", domain=LABELS, epsilon=1, like="zipf:1", rows=900)
        same = session.plan.top_k("item", domain=LABELS, epsilon=1, k=10, like="zipf:1", rows=900)
        assert [str(one) for one in plan.rows] == [str(one) for one in same.rows]
        few = session.plan.top_k(
            "item", domain=LABELS[:4], goal="top 4 right with 50%", like="zipf:1", rows=900
        )
        assert few.epsilon > 0
        # A list has as many items as its goal names.
        ask = {"domain": LABELS, "like": "zipf:1", "rows": 900}
        for goal, k in (("top 4 right with 50%", 4), ("right with 50%", 10)):
            for kind in ("top_k", "top_set"):
                plan = getattr(session.plan, kind)("item", goal=goal, **ask)
                said = getattr(session.plan, kind)("item", goal=goal, k=k, **ask)
                assert (plan.epsilon, plan.choices) == (said.epsilon, said.choices)
        with pytest.raises(sd.InvalidParameter, match="the same items: k is 10"):
            session.plan.top_k("item", k=10, goal="top 4 right with 50%", **ask)


@pytest.mark.parametrize("rank_by", [(), ("--rank-by", "sum(price)")])
def test_a_command_releases_as_many_as_its_goal_names(sordino, tmp_path, rank_by):
    """Twin: a plan of four, and a release of ten with their epsilon."""
    ROWS.write_csv(tmp_path / "t.csv")
    (tmp_path / "l.csv").write_text("\n".join(["item", *LABELS, ""]))
    like = (
        ("--like", "zipf:1", "--like-rows", 900) if not rank_by else ("--like", "lognormal:200,1")
    )
    ask = ("top", tmp_path / "t.csv", "--user", "guest", "--item", "item", *rank_by, *like)
    ask += ("--domain", tmp_path / "l.csv", "--no-ledger", "--quiet", "--format", "json", "--goal")
    assert len(sordino(*ask, "top 4 right with 50%").json["rows"]) == 4
    assert len(sordino(*ask, "right with 50%").json["rows"]) == 10
    refused = sordino(*ask, "top 4 right with 50%", "-k", 10)
    assert (refused.code, "the same items: k is 10" in refused.err) == (2, True)
