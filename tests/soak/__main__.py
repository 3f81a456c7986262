"""Run one half of the soak: `python -m soak charges` or `python -m soak commands`."""

from __future__ import annotations

import importlib
import sys

HALVES = ("charges", "commands")


def main(arguments: list[str]) -> int:
    """Run the half that the first argument names; 1 if something was found."""
    if not arguments or arguments[0] not in HALVES:
        print(f"usage: python -m soak {{{','.join(HALVES)}}} [--help]", file=sys.stderr)
        return 2
    # Only the half that is asked for is imported: neither needs what the other needs.
    half = importlib.import_module(f"soak.{arguments[0]}")
    return int(half.run(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
