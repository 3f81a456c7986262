"""Describes a release of a session: one record, of which every form is made that somebody reads.

The command, the ledger, studies and reports all take this record. So none of them can forget a
filter, or take an interval for one of something else. All that it says was released, or is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.population import Population
from sordino.record import (
    Record,
    describe_receipt,
    describe_spent,
    format_cell,
    format_share,
    list_facts,
    list_mechanisms,
    list_noises,
    list_spent,
    list_total,
    list_warnings,
)
from sordino.releases import plain
from sordino.results.sentences import (
    A_SET,
    ABOVE_ESTIMATE,
    ABOVE_LOW,
    ABOVE_MEASURED,
    AGAIN,
    ALL,
    ALONE,
    BEFORE_SELECTION,
    CAPPED,
    CLIPPED,
    CLIPPED_AGAIN,
    CLIPPED_TOGETHER,
    FROM_GAPS,
    FROM_HISTOGRAM,
    INTERVAL,
    INTERVAL_OF_SELECTED,
    INTERVAL_OF_SUMS,
    LARGEST_SUMS,
    LEAST_OF_SUMS,
    MEASURED_SET,
    MOVED,
    NO_ERROR,
    ONLY_MEASURED,
    RANK,
    RANK_WEIGHED,
    TOO_FEW,
    TOO_FEW_OF_SUM,
    TRUE,
    TRUE_SUMS,
    UNCLEAR,
    UNCLEAR_SUMS,
    UNKNOWN_NUMBERS,
    VALUES,
    VALUES_OF_SOME,
    VALUES_WEIGHED,
    WEIGHED,
    WEIGHED_VARIANCE,
)
from sordino.results.totals import TOTALS

_KINDS = {
    "top_k": "top",
    "top_set": "top",
    "top_sums": "top",
    "count_distinct_units": "count",
    "value_histogram": "histogram",
}
"""What a figure is called, where the method of a session has another name."""
_COUNT = ("estimate", "low", "high")
_TRUE = ("true_low", "true_high")
_QUANTILE = ("q", "estimate", "rank_error_low", "rank_error_high", "capped")
_TOTAL = ("figure", *_COUNT, "standard_error", "clip_low", "clip_high", "capped", *_TRUE)
# Within a declared range no clip is searched for, so nothing can be capped; and its ends say
# nothing of rows beyond them.
_OF_CLIPS = ("capped", *_TRUE, "too_few")

Facts = dict[str, Any]
Notes = list[str]


def describe(release: Any) -> Record:
    """Return what a release of a session says of itself.

    Parameters
    ----------
    release : Release
        With a population, as a session gives it.

    Returns
    -------
    Record
        Its rows, the facts about them for programs, and the notes for people.

    Examples
    --------
    >>> import pandas as pd
    >>> import sordino as sd
    >>> from sordino.results import describe
    >>> visits = pd.DataFrame({"day": ["Monday"] * 50})
    >>> session = sd.Session(visits, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> record = describe(session.count(epsilon=1, where="day = 'Monday'"))
    >>> record.facts["where"], record.columns[:2]
    ("day = 'Monday'", ('count', 'estimate'))
    """
    some: Population = release.population
    # Another look says of itself how it was put together, whatever it is a look at.
    again = hasattr(release, "planned")
    facts, notes = _describe_common(
        "remeasure" if again else _KINDS.get(some.figure, some.figure), release
    )
    return (_describe_again if again else _FIGURES[some.figure])(release, some, facts, notes)


def _describe_common(kind: str, release: Any) -> tuple[Facts, Notes]:
    """Return what every release of a session says of itself.

    Facts for programs and notes for people.
    """
    some: Population = release.population
    facts = list_facts(
        kind,
        release,
        release.receipt,
        unit=some.unit,
        adjacency=some.adjacency,
        max_rows=some.max_rows,
        figure=some.figure,
    )
    facts |= list_noises(release.mechanism) | some.list_facts() | list_total(release)
    notes = [
        *some.say_about(),
        *some.say_left_out(),
        f"Spent: {describe_spent(facts)}. Protects: {some.unit}, {some.adjacency}.",
        *_say_noise(facts),
        *describe_receipt(release.receipt),
    ]
    if some.domain is not None:
        notes.append(f"Labels: {some.domain}.")
    if some.domain == "assumed public" and not release.cost.pure():
        # Only where nothing was drawn: those of a table without any label.
        facts["warning"] = (
            f"{some.by or some.item} has no label in any row, so there is nothing to release."
        )
        notes.insert(0, f"{facts['warning']} Nothing was spent.")
    return facts, [*notes, *list_warnings(release)]


def _say_noise(facts: Mapping[str, Any]) -> Notes:
    """Return the note that names noise without a pure epsilon; of pure noise nothing is said."""
    selected, measured = facts.get("noise"), facts.get("measure_noise")
    if not {selected, measured} & {"gumbel", "gaussian"}:
        return []
    # One kind of noise, or one to select and one to measure.
    both = (
        f"{selected} to select, {measured} to measure"
        if selected and measured
        else selected or measured
    )
    return [
        f"Noise: {both}; chosen for what the account gets from it unless it was asked for by name."
    ]


def _pick(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in columns} for row in map(plain, rows)]


def describe_alone(
    release: Any,
    *,
    unit: str | None = None,
    adjacency: str | None = None,
    max_rows: int | None = None,
) -> Record:
    """Return what a release of a mechanism alone says of itself.

    It knows of no rows, and of no table.

    Parameters
    ----------
    release : Release
        One without a population.
    unit, adjacency, max_rows : optional
        Whom it protects, where somebody knows it.
    """
    said = release.to_dict()
    rows = [plain(record) for record in release.list_rows()]
    # What stands beside the rows of a release is about all of them.
    shared = {name: value for name, value in said.items() if name not in rows[0]} if rows else said
    own = {
        name: value for name, value in shared.items() if isinstance(value, str | bool | int | float)
    }
    facts = list_facts(
        said["type"], release, release.receipt, unit=unit, adjacency=adjacency, max_rows=max_rows
    )
    facts |= {name: value for name, value in own.items() if name != "type"} | list_noises(
        release.mechanism
    )
    notes = [*describe_receipt(release.receipt), *list_warnings(release)]
    columns = tuple(rows[0]) if rows else ()
    return Record(facts=facts, columns=columns, rows=rows, notes=notes, counts=False)


# ---- counts --------------------------------------------------------------------------------------


def _describe_count(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    ranged, told = _describe_range(release, some)
    true_columns, capped = _describe_cap(some, moved=some.bounds is not None)
    [row] = _pick(release.list_rows(), (*_COUNT, *true_columns))
    row = {"count": some.counted} | row
    return Record(
        columns=tuple(row),
        rows=[row],
        facts=facts
        | {"confidence": release.confidence, "standard_error": release.standard_error}
        | ranged,
        notes=[
            INTERVAL,
            f"It holds with {format_share(release.confidence)}.",
            *capped,
            *told,
            *notes,
        ],
    )


def _describe_histogram(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    ranged, told = _describe_found(release) if some.unlisted else _describe_range(release, some)
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some, moved=some.bounds is not None)
    columns = ("item", *_COUNT, *true_columns)
    return Record(
        columns=columns,
        rows=_pick(release.list_rows(), columns),
        facts=facts | sure | {"standard_error": release.standard_error} | ranged,
        notes=[INTERVAL_OF_SELECTED if some.unlisted else INTERVAL, *worth, *capped, *told, *notes],
    )


def _describe_top(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    # Labels that were assumed public may be fewer than K, which is seen only when they are read.
    crossed, many = getattr(release, "crossed", None), len(release)
    if some.domain == "assumed public" and 0 < many < (some.k or 0) and not crossed:
        notes.append(f"{some.item} has {many} labels in all: the list has all of them.")
    more, told = _describe_threshold(some, many, crossed=crossed)
    facts, notes = facts | more, [*notes, *told]
    if some.unlisted:
        more, told = _describe_found(release, some.k)
        facts |= more
        notes = [*told, *notes]
    # A set has no ranks.
    ranked = hasattr(release, "method")
    return (_describe_list if ranked else _describe_set)(release, some, facts, notes)


def _describe_threshold(
    some: Population, many: int, *, crossed: bool | None
) -> tuple[Facts, Notes]:
    """Return whether a threshold ended a list; nothing without one."""
    if some.threshold is None:
        return {}, []
    full = "it ended nothing" if many < (some.k or 0) else "the list is full"
    ended = "the threshold ended the list" if crossed else full
    return {"crossed": crossed}, [f"Threshold: {some.threshold:.12g}; {ended}."]


def _describe_list(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return a list, best first."""
    true_columns, capped = _describe_cap(some, ordered=True)
    # In JSON and CSV there is what the estimate was made of, too.
    made_of = ("measured", "combined")
    columns = ("rank", "item", *_COUNT, "gap", *true_columns, "order_unclear", *made_of)
    measured = any(row.measured is not None for row in release)
    sure, worth = _describe_intervals(release, on_average=release.on_average)
    rows = _pick(release.list_rows(), columns)
    # People are not shown columns that say nothing where nothing was measured; programs get all of
    # them.
    empty = [name for name in columns if not measured and all(row[name] is None for row in rows)]
    return Record(
        columns=columns,
        rows=rows,
        facts=facts | {"method": release.method} | sure,
        notes=[
            *_say_estimates(release, facts, measured=measured),
            *(worth if measured else []),
            *(capped if measured else some.say_bound()),
            *([UNCLEAR] if rows else []),
            *notes,
        ],
        hidden=tuple(dict.fromkeys((*made_of, *empty))) if rows else made_of,
    )


def _describe_sums(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return the largest sums, best first: each a noisy one, of what units count as in the clip."""
    more, told = _describe_threshold(some, len(release), crossed=release.crossed)
    facts, notes = facts | more, [*told, *notes]
    if some.unlisted:
        more, told = _describe_found(release, some.k)
        facts, notes = facts | more, [*told, *notes]
    sure, worth = _describe_intervals(release, on_average=release.on_average)
    of_clip = ("clip_low", "clip_high", "capped")
    columns = ("rank", "item", *_COUNT, "gap", *of_clip, *_TRUE, "order_unclear", "measured")
    said = [LARGEST_SUMS, INTERVAL_OF_SUMS, *worth, TRUE_SUMS, UNCLEAR_SUMS]
    least = [] if some.column is None else [UNKNOWN_NUMBERS, LEAST_OF_SUMS]
    return Record(
        columns=columns,
        rows=_pick([_name_clip(row) for row in release.list_rows()], columns),
        facts=facts | {"method": release.method} | sure,
        notes=[*(said if release.rows else []), *notes, *least],
        hidden=("measured", "clip_low"),
        counts=False,
    )


def _say_estimates(release: Any, facts: Facts, *, measured: bool) -> Notes:
    """Return what a list says of its estimates and intervals."""
    if release.method == "histogram":
        return [FROM_HISTOGRAM, INTERVAL_OF_SELECTED]
    if not measured:
        return [FROM_GAPS]
    return [ONLY_MEASURED if facts.get("noise") == "gumbel" else BEFORE_SELECTION, INTERVAL]


def _describe_set(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return a set, in the order of the domain: names alone where nothing was measured."""
    facts = facts | {"set": True}
    if release.confidence is None:
        rows = _pick(release.list_rows(), ("item",))
        return Record(
            columns=("item",), rows=rows, facts=facts, notes=[A_SET, *some.say_bound(), *notes]
        )
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some)
    columns = ("item", *_COUNT, *true_columns, "measured")
    return Record(
        columns=columns,
        rows=_pick(release.list_rows(), columns),
        facts=facts | sure,
        notes=[A_SET, MEASURED_SET, INTERVAL, *worth, *capped, *notes],
        hidden=("measured",),
    )


def _describe_above(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    facts |= {"asked": release.asked, "complete": release.complete, "method": release.method}
    at = f"Threshold: {some.threshold:.12g}."
    if some.unlisted:
        more, found = _describe_found(release)
        facts |= more
        notes = [*found, at, *notes]
    else:
        further = "enough was found; items further back were not asked"
        ended = "all items were asked" if release.complete else further
        notes.append(f"{at} Asked: {release.asked}; {ended}.")
    measured = facts.get("measure_noise") is not None or any(
        row.high is not None for row in release
    )
    low = ABOVE_MEASURED if measured else ABOVE_LOW
    if release.method == "histogram":
        low = INTERVAL_OF_SELECTED
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some)
    # With one test every branch is 0.
    adaptive = any("Adaptive" in name for name in list_mechanisms(release.mechanism))
    columns = ("item", *_COUNT, "gap", *true_columns, *(["branch"] if adaptive else []))
    return Record(
        columns=columns,
        rows=_pick(release.list_rows(), columns),
        facts=facts | sure,
        notes=[
            ONLY_MEASURED if facts.get("noise") == "gumbel" else ABOVE_ESTIMATE,
            low,
            *worth,
            *capped,
            *notes,
        ],
    )


def _describe_found(release: Any, most: int | None = None) -> tuple[Facts, Notes]:
    """Return what a release of labels that nobody listed says of those that it found."""
    found, threshold = len(release), release.label_threshold
    among = "" if most is None else f" of at most {most}"
    # Without a bound on the labels of a unit the threshold hangs on a private count.
    needed = f"about {threshold} units" if threshold else "many units"
    facts = {} if threshold is None else {"label_threshold": threshold}
    notes = [
        f"Found {found}{among}: nobody listed the labels, and one needs {needed}. Of a label that "
        "is missing nothing follows: it may have fewer, or not exist."
    ]
    # Only a top has several ways to find labels.
    if why := getattr(release, "why", None):
        return facts | {"why": why}, [*notes, f"Method: {release.method}. {why}"]
    return facts, notes


def _describe_intervals(release: Any, *, on_average: bool = False) -> tuple[Facts, Notes]:
    """Return what the intervals of several rows are worth, alone and together.

    With `on_average` the share of intervals that hold is promised on average, not of each.
    """
    facts = {"confidence": release.confidence, "confidence_together": release.together}
    each = format_share(release.confidence)
    if len(release) < 2:
        return facts, [f"It holds with {each}."]
    together = (
        f"all {len(release)} together with at least {format_share(release.together)}"
        if release.together
        else "nothing is promised of all together (--simultaneous)"
    )
    if on_average:
        said = f"On average at least {each} of the intervals hold; {together}."
        return facts | {"on_average": True}, [said]
    return facts, [f"Each interval holds with {each}; {together}."]


def _describe_cap(
    some: Population, *, ordered: bool = False, moved: bool = False
) -> tuple[tuple[str, ...], Notes]:
    """Return the columns and notes about true counts, where the interval is about something else.

    It is where a unit counts for some of its rows or items only, or a count was moved into a
    declared range.

    Parameters
    ----------
    some : Population
        Which rows count.
    ordered : bool
        Whether it is said of the order, too, how clear it is.
    moved : bool
        Whether counts were moved into a declared range.
    """
    if not some.is_bounded and not moved:
        return (), []
    if not some.is_bounded:
        return _TRUE, [
            "low and high are about counts moved into the range. true_low and true_high: about the "
            "true count; empty: no end is known."
        ]
    # An item of units that touch few others may lead here, and lie behind in true counts.
    about = "low, high and order_unclear" if ordered else "low and high"
    [bound] = some.say_bound()
    return _TRUE, [
        f"{bound} {about} are about what is counted so. true_low: lower bound of the true count, "
        "as sure as the interval; it has no upper one."
    ]


def _describe_range(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return what a release within declared bounds says about its range; nothing without bounds."""
    if some.bounds is None:
        return {}, []
    (low, high), (least, most) = some.bounds, release.output_range
    told = (
        f"Published within [{format_cell(least, 2)}, {format_cell(most, 2)}]: unbiased from "
        f"{format_cell(low)} to {format_cell(high)}; what lies beyond counts as the nearer end."
    )
    return {"range_low": least, "range_high": most}, [told]


# ---- figures of a column -------------------------------------------------------------------------


def _describe_figure(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    shared, warned = _describe_numbers(release, some)
    notes = [*warned, *_say_size(release, some), *notes, *_say_lower(some), *some.say_bound()]
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
        ranged, told = _describe_range(first, some)
        said, facts = [MOVED, *told], facts | ranged
    if grouped:
        more, told = _describe_groups(release, some)
        facts, notes, columns = facts | more, [*notes, *told], ("item", *columns)
    pairs = [(row.item, row.release) for row in release] if grouped else [(None, release)]
    rows = [{"item": item} | row for item, one in pairs for row in _list_figures(one, some)]
    return Record(
        columns=columns,
        rows=_pick(rows, columns),
        facts=facts,
        notes=[*said, *notes],
        # Figures have any size, so their digits are counted from the first one that is not 0.
        counts=False,
    )


def _list_figures(release: Any, some: Population) -> list[dict[str, Any]]:
    """Return one row for each figure that was released together.

    Of several quantiles each is one.
    """
    # Several quantiles say themselves which they are; a single one does not.
    alone = some.figure == "quantile" and not _is_list(release)
    q = float(_find_first(release.mechanism).q) if alone else None
    return [{"figure": some.figure, "q": q} | _name_clip(row) for row in release.list_rows()]


def _is_list(release: Any) -> bool:
    """Tell whether a release of quantiles is one of several."""
    return hasattr(release, "__getitem__")


def _find_first(mechanism: Any) -> Any:
    # Where there are intervals, what releases the quantiles is the first of several mechanisms.
    return mechanism[0] if isinstance(mechanism, tuple) else mechanism


def _name_clip(row: Mapping[str, Any]) -> dict[str, Any]:
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
        true = _TRUE if some.is_bounded else ()
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
    what = "rows" if some.per_person is None else "units"
    what += " with these weights" if some.weighed else ""
    # With a size hint nothing was spent on their number.
    if records is not None:
        told = f"About {records:,} {what}" if some.by is None else f"records: {what} of each group"
        first, weights = _find_first(values[0].mechanism), values[0].weights
        times = 1.0 if weights is None else weights.rows_of_step
        how = f"+-{math.ceil(first.reach_of_size * times):,} with 95 %"
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
        return [*(WEIGHED_VARIANCE if some.figure == "variance" else WEIGHED)]
    clipped = CLIPPED_TOGETHER if some.clips_together else CLIPPED
    ranked = RANK_WEIGHED if some.weighed else RANK
    said = [ranked, CAPPED] if some.figure == "quantile" else [clipped, TRUE]
    if some.figure == "quantile" and _has_intervals(release):
        of_all = VALUES_WEIGHED if some.weighed else VALUES
        said.insert(0, VALUES_OF_SOME if some.is_bounded else of_all)
    if "too_few" in columns:
        said.append(TOO_FEW_OF_SUM if some.figure == "sum" else TOO_FEW)
    if some.figure in {"mean", "variance"} and "too_few" in columns:
        said.append(NO_ERROR)
    return said


def _describe_groups(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return what a release in groups says of them: what found them, and what each had."""
    facts: Facts = {}
    notes: Notes = []
    if release.label_threshold is not None:
        facts, notes = _describe_found(release, some.most_groups)
        notes.append(
            f"They were looked for with {describe_spent(list_spent(release.mechanism[0].cost))}."
        )
    if release.rows:
        each = list_spent(release.rows[0].release.cost)
        one_row = ", for one row of a unit" if some.groups_per_unit is None else ""
        what, more = (
            ("All groups together were", "")
            if some.clips_together or some.weighed
            else ("Each group was", one_row)
        )
        notes.append(f"{what} released with {describe_spent(each)}{more}.")
    return facts, notes


def _say_lower(some: Population) -> Notes:
    """Return what becomes of numbers below the public end of a column.

    Nothing where there is none.
    """
    if some.lower is None:
        return []
    what = "numbers" if some.per_person is None else "values of units"
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
    counted = "units" if some.weighed or some.per_person is not None else "rows"
    return [f"How many {counted} have a number is private, and the noise hides it."]


def _describe_numbers(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return how many rows held a number, where that was released."""
    share, notes = release.numbers_share, some.say_share(release.numbers_share)
    if share is None:
        return {}, notes
    facts = share.list_facts()
    if share.is_low:
        facts["warning"] = notes[-1].removeprefix("WARNING: ")
    return facts, notes


# ---- another look --------------------------------------------------------------------------------


def _describe_again(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    sure, worth = _describe_intervals(release)
    # Of bins units are counted.
    of_column = some.column is not None and some.counted is None
    facts |= sure | {
        "looks": len(release.looks),
        "planned": release.planned,
        "remeasures": _find_charge(release),
    }
    rows = [_name_clip(row) for row in release.list_rows()]
    labels = ("item",) if rows[0]["item"] is not None else ()
    columns = (*labels, *_COUNT, *_TRUE, "measured", "standard_error")
    columns += ("clip_low", "clip_high", "too_few") if of_column else ()
    return Record(
        columns=columns,
        rows=_pick(rows, columns),
        facts=facts,
        notes=[
            *(AGAIN, ALL if release.planned else ALONE, *([CLIPPED_AGAIN] if of_column else [])),
            *(*worth, *notes, *_say_lower(some), *some.say_bound()),
        ],
        counts=not of_column,
    )


def _find_charge(release: Any) -> str | None:
    """Return the id of the charge of the look before; None where nobody paid."""
    before = release.looks[-2]
    # What comes from a ledger is known by its charge alone.
    if (charge := getattr(before, "charge", None)) is not None:
        return str(charge)
    return None if before.receipt is None else before.receipt.id


_FIGURES = {
    "count": _describe_count,
    "count_distinct_units": _describe_count,
    "histogram": _describe_histogram,
    "value_histogram": _describe_histogram,
    "top_k": _describe_top,
    "top_set": _describe_top,
    "top_sums": _describe_sums,
    "above": _describe_above,
    "quantile": _describe_figure,
    **dict.fromkeys(TOTALS, _describe_figure),
}
"""What describes each figure of a session, by the name of its method."""
