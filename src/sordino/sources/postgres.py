"""Reads tables of a PostgreSQL server.

Questions run inside the server, in a transaction that can write nothing. The rows stay where they
are. What the server says of an error may hold a private value. So none of it is repeated: not
before the charge, where only the schema is read, and not after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

import numpy as np

from sordino.address import ServerTable, connected, identify, parts, reaching
from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import SumSteps
from sordino.columns.clipped_steps import StepRange
from sordino.errors import DataSourceError
from sordino.sources.engine import Answer, Kept, Scan, Take, quoted
from sordino.sources.lookups import JoinedTable, LookupTable, PrivateTable, list_used, write_joins
from sordino.sources.predicates.server_condition import write_server_condition
from sordino.sources.source import AnswerLimit, Asked, unusable
from sordino.sources.sql.bucket_query import BucketQuery
from sordino.sources.sql.call_templates import SERVER_CALLS
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.fine_query import Steps
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.person_query import ROW_LIMIT
from sordino.sources.sql.sql_templates import SERVER
from sordino.sources.sql.step_query import Addends, added_up, write_ladder_steps

if TYPE_CHECKING:
    from sordino.address import Connection

_ENGINE_TYPES = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "date": "DATE",
    "uuid": "UUID",
    "numeric": "NUMERIC",
}
# The numbers by which the server knows the types bigint, smallint and integer.
_WHOLE_TYPE_NUMBERS = frozenset({20, 21, 23})
_NEAR_0 = "CAST('1e-300' AS numeric)"
"""A number that a float can hold."""
_CHARACTER_TYPE = re.compile(r"character(?: varying)?(?:\(\d+\))?")
_MOMENT_TYPE = re.compile(r"timestamp(?:\(\d\))? with(out)? time zone")
_NUMERIC_TYPE = re.compile(r"numeric\((\d+),(-?\d+)\)")
_SCHEMA_QUERY = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype = 'e', a.attgenerated = 'v',"
    " a.attnotnull"
    " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
# Encodings in which every text is one in Unicode. The others have bytes that stand for no letter.
LEGIBLE = frozenset(
    {f"LATIN{number}" for number in (1, 2, 4, 5, 6, 7, 8, 9, 10)}
    | {"UTF8", "ISO_8859_5", "WIN1256", "WIN866", "KOI8R", "KOI8U"}
)
# Whether the table is stored: it holds its rows itself, and shows them to every user alike (there
# is no row-level security). The same must be true of all of its parts, because a partition may be a
# foreign table, which is computed elsewhere.
_STORED_QUERY = (
    "WITH RECURSIVE parts (oid) AS (SELECT %s::oid UNION"
    " SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)"
    " SELECT bool_and(c.relkind IN ('r', 'p') AND NOT c.relrowsecurity)"
    " FROM pg_class c JOIN parts p ON p.oid = c.oid"
)
# Columns that are a primary key or unique by themselves, over all rows that a table shows: without
# tables that inherit from it, indexes of a part of the rows, and indexes that were never finished.
# Of texts only those that are compared byte by byte: another order may change with the library that
# has it, and its index then finds nothing.
_UNIQUE_QUERY = (
    "SELECT a.attname FROM pg_constraint c JOIN pg_index i ON i.indexrelid = c.conindid"
    " JOIN pg_class t ON t.oid = c.conrelid"
    " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]"
    " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
    " CROSS JOIN (SELECT datcollate FROM pg_database WHERE datname = current_database()) d"
    " WHERE t.oid = %s AND c.contype IN ('p', 'u') AND c.convalidated AND cardinality(c.conkey) = 1"
    " AND i.indisvalid AND i.indisunique AND i.indpred IS NULL AND NOT t.relrowsecurity"
    " AND (t.relkind = 'p' OR t.relkind = 'r' AND NOT t.relhassubclass)"
    " AND (a.attcollation = 0 OR l.collname IN ('C', 'POSIX', 'ucs_basic')"
    " OR l.collname = 'default' AND d.datcollate IN ('C', 'POSIX'))"
)
# These settings decide how a value is written, how a name is understood and what can fail. So they
# are set here, and not left to the server, the role or the address. A comment says what another
# value would do.
_SETTING_VALUES = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",  # writes dates as another text
    "extra_float_digits": "1",  # writes two floats as one text
    "bytea_output": "hex",
    "standard_conforming_strings": "on",  # reads a backslash in a literal as more than that
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",  # writes the name of a type with quotes
    "client_min_messages": "error",
    # Leaves out rows at random, of a view that looks into such an index.
    "gin_fuzzy_search_limit": "0",
    # Compiles a query that is expected to be long: one more thing that can fail if there are many
    # rows.
    "jit": "off",
    # Parallel workers share memory, which some machines have
    # little of. Whether there are workers depends on the rows.
    "max_parallel_workers_per_gather": "0",
    # How long an answer takes, and how long somebody else changes the table, depends on rows. With
    # a time limit, rows would decide whether the question fails.
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
}
_SETTING_ROWS = ", ".join(f"('{name}', '{value}')" for name, value in _SETTING_VALUES.items())
# One snapshot for the whole transaction, which can write nothing. The search path is set first and
# by a command, so that no function or table of somebody else is in the way. Some settings are new
# in a version: what a server does not know is left out.
_SETTINGS_COMMANDS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL search_path = "
    "pg_catalog, pg_temp;"
    f" SELECT set_config(ours.name, ours.value, true) FROM (VALUES {_SETTING_ROWS}) AS ours (name,"
    " value)"
    " JOIN pg_settings AS known ON lower(known.name) = lower(ours.name)"
)


@final
@dataclass(frozen=True)
class PostgresBackend:
    """One table or view of a server."""

    address: str = field(repr=False)  # it may hold a password
    table: str
    names: tuple[str, ...]
    enumerated: frozenset[str] = frozenset()  # columns of types that list their values
    required: frozenset[str] = frozenset()  # columns that are declared NOT NULL
    unique: frozenset[str] = frozenset()  # columns in which no two rows agree
    computed: bool = False  # a view, or a table that shows each user other rows
    legible: bool = True
    joined: tuple[JoinedTable, ...] = field(default=(), repr=False)
    unicode: bool = True  # whether texts are kept in UTF-8
    limit: ClassVar[AnswerLimit | None] = None

    @property
    def dialect(self) -> Dialect:
        """The SQL of the server."""
        return POSTGRES if self.unicode else _OF_OTHER_ENCODINGS

    def look_up(self, joined: tuple[JoinedTable, ...]) -> PostgresBackend:
        """Return the same with other tables: public ones are sent with each question."""
        return replace(self, joined=joined)

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Scan]:
        """Ask the server; the transaction is over when the scan is."""
        return _scan_server(self, indices)

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask the server the questions over none of its rows."""
        import psycopg  # noqa: PLC0415

        try:
            with _open_reading_transaction(self.address) as connection:
                # This also finds out whether we may read these columns.
                scan = self.open_scan(connection, list(columns), nothing=True)
                for question, labels in asked:
                    scan.ask(question, labels)
        except psycopg.Error:
            raise DataSourceError(
                "The server cannot answer this question for the columns as they are; check that "
                "their rows may be read, and convert columns of other types in a view."
            ) from None

    def check_unique(self, connection: Connection) -> None:
        """Refuse tables in whose keys rows may agree by now, in the snapshot that is read.

        Raises
        ------
        DataSourceError
            If there is one.
        """
        for one in self.joined:
            if isinstance(one.table, PrivateTable) and one.table.owns:
                there: PostgresBackend = one.table.source.backend
                [(oid,)] = connection.execute(b"SELECT to_regclass(%s)::oid", [there.table])
                if not there.unique <= _read_unique(connection, oid):
                    raise DataSourceError("A source must not change while it is open; one has.")

    def open_scan(
        self, connection: Connection, indices: Sequence[int], *, nothing: bool = False
    ) -> _ServerScan:
        """Return what asks about the used columns as c<index>; of no rows for `nothing`."""
        rows = write_joins(self.joined, indices, lambda own: self.rows(own, nothing=nothing))
        return _ServerScan(connection, rows, list(self._list_tables(indices, nothing=nothing)))

    def _list_tables(self, indices: Sequence[int], *, nothing: bool) -> Iterator[_SentTable]:
        """Yield the tables that rows are joined with, each as a part of a query."""
        for one, used in list_used(self.joined, indices):
            if isinstance(one.table, LookupTable):
                sent = one.list_columns(one.table, used)
                arrays = ", ".join(["CAST(%s AS text[])"] * len(sent))
                made = f"SELECT * FROM unnest({arrays}) AS listed({', '.join(sent)})"
                yield _SentTable(one.place, made, tuple(map(list, sent.values())))
                continue
            read, _ = one.choose_rows(one.table, used)
            there = one.table.source.backend.rows(read, nothing=nothing)
            _, chosen = one.choose_rows(one.table, used, f"({there}) AS rows")
            yield _SentTable(one.place, chosen.replace("%", "%%"))

    def rows(self, indices: Sequence[int], *, nothing: bool = False) -> str:
        """Return the SELECT that renames columns of the table to c<index>."""
        used = (
            ", ".join(f"{self._value(self.names[index])} AS c{index}" for index in indices)
            or "1 AS c"
        )
        # A view may fail on rows that it leaves out itself, unless it comes first: neither labels
        # nor predicates are asked of what it has not made (docs/proofs/computed-columns.md).
        fence = " OFFSET 0" if self.computed else ""
        return f"SELECT {used} FROM {self.table}{' WHERE FALSE' if nothing else ''}{fence}"

    def _value(self, name: str) -> str:
        # Whoever made a type of listed values can redefine its
        # cast to text. The output function belongs to the server.
        return f"textin(enum_out({quoted(name)}))" if name in self.enumerated else quoted(name)


