"""Many releases about one table, written down in a file, charged together and put into a folder.

What a study may say is what the requests of a session declare (`kinds`). A run of it has an id, and
is charged once (docs/decisions/0029-studies.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.study.opening import open as open  # noqa: A004 - sd.open
    from sordino.study.planning import PlannedRelease as PlannedRelease, StudyPlan as StudyPlan
    from sordino.study.study import Study as Study, StudyRun as StudyRun
else:
    __getattr__, __dir__ = lazy(__name__)
