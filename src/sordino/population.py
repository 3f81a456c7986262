"""Of whom a release is: which rows count in it, by rules that are public.

Every form of a release says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from sordino.record import (
    escape_controls,
    find_margin_word,
    format_about,
    format_cell,
    format_share,
)
from sordino.unit_columns import find_cut, has_several_columns, name_unit_of, say_unit_of

_COUNTED: dict[str, Literal["rows", "units"]] = {
    "count": "rows",
    "count_distinct_units": "units",
    # Each unit is in one bin.
    "value_histogram": "units",
}
_KEY_OF_A_PERSON = re.compile(
    r"([A-Za-z][\w -]{0,30}?)(?:[_ -](?:id|key|no|nr|num|number|code)|Id|ID)", re.ASCII
)


def call_person(column: str | None) -> str:
    """Return what somebody is called, by the name of the column that says who it is.

    Examples
    --------
    >>> from sordino.population import call_person
    >>> call_person("customer_id"), call_person("patientId"), call_person("x")
    ('customer', 'patient', 'person')
    """
    found = _KEY_OF_A_PERSON.fullmatch(column or "")
    return "row" if column is None else found[1].replace("_", " ") if found else "person"


@final
@dataclass(frozen=True, kw_only=True)
class Population:
    """Whom a release of a session protects, and which rows count in it. All of it is public.

    Parameters
    ----------
    figure : str
        What was asked for, by the name of the method of a session: "count", "mean", and so on.
    unit : str
        Whom it protects: "each row", or "column NAME".
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    max_rows : int or None
        So many rows, or items, of a unit count at most.
    item, column, by : str or None
        The columns that were asked about: of labels, of numbers, and of the groups.
    where : str or None
        The predicate that chose the rows.
    per_person : str or None
        What one number is made of the rows of each unit: "sum", "count", "mean", "min", "max" or
        "any"; None where rows count by themselves.
    groups_per_unit : int or None
        With `by`: in so many groups a unit counts at most; None: in any, with `max_rows` rows in
        all of them. With one clip for all groups that nobody listed: while they are looked for.
    domain : str or None
        Where the labels come from, and who listed them.
    threshold, lower : float or None
        What counts were compared with; below which number all count as it.
    bounds : tuple of float, or None
        The declared range of the figure.
    left_out : tuple of str
        Which rows do not count, by rules that look at one row alone.
    k, most_groups : int or None
        How many labels, or groups, were asked for at most.
    unlisted : bool
        Whether nobody listed the labels.
    share_refused : bool
        Whether nothing was to be spent on how many rows have a number.
    weighed : bool
        Whether all rows of a unit count, with weights.
    weight_cap, units_beyond : int or None
        Then, of a release: as how many rows, or groups, a unit counts at most, in all groups
        together; and how many units' worth of them are meant to lie beyond the clip, if there is
        one.
    own_clips : bool
        Whether each group of weighed rows has a clip of its own.
    called : str or None
        What whoever is protected is called, where somebody has said it.
    epsilon : float or None
        What was asked to be spent; noise without a pure epsilon costs as much.
    part : str or None
        Of which days (or hours, months, years) alone rows were read; `where` says it, too.
    lookups : tuple of str
        In which other tables columns were looked up, with what each was.
    lent : tuple of str
        The names of those of which a unit is lent one row, if it has several there.

    Examples
    --------
    >>> from sordino.population import Population
    >>> some = Population(figure="count", unit="column customer", adjacency="add-remove",
    ...                   max_rows=1, where="x > 5")
    >>> some.list_notes()[:2]
    ['Only rows where x > 5.', 'Counts at most 1 row of each person; true counts may be higher.']
    >>> some.is_bounded
    True
    """

    figure: str
    unit: str
    adjacency: str
    max_rows: int | None = None
    item: ColumnNames | None = None
    column: str | None = None
    by: ColumnNames | None = None
    where: str | None = None
    per_person: str | None = None
    groups_per_unit: int | None = None
    domain: str | None = None
    threshold: float | None = None
    lower: float | None = None
    bounds: tuple[float, float] | None = None
    left_out: tuple[str, ...] = ()
    k: int | None = None
    most_groups: int | None = None
    unlisted: bool = False
    share_refused: bool = False
    weighed: bool = False
    weight_cap: int | None = None
    units_beyond: int | None = None
    own_clips: bool = False
    called: str | None = None
    epsilon: float | None = None
    lookups: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()
    part: str | None = None

    @property
    def person(self) -> str:
        """What whoever is protected is called."""
        return name_one(self.unit, self.called)

    @property
    def people(self) -> str:
        """What several of them are called."""
        return name_many(self.person)

    @property
    def counted(self) -> Literal["rows", "units", "items"] | None:
        """What a count counts; of labels it is "items". None of a figure of a column."""
        return _COUNTED.get(self.figure, None if self.item is None else "items")

    @property
    def is_bounded(self) -> bool:
        """Whether only some rows or items of a unit count, so that a figure of all may differ."""
        # A unit counts once in a number of units, whatever bounds its rows.
        return bool(self.lent) or (self.max_rows is not None and self.counted != "units")

    @property
    def clips_together(self) -> bool:
        """Whether one clip is of what a unit has in all groups."""
        if self.figure == "top_sums":
            return True
        if self.weighed:
            return self.by is not None and self.figure != "quantile" and not self.own_clips
        grouped = self.figure == "sum" and self.by is not None and self.bounds is None
        anywhere = self.groups_per_unit is None or self.unlisted
        return grouped and anywhere and self.per_person in {"sum", "count"}

    def list_facts(self) -> dict[str, Any]:
        """Return which rows count, JSON-ready, by the names that every form of a release uses."""
        said = {
            "item": list_columns(self.by or self.item),
            "column": self.column,
            "by": list_columns(self.by),
            "part": self.part,
            "where": self.where,
            "per_person": self.per_person,
            "domain": self.domain,
            "threshold": self.threshold,
            "bounds": None if self.bounds is None else list(self.bounds),
            "weight_cap": self.weight_cap,
            "units_beyond": self.units_beyond,
        }
        return {
            **{name: value for name, value in said.items() if value is not None},
            # None says something there: that there are numbers of both signs, and a unit counts in
            # any group.
            **(
                {}
                if self.counted or self.column is self.per_person is None
                else {"lower": self.lower}
            ),
            **({} if self.by is None else {"groups_per_unit": self.groups_per_unit}),
            **(
                {"groups_per_unit": self.groups_per_unit}
                if self.figure == "top_sums" and self.unlisted
                else {}
            ),
            **({"lower": self.lower} if self.figure == "top_sums" else {}),
            **({"clipped_together": True} if self.clips_together else {}),
            **({"own_clips": True} if self.own_clips else {}),
            **({"lookups": list(self.lookups)} if self.lookups else {}),
            **({"lent": list(self.lent)} if self.lent else {}),
            "left_out": list(self.left_out),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON-ready values."""
        whom = {"unit": self.unit, "adjacency": self.adjacency, "max_rows": self.max_rows}
        return {"figure": self.figure} | whom | self.list_facts()

    def list_bounds(self) -> dict[str, Any]:
        """Return what makes a figure another one than of all rows by themselves; else nothing."""
        found: dict[str, Any] = {} if self.where is None else {"where": self.where}
        if self.per_person is not None:
            found["per_person"] = self.per_person
        if self.weight_cap is not None:
            found["weight_cap"] = self.weight_cap
        if self.lent:
            found["lent"] = ", ".join(self.lent)
        if self.max_rows is not None and self.counted != "units":
            found["max_rows"] = self.max_rows
            if self.by is not None and self.groups_per_unit is not None:
                found["groups_per_unit"] = self.groups_per_unit
        return found

    def say_about(self) -> list[str]:
        """Return the sentence that names the columns and the filter; none of a count of all rows.

        Another one says that one clip is of all groups.
        """
        ranked = self.figure == "top_sums"
        asked = say_columns(self.item) if self.column is None and not ranked else self.column
        if self.per_person is not None:
            asked = name_value(self.per_person, asked, self.person)
        parts = [] if asked is None else [f"about {asked}"]
        # The largest sums are those of their items.
        each = self.item if ranked else self.by
        parts += [] if each is None else [f"for each {say_columns(each)}"]
        parts += [] if self.where is None else [f"only rows where {self.where}"]
        said = ", ".join(parts)
        told = [f"{said[0].upper()}{said[1:]}."] if said else []
        told += self._say_weights()
        if self.clips_together and not self.weighed:
            told.append(f"In all groups together a {self.person} counts for at most one clip.")
        if self.clips_together and self.unlisted:
            most = self.groups_per_unit
            told.append(f"Groups were looked for with a {self.person} in at most {most} of them.")
        return [escape_controls(one) for one in told]

    def say_share(self, share: Any) -> list[str]:
        """Return the sentences that say how many rows held a number; none where all must.

        `share` is the `NumbersShare` of a release, or None. The last sentence is a warning where
        these are few.
        """
        if share is None:
            unasked = ["How many rows held a number is not known (--numbers-share 0)."]
            return unasked if self.share_refused else []
        spent = f"for epsilon {format_cell(float(share.cost.pure()))} of it"
        if share.estimate is None:
            told = f"cannot be told ({spent})"
        else:
            told = (
                f"about {format_about(share.estimate, share.low, share.high)} "
                f"(95%: {format_share(share.low)} to "
                # An upper end is rounded up: nothing less is promised.
                f"{format_share(min(1.0, share.high + 1e-4))}; {spent})"
            )
        of_rows = self.per_person is None and not self.weighed
        counted = (
            "Rows that count and"
            if of_rows
            else f"{self.people.capitalize()} who count and of whom a row"
        )
        notes = [f"{counted} held a number: {told}."]
        if share.is_low:
            all_rows = "rows" if of_rows else self.people
            said = f"at least {format_share(1 - share.high)} of the {all_rows} held no number"
            if share.may_be_few:
                said = f"the figure may be about few of the {all_rows}"
            notes.append(
                f"WARNING: {said}. If numbers or dates are written in another way, declare it "
                "(--type, --decimal, --thousands, --date-format), or convert the columns of a "
                "frame (pd.to_numeric, pd.to_datetime)."
            )
        return notes

    def _say_weights(self) -> list[str]:
        """Return the sentences that say how rows of a unit were weighed; none where they were not.

        Nor where nothing was released.
        """
        if self.weight_cap is None:
            return []
        # Of one number in each group these are counted, and not rows.
        what = "rows" if self.per_person is None else "groups"
        whole = ", in all groups together," if self.per_person is None and self.by else ""
        one, cap = self.person, f"{self.weight_cap:,}"
        told = [
            f"Each {one} counts once{whole.rstrip(',')}: of several {what} each weighs less."
            if self.weight_cap == 1
            else f"A {one} with more than {cap} {what}{whole} counts as {cap} of them: each of its "
            f"{what} weighs less."
        ]
        # A quantile has no clip.
        if self.units_beyond is not None:
            clips = ", one for all groups" if self.by is not None else ""
            clips = " of each group" if self.own_clips else clips
            whose = self.people + ("'" if self.people.endswith("s") else "'s")
            told.append(
                f"About {self.units_beyond:,} {whose} worth of {what} are meant to lie beyond the "
                f"clip{clips}."
            )
        return told

    def say_left_out(self) -> list[str]:
        """Return the sentence that says which rows do not count; none where all do."""
        return [f"Left out: {escape_controls('; '.join(self.left_out))}."] if self.left_out else []

    def say_lookups(self) -> list[str]:
        """Return the sentence that says which other tables were looked up; none if none was."""
        return [f"Looked up: {escape_controls('; '.join(self.lookups))}."] if self.lookups else []

    def list_notes(self) -> list[str]:
        """Return all of it as sentences below a table."""
        labels = escape_controls(self.domain or "")
        return [
            *self.say_about(),
            *self.say_bound(),
            *self.say_left_out(),
            *self.say_lookups(),
            *([f"Labels: {labels}."] if labels else []),
            *self.say_protected(),
        ]

    def say_protected(self) -> list[str]:
        """Return the sentences that say whom it protects."""
        whom = escape_controls(say_unit(self.unit, self.called))
        return [f"Protects: {whom}, {self.adjacency}.", *say_days(self.unit)]

    def say_bound(self) -> list[str]:
        """Return how much of a unit counts, and what a reader must not take the figures for."""
        if not self.is_bounded:
            return []
        what = "items" if self.counted == "items" else "rows"
        what = "cells" if self.figure == "table" else what
        what = what if self.max_rows != 1 else what[:-1]
        bounded = self.max_rows is not None and self.counted != "units"
        most = f"at most {self.max_rows} {what} of each" if bounded else "each"
        most += f" {self.person}"
        if self.lent:
            most += f"{',' * bounded} {say_lent(self.lent)}"
        if self.counted is not None:
            return [f"Counts {most}; true counts may be higher."]
        if not bounded:
            return [f"Counts {most}; the figure of all rows may differ."]
        groups = self.groups_per_unit
        if self.by is not None:
            each = "1 group" if groups == 1 else f"{groups} groups"
            most += " in all groups together" if groups is None else f" in each of at most {each}"
        return [f"Counts {most}; the figure of all rows may differ."]


