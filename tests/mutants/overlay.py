"""Puts one changed file in front of the source, without copying the rest.

Only the folders that lead to the file are made anew; all else in them are links to the source, with the
bytecode that is there. Of the changed file there is no bytecode, so the one of the source cannot win.
"""

from __future__ import annotations

from pathlib import Path

from mutants.places import Change


def lay_over(change: Change, folder: Path) -> Path:
    """Make the tree in `folder`, and return its changed file."""
    here, there = folder, change.root
    for part in change.path.parts[:-1]:
        _link_all(there, here, without=part)
        here, there = here / part, there / part
        here.mkdir()
    _link_all(there, here, without=change.path.name)
    file = here / change.path.name
    file.write_text(change.text, encoding="utf-8")
    return file


def _link_all(there: Path, here: Path, *, without: str) -> None:
    for one in there.iterdir():
        if one.name not in {without, "__pycache__"}:
            (here / one.name).symlink_to(one)
    cache = there / "__pycache__"
    if cache.is_dir():
        (here / "__pycache__").mkdir()
        own = Path(without).stem + "."
        for one in cache.glob("*.pyc"):
            if not one.name.startswith(own):
                (here / "__pycache__" / one.name).symlink_to(one)
