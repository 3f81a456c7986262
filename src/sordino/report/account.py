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
from sordino.population import say_unit
from sordino.report.markup import Markup, element, join, quote
from sordino.report.spent import say_account_days, say_promise
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


Told = Mapping[str, Any]
"""What a statement of an account tells: anybody may have written it."""


class Money(NamedTuple):
    """In what an account is told: in epsilons where it adds these up, else in percent.

    Attributes
    ----------
    name : str
        What is counted.
    limit, spent, left : float
        Of the whole account.
    scale : float
        What an amount of the account is multiplied by.
    by_epsilon : bool
        Whether of two sums the one of epsilons decides.
    """

    name: str
    limit: float
    spent: float
    left: float
    scale: float = 1.0
    by_epsilon: bool = False

    def say(self, amount: float) -> str:
        """Return an amount in words."""
        if self.name == _EPSILON:
            return f"epsilon {say_number(amount)}"
        return f"{amount:.3g}% of its budget"

    def read_charge(self, charge: Told) -> float:
        """Return what a charge takes."""
        settled = charge.get("settled")
        # What nobody closed counts in full.
        amount = charge.get("reserved") if settled is None else settled
        return _bound(self.scale * _number(charge.get("epsilon") if self.by_epsilon else amount))


_EPSILON, _PERCENT = "epsilon", "% of the budget"


def _find_money(account: Told) -> Money:
    """Return in what an account is told."""
    limit, spent, left = (_number(account.get(name)) for name in ("limit", "spent", "remaining"))
    if account.get("measure", _EPSILON) == _EPSILON:
        return Money(_EPSILON, limit, spent, left)
    pure = _read_part(account, "renyi")
    most, so_far = as_number(pure.get("epsilon_limit")), as_number(pure.get("epsilon_spent"))
    # Of two sums the smaller share counts. What others got is told of the first one alone.
    by_epsilon = (
        bool(most)
        and so_far is not None
        and so_far * limit < spent * _number(most)
        and not (account.get("parent") or account.get("shares"))
    )
    whole, part = (_number(most), _number(so_far)) if by_epsilon else (limit, spent)
    share = min(100.0, 100 * part / whole) if whole else 100.0
    scale = 100 / whole if whole else 0.0
    return Money(_PERCENT, 100.0, share, 100 - share, scale, by_epsilon)


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


def write_account(account: Told) -> list[Markup | None]:
    """Return the section on an account."""
    money = _find_money(account)
    if parts := _read_part(account, "parts"):
        return _write_parted(account, parts, money)
    spending, granted = _list_spending(account, money), _list_granted(account, money)
    share = 100 * money.spent / money.limit if money.limit else 100.0
    of_it = f", which is {share:.3g}% of it" if money.name == _EPSILON else ""
    pairs: list[tuple[str, str | None]] = [
        ("May spend", f"{_say_whole(account)} in its whole life"),
        ("Spent so far", f"{money.say(money.spent)}{of_it}"),
        ("Left", money.say(money.left)),
        ("At the rate so far", _say_rate(spending, money)),
        ("More like the last one", _say_more(account)),
        ("Given to other accounts", _say_granted(granted, money)),
        (
            "Whom it protects",
            join(
                quote(say_unit(str(account.get("unit", "")))),
                ", ",
                quote(str(account.get("adjacency", ""))),
            ),
        ),
        *_list_end(account),
    ]
    return [
        element(
            "p",
            "Account ",
            quote(account["account"]),
            f" has {max(0.0, 100 - share):.3g}% of its budget left. Every release is charged to it "
            "before a row is read, and what does not fit is refused.",
        ),
        *_draw_spending(spending, money, _bound(sum(granted.values()))),
        make_list(pairs),
        _write_charges(spending, money),
        _write_sums(account),
    ]


def _write_parted(account: Told, parts: Told, money: Money) -> list[Markup | None]:
    """Return the section on an account whose days (or hours, months, years) have a budget each."""
    cut, unit = str(parts.get("cut", "part"))[:10], str(account.get("unit", ""))
    left, closed = _read_part(parts, "left"), parts.get("closed")

    def say(name: str) -> str:
        found = _read_part(left, name)
        share, more = as_number(found.get("share")), as_number(found.get("more"))
        fits = "" if more is None else f", {more:,.0f} more like the last one"
        return f"{100 * (share or 0.0):.3g}%{fits}"

    pairs: list[tuple[str, str | None]] = [
        ("May spend", f"{_say_whole(account)} for each {cut}"),
        (f"Left of the fullest {cut} that is open", say("fullest")),
        (f"Left of a {cut} to come", say("untouched")),
        ("Left of the whole table", say("whole")),
        ("Closed, and takes nothing more", f"until {closed}" if closed else None),
        ("Given to other accounts", _say_granted(_list_granted(account, money), money)),
        ("Whom it protects", join(quote(say_unit(unit)), ", ", quote(str(account["adjacency"])))),
        ("Somebody who is many of these", " ".join(say_account_days(account)) or None),
        *_list_end(account),
    ]
    said = f" has a budget for each {cut}. Every release is charged to what it reads before a row "
    first = element("p", "Account ", quote(account["account"]), said, "is read.")
    return [first, make_list(pairs)]


