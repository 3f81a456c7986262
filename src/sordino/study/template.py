"""Writes a study as text: of what was answered, or with lines that somebody has to complete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, final

from sordino.record_text import encode_json
from sordino.sources import CsvFormat
from sordino.study.kinds import find_kind, list_kinds, list_known, list_required

TO_COMPLETE = "Complete this."
"""What stands in front of each line that somebody has to fill in."""


@final
@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is known of a study that is to be written; None and nothing where it must be completed.

    Attributes
    ----------
    name, source : str
        Of the study; its table, named from the folder of the study.
    columns : mapping of str to str
        Names and declared types.
    form : CsvFormat
        How texts are written.
    secret : bool
        Whether a user and a password were left out of the address of the source.
    unit : mapping of str to object or None
        The keys of [unit].
    ledger, account : str or None
        Who pays.
    epsilon : Fraction or None
        What one run may spend.
    releases : sequence of mapping
        Each with kind, name and parameters, and some with a goal; the others share the budget
        evenly.
    table, declaration : str or None
        The name of a declared table, which says source, unit and account; and the file that
        declares it, where it is not found by itself.
    """

    name: str
    source: str
    columns: Mapping[str, str]
    form: CsvFormat = field(default_factory=CsvFormat)
    secret: bool = False
    unit: Mapping[str, Any] | None = None
    ledger: str | None = None
    account: str | None = None
    epsilon: Fraction | None = None
    releases: Sequence[Mapping[str, Any]] = ()
    table: str | None = None
    declaration: str | None = None


def write_study(draft: Draft) -> str:
    """Return the text of a study; what is not known has a line to complete."""
    parts = [
        _write_head(draft),
        *([] if draft.table else [_write_source(draft), _write_unit(draft), _write_account(draft)]),
        _write_budget(draft),
        *(_write_release(one, len(draft.releases)) for one in draft.releases),
    ]
    if not draft.releases:
        parts.append(_write_examples())
    return "\n".join("\n".join(part) + "\n" for part in parts)


def write_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{write_key(key)} = {write_value(one)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if isinstance(value, Fraction):
        return f"{float(value):.12g}"
    if isinstance(value, int | float):
        return repr(value)
    # The same escapes as in JSON; letters of all alphabets stay as they are.
    return encode_json(str(value))


def write_key(key: str) -> str:
    """Return a key as TOML writes it."""
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else write_value(key)


def _write_head(draft: Draft) -> list[str]:
    listed = ", ".join(f"{name} ({kind})" for name, kind in draft.columns.items())
    return [
        "# A study: releases about one table that are charged together, and written into a folder.",
        "# See what it costs:  sordino run THIS-FILE --dry-run",
        # A name with a line in it would end the comment.
        f"# Columns of the table: {listed if listed.isprintable() else len(draft.columns)}",
        f"name = {write_value(draft.name)}",
        *(
            f"{key} = {write_value(value)}"
            for key, value in (("table", draft.table), ("declaration", draft.declaration))
            if value is not None
        ),
        '# title = "For readers of the report"',
        '# docs = "https://..."  where the documentation of sordino is published: links to '
        "its proofs",
    ]


def _write_source(draft: Draft) -> list[str]:
    lines = ["[source]", f"path = {write_value(draft.source)}"]
    if draft.secret:
        lines.insert(
            1, "# Who asks was left out: //USER:${PASSWORD}@HOST takes it from the environment."
        )
    lines += [
        f"{name} = {write_value(dict(value) if name == 'types' else value)}"
        for name, value in list_own_form(draft.form).items()
    ]
    if not draft.form.types:
        lines.append(
            "# Columns of texts that hold something else: integer, decimal(p,s), double, date and "
            "others."
        )
        lines.append('# types = {price = "decimal(9,2)"}')
    return lines


def list_own_form(form: CsvFormat) -> dict[str, Any]:
    """Return how texts are written, where that is not as usual."""
    said = {one.name: getattr(form, one.name) for one in fields(CsvFormat)}
    plain = CsvFormat()
    return {name: value for name, value in said.items() if value != getattr(plain, name)}


def name_after(source: str) -> str:
    """Return a name for what is about a source, made of that of its table."""
    last = source.rpartition("#")[2] if "#" in source else Path(source).name.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-_")[:40]


def _write_unit(draft: Draft) -> list[str]:
    lines = [
        "[unit]",
        "# Whom the guarantee protects: all rows with one value of a column, or each row.",
    ]
    if draft.unit is None:
        return [*lines, f"# {TO_COMPLETE}", 'column = ""', "# row = true", *_ROWS_OF_UNIT]
    return [*lines, *(f"{key} = {write_value(value)}" for key, value in draft.unit.items())]


_ROWS_OF_UNIT = (
    "# At most so many rows of a person count; a count of rows needs it.",
    "# max_rows = 1",
)


def _write_account(draft: Draft) -> list[str]:
    if draft.ledger is None or draft.account is None:
        return [
            "[account]",
            "# Who pays. Make it once, with a budget for its whole life:",
            "#   sordino ledger create --ledger FILE --account NAME --epsilon E --unit COL "
            "--source TABLE",
            'ledger = "budget.db"',
            f"# {TO_COMPLETE}",
            'name = ""',
        ]
    return [
        "[account]",
        f"ledger = {write_value(draft.ledger)}",
        f"name = {write_value(draft.account)}",
    ]


def _write_budget(draft: Draft) -> list[str]:
    lines = [
        "[budget]",
        "# What all releases of one run may spend together, each time that it runs.",
    ]
    if draft.epsilon is None:
        return [*lines, f"# {TO_COMPLETE}", "epsilon = 0"]
    return [*lines, f"epsilon = {write_value(draft.epsilon)}"]


def _write_release(said: Mapping[str, Any], count: int) -> list[str]:
    # Rounded down to a thousandth, so that all shares together fit.
    share = max(1, 1000 // count) / 1000
    # What a goal takes is looked for: the part that it would have had is left for it.
    amount = [] if "goal" in said else [f"share = {write_value(share)}"]
    return [
        "[[release]]",
        *(f"{write_key(key)} = {write_value(value)}" for key, value in said.items()),
        *amount,
    ]


def _write_examples() -> list[str]:
    """Return one commented release of each kind, with the parameters that must be given."""
    lines = [
        "# Releases: take the marks off those that are wanted, and complete them. Shares of the "
        "budget",
        "# add up to 1 at most; `sordino COMMAND --help` says what each parameter means. In place "
        "of a share",
        '# goal = "±20", "5%" or "right with 90%" takes the smallest epsilon that reaches '
        "it, within what",
        '# the others leave; like = "zipf:1.1" and rows = 10000 say what is assumed of the '
        "data for that.",
    ]
    for name in list_kinds():
        kind = find_kind(name)
        lines += ["", "# [[release]]", f'# kind = "{name}"', f'# name = "{name}"']
        # These may be left out, and whoever knows them had better say them.
        ends = [one for one in ("cap", "lower") if one in list_known(kind)]
        shown = [one for one in list_required(kind) if one != "epsilon"]
        lines += [f"# {one} = {_EXAMPLES[one]}" for one in dict.fromkeys([*shown, *ends])]
        lines.append("# share = 0.1")
    return lines


_EXAMPLES = {
    "item": '"COLUMN"',
    "column": '"COLUMN"',
    "k": "10",
    "domain": '{file = "labels.csv"}',
    "threshold": "100",
    "positives": "10",
    "bins": "[0, 10, 100]",
    "q": "[0.25, 0.5, 0.75]",
    "cap": "1e6",
    "lower": "0",
}
