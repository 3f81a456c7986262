"""The part of a report that shows releases.

For each a picture, the same as a table, and how it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordino.charts import Figure, draw_svg, read_figure
from sordino.charts.figure import as_number, find_drawn_ends
from sordino.report.markup import Markup, element, join, quote
from sordino.report.promise import Theorem, find_group_theorem, find_interval_theorem, find_theorems
from sordino.report.read import LOOKED_AGAIN, ReportedRelease
from sordino.report.spent import say_guarantee, say_measure, say_spent
from sordino.report.words import (
    call_people,
    counts_some,
    find_heading,
    is_about_all,
    is_clipped,
    is_clipped_together,
    is_on_average,
    list_drawn,
    make_list,
    name_people,
    name_release,
    names_nobody,
    ranks_sums,
    round_row,
    say_certainty,
    say_ends,
    say_hidden,
    say_interval,
    say_neighbors,
    say_number,
    say_numbers_share,
    say_question,
    say_true_end,
    write_filter,
)
from sordino.results.legend import name_noise, shorten_rule
from sordino.results.sentences import CLIPPED_RANKS, TOTALS

MOST_ROWS = 200
"""So many rows of a release are in its table; a file of it has all."""
_HEAT = {"class_": "heat", "tabindex": "0"}
_OPEN_ROWS = 12
"""A table of more rows is folded up."""
# What a row may have beside its label, its figure and its interval; in the order of a table.
_MORE = {
    "true_low": "true number at least",
    "true_high": "true number at most",
    "count": "how many count",
    "count_low": "at least",
    "count_high": "at most",
    "sum": "sum",
    "sum_low": "sum at least",
    "sum_high": "sum at most",
    "gap": "lead",
    "tie": "tie",
    "standard_deviation": "standard deviation",
    "clip_low": "numbers below count as",
    "clip_high": "numbers above count as",
    "rank_error_low": "rank error from",
    "rank_error_high": "rank error to",
    "capped": "at the cap",
    "too_few": "too few to tell",
    "p_value": "p-value",
}
_OF_ROWS = frozenset({"top", "set", "above", "histogram", "count", "quantile", *TOTALS})
_NAMES = ("rank", "row", "item", "label", "figure", "count", "q")
_HEADINGS = {
    "q": "share below",
    "figure": "figure",
    "count": "what",
    "row": "row",
    "label": "label",
}


def write_result(told: ReportedRelease, number: int) -> Markup:
    """Return one release as an article; its number makes the ids in it unique."""
    caption = f"figure-{number}"
    # Where nothing was measured, the leads are drawn.
    measured = any(row.get("estimate") is not None for row in told.rows)
    figure = read_figure(
        told.kind,
        list_drawn(told),
        value_name=_name_values(told) if measured else "",
        line=told.number("threshold") if told.kind in {"above", "histogram"} else None,
    )
    return element(
        "article",
        element("h3", f"{number}. ", name_release(told), id=f"result-{number}"),
        element("p", say_question(told), class_="asked"),
        element(
            "figure",
            Markup(draw_svg(figure, named_by=caption)),
            element("figcaption", *_write_caption(told, figure), id=caption),
            # As wide as its numbers need, it can be moved by keys as well.
            **(_HEAT if figure.form == "heat" else {}),
        ),
        _write_table(told),
        _write_notes(told),
        element("div", *_write_details(told), class_="details"),
        aria_labelledby=f"result-{number}",
    )


def _name_values(told: ReportedRelease) -> str:
    """Return what an axis is called: after what is counted, or the figure that is made."""
    column, asked = told.text("column"), find_heading(told) or ""
    if ranks_sums(told):
        return f"sum of {column}" if column else "rows"
    if told.kind in {"top", "set", "above", "histogram", "count"}:
        rows = told.kind == "count" and told.rows and told.rows[0].get("count") == "rows"
        return "rows" if rows else call_people(told, several=True)
    return f"{told.kind} of {asked}" if asked and told.kind in TOTALS else asked


def _write_caption(told: ReportedRelease, figure: Figure) -> list[str | None]:
    form, shown = figure.form, len(figure.marks)
    drawn = [find_drawn_ends(row) for row in list_drawn(told)]
    unknown = [
        say_interval(row) != "" and ends == (None, None)
        for row, ends in zip(told.rows, drawn, strict=True)
    ]
    # Where the interval is about something else, the line is not that of the table.
    weighed = told.number("weight_cap") is not None
    whole = (is_about_all(told) or weighed) and not is_clipped(told)
    lies = "its interval" if whole else "says where the true number lies"
    lies = lies if told.knows_rows else "the interval of what counts"
    measured = any(row.get("estimate") is not None for row in told.rows)
    whole_numbers = True in {told.facts.get("not_negative"), told.facts.get("whole")}
    dates = "all days up to a date" if told.text("series") else "a date"
    shapes = {
        "whiskers": f"Each dot is the released number, the line around it {lies}.",
        "bars": f"Each bar is the released number, the line at its end {lies}.",
        "curve": f"Each dot is a released quantile, the line through it {lies}.",
        "trend": f"Each dot is the released number of {dates}, the upright line {lies}.",
        "names": "The names that were chosen; nothing more is known of them.",
        "spread": "How many of the released numbers lie where.",
        "heat": f"Each number is {'whole, and all add up' if whole_numbers else 'a released one'}. "
        + figure.say_colors(),
    }
    if form == "whiskers" and not measured:
        shapes["whiskers"] = "Each dot says how far one leads over the next."
    elif len(told.rows) == 1 and form == "whiskers":
        shapes["whiskers"] = f"The dot is the released number, the line around it {lies}."
    if not any(low is not None or high is not None for low, high in drawn):
        dots = (
            "The dot is the released number."
            if len(told.rows) == 1
            else "Each dot is a released number."
        )
        bare = {
            "whiskers": dots,
            "curve": "Each dot is a released quantile.",
            "bars": dots.replace("dot", "bar"),
            "trend": dots,
        }
        shapes |= bare if measured else {}
    arrows = any((low is None) != (high is None) for low, high in drawn)
    dashed = told.kind == "above" and told.number("threshold") is not None
    return [
        "Picture: ",
        name_release(told),
        ". ",
        shapes.get(form, ""),
        " An arrow: nothing is known of that end."
        if arrows and form in {"whiskers", "bars", "trend"}
        else None,
        " Where no line is drawn, the true number of all rows is not known; the table has the "
        "interval of what counts."
        if any(unknown)
        else None,
        " The dashed line is the threshold." if dashed else None,
        " If no row is ever deleted or changed, at least so many that count are there as the "
        "stairs say, of all dates at once with a probability of 95%."
        if form == "trend" and any(mark.least is not None for mark in figure.marks)
        else None,
        f" The first {shown} of {figure.total:,} are drawn."
        if figure.total > shown and form != "spread"
        else None,
        " The table has the intervals." if told.rows and form == "heat" else None,
        " The table says the same." if told.rows and form != "heat" and not any(unknown) else None,
    ]


# ---- the table -----------------------------------------------------------------------------------


def _write_table(told: ReportedRelease) -> Markup | None:
    people = call_people(told, several=True)
    rows = [
        {**row, "count": people} if row.get("count") == "units" else row
        for row in told.rows[:MOST_ROWS]
    ]
    if not rows:
        return element("p", "Nothing was found; there is no table.")
    names = [name for name in _NAMES if any(row.get(name) is not None for row in rows)]
    # Beside a mean it is a number; of a count it says what was counted.
    names = [name for name in names if name != "count" or as_number(rows[0]["count"]) is None]
    # Which figure it is stands above the table.
    names = [name for name in names if name != "figure" or len(names) == 1]
    # The figure of a mechanism alone has a name of its own.
    known = {*names, *_MORE, "estimate", "low", "high"}
    other = (
        []
        if any("estimate" in row for row in rows)
        else [name for name in rows[0] if name not in known]
    )
    # A column of which every row says no is none.
    told_more = [name for name in _MORE if name not in names]
    more = [name for name in told_more if any(_says_more(row, name) for row in rows)]
    interval = any(say_interval(row) for row in rows)
    figure = ["estimate"] if any(row.get("estimate") is not None for row in rows) else []
    heads = [join(_head(name, told)) for name in names]
    heads += [join("released number")] * len(figure) + [quote(name) for name in other]
    heads += [join(_name_interval(told))] * interval + [
        join(_name_more(name, told)) for name in more
    ]
    columns = [*names, *figure, *other, *(["interval"] if interval else []), *more]
    body = [
        element("tr", *(_write_cell(row, name, place == 0) for place, name in enumerate(columns)))
        for row in rows
    ]
    named = [
        element("th", head, scope="col", class_="number" if _holds_numbers(rows, column) else None)
        for head, column in zip(heads, columns, strict=True)
    ]
    table = element(
        "table",
        element("caption", "The same as numbers: ", name_release(told)),
        element("thead", element("tr", *named)),
        element("tbody", *body),
    )
    left = len(told.rows) - len(rows)
    note = element("p", f"{left:,} more rows are in the file of the release.") if left else None
    # Wider than a phone, it can be moved by keys as well.
    whole = join(
        element("div", table, class_="wide", tabindex="0", role="group", aria_label="Table"), note
    )
    if len(rows) <= _OPEN_ROWS:
        return whole
    return element(
        "details", element("summary", f"All numbers: a table of {len(rows):,} rows"), whole
    )


def _holds_numbers(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Tell whether a column of a table is one of numbers, which stand at the right."""
    return column == "interval" or any(as_number(row.get(column)) is not None for row in rows)