@contextmanager
def _scan_server(backend: PostgresBackend, indices: Sequence[int]) -> Iterator[Scan]:
    with _open_reading_transaction(backend.address) as connection:
        backend.check_unique(connection)
        yield backend.open_scan(connection, indices)


@contextmanager
def _open_reading_transaction(address: str) -> Iterator[Connection]:
    with connected(address) as connection, connection.transaction():
        # The settings come first, and they hold for this transaction only.
        connection.execute(_SETTINGS_COMMANDS.encode())
        yield connection


class _SentTable(NamedTuple):
    """A part of a query to the server, with the arrays that stand for its placeholders."""

    name: str
    sql: str
    sent: tuple[list[str | None], ...] = ()


class _ServerScan:
    # The rows are a SELECT and no table of their own: they stay on the server, and it answers the
    # question.
    def __init__(self, connection: Connection, rows: str, tables: Sequence[_SentTable]) -> None:
        self._connection, self._rows, self._tables = connection, rows, tables

    def ask(
        self,
        question: str,
        labels: Sequence[str] | None = None,
        *,
        kept: Kept | None = None,  # noqa: ARG002
        take: Take | None = None,  # noqa: ARG002
    ) -> Answer:
        # The driver takes % for a placeholder, so every other % is doubled.
        tables = [*self._tables, _SentTable("rows", self._rows.replace("%", "%%"))]
        if labels is not None:
            listed = (
                "SELECT label, place - 1 AS position"
                " FROM unnest(CAST(%s AS text[])) WITH ORDINALITY AS listed(label, place)"
            )
            tables.append(_SentTable("labels", listed, (list(labels),)))
        parts = ", ".join(f"{one.name} AS ({one.sql})" for one in tables)
        sql = f"WITH {parts} {question.replace('%', '%%')}"
        sent = [array for one in tables for array in one.sent]
        cursor = self._connection.execute(sql.encode(), sent)
        # An answer without rows has no columns here: its arrays
        # are empty, with the types that the server declares.
        columns = list(zip(*cursor.fetchall(), strict=True))
        named = [
            (column.name, np.int64 if column.type_code in _WHOLE_TYPE_NUMBERS else object)
            for column in cursor.description or ()
        ]
        return {
            name: np.array(columns[place] if columns else (), dtype=kind)
            for place, (name, kind) in enumerate(named)
        }

    def progress(self) -> float:
        return 0.0  # the server does not say how far it is

    def interrupt(self) -> None:
        import psycopg  # noqa: PLC0415

        # The query may be over already.
        with suppress(psycopg.Error):
            self._connection.cancel()


