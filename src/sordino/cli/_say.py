"""What is said on stderr, to the data holder alone.

Whether it can be written decides nothing: neither a release nor its exit code.
"""

from __future__ import annotations

from contextlib import suppress

import click


def say(text: str) -> None:
    """Write a sentence to stderr if it takes one; it may be full, or its reader may have gone."""
    with suppress(OSError):
        click.echo(text, err=True)
