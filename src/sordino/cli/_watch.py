"""Answers on standard input, each with its verdict at once: the loop of `sordino above -`.

What is written depends on labels and verdicts alone. Verdicts are flushed before more input is waited for.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any, cast

from sordino.cli._options import chosen_format, chosen_quiet
from sordino.cli._output import SIMULATED, csv_line, shown, visible, write_lines
from sordino.cli._say import say
from sordino.cli._work import entropy_of, payer_of, statement_of
from sordino.data import Answer, CsvFormat, answer_lines
from sordino.errors import InvalidParameter
from sordino.mechanisms import AdaptiveSparseVector, SparseVector
from sordino.releases import Verdict

Line = Callable[[Answer, Verdict], str]
LOWEST = (
    "By rule, all that stands behind the first delimiter of a line is its answer, and what is no decimal number (1,5 with a comma is none) "
    "counts as the lowest; how many do is private."
)
COLUMNS = ("label", "above", "gap", "branch", "charged", "adjacency", "simulated")


def watch(options: dict[str, Any], shape: dict[str, Any]) -> None:
    """Answer what comes on standard input until it ends or enough was found."""
    if sys.stdin is None:
        raise InvalidParameter("stdin must be open: it brings the answers.")
    mechanism = _mechanism(options, shape)
    form = CsvFormat(delimiter=options["delimiter"], encoding=options["encoding"])
    source = answer_lines(cast("io.BufferedReader", sys.stdin.buffer).read1, delimiter=form.delimiter, encoding=form.encoding)
    entropy = entropy_of(**{name: options[name] for name in ("seed", "synthetic", "ledger_url")})
    chosen = chosen_format(options["form"])
    if not chosen_quiet(options["quiet"]):
        say(LOWEST)
    header, line = _writer(chosen, options["adjacency"])
    public = ("threshold", "positives", "adaptive", "sensitivity", "monotone", "step")
    detail = {name: options[name] for name in public} | {"source": "stdin"}
    with payer_of(options, mechanism, "watch", detail) as payer, payer.open(mechanism, entropy=entropy) as stream:
        write_lines(header)
        for answers in source:
            verdicts: list[str] = []
            for answer in answers:
                if stream.closed:
                    break
                verdicts.append(line(answer, stream.ask(answer.value)))
            write_lines(["\n".join(verdicts)] if verdicts else [])
            if stream.closed:
                break
    if chosen == "table":
        spent, adjacency = float(stream.spent.pure()), options["adjacency"]
        asked = f"Asked: {stream.asked}. Spent: epsilon {spent:.12g} of {float(mechanism.cost.pure()):.12g}. {adjacency}."
        write_lines([asked, *([SIMULATED] if entropy.simulated else [])])


def _mechanism(options: dict[str, Any], shape: dict[str, Any]) -> SparseVector | AdaptiveSparseVector:
    common: dict[str, Any] = {
        "threshold": options["threshold"],
        "epsilon": options["epsilon"],
        "sensitivity": statement_of(options),
    }
    if options["adaptive"]:
        return AdaptiveSparseVector(at_least=options["positives"], **common, **shape)
    return SparseVector(positives=options["positives"], **common, **shape)


def _writer(form: str, adjacency: str) -> tuple[list[str], Line]:
    """Return the lines that come first, and what writes one verdict: facts that nobody may lose stand on each line."""
    if form == "table":
        return [f"{'above':>5} {'gap':>14}  label"], _table
    if form == "csv":
        return [csv_line(COLUMNS)], lambda answer, verdict: csv_line(_row(answer, verdict, adjacency).values())
    encode = json.JSONEncoder(ensure_ascii=False).encode
    ends: dict[bool, str] = {}  # of an ordinary line, which differs from others in its label alone: most of them are

    def line(answer: Answer, verdict: Verdict) -> str:
        if verdict.above or verdict.charged:
            return encode(_row(answer, verdict, adjacency))
        if verdict.simulated not in ends:
            row = _row(answer, verdict, adjacency)
            del row["label"]
            ends[verdict.simulated] = encode(row).removeprefix("{")
        return f'{{"label": {encode(answer.label)}, {ends[verdict.simulated]}'

    return [], line


def _row(answer: Answer, verdict: Verdict, adjacency: str) -> dict[str, Any]:
    return {
        "label": answer.label,
        "above": verdict.above,
        "gap": verdict.gap,
        "branch": verdict.branch,
        "charged": float(verdict.charged),
        "adjacency": adjacency,
        "simulated": verdict.simulated,
    }


def _table(answer: Answer, verdict: Verdict) -> str:
    return f"{shown(verdict.above):>5} {shown(verdict.gap):>14}  {visible(answer.label)}"