def open_postgres(path: str) -> tuple[PostgresBackend, dict[str, str], ServerTable]:
    """Read the schema of one table of a server, and no row; return also what a ledger keeps.

    Raises
    ------
    InvalidParameter
        If the address is not written postgresql://USER@HOST/DATABASE#TABLE.
    UnsupportedBackend
        If the driver is not installed.
    DataSourceError
        If the server cannot be reached, there is no such table, or the server does not say which
        one it is.
    """
    address, schema, name = parts(path)
    with reaching(path), _open_reading_transaction(address) as connection:
        identity, oid = identify(connection, path)
        columns = connection.execute(_SCHEMA_QUERY.encode(), [oid]).fetchall()
        [(stored,)] = connection.execute(_STORED_QUERY.encode(), [oid]).fetchall()
        unique = _read_unique(connection, oid)
        # Whether every text of the server is one in Unicode depends on the database, and not on
        # rows.
        [(encoding,)] = connection.execute(b"SELECT getdatabaseencoding()").fetchall()
    # A column that is computed when it is read may fail on one row, so no question can use it.
    declared = {
        str(column): unusable(f"{kind} (computed when it is read)")
        if computed
        else _translate_server_type(str(kind), enumerated=bool(labels))
        for column, kind, labels, computed, _ in columns
    }
    listed = frozenset(str(column) for column, _, labels, *_ in columns if labels)
    return (
        PostgresBackend(
            address,
            f"{quoted(schema)}.{quoted(name)}",
            tuple(declared),
            enumerated=listed,
            required=frozenset(str(column) for column, *_, required in columns if required),
            unique=unique,
            computed=not stored,
            legible=str(encoding) in LEGIBLE,
            unicode=str(encoding) == "UTF8",
        ),
        declared,
        identity,
    )


