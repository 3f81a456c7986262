"""What stands in the folder of a run.

All of it is made of records, so the ledger can make it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from sordino._version import __version__
from sordino.charts import can_draw
from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.record import SCHEMA, Record
from sordino.record_text import encode_json, make_document, write_csv
from sordino.report import make_report
from sordino.report.page import cut_account
from sordino.results import describe
from sordino.statements import Owner
from sordino.statements.trees import choose_form, read_tree
from sordino.study.folder import RESULTS, RunFolder, encode, encode_text

METRICS = "metrics.json"
REPORT = "report.html"


def make_study_record(
    release: Any, said: dict[str, Any], kind: str, about: dict[str, Any]
) -> Record:
    """Return the record of a release of a study: what the release says, and what was asked.

    Parameters
    ----------
    release : object
        What was released.
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
    record = describe(release)
    return replace(
        record, facts={**about, **record.facts, "release": kind, "asked": said, "kept": True}
    )


def _name_labels(origin: str | None, said: Any) -> str | None:
    """Return where labels come from, with a file by the name that the study has for it.

    Where its folder lies is nobody's business but the owner's.
    """
    named = said.get("file") if isinstance(said, dict) else None
    # Labels that are declared have a file that the study does not name.
    declared = said is None and origin is not None and origin.startswith("file ")
    if origin is None or not (named or declared):
        return origin
    path, found, column = origin.rpartition(", column ")
    named = named or Path(path if found else origin.removeprefix("file ")).name
    return f"file {named}{found}{column if found else ''}"


def build_results(
    study: str, title: str | None, run: str, records: Sequence[Record]
) -> dict[str, Any]:
    """Return what `results.json` says."""
    return {
        "study": study,
        "title": title,
        "run": run,
        # One charge paid for all of them.
        "charge": records[0].facts["id"],
        "day": records[0].facts["time"],
        "releases": [make_document(record) for record in records],
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


def write_results(results: dict[str, Any]) -> str:
    """Return the text of `results.json`."""
    return encode_json(results, indent=2) + "\n"


def write_tables(records: Sequence[Record]) -> dict[str, str]:
    """Return the tables of a run, each with the name of its file."""
    return {f"{record.facts['name']}.csv": write_csv(record) for record in records}


def write_folder(
    folder: RunFolder, results: dict[str, Any], records: Sequence[Record], papers: Papers | None
) -> None:
    """Write all files of a run, and give the folder its name.

    Without `papers` there are the releases alone: the ledger has not kept them, and nothing may
    stand in their way.
    """
    for name, text in ({RESULTS: write_results(results)} | write_tables(records)).items():
        folder.write(name, text)
    if papers is not None:
        _write_papers(folder, results, papers)
    folder.finish()


def refuse_changed(
    folder: RunFolder, results: dict[str, Any], records: Sequence[Record], papers: Papers
) -> None:
    """Refuse a finished run's folder if a release or the statement is not as the ledger has it.

    Of the page, if there is one, all is compared but its pictures and what it tells of the account,
    which says what that was when it was written; so does the line for monitors.

    Raises
    ------
    InvalidParameter
        If a file was changed, or is no longer there.
    """
    there = folder.find_results()
    version, schema = there.get("version"), there.get("schema")
    wanted = {RESULTS: write_results({**results, "version": version, "schema": schema})}
    # Another version may write figures otherwise, and signs other pages; the results have what was
    # released.
    if version == __version__:
        wanted |= write_tables(records)
    changed = [name for name, text in wanted.items() if folder.read(name) != encode_text(text)]
    if version == __version__:
        # Which of the two there is depends on what was installed then.
        read = {name: folder.read(name) for name in ("statement.yaml", "statement.json")}
        said = {name: text for name, text in read.items() if text is not None}
        changed += [name for name, text in said.items() if not _holds(papers.ledger, text)] or (
            [] if said else ["statement.yaml"]
        )
        if not changed and _tells_otherwise(folder, results, papers, said):
            changed = [REPORT]
    if changed:
        raise InvalidParameter(
            f"The folder of a finished run must be as it was written; {', '.join(changed)} in "
            f"{shown(str(folder.path))} is not what the ledger has kept. Nothing was charged. Move "
            "the folder away and start the run again, which writes it anew and pays nothing."
        )


def _tells_otherwise(
    folder: RunFolder, results: dict[str, Any], papers: Papers, said: dict[str, bytes]
) -> bool:
    """Tell whether a page says something else than the releases and the statement of a run."""
    page = folder.read(REPORT)
    # Without the extra there was none, or none can be made to compare it with.
    if page is None or not can_draw():
        return False
    [(name, text), *_] = said.items()
    statement = read_tree(text.decode("utf-8"), name)
    made = _make_page(results, papers.ledger, statement=statement, docs=papers.docs)
    told = cut_account(page.decode("utf-8", "replace"))
    return told is None or told != cut_account(made)


def _make_page(results: dict[str, Any], ledger: Ledger, **more: Any) -> str:
    """Return the page of a run, with the account as it is now."""
    return make_report(
        results["releases"],
        account=ledger.statement().to_dict(),
        title=results["title"] or results["study"],
        **more,
    )


def _holds(ledger: Ledger, said: bytes) -> bool:
    """Tell whether the history of the account has this statement."""
    try:
        return ledger.check_statement(said.decode("utf-8")).sound
    except (InvalidParameter, UnicodeDecodeError):
        return False


def _write_papers(folder: RunFolder, results: dict[str, Any], papers: Papers) -> None:
    """Write what is said about the releases: the statement, the report, and a line for monitors."""
    form = choose_form()
    statement = papers.ledger.publish(results["charge"], owner=papers.owner)
    folder.write(f"statement.{form}", statement.to_text(form))
    write_report(folder, results, papers, statement.to_dict())
    folder.write(METRICS, encode(make_metrics(results, papers.ledger)))


def make_metrics(results: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Return what a monitor may see of a run.

    No duration, because the time that rows take is private.
    """
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
    """Write the page for readers.

    Without the extra `report` there is none, as was said before the charge.
    """
    if not can_draw():
        return
    page = _make_page(results, papers.ledger, statement=statement, docs=papers.docs)
    folder.write(REPORT, page)
