"""SOURCE as the name of a declared table: its declaration says what nobody typed."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from sordino.cli.once import Command
from sordino.cli.options import DECLARED, Values
from sordino.constraints import TABLE_NAME
from sordino.errors import InvalidParameter
from sordino.unit_columns import join_unit_columns

# Only for type checkers: most releases are of a path.
if TYPE_CHECKING:
    from sordino.study.declaration import DeclaredTable

_LABELS = ("domain", "domain_range", "domain_sql", "assume_public", "unlisted")
"""Options that say which labels may be released."""
_ALL_ROWS = ("per_person", "weight_cap", "rank_by", "row_is_unit")
"""Options with which no bound on rows goes."""
_NOBODY_PAYS = ("no_ledger", "seed")


class DeclaredCommand(Command):
    """A command whose SOURCE may be the name of a declared table."""

    def prepare(self, ctx: click.Context, typed: Values) -> None:
        """Let the declaration say what was not typed."""
        use_declaration(self, ctx, typed)


def use_declaration(command: click.Command, ctx: click.Context, typed: Values) -> None:
    """Find the declared table that SOURCE names, and let it say what was not typed.

    What was typed wins, option by option.

    Raises
    ------
    InvalidParameter
        If there is no such table, a file has its name, or anything in the declaration is wrong.
    """
    names = {one.name: one for one in command.params}
    # That an argument is missing is said by click.
    if "declared" not in names or typed.get("source") is None:
        return
    table = _find_declared(typed["source"], typed.get("declared"), typed.get("date"))
    if table is None:
        if typed.get("date") is not None:
            # Imported here: most releases are of a path, and no date goes with it.
            from sordino.study.declaration import show_place

            raise InvalidParameter(
                "--date is for a table that is declared with {date} in its path; got a path, "
                f"{show_place(typed['source'])}. Leave it out."
            )
        return
    ctx.meta[DECLARED] = table
    said = {name: value for name, value in _list_options(table, typed).items() if name in names}
    # A command that knows one adjacency alone has that; its account says whether it is the one.
    if "adjacency" in said:
        choice = cast("click.Choice[str]", names["adjacency"].type)
        if said["adjacency"] not in choice.choices:
            del said["adjacency"]
    # Click takes from here what stands neither on the command line nor in the environment.
    # A table of cells has a bound of its own.
    if "max_cells" in names:
        said.pop("max_rows", None)
    ctx.default_map = {**(ctx.default_map or {}), **said}


def _find_declared(source: str, file: str | None, day: str | None) -> DeclaredTable | None:
    # Most sources are paths with an ending, which is the name of no table.
    if file is None and TABLE_NAME.convert(source) is None:
        return None
    # Imported here, and so for type checkers alone above.
    from sordino.study.declaration import find_declaration, find_table, open_declaration
    from sordino.study.opening import say_ambiguous

    path = find_declaration() if file is None else file
    if path is None:
        if Path(source).exists():
            return None
        raise InvalidParameter(
            f"SOURCE must be a file that is there, or a table that is declared; {source!r} is no "
            "file, and there is no sordino.toml here or above. Make one: sordino declare FILE."
        )
    document = open_declaration(path)
    if file is None and Path(source).exists():
        if source not in document.take_table("table"):
            return None
        raise InvalidParameter(say_ambiguous(source, path, f"--declaration {path}"))
    return find_table(document, source, day, option="--date")


def _list_options(table: DeclaredTable, typed: Values) -> Values:
    """Return what a declaration says, by the names of options, and as these are typed."""
    said: Values = {}
    unit = table.unit
    if unit.column is None:
        said |= {} if "user" in typed else {"row_is_unit": True}
    else:
        said |= {} if "row_is_unit" in typed else {"user": join_unit_columns(unit.columns)}
    if unit.max_rows is not None and not set(_ALL_ROWS) & set(typed):
        said["max_rows"] = unit.max_rows
    if "adjacency" in table.said:
        said["adjacency"] = unit.adjacency
    if not set(_NOBODY_PAYS) & set(typed):
        said |= {"ledger_url": table.ledger, "account": table.account}
    columns = cast("tuple[str, ...]", typed.get("item") or typed.get("by") or ())
    # Of several columns the session knows what is declared.
    listed = table.labels.get(columns[0]) if len(columns) == 1 else None
    if listed is not None and not set(_LABELS) & set(typed):
        said |= {
            "domain": [listed.file],
            "domain_column": listed.column,
            "domain_no_header": not listed.header,
        }
    return said | _list_form(table)


def _list_form(table: DeclaredTable) -> Values:
    """Return how a table is written, as options are typed."""
    _, form, memory, temp = table.source
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(form.columns)
    form_said = {
        **vars(form),
        "quote": form.quote or "none",
        "no_header": not form.header,
        "columns": line.getvalue(),
        "null": (form.null,) if isinstance(form.null, str) else form.null,
        "types": tuple(f"{column}={kind}" for column, kind in form.types.items()),
        "memory_limit": None if memory is None else str(memory),
        "temp_limit": None if temp is None else str(temp),
    }
    keys = {"no_header": "header"}
    return {name: v for name, v in form_said.items() if keys.get(name, name) in table.said}
