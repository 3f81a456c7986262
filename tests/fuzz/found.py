"""What was found: small files, each of which is a case of the default tests from then on."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fuzz.broken import resembles
from fuzz.cases import Case, from_text, to_text
from fuzz.checks import Finding, Unwritable, check
from fuzz.shrink import shrink

FOLDER = Path(__file__).parent / "found"


def kept() -> list[Path]:
    """Return the files of everything that was ever found."""
    return sorted(FOLDER.glob("*.json"))


def of_twin(name: str) -> list[Path]:
    """Return the files that a twin is convicted by."""
    return sorted(FOLDER.glob(f"{name}-*.json"))


def load(path: Path) -> Case:
    """Return the case of a file."""
    return from_text(path.read_text(encoding="utf-8"))


def signature(case: Case, finding: Finding) -> tuple[str, ...]:
    """Return what tells one sort of finding from another; first of all which known breach it looks like."""
    return (str(resembles(case, finding.law)), finding.law, case.source["kind"])


def smaller(case: Case, finding: Finding, *, seconds: float) -> tuple[Case, Finding]:
    """Return a smaller case that finds the same law broken, and what it finds."""

    def finds(other: Case) -> bool:
        try:
            again = check(other)
        except Unwritable:
            return False
        return again is not None and again.law == finding.law

    if not finds(case):  # it was seen only in company: the engine was not as it is when opened
        return case, finding
    least = shrink(case, finds, seconds=seconds)
    return least, check(least) or finding


def keep(case: Case, finding: Finding, folder: Path) -> Path:
    """Write a case into a small readable file."""
    text = to_text(case, str(finding))
    name = (
        resembles(case, finding.law) or re.sub("[^a-z]+", "-", finding.law.lower()).strip("-")[:40]
    )
    path = (
        folder
        / f"{name}-{case.source['kind']}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    )
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
