"""A shop with a study of it: files, an account, and the text of the study with changes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import sordino as sd

HEAD = """
name = "shop"
title = "A shop"

[source]
path = "orders.csv"
types = {price = "decimal(9,2)"}

[unit]
column = "customer"
max_rows = 3

[account]
ledger = "budget.db"
name = "shop"

[budget]
epsilon = 2
"""
RELEASES = """
[[release]]
kind = "count_distinct_units"
name = "customers"
share = 0.25

[[release]]
kind = "top_k"
name = "best_sellers"
item = "product"
k = 2
domain = {file = "items.csv", column = "name"}
share = 0.25

[[release]]
kind = "sum"
name = "turnover"
column = "price"
lower = 0
cap = 1e6
epsilon = 1
"""
STUDY = HEAD + RELEASES
NAMES = ("customers", "best_sellers", "turnover")


def put_shop(folder: Path, text: str = STUDY, *, epsilon: float = 10, **budget) -> Path:
    """Write the tables, the account and the study; return the path of the study."""
    lines = ["customer,product,price"]
    for c in range(300):
        lines.append(f"c{c},tea,{c % 17}.5")
        if c % 3 == 0:
            lines += [f"c{c},rice,3", f"c{c},rice,4"]
    (folder / "orders.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "items.csv").write_text("name,code\ntea,1\nrice,2\nsalt,3\n", encoding="utf-8")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    sd.Ledger.create(
        folder / "budget.db",
        account="shop",
        budget=sd.Budget(epsilon=epsilon, **budget),
        adjacency="add-remove",
        unit="customer",
        source=folder / "orders.csv",
    )
    return folder / "study.toml"


def open_account(folder: Path) -> sd.Ledger:
    return sd.Ledger.open(folder / "budget.db", account="shop")


def spent(folder: Path) -> Fraction:
    """Return what was spent; the history agrees with it."""
    ledger = open_account(folder)
    ledger.verify().raise_if_broken()
    return ledger.statement().spent
