"""Questions of one batch read a source once, and are answered what they would be answered alone."""

from __future__ import annotations

import threading
from contextlib import closing
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.columns.bucket_sums import SumSteps
from sordino.questions import number_question, prepare_counts, prepare_numbers
from sordino.sources import open_source, shared
from sordino.sources.engine import Engine, Marking
from sordino.sources.open import share_readings
from sordino.sources.shared import Readings
from sordino.sources.validation import QueryValidation
from support.number_states import state

SALT = bytes(range(16))
ROWS, UNIT = sd.PrivacyUnit.row(), sd.PrivacyUnit("customer", max_rows=2)
DOMAIN = ["tea", "rice", "salt", 'a "b", c']
GRID = sd.BucketGrid.geometric(lower=0, cap=1000, growth=2)
LADDER = SumSteps.within(GRID, Fraction(0), Fraction(1000), signed=False)
RANGE = [StepRange(low=0, high=40, step=Fraction(1, 2))]


@pytest.fixture
def tables(tmp_path):
    """The same table as CSV, JSON lines, Parquet and a frame; in the text files with lines that are dropped."""
    n = 400
    frame = pl.DataFrame(
        {
            "customer": [None if i % 31 == 0 else f"c{i % 90}" for i in range(n)],
            "product": [DOMAIN[i % 3] if i % 11 else 'a "b", c' for i in range(n)],
            "price": [None if i % 17 == 0 else (i * 7) % 60 + 0.5 for i in range(n)],
            "pieces": [None if i % 13 == 0 else i * i % 11 for i in range(n)],
            "day": [f"2026-11-{i % 28 + 1:02}" for i in range(n)],
        }
    )
    frame.write_csv(tmp_path / "t.csv", quote_style="necessary")
    with (tmp_path / "t.csv").open("a", encoding="utf-8") as file:
        file.write('c1,"tea,3\n\n')
    frame.write_ndjson(tmp_path / "t.jsonl")
    frame.write_parquet(tmp_path / "t.parquet")
    types = {"price": "double", "pieces": "integer", "day": "date"}
    return {
        "csv": open_source(str(tmp_path / "t.csv"), csv=sd.CsvFormat(types=types)),
        "texts": open_source(str(tmp_path / "t.csv")),
        "jsonl": open_source(
            str(tmp_path / "t.jsonl"),
            csv=sd.CsvFormat(types={"customer": "text", "product": "text", **types}),
        ),
        "parquet": open_source(str(tmp_path / "t.parquet")),
        "frame": open_source(frame),
    }


def ask_all(source):
    """Ask questions of every kind; return their answers."""
    counts = [
        prepare_counts(source, unit, kind=kind, item=item, domain=domain, where=where, salt=SALT)
        for unit in (ROWS, UNIT)
        for kind, item, domain in (
            ("rows", None, None),
            ("units", None, None),
            ("items", "product", DOMAIN),
        )
        for where in (None, "product <> 'rice'")
    ]
    counts.append(prepare_counts(source, UNIT, kind="items", item="product", domain=sd.Domain.assume_public(), salt=SALT))  # fmt: skip
    counts.append(prepare_counts(source, UNIT, kind="items", item="product", domain=sd.Domain.unlisted(delta=1e-6), salt=SALT))  # fmt: skip
    numbers = [
        (
            prepare_numbers(
                source, unit, column="price", grid=GRID, salt=SALT, squares=True, **more
            ),
            more,
        )
        for unit in (ROWS, UNIT)
        for more in (
            {},
            {"where": "product = 'tea'"},
            {
                "by": "product",
                "domain": DOMAIN,
                **({} if unit is ROWS else {"groups_per_unit": 1}),
            },
        )
    ]
    found = []
    for question in counts:
        answer = question.run()
        places = None if answer.positions is None else answer.positions.tolist()
        found.append((answer.values.tolist(), tuple(answer.labels), places))
    for question, more in numbers:
        counted = question.count()
        found.append(
            ([one.counts.tolist() for one in counted.buckets], counted.known, counted.missing)
        )
        ranges = RANGE * max(1, len(question.groups))
        found += [question.totals(ranges), question.square_totals(ranges)]
        added = prepare_numbers(
            source, question.unit, column="price", grid=GRID, salt=SALT, ladder=LADDER, **more
        )
        found.append(state(added.sums()))
    return found


