"""Describes figures of a column: quantiles, sums, means and variances, of all rows or of groups.

In front stands what descriptions of every kind of release share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.population import Population
from sordino.record import Record, describe_spent, format_cell, list_spent
from sordino.releases import plain
from sordino.results import sentences

COUNT_COLUMNS = ("estimate", "low", "high")
TRUE_COLUMNS = ("true_low", "true_high")

Facts = dict[str, Any]
Notes = list[str]


def pick(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return these columns of rows, JSON-ready."""
    return [{name: row[name] for name in columns} for row in map(plain, rows)]


def describe_found(release: Any, most: int | None = None) -> tuple[Facts, Notes]:
    """Return what a release of labels that nobody listed says of those that it found."""
    found, threshold = len(release), release.label_threshold
    among = "" if most is None else f" of at most {most}"
    # Without a bound on the labels of a unit the threshold hangs on a private count.
    people = "people" if release.population is None else release.population.people
    needed = f"about {threshold:,} {people}" if threshold else f"many {people}"
    facts = {} if threshold is None else {"label_threshold": threshold}
    notes = [
        f"Found {found}{among}: nobody listed the labels. A label needs {needed} to appear. A "
        "missing label tells you nothing."
    ]
    # Only a top has several ways to find labels.
    if why := getattr(release, "why", None):
        return facts | {"why": why}, [*notes, f"Method: {release.method}. {why}"]
    return facts, notes


def describe_reaching(shown: int, least: int, asked: int) -> tuple[Facts, Notes]:
    """Return what a histogram says that releases only counts which reach a threshold."""
    facts = {"method": "histogram", "threshold": least, "asked": asked}
    return facts, [
        f"Shown: {shown:,} of {asked:,} labels, those with a noisy count of {least:,} or "
        "more. A label that is not shown may have people."
    ]


