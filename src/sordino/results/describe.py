"""Describes a release of a session: one record, of which every form is made that somebody reads.

The command, the ledger, studies and reports all take this record. So none of them can forget a
filter, or take an interval for one of something else. All that it says was released, or is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sordino.cost import Cost
from sordino.population import Population, say_columns
from sordino.record import (
    Record,
    describe_receipt,
    describe_spent,
    format_share,
    list_facts,
    list_mechanisms,
    list_noises,
    list_spent,
    list_total,
    list_warnings,
)
from sordino.releases import plain
from sordino.results import sentences
from sordino.results.figures import (
    COUNT_COLUMNS,
    TRUE_COLUMNS,
    Facts,
    Notes,
    describe_figure,
    describe_found,
    describe_range,
    describe_reaching,
    name_clip,
    pick,
    say_lower,
)
from sordino.results.legend import describe_epsilon

_KINDS = {
    "top_k": "top",
    "top_set": "top",
    "top_sums": "top",
    "count_distinct_units": "count",
    "value_histogram": "histogram",
}
"""What a figure is called, where the method of a session has another name."""


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


def add_parts(release: Any, names: Sequence[str]) -> Record:
    """Return the record of a mean with its `count` or `sum` beside it, each with its interval.

    What is released beside a mean has no such parts, and is described as it is.
    """
    if release.population.figure != "mean":
        return describe(release)
    record, ends = describe(release), {"": "value", "_low": "low", "_high": "high"}
    cells = [(f"{name}{end}", name, of) for name in names for end, of in ends.items()]
    each = [row.release for row in release] if release.population.by is not None else [release]
    rows = [
        {**row, **plain({cell: getattr(one.parts[name], of) for cell, name, of in cells})}
        for row, one in zip(record.rows, each, strict=True)
    ]
    columns = [*record.columns, *(cell for cell, _, _ in cells)]
    return replace(record, columns=columns, rows=rows, notes=[sentences.PARTS, *record.notes])


def describe_charge(records: Sequence[Record], cost: Cost, *, split: str) -> list[Record]:
    """Return the records of releases of one charge, each with what all of them cost.

    `split` says how the epsilon was divided: "equal", or "goal" where each has what its goal needs.
    """
    spent, many = list_spent(cost), len(records)
    asked = sum(one.facts.get("epsilon_asked") or one.facts["epsilon"] for one in records)
    spent |= _find_epsilon_asked(spent, asked)
    whole = {f"charge_{name}": value for name, value in spent.items()}
    whole |= {"charge_figures": many, "charge_split": split}
    said = f"Of one charge with {many} figures, which spent {describe_epsilon(spent)}."
    return [replace(one, facts={**one.facts, **whole}, notes=[*one.notes, said]) for one in records]


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
        called=some.called,
    )
    facts |= _find_epsilon_asked(facts, some.epsilon)
    facts |= list_noises(release.mechanism) | some.list_facts() | list_total(release)
    notes = [
        *some.say_about(),
        *some.say_left_out(),
        *some.say_lookups(),
        f"Spent: {describe_epsilon(facts)}. {' '.join(some.say_protected())}",
        *_say_meter(facts),
        *_say_noise(facts),
        *describe_receipt(release.receipt),
    ]
    if some.domain is not None:
        notes.append(f"Labels: {some.domain}.")
    if some.domain == "assumed public" and not release.cost.pure():
        # Only where nothing was drawn: those of a table without any label.
        labels = say_columns(some.by or some.item)
        facts["warning"] = f"{labels} has no label in any row, so there is nothing to release."
        notes.insert(0, f"{facts['warning']} Nothing was spent.")
    return facts, [*notes, *list_warnings(release)]


def _find_epsilon_asked(facts: Facts, asked: float | None) -> Facts:
    """Return the epsilon that was asked for, where what was spent is not just that."""
    spent = facts["epsilon"]
    # Noise without a pure epsilon was paid for with one, or noise with a larger one.
    if asked is None or not (spent is None or facts.get("rho") or spent > asked * (1 + 1e-9)):
        return {}
    return {"epsilon_asked": asked}


def _say_meter(facts: Mapping[str, Any]) -> Notes:
    """Return what a release spent, where that is no epsilon that was asked for; else nothing."""
    said = [f"By itself: {describe_spent(facts)}."] if "epsilon_asked" in facts else []
    total = {name: facts.get(f"total_{name}") for name in ("epsilon", "delta", "rho", "failures")}
    known = total["epsilon"] is not None or total["rho"] is not None
    return [*said, *([f"All looks together: {describe_spent(total)}."] if known else [])]


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
    ranged, told = describe_range(release, some)
    true_columns, capped = _describe_cap(some, moved=some.bounds is not None)
    [row] = pick(release.list_rows(), (*COUNT_COLUMNS, *true_columns))
    row = {"count": some.counted} | row
    return Record(
        columns=tuple(row),
        rows=[row],
        facts=facts
        | {"confidence": release.confidence, "standard_error": release.standard_error}
        | ranged,
        notes=[
            sentences.INTERVAL,
            f"It holds with {format_share(release.confidence)}.",
            *capped,
            *told,
            *notes,
        ],
    )


def _describe_histogram(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    # Who is shown was chosen by the same noise.
    chosen = some.unlisted or release.threshold is not None
    if some.unlisted:
        ranged, told = describe_found(release)
    elif chosen:
        ranged, told = describe_reaching(len(release), release.threshold, release.asked)
    else:
        ranged, told = describe_range(release, some)
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some, moved=some.bounds is not None)
    columns = ("item", *COUNT_COLUMNS, *true_columns)
    return Record(
        columns=columns,
        rows=pick(release.list_rows(), columns),
        facts=facts | sure | {"standard_error": release.standard_error} | ranged,
        notes=[
            *([sentences.ABOVE_ESTIMATE] if release.threshold is not None else []),
            sentences.INTERVAL_OF_SELECTED if chosen else sentences.INTERVAL,
            *(*worth, *capped, *told, *notes),
        ],
    )


def _describe_table(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return a cross table: its cells, then margins and total, in which no label stands for all.

    Or another look at one.
    """
    again = hasattr(release, "planned")
    true_columns, capped = _describe_cap(some)
    if true_columns:
        [bound] = some.say_bound()
        told_of_true = sentences.OF_TABLES if some.max_rows == 1 else sentences.APPEARANCES
        capped = [f"{bound} low and high are about what is counted so.", told_of_true]
    if again:
        true_columns = TRUE_COLUMNS
    names = [some.item] if isinstance(some.item, str) else list(some.item or ())
    told, columns = [sentences.ADDS_UP], ["item"]
    # Each holds with that at least: cells, margins and the total have levels of their own.
    facts |= {"confidence": release.together, "confidence_together": release.together}
    # A column alone is a list of one, as its labels are.
    # Of a cell: sums are of several, and have more.
    error = release.rows[0].standard_error if again else release.standard_error
    facts |= {"item": names, "cell_standard_error": error}
    if again:
        facts |= _describe_looks(release)
        told = [sentences.TABLE_AGAIN, sentences.ALL if release.planned else sentences.ALONE]
    elif release.measured:
        facts["margins"] = _name_margins(names, release.measured)
        told = [f"{sentences.MEASURED_MARGINS} Measured: cells, {', '.join(facts['margins'])}."]
    not_negative = (release.base.request if again else release).not_negative
    shown = any(row.published is not None for row in release)
    if not_negative or again or release.measured:
        columns.append("published")
        facts["not_negative" if not_negative else "whole"] = shown
        words = (
            (sentences.NOT_NEGATIVE, sentences.NEGATIVE)
            if not_negative
            else (sentences.WHOLE, sentences.NOT_WHOLE)
        )
        told.append(words[0] if shown else words[1])
    columns += [*COUNT_COLUMNS, *true_columns, *(("measured", "standard_error") if again else ())]
    return Record(
        columns=tuple(columns),
        rows=pick(release.list_rows(), columns),
        facts=facts,
        notes=[
            *([] if again or release.measured else [sentences.INTERVAL]),
            *told,
            *capped,
            *notes,
        ],
        # Programs find the column always; people where there is something in it.
        hidden=() if shown else ("published",),
    )


