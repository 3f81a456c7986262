"""What is public of a whole release: of a command its exit code, messages and the shape of its output, of a session its errors.

A release is described by a dict: `how` ("command" or "session"), the `name` of the release, and options; what it is about is the question.
"""

from __future__ import annotations

import csv as csv_files
import io
import json
import math
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.beside import leave, random_beside, write_options
from fuzz.predicates import render
from fuzz.questions import Outcome, Question, make_domain
from fuzz.replies import compare_replies
from sordino import Seeded, Session
from sordino.cli import run, work
from sordino.errors import DataSourceError, SordinoError
from sordino.estimators.column_release import FEW, LOW_SHARE
from sordino.questions import PrivacyUnit

NAMES = {
    "rows": ("count",),
    "units": ("count",),
    "items": ("histogram", "top", "above"),
    "buckets": ("quantile",),
    "totals": ("sum", "mean", "variance"),
}
"""Which releases are about a kind of question."""


def random_release(
    rng: Any, question: Question, source: dict[str, Any], aim: str | None = None
) -> dict[str, Any]:
    """Return a random release about a question; `aim` says what it is made for."""
    named = source["kind"] in {"parquet", "duckdb", "postgres"} or (
        source["kind"] == "csv" and source["header"]
    )
    named = named and source.get("quote", '"') == '"' and "indexed" not in (question.domain or {})
    release: dict[str, Any] = {"how": rng.choice(("command", "session")) if named else "session"}
    if named and aim is not None:
        release["how"] = "command"
    release |= {"name": rng.choice(NAMES[question.kind]), "epsilon": rng.choice(("0.1", "1", "8"))}
    if release["how"] == "command":
        release |= {
            "format": rng.choice(("json", "csv", "table")),
            "ledger": aim == "ledger" or rng.random() < 0.2,
        }
        release |= {"replies": aim == "replies"}
    if release["name"] in {"count", "histogram", "sum", "mean"} and rng.random() < 0.3:
        release["bounds"] = ["0", rng.choice(("5000", "1e9", "1e9", "1e-170", "1e170", "1e300"))]
    if question.numeric and "bounds" in release:
        release["cap"] = release["bounds"][1]
    elif question.numeric and rng.random() < 0.3:
        release["cap"] = rng.choice(("1e-30", "1e-300", "1e30", "1e150", "1e200", "1e300"))
    if release["how"] == "command" and question.item is not None and aim == "beside":
        release["beside"] = random_beside(rng)
    if release["name"] in {"top", "above"} and rng.random() < 0.5:
        release["threshold"] = rng.choice(("0", "2", "100"))
    # Of a histogram cells that reach a threshold are named, and no others; drawn last, so that all else stays as it was.
    if release["name"] == "histogram" and "bounds" not in release and rng.random() < 0.3:
        release["threshold"] = rng.choice(("1", "2", "100"))
    return release


def released(
    written: Any, question: Question, release: dict[str, Any], folder: Path, hidden: str
) -> Outcome:
    """Do a release, and return what of it a reader may see."""
    try:
        seen = (_command if release["how"] == "command" else _session)(
            written, question, release, folder
        )
    except Exception as error:  # noqa: BLE001 - whatever is raised that is not ours is a finding
        return Outcome(broken=f"{type(error).__name__}: {error}")
    seen = seen.replace(str(folder), "HERE").replace(hidden, "HERE")
    # Whatever is public is looked at before the charge, so nothing may end a release after it.
    return Outcome(failed=seen) if DataSourceError.AFTER_CHARGE in seen else Outcome(public=seen)


# ---- the command --------------------------------------------------------------------------------------------------------


def _command(written: Any, question: Question, release: dict[str, Any], folder: Path) -> str:
    options = _options(question, release, folder, str(written.target))
    arguments = [release["name"], str(written.target), *options]
    form = []
    if written.csv is not None:
        form = ["--delimiter", written.csv.delimiter, "--encoding", written.csv.encoding]
        arguments += [
            "--null",
            written.csv.null,
            "--decimal",
            written.csv.decimal,
            "--thousands",
            written.csv.thousands,
            "--date-format",
            written.csv.date_format,
            *(f"--type={name}={kind}" for name, kind in written.csv.types.items()),
            *form,
        ]
    if release.get("replies"):
        alone = [*arguments, "--synthetic", "--seed", "7"]
        compare_replies(alone, _list_facts(question, release), folder, run_alone)
    recorded = ""
    account = ["--ledger", str(folder / "budget.db"), "--account", "fuzz"]
    if release["ledger"]:
        unit = ["--row-is-unit"] if question.unit is None else ["--unit", question.unit]
        made = [
            "ledger",
            "create",
            *account,
            "--epsilon",
            "100",
            "--adjacency",
            question.adjacency,
            *unit,
            *form,
        ]
        recorded += _said(run_alone([*made, "--source", str(written.target)]))
        arguments += account
    else:
        arguments += ["--synthetic", "--seed", "7"]
    code, out, err = run_alone([*arguments, "--format", release["format"]])
    if release["name"] in _SEARCHES:
        err = without_odds(err, out, release["format"], asked=float(release["epsilon"]))
    seen = _said((code, out, err), release["format"])
    if release["ledger"] and code == 0:
        _refuse_again(arguments, written, question)
    if release["ledger"]:
        recorded += _said(run_alone(["ledger", "show", *account, "--format", "json"]), "ledger")
    return f"{seen} {recorded}".strip()


