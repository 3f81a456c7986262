"""Remembers what was asked, so that the same can be measured again."""

from __future__ import annotations

from typing import Any, final
from weakref import WeakKeyDictionary

from sordino.releases import Release
from sordino.session.request import Request


@final
class AskedBefore:
    """Which request made a release; nothing of it is private, and no answer is kept."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Release, Request[Any]] = WeakKeyDictionary()

    def note(self, release: Any, request: Request[Any]) -> None:
        """Remember what made a release; what repeats another one has the request of that one."""
        if not isinstance(release, Release):
            return
        # A release of a batch is held by what stands for it. What comes from a ledger was asked elsewhere.
        before = getattr(request, "release", None)
        first = None if before is None else self.find(getattr(before, "result", before))
        self._known[release] = first or request

    def find(self, release: Any) -> Request[Any] | None:
        """Return what made a release of this session, else None."""
        return self._known.get(release) if isinstance(release, Release) else None
