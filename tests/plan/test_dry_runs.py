"""Plans of a session: the release up to its charge, nothing read, nothing charged, and nothing of the rows in them."""

from __future__ import annotations

import contextlib
import json
import os
import threading

import narwhals as nw
import polars as pl
import psycopg
import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import DataSourceError, SordinoError
from sordino.session.plans import planner
from sordino.session.plans.assumed import Assumption
from sordino.session.plans.dry_run import PublicRows
from sordino.sources.postgres import PostgresBackend
from sordino.sources.source import ReaderBackend
from support.postgres import database
from support.tables import KINDS, made

ITEMS = ["rice", "salt", "tea"]
COLUMN = {"lower": 0, "cap": 1000}
ASKS = {
    "top_k": ("item", {"k": 2, "epsilon": 1, "domain": ITEMS}),
    "top_k with a threshold": ("item", {"k": 2, "epsilon": 1, "domain": ITEMS, "threshold": 9}),
    "top_set": ("item", {"k": 2, "epsilon": 1, "domain": ITEMS}),
    "top_k of a range": ("x", {"k": 2, "epsilon": 1, "domain": sd.Domain.range(0, 1000)}),
    "top_k of unlisted labels": (
        "item",
        {"k": 2, "epsilon": 1, "domain": sd.Domain.unlisted(delta=1e-6)},
    ),
    "top_k of assumed labels": (
        "item",
        {"k": 2, "epsilon": 1, "domain": sd.Domain.assume_public()},
    ),
    "above": ("item", {"threshold": 14, "positives": 1, "epsilon": 1, "domain": ITEMS}),
    "above, measured": (
        "item",
        {"threshold": 50, "positives": 1, "epsilon": 1, "domain": ITEMS, "measure_share": 0.5},
    ),
    "histogram": ("item", {"epsilon": 1, "domain": ITEMS}),
    "histogram of unlisted labels": (
        "item",
        {"epsilon": 1, "domain": sd.Domain.unlisted(delta=1e-6)},
    ),
    "histogram of assumed labels": ("item", {"epsilon": 1, "domain": sd.Domain.assume_public()}),
    "histogram within bounds": ("item", {"epsilon": 1, "domain": ITEMS, "bounds": (0, 90)}),
    "count": (None, {"epsilon": 1, "where": "item = 'tea'"}),
    "count_distinct_units": (None, {"epsilon": 1}),
    "quantile": ("x", {"q": 0.5, "epsilon": 1, **COLUMN}),
    "quantile, several": ("x", {"q": [0.1, 0.9], "epsilon": 1, **COLUMN, "interval_share": None}),
    "sum": ("x", {"epsilon": 1, **COLUMN}),
    "sum of groups": (
        "x",
        {"epsilon": 1, **COLUMN, "by": "item", "domain": ITEMS, "groups_per_unit": 1},
    ),
    "sum of unlisted groups": (
        "x",
        {
            "epsilon": 1,
            **COLUMN,
            "by": "item",
            "domain": sd.Domain.unlisted(delta=1e-6),
            "groups_per_unit": 1,
            "most_groups": 4,
        },
    ),
    "sum within bounds": ("x", {"epsilon": 1, **COLUMN, "bounds": (0, 90000)}),
    "mean": ("x", {"epsilon": 1, **COLUMN}),
    "variance": ("x", {"epsilon": 1, **COLUMN}),
    "randomize": ("x", {"epsilon": 1, "lower": 0, "upper": 9}),
}
UNIT = sd.PrivacyUnit("u", max_rows=1)


def rows(more=0):
    """Return a table; another number makes other rows of the same types."""
    users = [f"u{place}" for place in range(40 + 9 * more)]
    return pa.table(
        {
            "u": users,
            "item": [ITEMS[(place * (more + 1)) % 3] for place in range(len(users))],
            "x": pa.array([float(place % (7 + more)) for place in range(len(users))]),
        }
    )


