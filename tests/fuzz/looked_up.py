"""Cases of two and three tables: what a source says beside its rows, and how a question is asked of all of them.

looked_up, looked_up_too   columns that are looked up in one private table, and in another one
public                     a public table: by the texts of a column, one of a few labels for each
owned                      the person is looked up: rows have the number of an order, and orders say whose they are

Private tables have all rows of a case: whoever comes or goes does so in all of them. So every law of one table is one of several.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import databases
from fuzz.predicates import columns_of
from fuzz.questions import Question
from fuzz.tables import Row, Table, arrow
from fuzz.values import NO_UNICODE, TEXTS, text_of
from sordino.questions import Lookup
from sordino.questions.lookups import check_lookups, look_up
from sordino.sources.sql.sql_templates import LONGEST_LABEL

KINDS = frozenset({"csv", "parquet", "duckdb", "pandas", "polars", "arrow", "lazy", "postgres"})
OWNED = frozenset({"parquet", "duckdb", "arrow", "postgres"})
"""Sources whose person may stand in a table of orders: there numbers of orders are what they are."""
PLACES = {"looked_up": "c", "looked_up_too": "d"}
FAMILIES = ("looked_up", "looked_up_too", "public", "owned")
FOUND = "p.label"
"""A column of a public table."""
UNLISTED = ("unlisted", "public", "indexed", "found")


def random_tables(
    rng: Any, question: Question, table: Table, spec: dict[str, Any], *, private: bool = False
) -> dict[str, Any]:
    """Return what a source says of further tables, a private one among them; the table has all rows of the case."""
    made: dict[str, Any] = {}
    dice = 0.0 if private else rng.random()
    if dice < 0.3:
        columns = random_lookup(rng, question, table.names)
        if columns:
            made["looked_up"] = columns
    elif dice < 0.55 and spec["kind"] in OWNED and _may_be_owned(question, spec):
        made["owned"] = rng.choice(("kept", "kept", "open"))
    if made and "owned" not in made and rng.random() < 0.4:
        others = [
            name
            for name in random_lookup(rng, question, table.names)
            if name not in made["looked_up"]
        ]
        more = [name for name in table.names if name not in {*made["looked_up"], question.unit}]
        if others or more:
            made["looked_up_too"] = others or [rng.choice(more)]
    looked = {name for family in PLACES for name in made.get(family, ())}
    if (not made or rng.random() < 0.4) and rng.random() < 0.6:
        made |= _random_public(rng, question, table, looked)
    return made


def _may_be_owned(question: Question, spec: dict[str, Any]) -> bool:
    """Tell whether a unit may be looked up: nothing but the unit is asked of its column."""
    asked = set() if question.where is None else columns_of(question.where)
    return question.unit not in asked and "types" not in spec and not spec.get("collated")


def _random_public(rng: Any, question: Question, table: Table, looked: set[str]) -> dict[str, Any]:
    role = "item" if question.item is not None else "by"
    listed = set(UNLISTED) & {*(question.domain or {})} == set() and question.other is None
    named = getattr(question, role)
    if named is None or not listed or named in looked:
        return {}
    # By the person would be a private one; a column that is looked up has no keys here, and one of a file of texts that
    # is read as numbers has other ones.
    of = [name for name in table.names if name not in {question.unit, question.column, *looked}]
    if not of:
        return {}
    # Texts are where comparisons differ.
    words = [name for name in of if table.kind(name) == "VARCHAR"]
    column = rng.choice(words if words and rng.random() < 0.7 else of)
    place = table.names.index(column)
    values = [text_of(value, table.kinds[place]) for value in table.column(place)[:3000]]
    texts = {text for text in [*values, *rng.sample(TEXTS, 6)] if text is not None}
    # And what a careless comparison takes for the same.
    texts |= {one for text in texts for one in (text.swapcase(), f"0{text}") if rng.random() < 0.4}
    keys = sorted(text for text in texts if _is_key(text))
    keys = rng.sample(keys, min(len(keys), rng.choice((3, 40, 40)))) or ["a"]
    labels = [rng.choice(("x", "X", "y", "z", None)) for _ in keys]
    labels[0] = "x"
    return {"public": {"role": role, "of": column, "keys": keys, "labels": labels}}


def _is_key(text: str) -> bool:
    return "\0" not in text and text != NO_UNICODE and len(text) <= LONGEST_LABEL


def asked_of(question: Question, public: dict[str, Any]) -> Question:
    """Return the question about the labels of a public table, in place of those of a column."""
    labels = sorted({label for label in public["labels"] if label is not None})
    ranges = question.ranges and question.ranges[:1] * len(labels)
    asked = replace(question, domain={"list": labels}, ranges=ranges)
    return replace(asked, item=FOUND) if public["role"] == "item" else replace(asked, by=FOUND)


def with_public(table: Table, public: dict[str, Any], *, server: bool) -> Table:
    """Return a table with what its rows find in a public one, for the oracle."""
    place, known = (
        table.names.index(public["of"]),
        dict(zip(public["keys"], public["labels"], strict=True)),
    )
    kind = table.kinds[place]
    rows = tuple(
        (
            *row,
            known.get(str(text_of(row[place], kind, server=server)))
            if row[place] is not None
            else None,
        )
        for row in table.rows
    )
    return Table((*table.names, FOUND), (*table.kinds, "VARCHAR"), rows)


def count_tables(spec: dict[str, Any]) -> int:
    """Return how many tables a case has."""
    return 1 + len(set(FAMILIES) & {*spec})


def random_lookup(rng: Any, question: Question, names: tuple[str, ...]) -> list[str]:
    """Return the columns that are looked up: at least one that the question names, and never the unit."""
    named = sorted(question.columns() - {question.unit})
    if not named:
        return []
    more = [name for name in names if name != question.unit and rng.random() < 0.3]
    return sorted({rng.choice(named), *more})


def rename(question: Question, spec: dict[str, Any]) -> Question:
    """Return the question with the names that its columns have when they are looked up."""
    named = {}
    for role in ("item", "column", "by"):
        for family, place in PLACES.items():
            if getattr(question, role) in spec.get(family, ()):
                named[role] = f"{place}.{getattr(question, role)}"
    if "owned" in spec:
        named["unit"] = f"o.{question.unit}"
    asked = replace(question, **named)
    if asked.call is None:
        return asked
    role = "by" if asked.item is None else "item"
    quoted = '"' + str(getattr(asked, role)).replace('"', '""') + '"'
    return replace(asked, **{role: asked.call.format(quoted)})


def _as_written(table: Table) -> pa.Table:
    """Return a table as Arrow; a column of which one value is of no such type has texts, as a frame would make them."""
    made = {}
    for place, (name, kind) in enumerate(zip(table.names, table.kinds, strict=True)):
        # A file of texts that are none is no Parquet file.
        values = [None if value == NO_UNICODE else value for value in table.column(place)]
        alone = Table((name,), (kind,), tuple((value,) for value in values))
        try:
            made[name] = arrow(alone).column(0)
        except (pa.ArrowException, OverflowError):
            made[name] = pa.array([text_of(value, kind) for value in values], pa.string())
    return pa.table(made)


@dataclass(frozen=True)
class Tables:
    """The tables of a case beside its first one."""

    spec: dict[str, Any]
    question: Question
    unit_of: Callable[[Row], Any]

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return count_tables(self.spec) > 1

    def number(self, table: Table) -> Table:
        """Return the table with the number of an order in place of whose a row is, where a table of orders says that."""
        if "owned" not in self.spec:
            return table
        place = table.names.index(str(self.question.unit))
        rows = [(*row[:place], self._number(row), *row[place + 1 :]) for row in table.rows]
        kinds = (*table.kinds[:place], "BIGINT", *table.kinds[place + 1 :])
        return Table(table.names, kinds, tuple(rows))

    def _number(self, row: Row) -> int | None:
        """Return the order of a row: of its unit and the row alone; where nothing keeps orders apart, of the row."""
        unit, own = self.unit_of(row), zlib.crc32(repr(row).encode("utf-8", "surrogatepass")) % 3
        if unit == NO_UNICODE or (unit is None and own):
            return None
        told = repr((unit if self.spec["owned"] == "kept" else None, own))
        return int.from_bytes(
            blake2b(told.encode("utf-8", "surrogatepass"), digest_size=7).digest()
        )

    def _list_orders(self, table: Table) -> Table:
        place, known = table.names.index(str(self.question.unit)), dict[Any, Row]()
        for row in table.rows:
            if (number := self._number(row)) is not None:
                # Where an order is kept once it is one of a unit, and so it is of one here.
                order = number if self.spec["owned"] == "kept" else (number, self.unit_of(row))
                known.setdefault(order, (number, row[place]))
        kinds = ("BIGINT", table.kinds[place])
        return Table(("no", table.names[place]), kinds, tuple(known.values()))

    def may_stay_open(self) -> bool:
        """Tell whether other rows may take the place of those of a source that was opened: they have its types."""
        spec = self.spec
        typed = spec["kind"] == "duckdb" or (
            spec["kind"] == "parquet" and spec["writer"] != "pandas"
        )
        return typed and "owned" not in spec and not spec.get("link")

    def write(
        self, target: Any, table: Table, folder: Path
    ) -> tuple[dict[str, Lookup], Callable[[], None], Any]:
        """Write the other tables; return them, what drops them, and their types.

        On a server private ones are the table itself.
        """
        lookups, close, types = {}, _nothing, None
        unit = str(self.question.unit)
        for family, name in PLACES.items():
            if family in self.spec:
                place = target
                if self.spec["kind"] != "postgres":
                    place = folder / f"second-{name}" / f"{name}.parquet"
                    place.parent.mkdir(exist_ok=True)
                    written = _as_written(table)
                    types = written.schema
                    pq.write_table(written, place)
                lookups[name] = Lookup(place, key=unit, private=True)
        if "public" in self.spec:
            public = self.spec["public"]
            place = folder / "public" / "p.parquet"
            if not place.exists():
                place.parent.mkdir(exist_ok=True)
                made = {"key": public["keys"], "label": public["labels"]}
                pq.write_table(
                    pa.table(
                        {name: pa.array(values, pa.string()) for name, values in made.items()}
                    ),
                    place,
                )
            lookups["p"] = Lookup(place, key="key", of=public["of"])
        if "owned" in self.spec:
            place, close = databases.write_orders(
                self._list_orders(table),
                folder,
                kept=self.spec["owned"] == "kept",
                server=self.spec["kind"] == "postgres",
            )
            lookups["o"] = Lookup(place, key="no", of=unit, private=True)
        return lookups, close, types

    def lend(self, source: Any, lookups: dict[str, Lookup]) -> Any:
        """Return the source with the other tables; whoever wrote them drops them."""
        joined = look_up(source, lookups)
        check_lookups(joined, rename(self.question, self.spec).whose(), charged=False)
        return joined


def _nothing() -> None:
    pass
