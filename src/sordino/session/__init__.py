"""Sessions: the only place where data, entropy and budget meet."""

from __future__ import annotations

from sordino.session._batch import Pending
from sordino.session._plan import Progress
from sordino.session._session import Session

__all__ = ["Pending", "Progress", "Session"]
