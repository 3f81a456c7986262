"""The short form of a release: at most three lines below its table, made of its facts alone.

They say what an interval holds, of whom the figures are, and what they cost. All else that is known
stands in the notes of a record (`--details`) and in JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sordino.population import name_many, name_one, name_value, say_columns, say_lent
from sordino.record import (
    SIMULATED,
    Record,
    describe_spent,
    escape_controls,
    format_about,
    format_cell,
    format_share,
)
from sordino.results.sentences import CLIPPED_RANKS, TOTALS

Facts = Mapping[str, Any]
Rows = Sequence[Facts]

_COUNTS = frozenset(
    {
        "count",
        "count_distinct_units",
        "histogram",
        "value_histogram",
        "table",
        "top_k",
        "top_set",
        "above",
    }
)


_OF_0 = frozenset({"sum", "top_k", "top_set", "top_sums"})
"""Figures that are told from 0; of others nothing at all is told where too_few is yes."""


class Paid(NamedTuple):
    """What an account says of a release that it has paid for.

    Attributes
    ----------
    budget : float
        The epsilon of the account.
    share, more : str
        Which part of it the release took, and how many more like it fit.
    looks : str, optional
        Which part all looks took together, where a release was measured again.
    """

    budget: float
    share: str
    more: str
    looks: str | None = None


_TO = " \N{EN DASH} "


def say_short(record: Record, paid: Paid | None = None) -> list[str] | None:
    """Return at most three lines about a release of a table; None of anything else.

    Parameters
    ----------
    record : Record
        As `describe` returns it, or as a ledger has kept it.
    paid : Paid, optional
        What its account says, where somebody has asked it.
    """
    facts = record.facts
    # Older records do not say what was asked; what else there is has notes that are short.
    if not {"figure", "left_out", "unit"} <= facts.keys():
        return None
    rows = [{name: row[name] for name in record.columns} for row in record.rows]
    lines = [_say_first_line(facts, rows), _say_of_whom(facts, rows), _say_cost(facts, paid)]
    return [escape_controls(line) for line in lines if line]


def call_counted(record: Record) -> Record:
    """Return a record in which people who are counted are called as people call them."""
    facts = record.facts
    if "count" not in record.columns or "unit" not in facts:
        return record
    # Whoever may charge an account may have written what it has kept.
    people = _call_many({**facts, "unit": str(facts["unit"])})
    rows = [{**row, "count": people} if row["count"] == "units" else row for row in record.rows]
    return replace(record, rows=rows)


# ---- what the interval holds ---------------------------------------------------------------------


def _say_first_line(facts: Facts, rows: Rows) -> str:
    """Return what the ends of a row hold, how surely, and what else a column says of that."""
    if "label_threshold" not in facts and facts.get("warning") and not rows:
        return f"{facts['warning']} Nothing was spent."
    if facts["figure"] == "table":
        return _say_table(facts, rows)
    first = rows[0] if rows else {}
    said = [] if rows else ["Nothing was found."]
    if facts.get("set"):
        said.append("A set: nothing says which of them is larger.")
    if _has(rows, "low") or _has(rows, "high"):
        said.append(_say_between(facts, rows))
    elif "rank_error_low" in first:
        of = "the rows with these weights" if facts.get("weight_cap") else "the numbers"
        said.append(f"rank_error: the value is at most so many places off, in {of}, with 95%.")
    elif "gap" in first and facts["figure"] == "top_k":
        said.append("gap: lead over the next one, with noise. Nothing was measured.")
    said += _say_true_ends(facts, rows)
    said += _say_estimate(facts, rows)
    if _has_flag(rows, "tie"):
        said.append("tie: may be no larger than the next.")
    if _has_flag(rows, "too_few"):
        persons = _call_many(facts)
        few = f"not enough {persons}, or epsilon, to say anything"
        few = "cannot be told from 0" if facts["figure"] in _OF_0 else few
        said.append(f"too_few: {few}.")
    if _has_flag(rows, "capped"):
        clipped = any(row.get("clip_high") is not None for row in rows)
        end = "for a clip ended at the cap" if clipped else "ended at the end of the grid"
        said.append(f"capped: the search {end}; more may lie beyond.")
    return " ".join(said)


def _say_table(facts: Facts, rows: Rows) -> str:
    """Return how far the numbers of a cross table reach, by what they add up over."""
    # The interval of another look is that of the new one alone, unless all were settled before.
    alone = facts["release"] == "remeasure" and not facts.get("planned")
    middle, around = ("measured", "new look alone") if alone else ("estimate", "estimate")
    far: dict[str, float] = {}
    for row in rows:
        labels = zip(facts["item"], row["item"], strict=True)
        named = [name for name, part in labels if part is not None]
        what = "total" if not named else "cells"
        if 0 < len(named) < len(facts["item"]):
            what = f"each {say_columns(named)}"
        # Where both ends are moved up to 0, nothing tells how far it reaches.
        moved = row["high"] == 0 == row["low"]
        far[what] = max(far.get(what, 0.0), 0.0 if moved else row["high"] - row[middle])
    reach = ", ".join(f"{what} \u00b1 {math.ceil(one):,}" for what, one in far.items())
    together = format_share(facts["confidence_together"])
    if (facts.get("max_rows") or 1) > 1:
        reach += " (margins count appearances)"
    if facts.get("not_negative") or facts.get("whole"):
        # What is shown is another number than the one that its interval is around.
        inside = f"all intervals hold {_name_subject(facts, rows)} at once with {together}"
        said = f"Whole numbers that add up, each inside its interval ({around}, {reach}): {inside}."
        return f"{said} Estimates: --format json."
    said = f"{reach}: holds {_name_subject(facts, rows)}, all at once with {together}."
    if alone:
        said = f"Around the new look alone, {said}"
    if facts.get("not_negative") is False:
        said += " No table without negative numbers fits, so the estimates are shown."
    if facts.get("whole") is False:
        said += " No whole numbers fit, so the estimates are shown: they add up before rounding."
    return said


def _say_between(facts: Facts, rows: Rows) -> str:
    """Return what lies between the ends of an interval, and how surely."""
    about, share = _name_subject(facts, rows), format_share(facts.get("confidence") or 0.95)
    if not _has(rows, "high"):
        return f"low: {about} is at least this, with {share}."
    together, many = facts.get("confidence_together"), len(rows)
    all_rows = "; nothing is promised of all at once" if many > 1 else ""
    if many > 1 and "confidence_together" in facts:
        all_rows = (
            f"; all {many} at once with {format_share(together)}"
            if together
            else "; nothing is promised of all at once (--simultaneous)"
        )
    if facts.get("on_average"):
        return f"low to high: on average at least {share} of the intervals hold {about}{all_rows}."
    looks = ""
    if facts["release"] == "remeasure":
        looks = ", from all looks together" if facts.get("planned") else ", from the new look alone"
    parts = [name for name in ("count", "sum") if _has(rows, f"{name}_low")]
    # A person with many rows weighs less, so these are no totals of all rows.
    of = "with these weights" if facts.get("weight_cap") else "of the same rows"
    same = f" {' and '.join(parts)}: {of}, after the same capping, each with 95%." if parts else ""
    return f"low to high: holds {about} with {share}{looks}{all_rows}.{same}"


def _name_subject(facts: Facts, rows: Rows) -> str:
    """Return what an interval is about."""
    figure, person = facts["figure"], _call_one(facts)
    bounds = facts.get("bounds")
    number = "the number counted so" if _is_bounded(facts) else "the true number"
    if figure in _COUNTS:
        # Another look at a figure is within no range of its own.
        moved = None if bounds is None else f"the number moved into {_write_range(bounds)}"
        return moved or number
    if figure == "top_sums":
        what = "sum" if facts.get("column") else "number of rows"
        most = f"at most {_write_clip(rows)} in all items together"
        return f"the {what} where each {person} counts for {most}"
    weights = " with these weights" if facts.get("weight_cap") else ""
    of = " of the rows that count" if _is_bounded(facts) else ""
    if figure == "quantile":
        return f"the quantile{weights}{of}"
    if facts.get("clipped_together") and not weights:
        most = _write_clip(rows)
        all_groups = "in all groups together"
        return f"the {figure} where each {person} counts for at most {most} {all_groups}"
    within = "" if bounds is None else f", if that lies in {_write_range(bounds)},"
    value = "values" if facts.get("per_person") is None else f"what each {person} has"
    clip = _write_clip(rows, both=True)
    return f"the {figure}{weights}{of} after capping {value} to {clip}{within}"


def _write_clip(rows: Rows, *, both: bool = False) -> str:
    """Return the ends of the clip: in numbers, where they are the same in all rows."""
    names = ("clip_low", "clip_high") if both else ("clip_high",)
    clips = {tuple(row.get(name) for name in names) for row in rows}
    [ends] = clips if len(clips) == 1 else [()]
    # A kept record that somebody else has written may say anything.
    known = [end for end in ends if isinstance(end, int | float)]
    return _TO.join(map(_write_end, known) if len(known) == len(names) else names)


def _write_range(bounds: Sequence[float]) -> str:
    return _TO.join(map(_write_end, bounds))


def _write_end(end: float) -> str:
    return f"{end:,.4g}" if abs(end) < 10_000 else f"{end:,.0f}"


def _say_true_ends(facts: Facts, rows: Rows) -> list[str]:
    """Return what is known of the figure itself, where the interval is about another one."""
    if not any("true_low" in row for row in rows):
        return []
    counts = facts["figure"] in _COUNTS
    what = "number" if counts else "figure of all rows" if _is_bounded(facts) else "figure"
    what += " with these weights" if facts.get("weight_cap") else ""
    upper, given = _has(rows, "true_high"), []
    # Of a total: the ends of numbers are no more than what its owner says of them.
    if not counts and facts["figure"] not in {"variance", "quantile"}:
        given += [] if facts.get("lower") is None else [f"below {format_cell(facts['lower'])}"]
        given += ["above the cap"] if upper else []
    only = f", if nothing lies {' or '.join(given)}" if given else ""
    if upper:
        return [f"true_low to true_high: holds the true {what}{only}."]
    told = f"true_low: the true {what} is at least this{only}."
    return [told if _has(rows, "true_low") else f"The true {what}: no end is known."]


def _say_estimate(facts: Facts, rows: Rows) -> list[str]:
    """Return what is wrong with an estimate on average, where something is."""
    figure, method = facts["figure"], facts.get("method")
    if not rows:
        return []
    if facts["release"] == "remeasure":
        if facts.get("first_selected"):
            return ["estimate: from all looks but the first, whose noise selected."]
        return [] if facts.get("planned") else ["estimate: from all looks."]
    if (method == "histogram" and figure == "top_k") or figure == "top_sums":
        ranks = [CLIPPED_RANKS] if figure == "top_sums" else []
        return ["estimate: too high on average for the last rows.", *ranks]
    gaps = figure == "top_k" and not _has(rows, "low") and _has(rows, "estimate")
    above = figure == "above" or (figure == "histogram" and facts.get("threshold") is not None)
    if gaps or (above and facts.get("noise") != "gumbel"):
        return ["estimate: too high, because it was selected."]
    return []


# ---- of whom the figures are ---------------------------------------------------------------------


def _say_of_whom(facts: Facts, rows: Rows) -> str:
    """Return which rows count, what is not counted, and who listed the labels."""
    said = [_say_counted(facts), *_say_how_much(facts, rows), *_say_labels(facts)]
    if facts.get("numbers_share") is not None:
        said.append(_say_share(facts))
    left_out = [shorten_rule(rule) for rule in facts["left_out"] if isinstance(rule, str)]
    if left_out:
        said.append(f"Not counted: {', '.join(dict.fromkeys(left_out))}.")
    if rows and facts.get("warning"):
        said.append(f"WARNING: {facts['warning']}")
    return " ".join(said)


def _say_share(facts: Facts) -> str:
    """Return how many had a number, with the ends of that share, rounded outward."""
    whom = _call_many(facts) if _weighs(facts) else "rows"
    low, high = facts.get("numbers_share_low"), facts.get("numbers_share_high")
    about, ends = format_share(facts["numbers_share"]), ""
    if low is not None and high is not None:
        about = format_about(facts["numbers_share"], low, high)
        ends = f" ({math.floor(100 * low)}% to {math.ceil(100 * high)}%)"
    return f"About {about}{ends} of the {whom} had a number."


def _say_counted(facts: Facts) -> str:
    """Return who or what is counted, or whose numbers a figure is of, with the filter."""
    figure, person = facts["figure"], _call_one(facts)
    column, value = facts.get("column"), facts.get("per_person")
    most = facts["max_rows"] if _is_bounded(facts) else None
    most = None if figure in _OF_UNITS else most
    of_value = None if value is None else name_value(value, column, person)
    of_most = (
        "" if most is None else f"at most {most} {'row' if most == 1 else 'rows'} of each {person}"
    )
    more = []
    if facts.get("lent"):
        more.append(f"each {say_lent(facts['lent'])}")
    if figure == "count":
        said = f"Counts {of_most or 'rows'}"
    elif figure in _COUNTS:
        said = f"Counts {_call_many(facts)}"
        ending = "" if most == 1 else "s"
        if most is not None and figure == "table":
            # Who has several cells counts in some of them: nobody was asked which.
            more.append(f"each in at most {most} cell{ending}, drawn among its own")
        elif most is not None:
            more.append(f"each for at most {most} item{ending}")
        more += [] if of_value is None else [f"by {of_value}"]
    elif figure == "top_sums":
        said = f"{of_value[0].upper()}{of_value[1:]}" if of_value else f"Sum of {column}"
    else:
        heading = TOTALS[figure].heading if figure in TOTALS else "Quantile"
        said = f"{heading} of {of_value or column}"
        # The sum of what each adds up to is that of all.
        if figure == value == "sum":
            said = f"The sum of {column} of each {person}, added up"
        if most is not None:
            groups = facts.get("groups_per_unit")
            each = "1 group" if groups == 1 else f"{groups} groups"
            among = " in all groups together" if groups is None else f" in each of at most {each}"
            said += f", of {of_most}{among if facts.get('by') else ''}"
    if facts.get("where") is not None:
        more.insert(0, f"only rows where {facts['where']}")
    by = facts.get("by") or facts.get("item")
    return f"{', '.join([said, *more, *([] if by is None else [f'by {say_columns(by)}'])])}."


def _say_how_much(facts: Facts, rows: Rows) -> list[str]:
    """Return as how much a person counts at most, and from where numbers count as others."""
    said, person = [], _call_one(facts)
    if (cap := facts.get("weight_cap")) is not None:
        what = "groups" if facts.get("per_person") else "rows"
        where = " in all groups together" if facts.get("by") else ""
        said.append(
            f"Each {person} counts once{where}."
            if cap == 1
            else f"A {person} with more than {cap:,} {what}{where} counts as {cap:,}."
        )
    if facts.get("range_low") is not None:
        wide = _write_range((facts["range_low"], facts["range_high"]))
        said.append(f"Estimates lie within {wide}, and may lie beside their interval.")
    lower = facts.get("lower")
    # Of a total the clip says it; of the largest sums it is not shown.
    shown = facts["figure"] != "top_sums" and any("clip_low" in row for row in rows)
    if lower is not None and not shown and facts.get("column") is not None:
        said.append(f"Values below {format_cell(lower)} count as {format_cell(lower)}.")
    return said


def _say_labels(facts: Facts) -> list[str]:
    """Return who listed the labels where that is not a file, and what ended the list."""
    said, label = [], say_columns(facts.get("item")) or "label"
    if facts["figure"] == "histogram" and facts.get("asked") is not None:
        said.append(
            f"Shown: noisy counts of {facts['threshold']:,.0f} or more, of {facts['asked']:,}; "
            f"others may have {_call_many(facts)}, too."
        )
    elif facts.get("threshold") is not None:
        ended = "it ended the list" if facts.get("crossed") else ""
        if facts.get("complete") is False:
            ended = "enough was found, and later items were not asked"
        said.append(f"Threshold: {format_cell(facts['threshold'])}{f'; {ended}' if ended else ''}.")
    if facts.get("domain") == "assumed public":
        said.append(f"Labels of {label}: declared public.")
    if facts.get("label_threshold") is not None:
        many = f"about {facts['label_threshold']:,} {_call_many(facts)}"
        said.append(f"A label of {label} needs {many} to appear. A missing one tells you nothing.")
    elif _UNLISTED.search(str(facts.get("domain"))):
        said.append("A missing label tells you nothing.")
    return said


_UNLISTED = re.compile("(^|: )unlisted, delta ")
"""How a domain says that nobody listed the labels, or those of one of several columns."""
_SHORT_RULES = (
    ("lines that ", "unreadable lines"),
    ("rows without a value in any named column", "empty rows"),
    ("rows without a value in ", "rows without {}"),
    ("rows without a number in ", "rows without a number in {}"),
    ("rows of groups that ", "other groups"),
)
"""How rules by which rows are left out begin, and what they are called in few words."""


def shorten_rule(rule: str) -> str:
    """Return a rule by which rows are left out in few words; one that is not known as it is."""
    for start, short in _SHORT_RULES:
        if rule.startswith(start):
            return short.format(rule.removeprefix(start))
    if rule.startswith("rows whose "):
        label = rule.removeprefix("rows whose ")
        for end, short in (
            (" is no label of the domain", "rows with another {}"),
            (" is missing, empty or longer than 4096 characters", "rows without {}"),
        ):
            if label.endswith(end):
                return short.format(label.removesuffix(end))
    return rule


# ---- what it cost --------------------------------------------------------------------------------


def _say_cost(facts: Facts, paid: Paid | None) -> str:
    """Return what a release cost: an epsilon, and which share of what account that is."""
    said = [SIMULATED] if facts.get("simulated") else []
    several, figures = facts.get("charge_figures"), ""
    if several is not None:
        # An account knows what all of a charge has cost.
        split = "in equal parts " if facts.get("charge_split") == "equal" else ""
        figures = f", {split}for {several} figures"
        names = ("epsilon", "delta", "rho", "failures", "epsilon_asked")
        whole = {name: facts.get(f"charge_{name}") for name in names}
        facts = {**facts, **{name: one for name, one in whole.items() if name != names[-1] or one}}
    of = "" if paid is None else f" of {paid.budget:,.12g}"
    spent, *more = _list_epsilon(facts, digits=4, of=of)
    if paid is not None:
        more.insert(0, f"{paid.share} of account {facts['account']}")
    else:
        more += [f"account {facts['account']}"] if facts.get("account") else []
    beside = "; ".join(more)
    said.append(f"Spent: {spent}{f' ({beside})' if more else ''}{figures}.")
    said += [] if paid is None else [paid.more]
    looks = None if paid is None else paid.looks
    if facts.get("total_epsilon") is not None:
        looks = f"epsilon {facts['total_epsilon']:.12g}"
    said += [] if looks is None else [f"All looks together: {looks}."]
    return " ".join(said)


def _list_epsilon(facts: Facts, digits: int, of: str = "") -> list[str]:
    """Return what a release spent as an epsilon, its delta, and its noise where it is not pure.

    `of` says of how much that is.
    """
    impure = "epsilon_asked" in facts
    epsilon = facts["epsilon_asked"] if impure else facts["epsilon"]
    # A mean of several looks has no epsilon that was asked for.
    if epsilon is None:
        return [f"{describe_spent(facts)}{of}"]
    noise = name_noise(facts) if impure else ""
    fails = facts.get("failures") or facts.get("delta")
    said = f"epsilon {epsilon:.{digits}g}{of}"
    return [
        # What was asked for is a price: the epsilon of the release itself is another one.
        f"what {said} costs" if impure else said,
        *([f"delta {fails:.{digits}g}"] if fails else []),
        *([noise] if noise else []),
    ]


def name_noise(facts: Facts) -> str:
    """Return the kinds of noise that are not pure, as "Gumbel and Gaussian noise", or nothing."""
    kinds = {facts.get("noise"), facts.get("measure_noise")}
    noise = " and ".join(kind.capitalize() for kind in ("gumbel", "gaussian") if kind in kinds)
    return f"{noise} noise" if noise else ""


def describe_epsilon(facts: Facts) -> str:
    """Return what a release spent as an epsilon, with the kind of noise where it is not pure."""
    return ", ".join(_list_epsilon(facts, digits=12))


# ---- words ---------------------------------------------------------------------------------------


def _call_one(facts: Facts) -> str:
    """Return what whoever is protected is called."""
    called = facts.get("called")
    return name_one(facts["unit"], called if isinstance(called, str) else None)


def _call_many(facts: Facts) -> str:
    """Return what several of them are called."""
    return name_many(_call_one(facts))


_OF_UNITS = frozenset({"count_distinct_units", "value_histogram", "top_sums"})


def _is_bounded(facts: Facts) -> bool:
    """Whether a person counts for some rows or items only."""
    units = facts["figure"] in _OF_UNITS
    return bool(facts.get("lent")) or (facts.get("max_rows") is not None and not units)


def _weighs(facts: Facts) -> bool:
    return facts.get("weight_cap") is not None or facts.get("per_person") is not None


def _has(rows: Rows, name: str) -> bool:
    return any(row.get(name) is not None for row in rows)


def _has_flag(rows: Rows, name: str) -> bool:
    return any(row.get(name) is True for row in rows)
