"""What a release says of itself, in one record of which every form is made."""

from sordino.record import Record
from sordino.results.describe import add_parts, describe, describe_alone, describe_charge
from sordino.results.legend import call_counted, say_short


def tell(release: object) -> tuple[Record, list[str]]:
    """Return the record of a release of a session, and the lines below its table."""
    record = call_counted(describe(release))
    return record, say_short(record) or list(record.notes)


__all__ = ["add_parts", "describe", "describe_alone", "describe_charge", "say_short", "tell"]
