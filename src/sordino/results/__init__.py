"""What a release says of itself, in one record of which every form is made."""

from sordino.record import Record
from sordino.results.describe import describe, describe_alone
from sordino.results.legend import say_short
from sordino.tabular import tell_by


def _tell(release: object) -> tuple[Record, list[str]]:
    record = describe(release)
    return record, say_short(record) or list(record.notes)


# Releases cannot import what describes them, which stands above them.
tell_by(_tell)

__all__ = ["describe", "describe_alone", "say_short"]
