"""A place for a ledger in each database."""

from __future__ import annotations

import pytest

from ledger.fakes import make
from sordino.ledger.store import postgres, sqlite
from support.postgres import fresh


@pytest.fixture(autouse=True)
def _closed():
    """Leave no connection to the next test."""
    yield
    sqlite.close_all()
    postgres.close_waiting()


@pytest.fixture
def server():
    """Return the address of a database without a ledger."""
    return fresh()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Return where a ledger may be made, once for each database."""
    return str(tmp_path / "budget.db") if request.param == "sqlite" else fresh()


@pytest.fixture
def ledger(place):
    return make(place)
