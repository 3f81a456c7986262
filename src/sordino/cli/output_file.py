"""`--output FILE`: a release in a file that appears whole, or not at all.

Whether it can be written is found out before the charge: the name is claimed by a file beside it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, final

import click

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter, LedgerError

PART = ".part"
"""What the name of the file ends with until all of it is there."""
LOST = "The release could not be written to {}: it is lost, and its charge stays."
TAKEN = (
    "Somebody made the file of --output meanwhile. Nothing was written over: the release is in the "
    f"file beside it whose name ends in {PART}, and its charge stays."
)


@final
class NotKeptError(LedgerError):
    """A release was written, and the ledger has no copy of it although `--keep` asked for one."""


@final
class OutputFile:
    """A file that one release is to be written to.

    Parameters
    ----------
    path : Path
        No file has this name yet: a release that was paid for is not written over.
    """

    __slots__ = ("_claimed", "_file", "_part", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(path.name + PART) if path.name else path
        # The file beside it, once it is claimed.
        self._file: BinaryIO | None = None
        self._claimed = False

    def claim(self) -> None:
        """Make sure that the release can be written, and that nobody else writes one there.

        Called before the charge. What was claimed is given up when the command ends.

        Raises
        ------
        InvalidParameter
            If the folder cannot be written, or there is such a file already. Nothing was charged.
        """
        self._refuse_what_is_there()
        try:
            # Only one of several commands gets it.
            self._file = self._part.open("xb")
        except FileExistsError:
            raise InvalidParameter(
                "--output must name a file that nobody is writing, but there is "
                f"{shown(str(self._part))}. If no other command is running, one was killed: remove "
                "that file."
            ) from None
        # A name with a zero byte is no OSError.
        except (OSError, ValueError):
            raise InvalidParameter(
                "--output must name a file in a folder that exists and can be written; got "
                f"{shown(str(self.path))}."
            ) from None
        self._claimed = True
        click.get_current_context().call_on_close(self.discard)
        # Once more: between the first look and the claim another command may have finished its
        # release.
        self._refuse_what_is_there()

    def _refuse_what_is_there(self) -> None:
        if os.path.lexists(self.path):
            raise InvalidParameter(
                f"--output must name a file that is not there yet; got {shown(str(self.path))}. "
                "Nothing is written over: move that file away, or choose another name."
            )

    def add(self, text: str) -> None:
        """Write a part of the release; nobody sees it before `finish`.

        Raises
        ------
        DataSourceError
            If that is not possible. The charge stays.
        """
        try:
            self._put(text)
        except OSError:
            raise DataSourceError(LOST.format("the file of --output")) from None

    def finish(self) -> None:
        """Give the release its name.

        Under it there is all of it, also after the power failed, or nothing.

        Raises
        ------
        DataSourceError
            If that is not possible, or the name is taken by now. The charge stays.
        """
        try:
            self._close_on_disk()
            self._take_name()
            self._claimed = False
        except FileExistsError:
            # It was paid for, and all of it is there: it is kept where it is.
            self._claimed = False
            raise DataSourceError(TAKEN) from None
        except OSError:
            raise DataSourceError(LOST.format("the file of --output")) from None
        # It is there. That it stays there when the power fails is more than every system can
        # promise.
        with suppress(OSError):
            self._keep_name()

    def _put(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text.encode("utf-8", errors="backslashreplace"))

    def _close_on_disk(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _take_name(self) -> None:
        try:
            # To rename would write over a file that somebody made meanwhile; to link never does.
            os.link(self._part, self.path)
        except FileExistsError:
            raise
        except OSError:
            # A file system without links: there is a moment between this look and the new name.
            if os.path.lexists(self.path):
                raise FileExistsError from None
            self._part.rename(self.path)
            return
        # All of it has its name: a second one that stays is untidy, and no more.
        with suppress(OSError):
            self._part.unlink()

    def _keep_name(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Give up what was claimed, if the release was not written."""
        # What belongs to another command is left alone.
        if not self._claimed or self._file is None:
            return
        # Closing writes what is left, and may fail as it did before.
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._part.unlink()


@final
class _OutputFiles(click.ParamType[OutputFile]):
    """A path of a file; it is looked at only when all else is known to be right."""

    name = "file"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> OutputFile:
        return value if isinstance(value, OutputFile) else OutputFile(Path(value))


OUTPUT = click.option(
    "--output",
    type=_OutputFiles(),
    metavar="FILE",
    help="Write the release to this new file, whole or not at all, and nothing to stdout.",
)
KEEP = click.option(
    "--keep",
    is_flag=True,
    help="Keep the release in the ledger, to print it again with `sordino ledger release`.",
)
