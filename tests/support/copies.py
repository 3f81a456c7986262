"""Two copies of one process's memory, as a machine image that is resumed twice gives them: run as a program, one for each kind of copy.

`fork` of the C library runs none of Python's hooks, and the child is told the process number of its parent, so that nothing that
looks for a fork can see that there are two.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sordino as sd
from sordino.entropy import System
from support.doors import DOORS

heard: list[int] = []
PLANT = 86753


def hear() -> None:
    """Note every word that the operating system's entropy hands out."""
    words = System.words

    def noting(self: System, n: int) -> Any:
        drawn = words(self, n)
        heard.extend(drawn.tolist())
        return drawn

    System.words = noting  # type: ignore[method-assign]


def copied(run: Callable[[str], Any]) -> tuple[Any, Any]:
    """Copy this process, run something in both copies, and return what they say: ours, and theirs."""
    reader, writer = os.pipe()
    number = os.getpid()
    if not ctypes.PyDLL(None).fork():  # with the lock of the interpreter held
        os.getpid = lambda: number
        try:
            os.write(writer, json.dumps(run("theirs")).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = json.loads(pipe.read())
    os.wait()
    return run("ours"), theirs


def drawn(run: Callable[[str], Any]) -> tuple[list[int], list[int]]:
    """Return the words that two copies drew."""

    def noted(copy: str) -> list[int]:
        heard.clear()
        run(copy)
        return list(heard)

    for _ in range(9):
        sd.SYSTEM.words(300)  # thousands of words are drawn ahead when the copy is made
    return copied(noted)


def verdict(run: Callable[[str], Any]) -> list[int]:
    """Return how many words each copy drew, and how many both did."""
    ours, theirs = drawn(run)
    return [len(ours), len(theirs), len(set(ours) & set(theirs))]


def doors() -> dict[str, Any]:
    """Copy the process between two releases of each mechanism and estimator."""
    found = {}
    for name, door in DOORS.items():
        door(PLANT, sd.SYSTEM)
        found[name] = verdict(lambda copy, door=door: door(PLANT, sd.SYSTEM))  # type: ignore[misc]
    return found


def streams() -> dict[str, Any]:
    """Copy it before a stream is opened, before its first question, and with noise drawn ahead."""
    mechanism = sd.SparseVector(threshold=10**9, positives=2, epsilon=0.01, sensitivity=sd.COUNTING)

    def asked(stream: Any, questions: int) -> None:
        for _ in range(questions):
            stream.ask(0)

    found = {"opened later": verdict(lambda copy: asked(mechanism.open(), 1))}
    opened = mechanism.open()
    found["asked later"] = verdict(lambda copy: asked(opened, 1))
    begun = mechanism.open()
    asked(begun, 1)
    found["what it has"] = verdict(lambda copy: asked(begun, 63))
    asked(begun, 63)
    found["what it draws next"] = verdict(lambda copy: asked(begun, 66))
    return found


def ledger() -> dict[str, Any]:
    """Copy it between a charge and its draw, its stream, or a draw whose noise the caller makes."""
    account = {"adjacency": "add-remove", "unit": "user", "source": "name:copies"}
    mechanism = sd.LaplaceMechanism(epsilon=0.001, sensitivity=sd.COUNTING)
    stream = sd.SparseVector(threshold=10**9, positives=2, epsilon=0.01, sensitivity=sd.COUNTING)

    class Own:
        """A mechanism of the caller's, which knows nothing of copies."""

        cost, sensitivity, exact = mechanism.cost, sd.COUNTING, True

        def release(self, answers: Any, *, entropy: Any) -> Any:
            entropy.words(4)
            return mechanism.release(answers)

    def raw(charge: Any) -> None:
        charge.draw(mechanism)
        sd.SYSTEM.words(4)

    def asked(charge: Any) -> None:
        charge.open(stream).ask(0)

    uses: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "release": (mechanism, lambda charge: charge.release(mechanism, PLANT)),
        "release of a mechanism of the caller's": (
            mechanism,
            lambda charge: charge.release(Own(), PLANT),
        ),
        "open": (stream, asked),
        "draw": (mechanism, raw),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (reserved, use) in uses.items():
            ledgers = {
                copy: sd.Ledger.create(
                    f"{folder}/{copy} {name}.db",
                    account="a",
                    budget=sd.Budget(epsilon=1),
                    **account,
                )
                for copy in ("ours", "theirs")
            }
            charges = {copy: one.reserve(reserved) for copy, one in ledgers.items()}
            found[name] = verdict(lambda copy, charges=charges, use=use: use(charges[copy]))  # type: ignore[misc]
    return found


def sessions() -> dict[str, Any]:
    """Copy it between two releases of a session: neither noise nor the secret that chooses rows is the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_text(
            "user,item,amount\n"
            + "".join(f"u{i % 40},{'abc'[i % 3]},{i % 90}\n" for i in range(240))
        )
        session = sd.Session(path, unit=sd.PrivacyUnit("user", max_rows=2), ledger=None)
        local = sd.Session(path, unit=sd.PrivacyUnit.row(adjacency="replace-one"), ledger=None)
        items = {"epsilon": 1, "domain": ["a", "b", "c"]}
        column = {"epsilon": 1, "cap": 100}

        def batch() -> None:
            with session.batch():
                session.count(epsilon=1)
                session.sum("amount", lower=0, **column)

        def watched() -> None:
            with session.watch(
                threshold=10, positives=1, epsilon=1, sensitivity=sd.COUNTING
            ) as stream:
                stream.ask(3)

        uses: dict[str, Callable[[], Any]] = {
            "top_k": lambda: session.top_k("item", k=2, **items),
            "top_set": lambda: session.top_set("item", k=2, **items),
            "top_k with a threshold": lambda: session.top_k("item", k=2, threshold=5, **items),
            "above": lambda: session.above("item", threshold=5, positives=2, **items),
            "histogram": lambda: session.histogram("item", **items),
            "count": lambda: session.count(epsilon=1),
            "count_distinct_units": lambda: session.count_distinct_units(epsilon=1),
            "quantile": lambda: session.quantile("amount", q=0.5, lower=0, **column),
            "quantiles": lambda: session.quantile("amount", q=[0.25, 0.75], lower=0, **column),
            "sum": lambda: session.sum("amount", lower=0, **column),
            "mean": lambda: session.mean("amount", lower=0, **column),
            "groups": lambda: session.sum(
                "amount", by="item", domain=["a", "b"], groups_per_unit=1, lower=0, **column
            ),
            "bounded": lambda: session.sum("amount", bounds=(0, 10**6), lower=0, **column),
            "randomize": lambda: local.randomize("amount", lower=0, upper=100, epsilon=1),
            "batch": batch,
            "watch": watched,
        }
        found = {}
        for name, use in uses.items():
            use()
            found[name] = verdict(lambda copy, use=use: use())  # type: ignore[misc]
        return found


def values() -> dict[str, Any]:
    """Copy it between two releases and say what a reader of both sees."""
    mechanism = sd.LaplaceMechanism(epsilon=1e-6, sensitivity=sd.COUNTING.over(8))
    mechanism.release(np.zeros(8))
    return {"values": copied(lambda copy: mechanism.release(np.zeros(8)).values.tolist())}


if __name__ == "__main__":
    warnings.simplefilter("error")
    if sys.argv[1] != "values":
        hear()
    print(
        json.dumps(
            {
                "doors": doors,
                "streams": streams,
                "ledger": ledger,
                "sessions": sessions,
                "values": values,
            }[sys.argv[1]]()
        )
    )
