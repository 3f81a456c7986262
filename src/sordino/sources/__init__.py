"""Where rows come from: a reader for each kind of source, the engine, and the SQL of each engine.

The law of this package and of `questions`: private rows never raise an error and are never printed.
They never decide a message, a type, a default, or which rows of somebody else are kept. Public
things (paths, headers, declared types, predicates, domains) are checked before the charge, and
errors about them may be explained. After the charge every failure is one constant sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.sources.csv.answer_lines import Answer as Answer, answer_lines as answer_lines
    from sordino.sources.csv.lines import CsvFormat as CsvFormat
    from sordino.sources.open import open_source as open_source
    from sordino.sources.source import Source as Source
else:
    __getattr__, __dir__ = lazy(__name__)
