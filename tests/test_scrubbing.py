"""No error that leaves a session holds a private number anywhere a reporter of local variables could look, whenever it strikes."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import duckdb
import polars as pl
import pytest

import sordino as sd
from ledger.faults import failing
from sordino.entropy import System
from sordino.ledger.store import sqlite
from sordino.sources import open_source
from support.interrupts import interrupted, lines_of
from support.remnants import printed, remnants

SECRET = 1009
"""How many rows, units and records there are, and what each record says; noise is so large that no release is this number."""
ROWS = {
    "user": [f"u{i}" for i in range(SECRET)],
    "item": ["tea"] * SECRET,
    "amount": [4]
    * SECRET,  # a power of two: on every grid their sum has the odd part of the secret
    "told": [SECRET] * SECRET,
}
FEW = {"epsilon": 1e-4, "domain": ["rice", "tea", "salt"]}
COLUMN = {"epsilon": 1e-3, "cap": 1e6}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file: its rows stand nowhere in memory but where a release puts them."""
    found = tmp_path_factory.mktemp("rows") / "x.parquet"
    pl.DataFrame(ROWS).write_parquet(found)
    return found


def watched(session, progress):
    with session.watch(
        threshold=10**6, positives=1, epsilon=1e-4, sensitivity=sd.COUNTING
    ) as stream:
        ask(stream)


def ask(stream):
    """Ask as a caller does who keeps no answer in a variable."""
    stream.ask(len(ROWS["told"]))


def batch(session, progress):
    with session.batch():
        session.count(epsilon=1e-4)
        session.sum("amount", progress=progress, lower=0, **COLUMN)
        session.top_k("item", k=2, progress=progress, **FEW)


KINDS = {
    "top_k": lambda s, p: s.top_k("item", k=2, progress=p, **FEW),
    "top_k, set": lambda s, p: s.top_set("item", k=2, progress=p, **FEW),
    "top_k, threshold": lambda s, p: s.top_k("item", k=2, threshold=5, progress=p, **FEW),
    "above": lambda s, p: s.above(
        "item", threshold=5, positives=2, measure_share=0.5, progress=p, **FEW
    ),
    "histogram": lambda s, p: s.histogram("item", progress=p, **FEW),
    "histogram, bounded": lambda s, p: s.histogram("item", bounds=(0, 10**6), progress=p, **FEW),
    "count": lambda s, p: s.count(epsilon=1e-4, progress=p),
    "count_distinct_units": lambda s, p: s.count_distinct_units(epsilon=1e-4, progress=p),
    "quantile": lambda s, p: s.quantile("amount", q=0.5, lower=0, progress=p, **COLUMN),
    "quantiles": lambda s, p: s.quantile("amount", q=[0.25, 0.75], lower=0, progress=p, **COLUMN),
    "sum": lambda s, p: s.sum("amount", progress=p, lower=0, **COLUMN),
    "sum, by": lambda s, p: s.sum(
        "amount",
        by="item",
        domain=["tea", "rice"],
        groups_per_unit=1,
        progress=p,
        lower=0,
        **COLUMN,
    ),
    # The group is found more often than not, and its noisy count is hardly ever the exact one.
    "sum, found": lambda s, p: s.sum(
        "amount",
        by="item",
        domain=sd.Domain.unlisted(delta=0.3),
        most_groups=2,
        search_share=0.9,
        groups_per_unit=1,
        progress=p,
        lower=0,
        **COLUMN,
    ),
    "sum, bounded": lambda s, p: s.sum("amount", bounds=(0, 10**8), progress=p, lower=0, **COLUMN),
    "mean": lambda s, p: s.mean("amount", progress=p, lower=0, **COLUMN),
    "variance": lambda s, p: s.variance("amount", progress=p, lower=0, **COLUMN),
    "randomize": lambda s, p: s.randomize("told", lower=0, upper=4096, epsilon=0.1, progress=p),
    "randomize, write": lambda s, p: s.randomize(
        "told", lower=0, upper=4096, epsilon=0.1, progress=p, write=lambda block: None
    ),
    "batch": batch,
    "watch": watched,
}
LOCAL = {"randomize", "randomize, write"}
BUDGETS = {"sum, found": sd.Budget(epsilon=9, delta=0.9, failures=0.8)}


