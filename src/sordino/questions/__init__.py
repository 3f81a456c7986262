"""What is asked of a table, and how sensitive each answer is.

A question says who is protected, which items are public and which rows count. The law of `sources`
is that of this package, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.questions.counts import (
        CountQuestion as CountQuestion,
        Counts as Counts,
        prepare_counts as prepare_counts,
    )
    from sordino.questions.domain import Domain as Domain
    from sordino.questions.groups import prepare_groups as prepare_groups
    from sordino.questions.lookups import Lookup as Lookup
    from sordino.questions.number_question import prepare_numbers as prepare_numbers
    from sordino.questions.reading import describe_piped_reading as describe_piped_reading
    from sordino.questions.records import (
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
    from sordino.questions.totals import NumberQuestion as NumberQuestion
    from sordino.questions.unit import PrivacyUnit as PrivacyUnit
else:
    __getattr__, __dir__ = lazy(__name__)
