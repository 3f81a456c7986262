"""How far a query of Spark is: how many of its tasks are done.

Spark says so to whoever started the query, in other words for each kind of session. What it says
depends on private rows, so it goes to the `progress` of that person and nowhere else, and decides
nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple


class Stage(NamedTuple):
    """How many tasks a stage of a query has, and how many of them are done."""

    tasks: int
    done: int


def share_done(stages: Sequence[Stage]) -> float:
    """Return how much is done of the stages that are known and of one more, in percent.

    Stages become known one after the other. So one more as large as the last one is expected,
    always.
    """
    total = sum(stage.tasks for stage in stages)
    return (
        100.0 * sum(stage.done for stage in stages) / (total + stages[-1].tasks) if total else 0.0
    )


class TaskProgress:
    """How far one query is. It never goes back, though more tasks become known."""

    def __init__(self) -> None:
        self.percent = 0.0

    def note(self, stages: Sequence[Stage]) -> None:
        """Take in what Spark says."""
        self.percent = max(self.percent, min(100.0, share_done(stages)))


@contextmanager
def watch_query(session: Any, tag: str) -> Iterator[Callable[[], float]]:
    """Yield what says how far the query is that this thread asks meanwhile, in percent.

    Parameters
    ----------
    session : object
        A session of either kind.
    tag : str
        Of no other query.
    """
    known = TaskProgress()
    if type(session).__module__.startswith("pyspark.sql.connect"):
        with _hear_client(session, known):
            yield lambda: known.percent
    else:
        with _tag_jobs(session.sparkContext, tag):
            yield lambda: _ask_tracker(session.sparkContext, tag, known)


def stop_query(session: Any, tag: str) -> None:
    """Stop the query of a tag in the cluster."""
    # It may be over already, or the session gone, and what is said of that is for nobody.
    with suppress(Exception):
        session.interruptTag(tag)


@contextmanager
def _hear_client(session: Any, known: TaskProgress) -> Iterator[None]:
    """Hear what the server says while this thread waits for its answer."""
    asking = threading.get_ident()

    def hear(stages: Any, **_more: Any) -> None:
        # A handler hears all queries of the session, each in the thread that asked it.
        if threading.get_ident() == asking:
            known.note([Stage(one.num_tasks, one.num_completed_tasks) for one in stages or ()])

    session.registerProgressHandler(hear)
    try:
        yield
    finally:
        # The owner of the session may have removed all handlers.
        with suppress(ValueError):
            session.removeProgressHandler(hear)


@contextmanager
def _tag_jobs(context: Any, tag: str) -> Iterator[None]:
    """Have the jobs of this thread found by a tag, beside those that its owner gave them."""
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


def _ask_tracker(context: Any, tag: str, known: TaskProgress) -> float:
    """Ask the driver which tasks of the tag are done."""
    # Whatever fails here may have the words of private rows, and would end a release for its bar.
    with suppress(Exception):
        tracker = context.statusTracker()
        # Python knows jobs by their group alone, which belongs to the owner of the session.
        jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001
        infos = [tracker.getJobInfo(job) for job in sorted(jobs)]
        numbers = sorted({number for info in infos if info is not None for number in info.stageIds})
        stages = [tracker.getStageInfo(number) for number in numbers]
        known.note(
            [Stage(one.numTasks, one.numCompletedTasks) for one in stages if one is not None]
        )
    return known.percent