def _name_interval(told: ReportedRelease) -> str:
    """Return the head of the intervals.

    What they are about, where that is not the figure of all rows.
    """
    if is_clipped_together(told):
        return "interval of what counts within the clip"
    if is_clipped(told):
        return "interval after capping"
    return "interval of what counts" if counts_some(told) else "interval"


def _name_more(name: str, told: ReportedRelease) -> str:
    # What is found above a threshold leads over it, and a list over what comes next.
    if name == "gap" and told.kind == "above":
        return "lead over the threshold"
    if name == "clip_high" and is_clipped_together(told):
        return "in all groups, nobody counts for more than"
    return _MORE[name]


def _says_more(row: Mapping[str, Any], name: str) -> bool:
    """Tell whether a row says something under a name that is not seen beside it."""
    # Where nothing is left out, the interval is that of the true number.
    if name in {"true_low", "true_high"}:
        end = row.get(name)
        return end is not None and row.get("low") is not None and not _is_true(row)
    return row.get(name) is not None and row.get(name) is not False


def _is_true(row: Mapping[str, object]) -> bool:
    """Tell whether the interval of a row is about the true number."""
    return all(row.get(f"true_{end}") == row.get(end) for end in ("low", "high"))


def _head(name: str, told: ReportedRelease) -> str:
    if name == "item":
        return quote(told.text("item") or "label")
    return _HEADINGS.get(name, name)


