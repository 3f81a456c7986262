"""Says plainly, to readers without statistics, what was asked, what came out and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sordino.charts.figure import as_number
from sordino.estimators.column_release import FEW
from sordino.population import name_many, name_one, name_value, say_lent
from sordino.record import format_about
from sordino.report.markup import Markup, cut, element, join, quote
from sordino.report.read import LOOKED_AGAIN, ReportedRelease
from sordino.results.sentences import TOTALS
from sordino.tabular import MOVED, MOVED_OF_SOME, MOVED_TOGETHER, MOVED_WEIGHED

_MINUS = "\N{MINUS SIGN}"
"""No hyphen: no line ends behind it."""
_ALL = 15
"""Digits of a number that was rounded before: those that a float has."""
_DASH = "\N{EN DASH}"
_SHOWN = 3
"""So many labels of a list are named in one line."""
_ENDS = ("estimate", "low", "high", "true_low", "true_high")
TOO_FEW = "too few numbers to tell"
_MOST_CALLED = 40
_MOST_OF_FILTER = 1 << 16
"""Letters of a filter, more than anybody types: beyond, a page says how many there are."""


def say_number(value: Any, digits: int = 6) -> str:
    """Return a number as people write it, with so many digits at least if it is no whole number."""
    number = as_number(value)
    if number is None:
        return "unknown"
    size = abs(number)
    if size >= 1e15 or 0 < size < 1e-6:
        return f"{number:.{digits}g}".replace("-", _MINUS)
    known = digits - 1 - math.floor(math.log10(size)) if size else 0
    places = 0 if number.is_integer() else max(0, min(12, known))
    text = f"{number:,.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", _MINUS)


def say_interval(row: Mapping[str, Any]) -> str:
    """Return the interval of a row; empty where there is none."""
    low, high = as_number(row.get("low")), as_number(row.get("high"))
    # Of a narrow one six digits would be an end that lies within.
    if low is not None and high is not None:
        return f"{say_number(low, _ALL)} to {say_number(high, _ALL)}"
    if low is not None:
        return f"at least {say_number(low, _ALL)}"
    return "" if high is None else f"at most {say_number(high, _ALL)}"


def say_figure(row: Mapping[str, Any]) -> str:
    """Return the figure of a row with its interval."""
    interval = say_interval(row)
    estimate = row.get("estimate")
    if estimate is None:
        return interval
    return f"{say_number(estimate)} ({interval})" if interval else say_number(estimate)


def say_roughly(row: Mapping[str, Any]) -> str:
    """Return a row's figure with its interval, with no more digits than that interval is worth."""
    return say_figure(round_row(row))


