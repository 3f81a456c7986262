"""The record of a release.

All that is printed of it, in one form for the command, sessions and the ledger.

A table, JSON and CSV are all made of a record. So what is kept of it prints the release again in
each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, NamedTuple, final
from unicodedata import category

from sordino._version import __version__
from sordino.errors import InvalidParameter, LedgerError
from sordino.receipt import Receipt

SCHEMA = 1
"""The number of the form of JSON and CSV; a change that a program may stumble over raises it."""
FORM = 2
"""The highest number of the form of a record; one of a higher number is refused, not guessed at."""
SIMULATED = "SIMULATED: the noise is predictable; this protects nobody."
MOST_CHARACTERS = 1 << 26
"""Of the text of a record that is kept: about half a million rows."""


@final
@dataclass(frozen=True, kw_only=True)
class Record:
    """What is printed of one release; all of it was released, and nothing in it is private.

    Parameters
    ----------
    facts : mapping of str to object
        What the release says of itself; its id, its account and what it spent among them.
    columns : sequence of str
        Names of the columns, in their order.
    rows : sequence of mapping of str to object
        One mapping a row; it has each of the columns.
    notes : sequence of str
        Sentences that stand below a table.
    hidden : sequence of str
        Columns that a table leaves out; JSON and CSV have them.
    counts : bool
        Whether numbers of a table are about counts: then they have one digit after the point at
        most.
    again : mapping of str to object, optional
        What measures the release again from what a ledger has kept; it is never printed.

    Raises
    ------
    InvalidParameter
        By `to_text`, if a value is none that JSON can express, or the text would be longer than
        2^26 characters.

    Examples
    --------
    >>> from sordino.record import Record
    >>> record = Record(facts={"release": "count", "epsilon": 0.5}, columns=("estimate",),
    ...               rows=[{"estimate": 118}], notes=["Spent: epsilon 0.5."])
    >>> Record.from_text(record.to_text()).rows
    [{'estimate': 118}]
    """

    facts: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    hidden: Sequence[str] = ()
    counts: bool = True
    # Two records that print the same are the same.
    again: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def form(self) -> int:
        """The number of its form: older versions read one that says nothing to measure it again."""
        return 1 if self.again is None else FORM

    def to_text(self) -> str:
        """Return the record as the text that a ledger keeps: one object of JSON, in ASCII."""
        said = {
            "facts": dict(self.facts),
            "columns": list(self.columns),
            "rows": [dict(row) for row in self.rows],
            "notes": list(self.notes),
            "hidden": list(self.hidden),
            "counts": self.counts,
            **({} if self.again is None else {"again": dict(self.again)}),
        }
        try:
            # Names are not sorted: their order is that of what is printed. And both databases take
            # ASCII, where a label may hold a character that one of them refuses.
            text = json.dumps(said, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            raise InvalidParameter(
                "A record must hold JSON-ready values and finite numbers; this one holds something "
                "else."
            ) from None
        if len(text) > MOST_CHARACTERS:
            raise InvalidParameter(
                f"A record that is kept must have at most {MOST_CHARACTERS} characters; got "
                f"{len(text)}."
            )
        return text

    @classmethod
    def from_text(cls, text: str) -> Record:
        """Return the record that a text holds.

        Parameters
        ----------
        text : str
            As `to_text` makes it.

        Raises
        ------
        LedgerError
            If it holds none.
        """
        try:
            said = json.loads(text)
            record = cls(**said)
        except (ValueError, TypeError, RecursionError):
            raise LedgerError(_UNREADABLE) from None
        # Others may have written the file: what is printed later must not fail because of one
        # value.
        kinds = {
            "facts": dict,
            "columns": list,
            "rows": list,
            "notes": list,
            "hidden": list,
            "counts": bool,
        }
        fits = (
            all(isinstance(getattr(record, name), kind) for name, kind in kinds.items())
            and all(
                isinstance(word, str) for word in (*record.columns, *record.notes, *record.hidden)
            )
            and isinstance(record.again, dict | None)
            and all(
                isinstance(row, dict) and row.keys() >= set(record.columns) for row in record.rows
            )
        )
        if not fits:
            raise LedgerError(_UNREADABLE)
        return record


_UNREADABLE = (
    "What the ledger has kept of this release is no record of sordino: somebody else wrote it. "
    "`sordino ledger verify` tells whether it was changed."
)


def spread_labels(record: Record) -> Record:
    """Return a record in which each part of a label of several columns has a column of its own."""
    names = record.facts.get("item")
    if not isinstance(names, list) or "item" not in record.columns:
        return record
    parts = name_parts(names, {*record.columns, *record.facts} - {"item"})

    def spread(row: Mapping[str, Any]) -> dict[str, Any]:
        label = row["item"]
        own = [*label] if isinstance(label, tuple | list) else [label]
        return {**row, **dict(zip_longest(parts, own[: len(parts)]))}

    columns = [part for name in record.columns for part in (parts if name == "item" else [name])]
    # Said in words from here on, so that nothing is spread twice.
    facts = {**record.facts, "item": ", ".join(map(str, names))}
    return replace(record, facts=facts, columns=columns, rows=[spread(row) for row in record.rows])


def find_margin_word(labels: Iterable[object]) -> str:
    """Return what stands for all labels of a column, which is none of them."""
    known, word = {*map(str, labels)}, "Total"
    while word in known:
        word = f"({word})"
    return word


class Sides(NamedTuple):
    """How a cross table is drawn: the labels of each side, and where each number stands.

    Attributes
    ----------
    labels : tuple of list
        Of each column of labels those that there are, in their order; None, for all, is the last.
    word : str
        What stands for all labels.
    rows : mapping
        The row of each number, by its labels.
    """

    labels: tuple[list[str | None], ...]
    word: str
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]]

    def show(self, label: str | None) -> str:
        """Return what people are shown for a label."""
        return self.word if label is None else label


def find_sides(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Sides | None:
    """Return how a cross table is drawn; None of what is none, such as somebody else may write."""
    found = {}
    for row in rows:
        label = row.get("item")
        if not isinstance(label, list | tuple) or len(label) != len(names):
            return None
        if not all(isinstance(part, str | None) for part in label):
            return None
        found[tuple(label)] = row
    sides = [dict.fromkeys(label[side] for label in found) for side in range(len(names))]
    labels = tuple([*(one for one in side if one is not None), None] for side in sides)
    word = find_margin_word(one for side in labels for one in side if one is not None)
    return Sides(labels, word, found)


def pivot_rows(
    names: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
    taken: Iterable[str] = (),
) -> list[dict[str, Any]] | None:
    """Return a cross table with a column for each label of its last column; None of what is none.

    Parameters
    ----------
    names : sequence of str
        The columns of labels.
    rows : sequence of mapping
        Each number with its labels, `item`.
    figures : sequence of str
        What is said of each number: all lines of the first one, then all of the next one. The
        column `figure` has its name.
    taken : iterable of str
        Names that no column may have.
    """
    sides = find_sides(names, rows)
    if sides is None or not names:
        return None
    *_, last = sides.labels
    parts = name_parts(names[:-1], {"figure", *taken})
    heads = name_parts(map(sides.show, last), {"figure", *taken, *parts})
    places = [{label: place for place, label in enumerate(side)} for side in sides.labels]
    lines = sorted(
        {label[:-1] for label in sides.rows},
        key=lambda line: [place[part] for place, part in zip(places, line, strict=False)],
    )
    return [
        {
            **dict(zip(parts, map(sides.show, line), strict=True)),
            "figure": figure,
            **{
                head: sides.rows.get((*line, label), {}).get(figure)
                for head, label in zip(heads, last, strict=True)
            },
        }
        for figure in figures
        for line in lines
    ]


def pivot_table(record: Record) -> Record:
    """Return the record of a cross table as `pivot_rows` has it; any other one as it is."""
    names = record.facts.get("item")
    if record.facts.get("figure") != "table" or not isinstance(names, list):
        return record
    # What is shown stands first; a column in which nothing is known says nothing.
    figures = [
        name
        for name in record.columns
        if name != "item" and any(row.get(name) is not None for row in record.rows)
    ]
    rows = pivot_rows([*map(str, names)], record.rows, figures, record.facts)
    if not rows:
        return record
    facts = {**record.facts, "item": ", ".join(map(str, names))}
    return replace(record, facts=facts, columns=tuple(rows[0]), rows=rows, hidden=())


def name_parts(names: Iterable[object], taken: Collection[str]) -> list[str]:
    """Return the names of the columns of a label, none of which is another one, or taken."""
    found: list[str] = []
    for given in map(str, names):
        name = given
        while name in taken or name in found:
            name = f"item.{name}"
        found.append(name)
    return found


def list_facts(
    kind: str,
    release: Any,
    receipt: Receipt | None,
    *,
    unit: str | None,
    adjacency: str | None,
    max_rows: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return what every release says about itself to programs.

    Of `more`, what is None is left out.
    """
    return {
        "release": kind,
        **({} if receipt is None else receipt.to_dict()),
        **list_spent(release.cost),
        "mechanisms": list_mechanisms(release.mechanism),
        "adjacency": adjacency,
        "unit": unit,
        "max_rows": max_rows,
        **{name: value for name, value in more.items() if value is not None},
        "simulated": release.simulated,
        "exact": release.exact,
        "cost": release.cost.to_dict(),
        "version": __version__,
        "schema": SCHEMA,
    }