class Admitted(Exception):
    """What should have been refused was charged."""


def _refuse_again(arguments: list[str], written: Any, question: Question) -> None:
    """Say something twice, and read the column of the unit otherwise: both are refused before the charge."""
    twice = [*arguments, "--epsilon", "2"]
    if run_alone(twice)[0] != 2:
        raise Admitted("an option that is given twice")
    kinds = (
        {"integer", "text"} - {written.csv.types.get(question.unit, "text")}
        if written.csv
        else set()
    )
    if question.unit is None or not kinds:
        return
    other = [one for one in arguments if not one.startswith(f"--type={question.unit}=")]
    code, _, _ = run_alone([*other, f"--type={question.unit}={min(kinds)}"])
    # Not every question can be asked of texts, or of whole numbers: then it is refused for that.
    if code not in {2, 5}:
        raise Admitted(
            f"units read as {written.csv.types.get(question.unit)} and as {min(kinds)}: {code}"
        )


def _list_facts(question: Question, release: dict[str, Any]) -> dict[str, Any]:
    """Return of whom a release is, as it was asked for."""
    number = question.kind == "units"
    return {
        "unit": "each row" if question.unit is None else f"column {question.unit}",
        "adjacency": question.adjacency,
        "max_rows": None if question.unit is None or number else question.max_rows,
        "where": None if question.where is None else render(question.where),
        "by": question.by,
        "groups_per_unit": None
        if question.by is None
        else 1
        if question.unit is None
        else question.groups_per_unit,
        "item": question.by or question.item,
        "column": question.column if question.numeric else None,
    }


def _options(question: Question, release: dict[str, Any], folder: Path, target: str) -> list[str]:
    options = [
        "--epsilon",
        release["epsilon"],
        "--adjacency",
        question.adjacency,
        "--no-quiet",
    ]
    options += ["--row-is-unit"] if question.unit is None else ["--user", question.unit]
    if question.unit is not None and question.max_rows is not None:
        options += ["--max-rows", str(question.max_rows)]
    if question.where is not None:
        options += ["--where", render(question.where)]
    if "bounds" in release:
        options += ["--bounded", *release["bounds"]]
    if question.kind == "units":
        options += ["--units"]
    if question.numeric:
        options += ["--column", str(question.column), "--cap", release.get("cap", "1000")]
        options += ["--q", "0.5"] if release["name"] == "quantile" else ["--lower", "0"]
    if question.by is not None:
        options += ["--by", question.by]
        options += (
            ["--groups-per-unit", str(question.groups_per_unit)] if question.groups_per_unit else []
        )
    if question.item is not None:
        options += ["--item", question.item]
    options += {
        "top": ["-k", "1"],
        "above": ["-c", "1", "--threshold", release.get("threshold", "0")],
    }.get(release["name"], [])
    if release["name"] in {"top", "histogram"} and "threshold" in release:
        options += ["--threshold", release["threshold"]]
    left = leave(release["beside"], target, folder) if "beside" in release else None
    return [
        *options,
        *(
            _domain(question.domain, folder)
            if left is None
            else write_options(release["beside"], left)
        ),
    ]


def _domain(domain: dict[str, Any] | None, folder: Path) -> list[str]:
    if domain is None:
        return []
    if "range" in domain:
        return ["--domain-range", f"{domain['range'][0]}:{domain['range'][1]}"]
    if "unlisted" in domain:
        return ["--unlisted", "--delta", "0.001"]
    if "public" in domain:
        return ["--assume-public"]
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv_files.writer(file).writerows([["label"], *([label] for label in domain["list"])])
    return ["--domain", str(folder / "labels.csv")]


def run_alone(arguments: list[str]) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    # No progress bar: it appears after a second, which a busy machine may need.
    with redirect_stdout(out), redirect_stderr(err), patch.object(work, "PATIENCE", math.inf):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()


