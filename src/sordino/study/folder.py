"""The folder of a run: under its name there is all of it, also after the power failed, or nothing.

It is written beside, under a name that ends with `.part`, and then renamed. Whoever writes holds a
lock on that folder, which ends with its process: so the next start knows whether what it finds
there is alive or was left by one that was killed, and takes it over.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, final

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter

PART = ".part"
RESULTS = "results.json"
_MARK = ".sordino-run"
"""A file that only we put into a folder: what lies beside it is ours to remove."""
_LOST = (
    "The folder of the run could not be written. What was released is in the ledger: start the "
    "same run again, which pays nothing."
)


@final
class RunFolder:
    """A folder that a run is to be written into.

    Used in a `with` block, in which nobody else writes it.

    Parameters
    ----------
    path : Path
        There is nothing of this name yet.
    """

    __slots__ = ("_descriptor", "_part", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(path.name + PART) if path.name else path
        self._descriptor: int | None = None

    def find_results(self) -> dict[str, Any]:
        """Return what `results.json` says of the run whose folder is there.

        Nothing if there is none.
        """
        try:
            said = json.loads((self.path / RESULTS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def read(self, name: str) -> bytes | None:
        """Return what a file of the folder that is there holds; None if it cannot be read."""
        try:
            return (self.path / name).read_bytes()
        except OSError:
            return None

    def refuse_what_is_there(self) -> None:
        """Refuse a name that is taken.

        Raises
        ------
        InvalidParameter
            If it is.
        """
        if not self.path.name or os.path.lexists(self.path):
            raise InvalidParameter(
                f"The folder of a run must not be there yet; got {shown(str(self.path))}. Nothing "
                "is written over: move it away, or choose another name (--output)."
            )

    def __enter__(self) -> Self:
        """Claim the name, before the charge.

        Raises
        ------
        InvalidParameter
            If the folder is there, cannot be written, or another process writes it.
        """
        self.refuse_what_is_there()
        try:
            with suppress(FileExistsError):
                self._part.mkdir()
            self._descriptor = os.open(self._part, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._take_over()
        except BlockingIOError:
            self._let_go()
            raise InvalidParameter(
                f"The folder of a run must be one that nobody writes; another process writes "
                f"{shown(str(self.path))} now. Wait for it. Nothing was charged."
            ) from None
        # A name with a zero byte is no OSError.
        except (OSError, ValueError) as error:
            self._let_go()
            if isinstance(error, InvalidParameter):
                raise
            raise InvalidParameter(
                "The folder of a run must lie in a folder that exists and can be written; got "
                f"{shown(str(self.path))}. Nothing was charged."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what was claimed, if the run was not written."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._empty()
                self._part.rmdir()
        self._let_go()

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder; nobody sees it before `finish`.

        Raises
        ------
        DataSourceError
            If that is not possible.
        """
        try:
            with (self._part / name).open("xb") as file:
                file.write(encode_text(text))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            raise DataSourceError(_LOST) from None

    def finish(self) -> None:
        """Give the folder its name.

        Raises
        ------
        DataSourceError
            If that is not possible, or the name is taken by now.
        """
        try:
            (self._part / _MARK).unlink()
            if self._descriptor is not None:
                os.fsync(self._descriptor)
            # An empty folder of that name would be replaced; one with something in it would not.
            if os.path.lexists(self.path):
                raise DataSourceError(_LOST)
            self._part.rename(self.path)
        except OSError:
            raise DataSourceError(_LOST) from None
        self._let_go()
        # It is there. That it stays there when the power fails is more than every system can
        # promise.
        with suppress(OSError):
            above = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(above)
            finally:
                os.close(above)

    def _take_over(self) -> None:
        """Empty what an earlier start has left, and mark the folder as ours."""
        # Between the opening and the lock another process may have given it its name.
        held = -1 if self._descriptor is None else self._descriptor
        if not os.path.samestat(self._part.stat(), os.fstat(held)):
            raise BlockingIOError
        found = [one.name for one in self._part.iterdir()]
        if found and _MARK not in found:
            raise InvalidParameter(
                f"The folder of a run is written beside, as {shown(str(self._part))}, and that "
                "folder has other things in it. Move it away, or choose another name (--output). "
                "Nothing was charged."
            )
        self._empty()
        (self._part / _MARK).touch()

    def _empty(self) -> None:
        for one in self._part.iterdir():
            one.unlink()

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def encode_text(text: str) -> bytes:
    """Return the bytes of a file of the folder."""
    return text.encode("utf-8", errors="backslashreplace")


def encode(value: dict[str, Any]) -> str:
    """Return one line of JSON."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n"