def list_spent(cost: Any) -> dict[str, Any]:
    """Return what a release spent.

    An epsilon, or a rho where it has none, and the delta of its failures. Where its noise was
    chosen for its rho, both.
    """
    # Most costs never fail.
    split = getattr(cost, "split_failure", None)
    failing, firm = (0, cost) if split is None else split()
    pure = firm.pure()
    if math.isfinite(pure):
        # Delta goes with this epsilon, which is pure but for a failure, on whatever meter the
        # account counts.
        said = {"epsilon": float(pure), "delta": float(failing) or 0}
        # Gumbel noise is chosen for the rho it has, and has a larger epsilon than was asked for.
        notions = [getattr(part, "notion", None) for part, _ in getattr(firm, "parts", [(firm, 1)])]
        searched = "gumbel-stage" in notions
        return said | ({"rho": float(firm.zcdp())} if searched else {})
    # Gaussian noise has no epsilon at delta 0: what it spends is a rho.
    spent = {"epsilon": None, "delta": None, "rho": float(firm.zcdp())}
    return spent | ({"failures": float(failing)} if failing else {})


def list_total(release: Any) -> dict[str, Any]:
    """Return what a release cost together with the looks before it.

    Nothing where it is the only one.

    Where nobody knows it any more its epsilon is None.
    """
    total = getattr(release, "total", None)
    if total is None:
        return {"total_epsilon": None} if len(getattr(release, "looks", ())) > 1 else {}
    return {f"total_{name}": amount for name, amount in list_spent(total).items()}


