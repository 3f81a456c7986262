"""Reads tables and answers questions about them, and states how sensitive each answer is.

A question says who is protected, which items are public and which rows count.

The law of this package: private rows never raise an error and are never printed. They never decide a message,
a type, a default, or which rows of somebody else are kept. Public things (paths, headers, declared types,
predicates, domains) are checked before the charge, and errors about them may be explained. After the charge
every failure is one constant sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.data.csv.answer_lines import Answer as Answer, answer_lines as answer_lines
    from sordino.data.csv.lines import CsvFormat as CsvFormat
    from sordino.data.questions.counts import (
        CountQuestion as CountQuestion,
        Counts as Counts,
        prepare_counts as prepare_counts,
    )
    from sordino.data.questions.domain import Domain as Domain
    from sordino.data.questions.groups import prepare_groups as prepare_groups
    from sordino.data.questions.reading import describe_piped_reading as describe_piped_reading
    from sordino.data.questions.records import (
        MarkerCounts as MarkerCounts,
        MarkerFile as MarkerFile,
        RecordQuestion as RecordQuestion,
        ScoreFile as ScoreFile,
        check_unit as check_unit,
        open_markers as open_markers,
        open_plink as open_plink,
        open_record_lines as open_record_lines,
        open_scores as open_scores,
        prepare_records as prepare_records,
    )
    from sordino.data.questions.step_query import StepRange as StepRange, Total as Total
    from sordino.data.questions.totals import (
        NumberQuestion as NumberQuestion,
        prepare_numbers as prepare_numbers,
    )
    from sordino.data.questions.unit import PrivacyUnit as PrivacyUnit
    from sordino.data.sources.open import open_source as open_source
    from sordino.data.sources.source import Source as Source

# Where each public name is defined. A module is loaded when one of its names is first used
# (docs/decisions/0007), so that importing the package loads no engine.
_HOMES = {
    "csv.lines": ("CsvFormat",),
    "csv.answer_lines": ("Answer", "answer_lines"),
    "questions.domain": ("Domain",),
    "questions.groups": ("prepare_groups",),
    "questions.totals": ("NumberQuestion", "prepare_numbers"),
    "sources.open": ("open_source",),
    "questions.counts": ("CountQuestion", "Counts", "prepare_counts"),
    "questions.reading": ("describe_piped_reading",),
    "questions.records": (
        "RecordQuestion",
        "check_unit",
        "open_record_lines",
        "prepare_records",
        "MarkerCounts",
        "MarkerFile",
        "ScoreFile",
        "open_markers",
        "open_plink",
        "open_scores",
    ),
    "sources.source": ("Source",),
    "questions.step_query": ("StepRange", "Total"),
    "questions.unit": ("PrivacyUnit",),
}

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