def _read_unique(connection: Connection, oid: int) -> frozenset[str]:
    """Return the columns in which no two rows of a table agree, by what the server enforces."""
    return frozenset(str(name) for (name,) in connection.execute(_UNIQUE_QUERY.encode(), [oid]))


def _translate_server_type(kind: str, *, enumerated: bool) -> str:
    """Return a type of the server in the words of the embedded engine."""
    if enumerated:
        return "ENUM()"
    # In full: somebody's own type may have a name that begins like this one.
    if _CHARACTER_TYPE.fullmatch(kind):
        return "VARCHAR"
    if moment := _MOMENT_TYPE.fullmatch(kind):
        return "TIMESTAMP" if moment[1] else "TIMESTAMP WITH TIME ZONE"
    if numeric := _NUMERIC_TYPE.fullmatch(kind):
        # The server also allows negative scales and more digits than the embedded engine knows.
        width, scale = int(numeric[1]), int(numeric[2])
        return f"DECIMAL({width},{scale})" if 0 <= scale <= width <= 38 else "NUMERIC"
    return _ENGINE_TYPES.get(kind, unusable(kind))


# ---- numbers -------------------------------------------------------------------------------------
# Writes questions about numbers in the SQL of PostgreSQL: the same buckets and the same steps as
# elsewhere.
#
# Floats are compared with edges as floats and divided by powers of two, which is exact. All other
# numbers are `numeric`, which is exact whatever their size: the edges are sent with all their
# digits. No function is called where it could fail: PostgreSQL raises where other engines return
# infinity, and nothing may depend on that.


