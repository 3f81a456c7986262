"""`--output FILE`: a release in a file that appears whole, or not at all.

Whether it can be written is found out before the charge: the name is claimed by a file beside it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import click

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter

PART = ".part"
"""What the name of the file ends with until all of it is there."""
LOST = "The release could not be written to {}: it is lost, and its charge stays."


@final
class OutputFile:
    """A file that one release is to be written to.

    Parameters
    ----------
    path : Path
        No file has this name yet: a release that was paid for is not written over.
    """

    __slots__ = ("_claimed", "_descriptor", "_part", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(path.name + PART) if path.name else path
        # Of the file beside it, while it is claimed; -1 is none.
        self._descriptor = -1
        self._claimed = False

    def claim(self) -> None:
        """Make sure that the release can be written, and that nobody else writes one there.

        Called before the charge. What was claimed is given up when the command ends.

        Raises
        ------
        InvalidParameter
            If the folder cannot be written, or there is such a file already. Nothing was charged.
        """
        if os.path.lexists(self.path):
            raise InvalidParameter(
                f"--output must name a file that is not there yet; got {shown(str(self.path))}. Nothing is "
                "written over: move that file away, or choose another name."
            )
        try:
            # Only one of several commands gets it.
            self._descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise InvalidParameter(
                f"--output must name a file that nobody is writing, but there is {shown(str(self._part))}. "
                "If no other command is running, one was killed: remove that file."
            ) from None
        # A name with a zero byte is no OSError.
        except (OSError, ValueError):
            raise InvalidParameter(
                "--output must name a file in a folder that exists and can be written; got "
                f"{shown(str(self.path))}."
            ) from None
        self._claimed = True
        click.get_current_context().call_on_close(self.discard)

    def write(self, text: str) -> None:
        """Write the release: under its name there is all of it, also after the power failed, or nothing.

        Raises
        ------
        DataSourceError
            If that is not possible. The charge stays.
        """
        try:
            self._fill(text.encode("utf-8", errors="backslashreplace"))
            self._part.rename(self.path)
            self._claimed = False
        except OSError:
            raise DataSourceError(LOST.format("the file of --output")) from None
        # It is there. That it stays there when the power fails is more than every system can promise.
        with suppress(OSError):
            self._keep_name()

    def _fill(self, data: bytes) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _keep_name(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Give up what was claimed, if the release was not written."""
        descriptor, self._descriptor = self._descriptor, -1
        # What belongs to another command is left alone.
        if not self._claimed:
            return
        with suppress(OSError):
            if descriptor >= 0:
                os.close(descriptor)
            self._part.unlink(missing_ok=True)


@final
class _OutputFiles(click.ParamType[OutputFile]):
    """A path of a file; it is looked at only when all else is known to be right."""

    name = "file"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> OutputFile:
        return value if isinstance(value, OutputFile) else OutputFile(Path(value))


OUTPUT = click.option(
    "--output",
    type=_OutputFiles(),
    metavar="FILE",
    help="Write the release to this new file, whole or not at all, and nothing to stdout.",
)
