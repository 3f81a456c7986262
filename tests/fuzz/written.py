"""A table as it was written or made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.sources import CsvFormat


@dataclass
class Written:
    """A table as a source: what `open_source` is handed."""

    target: Any
    csv: CsvFormat | None = None
    close: Callable[[], None] = field(default=lambda: None)

    def hidden(self, folder: Path) -> str:
        """Return where it stands, which messages may name."""
        return (
            self.target.partition("#")[2]
            if isinstance(self.target, str) and "://" in self.target
            else str(folder)
        )