@pytest.mark.parametrize("kind", ["csv", "texts", "jsonl", "parquet", "frame"])
@pytest.mark.slow
def test_answers_are_those_of_questions_alone(tables, kind):
    source = tables[kind]
    alone = ask_all(source)
    together, readings = share_readings(source)
    try:
        assert ask_all(together) == alone
        # Once more: what was answered is not asked again, and is not changed by whoever got it.
        assert ask_all(together) == alone
    finally:
        readings.close()
    if source.texts:
        assert readings.opened == 1


def ask_of_columns(source):
    """Ask about two columns of the same rows, and of fewer rows; as in a batch all is prepared before."""
    questions = [
        prepare_numbers(source, UNIT, column=column, grid=GRID, salt=SALT, squares=True, **more)
        for more in ({}, {"where": "product = 'tea'"}, {"where": "product <> 'tea'"})
        for column in ("price", "pieces")
        if more.get("where") != "product <> 'tea'" or column == "price"
    ]
    return [(state_of(question.run()), question.square_totals(RANGE)) for question in questions]


def state_of(buckets):
    return [one.counts.tolist() for one in buckets]


@pytest.mark.parametrize("kind", ["csv", "texts", "jsonl"])
@pytest.mark.slow
def test_columns_of_the_same_rows_are_chosen_together_as_each_alone(tables, kind, monkeypatch):
    source, chosen = tables[kind], []
    alone = ask_of_columns(source)
    keep = Engine.keep
    monkeypatch.setattr(
        Engine, "keep", lambda self, name, *more: chosen.append(name) or keep(self, name, *more)
    )
    together, readings = share_readings(source)
    with closing(readings):
        assert ask_of_columns(together) == alone
    # Whose rows are crowded is found once for two columns. Other rows are chosen by themselves.
    both = ["kept", "crowded", "marked", "chosen_x0", "chosen_x1"]
    assert chosen == [*both, *both, "chosen"]


def test_columns_that_are_marked_by_other_rows_are_convicted(tables, monkeypatch):
    """Broken twin: whatever rows two questions are about, they are taken for the same."""

    def ask(source):
        asked = [("price", None), ("pieces", "product = 'tea'")]
        questions = [
            prepare_numbers(source, UNIT, column=column, grid=GRID, salt=SALT, where=where)
            for column, where in asked
        ]
        return [state_of(question.run()) for question in questions]

    def ask_together():
        together, readings = share_readings(tables["csv"])
        with closing(readings):
            return ask(together)

    alone, mark = ask(tables["csv"]), number_question._mark_together
    assert ask_together() == alone
    monkeypatch.setattr(
        number_question, "_mark_together", lambda *given: mark(*given)._replace(key="all")
    )
    assert ask_together() != alone


def test_a_marking_that_cannot_be_planned_is_refused_before_the_charge(tables):
    marking = Marking("nothing", "key", lambda numbers: [("marked", f"SELECT {numbers[0]} AS x0 FROM rows")], lambda name: f"SELECT {name} FROM marked")  # fmt: skip
    together, readings = share_readings(tables["csv"])
    with closing(readings), pytest.raises(sd.DataSourceError):
        together.rehearse([0], [], marking)


@pytest.mark.slow
def test_a_reading_that_forgets_a_column_is_convicted(tables, monkeypatch):
    """Broken twin: it hands on the columns in another order."""
    relation = shared._SpooledRows.relation

    def turned(self, engine, indices):
        return relation(self, engine, indices) if len(indices) < 2 else _turn(self, engine, indices)

    def _turn(self, engine, indices):
        columns = [f"c{index}" for index in indices]
        engine.lend_from(self.spool, f"SELECT {', '.join(columns)} FROM {self.table}")
        named = zip(columns, reversed(columns), strict=True)
        return f"SELECT {', '.join(f'{one} AS {other}' for one, other in named)} FROM lent"

    alone = ask_all(tables["texts"])
    together, readings = share_readings(tables["texts"])
    monkeypatch.setattr(shared._SpooledRows, "relation", turned)
    with closing(readings):
        try:
            found = ask_all(together)
        # One column may not be what the other is.
        except sd.DataSourceError:
            found = None
    assert found != alone


def test_a_batch_reads_a_text_file_once(tables, tmp_path, monkeypatch):
    seen = []
    fill = Readings._fill

    def noted(self, *given):
        engine = fill(self, *given)
        seen.append(self)
        return engine

    monkeypatch.setattr(Readings, "_fill", noted)
    with sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1)) as session:
        with session.batch():
            units = session.count_distinct_units(epsilon=1)
            again = session.count_distinct_units(epsilon=1)
            session.sum("price", epsilon=1, lower=0, cap=100)
            session.histogram("product", epsilon=1, domain=DOMAIN)
        [readings] = set(seen)
        assert readings.opened == 1
        # The second count asked nothing, and has noise of its own; the sum asked once.
        assert len(seen) == 3
        assert units.estimate != again.estimate
        seen.clear()
        session.count_distinct_units(epsilon=1)
    assert not seen