def some(names, default):
    """Return parameters of which only some are for the default run."""
    return [
        name if name in default else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]


SEVERAL = some(KINDS, {"top_k", "sum", "randomize", "batch", "watch"})
READING = some([kind for kind in KINDS if kind != "watch"], {"above", "mean", "batch"})


@pytest.fixture
def run(tmp_path, path):
    """Return a function that makes a release of some kind from an account of its own."""
    made = count()

    def use(kind, progress=None):
        adjacency = "replace-one" if kind in LOCAL else "add-remove"
        unit = (
            sd.PrivacyUnit.row(adjacency=adjacency)
            if kind in LOCAL
            else sd.PrivacyUnit("user", max_rows=1)
        )
        file = tmp_path / f"{next(made)}.db"
        names = {"adjacency": adjacency, "unit": unit, "source": str(path)}
        ledger = sd.Ledger.create(
            file, account="a", budget=BUDGETS.get(kind, sd.Budget(epsilon=9)), **names
        )
        use.file = file
        with sd.Session(path, unit=unit, ledger=ledger) as session:
            KINDS[kind](session, progress)

    return use


def leaving(call):
    """Return the error that leaves a call."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001  (whatever leaves is what the test is about)
        return error
    pytest.fail("nothing was raised: the test says nothing")


def clean(error):
    """Fail if the secret can be found from an error."""
    ways = sorted(set(remnants(error, SECRET)))
    assert not ways, ways[:10]
    assert str(SECRET) not in printed(error)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_release_without_a_fault_ends(run, kind):
    run(kind)


POINTS = {
    "draw": "UPDATE charge SET state = 'drawn'",
    "history": "INSERT INTO event",
    "commit": "COMMIT",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", some(POINTS, {"draw"}))
@pytest.mark.sample(4)
def test_a_ledger_that_fails_after_the_reservation(run, monkeypatch, kind, point):
    """The first draw fails at one of its statements, or at its end."""
    drawing = []

    def chosen(sql):
        drawing.append(sql.startswith(POINTS["draw"]))
        return sql.startswith(POINTS[point]) and any(drawing)

    failed = failing(monkeypatch, sqlite3.SQLITE_IOERR, chosen)
    error = leaving(lambda: run(kind))
    assert failed
    assert type(error) is sd.LedgerError
    clean(error)


@pytest.mark.parametrize(
    "kind",
    some([kind for kind in KINDS if kind not in LOCAL | {"watch"}], {"top_k", "sum", "batch"}),
)
@pytest.mark.sample(4)
def test_a_ledger_that_vanishes_while_rows_are_read(run, kind):
    def vanish(percent):
        sqlite.close_all()
        for name in (run.file, f"{run.file}-wal", f"{run.file}-shm"):
            with suppress(FileNotFoundError):
                Path(name).unlink()

    error = leaving(lambda: run(kind, vanish))
    assert isinstance(error, sd.LedgerError)
    clean(error)


class Enough(Exception):
    """What a caller's own function raises."""


@pytest.mark.parametrize("kind", READING)
@pytest.mark.parametrize(
    "kind_of_error", some([Enough, KeyboardInterrupt, SystemExit, OSError], {Enough})
)
def test_an_error_of_the_callers_own_function_is_what_it_was(run, kind, kind_of_error):
    raised = kind_of_error("mine")

    def fail(percent):
        raise raised

    error = leaving(lambda: run(kind, fail))
    assert error is raised
    assert error.args == ("mine",)
    clean(error)


def test_an_error_of_the_callers_writer_is_what_it_was(path):
    raised = BrokenPipeError("mine")

    def write(block):
        raise raised

    session = sd.Session(path, unit=sd.PrivacyUnit.row(adjacency="replace-one"), ledger=None)
    error = leaving(
        lambda: session.randomize("told", lower=0, upper=4096, epsilon=0.1, write=write)
    )
    assert error is raised
    clean(error)