def _list_end(account: Told) -> list[tuple[str, str | None]]:
    """Return what stands at the end of the section, whichever account it is."""
    return [
        ("What all of it may tell", say_promise(account)),
        ("Last entry of its history", element("code", str(account.get("head", ""))[:64])),
    ]


def _read_part(account: Told, name: str) -> Told:
    """Return a part of what is told; nothing where it is none."""
    part = account.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(value: Any) -> float:
    return as_number(value) or 0.0


def _bound(amount: float) -> float:
    """Return an amount that can be drawn; no account has another one."""
    return min(max(amount, 0.0), _MOST_AMOUNT)


def _list_granted(account: Told, money: Money) -> dict[str, float]:
    """Return what other accounts got."""
    given = _read_part(account, "shares").items()
    return {name: money.scale * _number(amount) for name, amount in given}


def _list_spending(account: Told, money: Money) -> list[Spending]:
    """Return the charges that take something, the oldest first."""
    found = []
    for charge in account.get("charges", []):
        if not isinstance(charge, Mapping):
            continue
        amount = money.read_charge(charge)
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


def _name_charge(charge: Told) -> str:
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


def _say_whole(account: Told) -> str:
    """Return the guarantee of an account."""
    delta = as_number(account.get("delta"))
    beside = f", delta {say_number(delta)}" if delta else ""
    return f"epsilon {say_number(account.get('epsilon', account.get('limit')))}{beside}"


def _say_rate(spending: Sequence[Spending], money: Money) -> str | None:
    """Return how long what is left will last; None where there is no rate."""
    days = [day for one in spending if (day := _read_day(one.day)) is not None]
    spent, left = money.spent, money.left
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
    return f"It lasts {more:,} more days{until}: {money.say(spent)} went in {period:,} days."


def _say_more(account: Told) -> str | None:
    if isinstance(account.get("successor"), str):
        return "None: another account goes on for it."
    more = as_number(account.get("more_like_the_last"))
    return None if more is None else f"{say_number(more)} fit"


def _say_granted(granted: Mapping[str, float], money: Money) -> Markup | None:
    parts = [join(quote(name), f" {money.say(amount)}") for name, amount in granted.items()]
    return join(*[piece for part in parts for piece in (join("; "), part)][1:]) if parts else None


def _write_sums(account: Told) -> Markup | None:
    """Return what an account counts that adds up no epsilons alone, for auditors."""
    measure = account.get("measure", _EPSILON)
    if measure == _EPSILON:
        return None
    so_far, whole = (say_number(account.get(name)) for name in ("spent", "limit"))
    said = [f"It counts as {shorten(str(measure), 20)}: {so_far} of {whole} so far."]
    return element(
        "details",
        element("summary", "For auditors: how the account counts"),
        element("p", " ".join([*said, *_say_other_sums(_read_part(account, "renyi"))])),
    )


def _say_other_sums(sums: Told) -> list[str]:
    """Return what an account with divergences says of its other sum."""
    if not sums:
        return []
    limit, spent = as_number(sums.get("epsilon_limit")), as_number(sums.get("epsilon_spent"))
    told = as_number(sums.get("spent_epsilon"))
    said = [f"These are Rényi divergences at order {say_number(sums.get('order'))}."]
    if limit is not None and spent is not None:
        said.append(
            f"Beside them it adds epsilons, {say_number(spent)} of {say_number(limit)} so far: it "
            "is enough if one of the two sums stays within its limit."
        )
    if told is not None:
        said.append(f"What is spent so far amounts to epsilon {say_number(told)} at its delta.")
    return said


def _draw_spending(spending: Sequence[Spending], money: Money, granted: float) -> list[Markup]:
    if not spending:
        some = "Its charges are not listed here."
        said = some if money.spent else "Nothing was charged to it yet."
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
        value_name=money.name,
        line=_bound(money.limit),
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


def _write_charges(spending: Sequence[Spending], money: Money) -> Markup | None:
    if not spending:
        return None
    newest = spending[-MOST_CHARGES:]
    digits = 6 if money.name == _EPSILON else 3
    total = sum(one.amount for one in spending[: -len(newest)])
    body = []
    for one in newest:
        total += one.amount
        body.append(
            element(
                "tr",
                element("th", quote(one.day), scope="row"),
                element("td", quote(one.label)),
                element("td", say_number(one.amount, digits), class_="number"),
                element("td", say_number(total, digits), class_="number"),
                element("td", "yes" if one.kept else "no"),
                element("td", element("code", one.id)),
            )
        )
    heads = ("day", "what", money.name, "sum", "kept", "charge")
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