def _write_server_number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>, without NaN and with one zero.

    This comes before anything compares or ranks it.
    """
    if kind.scale is not None:
        # Zeros at its end are dropped, so that equal numbers have
        # one text. A number without declared digits can be NaN.
        return f"trim_scale(nullif(CAST(c{index} AS numeric), 'NaN'))"
    return SERVER.number.format(f"CAST(c{index} AS float8)")


def _server_number_type(kind: NumberKind) -> str:
    return "float8" if kind.scale is None else "numeric"


def _write_server_literal(number: float | Fraction, kind: NumberKind) -> str:
    """Return a public number as the text of a value of the kind, with all its digits."""
    if kind.scale is None:
        return repr(float(number))
    # A whole number divided by a power of two: it has as many
    # digits after the point as the divisor has factors of two.
    exact = Fraction(number)
    places = exact.denominator.bit_length() - 1
    sign = "-" if exact < 0 else ""
    digits = str(abs(exact.numerator) * 5**places).rjust(places + 1, "0")
    return (
        f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :]}"
        if places
        else sign + digits
    )


_TOTAL = ", CAST(coalesce(sum(steps), 0) AS text) AS total"


def _write_server_buckets(
    kind: NumberKind, grid: BucketGrid, ladder: SumSteps | str | None
) -> tuple[BucketQuery]:
    """Return the query in which the server finds the bucket by comparisons with sorted edges."""
    if grid.cuts > 1 and not isinstance(ladder, SumSteps):
        return (_write_fine_server_buckets(kind, grid, ladder),)
    cuts = tuple(_write_server_literal(edge, kind) for edge in grid.edges.tolist())
    edges = (
        f"ARRAY(SELECT CAST(label AS {_server_number_type(kind)}) FROM labels"
        f" WHERE position < {len(cuts)}"
        " ORDER BY position)"
    )
    # The bucket of what is missing is said here, because `width_bucket` of NULL is NULL.
    cell = f"CASE WHEN x IS NULL THEN 0 ELSE width_bucket(x, {edges}) END"
    wanted, steps = "", ""
    if ladder is not None:
        wanted = _TOTAL
        of_row = (
            ladder
            if isinstance(ladder, str)
            else write_ladder_steps(
                partial(_write_server_steps, kind), partial(_cast_edge, kind), ladder
            )
        )
        steps = f"{of_row} AS steps, "
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known{wanted} FROM "
        f"(SELECT {{group}}x, {steps}{cell} AS cell FROM {{rows}} AS counted) AS placed"
        " GROUP BY {group}cell"
    )
    return (BucketQuery(cuts, np.arange(grid.size + 1), sql),)


def _write_fine_server_buckets(
    kind: NumberKind, grid: BucketGrid, weight: str | None
) -> BucketQuery:
    """Return the query over a grid that is cut into parts, whose edges the server makes.

    Numbers are compared with them as floats. What is added up, if anything, is a weight.
    """
    steps = Steps.of(grid)
    texts = steps.write_texts()
    share = f"(CAST(part AS float8) / CAST('{grid.cuts}' AS float8))"
    cuts = ", ".join(steps.write_cuts(share, f"CAST('{float(steps.edges[-1])!r}' AS float8)"))
    made = (
        "SELECT CAST(split_part(label, ' ', 1) AS float8) AS begins,"
        " CAST(split_part(label, ' ', 2) AS float8) AS ends FROM labels"
        f" WHERE position < {len(texts)}"
    )
    edges = (
        f"ARRAY(SELECT DISTINCT unnest(ARRAY[{cuts}]) AS cut FROM ({made}) AS steps"
        f" CROSS JOIN generate_series(0, {grid.cuts - 1}) AS part ORDER BY cut)"
    )
    real = "x"
    # A cast fails where a number is nearer to 0 than any float. Beyond the ends none is made.
    if kind.scale is not None and not kind.largest:
        real = f"CASE WHEN abs(x) < {_NEAR_0} THEN sign(x) * {_NEAR_0} ELSE x END"
    real = f"CAST({real} AS float8)"
    first, last = (_cast_edge(kind, Fraction(float(edge))) for edge in grid.edges[[0, -1]])
    cell = (
        f"CASE WHEN x IS NULL OR x < {first} THEN 0 WHEN x >= {last} THEN {grid.size}"
        f" ELSE width_bucket({real}, {edges}) END"
    )
    wanted, more = ("", "") if weight is None else (_TOTAL, f"{weight} AS steps, ")
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known{wanted} FROM "
        f"(SELECT {{group}}x, {more}{cell} AS cell FROM {{rows}} AS counted) AS placed"
        " GROUP BY {group}cell"
    )
    return BucketQuery(texts, np.arange(grid.size + 1), sql)


def _cast_edge(kind: NumberKind, edge: Fraction) -> str:
    return f"CAST('{_write_server_literal(edge, kind)}' AS {_server_number_type(kind)})"


def _write_server_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`; NULL if it is missing."""
    least, most = (_cast_edge(kind, end * ends.step) for end in (ends.low, ends.high))
    # Values beyond the ends are sorted out first by comparison,
    # so they never enter the arithmetic, which could fail.
    inside = (_write_server_float_steps if kind.scale is None else _write_server_numeric_steps)(
        ends.step
    )
    return (
        f"CASE WHEN x IS NULL THEN NULL WHEN x >= {most} THEN CAST({ends.high} AS bigint)"
        f" WHEN x >= {least} THEN {inside} ELSE CAST({ends.low} AS bigint) END"
    )