def round_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row whose figure and interval have no more digits than the interval is worth.

    The ends are rounded outward: nothing more is promised. An estimate keeps its first two digits.
    """
    # Whole numbers that add up do so in all of their digits.
    if row.get("published") is not None:
        return row
    estimate, low, high = (as_number(row.get(name)) for name in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None or not 0 < high - low < 1e15:
        return row
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    # Of counts nothing is left behind the point but what they are.
    if step < 1 and all(number.is_integer() for number in (estimate, low, high)):
        step = 1.0
    ends = {"low": math.floor(low / step) * step, "high": math.ceil(high / step) * step}
    rounded = {name: _round_to(number, step) for name, number in ends.items()}
    kept = _round_to(round(estimate / step) * step, step)
    return {"estimate": float(f"{estimate:.1e}") if abs(estimate) < 10 * step else kept} | rounded


def _round_to(number: float, step: float) -> float:
    """Return a multiple of a power of ten without what floats add behind it."""
    return round(number, max(0, -math.floor(math.log10(step))))


def say_true_end(row: Mapping[str, Any], name: str) -> str:
    """Return an end of the true figure with as many digits as the interval, rounded outward."""
    end, low, high = (as_number(row.get(one)) for one in (name, "low", "high"))
    if end is None or low is None or high is None or not 0 < high - low < 1e15:
        return say_number(end, _ALL)
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    whole = math.floor(end / step) if name == "true_low" else math.ceil(end / step)
    return say_number(_round_to(whole * step, step), _ALL)


def say_share(share: float) -> str:
    """Return a share in percent, rounded down: nothing more is promised."""
    return f"{math.floor(share * 10_000 + 1e-6) / 100:.12g}%"


def name_people(told: ReportedRelease, *, several: bool = False) -> Markup:
    """Return whom a release protects, as a noun: "row", "person", or as its owner calls them."""
    return join(call_people(told, several=several))


def call_people(told: ReportedRelease, *, several: bool = False) -> str:
    """Return that noun as a plain text."""
    called = told.text("called")
    one = name_one(told.text("unit") or "", None if called is None else cut(called, _MOST_CALLED))
    return name_many(one) if several else one


def name_release(told: ReportedRelease) -> Markup:
    """Return a heading of a few words."""
    item, column = told.text("item"), find_heading(told)
    many = len(told.rows)
    threshold = told.number("threshold")
    limit = "the threshold" if threshold is None else say_number(threshold)
    names: dict[str, Markup] = {
        **{name: join(one.heading, _say_of(column)) for name, one in TOTALS.items()},
        "quantile": join(
            "Median" if is_median(told) else "Quantiles" if many > 1 else "Quantile",
            _say_of(column),
        ),
        "top": join(f"The {many} most common values", _say_of(item))
        if not ranks_sums(told)
        else join(f"The {many} values", _say_of(item), " with ", _name_measure(told)),
        "set": join(f"The {many} most common values", _say_of(item), ", in no order"),
        "above": join("Values", _say_of(item), " above ", limit),
        "histogram": join("Counts", _say_of(column)),
        "count": _name_count(told),
        "select": join(f"The best {many} of {say_number(told.number('candidates'))} candidates"),
    }
    named = names.get(told.kind, join("Release: ", quote(told.kind)))
    grouped = item is not None and told.kind in {"quantile", "histogram", *TOTALS}
    named = join(named, " by ", quote(item)) if grouped else named
    named = join(named, ", measured again") if told.facts.get("release") in LOOKED_AGAIN else named
    # In a study each release has a name of its own.
    own = told.text("name") if "study" in told.facts else None
    return named if own is None else join(quote(own), ": ", named)


def ranks_sums(told: ReportedRelease) -> bool:
    """Tell whether a list is of the largest sums, and not of what most units have."""
    return told.facts.get("figure") == "top_sums"


def _name_measure(told: ReportedRelease) -> Markup:
    column = told.text("column")
    return join("the most rows") if column is None else join("the largest sums", _say_of(column))


def _say_of(name: str | None) -> Markup | None:
    return None if name is None else join(" of ", quote(name))


def _name_count(told: ReportedRelease) -> Markup:
    counted = told.rows[0].get("count") if told.rows else None
    # A release in memory does not say what it has counted.
    return join("A count") if counted is None else join("How many ", _name_counted(told))


def _name_counted(told: ReportedRelease) -> Markup:
    counted = told.rows[0].get("count") if told.rows else None
    return join("rows") if counted != "units" else name_people(told, several=True)


def say_question(told: ReportedRelease) -> Markup:
    """Return one sentence: what was asked."""
    item, column = told.text("item"), _find_asked(told)
    units = name_people(told, several=True)
    # Where nothing bounds it, each unit counts once for an item.
    things = _name_things(item, "values")
    many = f"{len(told.rows):,}"
    if ranks_sums(told):
        said = join(f"The {many} ", things, " with ", _name_measure(told), ", the largest first.")
    elif told.kind == "top":
        said = join(f"The {many} ", things, " of the most ", units, ", the most common first.")
    elif told.kind == "set":
        said = join(
            f"The {many} ",
            things,
            " of the most ",
            units,
            ". Nothing says which of them is the most common.",
        )
    elif told.kind == "above":
        threshold = told.number("threshold")
        limit = "the threshold" if threshold is None else f"about {say_number(threshold)}"
        said = join(
            _name_things(item, "Values"),
            f" that more than {limit} ",
            units,
            " have: ",
            f"{many} were found.",
        )
    elif told.kind == "histogram" and column is not None:
        said = join("How many ", units, f" are in each of {many} bins, by ", quote(column), ".")
    elif told.kind == "histogram" and (asked := told.number("asked")) is not None:
        least = say_number(told.number("threshold"))
        said = join(
            f"Which of {say_number(asked)} ",
            things,
            f" have a noisy count of {least} or more, and how many ",
            units,
            f" have each of them: {many} are shown. Others may have ",
            units,
            ", too.",
        )
    elif told.kind == "histogram":
        said = join("For each of ", f"{many} ", things, ": how many ", units, " have it.")
    elif told.kind == "count":
        said = (
            join(_name_count(told), " there are." if "count" in told.rows[0] else ".")
            if told.rows
            else join()
        )
    elif told.kind == "quantile":
        said = join(
            "Below which number half of the values of "
            if is_median(told)
            else "Below which number a given share of the values of ",
            _name_column(column),
            " lie." if is_median(told) else " lies.",
        )
    elif told.kind in TOTALS:
        said = join(TOTALS[told.kind].question, " ", _name_column(column), ".")
    elif told.kind == "select":
        said = join("Which candidates have the best score, by a private score for each.")
    else:
        return join()
    grouped = item is not None and told.kind in {"quantile", *TOTALS}
    where, bound = _say_where(told), _say_bound(told)
    return join(
        said,
        *((" One for each value of ", quote(item), ".") if grouped and item is not None else ()),
        None if where is None else join(" Only rows where ", where, " count."),
        None if bound is None else join(" Counts ", bound, "."),
    )


def _say_where(told: ReportedRelease) -> Markup | None:
    """Return the filter of the rows, as it was written; None where there is none."""
    where = told.text("where")
    return None if where is None else write_filter(where)


def write_filter(where: str) -> Markup:
    """Return a filter of rows: as long as it was written, or nobody could tell whom it is about."""
    return element("code", quote(where, _MOST_OF_FILTER))


def _say_bound(told: ReportedRelease) -> Markup | None:
    """Return how much of each unit counts.

    None where all of it does, or nothing is said of that.
    """
    most, lent = told.number("max_rows"), told.texts("lent")
    by_row = quote(say_lent(lent)) if lent else None
    if most is None or not counts_some(told):
        return join(f"each {call_people(told)} ", by_row) if lent else None
    what = _name_counted_part(told)
    many = f"at most {say_number(most)} {what}{'' if most == 1 else 's'}"
    said = join(f"{many} of each {call_people(told)}", _say_in_groups(told))
    return join(said, ", ", by_row) if lent else said


def counts_some(told: ReportedRelease) -> bool:
    """Tell whether only some rows or items of each unit count, so figures of all may differ."""
    # A number of units is that of all of them.
    units = told.kind == "count" and all(row.get("count") == "units" for row in told.rows)
    units = units or told.facts.get("figure") == "count_distinct_units"
    return bool(told.texts("lent")) or (told.number("max_rows") is not None and not units)


def list_drawn(told: ReportedRelease) -> Sequence[Mapping[str, Any]]:
    """Return rows as pictures show them: no line around a true number of which nothing is told.

    Of an older file the interval may be about some rows of each unit, with no other ends beside it.
    """
    # No line, and no dot, of what too few numbers say.
    rows = [
        {**row, **dict.fromkeys(_ENDS)} if tells_nothing(row, told) else row for row in told.rows
    ]
    if not counts_some(told):
        return rows
    return [{"true_low": None, "true_high": None, **row} for row in rows]


def is_about_all(told: ReportedRelease) -> bool:
    """Tell whether intervals are about the figure of all rows: an older file may not say it."""
    return told.knows_rows and not counts_some(told) and told.number("weight_cap") is None


def _name_things(item: str | None, word: str) -> Markup:
    return (
        join(f"{word} of ", quote(item))
        if item is not None
        else join("Labels" if word[0] == "V" else "labels")
    )


def _name_column(column: str | None) -> Markup:
    return join("a column") if column is None else quote(column)


def _find_asked(told: ReportedRelease) -> str | None:
    """Return the column that was asked about, or what one number of each unit is made of it."""
    per_person, column = told.text("per_person"), told.text("column")
    return column if per_person is None else name_value(per_person, column)


def find_heading(told: ReportedRelease) -> str | None:
    """Return the column that a heading names: the sum of what each adds up to is that of all."""
    twice = (told.kind, told.text("per_person")) == ("sum", "sum")
    return told.text("column") if twice else _find_asked(told)


def say_numbers_share(told: ReportedRelease) -> str | None:
    """Return how many of the rows, or people, held a number; None where nothing was asked."""
    if "numbers_share" not in told.facts:
        return None
    of_rows = told.text("per_person") is None and told.number("weight_cap") is None
    who = "rows" if of_rows else call_people(told, several=True)
    share, low, high = (
        told.number(name) for name in ("numbers_share", "numbers_share_low", "numbers_share_high")
    )
    if share is None or low is None or high is None:
        return f"How many of the {who} held a number cannot be told: the figure may be about few."
    # An upper end is rounded up: nothing less is promised.
    ends = f"{say_share(low)} to {say_share(min(1.0, high + 1e-4))}"
    said = f"About {format_about(share, low, high)} of the {who} that count held a number ({ends})"
    few = told.text("warning") is not None and low < FEW
    return f"{said}: the figure may be about few of them." if few else f"{said}."


def say_headline(told: ReportedRelease) -> Markup:
    """Return what came out, in one line."""
    if not told.rows:
        return join("nothing was found")
    # Of a series the figure is a total.
    rows = [{"estimate": row["total"], **row} if "total" in row else row for row in told.rows]
    named = [row for row in rows if _find_label(row) is not None]
    running = [row for row in rows if row.get("part") and row.get("estimate") is not None]
    if named:
        parts = [_say_named(row, told) for row in named]
    elif running:
        last = running[-1]
        parts = [join(say_roughly(last), " up to ", quote(str(last["part"])))]
    elif _list_shares(told) and not is_median(told):
        parts = [
            join(
                f"{say_number(100 * q)}% lie below ",
                TOO_FEW if tells_nothing(row, told) else say_roughly(row),
            )
            for row, q in _list_shares(told)
        ]
    else:
        parts = [
            join(TOO_FEW if tells_nothing(row, told) else say_roughly(row))
            for row in told.rows
            if row.get("estimate") is not None
        ]
    if not parts:
        return join(f"{len(told.rows):,} rows")
    listed = [piece for part in parts[:_SHOWN] for piece in ("; ", part)][1:]
    return join(*listed, "; …" if len(parts) > _SHOWN else None, *_list_doubts(told))


def _list_doubts(told: ReportedRelease) -> Iterator[str | Markup]:
    """Yield what a reader of the first screen must know beside the figures."""
    cap = told.number("weight_cap")
    if is_clipped(told):
        ends = {
            (as_number(row.get("clip_low")), as_number(row.get("clip_high"))) for row in told.rows
        }
        [(low, high), *others] = ends
        low, high = (None, None) if others else (low, high)
        known = low is not None and high is not None
        which = f" to {say_ends(low, high)}" if known else ""
        if is_clipped_together(told):
            most = f", at {say_number(high)}" if known else ""
            yield f", after capping what each {call_people(told)} adds up to{most}"
        else:
            own = ", to ends of its own in each group" if told.facts.get("own_clips") else ""
            yield f", after capping values{own or which}"
    if cap is not None:
        many = "groups" if told.text("per_person") is not None else "rows"
        most = f"no {call_people(told)} counts as more than {say_number(cap)} {many}"
        yield f", where {f'each {call_people(told)} counts once' if cap == 1 else most}"
    if told.facts.get("limited_by_grid") or any(row.get("limited_by_grid") for row in told.rows):
        yield ", as exact as a grid of values allows, and less so than the noise would"
    threshold = told.number("threshold")
    if told.kind in {"top", "above"} and threshold is not None:
        yield f", of those above {say_number(threshold)}"
    where, bound = _say_where(told), _say_bound(told)
    if where is not None:
        yield join(", only where ", where)
    if bound is not None:
        yield join(", counting ", bound)
        # As few digits as the interval is worth, and rounded down.
        lows = [round_row({**row, "low": row.get("true_low")}).get("low") for row in told.rows]
        if len(lows) == 1 and as_number(lows[0]) is not None:
            yield f"; at least {say_number(lows[0])} in all"
        else:
            yield "; figures of all rows may differ"
    yield from _list_unclear(told)


def _list_unclear(told: ReportedRelease) -> Iterator[str]:
    """Yield what is not known of the items of a list."""
    # Of the last one it is unclear whether it leads over those that are not named.
    *first, last = (row.get("tie") is True for row in told.rows)
    if any(first):
        yield f"; {'all' if all(first) else 'some'} may be ties"
    if last:
        yield "; others may belong among them"
    if names_nobody(told):
        yield "; some cannot be told from none"


def say_ends(low: float | None, high: float | None) -> str:
    """Return two ends, between which numbers were capped."""
    return f"{say_number(low)}{_DASH}{say_number(high)}"


def names_nobody(told: ReportedRelease) -> bool:
    """Tell whether a list names what may be had by nobody."""
    return told.kind in {"top", "set"} and any(row.get("too_few") is True for row in told.rows)


def tells_nothing(row: Mapping[str, Any], told: ReportedRelease) -> bool:
    """Tell whether there are too few numbers behind a figure.

    A sum of few, and what stands in a list, is one all the same, with an interval around 0.
    """
    return row.get("too_few") is True and told.kind not in {"sum", "top", "set"}


def _say_named(row: Mapping[str, Any], told: ReportedRelease) -> Markup:
    share = as_number(row.get("q"))
    estimate = round_row(row).get("estimate")
    if estimate is None:
        return quote(_find_label(row))
    if tells_nothing(row, told):
        return join(quote(_find_label(row)), f": {TOO_FEW}")
    if share is None or is_median(told):
        # With its range: a figure that is nothing but noise looks like any other.
        return join(quote(_find_label(row)), ": ", say_roughly(row))
    return join(
        quote(_find_label(row)), f": {say_number(100 * share)}% below {say_number(estimate)}"
    )


def is_median(told: ReportedRelease) -> bool:
    """Tell whether a release is of medians alone."""
    return {share for _, share in _list_shares(told)} == {0.5}


def _list_shares(told: ReportedRelease) -> list[tuple[Mapping[str, Any], float]]:
    rows = told.rows if told.kind == "quantile" else ()
    return [(row, q) for row in rows if (q := as_number(row.get("q"))) is not None]


def _find_label(row: Mapping[str, Any]) -> Any:
    return next((row[name] for name in ("item", "label") if row.get(name) is not None), None)


def say_certainty(told: ReportedRelease) -> str:
    """Return what the intervals are worth; empty where nothing is said of that."""
    each, together = told.number("confidence"), told.number("confidence_together")
    together = told.number("together") if together is None else together
    if is_clipped(told):
        return _say_clipped(told, each)
    if each is None:
        return ""
    if not any(say_interval(row) for row in told.rows):
        # Of quantiles it is the rank that is bounded.
        ranked = any(row.get("rank_error_high") is not None for row in told.rows)
        said = (
            "Its rank among the rows that count is wrong by no more than the table says, with a "
            "probability"
        )
        return f"{said} of {say_share(each)}." if ranked else ""
    figure = "true figure" if is_about_all(told) else "figure of the rows that count"
    if told.number("weight_cap") is not None:
        figure = "figure of rows with these weights"
    if isinstance(told.facts.get("bounds"), list | tuple):
        figure += ", moved into the range,"
    other = "" if is_about_all(told) else f" {_say_others(told)}"
    if len(told.rows) == 1:
        return f"The interval contains the {figure} with a probability of {say_share(each)}.{other}"
    said = f"Each interval contains its {figure} with a probability of {say_share(each)}"
    if is_on_average(told):
        said = f"On average {say_share(each)} of the intervals contain their {figure}"
    if together is None or not together:
        return f"{said}; nothing is promised of all together.{other}"
    return (
        f"{said}; all {len(told.rows):,} hold together with at least {say_share(together)}.{other}"
    )


def _say_others(told: ReportedRelease) -> str:
    """Return what is known of all rows, where an interval is about some of them."""
    if told.number("weight_cap") is not None:
        return "The figure of all rows, each counted once, may differ."
    if not counts_some(told):
        return "Which rows count, and how many of each person, the file does not say."
    if any(_lies_lower(row) for row in told.rows):
        return (
            'A true figure may be higher: it is at least that of the column "true number at least".'
        )
    return "The figure of all rows may differ: how far is not known."


def _lies_lower(row: Mapping[str, Any]) -> bool:
    """Tell whether a row has a lower end of the true figure beside that of its interval."""
    true_low = as_number(row.get("true_low"))
    return true_low is not None and true_low != as_number(row.get("low"))


def is_on_average(told: ReportedRelease) -> bool:
    """Tell whether the promised share of intervals holds on average.

    Of the best of a noisy histogram.
    """
    said = told.facts.get("on_average")
    if isinstance(said, bool):
        return said
    # Older files do not say it.
    found = told.kind == "top" and told.text("method") == "histogram"
    return (
        found and told.facts.get("crossed") is not True and told.number("label_threshold") is None
    )


def _say_clipped(told: ReportedRelease, each: float | None) -> str:
    which = "The interval contains" if len(told.rows) == 1 else "Each interval contains"
    sure = "" if each is None else f" with a probability of {say_share(each)}"
    if is_on_average(told):
        which, sure = f"On average {say_share(each or 0.0)} of the intervals contain", ""
    if told.number("weight_cap") is not None:
        return f"{which}{sure} {MOVED_WEIGHED}"
    if is_clipped_together(told):
        return f"{which}{sure} {MOVED_TOGETHER}"
    return f"{which}{sure} {MOVED if is_about_all(told) else MOVED_OF_SOME}"


def is_clipped_together(told: ReportedRelease) -> bool:
    """Tell whether one clip is of what a unit adds up to in all groups."""
    # Of weighed rows each number is clipped by itself.
    weighed = told.number("weight_cap") is not None
    return told.facts.get("clipped_together") is True and not weighed


def is_clipped(told: ReportedRelease) -> bool:
    """Tell whether intervals are about numbers that were moved between two ends first."""
    return any(row.get("clip_high") is not None for row in told.rows)


def say_neighbors(told: ReportedRelease) -> Markup | None:
    """Return what "protected" means here, in one sentence."""
    adjacency, most = told.text("adjacency"), told.number("max_rows")
    if adjacency not in {"add-remove", "replace-one"}:
        return None
    unit = told.text("unit") or ""
    one = join("all rows with the same value of ", quote(unit.removeprefix("column ")))
    if not unit.startswith("column "):
        one = join("one ", name_people(told))
    hidden = (
        join(
            "Hidden is whether ",
            one,
            " ",
            "are" if unit.startswith("column ") else "is",
            " in the table at all.",
        )
        if adjacency == "add-remove"
        else join(
            "Hidden is what ",
            one,
            " ",
            "say" if unit.startswith("column ") else "says",
            "; how many there are is not.",
        )
    )
    capped = (
        f" Of each, at most {say_number(most)} count{_say_in_groups(told)}."
        if most is not None
        else ""
    )
    return join(hidden, capped)


def say_hidden(told: ReportedRelease) -> Markup | None:
    """Return the same beside a table that is printed elsewhere, where no column is known."""
    adjacency, most = told.text("adjacency"), told.number("max_rows")
    if adjacency not in {"add-remove", "replace-one"}:
        return None
    one = call_people(told)
    hidden = (
        f"Random noise hides whether any one {one} is in the table."
        if adjacency == "add-remove"
        else f"Random noise hides what any one {one} says, but not how many there are."
    )
    if most is None:
        return join(hidden)
    many = f"Of each {one} at most {say_number(most)} {_name_counted_part(told)}s count"
    many = f"Each {one} is counted at most once" if most == 1 else many
    return join(f"{hidden} {many}{_say_in_groups(told)}.")


def _name_counted_part(told: ReportedRelease) -> str:
    """Return what of each unit counts: rows, items of a list, or cells of a table."""
    if told.facts.get("figure") == "table":
        return "cell"
    return "item" if told.kind in {"top", "set", "above", "histogram"} else "row"


def _say_in_groups(told: ReportedRelease) -> str:
    """Return in what rows of a unit are bounded, if a release is one of groups and says so."""
    groups = told.number("groups_per_unit")
    if groups is not None:
        return f" in each of at most {say_number(groups)} group{'' if groups == 1 else 's'}"
    return " in all groups together" if told.facts.get("groups_per_unit", 0) is None else ""


def make_list(pairs: list[tuple[str, str | None]]) -> Markup:
    """Return names with what is said of them; those of which nothing is said are left out."""
    return element(
        "dl",
        *(
            join(element("dt", name), element("dd", said))
            for name, said in pairs
            if said is not None and said != ""
        ),
    )
