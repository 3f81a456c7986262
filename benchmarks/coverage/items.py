"""Coverage of what counts, histograms, `top` and `above` print: of the counts that are bounded, and of the true ones."""

from __future__ import annotations

import numpy as np

from benchmarks.coverage.asking import Asked
from benchmarks.coverage.tables import UNITS, item_counts, item_frame, labels, salts
from benchmarks.coverage.trials import Tally, holds
from sordino.session.above import AboveRequest
from sordino.session.counts import CountRequest, CountUnitsRequest, HistogramRequest
from sordino.session.top_k import TopKRequest

RUNS, SALTS = 600, 4
CONFIDENCE = 0.95
COUNTED, TRUE, TOGETHER = "low, high", "true_low, true_high", "low, high of all rows"
ORDER = "tie"
# About how many items of a unit count.
ITEMS_A_UNIT = {"row": 4, "unit": 3.3, "M = 1": 1, "M = 2": 1.8, "M = 3": 2.4}


def requests(shape, unit):
    """What is asked, by the words of the command."""
    # Near the counts: of equally likely items as many lie above as below.
    threshold = round(500 * ITEMS_A_UNIT[unit] / len(labels(shape)))
    listed = {"item": "item", "domain": labels(shape), "epsilon": 1}
    above = {**listed, "threshold": threshold, "positives": 3}
    return {
        "count": CountRequest(epsilon=1),
        "count --units": CountUnitsRequest(epsilon=1),
        # The range ends below the counts of some tables: what lies beyond was measured as its end.
        "count --bounded": CountRequest(epsilon=1, bounds=(0, 1200)),
        "histogram": HistogramRequest(**listed),
        "histogram --simultaneous": HistogramRequest(**listed, simultaneous=True),
        "histogram --bounded": HistogramRequest(**listed, bounds=(0, 90)),
        "top": TopKRequest(**listed, k=3),
        "top --simultaneous": TopKRequest(**listed, k=3, simultaneous=True),
        "top --threshold": TopKRequest(**listed, k=3, threshold=threshold),
        "above": AboveRequest(**above),
        "above --simultaneous": AboveRequest(**above, simultaneous=True),
        "above --measure-share": AboveRequest(**above, measure_share=0.5),
        "above --measure-share --simultaneous": AboveRequest(
            **above, measure_share=0.5, simultaneous=True
        ),
        "above --adaptive --measure-share": AboveRequest(**above, adaptive=True, measure_share=0.5),
    }


def cells(shapes):
    """All that is measured: the request, the shape and the unit."""
    return [
        (name, shape, unit)
        for shape in shapes
        for unit in ITEMS_A_UNIT
        for name in requests(shape, unit)
        # A count of rows needs a bound on the rows of a unit.
        if not (unit == "unit" and name in ("count", "count --bounded"))
        if not (unit == "row" and name == "count --units")
    ]


def measure(name, shape, unit, runs=RUNS, price=None):
    """Return the tally of each interval of a request about one table."""
    frame, whom = item_frame(shape), UNITS[unit]
    by_row, most = whom.column is None, whom.max_rows
    sizes = frame.group_by("unit").len()["len"].to_numpy()
    rows, kinds = sizes.sum(), frame.unique().group_by("unit").len()["len"].to_numpy()
    tallies = {name_: Tally() for name_ in (COUNTED, TRUE, TOGETHER, ORDER)}
    drawn = salts(whom, SALTS)
    for salt in drawn:
        asked = Asked(requests(shape, unit)[name], frame, whom, salt, price=price)
        one = asked.release()
        read = asked.questions[0].run()
        if name.startswith("count"):
            true = sizes.size if name == "count --units" else rows
            counted = (
                true if most is None or name == "count --units" else np.minimum(sizes, most).sum()
            )
            truths, bounded = {"": true}, {"": counted}
        else:
            truths = item_counts(frame, shape, by_row=by_row)
            # Which items of a unit count follows from the salt; how many is known.
            bounded = dict(zip(read.labels, read.values.tolist(), strict=True))
            assert sum(bounded.values()) == (
                rows if by_row else np.minimum(kinds, most or kinds.size).sum()
            )
        bounds = getattr(asked.request, "bounds", None)
        if bounds is not None:
            # By rule a count beyond the range counts as its end.
            bounded = {
                label: min(max(value, bounds[0]), bounds[1]) for label, value in bounded.items()
            }
        for _ in range(runs // len(drawn)):
            add(tallies, one, truths, bounded)
            one = asked.release()
    return tallies


def add(tallies, release, truths, bounded):
    """Count what one release says."""
    rows = getattr(release, "rows", None)
    held = []
    for row in (release,) if rows is None else rows:
        label = getattr(row, "item", "")
        held.append(holds(row.low, row.high, bounded[label]))
        # A rank of the top holds another item each time; of the others each item has its own figure.
        place = getattr(row, "rank", label)
        tallies[COUNTED].add(place, held[-1], release.confidence)
        tallies[TRUE].add(
            place, holds(row.true_low, row.true_high, truths[label]), release.confidence
        )
    said = [one for one in held if one is not None]
    # Promises that say nothing are none; how much is promised depends on how many rows there are.
    if rows is not None and said and 0 < release.together < 1:
        tallies[TOGETHER].add("all", all(said), release.together)
    if hasattr(release, "crossed"):
        add_order(tallies[ORDER], release, bounded)


def add_order(tally, release, bounded):
    """Count the rows that are no larger than the next one (the last: than the best one left out): are they marked?"""
    listed = [row.item for row in release]
    left_out = [count for label, count in bounded.items() if label not in listed]
    # Where the threshold ended the list, the last row is compared with that.
    last = [] if release.crossed or not left_out else [max(left_out)]
    for row, behind in zip(release, [bounded[label] for label in listed[1:]] + last, strict=False):
        if bounded[row.item] <= behind and row.tie is not None:
            tally.add(row.rank, row.tie, CONFIDENCE)