def test_what_is_shared_is_dropped_at_the_end_also_after_an_error(tables, tmp_path, monkeypatch):
    closed = []
    close = Readings.close
    monkeypatch.setattr(Readings, "close", lambda self: closed.append(1) or close(self))
    session = sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1))
    with session.batch():
        session.count_distinct_units(epsilon=1)
    assert closed == [1]

    def ask_of_nothing():
        with session.batch():
            session.count_distinct_units(epsilon=1)
            (tmp_path / "t.csv").unlink()

    with pytest.raises(sd.DataSourceError):
        ask_of_nothing()
    assert closed == [1, 1]


def test_releases_of_a_batch_choose_the_same_rows_of_a_unit_and_others_do_not(tables, tmp_path):
    session = sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1))
    executor = session._executor
    with executor.open_batch() as batch, executor.open_batch() as other:
        assert batch.salt() == batch.salt() != other.salt()
    assert executor.salt() != executor.salt()


def test_an_answer_is_kept_only_if_it_is_asked_twice():
    readings = Readings(spools=True)
    once, twice = "SELECT count(c0) AS n FROM rows", "SELECT count(*) AS n FROM rows"
    readings.rehearse({0: "VARCHAR"}, [(once, None), (twice, None), (twice, ("",))])
    for question in (once, twice):
        readings.remember(question, None, {"n": np.array([3])})
    assert readings.recall(once, None) is None
    assert readings.recall(twice, ("other",)) is None
    found = readings.recall(twice, None)
    found["n"][0] = 4
    assert readings.recall(twice, None)["n"].tolist() == [3]
    readings.close()
    assert readings.recall(twice, None) is None


def test_an_error_of_the_caller_while_rows_are_taken_in_ends_the_batch(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("customer,price\n" + "c1,3\n" * 400_000, encoding="utf-8")
    monkeypatch.setattr("sordino.sources.engine.POLL", 0.001)
    session = sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1))
    seen = []

    def stop(percent):
        seen.append(percent)
        raise ZeroDivisionError

    def ask():
        with session.batch():
            session.count_distinct_units(epsilon=1, progress=stop)
            session.sum("price", epsilon=1, lower=0, cap=10)

    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        ask()
    assert len(seen) == 1
    # A thread of another library may have ended meanwhile.
    assert set(threading.enumerate()) <= before
    # The session goes on.
    assert session.count_distinct_units(epsilon=1).simulated


def test_progress_goes_up_while_rows_are_taken_in(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("customer,price\n" + "c1,3\n" * 400_000, encoding="utf-8")
    monkeypatch.setattr("sordino.sources.engine.POLL", 0.001)
    session, seen = sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1)), []
    with session.batch():
        session.count_distinct_units(epsilon=1, progress=seen.append)
        session.count_distinct_units(epsilon=1)
    assert seen[-1] == 100
    assert any(0 < percent < 100 for percent in seen)


def test_the_same_question_is_rehearsed_once(tables, monkeypatch):
    seen = []
    whole = QueryValidation.ask

    def ask(self, columns, asked):
        seen.append(len(asked))
        whole(self, columns, asked)

    monkeypatch.setattr(QueryValidation, "ask", ask)
    together, readings = share_readings(tables["csv"])
    with closing(readings):
        for unit in (ROWS, ROWS, UNIT):
            prepare_counts(together, unit, kind="units")
        assert seen == [1, 1]
        # A question that no engine can plan is refused each time.
        for _ in range(2):
            with pytest.raises(sd.DataSourceError):
                together.rehearse([0], [("SELECT nothing FROM rows", None)])


def test_a_batch_that_ends_before_its_charge_leaves_nothing_open(tmp_path):
    (tmp_path / "t.csv").write_text("customer,price\nc1,3\n", encoding="utf-8")
    session, before = (
        sd.Session(tmp_path / "t.csv", unit=UNIT, entropy=sd.Seeded(1)),
        set(threading.enumerate()),
    )

    def ask():
        with session.batch():
            session.count_distinct_units(epsilon=1)
            # What was asked was rehearsed in a thread of its own.
            assert set(threading.enumerate()) > before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        ask()
    # While the error, and so the frame of the block, is still there.
    assert caught.value.__traceback__ is not None
    assert set(threading.enumerate()) == before
