"""What stands in the folder of a run: all of it is made of sheets, so the ledger can make it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, final

from sordino._version import __version__
from sordino.charts import can_draw
from sordino.data import PrivacyUnit
from sordino.ledger import Ledger
from sordino.report import make_report
from sordino.session.sheets import make_sheet
from sordino.sheet import SCHEMA, Sheet
from sordino.sheet_text import encode_json, make_document, write_csv
from sordino.statements import Owner
from sordino.study.folder import RESULTS, RunFolder, encode

METRICS = "metrics.json"
REPORT = "report.html"


def make_study_sheet(
    release: Any, unit: PrivacyUnit, said: dict[str, Any], kind: str, about: dict[str, Any]
) -> Sheet:
    """Return the sheet of a release of a study: what the release says, and what was asked.

    Parameters
    ----------
    release : object
        What was released.
    unit : PrivacyUnit
        Whom it protects.
    said : dict
        What the study asks for, JSON-ready.
    kind : str
        Of the release.
    about : dict
        Name of the release, of the study and of the run, and the epsilon that was found for a goal
        (`reached`).
    """
    some = release.population
    release.take_population(replace(some, domain=_name_labels(some.domain, said.get("domain"))))
    sheet = make_sheet(release, unit)
    return replace(sheet, facts={**about, **sheet.facts, "release": kind, "asked": said, "kept": True})


def _name_labels(origin: str | None, said: Any) -> str | None:
    """Return where labels come from, with a file by the name that the study has for it.

    Where its folder lies is nobody's business but the owner's.
    """
    if origin is None or not isinstance(said, dict) or "file" not in said:
        return origin
    _, found, column = origin.rpartition(", column ")
    return f"file {said['file']}{found}{column if found else ''}"


def build_results(study: str, title: str | None, run: str, sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Return what `results.json` says."""
    return {
        "study": study,
        "title": title,
        "run": run,
        # One charge paid for all of them.
        "charge": sheets[0].facts["id"],
        "day": sheets[0].facts["time"],
        "releases": [make_document(sheet) for sheet in sheets],
        "version": __version__,
        "schema": SCHEMA,
    }


@final
@dataclass(frozen=True)
class Papers:
    """What the statement and the report of a run are made with.

    Attributes
    ----------
    ledger : Ledger
        It has kept all releases.
    owner : Owner
        Of the study.
    docs : str or None
        Where the documentation is published.
    """

    ledger: Ledger
    owner: Owner
    docs: str | None


def write_folder(
    folder: RunFolder, results: dict[str, Any], sheets: Sequence[Sheet], papers: Papers | None
) -> None:
    """Write all files of a run, and give the folder its name.

    Without `papers` there are the releases alone: the ledger has not kept them, and nothing may stand in
    their way.
    """
    folder.write(RESULTS, encode_json(results, indent=2) + "\n")
    for sheet in sheets:
        folder.write(f"{sheet.facts['name']}.csv", write_csv(sheet))
    if papers is not None:
        _write_papers(folder, results, papers)
    folder.finish()


def _write_papers(folder: RunFolder, results: dict[str, Any], papers: Papers) -> None:
    """Write what is said about the releases: the statement, the report, and a line for monitors."""
    # The public registry takes YAML, which needs a library.
    form: Literal["yaml", "json"] = "yaml" if find_spec("yaml") is not None else "json"
    statement = papers.ledger.publish(results["charge"], owner=papers.owner)
    folder.write(f"statement.{form}", statement.to_text(form))
    write_report(folder, results, papers, statement.to_dict())
    folder.write(METRICS, encode(make_metrics(results, papers.ledger)))


def make_metrics(results: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Return what a monitor may see of a run: no duration, because the time that rows take is private."""
    statement = ledger.statement(charges=False)
    line = ledger.charge(results["charge"])
    return {
        "study": results["study"],
        "run": results["run"],
        "day": results["day"],
        "account": ledger.account,
        "charge": line.id,
        "releases": len(results["releases"]),
        "measure": statement.measure,
        "reserved": float(line.reserved),
        "charged": float(line.charged),
        "remaining": float(statement.remaining),
        "reached": {one["name"]: one["reached"] for one in results["releases"] if "reached" in one},
    }


def write_report(
    folder: RunFolder, results: dict[str, Any], papers: Papers, statement: dict[str, Any]
) -> None:
    """Write the page for readers; without the extra `report` there is none, as was said before the charge."""
    if not can_draw():
        return
    page = make_report(
        results["releases"],
        account=papers.ledger.statement().to_dict(),
        title=results["title"] or results["study"],
        statement=statement,
        docs=papers.docs,
    )
    folder.write(REPORT, page)
