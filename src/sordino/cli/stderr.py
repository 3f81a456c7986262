"""What is said on stderr, to the data holder alone.

Whether it can be written decides nothing: neither a release nor its exit code.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, final

import click

from sordino.record import escape_controls


def say(text: str) -> None:
    """Write a sentence to stderr if it takes one; it may be full, or its reader may have gone."""
    with suppress(OSError):
        # Names of files and columns stand in it, and may hold anything.
        click.echo("\n".join(map(escape_controls, text.split("\n"))), err=True)


@final
class PatientStream:
    """stderr for a progress bar, which must not fail where a sentence would not.

    The bar is drawn after the charge, and only where work takes long, which depends on rows.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, if the stream takes it."""
        # ValueError: it was closed.
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, if the stream takes it."""
        with suppress(OSError, ValueError):
            self._stream.flush()
