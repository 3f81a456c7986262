"""The part of a report about an account.

What it may spend, what it spent and when, how long it will last.

Days and no seconds: how long releases took depends on rows, and seconds of charges would tell it.
How far a charge came is not said either: whether an engine failed may depend on rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from sordino.charts import Figure, Mark, draw_svg
from sordino.charts.figure import as_number, shorten
from sordino.errors import InvalidParameter
from sordino.report.markup import Markup, element, join, quote
from sordino.report.spent import say_promise
from sordino.report.words import make_list, say_number

_CAPTION = "figure-account"
MOST_CHARGES = 200
"""So many of the newest charges are listed."""
_MOST_DAYS = 365_000
_ID_SHOWN = 8
"""So many characters of the id of a charge are enough to find it."""
_MOST_AMOUNT = 1e12
_YEARS = range(1970, 2970)


class Spending(NamedTuple):
    """A charge: its id, on which day it was, what it was for, and what it takes."""

    id: str
    day: str
    label: str
    amount: float
    kept: bool


def check_shown_account(account: Any) -> None:
    """Refuse what is no statement of an account."""
    if not isinstance(account, Mapping) or not isinstance(account.get("account"), str):
        raise InvalidParameter(
            "make_report.account must be what `ledger.statement().to_dict()` returns; got "
            "something else."
        )
    for name in ("limit", "spent", "remaining"):
        if as_number(account.get(name)) is None:
            raise InvalidParameter(f"make_report.account must have a number `{name}`; it has none.")
    if not isinstance(account.get("charges", []), list):
        raise InvalidParameter(
            "make_report.account must have a list of charges; it has something else."
        )


def write_account(account: Mapping[str, Any]) -> list[Markup | None]:
    """Return the section on an account."""
    spending, measure = _list_spending(account), str(account.get("measure", "epsilon"))
    limit, spent, left = (_read_account(account, name) for name in ("limit", "spent", "remaining"))
    share = 100 * spent / limit if limit else 100.0
    shares = account.get("shares")
    granted = shares if isinstance(shares, Mapping) else {}
    pairs: list[tuple[str, str | None]] = [
        ("May spend", f"{measure} {say_number(limit)} in its whole life"),
        ("Spent so far", f"{measure} {say_number(spent)}, which is {share:.3g}% of it"),
        ("Left", f"{measure} {say_number(left)}"),
        ("At the rate so far", _say_rate(spending, spent, left)),
        ("More like the last one", _say_more(account)),
        ("Given to other accounts", _say_granted(granted)),
        (
            "Whom it protects",
            join(
                quote(str(account.get("unit", ""))), ", ", quote(str(account.get("adjacency", "")))
            ),
        ),
        ("What all of it may tell", say_promise(account)),
        ("Last entry of its history", element("code", str(account.get("head", ""))[:64])),
    ]
    return [
        element(
            "p",
            "Account ",
            quote(account["account"]),
            f" has {say_number(left)} of {say_number(limit)} left. Every release is charged to it "
            "before a row is read, and what does not fit is refused.",
        ),
        *_write_other_sums(account),
        *_draw_spending(
            spending, limit, spent, _bound(sum(map(_number, granted.values()))), measure
        ),
        make_list(pairs),
        _write_charges(spending, measure),
    ]


def _read_account(account: Mapping[str, Any], name: str) -> float:
    return _number(account.get(name))


def _number(value: Any) -> float:
    return as_number(value) or 0.0


def _bound(amount: float) -> float:
    """Return an amount that can be drawn; no account has another one."""
    return min(max(amount, 0.0), _MOST_AMOUNT)


def _list_spending(account: Mapping[str, Any]) -> list[Spending]:
    """Return the charges that take something, the oldest first."""
    found = []
    for charge in account.get("charges", []):
        if not isinstance(charge, Mapping):
            continue
        settled = charge.get("settled")
        # What nobody closed counts in full.
        amount = _bound(_number(charge.get("reserved") if settled is None else settled))
        # Statements are charges of nothing.
        if amount:
            found.append(
                Spending(
                    id=str(charge.get("id", ""))[:_ID_SHOWN],
                    day=str(charge.get("time", ""))[:10],
                    label=_name_charge(charge),
                    amount=amount,
                    kept=bool(charge.get("kept")),
                )
            )
    return found


def _name_charge(charge: Mapping[str, Any]) -> str:
    """Return what a charge was for; of a study also which of its runs."""
    label, detail = charge.get("label"), charge.get("detail")
    said = label if isinstance(label, str) else ""
    study = detail.get("study") if isinstance(detail, Mapping) else None
    run = study.get("run") if isinstance(study, Mapping) else None
    return f"{said}, run {run}" if isinstance(run, str) and run else said


def _read_day(day: str) -> date | None:
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return None
    # Days far away cannot be added to.
    return found if found.year in _YEARS else None


def _say_rate(spending: Sequence[Spending], spent: float, left: float) -> str | None:
    """Return how long what is left will last; None where there is no rate."""
    days = [day for one in spending if (day := _read_day(one.day)) is not None]
    if len(days) < 2 or spent <= 0:
        return None
    period = (max(days) - min(days)).days + 1
    if left <= 0:
        return "Nothing is left."
    if period < 2:
        return None
    # Divided in this order, neither step is beyond a float where the other is not.
    lasting = left / spent * period
    if lasting > _MOST_DAYS:
        return "It lasts for ever, as far as anybody can see."
    more = int(lasting)
    until = f", until about {max(days) + timedelta(days=more)}"
    return f"It lasts {more:,} more days{until}: {say_number(spent)} went in {period:,} days."


def _say_more(account: Mapping[str, Any]) -> str | None:
    if isinstance(account.get("successor"), str):
        return "None: another account goes on for it."
    more = as_number(account.get("more_like_the_last"))
    return None if more is None else f"{say_number(more)} fit"


def _say_granted(granted: Mapping[str, Any]) -> Markup | None:
    parts = [join(quote(name), f" {say_number(amount)}") for name, amount in granted.items()]
    return join(*[piece for part in parts for piece in (join("; "), part)][1:]) if parts else None


def _write_other_sums(account: Mapping[str, Any]) -> list[Markup]:
    """Return what an account with divergences says of its other sum."""
    sums = account.get("renyi")
    if not isinstance(sums, Mapping):
        return []
    limit, spent = as_number(sums.get("epsilon_limit")), as_number(sums.get("epsilon_spent"))
    told = as_number(sums.get("spent_epsilon"))
    said = [f"It adds Rényi divergences at order {say_number(sums.get('order'))}."]
    if limit is not None and spent is not None:
        said.append(
            f"Beside them it adds epsilons, {say_number(spent)} of {say_number(limit)} so far: it "
            "is enough if one of the two sums stays within its limit."
        )
    if told is not None:
        said.append(f"What is spent so far amounts to epsilon {say_number(told)} at its delta.")
    return [element("p", " ".join(said))]


def _draw_spending(
    spending: Sequence[Spending], limit: float, spent: float, granted: float, measure: str
) -> list[Markup]:
    if not spending:
        said = "Its charges are not listed here." if spent else "Nothing was charged to it yet."
        return [element("p", said)]
    sums, days = [granted], [spending[0].day]
    for one in spending:
        sums.append(sums[-1] + one.amount)
        days.append(one.day)
    read = [_read_day(day) for day in days]
    known = [day for day in read if day is not None]
    over_time = len(known) == len(read) and len(set(known)) > 1
    places: list[str] = []
    if over_time:
        # The last step is seen as well.
        span = (max(known) - min(known)).days
        days.append(str(max(known) + timedelta(days=max(1, span // 20))))
        sums.append(sums[-1])
        places = [str(_read_day(day)) for day in days]
    marks = tuple(Mark(label="", value=value, at=float(place)) for place, value in enumerate(sums))
    figure = Figure(
        form="steps",
        marks=marks,
        total=len(marks),
        value_name=shorten(measure, 20),
        line=_bound(limit),
        days=tuple(places),
    )
    caption = element(
        "figcaption",
        "Picture: what the account has spent, ",
        "day by day" if over_time else "charge by charge",
        ". The dashed line is all that it may ever spend.",
        " Shares that were given to other accounts count from the start." if granted else None,
        id=_CAPTION,
    )
    return [element("figure", Markup(draw_svg(figure, named_by=_CAPTION)), caption)]


def _write_charges(spending: Sequence[Spending], measure: str) -> Markup | None:
    if not spending:
        return None
    newest = spending[-MOST_CHARGES:]
    total = sum(one.amount for one in spending[: -len(newest)])
    body = []
    for one in newest:
        total += one.amount
        body.append(
            element(
                "tr",
                element("th", quote(one.day), scope="row"),
                element("td", quote(one.label)),
                element("td", say_number(one.amount), class_="number"),
                element("td", say_number(total), class_="number"),
                element("td", "yes" if one.kept else "no"),
                element("td", element("code", one.id)),
            )
        )
    heads = ("day", "what", measure, "sum", "kept", "charge")
    table = element(
        "table",
        element(
            "caption",
            "What it was spent on",
            f": the newest {len(newest)} of {len(spending):,}"
            if len(newest) < len(spending)
            else None,
        ),
        element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
        element("tbody", *body),
    )
    wide = element(
        "div", table, class_="wide", tabindex="0", role="group", aria_label="Table of charges"
    )
    return element("details", element("summary", f"All charges: {len(spending):,}"), wide)
