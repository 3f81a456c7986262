"""Every kind of source that a table may be handed over as, and what its values are there.

A source is described by a dict: `kind` and its options, all of them plain values, so that a file can keep it. `write` makes it;
`effective` says which values a reader finds there, for the oracle.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import databases, declared, pandas_frames, sheets, spark_tables
from fuzz.questions import Question
from fuzz.tables import Table, arrow
from fuzz.values import DECIMALS, ENUM, FLOATS, NO_UNICODE, SEVERAL_LINES, WHOLE, Far, is_beyond
from fuzz.written import Written
from sordino.sources import CsvFormat
from support.text_files import packed

Spec = dict[str, Any]

DECIMAL = tuple(f"DECIMAL({digits})" for digits in DECIMALS)
NARROW = tuple(kind for kind in WHOLE if not kind.endswith("HUGEINT"))
PLAIN = (*NARROW, *DECIMAL, *FLOATS, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR")
WIDE = (*PLAIN, "HUGEINT", "UHUGEINT", "TIME", ENUM)
HOLDS = {
    "csv": PLAIN,
    "excel": sheets.KINDS,
    "parquet": (*PLAIN, "TIME"),
    "duckdb": WIDE,
    "relation": WIDE,
    "pandas": (*NARROW, *FLOATS, "BOOLEAN", "VARCHAR", "TIMESTAMP"),
    "polars": PLAIN,
    "lazy": PLAIN,
    "arrow": (*PLAIN, "TIME"),
    "postgres": (
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        *DECIMAL,
        *FLOATS,
        "BOOLEAN",
        "DATE",
        "VARCHAR",
        "NUMERIC",
    ),
    "spark": (*spark_tables.KINDS, *DECIMAL),
}
"""Which kinds of columns a kind of source can hold."""


def random_spec(rng: Any, kind: str | None = None) -> Spec:
    """Return a random kind of source, or the one that is given, with random options."""
    if kind == "spark":
        return {"kind": kind} | spark_tables.random_made(rng)
    weights = {
        "parquet": 36,
        "duckdb": 11,
        "relation": 15,
        "csv": 8,
        "excel": 3,
        "pandas": 12,
        "polars": 4,
        "lazy": 4,
        "arrow": 6,
        "postgres": 4,
    }
    kind = kind or rng.choices(list(weights), list(weights.values()))[0]
    spec: Spec = {"kind": kind}
    if kind == "parquet":
        writer = rng.choice(("pyarrow", "pyarrow", "pandas", "polars", "duckdb"))
        spec |= {
            "writer": writer,
            "group": rng.choice((1, 2, 3, 20, 1000, 100_000)),
            "files": rng.choice((1, 1, 1, 2, 3)),
        }
        if writer == "pyarrow":
            spec |= {
                "dictionary": rng.random() < 0.5,
                "statistics": rng.random() < 0.8,
                "pages": rng.choice(("1.0", "2.0")),
            }
    elif kind == "duckdb":
        spec |= {
            "ghosts": rng.choice((0, 0, 1, 5)),
            "view": rng.random() < 0.1,
            "group": rng.choice((2048, 122_880)),
        }
        spec |= {"collated": rng.random() < 0.1}
    elif kind == "relation":
        spec |= {
            "made": rng.choice(("query", "query", "table", "parquet", "arrow")),
            "owner": rng.choice(databases.OWNERS),
        }
    elif kind == "pandas":
        spec |= {
            "made": rng.choice(
                ("numpy", "numpy", "numpy", "nullable", "arrow", "object", "category")
            )
        }
        spec |= {"twice": rng.random() < 0.1}
    elif kind == "polars":
        spec |= {"chunk": rng.choice((0, 1, 3)), "categories": rng.random() < 0.3}
    elif kind == "lazy":
        spec |= {"made": rng.choice(("frame", "scan_parquet", "scan_csv"))}
    elif kind == "arrow":
        spec |= {
            "chunk": rng.choice((0, 1, 3)),
            "text": rng.choice(("string", "large_string", "dictionary")),
        }
        spec |= {"coded": rng.choice(("no", "no", "plain", "odd")), "twice": rng.random() < 0.1}
    elif kind == "excel":
        spec |= sheets.random_made(rng)
    elif kind == "csv":
        spec |= {
            "delimiter": rng.choice((",", ",", ";", "\t", "|")),
            "null": rng.choice(("", "", "NA", "nan", "7")),
            "encoding": rng.choice(
                ("utf-8", "utf-8", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be")
            ),
            "quoting": rng.choice(("minimal", "minimal", "all", "none")),
            "files": rng.choice((1, 1, 2)),
            "end": rng.choice(("\n", "\n", "\r\n")),
            "quote": rng.choice(('"', '"', '"', "'")),
            "header": rng.random() < 0.8,
        }
        if spec["quoting"] == "none" and rng.random() < 0.5:
            spec |= {"quote": "", "header": False}  # then a name could not be quoted either
        if rng.random() < 0.25:
            # Lines of JSON, in which delimiters, quotes and marks mean nothing.
            spec |= {
                "json": True,
                "delimiter": ",",
                "quote": '"',
                "encoding": "utf-8",
                "header": True,
            }
            spec |= {"quoting": "minimal", "date_format": rng.choice(declared.DATES)}
        else:
            spec |= declared.random_marks(rng, spec)
    if kind in {"arrow", "polars"} or (kind, spec.get("made")) in {
        ("lazy", "frame"),
        ("pandas", "arrow"),
    }:
        spec |= {"beyond": rng.random() < 0.5}  # some decimals have more digits than their type
    if kind == "polars" and spec["beyond"]:
        spec |= {"chunk": 0}  # it panics where it puts a chunk of one such row behind another
    if "files" in spec:
        spec |= {"link": rng.random() < 0.1}  # one file is found under two names
        # A log of Delta names files of Parquet alone.
        spec |= {
            "found": rng.choice(
                ("pattern", "log" if kind == "parquet" else "pattern", "folder", "keys")
            )
        }
    if kind == "csv":
        spec |= {"packed": rng.choice(("", "", ".gz", ".zst"))}
        if rng.random() < 0.15 and spec["header"] and not spec.get("json"):
            spec |= {"odd": rng.choice(sorted(ODD_HEADERS))}
    return spec


def fitted(spec: Spec, kind: str, value: Any) -> Any:
    """Return the value nearest to a value that a source can hold: of the encoding, without NUL, or the same as a float."""
    if value == NO_UNICODE and spec["kind"] == "csv" and "types" in spec:
        return value  # the bytes of a line that is in no encoding
    if value == SEVERAL_LINES and spec["kind"] == "csv" and "types" in spec:
        return value
    if value == NO_UNICODE and spec["kind"] != "arrow" and spec.get("writer") != "pyarrow":
        value = "a"
    if spec["kind"] == "pandas" and spec["made"] in pandas_frames.FOUND_OUT:
        return pandas_frames.tamed(kind, value)
    if spec["kind"] == "excel":
        return sheets.fitted(value)
    if not isinstance(value, str):
        return value
    if spec["kind"] == "csv":
        return (
            value.replace("\n", " ")
            .encode(spec["encoding"], errors="replace")
            .decode(spec["encoding"])
        )
    return value.replace("\0", "") if spec["kind"] == "postgres" else value


def recut(rng: Any, spec: Spec) -> Spec:
    """Return a source of the same kind and the same writer that is cut otherwise."""
    other = dict(spec)
    if "files" in spec:
        other["files"] = rng.choice((1, 2, 3))
    if "group" in spec:
        other["group"] = rng.choice(
            (2048, 122_880) if spec["kind"] == "duckdb" else (1, 2, 7, 100_000)
        )
    if "chunk" in spec and not (spec["kind"] == "polars" and spec.get("beyond")):
        other["chunk"] = rng.choice((0, 1, 2))
    return other


def write(spec: Spec, table: Table, folder: Path) -> Written:
    """Write a table into a folder of its own, or make it in memory."""
    kind = spec["kind"]
    if kind == "csv":
        return _csv(spec, table, folder)
    if kind == "excel":
        return sheets.write(spec, table, folder)
    if kind == "parquet":
        return Written(_parquet(spec, table, folder))
    if kind == "duckdb":
        return Written(databases.write_file(spec, table, folder))
    if kind == "relation":
        relation, close = databases.relation(spec, table, folder)
        return Written(relation, close=close)
    if kind == "postgres":
        address, close = databases.write_server(table)
        return Written(address, close=close)
    if kind == "spark":
        return Written(spark_tables.frame(spec, table, folder))
    if kind == "pandas":
        frame = pandas_frames.frame(spec["made"], table)
        return Written(frame if not spec.get("twice") else pandas_frames.with_a_name_twice(frame))
    if kind == "arrow":
        made = _chunked(_coded(arrow(table), spec.get("coded", "no")), spec["chunk"], spec["text"])
        # A name that nobody asks for is there twice.
        return Written(made if not spec.get("twice") else _add_twice(made))
    return Written(_polars(spec, table, folder))


def effective(spec: Spec, table: Table, question: Question | None = None) -> Table | None:
    """Return the table as a reader of the source finds it, and a question about it; None if that is not easily said."""
    if spec.get("looked_up") or spec.get("looked_up_too"):
        return None
    if spec["kind"] == "csv":
        found = _json_values(spec, table) if spec.get("json") else _csv_values(spec, table)
        return found and declared.with_types(spec, found, question)
    if spec["kind"] == "excel":
        return declared.with_types(spec, sheets.effective(spec, table), question)
    if spec["kind"] in {
        "arrow",
        "polars",
        "lazy",
        "pandas",
    }:  # a rule: what its type does not hold is missing
        rows = (zip(table.kinds, row, strict=True) for row in table.rows)
        table = table.with_rows(
            tuple(None if is_beyond(kind, value) else value for kind, value in row) for row in rows
        )
    if spec["kind"] == "pandas":
        return pandas_frames.effective(spec["made"], table)
    if spec["kind"] == "parquet" and spec["writer"] == "pandas":
        return pandas_frames.effective("nullable", table)
    if spec["kind"] == "lazy" and spec["made"] == "scan_csv":
        return None
    if any(value == NO_UNICODE or isinstance(value, Far) for row in table.rows for value in row):
        return None
    return table


def _pieces(table: Table, count: int) -> list[Table]:
    """Return the table cut into so many pieces, of which some may be empty."""
    size = -(-len(table.rows) // count)
    return [table.with_rows(table.rows[i * size : (i + 1) * size]) for i in range(count)]


# ---- files --------------------------------------------------------------------------------------------------------------


def _parquet(spec: Spec, table: Table, folder: Path) -> str:
    paths, found = _places(spec, folder, ".parquet")
    for piece, path in zip(_pieces(table, spec["files"]), paths, strict=True):
        _write_parquet(spec, piece, path)
    return found


def _places(spec: Spec, folder: Path, ending: str) -> tuple[list[Path], str]:
    """Return where the files of a table stand, and what finds them; a link to one of them adds nothing."""
    how = spec.get("found", "pattern")
    top = folder if how == "pattern" else folder / "t"
    parts = [
        top / f"zz_key={place % 2}" if how == "keys" else top for place in range(spec["files"])
    ]
    for part in parts:
        part.mkdir(parents=True, exist_ok=True)
    paths = [part / f"t{place}{ending}" for place, part in enumerate(parts)]
    if spec.get("link") and spec["files"] > 1:
        (parts[0] / f"t9{ending}").symlink_to(paths[0])
    if how == "log":
        _write_log(top, paths)
    if how != "pattern":
        (top / "_SUCCESS").write_bytes(b"")
        return paths, str(top)
    return paths, str(paths[0] if spec["files"] == 1 else top / f"t*{ending}")


def _write_log(top: Path, paths: list[Path]) -> None:
    """Write the log of a table of Delta, with statistics that are wrong, and a file that was removed."""
    wrong = json.dumps(
        {"numRecords": 0, "minValues": {"any": 9}, "maxValues": {"any": -9}, "nullCount": {}}
    )
    entries = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "0",
                "format": {"provider": "parquet", "options": {}},
                # Types are those of the files: of the schema here only partition columns are looked at.
                "schemaString": '{"type":"struct","fields":[{"name":"any","type":"long","nullable":true,"metadata":{}}]}',
                "partitionColumns": [],
                "configuration": {},
            }
        },
        *({"add": {"path": path.name, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, "stats": wrong}} for path in paths),
    ]  # fmt: skip
    (top / "_delta_log").mkdir(exist_ok=True)
    (top / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, entries)))
    (top / "removed.parquet").write_bytes(b"is not read")


def _write_parquet(spec: Spec, table: Table, path: Path) -> None:
    writer, group = spec["writer"], spec["group"]
    if (
        len(table.rows) // group > 500
    ):  # thousands of groups of one row take longer than they are worth
        group = 1000
    if writer == "polars":
        pl.from_arrow(arrow(table)).write_parquet(path, row_group_size=group)
    elif writer == "pandas":
        pandas_frames.frame("nullable", table).to_parquet(path, row_group_size=group, index=False)
    elif writer == "duckdb":
        databases.write_parquet(table, path, group)
    else:
        pq.write_table(
            arrow(table),
            path,
            row_group_size=group,
            use_dictionary=spec["dictionary"],
            write_statistics=spec["statistics"],
            data_page_version=spec["pages"],
        )


def _json(spec: Spec, table: Table, folder: Path) -> Written:
    types = {name: spec["types"].get(name, "text") for name in table.names}
    form = CsvFormat(null=spec["null"], **declared.options(spec) | {"types": types})
    ending = spec.get("packed", "")
    paths, found = _places(spec, folder, f".jsonl{ending}")
    for piece, path in zip(_pieces(table, spec["files"]), paths, strict=True):
        rows = ([_entry(spec, value) for value in row] for row in piece.rows)
        lines = (
            "{"
            + ", ".join(
                f"{json.dumps(name)}: {entry}" for name, entry in zip(table.names, row, strict=True)
            )
            + "}"
            for row in rows
        )
        content = "".join(line + spec["end"] for line in lines).encode(errors="surrogateescape")
        path.write_bytes(packed(ending, content, 3) if ending else content)
    return Written(found, form)


def _entry(spec: Spec, value: Any) -> str:
    """Return a value as JSON: a number, a truth value or a text, whichever can say it."""
    text = declared.field(spec, value)
    bare = isinstance(value, int | float | Decimal) and (
        text in {"true", "false"} or _JSON_NUMBER.fullmatch(text)
    )
    return text if bare else json.dumps(text, ensure_ascii=False)


_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _json_values(spec: Spec, table: Table) -> Table:
    """Return the entries that a reader of the lines finds."""
    rows = []
    for row in table.rows:
        texts = [declared.field(spec, value) for value in row]
        if any(NO_UNICODE[-1] in text for text in texts):
            continue  # a rule: lines that are no UTF-8 are dropped
        # A rule: a text with NUL is missing.
        rows.append(
            tuple(None if text in {"", spec["null"]} or "\0" in text else text for text in texts)
        )
    return Table(table.names, ("VARCHAR",) * len(table.names), tuple(rows))


def _csv(spec: Spec, table: Table, folder: Path) -> Written:
    if spec.get("json"):
        return _json(spec, table, folder)
    form = CsvFormat(
        delimiter=spec["delimiter"],
        quote=spec["quote"],
        encoding=spec["encoding"],
        null=spec["null"],
        header=spec["header"],
        columns=() if spec["header"] else table.names,
        **declared.options(spec),
    )
    odd = spec.get("odd")
    # What an odd header line hides must not be behind a quote that is out of place.
    quoting = "minimal" if odd else "all"
    header = [_line(spec | {"quoting": quoting}, table.names)] if spec["header"] else []
    if odd in ODD_HEADERS and header:
        header = ODD_HEADERS[odd](header[0], spec["delimiter"])
    end = "\r" if odd == "cr" else spec["end"]
    ending = spec.get("packed", "")
    paths, found = _places(spec, folder, f".csv{ending}")
    for piece, path in zip(_pieces(table, spec["files"]), paths, strict=True):
        lines = (_line(spec, [declared.field(spec, value) for value in row]) for row in piece.rows)
        written = "".join(line + end for line in header).encode(spec["encoding"], errors="replace")
        body = "".join(line + end for line in lines)
        content = written + declared.encode(spec["encoding"], body)
        path.write_bytes(packed(ending, content, 3) if ending else content)
    return Written(found, form)


ODD_HEADERS: dict[str, Callable[[str, str], list[str]]] = {
    # All lines end as they did on old Macs: the file is one line.
    "cr": lambda line, delimiter: [line],
    "cr inside": lambda line, delimiter: [f"{line}\r{delimiter}more"],
    "cr cr": lambda line, delimiter: [f"{line}\r"],
    **{
        f"u+{ord(mark):04x}": lambda line, delimiter, mark=mark: [f"{line}{delimiter}more{mark}"]
        for mark in "\0\x0b\x0c\x1b\x85\u2028\u2029"
    },
    "quoted break": lambda line, delimiter: [f'{line}{delimiter}"mo\nre"'],
    "open quote": lambda line, delimiter: [f'{line}{delimiter}"more'],
    "long": lambda line, delimiter: [f"{line}{delimiter}{'m' * ((1 << 20) + 5)}"],
    "twice": lambda line, delimiter: [f"{line}{delimiter}more{delimiter}more"],
    "no names": lambda line, delimiter: [f"{line}{delimiter}{delimiter}"],
    "empty": lambda line, delimiter: ["", line],
    "separator": lambda line, delimiter: [f"sep={delimiter}", line],
    "preamble": lambda line, delimiter: ["A table of ours", line],
}
"""What may stand where the names of columns are looked for, and must not make private rows speak."""


def _line(spec: Spec, fields: Any) -> str:
    if spec["quoting"] == "none":
        return spec["delimiter"].join(fields)
    everywhere = spec["quoting"] == "all" or SEVERAL_LINES in fields
    quoting = csv.QUOTE_ALL if everywhere else csv.QUOTE_MINIMAL
    out = io.StringIO()
    csv.writer(
        out,
        delimiter=spec["delimiter"],
        quotechar=spec["quote"],
        quoting=quoting,
        lineterminator="",
    ).writerow(fields)
    return out.getvalue()


def _csv_values(spec: Spec, table: Table) -> Table | None:
    """Return the fields that a reader of the file finds; None where quotes or delimiters are not in their places."""
    if spec.get("odd"):
        return None
    rows, marks = [], {spec["delimiter"], spec["quote"]} - {""}
    for row in table.rows:
        fields = [declared.field(spec, value) for value in row]
        line = _line(spec, fields)
        if SEVERAL_LINES in fields:
            # A rule: a line with another number of fields than the header is dropped, and so are both lines
            # that have one half of a pair of quotes.
            continue
        if spec["encoding"] == "latin-1":
            fields = [text.replace(NO_UNICODE[-1], "\xff") for text in fields]
        if line.startswith("\ufeff") and spec["encoding"].startswith("utf"):
            line, fields[0] = (
                line[1:],
                fields[0][1:],
            )  # a rule: a byte order mark that begins a line is no part of it
        if not line or "\0" in line:
            continue  # a rule: empty lines and lines with NUL are dropped
        if spec["quoting"] == "none" and any(mark in text for text in fields for mark in marks):
            return None
        if line.endswith("\r"):
            return None  # it belongs to the end of the line
        # A rule: a field that is not in the encoding is missing.
        rows.append(
            tuple(
                None if text in {"", spec["null"]} or NO_UNICODE[-1] in text else text
                for text in fields
            )
        )
    return Table(table.names, ("VARCHAR",) * len(table.names), tuple(rows))


# ---- tables in memory ---------------------------------------------------------------------------------------------------


def _coded(table: pa.Table, how: str) -> pa.Table:
    """Return a table whose columns are dictionaries: "plain", or "odd" with values that are there twice, or for no row."""
    if how == "no":
        return table
    columns = []
    for column in table.columns:
        coded = column.combine_chunks().dictionary_encode()
        if how == "odd" and len(coded.dictionary):
            # Every value twice, with a missing one between them; each second row refers to the later of the two.
            values, size = coded.dictionary, len(coded.dictionary)
            twice = pa.concat_arrays([values, pa.nulls(1, values.type), values])
            numbers = [
                None if number is None else number + (size + 1) * (place % 2)
                for place, number in enumerate(coded.indices.to_pylist())
            ]
            coded = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), twice)
        columns.append(coded)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _add_twice(table: pa.Table) -> pa.Table:
    other = pa.nulls(table.num_rows, pa.int32())
    return table.append_column("twice", other).append_column("twice", other)


def _chunked(table: pa.Table, size: int, text: str) -> pa.Table:
    if text != "string":
        kind = (
            pa.large_string() if text == "large_string" else pa.dictionary(pa.int32(), pa.string())
        )
        fields = [
            pa.field(one.name, kind if one.type == pa.string() else one.type)
            for one in table.schema
        ]
        table = table.cast(pa.schema(fields))
    if not size or not table.num_rows:
        return table
    size = max(size, table.num_rows // 200)
    return pa.concat_tables([table.slice(at, size) for at in range(0, table.num_rows, size)])


def _polars(spec: Spec, table: Table, folder: Path) -> Any:
    if spec.get("made") == "scan_parquet":
        pq.write_table(
            arrow(table), folder / "t.parquet", row_group_size=3 if len(table.rows) < 100 else 1000
        )
        return pl.scan_parquet(folder / "t.parquet")
    if spec.get("made") == "scan_csv":
        pl.from_arrow(arrow(table)).write_csv(folder / "t.csv")
        return pl.scan_csv(folder / "t.csv")
    frame = pl.from_arrow(_chunked(arrow(table), spec.get("chunk", 0), "string"), rechunk=False)
    if spec.get("categories"):
        texts = [
            name for name, kind in zip(table.names, table.kinds, strict=True) if kind == "VARCHAR"
        ]
        # Columns by their names alone: `pl.col("^c1$")` would be a pattern.
        frame = frame.with_columns(frame.get_column(name).cast(pl.Categorical) for name in texts)
    return frame.lazy() if spec["kind"] == "lazy" else frame