def _write_cell(row: Mapping[str, Any], name: str, first: bool) -> Markup:
    # Not more digits than the interval is worth: the file of the release has all.
    rounded = round_row(row)
    if name == "interval":
        return element("td", say_interval(rounded), class_="interval")
    if name == "estimate":
        row = {**row, "estimate": rounded.get("estimate")}
    value = row.get(name)
    number = as_number(value)
    if name == "q" and number is not None:
        said: str = f"{say_number(100 * number)}%"
    elif isinstance(value, bool):
        said = "yes" if value else "no"
    elif name in {"true_low", "true_high"}:
        said = say_true_end(row, name) if number is not None else ""
    elif number is not None:
        said = say_number(number)
    else:
        said = "" if value is None else quote(value if isinstance(value, str) else "something else")
    kind = "number" if number is not None else "label" if isinstance(value, str) else None
    return (
        element("th", said, scope="row", class_=kind) if first else element("td", said, class_=kind)
    )


# ---- beside it -----------------------------------------------------------------------------------


def _write_notes(told: ReportedRelease) -> Markup | None:
    """Return what nobody may overlook."""
    notes: list[str] = []
    if told.simulated:
        notes.append("Simulated: the noise of this one is predictable, and it protects nobody.")
    share, warning = say_numbers_share(told), told.text("warning")
    if share is not None:
        notes.append(share)
    elif warning is not None:
        notes.append(warning)
    if told.facts.get("exact") is False:
        notes.append("The guarantee of this noise holds in ideal arithmetic only.")
    if any(row.get("tie") is True for row in told.rows):
        notes.append("tie: it may be no larger than the next one.")
    if ranks_sums(told):
        notes.append(CLIPPED_RANKS)
    if names_nobody(told):
        notes.append("too few to tell: its interval reaches 0, as that of what nobody has does.")
    # Only a fresh measurement has nothing to do with what was selected.
    above = told.kind == "above" or (told.kind == "histogram" and told.text("method") is not None)
    if above or (told.kind == "top" and is_on_average(told)):
        notes.append("Released numbers of what was selected are too high on average.")
    counts = told.kind in {"top", "set", "above", "histogram", "count"}
    if counts and counts_some(told) and any(map(_has_open_end, told.rows)):
        notes.append("The numbers count a part of what each person has; true counts may be higher.")
    return (
        element("ul", *(element("li", quote(note)) for note in notes), class_="notes")
        if notes
        else None
    )


