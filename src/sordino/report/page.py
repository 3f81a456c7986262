"""Puts a report together: one page that needs nothing but itself, plain sentences first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from sordino._version import __version__
from sordino.charts.figure import find_drawn_ends
from sordino.constraints import shown
from sordino.cost.odds import say_odds
from sordino.errors import InvalidParameter
from sordino.report.account import check_shown_account, write_account
from sordino.report.markup import Markup, element, join, quote
from sordino.report.promise import find_docs, read_statement, write_statement, write_theorems
from sordino.report.read import ReportedRelease, read_releases
from sordino.report.results import list_theorems, name_whom, write_result
from sordino.report.spent import add_epsilons, say_hidden_from, say_promise
from sordino.report.words import (
    is_clipped,
    is_on_average,
    list_drawn,
    make_list,
    name_release,
    say_headline,
    say_share,
)

_MOST_TITLE = 200
_MOST_ABOUT = 20_000
# Whatever a text on the page says, a browser loads and runs nothing for it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


_ACCOUNT = "the-account"
# What draws may draw otherwise in another version of itself; the account goes on.
_ASIDE = re.compile(
    '(?:(?<=<figure>)|(?<=<figure class="heat" tabindex="0">))<svg.*?</svg>'
    f'|<section aria-labelledby="{_ACCOUNT}">.*?</section>'
    '|<p class="promise">.*?</p>',
    re.DOTALL,
)
_TAG = re.compile(r'</?([a-z0-9]+)((?: [a-zA-Z0-9-]+="[^"<>]*")*)/?>')
_NAME = re.compile(r' ([a-zA-Z0-9-]+)="')
_WORD = re.compile(r"\S+")
_TAGS = frozenset(
    _WORD.findall(
        "bdi caption code dd details div dl dt figcaption figure g h2 line p path section summary "
        "svg table tbody td text th thead tr"
    )
)
_ATTRIBUTES = frozenset(
    _WORD.findall(
        "aria-hidden aria-label aria-labelledby aria-roledescription class d display fill "
        "font-family font-size font-weight id opacity pointer-events role scope stroke "
        "height stroke-dasharray stroke-miterlimit stroke-width tabindex text-anchor transform "
        "viewBox width x1 x2 y1 y2 x y"
    )
)


def make_report(
    releases: Sequence[Any],
    *,
    account: Mapping[str, Any] | None = None,
    title: str | None = None,
    about: str | None = None,
    statement: Any = None,
    docs: str | None = None,
) -> str:
    """Return a page in HTML that shows what was released: one file that loads and runs nothing.

    Everything in it was released before, or is public. The same input makes the same page to the
    last letter.

    Parameters
    ----------
    releases : sequence
        Releases, or what `--format json` printed of them, or their `to_dict()`; at most 200. With
        `account` it may be empty.
    account : mapping, optional
        What `ledger.statement().to_dict()` returns. Days are told of it, no seconds, and neither
        its source nor how far a charge came.
    title : str, optional
        At most 200 characters.
    about : str, optional
        What the table is and why the figures were made, for a reader who has never heard of it. An
        empty line begins a paragraph.
    statement : PublicStatement or mapping, optional
        What `ledger.publish` returns, or its `to_dict()`.
    docs : str, optional
        Where the documentation of sordino is published, for links to the pages of proofs: an
        address that begins with https://, or a relative path. By default what the package says;
        without any, pages are named.

    Returns
    -------
    str
        The page; write it as UTF-8.

    Raises
    ------
    InvalidParameter
        If something is no release, no account or no statement, or there is nothing to report.
    UnsupportedBackend
        If vl-convert-python is not installed (the extra `report`).

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> visits = pl.DataFrame({"ward": ["A", "B", "A"] * 300})
    >>> session = sd.Session(visits, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> wards = session.histogram("ward", epsilon=1, domain=["A", "B"])
    >>> page = sd.report.make_report([wards], title="Visits")
    >>> page.startswith("<!DOCTYPE html>"), "Visits</bdi></h1>" in page, "<script" in page
    (True, True, False)
    """
    told = read_releases(releases)
    if account is not None:
        check_shown_account(account)
    said = None if statement is None else read_statement(statement)
    if not told and account is None:
        raise InvalidParameter("A report needs at least one release, or an account; got neither.")
    heading = _check_text("title", title, _MOST_TITLE) or _make_title(told, account)
    paragraphs = _check_text("about", about, _MOST_ABOUT)
    place = find_docs(docs)
    theorems = list_theorems(told)
    sections = [
        element(
            "header",
            element("h1", quote(heading)),
            *_write_about(paragraphs),
            *_write_summary(told, account),
        ),
        _write_page_section(
            "Results", [write_result(one, number) for number, one in enumerate(told, 1)]
        ),
        _write_page_section("The account", [] if account is None else write_account(account)),
        _write_page_section("For auditors", write_theorems(theorems, place)),
        _write_page_section("What is promised", [] if said is None else write_statement(said)),
        _write_page_section("Words", [_write_words()]),
    ]
    body = element("main", *sections)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", heading),
        element("style", _read_style()),
    )
    footer = element("footer", element("p", _write_footer(told)))
    return f"<!DOCTYPE html>\n{element('html', head, element('body', body, footer), lang='en')}\n"


def cut_account(page: str) -> str | None:
    """Return a page without its pictures, and without what it says of the account at its time.

    None where these parts could show something else than that.
    """
    if not all(map(_is_harmless, _ASIDE.findall(page))):
        return None
    return _ASIDE.sub("", page)


def _is_harmless(part: str) -> bool:
    """Tell whether a part of a page has no element but those that it may have, and no style."""
    return all(
        (found := _TAG.fullmatch(tag)) is not None
        and found[1] in _TAGS
        and set(_NAME.findall(found[2])) <= _ATTRIBUTES
        for tag in re.findall("<[^>]*>?", part)
    )


@cache
def _read_style() -> Markup:
    return Markup(files("sordino.report").joinpath("style.css").read_text(encoding="utf-8"))


def _check_text(name: str, text: str | None, most: int) -> str:
    if text is None:
        return ""
    given: Any = text
    if not isinstance(given, str) or len(given) > most:
        got = f"{len(given)} characters" if isinstance(given, str) else shown(given)
        raise InvalidParameter(
            f"make_report.{name} must be a text of at most {most} characters; got {got}."
        )
    return text.strip()


def _make_title(told: Sequence[ReportedRelease], account: Mapping[str, Any] | None) -> str:
    if not told and account is not None:
        return f"Account {account['account']}"
    return "One private result" if len(told) == 1 else f"{len(told)} private results"


def _write_page_section(name: str, parts: Sequence[str | None]) -> Markup | None:
    if not any(part is not None for part in parts):
        return None
    key = name.lower().replace(" ", "-")
    return element("section", element("h2", name, id=key), *parts, aria_labelledby=key)


def _write_about(text: str) -> list[Markup]:
    # Each paragraph is cut by itself: what somebody writes about their table is read in full.
    parts = [" ".join(part.split()) for part in text.replace("\r\n", "\n").split("\n\n")]
    return [element("p", element("bdi", part), class_="about") for part in parts if part]


def _write_summary(
    told: Sequence[ReportedRelease], account: Mapping[str, Any] | None
) -> list[Markup | None]:
    """Return the first screen, which sums up the release.

    It says what this is, what came out, how sure it is, what it may tell of somebody.
    """
    if not told:
        return []
    whom = name_whom(told)
    one = len(told) == 1
    hidden = _say_hidden(told, account, one=one)
    by_account = account is not None and add_epsilons(told) is None
    warning = (
        "Simulated: the noise of these figures is predictable. They show what a report looks like, "
        "and protect nobody."
    )
    listed = [
        element(
            "li",
            element("a", name_release(each), href=f"#result-{number}"),
            ": ",
            say_headline(each),
        )
        for number, each in enumerate(told, 1)
    ]
    return [
        element("p", element("strong", warning), class_="warning")
        if any(each.simulated for each in told)
        else None,
        element(
            "p",
            "Random noise was added to every result, so that no ",
            whom,
            " can be recognized. Trust the ranges, not the last digits.",
        ),
        element("ul", *listed, class_="summary"),
        element("p", _say_ranges(told)),
        element("p", *hidden, class_="promise" if by_account else None),
    ]


def _say_ranges(told: Sequence[ReportedRelease]) -> str:
    # Of ranks, and of what nothing is known of, no line is drawn.
    drawn = [
        each
        for each in told
        # One whose figures have no ends at all is not drawn.
        if any(find_drawn_ends(row) != (None, None) for row in list_drawn(each))
    ]
    shares = {each.number("confidence") for each in drawn} - {None}
    said = "the true number lies with the probability that is told beside it"
    if len(shares) == 1 and not any(map(is_on_average, told)):
        share = next(iter(shares))
        assert share is not None  # noqa: S101  (taken out above)
        said = f"the true number lies with a probability of {say_share(share)}"
    if not all(each.knows_rows for each in drawn):
        said = said.replace("the true number", "the number of the rows that count")
    # Of sums and means that found their ends, the line says less than a reader would take it for.
    others = {
        "rows have weights": any(each.number("weight_cap") is not None for each in drawn),
        "numbers were capped": any(map(is_clipped, told)),
    }
    if any(others.values()):
        where = " or that ".join(what for what, is_so in others.items() if is_so)
        said += f", but where a result below says that {where}"
    if not shares:
        return "How sure each of them is, is told beside it."
    return (
        "In the pictures a dot or a bar is the released number, and within the line around it "
        f"{said}."
    )


def _say_hidden(
    told: Sequence[ReportedRelease], account: Mapping[str, Any] | None, *, one: bool
) -> list[str]:
    """Return how well somebody is hidden from a reader of the page."""
    asked = join("How well is any one ", name_whom(told), " hidden? ")
    whole = add_epsilons(told)
    if whole is not None:
        together = "" if one else "From all results of this page together: "
        return [asked, together, say_hidden_from(told[0], say_odds(whole))]
    if account is not None and (promise := say_promise(account)):
        return [asked, "From all that the account ever releases: ", promise]
    return [asked, "That is told beside each result."]


def _write_words() -> Markup:
    return make_list(
        [
            (
                "epsilon",
                "How much a reader may learn about one of those who are protected: the smaller, "
                "the less. It bounds by how much any suspicion can grow, whatever else the reader "
                "knows; where there is a delta, but for that chance.",
            ),
            (
                "delta",
                "A small chance beside epsilon. Where there is one, a sentence about suspicions "
                "says how seldom it does not hold.",
            ),
            (
                "interval",
                "Where the number lies that would come out without noise, with the probability "
                "that is told. It says nothing of errors that the table had before, nor of rows "
                "that do not count.",
            ),
            (
                "released number",
                "The best single number that can be told, with random noise.",
            ),
            ("account", "Remembers what was spent, and refuses what does not fit any more."),
            (
                "proof",
                "A page that proves the guarantee for the code as it is written, signed with a "
                "digest of it.",
            ),
        ]
    )


def _write_footer(told: Sequence[ReportedRelease]) -> Markup:
    days = sorted({day for each in told if (day := each.text("time"))})
    when = join()
    if days:
        when = join(
            " Released on ",
            quote(days[0]),
            *((" to ", quote(days[-1])) if len(days) > 1 else ()),
            ".",
        )
    return join(f"Made by sordino {__version__}, from what was released and nothing else.", when)
