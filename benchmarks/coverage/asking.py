"""Asks a release of a session over and over: its rows are read once, by the engine, and everything else happens each time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

from sordino.entropy import SYSTEM
from sordino.session import column_request, counts, local, request
from sordino.sources import CsvFormat, open_source

# Where requests prepare what they ask the engine.
_PLACES = tuple(
    (module, name)
    for module in (request, counts, column_request, local)
    for name in ("prepare_counts", "prepare_numbers", "prepare_records")
    if hasattr(module, name)
)


CHECKED = 2
"""So many totals of a question come from the engine, and are compared with those that are added up here."""


class Remembered:
    """A question that was prepared, and keeps what it was answered; `rows` are those of each group, if they are known."""

    def __init__(self, question, rows):
        self._question, self.rows = question, list(rows)
        self._read, self._sums, self._answers = [], [], {}

    def __getattr__(self, name):
        return getattr(self._question, name)

    def run(self, **_progress):
        if not self._read:
            answer = self._question.run()
            # Records come in blocks, one after the other.
            self._read.append(list(answer) if isinstance(answer, Iterator) else answer)
        return self._read[0]

    def sums(self, **_progress):
        """The sums of buckets: the same for every clip."""
        if not self._sums:
            self._sums.append(self._question.sums())
        return self._sums[0]

    def totals(self, ranges, **_progress):
        return self._ask("totals", ranges)

    def square_totals(self, ranges, **_progress):
        return self._ask("square_totals", ranges)

    def _ask(self, kind, ranges):
        # What is added up for a group depends on its own clip alone: all groups are asked for each clip.
        for clip in ranges:
            if (kind, clip) not in self._answers:
                self._answers[kind, clip] = self._add_up(kind, clip, len(ranges))
        return tuple(self._answers[kind, clip][group] for group, clip in enumerate(ranges))

    def _add_up(self, kind, clip, groups):
        """Let the engine add up what is clipped, or do so here once it was seen to give the same."""
        before = [answer for (asked, _), answer in self._answers.items() if asked == kind]
        if self.rows and len(before) >= CHECKED:
            # How many numbers there are does not depend on the clip.
            return tuple(
                replace_total(total, rows, clip)
                for total, rows in zip(before[0], self.rows, strict=True)
            )
        found = getattr(self._question, kind)([clip] * groups)
        assert not self.rows or tuple(found) == tuple(
            map(replace_total, found, self.rows, [clip] * groups)
        )
        return found


def replace_total(total, rows, clip):
    """The total of these rows, each moved between the ends of the clip; the rest as it stands there."""
    steps = (
        np.clip(np.floor(rows.numbers / float(clip.step)), clip.low, clip.high)
        .astype(np.int64)
        .tolist()
    )
    squares = (
        {"squares": sum((step - clip.low) ** 2 for step in steps)}
        if "squares" in total._fields
        else {}
    )
    return total._replace(steps=sum(steps), **squares)


class Asked:
    """One request about one table, with one salt: which rows of a unit count stays the same."""

    def __init__(self, asked, frame, unit, salt, rows=(), price=None):
        self.request, self.unit, self._salt, self.rows = asked, unit, salt, rows
        # How an account counts; None: nobody pays.
        self.price = price
        self.source = open_source(frame, csv=CsvFormat(), name=None)
        self.questions, self._estimators = [], {}

    @property
    def asked(self):
        """Nothing is measured again."""
        return None

    def salt(self):
        """The steps of a request ask the table for it."""
        return self._salt

    def release(self):
        """Release once, with fresh noise."""
        place = itertools.count()

        def remember(prepare):
            def prepared(*args, **more):
                # The steps are the same each time, and so are their questions, in the same order.
                if (index := next(place)) == len(self.questions):
                    self.questions.append(Remembered(prepare(*args, **more), self.rows))
                return self.questions[index]

            return prepared

        def build(request_, _table, *more):
            # What is made of the public parameters alone is made once: most of it takes longer than its noise.
            if more not in self._estimators:
                self._estimators[more] = make(request_, self, *more)
            return self._estimators[more]

        make = getattr(type(self.request), "build_estimator", None)
        with ExitStack() as patches:
            if make is not None:
                patches.enter_context(patch.object(type(self.request), "build_estimator", build))
            for module, name in _PLACES:
                patches.enter_context(patch.object(module, name, remember(getattr(module, name))))
            steps = self.request.steps(self)
            next(steps)
            try:
                steps.send(request.Charged(request.Uncharged(), SYSTEM, None))
            except StopIteration as end:
                return end.value
        raise AssertionError("steps stop once, at the reservation")