def _has_open_end(row: Mapping[str, Any]) -> bool:
    """Tell whether nothing is known of how large the true count is.

    A number of units is never too low.
    """
    return row.get("true_low") is not None and as_number(row.get("true_high")) is None


def _write_details(told: ReportedRelease) -> list[Markup]:
    left_out, lookups = told.texts("left_out"), told.texts("lookups")
    bounds = _say_bounds(told)
    where = told.text("where")
    rows = write_filter(where) if where else None
    if rows is None and not told.knows_rows and told.kind in _OF_ROWS:
        rows = join("The file does not say whether a filter chose the rows.")
    day, account, key = told.text("time"), told.text("account"), told.text("id")
    paid = join(
        quote(day) if day else None,
        join(", " if day else None, "account ", quote(account)) if account else None,
        join(", charge ", element("code", key)) if key else None,
    )
    pairs: list[tuple[str, str | None]] = [
        ("How sure", say_certainty(told)),
        ("Who is protected", say_neighbors(told)),
        ("Labels", _quote(told.text("domain"))),
        ("Labels that were found", _say_unlisted(told)),
        ("Rows that count", rows),
        ("Left out", join(*_list_result_parts(left_out)) if left_out else None),
        ("Looked up", join(*_list_result_parts(lookups)) if lookups else None),
        ("Bounds", bounds),
        ("What it cost", say_spent(told)),
        ("What it was to reach", _say_goal(told.facts.get("reached"))),
        ("Released", paid),
        ("Why it is so", _link_theorems(told)),
        ("To paste beside the table", write_paragraph(told)),
    ]
    return [make_list(pairs)]


def write_paragraph(told: ReportedRelease) -> Markup | None:
    """Return what belongs beside a table that is printed elsewhere, as one paragraph."""
    if not told.knows_rows or told.simulated:
        return None
    # All of the rules stand above.
    where, left_out = told.text("where"), [*map(shorten_rule, told.texts("left_out"))]
    lookups = told.texts("lookups")
    spent = _say_amount(told)
    clip = {(as_number(row.get("clip_low")), as_number(row.get("clip_high"))) for row in told.rows}
    low, high = clip.pop() if len(clip) == 1 else (None, None)
    capped = is_clipped(told)
    ends = "ends of their own" if high is None else say_ends(low, high)
    sentences = [
        join(
            "Random noise was added to the figures, by differential privacy",
            None if spent is None else f" with {spent}",
            ".",
        ),
        say_hidden(told),
        join("Only rows where ", write_filter(where), " count.") if where else None,
        join("Not counted: ", *_list_result_parts(left_out), ".") if left_out else None,
        join("Looked up: ", *_list_result_parts(lookups), ".") if lookups else None,
        join(_say_capped(told, high, ends)) if capped else None,
        join(_say_weights(told)),
        join(_say_unlisted(told)),
        join(say_certainty(told)),
        join(say_numbers_share(told)),
        join(_say_bounds(told)),
    ]
    pieces = [piece for one in sentences if one for piece in (" ", one)]
    return element("span", *pieces[1:], class_="paste")


def _say_amount(told: ReportedRelease) -> str | None:
    """Return what a release guarantees, and the kind of its noise where that is not pure."""
    guarantee = say_guarantee(told)
    if guarantee is None:
        return None
    noise = name_noise({name: told.text(name) for name in ("noise", "measure_noise")})
    return f"{guarantee}, {noise}" if noise else guarantee


