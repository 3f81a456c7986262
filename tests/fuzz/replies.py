"""The same release in every form that a person reads: all of them must tell of whom it is."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sordino.record import escape_controls

Run = Callable[[list[str]], tuple[int, str, str]]

FACTS = ("unit", "adjacency", "max_rows", "where", "by", "groups_per_unit", "item", "column")
"""What says of whom a figure is; who reads a form without one of them takes it for another figure."""


class Disagreement(Exception):
    """Two forms of one release tell different facts."""


def compare_replies(arguments: list[str], asked: dict[str, Any], folder: Path, run: Run) -> None:
    """Make a release in every form, with the same noise, and compare what the forms tell.

    Parameters
    ----------
    arguments : list of str
        Those of the command, without a format.
    asked : dict
        What was asked for, of `FACTS`.

    Raises
    ------
    Disagreement
        If a form does not tell what was asked for.
    """
    code, out, _ = run([*arguments, "--format", "json"])
    if code:
        return  # refused: that is looked at elsewhere
    told = json.loads(out)
    _require("JSON", {name: told.get(name) for name in asked}, asked)
    if told["rows"]:
        code, lines, _ = run([*arguments, "--format", "csv"])
        for line in csv.DictReader(io.StringIO(lines)) if code == 0 else ():
            # There "item" is the label of the row.
            said = {
                name: None if value is None else _in_csv(value)
                for name, value in asked.items()
                if name != "item"
            }
            _require("CSV", {name: line.get(name) or None for name in said}, said)
    _, table, _ = run([*arguments, "--format", "table"])
    page = _make_page(out, folder, run)
    for form, text in (("table", table), ("page", page)):
        for words in _list_words(asked):
            if _squeeze(words) not in _squeeze(text):
                raise Disagreement(f"the {form} does not say {words!r}")


def _require(form: str, told: dict[str, Any], asked: dict[str, Any]) -> None:
    if told != asked:
        raise Disagreement(f"{form} tells {told} of {asked}")


def _in_csv(value: Any) -> str:
    text = escape_controls(str(value))
    # What a spreadsheet would take for a formula has an apostrophe in front.
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _list_words(asked: dict[str, Any]) -> list[str]:
    """Return what a person has to find in a form that is read."""
    words = [] if asked["where"] is None else [escape_controls(asked["where"])]
    most = asked["max_rows"]
    return words + ([] if most is None else [f"at most {most}"])


def _make_page(document: str, folder: Path, run: Run) -> str:
    (folder / "release.json").write_text(document, encoding="utf-8")
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    code, _, said = run(["report", str(folder / "release.json"), "--output", str(page)])
    if code:
        raise Disagreement(f"there is no page: {said}")
    text = re.sub(
        r"<(style|script)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    return html.unescape(re.sub("<[^>]*>", "", text))


def _squeeze(text: str) -> str:
    # A form may break lines where there is a blank.
    return re.sub(r"\s+|(?<=[0-9]),(?=[0-9]{3})", "", text)
