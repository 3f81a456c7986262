"""How far a query of Spark is: it is said to the one who asked, and to nobody else; and whatever stops the wait stops the query."""

from __future__ import annotations

import threading
import time

import pytest

from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.spark.progress import Stage, TaskProgress, share_done, watch_query
from support.spark import own_server

TASKS = "SELECT id % 97 AS n FROM range(0, {rows}, 1, 40) WHERE sha2(CAST(id AS STRING), 512) NOT LIKE 'zz%'"
LONG, SHORT = TASKS.format(rows=40_000_000_000), TASKS.format(rows=6_000_000)
# Long enough for the client, which looks now and then, to see some tasks done and others not, however fast the machine.
SOME_SECONDS = TASKS.format(rows=20_000_000)


@pytest.fixture
def own():
    one = own_server().session()
    yield one
    one.stop()


def units(frame):
    return prepare_counts(open_source(frame), PrivacyUnit("n"), kind="units")


def test_progress_goes_up_with_the_tasks(own, capfd):
    seen = []
    assert units(own.sql(SOME_SECONDS)).run(progress=seen.append).values.tolist() == [97]
    assert seen == sorted(seen)
    assert len({percent for percent in seen if 0 < percent < 100}) > 2
    assert seen[-1] == 100
    # No bar of Spark's own, and nothing is left that would hear what else the session asks.
    assert capfd.readouterr() == ("", "")
    assert own.client._progress_handlers == []


def test_another_query_of_the_session_is_not_heard(own):
    seen, ended = [], threading.Event()

    def ask_beside():
        own.sql(SHORT).toArrow()
        ended.set()

    with watch_query(own, "nobody") as measure:
        threading.Thread(target=ask_beside).start()
        while not ended.wait(0.05):
            seen.append(measure())
        assert set(seen) == {0.0}
        own.sql(SHORT).toArrow()
        assert measure() > 0


def test_handlers_of_the_owner_stay_and_may_go(own):
    heard = []
    own.registerProgressHandler(lambda **known: heard.append(known))
    with watch_query(own, "nobody"):
        own.clearProgressHandlers()
    own.registerProgressHandler(lambda **known: heard.append(known))
    units(own.sql(SHORT)).run()
    assert heard
    assert len(own.client._progress_handlers) == 1


class Enough(Exception):
    pass


def test_an_error_of_the_one_who_watches_stops_the_query(own):
    """The query would take hours; nothing of it runs on when the error arrives."""

    def stop(percent):
        if time.monotonic() - started > 3:
            raise Enough

    started = time.monotonic()
    with pytest.raises(Enough):
        units(own.sql(LONG)).run(progress=stop)
    assert time.monotonic() - started < 30
    assert own.interruptAll() == []


def test_a_query_that_nobody_stops_runs_on(own):
    """The twin: what `interruptAll` says of a query that runs."""
    from pyspark.errors import PySparkException

    def ask():
        with pytest.raises(PySparkException):
            own.sql(LONG).toArrow()

    asking = threading.Thread(target=ask)
    asking.start()
    give_up, found = time.monotonic() + 30, []
    while not found and time.monotonic() < give_up:
        time.sleep(0.5)
        found = own.interruptAll()
    asking.join()
    assert len(found) == 1


def test_more_stages_do_not_turn_it_back():
    known, seen = TaskProgress(), []
    for stages in (
        [],
        [Stage(0, 0)],
        [Stage(4, 0)],
        [Stage(4, 2)],
        [Stage(4, 4)],
        [Stage(4, 4), Stage(100, 0)],
        [Stage(4, 4), Stage(100, 100)],
        [Stage(4, 4), Stage(100, 100), Stage(1, 1)],
    ):
        known.note(stages)
        seen.append(known.percent)
    assert seen[:5] == [0, 0, 0, 25, 50]
    assert seen == sorted(seen)
    assert seen[-1] < 100
    assert share_done([Stage(4, 4), Stage(100, 0)]) < 50
