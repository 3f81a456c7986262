"""What every test run has in common.

Hypothesis runs the same few examples in CI every time; many and new ones are tried on a developer's machine with SORDINO_EXPLORE=1. A
shell starts what it puts in the background with interrupts ignored, and children inherit that: tests that send an interrupt would wait
forever. Where there is no PostgreSQL server or no browser to test with, the first test that needs one ends the run and says what to install.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import zlib

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    max_examples=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dev" if os.environ.get("SORDINO_EXPLORE") else "ci")

# What the tests of both trees use.
pytest_plugins = ["support.commands", "support.no_power_cuts"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does `nohup` with hang-ups, which commands are told to honor.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# By their names: tests that need neither import nothing that knows them.
MISSING = {"NoServer": "PostgreSQL server", "NoBrowser": "browser", "NoSpark": "Spark"}


def pytest_exception_interact(node, call):
    missing = MISSING.get(type(call.excinfo.value).__name__)
    if missing is not None:
        node.session.shouldfail = (
            f"there is no {missing} to test with; the failure above says what to do"
        )


def pytest_addoption(parser):
    parser.addoption(
        "--slow-part",
        metavar="I/N",
        help="of the slow tests only those of part I of N, I from 1 to N: which part a test is in follows from its name",
    )


def pytest_report_header(config):
    part = config.getoption("--slow-part")
    return None if part is None else f"slow tests: part {part}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Collect without looking for garbage, and never look through what was collected.

    Twenty thousand tests are a million objects. Looking through them again and again is half of the work
    of collecting them, and each `gc.collect()` of a test would do it once more.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Libraries that look for leaks at the end would take for one whatever is never looked through.
        atexit.register(gc.unfreeze)


def leave_out_cases(items):
    """Mark as slow what of the families marked `sample(n)` and `each_value` is not in the default run."""
    families = {}
    for item in items:
        for kind in ("sample", "each_value"):
            mark = item.get_closest_marker(kind)
            # What is slow anyhow is not in the default run.
            if mark is not None and item.get_closest_marker("slow") is None:
                families.setdefault((item.path, item.originalname, kind), []).append(item)
    for (_, _, kind), cases in families.items():
        # By name, so that neither the order of the run nor its seed decides which ones.
        cases.sort(key=lambda item: item.name)
        every = cases[0].get_closest_marker(kind).args
        kept = cases[:: every[0]] if every else cover_values(cases)
        for item in set(cases).difference(kept):
            item.add_marker(pytest.mark.slow)


def cover_values(cases):
    """Choose cases so that each value of each parameter is in one of them: always the one with most new values."""
    # Of each `parametrize` the name that it has in the name of the case; pytest tells it nowhere else.
    values = {item: set(enumerate(item.callspec._idlist)) for item in cases}
    missing, kept = set().union(*values.values()), []
    while missing:
        kept.append(max(cases, key=lambda item: len(values[item] & missing)))
        missing -= values[kept[-1]]
    return kept


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out the cases of large families, and the slow tests of other parts.

    All slow tests together take half an hour. In parts they fit into a run, and as many runs as there are parts run
    all of them.
    """
    leave_out_cases(items)
    part = config.getoption("--slow-part")
    if part is not None:
        place, parts = map(int, part.split("/"))
        left_out = {
            item
            for item in items
            if item.get_closest_marker("slow")
            and zlib.crc32(item.nodeid.encode()) % parts != place % parts
        }
        # In place, because the list is pytest's.
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
