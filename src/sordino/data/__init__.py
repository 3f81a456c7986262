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
    from sordino.data._answer_lines import Answer, answer_lines
    from sordino.data._csv_format import CsvFormat
    from sordino.data._domain import Domain
    from sordino.data._number_questions import NumberQuestion, prepare_numbers
    from sordino.data._open import open_source
    from sordino.data._questions import CountQuestion, Counts, prepare_counts
    from sordino.data._record_question import RecordQuestion, check_unit, open_record_lines, prepare_records
    from sordino.data._scores import MarkerCounts, MarkerFile, ScoreFile, open_markers, open_scores
    from sordino.data._source import Source
    from sordino.data._step_query import StepRange, Total
    from sordino.data._unit import PrivacyUnit

_HOMES = {
    "_answer_lines": ("Answer", "answer_lines"),
    "_csv_format": ("CsvFormat",),
    "_domain": ("Domain",),
    "_number_questions": ("NumberQuestion", "prepare_numbers"),
    "_open": ("open_source",),
    "_questions": ("CountQuestion", "Counts", "prepare_counts"),
    "_record_question": ("RecordQuestion", "check_unit", "open_record_lines", "prepare_records"),
    "_scores": ("MarkerCounts", "MarkerFile", "ScoreFile", "open_markers", "open_scores"),
    "_source": ("Source",),
    "_step_query": ("StepRange", "Total"),
    "_unit": ("PrivacyUnit",),
}
__all__ = [
    "Answer",
    "CountQuestion",
    "Counts",
    "CsvFormat",
    "Domain",
    "MarkerCounts",
    "MarkerFile",
    "NumberQuestion",
    "PrivacyUnit",
    "RecordQuestion",
    "ScoreFile",
    "Source",
    "StepRange",
    "Total",
    "answer_lines",
    "check_unit",
    "open_markers",
    "open_record_lines",
    "open_scores",
    "open_source",
    "prepare_counts",
    "prepare_numbers",
    "prepare_records",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
