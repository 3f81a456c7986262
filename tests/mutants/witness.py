"""A plugin of pytest that writes down what the runner has to know: what failed, and why.

An exit code tells a test that failed neither from one that could not be collected nor from a mutant that
cannot be imported. And nothing is proved by a test that ran with the source instead of the mutant.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

REPORT, MODULE, FILE = "MUTANTS_REPORT", "MUTANTS_MODULE", "MUTANTS_FILE"
BREAKS = (ImportError, SyntaxError, NameError)
"""Errors that say that a mutant is no program, and not that a law is broken."""


class Witness:
    """Counts what happens in one run of pytest."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {"passed": 0, "failed": [], "broken": []}

    def pytest_sessionstart(self) -> None:
        module, file = os.environ.get(MODULE), os.environ.get(FILE)
        if module is None:
            return
        try:
            spec = importlib.util.find_spec(module)
        except BREAKS as error:
            self.said["broken"].append(f"{module} cannot be imported: {error!r}")
            return
        if spec is None or spec.origin != file:
            self.said["broken"].append(f"{module} is imported from elsewhere")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.said["broken"].append(f"{report.nodeid} cannot be collected")

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if report.when == "collect":
            return
        error = call.excinfo.value
        if isinstance(error, BREAKS):
            self.said["broken"].append(f"{node.nodeid}: {error!r}")
        else:
            self.said["failed"].append(node.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.said["passed"] += 1

    def pytest_sessionfinish(self) -> None:
        Path(os.environ[REPORT]).write_text(json.dumps(self.said), encoding="utf-8")


def pytest_configure(config: Any) -> None:
    if REPORT in os.environ:
        config.pluginmanager.register(Witness())
