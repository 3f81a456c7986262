"""`python -m sordino` is the command, where its script is not on the path."""

from __future__ import annotations

from sordino.cli import main

if __name__ == "__main__":
    main()