def plan(session, ask, **more):
    """Ask a session for the plan of one of `ASKS`."""
    name, (first, asked) = ask.partition(",")[0].split(" ")[0], ASKS[ask]
    given = () if first is None else (first,)
    return getattr(session.plan, name)(*given, **asked, runs=3, **more)


def session_of(ask, source, **more):
    unit = sd.PrivacyUnit("u", max_rows=1, adjacency="replace-one") if ask == "randomize" else UNIT
    return sd.Session(source, unit=unit, ledger=None, **more)


def written(made_plan):
    """Return all that a plan says, as text."""
    return (
        json.dumps(made_plan.to_dict(), sort_keys=True) + str(made_plan) + made_plan._repr_html_()
    )


def is_refused(ask, kind):
    """Tell whether a kind of source has no such release: what is refused is refused with either rows."""
    return ask == "randomize" and kind in {"relation", "lazy"}


@pytest.mark.parametrize(
    ("ask", "kind"), [(ask, kind) for ask in ASKS for kind in KINDS if not is_refused(ask, kind)]
)
@pytest.mark.sample(45)
def test_a_plan_is_the_same_for_other_rows(ask, kind, tmp_path):
    said = [
        written(plan(session_of(ask, made(tmp_path, kind, rows(more), name=f"t{more}")), ask))
        for more in (0, 1)
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("ask", ["above", "quantile", "sum of groups"])
@pytest.mark.sample(2)
def test_a_plan_that_looks_at_rows_is_seen(ask, tmp_path, monkeypatch):
    """The broken twin: what is assumed are the private rows."""
    monkeypatch.setattr(
        planner.Planner,
        "_assume",
        lambda self, *_: Assumption((PublicRows("these", self._executor.source),), "these"),
    )
    said = [
        written(plan(session_of(ask, made(tmp_path, "arrow", rows(more))), ask)) for more in (0, 1)
    ]
    assert said[0] != said[1]


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.sample(2)
def test_no_row_is_read(ask, tmp_path, monkeypatch):
    source = made(tmp_path, "parquet", rows())
    session = session_of(ask, source)

    def scan(*_given, **_more):
        raise AssertionError("a row was asked for")

    monkeypatch.setattr(ReaderBackend, "scan", scan)
    # Whatever would read a row now fails: of reports, too, which do not go by `scan`.
    source.write_bytes(b"no table any more")
    assert plan(session, ask).cost is not None


def test_a_release_of_the_same_would_have_read(tmp_path):
    source = made(tmp_path, "parquet", rows())
    session = session_of("randomize", source)
    source.write_bytes(b"no table any more")
    with pytest.raises(DataSourceError):
        session.randomize("x", epsilon=1, lower=0, upper=9)


def test_the_file_is_not_even_opened(tmp_path):
    """Whoever opens a pipe that nobody writes waits for ever."""
    path = made(tmp_path, "csv", rows())
    session = session_of("top_k", path)
    path.unlink()
    os.mkfifo(path)
    seen = []
    asked = threading.Thread(
        target=lambda: seen.extend(plan(session, ask) for ask in ("top_k", "quantile", "above")),
        daemon=True,
    )
    asked.start()
    asked.join(30)
    # Lets a plan go on that has opened it.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    assert len(seen) == 3


def test_a_server_is_asked_for_no_row(monkeypatch):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS public.planned, public.planned_too")
        said = []
        for name, more in (("public.planned", 0), ("public.planned_too", 1)):
            connection.execute(f"CREATE TABLE {name} (u text, item text, x double precision)")
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {name} VALUES (%s, %s, %s)",
                    list(zip(*rows(more).to_pydict().values(), strict=True)),
                )
            session = session_of("top_k", f"{database()}#{name}")
            monkeypatch.setattr(
                PostgresBackend, "scan", lambda *_: pytest.fail("a row was asked for")
            )
            said.append(
                [written(plan(session, ask)) for ask in ("top_k", "quantile", "sum of groups")]
            )
        assert said[0] == said[1]
        connection.execute("DROP TABLE public.planned, public.planned_too")


