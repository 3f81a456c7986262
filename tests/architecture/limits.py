"""The ratchet: no figure of the source passes its limit in limits.toml: growth is a decision.

export PYTHONPATH=tests
python -m architecture.limits           # what `make lint` does: exit code 1 if a limit is passed
python -m architecture.limits --all     # `make house`: each figure, its limit, its aim
python -m architecture.limits --lower   # lowers each limit to what its figure has fallen to
python -m architecture.limits circles   # what a figure counts, place by place
"""

from __future__ import annotations

import gc
import math
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from architecture import figures
from architecture.figures import Figure

LIMITS = Path(__file__).with_name("limits.toml")
SHOWN, WIDTH = 6, 120


class Limit(TypedDict):
    """One line of the file: what a figure may be now, and what it shall be."""

    limit: float
    aim: float


def read_limits() -> dict[str, Limit]:
    """Return the limit of each figure by its name."""
    return tomllib.loads(LIMITS.read_text(encoding="utf-8"))


def measure(functions: Iterable[Callable[[], Figure]]) -> dict[str, Figure]:
    """Return figures by their names."""
    return {function.__name__: function() for function in functions}


def passed(measured: Mapping[str, Figure], limits: Mapping[str, Limit]) -> Iterator[str]:
    """Yield a sentence for each figure above its limit, with the places that add most to it."""
    for name, (now, places) in measured.items():
        if name in limits and now > limits[name]["limit"]:
            head = f"{name} is {now:,}, and its limit is {limits[name]['limit']:,}."
            more = ["…"] if len(places) > SHOWN else []
            short = (textwrap.shorten(place, WIDTH) for place in places[:SHOWN])
            yield "\n    ".join([f"{head} {meaning(name)} Most of them:", *short, *more])


def lowest(now: float, limit: Limit) -> float:
    """Return how low a limit may be: never below its aim.

    Of a large figure three digits count, so that not every line is a decision.
    """
    step = 10 ** max(0, len(str(int(now))) - 3)
    return max(now if step == 1 else math.ceil(now / step) * step, limit["aim"])


def fallen(measured: Mapping[str, Figure], limits: Mapping[str, Limit]) -> Iterator[str]:
    """Yield a sentence for each limit that could be lower."""
    for name, (now, _) in measured.items():
        if name in limits and (low := lowest(now, limits[name])) < (limit := limits[name]["limit"]):
            yield f"{name} is {now:,}: its limit could fall from {limit:,} to {low:,} (--lower)."


def lowered(text: str, measured: Mapping[str, Figure]) -> str:
    """Return the text of the limits, each as low as its figure lets it be; none is raised."""
    limits = tomllib.loads(text)

    def lower(line: re.Match[str]) -> str:
        name, limit = line["name"], float(line["limit"])
        low = lowest(measured[name].now, limits[name]) if name in measured else limit
        return f"{line['begin']}{low:_}" if low < limit else line[0]

    pattern = r"^(?P<begin>(?P<name>\w+) *= *\{ *limit *= *)(?P<limit>[\d_.]+)"
    return re.sub(pattern, lower, text, flags=re.MULTILINE)


def meaning(name: str) -> str:
    """Return what a figure counts, in a sentence."""
    return (getattr(figures, name).__doc__ or "").partition("\n")[0]


def table(measured: Mapping[str, Figure], limits: Mapping[str, Limit]) -> Iterator[str]:
    """Yield a line for each figure: what it is, its limit, its aim."""
    yield f"{'figure':20} {'now':>9} {'limit':>9} {'aim':>9}"
    for name, (now, _) in measured.items():
        bounds = limits[name].values() if name in limits else ("", "")
        limit, aim = (f"{bound:,}" if bound != "" else "" for bound in bounds)
        yield f"{name:20} {now:>9,} {limit:>9} {aim:>9}  {meaning(name)}"


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit code."""
    # Half a million nodes stay until the end: to look for garbage among them takes half the time.
    gc.disable()
    limits = read_limits()
    if arguments == ["--all"]:
        print(*table(measure([*figures.READ, *figures.RUN, *figures.ASKED]), limits), sep="\n")
    elif arguments == ["--lower"]:
        text = LIMITS.read_text(encoding="utf-8")
        LIMITS.write_text(lowered(text, measure([*figures.READ, *figures.RUN])), encoding="utf-8")
    elif arguments:
        for name in arguments:
            print(f"# {meaning(name)}", *getattr(figures, name)().places, sep="\n")
    else:
        measured = measure(figures.READ)
        for line in [*fallen(measured, limits), *(wrong := list(passed(measured, limits)))]:
            print(line)
        if wrong:
            print("All places of one: PYTHONPATH=tests python -m architecture.limits NAME")
            print(f"Whoever raises a limit says why in the same commit: {LIMITS.name}")
        return bool(wrong)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
