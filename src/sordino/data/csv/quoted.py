"""Reads quotes in one line, as bytes: the fields of a private text, and what a public field says.

Time and memory are linear in what is read.
"""

from __future__ import annotations

from collections.abc import Iterator


def public_text(field: bytes, quote: bytes) -> bytes | None:
    """Return what a public field says.

    None if it holds a quote and is not one quoted text from its first to its last byte.
    """
    # Without quotes the field is bare text, which says what it is.
    if not quote or quote not in field:
        return field
    # What stands between the first and the last byte, which must be the two quotes around it.
    text = field[1:-1]
    # A single quote inside, that is one which is not doubled, would close the text before its last byte.
    if (
        len(field) < 2
        or not (field.startswith(quote) and field.endswith(quote))
        or quote in text.replace(quote * 2, b"")
    ):
        return None
    return text.replace(quote * 2, quote)


def quoted_fields(line: bytes, delimiter: bytes, quote: bytes) -> Iterator[bytes | None]:
    """Yield the fields of a line from the left.

    The first field in which a quote is out of place is None, and ends the list.
    """
    at = 0
    while True:
        if quote and line.startswith(quote, at):
            end = _find_closing_quote(line, at + 1, quote)
            # Never closed, or something other than a delimiter stands behind the closing quote.
            if end is None or not (end + 1 == len(line) or line.startswith(delimiter, end + 1)):
                yield None
                return
            # The quotes around the field go, and each doubled quote inside is one quote of the text.
            yield line[at + 1 : end].replace(quote * 2, quote)
            at = end + 1
        else:
            # A bare field ends at the next delimiter: there are no quotes in which one could be text.
            end = line.find(delimiter, at)
            bare = line[at:] if end < 0 else line[at:end]
            # A quote in the middle of bare text opens nothing. Where the fields behind it begin is unclear.
            if quote and quote in bare:
                yield None
                return
            yield bare
            at += len(bare)
        # At the end of the line, or at a delimiter: then one more field follows, which may be empty.
        if at == len(line):
            return
        at += 1


def _find_closing_quote(line: bytes, at: int, quote: bytes) -> int | None:
    """Return the place of the quote that closes the field whose text begins at `at`, or None."""
    while (at := line.find(quote, at)) >= 0:
        # A doubled quote is one quote of the text, and closes nothing.
        if not line.startswith(quote, at + 1):
            return at
        at += 2
    return None
