"""An adversary plays two parts against a real account, over every strategy: it gets the limit of one part, and the twins get two."""

from __future__ import annotations

import shutil
from fractions import Fraction
from functools import cache

from ledger.fakes import REAL, Mechanism
from ledger.parted import check, make_parted
from sordino import COUNTING, LaplaceMechanism
from sordino.errors import BudgetExceeded
from sordino.ledger import Ledger, PartRange
from sordino.ledger.store import sqlite
from sordino_audit import exact

UNIT = Fraction(1, 4)
LIMIT = 2
ONE, TWO = PartRange(1, 1), PartRange(2, 2)
BOTH = PartRange(1, 2)
TARGETS = {"one": ONE, "two": TWO, "both": BOTH, "whole": None}
# What may be asked, in units: its worst case, and of each outcome what that transcript costs and
# by how much its probabilities differ if the unit is there. A count has the ends of its law; the
# filter gives back what a transcript did not spend.
COUNT = LaplaceMechanism(epsilon=UNIT, sensitivity=COUNTING)
KINDS = {
    "count": (1, {"high": (1, 1), "low": (1, -1)}),
    "twice": (2, {"high": (2, 2), "low": (2, -2)}),
    "filter": (2, {"high": (2, 2), "nothing": (0, 0), "low": (1, -1)}),
}


class Game:
    """The states of an account, each in a file of its own; the ledger itself decides what is let in."""

    def __init__(self, folder):
        self.folder, self.files = folder, {}
        ledger = make_parted(folder / "0.db", LIMIT * UNIT)
        self.start = self.state_of(ledger)
        self.files[self.start] = ledger.url

    def state_of(self, ledger):
        """What is left of the parts, of one to come and of the whole table: all that decisions look at."""
        return tuple(
            int(ledger.find_left(parts=parts).share * LIMIT)
            for parts in (ONE, TWO, PartRange(99, 99), None)
        )

    @cache  # noqa: B019  (as long as the game)
    def after(self, state, target, worst, spent):
        """Return the state after a release, or None where the ledger refuses it."""
        sqlite.close_all()
        path = self.folder / f"{len(list(self.folder.iterdir()))}.db"
        shutil.copy(self.files[state], path)
        shutil.copy(f"{self.files[state]}-journal", f"{path}-journal")
        ledger = Ledger.open(path, account="orders")
        mechanism = Mechanism(worst * UNIT, spends=spent * UNIT)
        try:
            with ledger.reserve(mechanism, parts=TARGETS[target]) as charge:
                charge.release(mechanism, [1], entropy=REAL)
        except BudgetExceeded:
            return None
        found = self.state_of(ledger)
        self.files.setdefault(found, ledger.url)
        return found

    def play(self, lies_in):
        """Return the largest loss of any strategy: of all releases that read a part where the unit lies."""

        @cache
        def best(state):
            most = 0
            for target in TARGETS:
                reads = {"one": {1}, "two": {2}, "both": {1, 2}, "whole": {1, 2}}[target]
                # Under add-remove a unit lies in one part; a release reads it once or not at all.
                times = len(reads & lies_in)
                for worst, outcomes in KINDS.values():
                    for cost, loss in outcomes.values():
                        # Where the unit is not read the adversary may simulate any outcome.
                        then = self.after(state, target, worst, cost)
                        if then is not None and then != state:
                            most = max(most, times * loss + best(then))
            return most

        return best(self.start)


def test_two_parts_lose_what_one_may_and_the_twins_lose_both(tmp_path):
    # What a count loses: the real law, played by the auditor.
    report = exact(COUNT, answers_a=[0], answers_b=[1])
    assert abs(report.epsilon_at_least - float(UNIT)) < 1e-9
    assert report.epsilon_everywhere <= float(UNIT) * (1 + 1e-9)
    game = Game(tmp_path)
    for lies_in in ({1}, {2}):
        assert game.play(lies_in) == LIMIT
    # Replace-one, a key that is not in the unit, parts by the day of loading: one unit in two parts.
    assert game.play({1, 2}) == 2 * LIMIT
    # Nobody's part: what is released of others says nothing.
    assert game.play(set()) == 0
    assert len(game.files) > 10
    for url in list(game.files.values())[:: len(game.files) // 5]:
        check(Ledger.open(url, account="orders"))