ColumnNames = str | Sequence[str]
"""The name of a column of labels, or those of several whose labels are tuples."""


def say_lent(tables: Sequence[str]) -> str:
    """Return by which rows of other tables people are taken."""
    return f"by one row of {say_columns(tables)}, drawn if there are more"


def list_columns(names: ColumnNames | None) -> str | list[str] | None:
    """Return the name of a column, or a list of several, JSON-ready."""
    return names if names is None or isinstance(names, str) else list(names)


def say_columns(names: ColumnNames | None, word: str = "and") -> str | None:
    """Return the names of columns in words: "region", or "region and age_group"."""
    if names is None or isinstance(names, str):
        return names
    *others, last = map(str, names)
    return f"{', '.join(others)} {word} {last}" if others else last


def say_label(label: object, margin: str = "all") -> object:
    """Return a label for people: the parts of one of several columns, with a dot in between."""
    if not isinstance(label, tuple | list):
        return label
    # In a table a number may be of all labels of a column.
    return " \u00b7 ".join(margin if part is None else str(part) for part in label)


def show_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return rows as people are shown them: a label in one text, and what stands for an estimate.

    What a cross table shows in place of an estimate is whole, and adds up. The texts of a label of
    several columns stand beside it, as `parts`.
    """
    listed = list(rows)
    labels = [row["item"] for row in listed if isinstance(row.get("item"), tuple | list)]
    margin = find_margin_word(part for label in labels for part in label if part is not None)
    shown: list[Mapping[str, Any]] = []
    for row in listed:
        own = {} if "item" not in row else {"item": say_label(row["item"], margin)}
        if isinstance(row.get("item"), tuple | list):
            own["parts"] = row["item"]
        if row.get("published") is not None:
            own["estimate"] = row["published"]
        shown.append({**row, **own})
    return shown


_SAME_IN_PLURAL = ("craft", "sheep", "fish", "series", "species")


_COLUMN_OF_ACCOUNT = re.compile('column "(.*)"', re.DOTALL)
"""How an account writes a unit of one column."""


def name_one(unit: str, called: str | None) -> str:
    """Return what whoever is protected is called: "row" where each row is somebody else."""
    if has_several_columns(unit):
        return name_unit_of(unit, called or "person")
    return "row" if unit == "each row" else called or "person"


def call_unit(unit: str) -> str:
    """Return what an account of one column calls whoever it protects, by the name of that column.

    Examples
    --------
    >>> from sordino.population import call_unit
    >>> call_unit('column "customer_id"'), call_unit("each row")
    ('customer', 'person')
    """
    column = _COLUMN_OF_ACCOUNT.fullmatch(unit)
    return "person" if column is None else call_person(column[1])


def say_unit(unit: str, called: str | None = None) -> str:
    """Return whom an account protects, in words where there are some."""
    if not has_several_columns(unit):
        one = called or call_unit(unit)
        return unit if unit == "each row" or one == "person" else f"each {one} ({unit})"
    return f"{say_unit_of(unit, called or 'person')} ({unit})"


def say_days(unit: str) -> list[str]:
    """Return the sentence on people who are many units; none where a person is one."""
    if not has_several_columns(unit):
        return []
    cut = find_cut(unit)
    whom = "has several" if cut is None else f"is there on several {cut.removeprefix('day_')}s"
    return [f"Somebody who {whom} is as many of these, and is protected that much less."]


def name_many(one: str) -> str:
    """Return what several of them are called, as English does it for most words."""
    if one == "person":
        return "people"
    if one.endswith(_SAME_IN_PLURAL):
        return one
    if one.endswith(("s", "x", "ch", "sh")):
        return f"{one}es"
    return f"{one[:-1]}ies" if one[-1:] == "y" and one[-2:-1] not in "aeiou" else f"{one}s"


_OF_EACH = {
    "sum": "the sum of {} of each {}",
    "count": "how many rows with {} each {} has",
    "mean": "the mean of {} of each {}",
    "min": "the smallest {} of each {}",
    "max": "the largest {} of each {}",
    "any": "whether any {} of each {} is not 0",
}


def name_value(per_person: str, column: str | None, called: str = "person") -> str:
    """Return what one number of each person is, in words."""
    if column is None:
        return f"how many rows each {called} has"
    # A file that somebody else has written may say anything.
    return _OF_EACH[per_person].format(column, called) if per_person in _OF_EACH else column


def describe_missing(column: str) -> str:
    """Return which rows no figure of a column counts."""
    return f"rows without a number in {column}"
