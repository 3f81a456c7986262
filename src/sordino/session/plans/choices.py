"""How often the items that a release names are the right ones, of made-up or public counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sordino.constraints import to_fraction
from sordino.entropy import Seeded
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.mechanisms import HistogramTopK, NoisyTopK
from sordino.plan.chosen import RUNS, Chances, InverseTail, simulate_top
from sordino.session.column_figures import ColumnReading, list_ranges
from sordino.session.plans.dry_run import Answers, Outcome, SimulatedDraw
from sordino.session.plans.expected_values import ExpectedValue
from sordino.session.plans.shapes import Floats
from sordino.session.table_numbers import Groups
from sordino.session.top_sums import TopSumsRequest

CLIPS = 10
"""Of the largest sums so many dry runs find a clip each, with which the choice is made often."""

_CHOICES = 200
"""How often a mechanism chooses in a plan that is no plain choice of the largest."""
_LEAST = 10
# With very many labels it chooses less often: so many labels together.
_LABELS_IN_ALL = 1 << 22
_ZEROS = 1 << 20
"""Of a range at most so many labels without rows compete in a plan."""


def simulate_choice(request: Any, draw: SimulatedDraw, wanted: int) -> Chances:
    """Return how often the right items are named.

    Parameters
    ----------
    request : TopKRequest, TopSetRequest or AboveRequest
        What is asked for.
    draw : SimulatedDraw
        What chose in a dry run: the mechanism, and the counts.
    wanted : int
        At least so many runs.
    """
    mechanism, values = draw.mechanism, np.asarray(draw.answers)
    if isinstance(mechanism, NoisyTopK | HistogramTopK):
        size = mechanism.domain_size
        if size is not None:
            # The labels of a range that are not listed have no rows.
            zeros = np.zeros(min(size - values.size, _ZEROS), dtype=values.dtype)
            values = np.concatenate([values, zeros])
        threshold = getattr(mechanism, "threshold", None)
        floor = None if threshold is None else float(to_fraction(threshold))
        k = min(mechanism.k, values.size)
        runs = max(RUNS, wanted)
        return simulate_top(
            values, k, mechanism.noise, float(mechanism.step), floor=floor, runs=runs
        )
    return _play(request, draw, wanted)


def simulate_clip(
    request: TopSumsRequest,
    outcome: Outcome,
    answers: Answers,
    truth: ExpectedValue,
    seed: int,
    wanted: int,
) -> Chances:
    """Return how often the largest sums are named with the clip that one dry run has found.

    Those are right that are the largest of the sums as they are, without noise and clip.
    """
    times = max(RUNS, wanted) // CLIPS + 1
    groups = outcome.drawn[-1].released if outcome.drawn else None
    if not isinstance(groups, Groups):
        # No label was found.
        return Chances(right=0.0, share=0.0, wrong=0.0, runs=times)
    first, names = groups.rows[0].release, [row.item for row in groups.rows]
    reading = next(one for one in outcome.asked if isinstance(one, ColumnReading))
    [column, *_] = answers.answer(reading).answers
    column = column if column.groups else reading.question.among(names)
    totals = column.totals(list_ranges([first.found] * len(column.groups)))
    scale = float(first.found.step)
    clipped = {name: one.steps * scale for name, one in zip(column.groups, totals, strict=True)}
    sums = np.array([clipped[name] for name in names])
    true = np.array([truth.find(name) or 0.0 for name in names])
    times = max(1, min(times, _LABELS_IN_ALL // sums.size))
    return _name_largest(request, sums, true, first.noise, Seeded(seed), times)


def _name_largest(
    request: TopSumsRequest,
    sums: Floats,
    true: Floats,
    noise: TotalNoise,
    entropy: Seeded,
    times: int,
) -> Chances:
    """Return how often the k largest sums are those with the most noise and all."""
    words = entropy.words(times * sums.size) >> np.uint64(11)
    tails = (words.astype(np.float64) + 1).reshape(times, sums.size) / (1 << 53)
    drawn = InverseTail(noise.mechanism.noise).invert(tails)
    noisy = sums + drawn * float(noise.step)
    floor = -np.inf if request.threshold is None else float(to_fraction(request.threshold))
    k = min(request.many, sums.size)
    least = max(float(np.sort(true)[-k]), floor)
    named = np.argsort(noisy, axis=1)[:, -k:]
    reached = np.take_along_axis(noisy, named, axis=1) >= floor
    good = ((true[named] >= least) & reached).sum(axis=1)
    wrong = reached.sum(axis=1) - good
    number = min(request.many, int((true >= least).sum()))
    return Chances(
        right=float(((good >= number) & (wrong == 0)).mean()),
        share=float(np.minimum(good, number).mean() / number) if number else 1.0,
        wrong=float(wrong.mean()),
        runs=times,
    )


def join_chances(found: Sequence[Chances]) -> Chances:
    """Return what came of runs with several clips, each as often as the others."""
    means = {
        name: float(np.mean([getattr(one, name) for one in found]))
        for name in ("right", "share", "wrong")
    }
    return Chances(**means, runs=sum(one.runs for one in found))


class _Right(NamedTuple):
    """Which items are right: how many are to be named, and from which count on one is right."""

    number: int
    least: float


def _play(request: Any, draw: SimulatedDraw, wanted: int) -> Chances:
    """Let the mechanism itself choose again and again."""
    counts = np.asarray(draw.answers)
    times = max(_LEAST, min(max(_CHOICES, wanted), _LABELS_IN_ALL // max(1, counts.size)))
    places = draw.more.get("positions")
    names: Any = draw.more.get("labels", range(counts.size) if places is None else places.tolist())
    count_of = dict(zip(names, counts.tolist(), strict=True))
    right = _find_right(request, list(count_of.values()))
    noise = Seeded(2)
    hits, wrong = [], []
    for _ in range(times):
        found = draw.mechanism.release(draw.answers, entropy=noise, **draw.more)
        labels = getattr(found, "labels", None)
        named = found.indices.tolist() if labels is None else list(labels)
        if request.name != "above":
            # What counts all labels that nobody listed names the best of them first.
            named = named[: request.many]
        good = sum(count_of.get(one, 0) >= right.least for one in named)
        hits.append(min(good, right.number))
        wrong.append(len(named) - good)
    whole = sum(hit == right.number and not bad for hit, bad in zip(hits, wrong, strict=True))
    return Chances(
        right=whole / times,
        share=sum(hits) / times / right.number if right.number else 1.0,
        wrong=sum(wrong) / times,
        runs=times,
    )


def _find_right(request: Any, counts: list[int]) -> _Right:
    """Return which items a release without noise would name."""
    ordered = sorted(counts, reverse=True)
    threshold = getattr(request, "threshold", None)
    if threshold is not None:
        floor = float(to_fraction(threshold))
        ordered = [count for count in ordered if count >= floor]
        if request.name == "above":
            # A sparse vector stops after so many, whichever they are.
            return _Right(min(len(ordered), request.positives), floor)
    ordered = ordered[: request.many]
    return _Right(len(ordered), ordered[-1] if ordered else float("inf"))
