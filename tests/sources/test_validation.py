"""One engine is kept for the questions that are asked before a charge: it serves many, and hands nothing on from one to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import duckdb
import pytest

from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources import validation
from sordino.sources.csv.lines import CsvFormat
from sordino.sources.csv.typed_fields import rehearse_types
from sordino.sources.engine import Engine
from sordino.sources.predicates.predicate import parse
from sordino.sources.predicates.spark_condition import write_condition
from sordino.sources.validation import QueryValidation, lend_engine

COLUMNS = {0: "INTEGER"}
COUNT = ("SELECT count(*) AS n FROM rows", None)
LISTED = ("SELECT count(*) AS n FROM rows JOIN labels ON label = 'a'", ["a", "b"])
LEFT = ("SELECT label_text.line FROM label_text", None)


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """How many engines were opened, none of which is kept before a test and after it."""
    validation.close_idle()
    made, connect = [], duckdb.connect

    def seen(*given, **named):
        made.append(1)
        return connect(*given, **named)

    monkeypatch.setattr(duckdb, "connect", seen)
    yield made
    validation.close_idle()


def rehearse(*asked):
    with closing(QueryValidation()) as one:
        one.ask(COLUMNS, asked)


def test_many_rehearsals_open_one_engine(opened):
    for _ in range(5):
        rehearse(COUNT, LISTED)
    assert sum(opened) == 1


def test_types_are_asked_of_the_engine_that_is_kept(opened):
    for _ in range(3):
        write_condition(parse("a + 1 > 2.5", {"a": 0}.__getitem__), {0: "BIGINT"})
        rehearse_types(CsvFormat(types={"a": "DOUBLE"}))
        rehearse(COUNT)
    assert sum(opened) == 1


def test_an_engine_that_was_lent_to_somebody_who_failed_is_not_kept(opened):
    with pytest.raises(InvalidParameter):
        write_condition(parse("a > 2", {"a": 0}.__getitem__), {0: "HUGEINT"})
    with pytest.raises(KeyboardInterrupt), lend_engine():
        raise KeyboardInterrupt
    assert validation._idle == []
    assert sum(opened) == 2


def test_no_label_is_handed_on():
    rehearse(LISTED)
    with pytest.raises(DataSourceError):
        rehearse(LEFT)


def test_an_engine_that_forgets_nothing_is_convicted(monkeypatch):
    monkeypatch.setattr(Engine, "forget_labels", lambda _: None)
    with pytest.raises(pytest.fail.Exception):
        test_no_label_is_handed_on()


def test_types_are_those_of_the_question():
    rehearse(("SELECT c0 + 1 AS n FROM rows", None))
    with closing(QueryValidation()) as one, pytest.raises(DataSourceError):
        one.ask({0: "BLOB"}, [("SELECT c0 + 1 AS n FROM rows", None)])
    rehearse(("SELECT c0 + 1 AS n FROM rows", None))


def test_an_engine_whose_question_failed_is_not_kept(opened):
    for _ in range(2):
        with pytest.raises(DataSourceError):
            rehearse(("SELECT nothing FROM rows", None))
    assert sum(opened) == 2


def test_an_engine_whose_question_was_interrupted_is_not_kept(opened, monkeypatch):
    ask = Engine.ask

    def interrupted(*given):
        ask(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rehearse(COUNT)
    monkeypatch.undo()
    assert validation._idle == []
    assert sum(opened) == 1


def test_rehearsals_at_once_have_engines_of_their_own_and_one_is_kept():
    with closing(QueryValidation()) as one, closing(QueryValidation()) as other:
        assert one._stage is not other._stage
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: rehearse(COUNT, LISTED), range(40)))
    assert len(validation._idle) == 1


def test_a_fork_gets_none_and_opens_its_own():
    rehearse(COUNT)
    process = os.fork()
    if process == 0:
        kept = len(validation._idle)
        rehearse(COUNT)
        # As a program ends, and not as `_exit` does: an engine of the parent would be waited for, forever.
        validation.close_idle()
        os._exit(kept)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    rehearse(COUNT)


def test_a_program_ends_without_a_folder_left(tmp_path):
    code = (
        "from contextlib import closing\n"
        "from sordino.sources.validation import QueryValidation\n"
        "with closing(QueryValidation()) as one: one.ask({}, [('SELECT count(*) AS n FROM rows', None)])\n"
        "import os\n"
        "assert os.listdir(os.environ['TMPDIR']) == []\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        check=True,
        capture_output=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    # A warning on the way out would change no exit code.
    assert done.stderr == b""
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_was_sent_many_labels_is_not_kept(opened):
    labels = [str(n) for n in range(validation._MANY_LABELS + 1)]
    rehearse(COUNT)
    rehearse(COUNT, ("SELECT count(*) AS n FROM rows JOIN labels ON label = 'a'", labels))
    rehearse(COUNT)
    assert sum(opened) == 2


def test_an_earlier_failure_is_not_forgotten(opened):
    with closing(QueryValidation()) as one:
        with pytest.raises(DataSourceError):
            one.ask(COLUMNS, [("SELECT nothing FROM rows", None)])
        one.ask(COLUMNS, [COUNT])
    assert validation._idle == []


def test_no_folder_for_rows_is_said_before_the_charge(tmp_path, monkeypatch):
    rehearse(COUNT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        QueryValidation()


def test_an_engine_of_another_process_is_neither_used_nor_closed(opened, monkeypatch):
    """Whoever forks outside of Python tells nobody."""
    rehearse(COUNT)
    [stage] = validation._idle
    held = []
    python = SimpleNamespace(
        pythonapi=SimpleNamespace(Py_IncRef=held.append), py_object=lambda one: one
    )
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(type(stage), "is_here", lambda self: self is not stage)
        elsewhere.setattr(validation, "ctypes", python)
        rehearse(COUNT)
        assert sum(opened) == 2
        assert validation._idle != [stage]
    assert held == [stage.engine.connection], "it is held for as long as the process lives"
    assert stage.engine.connection.execute("SELECT 1").fetchall() == [(1,)], "it was closed"
    stage.close()