def _name_margins(names: list[str], measured: Sequence[Sequence[int]]) -> list[str]:
    """Return which margins of a table were measured, by the columns that they are of."""
    kept = [[name for axis, name in enumerate(names) if axis not in axes] for axes in measured]
    return [say_columns(own) or "" if own else "total" for own in kept if len(own) < len(names)]


def _describe_top(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    # Labels that were assumed public may be fewer than K, which is seen only when they are read.
    crossed, many = getattr(release, "crossed", None), len(release)
    if some.domain == "assumed public" and 0 < many < (some.k or 0) and not crossed:
        notes.append(
            f"{say_columns(some.item)} has {many} labels in all: the list has all of them."
        )
    more, told = _describe_threshold(some, many, crossed=crossed)
    facts, notes = facts | more, [*notes, *told]
    if some.unlisted:
        more, told = describe_found(release, some.k)
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
    # Where no label was found, nothing was compared with it.
    said = "" if crossed is None else f"; {ended}"
    return {"crossed": crossed}, [f"Threshold: {some.threshold:.12g}{said}."]


def _describe_list(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return a list, best first."""
    true_columns, capped = _describe_cap(some, ordered=True)
    # In JSON and CSV there is what the estimate was made of, too.
    made_of = ("measured", "combined")
    columns = ("rank", "item", *COUNT_COLUMNS, "gap", *true_columns, "tie", "too_few", *made_of)
    measured = any(row.measured is not None for row in release)
    sure, worth = _describe_intervals(release, on_average=release.on_average)
    rows = pick(release.list_rows(), columns)
    # People are not shown columns that say nothing where nothing was measured; programs get all of
    # them.
    empty = [name for name in columns if not measured and all(row[name] is None for row in rows)]
    few, no_flag = _say_few(rows)
    return Record(
        columns=columns,
        rows=rows,
        facts=facts | {"method": release.method} | sure,
        notes=[
            *_say_estimates(release, facts, measured=measured),
            *(worth if measured else []),
            *(capped if measured else some.say_bound()),
            *([sentences.UNCLEAR] if rows else []),
            *few,
            *notes,
        ],
        hidden=tuple(dict.fromkeys((*made_of, *(empty if rows else ()), *no_flag))),
    )


def _describe_sums(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return the largest sums, best first: each a noisy one, of what units count as in the clip."""
    more, told = _describe_threshold(some, len(release), crossed=release.crossed)
    facts, notes = facts | more, [*told, *notes]
    if some.unlisted:
        more, told = describe_found(release, some.k)
        facts, notes = facts | more, [*told, *notes]
    sure, worth = _describe_intervals(release, on_average=release.on_average)
    of_clip = ("clip_low", "clip_high", "capped")
    columns = (
        "rank",
        "item",
        *COUNT_COLUMNS,
        "gap",
        *of_clip,
        *TRUE_COLUMNS,
        "tie",
        "too_few",
        "measured",
    )
    said = [
        sentences.LARGEST_SUMS,
        sentences.CLIPPED_RANKS,
        sentences.INTERVAL_OF_SUMS,
        *worth,
        sentences.TRUE_SUMS,
        sentences.UNCLEAR_SUMS,
    ]
    least = [] if some.column is None else [sentences.UNKNOWN_NUMBERS, sentences.LEAST_OF_SUMS]
    rows = pick([name_clip(row) for row in release.list_rows()], columns)
    few, no_flag = _say_few(rows)
    return Record(
        columns=columns,
        rows=rows,
        facts=facts | {"method": release.method} | sure,
        notes=[*(said if release.rows else []), *few, *notes, *least],
        hidden=("measured", "clip_low", *no_flag),
        counts=False,
    )


def _say_few(rows: Sequence[Facts]) -> tuple[Notes, tuple[str, ...]]:
    """Return what is said of a flag that some row has, or that people are not shown it."""
    # Programs get it all the same.
    return (
        ([sentences.TOO_FEW_OF_LIST], ())
        if any(row["too_few"] for row in rows)
        else ([], ("too_few",))
    )


def _say_estimates(release: Any, facts: Facts, *, measured: bool) -> Notes:
    """Return what a list says of its estimates and intervals."""
    if release.method == "histogram":
        return [sentences.FROM_HISTOGRAM, sentences.INTERVAL_OF_SELECTED]
    if not measured:
        return [sentences.FROM_GAPS]
    return [
        sentences.ONLY_MEASURED if facts.get("noise") == "gumbel" else sentences.BEFORE_SELECTION,
        sentences.INTERVAL,
    ]


def _describe_set(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    """Return a set, in the order of the domain: names alone where nothing was measured."""
    facts = facts | {"set": True}
    if release.confidence is None:
        rows = pick(release.list_rows(), ("item",))
        return Record(
            columns=("item",),
            rows=rows,
            facts=facts,
            notes=[sentences.A_SET, *some.say_bound(), *notes],
        )
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some)
    columns = ("item", *COUNT_COLUMNS, *true_columns, "too_few", "measured")
    rows = pick(release.list_rows(), columns)
    few, no_flag = _say_few(rows)
    return Record(
        columns=columns,
        rows=rows,
        facts=facts | sure,
        notes=[
            sentences.A_SET,
            sentences.MEASURED_SET,
            sentences.INTERVAL,
            *worth,
            *capped,
            *few,
            *notes,
        ],
        hidden=("measured", *no_flag),
    )


def _describe_above(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    facts |= {"asked": release.asked, "complete": release.complete, "method": release.method}
    at = f"Threshold: {some.threshold:.12g}."
    if some.unlisted:
        more, found = describe_found(release)
        facts |= more
        notes = [*found, at, *notes]
    else:
        further = "enough was found; items further back were not asked"
        ended = "all items were asked" if release.complete else further
        if release.method == "histogram":
            ended += ", so -c (positives) ended nothing"
        notes.append(f"{at} Asked: {release.asked}; {ended}.")
    measured = facts.get("measure_noise") is not None or any(
        row.high is not None for row in release
    )
    low = sentences.ABOVE_MEASURED if measured else sentences.ABOVE_LOW
    if release.method == "histogram":
        low = sentences.INTERVAL_OF_SELECTED
    sure, worth = _describe_intervals(release)
    true_columns, capped = _describe_cap(some)
    # With one test every branch is 0.
    adaptive = any("Adaptive" in name for name in list_mechanisms(release.mechanism))
    columns = ("item", *COUNT_COLUMNS, "gap", *true_columns, *(["branch"] if adaptive else []))
    return Record(
        columns=columns,
        rows=pick(release.list_rows(), columns),
        facts=facts | sure,
        notes=[
            sentences.ONLY_MEASURED if facts.get("noise") == "gumbel" else sentences.ABOVE_ESTIMATE,
            low,
            *worth,
            *capped,
            *notes,
        ],
    )


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
        return TRUE_COLUMNS, [
            "low and high are about counts moved into the range. true_low and true_high: about the "
            "true count; empty: no end is known."
        ]
    # An item of units that touch few others may lead here, and lie behind in true counts.
    about = "low, high and tie" if ordered else "low and high"
    [bound] = some.say_bound()
    return TRUE_COLUMNS, [
        f"{bound} {about} are about what is counted so. true_low: lower bound of the true count, "
        "as sure as the interval; it has no upper one."
    ]


# ---- another look --------------------------------------------------------------------------------


def _describe_again(release: Any, some: Population, facts: Facts, notes: Notes) -> Record:
    if some.figure == "table":
        return _describe_table(release, some, facts, notes)
    sure, worth = _describe_intervals(release)
    # Of bins units are counted.
    of_column = release.rows[0].clip is not None
    facts |= sure | _describe_looks(release)
    rows = [name_clip(row) for row in release.list_rows()]
    labels = ("item",) if rows[0]["item"] is not None else ()
    columns = (*labels, *COUNT_COLUMNS, *TRUE_COLUMNS, "measured", "standard_error")
    columns += ("clip_low", "clip_high", "too_few") if of_column else ()
    return Record(
        columns=columns,
        rows=pick(rows, columns),
        facts=facts,
        notes=[
            *(sentences.AGAIN_BUT_FIRST if facts.get("first_selected") else sentences.AGAIN,),
            *(
                sentences.ALL if release.planned else sentences.ALONE,
                *([sentences.CLIPPED_AGAIN] if of_column else []),
            ),
            *(*worth, *notes, *(say_lower(some) if of_column else ()), *some.say_bound()),
        ],
        counts=not of_column,
    )


def _describe_looks(release: Any) -> Facts:
    """Return how many looks there are, whether they were settled before, and the one before."""
    charge = _find_charge(release)
    said = {"looks": len(release.looks), "planned": release.planned, "remeasures": charge}
    return said | ({"first_selected": True} if release.first_selected else {})


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
    "table": _describe_table,
    "top_k": _describe_top,
    "top_set": _describe_top,
    "top_sums": _describe_sums,
    "above": _describe_above,
    "quantile": describe_figure,
    **dict.fromkeys(sentences.TOTALS, describe_figure),
}
"""What describes each figure of a session, by the name of its method."""
