"""Twins of the code with one mend taken out: the fuzzer must find each of them.

Each function puts back, at named seams, what stood there when the breach was found. Where a seam moves, its twin moves with it: a twin that
nothing finds is a defect of this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fuzz import engines, looked_up
from fuzz.cases import Case
from fuzz.values import FLOATS, NO_UNICODE, SEVERAL_LINES, WHOLE, is_beyond, is_missing
from sordino.cli import once
from sordino.questions import counts, label_files, labels, lookups, number_question
from sordino.questions.rank_law import choose_ranks
from sordino.session import executor
from sordino.sources import (
    engine as engine_module,
    files as files_module,
    frames,
    lookups as joined_tables,
    open as open_module,
    postgres,
    source as source_module,
    tables,
)
from sordino.sources.csv import encodings, header as header_module, text_rows, typed_fields
from sordino.sources.engine import literal, quoted
from sordino.sources.predicates import frame_condition, predicate as predicate_module
from sordino.sources.sql import bucket_query, dialect, step_query

_UNDO: list[Callable[[], None]] = []


def _put(owner: Any, name: str, value: Any) -> None:
    """Put something at a seam; `mended` puts back what is there."""
    before = getattr(owner, name)
    _UNDO.append(lambda: setattr(owner, name, before))
    setattr(owner, name, value)


# ---- what stood there ---------------------------------------------------------------------------------------------------


def _let_statistics_decide() -> None:
    """Let the engine fold what it knows of whole columns, and read files by itself."""
    _UNDO.append(
        engines.rewrite(r"SET disabled_optimizers = .*", "SET disabled_optimizers = 'in_clause'")
    )
    _put(engine_module.Engine, "close_doors", lambda self, paths: None)
    _put(tables.ParquetReader, "relation", _scan_parquet)
    _put(tables.DatabaseReader, "relation", _scan_database)


def _by_name(names: Sequence[str], indices: Sequence[int]) -> str:
    return ", ".join(f"{quoted(names[index])} AS c{index}" for index in indices) or "1"


def _scan_parquet(self: Any, engine: Any, indices: Sequence[int]) -> str:
    listed = ", ".join(literal(str(path)) for path in self.files)
    options = "hive_partitioning = false, union_by_name = false, filename = false, file_row_number = false"
    return f"SELECT {_by_name(list(self.schema), indices)} FROM read_parquet([{listed}], {options})"


def _scan_database(self: Any, engine: Any, indices: Sequence[int]) -> str:
    engine.connection.execute(f"ATTACH {literal(str(self.file))} AS private (READ_ONLY)")
    return f"SELECT {_by_name(list(self.schema), indices)} FROM private.main.{quoted(self.table)}"


def _lend_by_name(self: Any, engine: Any, indices: Sequence[int]) -> str:
    """Let the owner of a relation read columns by their names."""
    named = ", ".join(f"c{index}" for index in indices) or "1"
    select = f"SELECT {_by_name(self.value.columns, indices)} FROM private_rows"
    engine.lend(lambda: self.value.query("private_rows", select))
    return f"SELECT {named} FROM lent"


def _number(index: int, kind: Any) -> str:
    """Return the number of a column: NaN stays what it is."""
    return (
        f"c{index}"
        if kind.scale is not None
        else f"{'TRY_CAST' if kind.text else 'CAST'}(c{index} AS DOUBLE)"
    )


def _keep_nan() -> None:
    _put(source_module.ReaderBackend, "dialect", replace(dialect.EMBEDDED, number=_number))


def _bounded(kept: str, bounds: Any, draw: Any) -> str:
    """Return the rows that count: ordered by a hash of their texts and copies."""
    rows, groups, grouped = bounds.rows, bounds.groups, bounds.grouped
    if rows is None:
        return kept
    words, salt = draw.words, draw.salt
    names = "grp, item, " if grouped else ""
    zero = "CASE WHEN x = 0 THEN abs(x) ELSE x END AS x"
    known = f"(SELECT {zero}, {names}unit FROM {kept} AS kept WHERE unit IS NOT NULL)"
    whose = f"{literal(salt.hex())} || length(unit) || ':' || unit"
    if grouped and groups is not None:
        place = f"row_number() OVER (PARTITION BY unit ORDER BY {words.drawn.format(f'{whose} || item')}, grp) AS place"
        first = f"SELECT unit, grp, {place} FROM (SELECT DISTINCT unit, grp, item FROM {known} AS pairs) AS pairs"
        chosen = (
            f"(SELECT unit AS one, grp AS its FROM ({first}) AS placed WHERE place <= {groups})"
        )
        known = f"(SELECT x, {names}unit FROM {known} AS known JOIN {chosen} AS chosen ON unit = one AND grp = its)"
    inside = "unit, grp" if grouped else "unit"
    label = "length(item) || ':' || item || " if grouped else ""
    key = words.drawn.format(
        f"{whose} || {label}copy || ':' || coalesce({words.shown.format('x')}, '')"
    )
    copies = f"SELECT x, {names}unit, row_number() OVER (PARTITION BY {inside}, x) AS copy FROM {known} AS known"
    placed = f"SELECT *, row_number() OVER (PARTITION BY {inside} ORDER BY {key}, x, copy) AS place FROM ({copies}) AS copies"
    return f"(SELECT {'grp, ' if grouped else ''}x FROM ({placed}) AS placed WHERE place <= {rows})"


def _whole_steps(kind: Any, ends: Any) -> str:
    """Return whole steps; a clamped end is taken for "only 0 fits"."""
    scale = kind.scale or 0
    top = 10**scale
    low, high = (
        min(max(math.ceil(end * ends.step * top), kind.smallest), kind.largest)
        for end in (ends.low, ends.high)
    )
    whole = step_query._cast_whole
    unscaled = step_query.write_unscaled_number(kind, low, high, "HUGEINT")
    factor, divisor = ends.step.denominator, ends.step.numerator * top
    if factor * max(abs(low), abs(high)) >= 1 << 127:
        return whole(0)
    if divisor >= 1 << 127:
        return f"CASE WHEN {unscaled} >= 0 THEN {whole(0)} ELSE {whole(-1)} END"
    product = f"({unscaled} * {whole(factor, 'HUGEINT')})" if factor > 1 else unscaled
    by = whole(divisor, "HUGEINT")
    return f"CAST({product} // {by} - CASE WHEN {product} % {by} < 0 THEN 1 ELSE 0 END AS BIGINT)"


# ---- twins --------------------------------------------------------------------------------------------------------------


def where() -> None:
    """One TRY around the whole predicate, evaluated where statistics of a column may fold parts of it away."""

    def total(self: Any) -> str:
        return f"COALESCE(TRY({self.sql}), FALSE)"

    _put(predicate_module.Predicate, "total", property(total))
    _let_statistics_decide()


def case() -> None:
    """Columns are read by their names, of which an engine may take one for another."""
    _put(tables.RelationReader, "relation", _lend_by_name)


def nan_statistics() -> None:
    """Comparisons with edges are folded by the least and largest number of a Parquet file, of which NaN is none."""
    _let_statistics_decide()
    _keep_nan()


def nan_sign() -> None:
    """Rows of a unit are numbered among equal numbers, and NaN of both signs are equal and have two texts."""
    _keep_nan()
    _put(number_question, "bounded", _bounded)
    _put(number_question, "prepare_choice", lambda *_, **__: None)


def wide_total() -> None:
    """Ends that 128 bits cannot hold are moved to what they hold, and taken for ends close to 0."""
    _put(step_query, "_write_whole_steps", _whole_steps)


def frame_types() -> None:
    """How a column of a frame is declared decides whether it can be a label: one missing value makes floats of whole numbers."""
    kinds = r"VARCHAR|BOOLEAN|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(\d+,\s*\d+\)|DATE|UUID|ENUM\(.*\)"
    _put(source_module, "AS_LABELS", re.compile(kinds, re.DOTALL))

    read = frames._read_pandas_type

    def declared(kind: Any) -> str:
        wrapped = hasattr(kind, "pyarrow_dtype") or str(kind) in {"float128", "longdouble"}
        return source_module.unusable(str(kind)) if wrapped else read(kind)

    _put(frames, "_read_pandas_type", declared)


def decimals() -> None:
    """Decimals with more digits than their type are handed to the engine, which leaves in their place what stood there before."""
    _put(frames, "_drop_beyond_precision", lambda array, _: array)


def links() -> None:
    """A file and a link to it are two files of a pattern: its rows count twice."""
    _put(files_module, "_expand_pattern", lambda path: tuple(sorted(Path("/").glob(path[1:]))))


def strays() -> None:
    """One text among the numbers of a pandas column makes a column of texts, and the numbers are missing."""
    before = frames._pandas_column

    def column(series: Any, pa: Any) -> Any:
        if series.dtype != object or not any(isinstance(value, str) for value in series):
            return before(series, pa)
        return pa.array(
            [value if isinstance(value, str) else None for value in series], pa.large_string()
        )

    _put(frames, "_pandas_column", column)


def types() -> None:
    """Fields are cast to their declared types as the engine casts texts, and where it cannot the query ends."""

    def cast(field: str, marks: Any, scale: int | None = None, kind: str = "DOUBLE") -> str:
        return f"CAST({typed_fields._write_plain_number(field, marks)} AS {kind})"

    _put(typed_fields, "write_number", cast)
    _put(dialect, "write_number", cast)
    _put(text_rows, "rehearse_types", lambda form: None)


def halves() -> None:
    """UTF-16 is decoded in blocks, and a block with half of a character ends the release."""

    def decoded(self: Any, fresh: bytes) -> bytes:
        return (self._rest + fresh).decode(self._order).encode()

    _put(encodings._Utf16Lines, "_write_in_utf8", decoded)


def beside() -> None:
    """Labels are read from whatever lies beside the source, if its owner names it."""
    _put(label_files, "check_public", lambda path, source, what: Path(path).resolve())


def header() -> None:
    """Whatever stands in the first line is taken for names of columns."""
    _put(header_module, "check_one_line", lambda line, text, form, where: None)


def predicates() -> None:
    """A predicate over a frame takes a column for what its type says."""
    _put(frame_condition, "read_frame_columns", None)


def missing() -> None:
    """Rows without a number count as the lowest."""

    before = bucket_query.BucketQuery.counted

    def count(self: Any, answer: Any, *more: Any) -> Any:
        return before(self, answer | {"known": answer["n"]}, *more)

    _put(bucket_query.BucketQuery, "counted", count)


def ragged() -> None:
    """Lines may have any number of fields."""
    before = open_module.open_csv

    def open_ragged(files: Any, form: Any, folders: Any) -> Any:
        return before(files, replace(form, ragged=True), folders)

    _put(open_module, "open_csv", open_ragged)


def reading() -> None:
    """An account takes releases that read the column of its unit in different ways."""
    _put(executor.ReleaseExecutor, "reading", "")


def twice() -> None:
    """Of an option that is given twice the last one counts."""
    _put(once, "refuse_repeated", lambda command, ctx, args: {})


def people() -> None:
    """The engine adds up floats of a unit, in whatever order its rows come."""

    def add_floats(self: Any, rows: str, *, grouped: bool) -> str:
        group = "grp, " if grouped else ""
        called = {"mean": "avg(x)", "count": "count(x)", "any": "max(CAST(x <> 0 AS INTEGER))"}
        made = called.get(self.aggregate, f"{self.aggregate}(x)")
        return (
            f"(SELECT {group}CAST({made} AS {self.float_type}) AS x FROM"
            f" {rows} AS kept GROUP BY {group}unit)"
        )

    _put(number_question.People, "write_one", add_floats)


def share() -> None:
    """A unit counts for as much as the clip in each of its groups by itself."""
    written = number_question.People.write_shares

    def in_each(self: Any, rows: str, most: Fraction, step: Fraction) -> str:
        return written(self, rows, most, step).replace(
            "sum(abs(part)) OVER (PARTITION BY unit)", "abs(part)"
        )

    _put(number_question.People, "write_shares", in_each)


def weights() -> None:
    """A row weighs as much, however many rows its unit has."""
    written = number_question.write_weights

    def without_a_limit(numbers: str, most: int, *given: Any, **named: Any) -> str:
        return written(numbers, most, *given, **named).replace("ELSE many END", f"ELSE {most} END")

    _put(number_question, "write_weights", without_a_limit)


def fan_out() -> None:
    """A row finds all rows of its unit in another table, and becomes several."""

    def all_of_them(kept: str, names: Any, *_more: Any) -> str:
        return f"SELECT unit, {', '.join(names)} FROM {kept} AS kept"

    _put(lookups, "_choose_one", all_of_them)


def lent_by_all() -> None:
    """Which row of another table a unit is lent follows from how many rows that table has."""

    def by_number(kept: str, names: Any, *_more: Any) -> str:
        listed = ", ".join(names)
        return (
            f"SELECT unit, {listed} FROM (SELECT *, count(*) OVER () AS whole,"
            f" row_number() OVER (PARTITION BY unit ORDER BY {listed}) - 1 AS place,"
            f" count(*) OVER (PARTITION BY unit) AS many FROM {kept} AS kept) AS ranked"
            " WHERE place = whole % many"
        )

    _put(lookups, "_choose_one", by_number)


def parts() -> None:
    """Labels of several columns are bounded column by column, and not as what they are together."""

    def choose_parts(
        kept: str, most: int, draw: Any, inside: str, items: Sequence[str] = ("item",)
    ) -> str:
        listed = ", ".join(items)
        given = f"SELECT DISTINCT {listed}, unit FROM {kept} AS kept WHERE unit IS NOT NULL AND {inside}"
        joins = ""
        for item in items:
            own = choose_ranks(
                f"(SELECT DISTINCT {item}, unit FROM given)",
                taken=["unit", item],
                owner=["unit"],
                order=[item],
                most=most,
                draw=draw,
            )
            same = f"given.unit = of_{item}.unit AND given.{item} = of_{item}.{item}"
            joins += f" JOIN ({own}) AS of_{item} ON {same}"
        taken = ", ".join(f"given.{item}" for item in items)
        return f"WITH given AS MATERIALIZED ({given}) SELECT {taken} FROM given{joins}"

    _put(counts, "_choose_items", choose_parts)


def first() -> None:
    """Of the rows of a unit in another table the first one is lent, whichever that is."""

    def take_first(kept: str, names: Any, *_more: Any) -> str:
        listed = ", ".join(f"(array_agg({name}))[1] AS {name}" for name in names)
        return f"SELECT unit, {listed} FROM {kept} AS kept GROUP BY unit"

    _put(lookups, "_choose_one", take_first)


def _compare_keys(compared: str) -> Callable[[], None]:
    """Return what lets keys be compared as something else than their texts."""

    def compare() -> None:
        written = joined_tables.write_joins

        def write(joined: Any, indices: Any, own: Any) -> str:
            sql = written(joined, indices, own)
            for one in joined:
                same = f"{one.place}.key = {one.text}"
                sides = same.split(" = ", 1)
                sql = sql.replace(same, " = ".join(map(compared.format, sides)))
            return sql

        for module in (joined_tables, postgres):
            _put(module, "write_joins", write)

    return compare


collated_key = _compare_keys("lower({})")
collated_key.__doc__ = (
    "Keys are compared as a collation does that takes letters of any case for one."
)

float_key = _compare_keys("TRY_CAST({} AS DOUBLE)")
float_key.__doc__ = "Keys are compared as floats, which are the same number for several texts."

typed_key = _compare_keys("CAST({} AS BIGINT)")
typed_key.__doc__ = "Keys are whole numbers, as those of most rows are."


def _believe_owners(chosen: str) -> Callable[[], None]:
    """Return what takes the owner of an order from its rows, however many owners these have."""

    def believe() -> None:
        def choose(kept: str, names: Any, *_more: Any) -> str:
            listed = ", ".join(f"min({name}) AS {name}" for name in names)
            return f"SELECT unit, {listed} FROM {kept} AS kept GROUP BY unit{chosen.format(*names)}"

        _put(lookups, "_choose_one", choose)
        _put(looked_up, "check_lookups", lambda *_, **__: None)

    return believe


owner_min = _believe_owners("")
owner_min.__doc__ = "An order of several owners is that of the first one, in the order of names."

owner_only = _believe_owners(" HAVING count(DISTINCT {0}) = 1")
owner_only.__doc__ = "An order of several owners is nobody's."


def separator() -> None:
    """Labels of two columns are compared as one text, in which nothing stands between them."""
    written = labels.write_places

    def join_texts(
        kept: str, tuples: Any, words: Any, *, carried: Any, named: str, first: int = 0
    ) -> str:
        parts = tuples.parts
        if (
            tuples.places is not None
            or len(parts) != 2
            or any(isinstance(one, labels.Numbered) for one in parts)
        ):
            return written(kept, tuples, words, carried=carried, named=named, first=first)
        middle, end = first + len(parts[0]), first + len(parts[0]) + len(parts[1])
        one, two = (
            f"(SELECT CAST(position AS BIGINT) - {low} AS place, label FROM labels WHERE position >= {low} AND position < {high})"
            for low, high in ((first, middle), (middle, end))
        )
        place = f"one.place * {len(parts[1])} + two.place AS place, one.label || two.label AS whole"
        every = f"(SELECT {place} FROM {one} AS one, {two} AS two)"
        more = "".join(f", {name}" for name in carried)
        return (
            f"(SELECT place AS {named}{more} FROM {kept} AS kept JOIN {every} AS listed"
            " ON item0 || item1 = whole)"
        )

    for module in (labels, counts):
        _put(module, "write_places", join_texts)


def part_missing() -> None:
    """A missing part of a label is an empty text."""
    joined = labels._join_listed

    def join_missing(kept: str, parts: Any, *more: Any) -> Any:
        made = ", ".join(f"coalesce(item{place}, '') AS item{place}" for place in range(len(parts)))
        others = ", ".join(f"item{place}" for place in range(len(parts)))
        filled = f"(SELECT * EXCLUDE ({others}), {made} FROM {kept} AS kept)"
        return joined(filled, parts, *more)

    _put(labels, "_join_listed", join_missing)


def redefined() -> None:
    """The column of the unit is made anew behind the bound: somebody is as many units as it has labels."""
    chosen = counts._choose_items

    def choose(
        kept: str, most: int, draw: Any, inside: str, items: Sequence[str] = ("item",)
    ) -> str:
        listed = ", ".join(items)
        own = " || '/' || ".join([draw.words.shown.format(one) for one in ("unit", *items)])
        made = f"(SELECT {listed}, {own} AS unit FROM {kept} AS kept)"
        return chosen(made, most, replace(draw, whole=False), inside, items)

    _put(counts, "_choose_items", choose)


TWINS: dict[str, Callable[[], None]] = {
    "first": first,
    "collated-key": collated_key,
    "float-key": float_key,
    "typed-key": typed_key,
    "owner-min": owner_min,
    "owner-only": owner_only,
    "separator": separator,
    "part-missing": part_missing,
    "redefined": redefined,
    "parts": parts,
    "fan-out": fan_out,
    "lent-by-all": lent_by_all,
    "where": where,
    "case": case,
    "nan-statistics": nan_statistics,
    "nan-sign": nan_sign,
    "wide-total": wide_total,
    "frame-types": frame_types,
    "decimals": decimals,
    "links": links,
    "strays": strays,
    "types": types,
    "halves": halves,
    "beside": beside,
    "header": header,
    "predicates": predicates,
    "missing": missing,
    "ragged": ragged,
    "reading": reading,
    "twice": twice,
    "people": people,
    "share": share,
    "weights": weights,
}


FAMILIES = {
    "lent-by-all": "fan-out",
    "first": "fan-out",
    "collated-key": "fan-out",
    "float-key": "fan-out",
    "typed-key": "fan-out",
    "owner-only": "owner-min",
    "separator": "parts",
    "part-missing": "parts",
    "redefined": "parts",
}
"""Twins of which a finding looks like that of another one."""


def is_meant(twin: str, like: str) -> bool:
    """Tell whether a finding may be that of a twin."""
    return like in {twin, FAMILIES.get(twin)}


def install(name: str) -> None:
    """Take a mend out, in this process."""
    TWINS[name]()


def mended() -> None:
    """Put back whatever was taken out."""
    while _UNDO:
        _UNDO.pop()()


# ---- which breach a finding looks like ----------------------------------------------------------------------------------


def resembles(case: Case, law: str) -> str | None:
    """Return which breach a finding looks like: the name of a twin, "owner" or "mark", or None.

    "owner" are settings and macros of a connection that is not ours, "mark" is a first text that is taken for a byte order mark.
    """
    question, source = case.question, case.source
    if law in BY_LAW:
        return BY_LAW[law]
    if "beside" in (case.release or {}):
        return "beside"
    if not set(looked_up.FAMILIES).isdisjoint(source):
        return "owner-min" if "owned" in source else "fan-out"
    if question.other is not None:
        return "parts"
    if source.get("odd"):
        return "header"
    if question.weighed is not None:
        return "weights"
    if question.per_person is not None:
        return "share" if question.shared else "people"
    if source["kind"] == "csv" and _holds_value(case, SEVERAL_LINES):
        return "ragged"
    if source.get("owner") in {"settings", "macros"}:
        return "owner"
    if source.get("encoding", "").startswith("utf-16") and _holds_value(case, NO_UNICODE):
        return "halves"
    if source.get("types"):
        return "types"
    if source.get("link") and source["files"] > 1:
        return "links"
    if source["kind"] in {"pandas", "polars", "lazy", "arrow"} and question.where is not None:
        return "predicates"
    if _has_strays(case):
        return "strays"
    if (
        source["kind"] == "pandas"
        and source["made"] in {"numpy", "category"}
        and _missing_decides(case)
    ):
        return "frame-types"
    if source.get("made") == "scan_csv":
        return "frame-types"
    rows = (*case.base.rows, *case.added, *case.instead)
    if any(
        is_beyond(kind, value)
        for row in rows
        for kind, value in zip(case.base.kinds, row, strict=True)
    ):
        return "decimals"
    if source.get("header") is False and any(
        str(value).startswith("\ufeff") for row in case.base.rows + case.added for value in row
    ):
        return "mark"
    confused = len({name.lower() for name in case.base.names}) < len(case.base.names)
    if confused and (
        source["kind"] in {"parquet", "relation"} or source.get("made") == "scan_parquet"
    ):
        return "case"
    if question.where is not None:
        return "where"
    if law == "not the true answer" and question.kind == "buckets" and _holds_no_number(case):
        return "missing"
    if question.numeric:
        kind = case.base.kind(str(question.column))
        if kind in {"FLOAT", "DOUBLE"}:
            return _with_nan(case, law)
        if question.kind == "totals" and ("HUGE" in kind or kind.startswith("DECIMAL(38")):
            return "wide-total"
    return None


BY_LAW = {"an option that is dropped": "twice", "two readings of one unit": "reading"}
"""Laws of which each belongs to one breach."""


def _holds_value(case: Case, wanted: str) -> bool:
    rows = (*case.base.rows, *case.added, *case.instead)
    return any(value == wanted for row in rows for value in row)


def _holds_no_number(case: Case) -> bool:
    place = case.base.names.index(str(case.question.column))
    rows = (*case.base.rows, *case.added, *case.instead)
    return any(is_missing(row[place]) for row in rows)


def _has_strays(case: Case) -> bool:
    """Tell whether some text stands among numbers or truth values."""
    rows = (*case.base.rows, *case.added, *case.instead)
    pairs = [pair for row in rows for pair in zip(case.base.kinds, row, strict=True)]
    return any(
        isinstance(value, str) and kind in {*WHOLE, *FLOATS, "BOOLEAN"} for kind, value in pairs
    )


def _missing_decides(case: Case) -> bool:
    """Tell whether some neighbors have a missing value in a column of whole numbers or truth values, and others have none."""
    for place, kind in enumerate(case.base.kinds):
        missing = {
            any(row[place] is None for row in rows)
            for rows in (case.base.rows, case.added, case.instead, ((None,) * 99,))
        }
        if len(missing) > 1 and (kind.endswith(("INT", "INTEGER")) or kind == "BOOLEAN"):
            return True
    return False


def _with_nan(case: Case, law: str) -> str | None:
    place = case.base.names.index(str(case.question.column))
    numbers = [row[place] for row in (*case.base.rows, *case.added, *case.instead)]
    signs = {
        math.copysign(1.0, number)
        for number in numbers
        if number is not None and math.isnan(number)
    }
    if (
        len(signs) > 1
        and case.question.unit is not None
        and (case.source["kind"] != "parquet" or law == "order and cut decide")
    ):
        return "nan-sign"
    return "nan-statistics" if signs else None