# ---- the account -------------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path):
    def make(**budget):
        about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:shop"}
        return sd.Ledger.create(
            tmp_path / "budget.db", account="shop", budget=sd.Budget(**budget), **about
        )

    return make


@pytest.mark.parametrize("ask", [one for one in ASKS if one != "randomize"])
@pytest.mark.sample(3)
def test_nothing_is_charged_and_nothing_recorded(ask, account):
    ledger = account(epsilon=3, delta=1e-3, failures=5e-4)
    session = sd.Session(rows(), unit=UNIT, ledger=ledger, name="shop")
    before = list(ledger.export())
    seen = plan(session, ask)
    assert list(ledger.export()) == before
    assert seen.account.account == "shop"


def test_what_would_be_left_is_what_is_left(account):
    ledger = account(epsilon=3)
    session = sd.Session(rows(), unit=UNIT, ledger=ledger, name="shop")
    planned = session.plan.histogram("item", epsilon=0.75, domain=ITEMS)
    assert (planned.account.remaining, planned.account.more) == (3, 3)
    released = session.histogram("item", epsilon=0.75, domain=ITEMS)
    assert ledger.remaining == planned.account.left
    assert planned.cost == released.cost
    assert {row.high - row.low for row in released} == {planned.rows[0].widest}
    for _ in range(planned.account.more):
        session.histogram("item", epsilon=0.75, domain=ITEMS)
    with pytest.raises(sd.BudgetExceeded):
        session.histogram("item", epsilon=0.75, domain=ITEMS)


