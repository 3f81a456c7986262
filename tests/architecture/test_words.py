"""Whoever is protected is called a person in what people read: messages of the rooms that they meet say no "unit"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sordino"
ROOMS = ("cli", "session", "study", "questions", "sources", "report", "results", "ledger")
UNIT = re.compile(r"\bunits?\b", re.IGNORECASE)
# A parameter of this name, a key of a file, and the units in which something is measured.
MEANT = re.compile(
    r"\bunit (must|\S+ must) be|\[unit\]|unit\.identity|--units?\b|--groups-per-unit|--row-is-unit|unit=|Change the unit"
    r"|the unit of a ledger|growth and unit|[Tt]he unit of the (column|values)|\.unit\b"
)


def list_messages(path):
    """Return the texts of everything that is raised in a file, and of errors that are returned."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        made = node.exc if isinstance(node, ast.Raise) else getattr(node, "value", None)
        if not isinstance(node, ast.Raise | ast.Return) or not isinstance(made, ast.Call):
            continue
        if isinstance(node, ast.Return) and not re.search(
            r"(Parameter|Contribution|Exceeded|Conflict|Error)$", ast.unparse(made.func)
        ):
            continue
        texts = [one.value for one in ast.walk(made) if isinstance(one, ast.Constant)]
        yield made.lineno, "".join(text for text in texts if isinstance(text, str))


@pytest.mark.parametrize("room", ROOMS)
def test_no_message_calls_a_person_a_unit(room):
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        for line, text in list_messages(path)
        if UNIT.search(MEANT.sub("", text))
    ]
    assert not found, "\n".join(found)


def test_a_message_that_does_is_seen(tmp_path):
    (tmp_path / "a.py").write_text(
        'raise InvalidParameter(f"{name} must bound the rows of a unit.")\n'
        'raise InvalidParameter("Change the unit of the values.")\n'
    )
    texts = [text for _, text in list_messages(tmp_path / "a.py")]
    assert [bool(UNIT.search(MEANT.sub("", text))) for text in texts] == [True, False]