def _write_server_float_steps(step: Fraction) -> str:
    """Return floor(x / step) of a float inside the ends.

    A number that is smaller than a step is not divided: the quotient might underflow, which is an
    error.
    """
    # The step is a power of two, so the product with its inverse is the exact quotient.
    one, per = (f"CAST('{float(number)!r}' AS float8)" for number in (step, 1 / step))
    return (
        f"CASE WHEN x >= 0 AND x < {one} THEN 0 WHEN x < 0 AND x >= -{one} THEN -1"
        f" ELSE CAST(floor(x * {per}) AS bigint) END"
    )


def _write_server_numeric_steps(step: Fraction) -> str:
    """Return floor(x / step) of an exact number inside the ends: a product or integer division."""
    if step.numerator == 1:
        return f"CAST(floor(x * CAST('{step.denominator}' AS numeric)) AS bigint)"
    # The division cuts off toward zero, so a negative remainder takes one off. The inner floor
    # changes nothing, because the step is a whole number.
    by = f"CAST('{step.numerator}' AS numeric)"
    return (
        f"CAST(div(floor(x), {by}) - CASE WHEN mod(floor(x), {by}) < 0 THEN 1 ELSE 0 END AS bigint)"
    )


def _write_server_totals(kind: NumberKind, addends: Addends) -> str:
    return added_up(partial(_write_server_steps, kind), addends, text="text", wide="numeric")


def _write_server_row_steps(kind: NumberKind, step: Fraction) -> str:
    """Return the steps of `x` for what one unit adds up; NULL if it is missing."""
    end = ROW_LIMIT * step
    # What lies beyond is decided by comparison, before anything is computed that could fail.
    if kind.scale is None:
        cut, inside = repr(float(end)), _write_server_float_steps(step)
    else:
        # A whole number of steps of a power of ten, with all of its digits.
        cut = f"{ROW_LIMIT}e-{len(str(step.denominator)) - 1}"
        inside = f"CAST(floor(x * {step.denominator}) AS bigint)"
    cut = f"CAST('{cut}' AS {_server_number_type(kind)})"
    return (
        f"CASE WHEN x IS NULL THEN NULL WHEN x >= {cut} THEN CAST('{ROW_LIMIT}' AS bigint)"
        f" WHEN x < -{cut} THEN CAST('{-ROW_LIMIT}' AS bigint) ELSE {inside} END"
    )


POSTGRES = Dialect(
    words=SERVER,
    number=_write_server_number,
    buckets=_write_server_buckets,
    steps=_write_server_totals,
    row_steps=_write_server_row_steps,
    # Whole numbers of 64 bits are added up as numeric.
    add_steps="sum({})".format,
    float_type="float8",
    float_of_sum="CAST({} AS float8)",
    predicates=write_server_condition,
    # A database may keep texts in an encoding that lacks some characters.
    every_character=False,
    calls=SERVER_CALLS,
)
_OF_OTHER_ENCODINGS = replace(POSTGRES, predicates=partial(write_server_condition, unicode=False))