def _say_capped(told: ReportedRelease, high: float | None, ends: str) -> str:
    """Return what was capped: each number, or what somebody adds up to in all groups."""
    if not is_clipped_together(told):
        return f"Values were capped to {ends}."
    most = "an end of its own" if high is None else say_number(high)
    return f"What each {call_people(told)} adds up to in all groups was capped at {most}."


def _say_weights(told: ReportedRelease) -> str | None:
    """Return as how much somebody counts at most, where rows have weights."""
    cap = told.number("weight_cap")
    if cap is None:
        return None
    many = "groups" if told.text("per_person") is not None else "rows"
    one = call_people(told)
    if cap == 1:
        return f"Each {one} counts once."
    return f"A {one} with more than {say_number(cap)} {many} counts as {say_number(cap)}."


def _say_unlisted(told: ReportedRelease) -> str | None:
    """Return what it takes for a label to be there, where not all of them are."""
    asked, threshold = told.number("asked"), told.number("label_threshold")
    if told.kind == "histogram" and asked is not None:
        return (
            f"Shown are labels with a noisy count of {say_number(told.number('threshold'))} or "
            f"more, of {say_number(asked)}; others may have {call_people(told, several=True)}, too."
        )
    if threshold is None:
        return None
    return (
        f"Nobody listed the labels. One is found if about {say_number(threshold)} "
        f"{call_people(told, several=True)} have it. A missing one tells you nothing."
    )


def _say_goal(reached: Any) -> Markup | None:
    """Return for which goal of a study the epsilon was found; None where it was written down."""
    if not isinstance(reached, Mapping):
        return None
    goal, epsilon, assumed = (reached.get(name) for name in ("goal", "epsilon", "assumed"))
    number = as_number(epsilon)
    if not isinstance(goal, str) or number is None:
        return None
    return join(
        f"Epsilon {say_number(number)} was found for the goal ",
        quote(goal),
        join(", of ", quote(assumed)) if isinstance(assumed, str) and assumed else None,
        ", before anything was read.",
    )


def _quote(text: str | None) -> Markup | None:
    return None if text is None else quote(text)


def _list_result_parts(parts: Sequence[str]) -> list[str]:
    return [piece for part in parts for piece in ("; ", quote(part))][1:]


def _say_bounds(told: ReportedRelease) -> str | None:
    bounds = told.facts.get("bounds")
    if isinstance(bounds, list) and len(bounds) == 2:
        return (
            f"Published within a range around {say_number(bounds[0])} to {say_number(bounds[1])}."
        )
    lower = told.number("lower")
    return (
        None
        if lower is None
        else f"Numbers below {say_number(lower)} count as {say_number(lower)}."
    )


def list_theorems(releases: Sequence[ReportedRelease]) -> list[Theorem]:
    """Return what is proved of releases: of their mechanisms, groups and intervals."""
    found = find_theorems(name for told in releases for name in told.mechanisms)
    if any("groups_per_unit" in told.facts for told in releases):
        found.append(find_group_theorem())
    # Of mechanisms that nobody knows no interval is known either.
    sure = [told for told in releases if say_certainty(told) and find_theorems(told.mechanisms)]
    alone = [told for told in sure if told.facts.get("release") not in LOOKED_AGAIN]
    of_intervals = [find_interval_theorem(told.kind, told.text("method")) for told in alone]
    return [*found, *dict.fromkeys(one for one in of_intervals if one is not None)]


def _link_theorems(told: ReportedRelease) -> Markup | None:
    """Return links to what is proved, further down on the page, and what a ledger counts.

    None if there is nothing of the kind.
    """
    found = dict.fromkeys(theorem.mechanism for theorem in list_theorems([told]))
    measure = say_measure(told)
    links = [
        piece
        for number, name in enumerate(found, 1)
        for piece in (", ", element("a", f"proof {number}", href=f"#proof-{name}"))
    ][1:]
    if links and measure:
        links.append(". ")
    return join("For auditors: ", *links, measure) if links or measure else None


def name_whom(told: Sequence[ReportedRelease]) -> Markup:
    """Return whom releases protect, as one word of a sentence.

    Theirs if they agree, else anybody.
    """
    units = {one.text("unit") for one in told}
    return name_people(told[0]) if len(units) == 1 else join("person")