def _said(outcome: tuple[int, str, str], form: str = "") -> str:
    """Return what is public about the outcome of a command: everything but numbers and which labels were chosen."""
    code, out, err = outcome
    shape: Any = bool(out)
    if form in {"json", "ledger"} and out:
        shape = _shape(json.loads(out), keep=form == "ledger")
    elif out:
        shape = out.splitlines()[0].split()
    return f"exit {code}, stderr {err!r}, stdout {shape}"


_PASSING = frozenset({"id", "time", "charge", "digest", "head", "created", "settled"})
"""What differs between two ledgers anyway: when, and random keys with the hashes over them."""

_RETURNED = frozenset(
    {
        *("drawn", "spent", "remaining", "exact", "amount", "more_like_the_last"),
        *("share", "spent_share", "examples"),
    }
)
"""What the outcome of a search decides, and its release tells as well."""


_SEARCHES = frozenset({"top", "above"})
_SEARCHED = frozenset({"rows", "cost"})
"""What a search finds, and what that cost: its release."""

_ODDS = re.compile(r"At epsilon (\S+), someone who thought .*")
_SPENT = re.compile(r'(?:Spent: epsilon |"epsilon": )([0-9.e-]*[0-9])')


def without_odds(err: str, out: str, form: str, *, asked: float) -> str:
    """Leave the sentence about odds out, if it is about the epsilon that the release says it spent.

    What a search spent is a part of its release, so that the sentence tells nothing more. CSV does not say it: there it is at most what
    was asked for.
    """
    told = _ODDS.search(err)
    if told is None:
        return err
    said, spent = float(told[1]), _SPENT.search(out)
    if form == "csv":
        return _ODDS.sub("", err) if said <= asked else err
    # Four digits of it are shown, rounded up.
    follows = spent and float(spent[1]) * (1 - 1e-9) <= said <= float(spent[1]) * (1 + 1.001e-3)
    return _ODDS.sub("", err) if follows else err


def _warns_of_its_share(release: dict[str, Any]) -> bool:
    """Tell whether a release warns of a low share of numbers that it tells itself, and of nothing else."""
    low, high = (release.get(f"numbers_share_{end}", 1) for end in ("low", "high"))
    warns = {"figure may be about few of the": low < FEW, "held no number": high < LOW_SHARE}
    return any(true and said in release.get("warning", "") for said, true in warns.items())


def _shape(value: Any, *, keep: bool) -> Any:
    """Return the keys of a release; of a ledger also what it keeps."""
    if isinstance(value, dict):
        left_out = (
            _PASSING | _RETURNED
            if keep
            else _SEARCHED
            if value.get("release") in _SEARCHES
            else frozenset()
        )
        if _warns_of_its_share(value):
            left_out |= {"warning"}
        return {name: _shape(one, keep=keep) for name, one in value.items() if name not in left_out}
    if isinstance(value, list):
        shapes = [_shape(one, keep=keep) for one in value]
        return shapes if keep else sorted({str(one) for one in shapes})
    return value if keep else "value"


# ---- sessions -----------------------------------------------------------------------------------------------------------


def _session(written: Any, question: Question, release: dict[str, Any], folder: Path) -> str:
    unit = PrivacyUnit(question.unit, adjacency=question.adjacency, max_rows=question.max_rows)
    try:
        with Session(written.target, unit=unit, csv=written.csv, entropy=Seeded(7)) as session:
            _call(session, question, release)
    except SordinoError as error:
        return f"{type(error).__name__}: {error}"
    return "released"


def _call(session: Session, question: Question, release: dict[str, Any]) -> None:
    name, shared = release["name"], {"epsilon": _number(release["epsilon"])}
    shared["where"] = None if question.where is None else render(question.where)
    domain = make_domain(question.domain)
    if "bounds" in release:
        shared["bounds"] = tuple(map(_number, release["bounds"]))
    if name == "count":
        (session.count_distinct_units if question.kind == "units" else session.count)(**shared)
    elif name == "histogram":
        limit = int(release["threshold"]) if "threshold" in release else None
        session.histogram(question.item or "", domain=domain, threshold=limit, **shared)
    elif name == "top":
        limit = _number(release["threshold"]) if "threshold" in release else None
        session.top_k(question.item or "", k=1, domain=domain, threshold=limit, **shared)
    elif name == "above":
        session.above(
            question.item or "",
            threshold=_number(release.get("threshold", "0")),
            positives=1,
            domain=domain,
            **shared,
        )
    else:
        numbers = shared | {
            "cap": _number(release.get("cap", "1000")),
            "by": question.by,
            "groups_per_unit": question.groups_per_unit,
            "domain": domain,
        }
        if name == "quantile":
            session.quantile(question.column or "", q=0.5, lower=0, **numbers)
        else:
            getattr(session, name)(question.column or "", lower=0, **numbers)


def _number(text: str) -> Any:
    return float(text)