def describe_range(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return what a release within declared bounds says about its range; nothing without bounds."""
    if some.bounds is None:
        return {}, []
    (low, high), (least, most) = some.bounds, release.output_range
    told = (
        f"Published within [{format_cell(least, 2)}, {format_cell(most, 2)}]: unbiased from "
        f"{format_cell(low)} to {format_cell(high)}; what lies beyond counts as the nearer end."
    )
    return {"range_low": least, "range_high": most}, [told]


_QUANTILE = ("q", "estimate", "rank_error_low", "rank_error_high", "capped")
_TOTAL = (
    "figure",
    *COUNT_COLUMNS,
    "standard_error",
    "clip_low",
    "clip_high",
    "capped",
    *TRUE_COLUMNS,
)
# Within a declared range no clip is searched for, so nothing can be capped; and its ends say
# nothing of rows beyond them.
_OF_CLIPS = ("capped", *TRUE_COLUMNS, "too_few")


def describe_figure(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return the record of a figure of a column, of all rows or of each group."""
    shared, warned = describe_numbers(release, some)
    notes = [*warned, *_say_size(release, some), *notes, *say_lower(some), *some.say_bound()]
    facts |= shared | {"confidence": release.confidence}
    grouped = some.by is not None
    # Nobody may have listed the groups, and none may have been found.
    first = next((row.release for row in release), None) if grouped else release
    columns = _list_columns(first, some)
    said = [] if first is None else _say_ends(first, some, columns)
    counted, told = _describe_records(release, some)
    facts, notes = facts | counted, [*told, *notes]
    # Each group has a number of its own, if one was asked for.
    if grouped and some.figure == "quantile" and first is not None and first.records is not None:
        columns = (*columns, "records")
    if first is not None and some.bounds is not None:
        # All groups have the same range, so the first one speaks for all.
        ranged, told = describe_range(first, some)
        said, facts = [sentences.MOVED, *told], facts | ranged
    if grouped:
        more, told = _describe_groups(release, some)
        facts, notes, columns = facts | more, [*notes, *told], ("item", *columns)
    pairs = [(row.item, row.release) for row in release] if grouped else [(None, release)]
    rows = [{"item": item} | row for item, one in pairs for row in list_figures(one, some)]
    return Record(
        columns=columns,
        rows=pick(rows, columns),
        facts=facts,
        notes=[*said, *notes],
        # Figures have any size, so their digits are counted from the first one that is not 0.
        counts=False,
    )


def list_figures(release: Any, some: Population) -> list[dict[str, Any]]:
    """Return one row for each figure that was released together.

    Of several quantiles each is one.
    """
    # Several quantiles say themselves which they are; a single one does not.
    alone = some.figure == "quantile" and not _is_list(release)
    q = float(find_first(release.mechanism).q) if alone else None
    return [{"figure": some.figure, "q": q} | name_clip(row) for row in release.list_rows()]


def _is_list(release: Any) -> bool:
    """Tell whether a release of quantiles is one of several."""
    return hasattr(release, "__getitem__")


def find_first(mechanism: Any) -> Any:
    """Return what releases the figure, where there are several mechanisms."""
    # Where there are intervals, what releases the quantiles is the first of several mechanisms.
    return mechanism[0] if isinstance(mechanism, tuple) else mechanism


def name_clip(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the two ends of its clip under names of their own."""
    clip = row.get("clip")
    ends = {} if clip is None else {"clip_low": clip[0], "clip_high": clip[1]}
    return {name: value for name, value in row.items() if name != "clip"} | ends


def _list_columns(release: Any, some: Population) -> tuple[str, ...]:
    """Return what is said of each figure, in the order in which it stands there."""
    if some.figure == "quantile":
        if not _has_intervals(release):
            return _QUANTILE
        # Of rows that are left out nothing is known, and the row says so.
        true = TRUE_COLUMNS if some.is_bounded else ()
        return (*_QUANTILE[:2], "low", "high", *_QUANTILE[2:], *true, "too_few")
    columns = [*_TOTAL, "too_few"]
    if some.figure == "variance":
        columns.insert(columns.index("clip_low"), "standard_deviation")
    return tuple(name for name in columns if some.bounds is None or name not in _OF_CLIPS)


def _has_intervals(release: Any) -> bool:
    """Tell whether the values of quantiles have intervals of their own."""
    one = release[0] if _is_list(release) else release
    return one is not None and one.low is not None


def _describe_records(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return how many records with a number there are, and whether the grid limits a quantile.

    Nothing where the grid does not follow from that.
    """
    each = [release] if some.by is None else [row.release for row in release]
    values = [one for found in each for one in (found if _is_list(found) else [found])]
    if some.figure != "quantile" or not values or values[0].limited_by_grid is None:
        return {}, []
    notes, records = [], values[0].records
    what = "rows" if some.per_person is None else some.people
    what += " with these weights" if some.weighed else ""
    # With a size hint nothing was spent on their number.
    if records is not None:
        told = f"About {records:,} {what}" if some.by is None else f"records: {what} of each group"
        first, weights = find_first(values[0].mechanism), values[0].weights
        times = 1.0 if weights is None else weights.rows_of_step
        how = f"+-{math.ceil(first.reach_of_size * times):,} with 95%"
        # Of weighed rows in groups its epsilon is that of a step of a weight.
        if weights is None or some.by is None:
            how += f", for epsilon {first.size_epsilon_spent:.3f} of it"
        notes = [f"{told} that count have a number ({how}). The grid suits so many."]
    limited = sum(value.limited_by_grid for value in values)
    if limited:
        of_all = f"{limited} of {len(values)} are limited by the grid and not by the noise"
        notes.append(f"{of_all}: many {what} lie between two of its edges.")
    alone = {} if records is None or some.by is not None else {"records": records}
    return {**alone, "limited_by_grid": limited}, notes


def _say_ends(release: Any, some: Population, columns: Sequence[str]) -> Notes:
    """Return what the ends of intervals are about."""
    if some.weighed and some.figure != "quantile":
        of_own = sentences.WEIGHED_VARIANCE if some.figure == "variance" else sentences.WEIGHED
        return [*of_own, sentences.CAPPED_CLIP]
    clipped = sentences.CLIPPED_TOGETHER if some.clips_together else sentences.CLIPPED
    ranked = sentences.RANK_WEIGHED if some.weighed else sentences.RANK
    said = [ranked, sentences.CAPPED] if some.figure == "quantile" else [clipped, sentences.TRUE]
    if some.figure == "quantile" and _has_intervals(release):
        of_all = sentences.VALUES_WEIGHED if some.weighed else sentences.VALUES
        said.insert(0, sentences.VALUES_OF_SOME if some.is_bounded else of_all)
    if "capped" in columns and some.figure != "quantile":
        said.append(sentences.CAPPED_CLIP)
    if "too_few" in columns:
        few = {"sum": sentences.TOO_FEW_OF_SUM, "quantile": sentences.TOO_FEW_OF_QUANTILE}
        said.append(few.get(str(some.figure), sentences.TOO_FEW))
    if some.figure in {"mean", "variance"} and "too_few" in columns:
        said.append(sentences.NO_ERROR)
    return said


def _describe_groups(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return what a release in groups says of them: what found them, and what each had."""
    facts: Facts = {}
    notes: Notes = []
    if release.label_threshold is not None:
        facts, notes = describe_found(release, some.most_groups)
        spent = describe_spent(list_spent(release.mechanism[0].cost))
        before = ", once for several figures and in the cost of the first"
        notes.append(f"They were looked for with {spent}{before if release.found_before else ''}.")
    if release.rows:
        each = list_spent(release.rows[0].release.cost)
        shared = some.clips_together or some.weighed
        what = "All groups together" if shared else "Each group"
        notes.append(f"{what} got {describe_spent(each)}.")
    return facts, notes


def say_lower(some: Population) -> Notes:
    """Return what becomes of numbers below the public end of a column, if there is one."""
    # Nobody has fewer than no rows.
    if some.per_person in {"count", "any"} and some.lower == 0:
        return []
    if some.lower is None:
        return [
            "Without --lower numbers of both signs are looked for: a bound, such as --lower 0, "
            "makes intervals shorter."
        ]
    what = "numbers" if some.per_person is None else f"values of {some.people}"
    return [
        f"By --lower, {what} below {format_cell(some.lower)} count as {format_cell(some.lower)}."
    ]


def _say_size(release: Any, some: Population) -> Notes:
    """Return what is said if the row count may be public, but not that of rows with a number."""
    # A mean within bounds is released only where no row can be without a number.
    public = getattr(release.mechanism, "size_is_public", False) or (
        some.figure == "mean" and some.bounds is not None
    )
    if some.adjacency != "replace-one" or public:
        return []
    counted = some.people if some.weighed or some.per_person is not None else "rows"
    return [f"How many {counted} have a number is private, and the noise hides it."]


def describe_numbers(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return how many rows held a number, where that was released."""
    share, notes = release.numbers_share, some.say_share(release.numbers_share)
    if share is None:
        return {}, notes
    facts = share.list_facts()
    if share.is_low:
        facts["warning"] = notes[-1].removeprefix("WARNING: ")
    return facts, notes