def strike(monkeypatch, at, make):
    """Let the operating system's entropy fail when rows have been read and it is asked for the `at`-th time."""
    words, asked = System.words, count(1)

    def inside():
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_qualname not in {
            "ReleaseExecutor._finish",
            "Stream._answered",
        }:
            frame = frame.f_back
        return frame is not None

    def failing_words(self, n):
        if inside() and next(asked) == at:
            raise make()
        return words(self, n)

    monkeypatch.setattr(System, "words", failing_words)


def struck(run, kind, monkeypatch, make):
    """Yield the errors that leave a release when an error strikes the first or the fourth time that noise is drawn."""
    for at in (1, 4):
        with monkeypatch.context() as patch:
            strike(patch, at, make)
            try:
                run(kind)
            except BaseException as error:  # noqa: BLE001  (whatever leaves is what the test is about)
                yield error


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize(
    "make",
    some([KeyboardInterrupt, lambda: SystemExit(3)], {KeyboardInterrupt}),
    ids=["interrupt", "exit"],
)
@pytest.mark.sample(4)
def test_an_interrupt_inside_a_mechanism_is_what_it_was(run, monkeypatch, kind, make):
    seen = list(struck(run, kind, monkeypatch, make))
    assert seen
    for error in seen:
        assert (type(error), error.args) == (type(make()), make().args)
        clean(error)


def interrupt_at_lines(run, kind, places):
    run(kind)  # what is kept is made
    total, errors = lines_of(lambda: run(kind)), 0
    for at in sorted({1 + total * place // places for place in range(places)}):
        error = interrupted(lambda: run(kind), at)
        if error is not None:
            errors += 1
            clean(error)
    assert errors


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", some(KINDS, {"top_k", "sum"}))
@pytest.mark.sample(4)
def test_an_interrupt_at_some_lines_leaves_no_remnants(run, kind):
    interrupt_at_lines(run, kind, 5)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore"
)  # an interrupt may strike where a folder is removed, or in a function that the engine calls
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_many_lines_leaves_no_remnants(run, kind):
    interrupt_at_lines(run, kind, 25)


DEFECTS = {
    "memory": lambda: MemoryError((SECRET,), "int64"),
    "a defect": lambda: IndexError(f"index {SECRET} is out of bounds"),
    "a defect that keeps an object": lambda: AttributeError("no such name", name="x", obj=[SECRET]),
}


@pytest.mark.parametrize(
    "kind",
    some([kind for kind in KINDS if kind != "watch"], {"top_k", "quantiles", "sum", "batch"}),
)
@pytest.mark.parametrize("name", some(DEFECTS, {"a defect"}))
@pytest.mark.sample(4)
def test_the_words_of_a_defect_after_rows_were_read_are_one_sentence(run, monkeypatch, kind, name):
    seen = list(struck(run, kind, monkeypatch, DEFECTS[name]))
    assert seen
    for error in seen:
        assert (type(error), str(error)) == (sd.DataSourceError, sd.DataSourceError.AFTER_CHARGE)
        clean(error)


def test_rows_that_stand_in_memory_are_not_printed(tmp_path):
    """A frame and a relation print rows when they are printed; refused questions and ledgers that fail print neither."""
    frame = pl.DataFrame(ROWS)
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    unit = sd.PrivacyUnit("user")
    for source in (frame, frame.to_pandas(), frame.to_arrow(), frame.lazy(), relation):
        assert str(SECRET) in repr(
            frame.to_arrow() if isinstance(source, pl.LazyFrame) else source
        ), "or the test says nothing"
        session = sd.Session(source, unit=unit, ledger=None)
        assert str(SECRET) not in repr(session._executor.source.backend)
        for refused in (
            lambda source=source: sd.Session(source, unit="user", ledger=None),
            lambda source=source: sd.Session(source, unit=unit, ledger=None, csv=3),
            lambda source=source: open_source(source, name=7),
            lambda session=session: session.top_k("item", k=0, **FEW),
            lambda session=session: session.top_k("nothing", k=1, **FEW),
            lambda session=session: session.count(epsilon=1, where="told >"),
            lambda session=session: session.quantile("told", q=1.5, lower=0, **COLUMN),
            lambda session=session: session.randomize("told", lower=0, upper=10, epsilon=1),
        ):
            error = leaving(refused)
            assert isinstance(error, sd.SordinoError)
            assert str(SECRET) not in printed(error)
