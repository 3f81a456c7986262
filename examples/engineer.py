"""An engineer builds a service: it computes counts itself, and many threads release them.

    python examples/engineer.py

Steps: 1 an account, 2 reserve a mechanism and release from it, 3 do that in threads, 4 an alarm
over a stream, 5 replay the history. Whoever charges first wins, and nobody passes the budget.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sordino as sd


def main(folder: str) -> None:
    """Charge, release and check, in a new ledger in a folder."""
    # 1. Whom it protects and which rows it is about: nobody can see that from the counts.
    ledger = sd.Ledger.create(
        Path(folder) / "service.db",
        account="visits",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit="visitor",
        source="name:visits",
    )

    # 2. A visitor moves the count of an hour by one at most: that is what COUNTING says. The charge
    #    is on disk before noise exists.
    count = sd.LaplaceMechanism(epsilon=0.125, sensitivity=sd.COUNTING)

    def release(visitors: int) -> float | None:
        try:
            with ledger.reserve(count, label="hour") as charge:
                return charge.release(count, visitors).value
        except sd.BudgetExceeded:
            return None

    # 3. Ten hours, and budget for five of them if the alarm below is to be paid, too.
    with ThreadPoolExecutor(5) as pool:
        released = list(pool.map(release, (310, 287, 402, 391, 350)))
    print("Visitors by hour:", [round(value) for value in released])
    print("Left:", float(ledger.remaining))

    # 4. Tell the first hour that is above 500, whatever the quiet ones cost: nothing.
    alarm = sd.SparseVector(threshold=500, positives=1, epsilon=0.375, sensitivity=sd.COUNTING)
    with ledger.reserve(alarm, label="alarm") as charge, charge.open(alarm) as stream:
        told = [stream.ask(visitors).above for visitors in (120, 180, 210, 900)]
    print("Above 500:", told)

    # Nothing is left: the next one is refused, and draws nothing.
    print("One more:", release(333))

    # 5. Hashes, sums and limits of the whole history agree.
    found = ledger.verify()
    print(f"The history of {found.events} events is sound: {found.sound}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