REFUSED = {
    "more than there are": lambda s: s.top_k("item", k=9, epsilon=1, domain=ITEMS),
    "no such column": lambda s: s.histogram("itme", epsilon=1, domain=ITEMS),
    "no domain": lambda s: s.histogram("item", epsilon=1, domain=None),
    "no number": lambda s: s.sum("item", epsilon=1, lower=0, cap=9),
    "a predicate that is none": lambda s: s.count(epsilon=1, where="item >"),
    "no budget": lambda s: s.count(epsilon=0),
    "too much": lambda s: s.count(epsilon=4),
    "no account with a delta": lambda s: s.histogram(
        "item", epsilon=1, domain=sd.Domain.unlisted(delta=1e-6)
    ),
    "replaced units": lambda s: s.randomize("x", epsilon=1, lower=0, upper=9),
    "bounds too close": lambda s: s.sum("x", epsilon=1, lower=0, cap=9, bounds=(0, 1)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_plan_refuses_what_its_release_refuses_in_the_same_words(what, account):
    session = sd.Session(
        made(None, "polars", rows()), unit=UNIT, ledger=account(epsilon=3), name="shop"
    )
    said = []
    for who in (session, session.plan):
        with pytest.raises(SordinoError) as refused:
            REFUSED[what](who)
        said.append((type(refused.value), str(refused.value)))
    assert said[0] == said[1]


def test_a_plan_in_a_batch_comes_behind_what_stands_there(account):
    session = sd.Session(rows(), unit=UNIT, ledger=account(epsilon=3), name="shop")
    with session.batch():
        session.count(epsilon=2)
        assert session.plan.count(epsilon=1).account.left == 0
        with pytest.raises(sd.BudgetExceeded):
            session.plan.count(epsilon=1.5)


def test_a_plan_takes_no_chance_from_releases():
    def release(look):
        session = sd.Session(rows(), unit=UNIT, entropy=sd.Seeded(5))
        if look:
            session.plan.top_k("item", k=2, epsilon=1, domain=ITEMS)
            session.plan.quantile("x", q=0.5, epsilon=1, **COLUMN)
        return session.top_k("item", k=2, epsilon=1, domain=ITEMS).to_dict()

    assert release(look=True) == release(look=False)


def test_a_plan_again_is_the_same():
    session = session_of("top_k", rows())
    for ask in ("top_set", "above, measured", "histogram of unlisted labels", "variance"):
        assert written(plan(session, ask)) == written(plan(session, ask))


def test_a_write_of_the_caller_is_not_called():
    session = session_of("randomize", rows())
    seen = session.plan.randomize(
        "x", epsilon=1, lower=0, upper=9, write=lambda _: pytest.fail("called")
    )
    released = session.randomize("x", epsilon=1, lower=0, upper=9)
    assert seen.rows[0].standard_error == released.standard_error


# ---- what is assumed ---------------------------------------------------------------------------------------


def private_twins(tmp_path):
    """Yield private sources, each with another name of it or of a part of it."""
    frame = pl.from_arrow(rows())
    yield frame, frame
    yield frame, nw.from_native(frame)
    table = rows()
    yield table, table
    path = made(tmp_path, "parquet", rows())
    yield path, str(path)
    (tmp_path / "link.parquet").symlink_to(path)
    yield path, tmp_path / "link.parquet"
    os.link(path, tmp_path / "hard.parquet")
    yield path, tmp_path / "hard.parquet"
    yield str(tmp_path / "t.par*"), path
    address = made(tmp_path, "duckdb", rows())
    yield address, address
    yield address, address.replace("#t", "#T")


def test_the_private_source_is_no_synthetic_one(tmp_path):
    for private, other in private_twins(tmp_path):
        session = session_of("top_k", private)
        with pytest.raises(sd.InvalidParameter, match="must be synthetic or public"):
            session.plan.top_k("item", k=1, epsilon=1, domain=ITEMS, like=other)


@pytest.mark.slow
def test_another_table_is_public_if_somebody_says_so(tmp_path):
    path = made(tmp_path, "parquet", rows(1), name="public")
    session = session_of("top_k", rows())
    seen = session.plan.top_k("item", k=1, epsilon=1, domain=ITEMS, like=path)
    assert "taken as public" in seen.assumed
    one = session.plan.sum("x", epsilon=1, **COLUMN, like=path)
    assert one.rows[0].typical > 0


@pytest.mark.parametrize(
    "like",
    [
        "zipf",
        "zipf:-1",
        "zipf:0",
        "geometric:1",
        "steps:",
        "steps:1x",
        "steps:x3",
        "falt",
        "normal:3,0",
        "flat:1",
    ],
)
def test_a_shape_that_is_none_is_refused(like):
    session = session_of("top_k", rows())
    with pytest.raises(sd.InvalidParameter, match="like must be"):
        session.plan.top_k("item", k=1, epsilon=1, domain=ITEMS, like=like)


def test_a_shape_of_columns_says_nothing_of_labels():
    session = session_of("top_k", rows())
    with pytest.raises(sd.InvalidParameter, match="which is about the numbers of a column"):
        session.plan.top_k("item", k=1, epsilon=1, domain=ITEMS, like="normal:3,1")


@pytest.mark.parametrize(
    ("name", "value"), [("rows", 0), ("rows", 10**8), ("rows", "9"), ("runs", 0)]
)
def test_numbers_of_a_plan_are_checked(name, value):
    session = session_of("top_k", rows())
    with pytest.raises(sd.InvalidParameter, match=f"top_k.{name} must be"):
        session.plan.top_k("item", k=1, epsilon=1, domain=ITEMS, **{name: value})


def test_how_many_labels_are_assumed_is_said():
    session = session_of("histogram of assumed labels", rows())
    assert "1,000 labels" in plan(session, "histogram of assumed labels").assumed


def test_a_plan_becomes_a_frame():
    seen = session_of("quantile", rows()).plan.quantile("x", q=[0.1, 0.9], epsilon=1, **COLUMN)
    assert seen.to_polars().columns[:3] == ["figure", "like", "narrowest"]
    assert seen.to_arrow().num_rows == len(seen) == 4
    assert "Nothing was read" in seen._repr_html_()
