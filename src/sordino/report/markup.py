"""Writes HTML in which every text is escaped: only what was made here counts as markup.

A label may hold anything: brackets, quotes, control characters, signs that turn the direction of a
line. So markup is a type of its own, and a plain text that is put into an element becomes text.
"""

from __future__ import annotations

import html
from functools import lru_cache
from typing import final

from sordino.record import escape_controls

MOST_LETTERS = 300
"""Of a text that somebody else has written; a longer one is cut, and says how long it is."""
_EMPTY = frozenset({"meta", "br", "hr"})


@final
class Markup(str):
    """A piece of HTML; all texts in it are escaped already."""

    __slots__ = ()


def element(name: str, /, *children: str | None, **attributes: str | bool | None) -> Markup:
    """Return an element: children that are plain texts are escaped, and None is left out.

    Parameters
    ----------
    name : str
        Of the element.
    *children : str or None
        What is in it, in order.
    **attributes : str, bool or None
        `class_` stands for class, and an underscore within a name for a hyphen. True is an
        attribute without a value; False and None are left out.

    Examples
    --------
    >>> from sordino.report.markup import element
    >>> print(element("p", "1 < 2", class_="note"))
    <p class="note">1 &lt; 2</p>
    """
    said = "".join(_write_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{join(*children)}</{name}>")


def join(*children: str | None) -> Markup:
    """Return pieces one after the other; plain texts are escaped, and None is left out."""
    return Markup("".join(escape(child) for child in children if child is not None))


def escape(text: str) -> Markup:
    """Return a text as HTML; markup stays what it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(escape_controls(text)))


def quote(text: object, most: int = MOST_LETTERS) -> Markup:
    """Return a text of somebody else, cut if it is long, that does not turn what surrounds it."""
    return element("bdi", cut(str(text), most))


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """Return the beginning of a long text, and how long it was."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters)"


# A table has the same few attributes thousands of times.
@lru_cache(maxsize=1024)
def _write_attribute(key: str, value: str | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(escape_controls(value))}"'
