"""A ledger in PostgreSQL: every operation is a function of the database, one call and one commit.

The functions run with the rights of the ledger's owner (SECURITY DEFINER, fixed search path), so a
role that may only charge needs no right to write into any table: it can neither edit history nor
grant itself more. They insist on synchronous commits. Isolation is READ COMMITTED: a conditional
UPDATE waits for the row and looks again, at that row alone. What decides by other rows locks first,
by a statement of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from sordino.address import without_password
from sordino.constraints import text
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger.operation import Operation, rendered
from sordino.ledger.parts import MOST_RANGES
from sordino.ledger.schema import (
    CHARGE_COLUMNS,
    OPERATIONS,
    PART_COLUMNS,
    READING_COLUMN,
    TABLES,
    VERSION,
    WITHIN,
)
from sordino.ledger.schema_parts import PART_INDEXES, PART_TABLES
from sordino.ledger.store.store import NoLedgerError, Rows, TryAgainError, check_schema
from sordino.process import Process, close_before_fork
from sordino.record import MOST_CHARACTERS

try:
    import psycopg
    from psycopg import sql as quoting
except ImportError as missing:
    raise LedgerError(
        "A ledger in PostgreSQL needs the driver psycopg: pip install 'sordino[postgres]'."
    ) from missing

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]

PREFIX = "sordino."
_CONNECT_SECONDS = 10
_LOCK_SECONDS = 30
_SCHEMA_LOCK = 0x53_4F_52_44  # "SORD": one maker of the schema at a time
_CHAIN_AND_TRIGGERS = (
    "CREATE FUNCTION ~chain(covered text) RETURNS text LANGUAGE sql IMMUTABLE STRICT"
    " SET search_path = pg_catalog, pg_temp"
    " AS $$ SELECT encode(sha256(convert_to(covered, 'UTF8')), 'hex') $$",
    # Even the owner would have to drop the trigger first, and every later hash would still not fit.
    "CREATE FUNCTION ~append_only() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RAISE insufficient_privilege USING MESSAGE = 'the history is append-only';"
    " END $$",
    *(
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ~{table}"
        " EXECUTE FUNCTION ~append_only()"
        for table in ("event", "kept")
    ),
)
# Whoever may reserve may keep what was released, and see it.
_CHARGERS_QUERY = (
    "SELECT DISTINCT r.rolname FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " CROSS JOIN LATERAL aclexplode(p.proacl) AS a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee"
    " WHERE n.nspname = 'sordino' AND p.proname = 'reserve' AND r.rolname <> current_user"
)
# A commit that does not wait for the disk could lose a charge whose noise was released already.
_REQUIRE_DURABLE_COMMIT = (
    "IF current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;"
    f" PERFORM set_config('lock_timeout', '{_LOCK_SECONDS}s', true);"
)

_MOST_IDLE_CONNECTIONS = 8  # connections that wait for the next charge
# Whoever may make a schema could have put one of this name in the way of the next user, with
# functions of their own. So the schema and all of its functions must have the right owner.
_SCHEMA_OWNER_QUERY = (
    "SELECT n.nspowner = r.oid FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles r"
    " WHERE n.nspname = 'sordino' AND r.rolname = current_user"
)
# As many functions as names: a second one of the same name, with other parameters, would be one too
# many.
_TRUST_QUERY = (
    "SELECT count(*) = cardinality(%(names)s::text[]) AND bool_and(p.proowner = n.nspowner"
    " AND p.prosecdef)"
    " FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = 'sordino' AND p.proname = ANY (%(names)s::text[])"
)
_RAISE_WRONG_TEXT = "RAISE invalid_text_representation; END IF;"
# A role that may charge must not be able to write what nobody can read.
_PARAMETER_CHECKS = {
    "charge": f"IF :charge NOT SIMILAR TO '[0-9a-f]{{32}}' THEN {_RAISE_WRONG_TEXT}",
    "digest": f"IF :digest NOT SIMILAR TO '[0-9a-f]{{64}}' THEN {_RAISE_WRONG_TEXT}",
    # `json`, because `jsonb` takes no zero byte, which a label may hold: spelled, as all that is
    # not ASCII.
    "sheet": f"IF length(:sheet) > {MOST_CHARACTERS} OR json_typeof(CAST(:sheet AS json)) <> "
    "'object'"
    f" OR octet_length(:sheet) <> length(:sheet) THEN {_RAISE_WRONG_TEXT}",
    "ranges": f"IF length(:ranges) > {18 * MOST_RANGES}"
    f" OR :ranges NOT SIMILAR TO '([+-][0-9]{{8}}[+-][0-9]{{8}})*' THEN {_RAISE_WRONG_TEXT}",
    "lock": f"IF :lock NOT SIMILAR TO '[0-9a-f]{{64}}' THEN {_RAISE_WRONG_TEXT}",
    "body": "IF length(:body) > 1000000 OR jsonb_typeof(CAST(:body AS jsonb)) <> 'object'"
    f" THEN {_RAISE_WRONG_TEXT}",
}
# Connections that wait, with the process that opened them.
_idle_connections: dict[str, list[tuple[Process, Connection]]] = {}
_idle_lock = threading.RLock()


def close_waiting() -> None:
    """Close the connections of this process that wait.

    Those that a fork outside of Python left here are its parent's to close.
    """
    with _idle_lock:
        for waiting in _idle_connections.values():
            while waiting:
                process, connection = waiting.pop()
                if process.is_here():
                    connection.close()


# A child could not even let go of what waits without a warning.
close_before_fork(_idle_lock, close_waiting)


@final
class PostgresStore:
    """A database on a server."""

    __slots__ = ("address", "url")

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = without_password(address)

    def build(self) -> None:
        """Make the schema with its tables and functions, unless it is there."""
        # Makers wait for each other, so that the second one finds what the first has made.
        with self._lent(self._connect()) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            if self._is_built(connection):
                if connection.execute(_SCHEMA_OWNER_QUERY).fetchone() != (True,):
                    raise LedgerError(
                        f"The ledger at {self.url!r} belongs to another role; make accounts as "
                        "that role."
                    )
            else:
                for statement in _schema_definitions():
                    connection.execute(statement.encode())

    def apply(self, operation: Operation, parameters: dict[str, Any]) -> bool:
        """Call the function of the operation; it is durable when this returns."""
        # Names and placeholders are ours; what the caller gave goes as parameters alone.
        names = tuple(operation.parameters)
        call = f"SELECT {PREFIX}{operation.name}({', '.join('%s' for _ in names)})"
        # It may be dead by now: `carry_out` looks what happened and tries again.
        with self._lent(self._waiting() or self._checked()) as connection:
            row = connection.execute(call.encode(), [parameters[name] for name in names]).fetchone()
        return row is not None and row[0] is True

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """Let the block ask questions that all see one moment."""
        with self._lent(self._alive()) as connection, connection.transaction():
            connection.execute(
                # One snapshot for all questions. A fixed path, so that nobody else's functions are
                # called.
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
                " SET LOCAL search_path = pg_catalog, pg_temp"
            )

            def rows(sql: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
                return connection.execute(
                    rendered(sql, PREFIX, "%(@)s").encode(), parameters
                ).fetchall()

            yield rows

    def backup(self, path: str) -> dict[str, str]:
        """Raise: the tools of the server do that, and put it back as it was, with its roles."""
        raise InvalidParameter(
            "A ledger in PostgreSQL is backed up by the tools of its server, "
            "also while it is charged: pg_dump --schema=sordino --file=FILE, "
            f"with the address of the ledger; got {path!r} to copy it to."
        )

    def permit(self, role: str) -> None:
        """Allow a role to see everything and to charge, and nothing else."""
        if text(role, "role") == "public":  # a word of the language even between quotes
            raise InvalidParameter(
                "role must be one role of the server; got 'public', which is everybody."
            )
        with self._lent(self._alive()) as connection, connection.transaction():
            # PostgreSQL only warns a role that may not grant, so that is asked first.
            owned = connection.execute(
                "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'sordino'"
            ).fetchone()
            if owned != (True,):
                raise LedgerError(f"The ledger at {self.url!r} {_REASON_BY_SQLSTATE['42501']}")
            self._grant_charging(connection, role)

    @contextmanager
    def _lent(self, connection: Connection) -> Iterator[Connection]:
        """Use a connection and keep it for the next one.

        A connection that failed is not used again.
        """
        try:
            yield connection
        except psycopg.Error as error:
            # Asked before it is closed here: afterwards every connection would look lost.
            lost = connection.closed or connection.broken
            connection.close()
            raise self._explained(error, lost=lost) from None
        # Whatever interrupted the block, the connection may be in the middle of something.
        except BaseException:
            connection.close()
            raise
        with _idle_lock:
            waiting = _idle_connections.setdefault(self.address, [])
            if len(waiting) < _MOST_IDLE_CONNECTIONS:
                waiting.append((Process(), connection))
                return
        connection.close()

    def _waiting(self) -> Connection | None:
        """Return a connection that waits.

        Those of a process that was forked outside of Python are left alone: its parent uses them.
        """
        with _idle_lock:
            waiting = _idle_connections.get(self.address, [])
            while waiting:
                process, connection = waiting.pop()
                if process.is_here() and not connection.closed:
                    return connection
        return None

    def _alive(self) -> Connection:
        """Return a connection whose server answers."""
        while (connection := self._waiting()) is not None:
            try:
                connection.execute("SELECT 1")
            except psycopg.Error:  # the server was restarted since
                connection.close()
            else:
                return connection
        return self._checked()

    def _checked(self) -> Connection:
        """Return a new connection to a database that has a ledger."""
        connection = self._connect()
        try:
            built = self._is_built(connection)
        except psycopg.Error as error:
            connection.close()
            raise self._explained(error, lost=False) from None
        except LedgerError:
            connection.close()
            raise
        if not built:
            connection.close()
            raise NoLedgerError(
                f"There is no ledger at {self.url!r}; `sordino ledger create` (Ledger.create) "
                "makes one."
            )
        return connection

    def _connect(self) -> Connection:
        try:
            # No prepared statements, so that a pooler between the two may change the session.
            connection = psycopg.connect(
                self.address,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                prepare_threshold=None,
                application_name="sordino",
            )
        except psycopg.Error as error:
            raise self._explained(error, lost=True) from None
        return connection

    def _is_built(self, connection: Connection) -> bool:
        """Tell whether there is a ledger of this schema; refuse one of another."""
        (schema,) = connection.execute("SELECT to_regnamespace('sordino')").fetchone() or (None,)
        if schema is None:
            return False
        (table,) = connection.execute("SELECT to_regclass('sordino.ledger')").fetchone() or (None,)
        version = None if table is None else _read_schema(connection)
        if version is None:
            raise LedgerError(
                f"The schema sordino at {self.url!r} is not a ledger; it was left as it is."
            )
        check_schema(version, self.url)
        if version != VERSION:
            self._bring_up_to_date(connection, version)
        names = [operation.name for operation in OPERATIONS]
        if connection.execute(_TRUST_QUERY, {"names": names}).fetchone() != (True,):
            raise LedgerError(
                f"The functions of the ledger at {self.url!r} are not those of its owner; it was "
                "left as it is."
            )
        return True

    def _bring_up_to_date(self, connection: Connection, older: int) -> None:
        """Bring a ledger of an older schema to the present one in one transaction.

        The functions of the older schema are replaced: a client of an older version charges nothing
        more.
        """
        # Only the owner may, and another role that could make tables there would own what it made.
        if connection.execute(_SCHEMA_OWNER_QUERY).fetchone() != (True,):
            raise LedgerError(
                f"The ledger at {self.url!r} has schema {older}, that of an older version of "
                "sordino; its owner must open it once with this version (`sordino ledger "
                "accounts`), which adds to its tables. Nothing was charged."
            )
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            # Asked again under the lock: another process may have done it meanwhile.
            if _read_schema(connection) == older:
                # Asked before the functions that they may call are replaced.
                roles = connection.execute(_CHARGERS_QUERY.encode()).fetchall()
                for statement in _newer_definitions():
                    connection.execute(rendered(statement, PREFIX, "_@").encode())
                for (role,) in roles:
                    self._grant_charging(connection, role)

    def _grant_charging(self, connection: Connection, role: str) -> None:
        # No right to write into a table: the functions do that with the rights of the owner.
        grants = ["USAGE ON SCHEMA sordino", "SELECT ON ALL TABLES IN SCHEMA sordino"]
        grants += [
            f"EXECUTE ON FUNCTION {PREFIX}{operation.name}"
            for operation in OPERATIONS
            if operation.charging
        ]
        name = quoting.Identifier(role)
        for grant in grants:
            connection.execute(quoting.SQL("GRANT {} TO {}").format(_trust_own_sql(grant), name))

    def _explained(self, error: psycopg.Error, *, lost: bool) -> LedgerError:
        """Return one clear sentence for a failure of the server.

        Nothing of the server's own text is repeated: it may hold a password.
        """
        where, state = f"The ledger at {self.url!r}", error.sqlstate or ""
        for start, says in _REASON_BY_SQLSTATE.items():
            if state.startswith(start):
                kind = (
                    LedgerConflict
                    if start == "23"
                    else TryAgainError
                    if start in _TEMPORARY_SQLSTATES
                    else LedgerError
                )
                return kind(f"{where} {says}")
        if lost or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return TryAgainError(
                f"{where} cannot be reached; check the address, the user and whether the server "
                "runs."
            )
        return LedgerError(
            f"{where} could not be used: PostgreSQL reports {state or type(error).__name__}."
        )


_REASON_BY_SQLSTATE = {
    "23": "refused a change because it would break one of its own rules.",
    "25006": "is read-only, and charges must be written to it.",
    "28": "may not be opened by this user.",
    "3D000": "is in a database that does not exist.",
    "40": "was changed by others at the same time; try again.",
    "22P02": "refused a change because what it should record is not what a ledger records.",
    "42704": "is on a server that has no such role.",
    "42883": "was brought to the schema of another version of sordino while this program used it; "
    "use that version.",
    "57014": "took longer than its server allows.",
    "42501": "does not allow this role to do that; its owner can, "
    "or can let it charge (`sordino ledger permit`).",
    "53100": "could not be written because the disk is full.",
    "53300": "has no connection left for another client; try again.",
    "55P03": f"was locked by another process for longer than {_LOCK_SECONDS} seconds; try again.",
    "57P": "cannot be reached because its server is stopping; try again.",
}
_TEMPORARY_SQLSTATES = frozenset({"40", "53300", "57P"})


def _read_schema(connection: Connection) -> int | None:
    """Return the number of the schema; None for a table without one."""
    version: int | None
    (version,) = connection.execute("SELECT max(version) FROM sordino.ledger").fetchone() or (None,)
    return version


def _trust_own_sql(trusted: str) -> quoting.SQL:
    """Return SQL of this package; nothing that a caller gave comes this way."""
    return quoting.SQL(trusted)


def _schema_definitions() -> list[str]:
    """Return the statements that make the schema."""
    definitions = (
        "CREATE SCHEMA sordino",
        "CREATE TABLE ~ledger (version BIGINT NOT NULL)",
        f"INSERT INTO ~ledger (version) VALUES ({VERSION})",
        *TABLES,
        *PART_INDEXES,
        *_CHAIN_AND_TRIGGERS,
        *(_function_definition(operation) for operation in OPERATIONS),
        # PostgreSQL lets everybody call a new function.
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sordino FROM PUBLIC",
    )
    return [rendered(definition, PREFIX, "_@") for definition in definitions]


def _newer_definitions() -> list[str]:
    """Return the statements that bring older schemas to the present one."""
    return [
        *(
            f"ALTER TABLE ~{table} ADD COLUMN IF NOT EXISTS {column}"
            for table, columns in (
                ("account", (READING_COLUMN, *PART_COLUMNS)),
                ("charge", CHARGE_COLUMNS),
            )
            for column in columns
        ),
        _DROP_OLDER_RULE,
        f"ALTER TABLE ~account ADD {WITHIN}",
        *(table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS") for table in PART_TABLES),
        *(index.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS") for index in PART_INDEXES),
        # Their parameters are others, so that they would be second functions of the same names.
        *(f"DROP FUNCTION IF EXISTS ~{operation.name}" for operation in OPERATIONS),
        *(_function_definition(operation) for operation in OPERATIONS),
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sordino FROM PUBLIC",
        f"UPDATE ~ledger SET version = {VERSION}",
    ]


# The server has named it.
_DROP_OLDER_RULE = (
    "DO $sordino$ DECLARE found text; BEGIN FOR found IN SELECT conname"
    " FROM pg_catalog.pg_constraint WHERE conrelid = CAST('sordino.account' AS regclass)"
    " AND contype = 'c' AND pg_catalog.pg_get_constraintdef(oid) LIKE '%spent <= allowance%'"
    " LOOP EXECUTE format('ALTER TABLE sordino.account DROP CONSTRAINT %I', found);"
    " END LOOP; END $sordino$"
)


def _function_definition(operation: Operation) -> str:
    parameters = ", ".join(f":{name} {kind}" for name, kind in operation.parameters.items())
    # The first statement decides: if it changes no row, nothing else happens.
    first, *rest = operation.statements
    checked = " ".join(
        check for name, check in _PARAMETER_CHECKS.items() if name in operation.parameters
    )
    # Each statement of a function sees what was committed before it began: the decision sees what
    # those have done for whom the lock has waited.
    lock = (
        f"PERFORM 1 FROM ~account WHERE name = {operation.locked} FOR NO KEY UPDATE;"
        if operation.locked
        else ""
    )
    # Planned once for a connection: what decides by parts is long, and its keys lead to indexes.
    planned = " SET plan_cache_mode = force_generic_plan" if operation.locked else ""
    return (
        f"CREATE FUNCTION ~{operation.name}({parameters}) RETURNS boolean LANGUAGE plpgsql "
        f"SECURITY DEFINER{planned}"
        " SET search_path = pg_catalog, pg_temp AS $sordino$ BEGIN"
        f" {_REQUIRE_DURABLE_COMMIT} {checked} {lock} {first};"
        " IF NOT FOUND THEN RETURN false; END IF;"
        f" {'; '.join(rest)}; RETURN true; END $sordino$"
    )
