from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from sordino.cli import work
from support.release_lines import paid


@pytest.fixture
def orders(tmp_path):
    """A shop: 300 customers, tea bought by all, rice by a third, salt by one, unlisted labels by some."""
    lines = ["customer,product,price"]
    for c in range(300):
        lines.append(f"c{c},tea,{c % 17}.5")
        if c % 3 == 0:
            lines += [f"c{c},rice,3", f"c{c},rice,4"]
        if c % 7 == 0:
            lines.append(f"c{c},unlisted,1")
    lines.append("c0,salt,1")
    (tmp_path / "orders.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "items.csv").write_text(
        "name,code\ntea,1\nrice,2\nsalt,3\nsaffron,4\n", encoding="utf-8"
    )
    return tmp_path / "orders.csv"


@pytest.fixture
def top(sordino, orders, tmp_path):
    """`sordino top` on the shop, with changes."""
    base = {
        "--item": "product",
        "--user": "customer",
        "-k": 2,
        "--epsilon": 4,
        "--domain": tmp_path / "items.csv",
        "--domain-column": "name",
    }

    def call(*flags, source=None, **changes):
        options = base | {"--" + name.replace("_", "-"): value for name, value in changes.items()}
        if "k" in changes:
            options["-k"] = options.pop("--k")
        listed = [
            part for name, value in options.items() if value is not None for part in (name, value)
        ]
        return sordino("top", source or orders, *paid(*listed, *flags))

    return call


@pytest.fixture
def account(sordino, orders, tmp_path):
    """An account for the shop; returns the options that charge it."""
    url = tmp_path / "budget.db"
    made = sordino(
        "ledger",
        "create",
        "--ledger",
        url,
        "--account",
        "shop",
        "--epsilon",
        10,
        "--unit",
        "customer",
        "--source",
        orders,
    )
    assert made.code == 0
    return ("--ledger", url, "--account", "shop")


@pytest.fixture
def told(sordino, monkeypatch):
    """Run the command with bytes on standard input, handed over in pieces."""

    class Pieces(io.BytesIO):
        size = 1 << 16

        def read1(self, most=-1):
            return super().read1(min(most, self.size) if most > 0 else self.size)

    def call(text, *arguments, size=1 << 16):
        pieces = Pieces(text if isinstance(text, bytes) else text.encode())
        pieces.size = size
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pieces))
        result = sordino(*arguments)
        result.left = len(pieces.read())
        return result

    return call


@pytest.fixture
def no_progress(monkeypatch):
    """Leave the progress bar out: it appears after a second, which a busy machine may need."""
    monkeypatch.setattr(work, "PATIENCE", 1e9)