def list_mechanisms(mechanism: Any) -> list[str]:
    """Return the names of what made a release.

    One for each claim, which says what is proved of it.
    """
    parts = mechanism if isinstance(mechanism, tuple) else (mechanism,)
    return list(dict.fromkeys(type(part).__name__ for part in parts if part is not None))


def list_noises(mechanism: Any) -> dict[str, str | None]:
    """Return the kinds of noise of what measures, or of what selects and then measures."""
    # What measures several things at once has not selected.
    if isinstance(mechanism, tuple) and all(getattr(one, "adds_noise", False) for one in mechanism):
        mechanism = mechanism[0] if mechanism else None
    several = isinstance(mechanism, tuple)
    parts = mechanism if several else (mechanism,)
    # A search adds noise to no count that is released; it is named where it is not pure.
    if any(getattr(part, "search_noise", None) == "gumbel" for part in parts):
        return {"noise": "gumbel"}
    # Of a figure in two stages it is the noise of the second one.
    noises = [getattr(part, "total_noise", getattr(part, "noise", None)) for part in parts]
    # Several laws of one family are called by the name of the family.
    kinds = [noise if isinstance(noise, str) else getattr(noise, "name", None) for noise in noises]
    if not any(kinds):
        return {}
    # Where nothing was selected, or nobody asked for it, nothing is measured.
    idle = several and len(kinds) == 1
    found = dict(zip(("noise", "measure_noise"), [*kinds, None], strict=False))
    # A set is chosen at once, and so is a quantile: there is no noise on a count that could be
    # named.
    return {
        name: kind for name, kind in found.items() if kind or (idle and name == "measure_noise")
    }


def describe_spent(facts: Mapping[str, Any]) -> str:
    """Return what a release spent, in words."""
    if facts["epsilon"] is None:
        fails = f" and delta {facts['failures']:.6g}" if facts.get("failures") else ""
        return f"rho {facts['rho']:.6g}{fails} (its noise has no epsilon at delta 0)"
    fails = f", delta {facts['delta']:.12g}" if facts["delta"] else ""
    epsilon = f"epsilon {facts['epsilon']:.12g}{fails}"
    # What the account counts stands first.
    return f"rho {facts['rho']:.6g} (by itself {epsilon})" if facts.get("rho") else epsilon


def list_warnings(release: Any) -> list[str]:
    """Return the warnings that stand below a table: whether the noise is predictable."""
    return [SIMULATED] if release.simulated else []


def describe_receipt(receipt: Receipt | None) -> list[str]:
    """Return the note that says where the ledger has a release; none if nobody paid."""
    if receipt is None or receipt.id is None:
        return []
    return [
        f"Charge: {receipt.id} of account {escape_controls(receipt.account or '')}, {receipt.day}."
    ]


def escape_controls(text: str) -> str:
    """Return a text in which control characters are spelled out, as Python writes them.

    A label must not steer the terminal, turn the direction of what follows, or break a row. Blanks
    of all kinds stay, as do the two joiners that some alphabets need.
    """
    # Nearly every text is printable, and then it stays as it is.
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if steers(c) else c for c in text)


def steers(character: str) -> bool:
    """Tell whether a terminal obeys a character, or the text around it does."""
    return category(character) in _STEERING and character not in "\u200c\u200d"


_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Categories of Unicode: controls, formats, halves of characters, separators of lines and
paragraphs."""


def format_cell(value: Any, digits: int | None = None) -> str:
    """Return a cell: nothing for None, and numbers with that many digits after the point.

    With `digits=None` they have as many as they need.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.12g}" if digits is None else f"{value:.{digits}f}"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def format_about(share: float, low: float, high: float) -> str:
    """Return an estimated share in percent, with the digits that its interval deserves."""
    return format_share(share) if high - low < _NARROW else f"{100 * share:.0f}%"


_NARROW = 0.02


def format_share(share: float) -> str:
    """Return a share in percent with at most two digits, rounded down: nothing more is promised."""
    return f"{math.floor(share * 10_000 + 1e-6) / 100:.12g}%"
