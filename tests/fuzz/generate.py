"""Random cases, made from a seed. Shapes that engines fold by what they know of a whole column are likely."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from fuzz import declared, looked_up
from fuzz.cases import PLACES, Case, unit_text
from fuzz.pandas_frames import FOUND_OUT
from fuzz.predicates import Maker
from fuzz.questions import Question, make_domain
from fuzz.releases import random_release
from fuzz.sources import HOLDS, ODD_HEADERS, fitted, random_spec
from fuzz.tables import Row, Rows, Table
from fuzz.values import (
    FAR,
    FLOATS,
    MINUS_NAN,
    NAN,
    NO_UNICODE,
    SEVERAL_LINES,
    SPECIAL,
    TEXTS,
    WHOLE,
    decimal_digits,
    random_value,
    value_beyond,
)

NAMES = (
    "usr",
    "x",
    "y",
    "z",
    "amount",
    "item",
    "unit",
    "grp",
    "rows",
    "label",
    "position",
    "c0",
    "c1",
    "place",
    "n",
    "order",
)
ODD_NAMES = (
    "User",
    "user",
    "USER",
    "a b",
    'q"uote',
    "naïve",
    "select",
    "%s",
    "Ünït",
    "1st",
    "x.y",
    "\u017f",
    "s",
    "*",
    "^.*$",
    "^x$",
    "(x)",
)
ALIKE = (
    ("bob", "Bob", "BOB", "7"),
    ("bob", "bob ", " bob", "0bob"),
    ("007", "7", "7.0", "+7"),
    ("9007199254740992", "9007199254740993", "bob", "Bob"),
    ("\xe9", "e\u0301", "\xc9", "e"),
)
"""Texts that a careless comparison takes for one."""

CAN_BE_LABELS = (*WHOLE, "BOOLEAN", "DATE", "VARCHAR", "DECIMAL", "ENUM")
AIMS = {"beside": 4, "replies": 3, "ledger": 5, "header": 4, "types": 3, "lines": 3}
"""What some cases are made for, and how many of a hundred."""

KINDS_OF_AIMS = {"types": ("pandas",), "lines": ("csv",)}
"""Sources that an aim is about, where it is not about files of all kinds."""

KEYED = 0.12
"""The share of cases in which units are texts that are almost alike, and looked up in another private table."""

MANY = 2049
"""Rows that fill more than one vector of the engine."""


def _suits(spec: dict[str, Any], aim: str | None) -> bool:
    """Tell whether a source is of the kind that an aim needs."""
    if aim is None:
        return True
    if aim == "lines":
        return spec["kind"] == "csv" and not spec.get("json") and spec["quoting"] != "none"
    if aim == "types":
        return spec["kind"] == "pandas" and spec["made"] in FOUND_OUT
    if spec["kind"] != "csv":
        return spec["kind"] in {"parquet", "duckdb"} and aim != "header"
    return spec["header"] and spec["quote"] == '"' and not spec.get("json")


def make_case(seed: int, kind: str | None = None) -> Case:
    """Return the case of a seed, always the same one; of sources of one kind, if it is given."""
    return _Maker(random.Random(seed), kind).case(seed)


CALLS = {
    "DATE": tuple(
        f"{part}({{}})"
        for part in ("year", "quarter", "month", "week", "day", "weekday", "month_of_year")
    ),
    "TIMESTAMP": tuple(
        f"{part}({{}})" for part in ("year", "month", "week", "weekday", "hour", "minute")
    ),
    "VARCHAR": (
        *(
            "lower({})",
            "trim({})",
            "left({}, 1)",
            "left(lower({}), 2)",
            "part({}, 'a', 1)",
            "part({}, '.', 2)",
            "host({})",
        ),
        *("length({})", "coalesce({}, 'none')", "map({}, 'a'='x', '7'='y', else='z')"),
    ),
}
CALLS |= dict.fromkeys(
    (*WHOLE, *FLOATS), ("bin({}, 0, 7)", "bin({}, -1, 0, 1, 100)", "lower({})", "coalesce({}, '0')")
)
"""Calls, by the kind of their column."""

AGGREGATES = ("sum", "sum", "mean", "count", "min", "max", "any")


class _Maker:
    def __init__(self, rng: random.Random, kind: str | None) -> None:
        self.rng = rng
        # Some cases are made for one sort of breach, which would be rare otherwise.
        self.aim = None if kind else rng.choices((None, *AIMS), (78, *AIMS.values()))[0]
        self.spec = random_spec(rng, kind)
        while not _suits(self.spec, self.aim):
            self.spec = random_spec(
                rng, rng.choice(KINDS_OF_AIMS.get(self.aim, ("parquet", "duckdb", "csv")))
            )
        if self.aim == "header":
            self.spec |= {
                "odd": rng.choice(("cr", "cr", "cr", *sorted(ODD_HEADERS))),
                "quoting": "minimal",
            }
        self.holds = HOLDS[self.spec["kind"]]

    def case(self, seed: int) -> Case:
        rng = self.rng
        # Of its own, so that rows stay as they were.
        self.alike = random.Random(f"almost the same unit {seed}")
        self.far = random.Random(f"far dates {seed}")
        kind = rng.choices(
            ("rows", "units", "items", "buckets", "totals", "records"), (30, 10, 22, 19, 18, 1)
        )[0]
        if self.aim in {"beside", "replies"}:
            kind = (
                rng.choice(("items", "rows", "buckets", "totals"))
                if self.aim == "replies"
                else "items"
            )
        if self.aim == "types":
            kind = "rows"
        # There each line is a record, so one with line breaks is several (docs/known-limits.md).
        if kind == "records" and (
            self.aim == "lines" or self.spec["kind"] in {"relation", "postgres", "spark"}
        ):
            kind = "rows"
        # Of its own, so that other seeds make what they made.
        keyed = random.Random(f"keys {seed}").random() < KEYED
        self.keyed = keyed and self.aim is None and self.spec["kind"] in looked_up.KINDS
        if self.keyed and kind not in {"items", "buckets", "totals"}:
            kind = "items"
        numeric = kind in {"buckets", "totals", "records"}
        owned = self.keyed or kind == "units" or (kind != "records" and rng.random() < 0.55)
        self.signs = (
            numeric and owned and rng.random() < 0.15
        )  # NaN of both signs among the rows of a unit
        roles: dict[str, str] = {}
        if owned:
            roles["unit"] = "VARCHAR" if self.keyed else self._label_kind()
        if kind == "items" or (numeric and kind != "records" and rng.random() < 0.3):
            roles["item"] = self._label_kind()
        # Of its own, so that what a seed makes without a second column stays as it was.
        several = random.Random(f"second column {seed}")
        if kind == "items" and self.aim is None and not self.keyed and several.random() < 0.4:
            roles["other"] = self._label_kind()
        if numeric:
            roles["number"] = rng.choice(FLOATS) if self.signs else self._number_kind()
        where = kind != "records" and (
            self.aim == "types" or rng.random() < (0.85 if kind == "rows" else 0.35)
        )
        for place in range(rng.choice((1, 2, 2, 3, 4)) if where else rng.choice((0, 0, 1))):
            roles[f"more{place}"] = rng.choice(self.holds)
        if self.aim == "lines":
            roles["text"] = "VARCHAR"
        if not roles:
            roles["more0"] = rng.choice(self.holds)
        names = self._names(len(roles))
        named = dict(zip(roles, names, strict=True))
        order = list(roles)
        rng.shuffle(order)
        columns = {named[role]: roles[role] for role in order}
        self.columns, self.unit = columns, named.get("unit")
        if self.spec["kind"] in {"csv", "excel"}:
            self.spec |= {"types": declared.random_types(rng, columns)}
        if self.unit is not None and self.spec.get("quoting") == "none":
            self.spec |= {
                "quoting": "minimal",
                "quote": '"',
            }  # a delimiter in a text would make it a row of another unit
        base, added, instead = (self._fitted(rows) for rows in self._rows())
        question = self._question(
            kind,
            named,
            columns,
            where,
            Table(tuple(columns), tuple(columns.values()), base + added),
        )
        release = None
        if "other" in named:
            table = Table(tuple(columns), tuple(columns.values()), base + added)
            question = self._of_two(question, named["other"], table, several)
        elif kind != "records" and (
            self.aim in {"beside", "replies", "ledger"} or (rng.random() < 0.05 and not self.keyed)
        ):
            release = random_release(rng, question, self.spec, self.aim)
        # Of its own, so that what a seed makes without further tables stays as it was.
        more = random.Random(f"further tables {seed}")
        looked = owned and release is None and self.aim is None and question.other is None
        if (
            looked
            and self.spec["kind"] in looked_up.KINDS
            and kind in {"items", "buckets", "totals"}
        ):
            every = Table(tuple(columns), tuple(columns.values()), base + added + instead)
            self.spec = self.spec | looked_up.random_tables(
                more, question, every, self.spec, private=self.keyed
            )
            if "public" in self.spec:
                question = looked_up.asked_of(question, self.spec["public"])
            if looked_up.count_tables(self.spec) > 1 and question.grid is not None:
                # Fine steps take long, and say nothing of what is joined.
                question = replace(
                    question,
                    grid={**question.grid, "cuts": 1} if "cuts" in question.grid else question.grid,
                )
        if looked:
            question = self._call(question, columns, added, instead)
        if question.unit_too is not None:
            # All rows of the unit that comes are of one.
            place = list(columns).index(question.unit_too.rpartition("(")[2].rstrip(")"))
            added, instead = (
                tuple((*row[:place], rows[0][place], *row[place + 1 :]) for row in rows)
                for rows in (added, instead)
            )
        return Case(
            base=Table(tuple(columns), tuple(columns.values()), base),
            added=added,
            instead=instead,
            question=question,
            source=self.spec,
            place=rng.choice(PLACES),
            threads=rng.choice((0, 0, 0, 0, 4)),
            pieces=rng.choice((0, 0, 0, 0, 1, 2, 50)),
            release=release,
            seed=seed,
        )

    def _call(
        self, question: Question, columns: dict[str, str], added: Rows, instead: Rows
    ) -> Question:
        """Return the question about what a call makes of its labels, or of units of two columns, where that may be."""
        draw = random.Random(f"calls {self.far.random()}")
        if not added or not instead or self.spec["kind"] == "spark":
            return question
        label = question.item or question.by
        if (
            label is not None
            and "public" not in self.spec
            and question.domain
            and draw.random() < 0.25
        ):
            calls = CALLS.get(columns[label], CALLS["VARCHAR"])
            question = replace(question, call=draw.choice(calls))
        alone = looked_up.count_tables(self.spec) == 1
        others = [
            name
            for name in columns
            if name in NAMES and name not in {question.unit, question.column}
        ]
        if alone and others and draw.random() < 0.25:
            times = [name for name in others if columns[name] in FAR]
            name = draw.choice(times or others)
            cut = columns[name] in FAR and draw.random() < 0.7
            return replace(
                question, unit_too=f"{draw.choice(('day', 'month'))}({name})" if cut else name
            )
        return question

    # ---- columns --------------------------------------------------------------------------------------------------------

    def _names(self, count: int) -> list[str]:
        rng = self.rng
        names = rng.sample(NAMES, count)
        if rng.random() < 0.3:
            names[: min(2, count)] = rng.sample(ODD_NAMES, min(2, count))
        written_by_duckdb = "duckdb" in {
            self.spec["kind"],
            self.spec.get("writer"),
        }  # it gives one of two such names another one
        if (
            count > 1 and rng.random() < 0.12 and not written_by_duckdb
        ):  # two names that an engine may take for one
            names[1] = names[0].swapcase() if names[0].swapcase() not in names else names[1]
        if written_by_duckdb and len({name.lower() for name in names}) < count:
            names = rng.sample(NAMES, count)
        rng.shuffle(names)
        return names

    def _label_kind(self) -> str:
        kinds = [kind for kind in self.holds if kind.startswith(CAN_BE_LABELS)]
        likely = [kind for kind in ("INTEGER", "BIGINT", "VARCHAR") if kind in kinds]
        return self.rng.choice(likely if self.rng.random() < 0.7 else kinds)

    def _number_kind(self) -> str:
        kinds = [
            kind
            for kind in self.holds
            if kind in WHOLE or kind in FLOATS or decimal_digits(kind) or kind == "NUMERIC"
        ]
        if self.spec["kind"] in {"csv", "excel"} and self.rng.random() < 0.4:
            return "VARCHAR"  # texts of all sorts, of which some are numbers
        likely = [
            kind for kind in ("DOUBLE", "DOUBLE", "BIGINT", "HUGEINT", "HUGEINT") if kind in kinds
        ]
        return self.rng.choice(likely if self.rng.random() < 0.6 else kinds)

    # ---- rows -----------------------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[Rows, Rows, Rows]:
        rng = self.rng
        dice = rng.random()
        size = (
            rng.randrange(13)
            if dice < 0.8
            else rng.randrange(13, 60)
            if dice < 0.95
            else rng.choice((MANY, 3000, 5000))
        )
        if self.signs:
            size = max(size, rng.randrange(20, 120))
        if self.keyed:
            size = max(size, rng.randrange(6, 14))
        makers = {name: self._shape(kind, name == self.unit) for name, kind in self.columns.items()}
        base = tuple(tuple(make(i, size) for make in makers.values()) for i in range(size))
        if size and rng.random() < 0.3:  # many that are alike
            some = [rng.choice(base) for _ in range(rng.choice((1, 2, 3)))]
            base = tuple(rng.choice(some) for _ in base)
        added, instead = self._special(base), self._special(base)
        if self.unit is not None:
            base, added, instead = self._owned(base, added, instead)
        return base, added, instead

    def _fitted(self, rows: Rows) -> Rows:
        """Return rows as the source can hold them, so that what is another unit here is another one there."""
        return tuple(
            tuple(
                self._fit(name, kind, value)
                for (name, kind), value in zip(self.columns.items(), row, strict=True)
            )
            for row in rows
        )

    def _fit(self, name: str, kind: str, value: Any) -> Any:
        digits = decimal_digits(kind)
        # Polars refuses a number with more than 38 digits itself.
        can_be = digits is not None and (
            digits[0] < 38 or self.spec["kind"] not in {"polars", "lazy"}
        )
        if self.spec.get("beyond") and can_be and name != self.unit and self.rng.random() < 0.2:
            return value_beyond(self.rng, kind)
        often = 0.2 if self.aim == "types" else 0.04
        if self._may_be_stray(kind) and name != self.unit and self.rng.random() < often:
            return self.rng.choice(TEXTS)
        if (
            self.spec["kind"] == "csv"
            and kind == "VARCHAR"
            and name != self.unit
            and self.rng.random() < 0.03
        ):
            return NO_UNICODE
        # A line of several fields is none of these lines.
        if kind in FAR and self._holds_far() and name != self.unit and self.far.random() < 0.15:
            return self.far.choice(FAR[kind])
        several = (
            self.spec["kind"] == "csv" and self.spec["quoting"] != "none" and len(self.columns) > 1
        )
        often = 0.3 if self.aim == "lines" else 0.03
        if several and kind == "VARCHAR" and name != self.unit and self.rng.random() < often:
            return SEVERAL_LINES
        return fitted(self.spec, kind, value)

    def _holds_far(self) -> bool:
        """Tell whether a source holds dates beyond the calendar of Python as they are."""
        kind = self.spec["kind"]
        return kind in {"arrow", "duckdb", "relation"} or self.spec.get("writer") in {
            "pyarrow",
            "duckdb",
        }

    def _may_be_stray(self, kind: str) -> bool:
        """Tell whether a text may stand among the values of a kind: pandas makes objects of the column then."""
        found_out = self.spec["kind"] == "pandas" and self.spec["made"] in FOUND_OUT
        return found_out and (kind in WHOLE or kind in FLOATS or kind == "BOOLEAN")

    def _shape(self, kind: str, unit: bool) -> Any:
        """Return what makes the values of a column: constant, empty, rising, few, extreme or mixed ones."""
        rng = self.rng
        shapes: tuple[str, ...] = ("constant", "empty", "few", "mixed", "mixed", "missing")
        if kind in WHOLE:
            shapes += ("rising", "rising")
        if kind in FLOATS:
            shapes += ("nan", "nan", "signs")
        if self.signs and kind in FLOATS:
            return lambda i, size: rng.choice((NAN, MINUS_NAN, 5.0, 1.0))
        if unit:  # each with several rows
            shapes = (
                ("few",)
                if self.signs
                else ("few", "few", "mixed", "rising")
                if kind in WHOLE
                else ("few", "mixed")
            )
        shape = rng.choice(shapes)
        few = [
            random_value(rng, kind)
            for _ in range(8 if unit and self.signs else rng.choice((1, 2, 3)))
        ]
        if unit and kind == "VARCHAR" and (self.keyed or self.alike.random() < 0.5):
            few = list(self.alike.choice(ALIKE))
            if self.spec["kind"] not in {"csv", "excel", "pandas"}:
                return lambda i, size: rng.choice(few)
        if shape == "rising":
            start = rng.choice((0, 0, 1, 1_700_000_000, -5))
            low, high = WHOLE[kind]
            return lambda i, size: (
                start + i if low <= start and start + size <= high else min(i, high)
            )
        if shape == "constant":
            return lambda i, size: few[0]
        if shape == "empty":
            return lambda i, size: None
        if shape == "few":
            return lambda i, size: rng.choice(few)
        if shape == "nan":
            return lambda i, size: NAN
        if shape == "signs":
            return lambda i, size: rng.choice((NAN, MINUS_NAN, 5.0))
        # Where a file begins, such a text may be taken for the mark of an order of bytes.
        if kind == "VARCHAR" and self.spec.get("header") is False and rng.random() < 0.3:
            return lambda i, size: "\ufeff" + rng.choice(few)
        share = 0.3 if shape == "missing" else 0.05
        return lambda i, size: None if rng.random() < share else random_value(rng, kind)

    def _special(self, base: Rows) -> Rows:
        """Return the rows of one unit: like those of others but for some values, which no other row may have."""
        rng = self.rng
        kinds = list(self.columns.values())
        count = (
            1 if self.unit is None else rng.choice((1, 1, 2, 3, 7)) if rng.random() < 0.97 else MANY
        )
        rows: list[Row] = []
        for _ in range(min(count, 8)):
            row = list(rng.choice(base)) if base else [random_value(rng, kind) for kind in kinds]
            changed = rng.sample(range(len(kinds)), rng.randrange(1, len(kinds) + 1))
            for place in changed:
                row[place] = None if rng.random() < 0.3 else random_value(rng, kinds[place])
            rows.append(tuple(row))
        return tuple(rows * -(-count // len(rows)))[:count]

    def _owned(self, base: Rows, added: Rows, instead: Rows) -> tuple[Rows, Rows, Rows]:
        """Give the special rows to units of their own."""
        rng = self.rng
        place = list(self.columns).index(str(self.unit))
        kind = self.columns[str(self.unit)]
        # As the source holds them: there some texts are others, which another unit may have.
        name = str(self.unit)
        taken = {
            unit_text(self.spec, name, kind, fitted(self.spec, kind, row[place])) for row in base
        }
        owners: list[Any] = []
        for _ in range(2):
            for _ in range(50):
                value = fitted(self.spec, kind, random_value(rng, kind))
                if unit_text(self.spec, name, kind, value) not in taken:
                    break
            else:
                value = None
            texts = [row[place] for row in base if isinstance(row[place], str)]
            if kind == "VARCHAR" and texts and self.alike.random() < 0.2:
                # One that a careless comparison takes for somebody who is there.
                other = self.alike.choice(texts)
                almost = fitted(
                    self.spec,
                    kind,
                    self.alike.choice((other.swapcase(), f"{other} ", f"0{other}")),
                )
                value = value if unit_text(self.spec, name, kind, almost) in taken else almost
            taken.add(unit_text(self.spec, name, kind, value))
            owners.append(None if rng.random() < 0.05 else value)
        if self.spec["kind"] in {
            "csv",
            "excel",
            "pandas",
        }:  # what is written there may be one text for several values
            owners = [owner if _plain(owner) else None for owner in owners]
            owners[1] = None if owners[0] == owners[1] else owners[1]

        def given(rows: Rows, owner: Any) -> Rows:
            return tuple((*row[:place], owner, *row[place + 1 :]) for row in rows)

        return base, given(added, owners[0]), given(instead, owners[1])

    # ---- questions ------------------------------------------------------------------------------------------------------

    def _question(
        self, kind: str, named: dict[str, str], columns: dict[str, str], where: bool, table: Table
    ) -> Question:
        rng, numeric = self.rng, kind in {"buckets", "totals"}
        if kind == "records":
            return Question(kind=kind, column=named["number"], adjacency="replace-one")
        more: dict[str, Any] = {
            "salt": rng.randbytes(16).hex(),
            "adjacency": rng.choice(("add-remove", "replace-one")),
        }
        if "unit" in named:
            bounded = kind in {"rows", "buckets", "totals"} or (
                kind == "items" and rng.random() < 0.5
            )
            more |= {
                "unit": named["unit"],
                "max_rows": rng.choice((1, 1, 2, 3, 10, 11, 100, 3000)) if bounded else None,
            }
        if where:
            texts = self.spec["kind"] in {"csv", "excel"} or self.spec.get("made") == "object"
            readable = (
                {name: declared.kind_of(self.spec, name) for name in columns} if texts else columns
            )
            more["where"] = Maker(
                rng, readable, computes=self.spec["kind"] != "postgres"
            ).condition(rng.choice((0, 0, 1, 1, 2, 3)))
        if "item" in named:
            more["domain"] = self._domain(table, named["item"], public=kind == "items")
            more["item" if kind == "items" else "by"] = named["item"]
            if numeric and "unit" in named:
                more["groups_per_unit"] = rng.choice((1, 1, 2, 5, None, None))
        if numeric:
            more |= {
                "column": named["number"],
                "grid": self._grid(),
                "ranges": self._ranges(more.get("domain"), columns[named["number"]]),
            }
            owned = "unit" in named and named["unit"] != named["number"]
            if owned and "by" in more and rng.random() < 0.3:
                more |= self._share(len(more["ranges"])) | {"max_rows": None}
            elif owned and rng.random() < 0.3:
                more |= self._weigh(len(more["ranges"]), "by" in more)
            elif owned and rng.random() < 0.3:
                more |= {"per_person": rng.choice(AGGREGATES), "max_rows": None}
                if "by" in more:
                    more["groups_per_unit"] = more["groups_per_unit"] or 3
        return Question(kind=kind, **more)

    def _of_two(
        self, question: Question, name: str, table: Table, several: random.Random
    ) -> Question:
        """Return the question about labels of two columns; some list both of them, others one or none."""
        rng = self.rng
        domains = [question.domain or {}, self._domain(table, name, public=True)]
        # Names of positions, and labels that are declared public, do not go with labels that are found.
        found = {place for place in (0, 1) if {"indexed", "public", "unlisted"} & {*domains[place]}}
        if not found and several.random() < 0.6:
            self._cut_elsewhere(several, domains, [question.item or "", name], table)
        else:
            for place in found or {rng.randrange(2)}:
                domains[place] = {"unlisted": True}
        most = question.max_rows or (None if question.unit is None else rng.choice((1, 2, 3)))
        return replace(question, domain=domains[0], other=[name, domains[1]], max_rows=most)

    def _cut_elsewhere(
        self, rng: random.Random, domains: list[dict[str, Any]], names: list[str], table: Table
    ) -> None:
        """List labels that a row has and others that give the same text when they are joined; and empty ones."""
        if not table.rows or rng.random() < 0.3 or any("list" not in one for one in domains):
            return
        row, texts = rng.choice(table.rows), []
        for name in names:
            place = table.names.index(name)
            texts.append(unit_text(self.spec, name, table.kinds[place], row[place]) or "")
        one, two = texts
        more = [{one, one[:-1], ""}, {two, one[-1:] + two, ""}]
        for domain, labels in zip(domains, more, strict=True):
            plain = {text for text in labels if "\0" not in text and NO_UNICODE not in text}
            domain["list"] = sorted({*domain["list"], *plain})

    def _domain(self, table: Table, name: str, *, public: bool) -> dict[str, Any]:
        rng = self.rng
        dice = rng.random()
        if dice < 0.15:
            start = rng.choice((0, 1, -3, 1_700_000_000, -(1 << 62)))
            return {"range": [start, start + rng.choice((1, 2, 5, 12))]}
        if dice < 0.22:
            return {"indexed": rng.choice((1, 3, 9))}
        if dice < 0.34 and public:
            return {"public": True} if dice < 0.28 else {"unlisted": True}
        place = table.names.index(name)
        kind, values = table.kinds[place], table.column(place)[:5000]
        texts = {unit_text(self.spec, name, kind, value) for value in values} - {None}
        texts = {text for text in texts if "\0" not in text and text != NO_UNICODE}
        chosen = set(rng.sample(sorted(texts), min(len(texts), rng.randrange(1, 6)))) | set(
            rng.sample(TEXTS, 2)
        )
        listed = {"list": sorted(text for text in chosen if "\0" not in text) or ["a"]}
        # Groups that a release has found are asked as those of a list.
        return listed if public or dice >= 0.34 else listed | {"found": True}

    def _grid(self) -> dict[str, Any]:
        rng = self.rng
        dice = rng.random()
        if dice < 0.6:
            lower = rng.choice(("0", "0", None, "-10", "1"))
            if rng.random() < 0.1:
                return {"lower": "-100", "cap": "0", "growth": "2", "unit": "1", "cuts": 4}
            unit, growth = (
                rng.choice(("1", "1", "1/2", "1000")),
                rng.choice(("2", "2", "10", "3/2", "21/20")),
            )
            return {
                "lower": lower,
                "cap": rng.choice(
                    (
                        "100",
                        "1000",
                        "19.99",
                        "123456.789",
                        "1e19",
                        "1e19",
                        "1e150",
                        "1e308",
                        "3e-320",
                    )
                ),
                "growth": growth,
                "unit": unit,
                # Of 21/20 and 1e308 there are some 15,000 steps.
                "cuts": rng.choice((1, 1, 4, 32)),
            }
        pool = [value for value in SPECIAL if abs(value) < float("inf")]
        return {
            "edges": [
                edge.hex()
                for edge in sorted({value + 0.0 for value in rng.sample(pool, rng.randrange(1, 6))})
            ]
        }

    def _ranges(self, domain: dict[str, Any] | None, kind: str) -> list[list[int]]:
        rng = self.rng
        most = 1 << 52
        made = make_domain(domain)
        size = 1 if made is None else made.size
        same = [self._range(most, kind)] * size
        return same if rng.random() < 0.6 else [self._range(most, kind) for _ in range(size)]

    def _share(self, groups: int) -> dict[str, Any]:
        """One clip of all groups, as wide in steps as a search may find it."""
        rng = self.rng
        high, exponents = rng.choice(
            ((1, (0, -1, -20, 3)), (3, (0, -3, -60)), (1000, (-10, 0)), ((1 << 32) + 7, (-33, -20)))
        )
        clip = [rng.choice((0, -high)), high, rng.choice(exponents)]
        shared = {"shared": True, "ranges": [clip] * groups, "groups_per_unit": None}
        return shared | {"per_person": rng.choice(("sum", "sum", "count"))}

    def _weigh(self, groups: int, grouped: bool) -> dict[str, Any]:
        """Weights of rows, or of one number of each unit in each group, and one clip for all."""
        rng = self.rng
        clip = self._range(1 << 40, "")
        weight = [rng.choice((1, 1, 2, 3, 40)), rng.choice((24, 24, 7, 3))]
        value = rng.choice((None, None, *AGGREGATES)) if grouped else None
        made = {"weighed": weight, "ranges": [clip] * groups, "max_rows": None}
        return made | {"per_person": value, "groups_per_unit": None}

    def _range(self, most: int, kind: str) -> list[int]:
        rng = self.rng
        if kind == "HUGEINT" and rng.random() < 0.6:  # ends beyond what 128 bits hold
            return [
                rng.choice((0, -1, -most, -most)),
                rng.choice((1, most, most)),
                rng.choice((20, 62, 74, 75, 75, 76, 80, 110)),
            ]
        low = rng.choice((0, 0, -1, -100, -most, -3))
        high = rng.choice((0, 1, 20, 100, most, most - 1))
        return [
            low,
            high,
            rng.choice((0, 0, 0, -1, 1, 5, -10, 20, 62, 64, 75, 76, 110, -60, -900, 900)),
        ]


def _plain(value: Any) -> bool:
    """Tell whether a value is written the same way everywhere, and is not what CSV files take for a missing one."""
    if isinstance(value, str):
        return value.isascii() and value.isalpha() and value not in {"NA", "nan", "NaN", "NULL"}
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value != 7
        and abs(value) < 1 << 53
    )
