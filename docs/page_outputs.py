"""Run the commands on pages as a reader would type them, and write what they print into the blocks behind them.

python docs/page_outputs.py                     # every page below; noise is real, so numbers change each time
python docs/page_outputs.py first-release     # those whose name has this in it

A page is run from its first block to its last, in one new folder. Blocks of `console` are typed into a shell, blocks of Python run in one
interpreter, a block whose caption is the name of a file is that file, and a block of `text` right behind is what it prints.
"""

from __future__ import annotations

import csv
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from shlex import quote
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```(?P<kind>console|text|python|pycon|\{code-block\} \w+)\n(?::caption: (?P<file>\S+)\n\n)?(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# What a reader does once to install things is not repeated for each page.
ONCE = re.compile(r"make |pip |python3 -m venv |\. \.venv/|python examples/")


# ---- data that pages begin with ----------------------------------------------------------------------------


def load_example(name: str) -> Any:
    """Return a script of the folder `examples` as a module."""
    place = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    return script


def put_flights(folder: Path) -> None:
    """Write flights, airports and ratings: those of `make demo`, else made-up ones with the same columns."""
    fetch = load_example("fetch_flights")
    (folder / "demo").mkdir()
    try:
        for table in fetch.TABLES:
            fetch.unpack(table, folder / "demo")
    except PackageNotFoundError:
        put_made_up_flights(folder / "demo")
    try:
        with redirect_stdout(io.StringIO()):
            load_example("fetch_films").main(str(folder / "demo"))
    # Neither the package nor what reads it need be there.
    except (SystemExit, ImportError):
        put_made_up_films(folder / "demo")


def put_made_up_films(folder: Path) -> None:
    """Write ratings of 700 people, of twenty films that each have fifteen fewer than the one before."""
    folder.mkdir(exist_ok=True)
    with (folder / "ratings.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["userId", "title"])
        for place in range(20):
            lines.writerows([person, f"Film {place:02}"] for person in range(600 - 15 * place))


def put_made_up_flights(folder: Path) -> None:
    """Write flights of 1,200 aircraft to twenty airports, each served by fifty aircraft fewer than the one before."""
    folder.mkdir(exist_ok=True)
    airports = [f"A{number:02}" for number in range(20)]
    with (folder / "airports.csv").open("w", encoding="utf-8", newline="") as file:
        # The same header line as that of the real ones, which is told beside the labels.
        names = ["faa", "name", "lat", "lon", "alt", "tz", "dst", "tzone"]
        csv.writer(file).writerows([names, *([airport, *[""] * 7] for airport in airports)])
    with (folder / "flights.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["dest", "tailnum"])
        for place, airport in enumerate(airports):
            lines.writerows([airport, f"N{plane}"] for plane in range(1_200 - 50 * place))


def put_made_up(folder: Path) -> None:
    """Write made-up flights, airports and ratings."""
    put_made_up_flights(folder / "demo")
    put_made_up_films(folder / "demo")


def put_purchases(folder: Path) -> None:
    """Write the purchases of made-up customers with which newcomers begin, and their lists."""
    with redirect_stdout(io.StringIO()):
        load_example("purchases").main(str(folder))


def put_declared(folder: Path) -> None:
    """Write these purchases as the first page for newcomers leaves them: declared, with an account."""
    put_purchases(folder)
    said = (
        "--person customer_id --epsilon 2 --labels country=country.csv --labels product=product.csv"
    )
    command = [sys.executable, "-c", "from sordino.cli import main; main()", "declare"]
    subprocess.run(
        [*command, "purchases.csv", *said.split()], cwd=folder, check=True, capture_output=True
    )


def put_nothing(folder: Path) -> None:
    """Leave the folder empty: the page makes what it needs."""


# Every page that is run, and what its reader has before its first block.
PAGES: dict[str, Callable[[Path], None]] = {
    "README.md": put_purchases,
    "docs/tutorials/first-release.md": put_declared,
    "docs/tutorials/flights-from-new-york.md": put_flights,
    "docs/tutorials/what-customers-spend.md": put_nothing,
    "docs/tutorials/watch-a-stream.md": put_nothing,
    "docs/tutorials/income-without-a-range.md": put_nothing,
    "docs/how-to/prepare-your-table.md": put_purchases,
    "docs/how-to/how-sure.md": put_declared,
    "docs/how-to/declare-a-table.md": put_nothing,
    "docs/how-to/release-within-a-range.md": put_nothing,
    "docs/how-to/by-month.md": put_nothing,
    "docs/how-to/join-customers.md": put_nothing,
    "docs/how-to/protect-days.md": put_nothing,
    "docs/how-to/every-night-for-ever.md": put_nothing,
    "docs/how-to/select-a-snp.md": put_nothing,
    "docs/how-to/know-how-good-it-will-be.md": put_nothing,
    "docs/how-to/see-before-you-spend.md": put_nothing,
    "docs/how-to/publish-a-table.md": put_nothing,
    "docs/how-to/two-way-table.md": put_nothing,
    "docs/how-to/release-figures-of-unlisted-groups.md": put_nothing,
    "docs/how-to/publish-what-you-promise.md": put_nothing,
    "docs/how-to/run-a-study.md": put_nothing,
    "docs/how-to/show-what-you-got.md": put_nothing,
    "docs/how-to/run-nightly-jobs.md": put_nothing,
    "docs/how-to/a-year-of-nightly-releases.md": put_nothing,
    "docs/how-to/use-a-notebook.md": put_nothing,
    "docs/how-to/read-messy-csv.md": put_nothing,
    "docs/how-to/read-other-files.md": put_nothing,
    "docs/how-to/a-folder-of-parts.md": put_nothing,
    "docs/explanation/web-log-questions.md": put_nothing,
}

# ---- running -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A block that was run."""

    body: str
    printed: str
    # The exit code of each command of a shell block.
    codes: tuple[int, ...]
    # Where the page shows what it prints, and what it shows there; None if it does not.
    place: tuple[int, int] | None
    shown: str | None


def commands(body: str) -> list[str]:
    """Return the commands of a console block, each without its prompt; a backslash carries one over its line."""
    return [line[2:].strip() for line in re.split(r"(?<!\\)\n", body) if line.startswith("$ ")]


def run_page(page: str, folder: Path) -> Iterator[Ran]:
    """Run the blocks of a page in a folder that is empty, and yield each with what it printed."""
    text = (ROOT / page).read_text(encoding="utf-8")
    PAGES[page](folder)
    shims = put_programs(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    found = list(BLOCK.finditer(text))
    for block, follower in zip(found, [*found[1:], None], strict=True):
        kind, body = block["kind"], block["body"]
        if kind == "text":
            continue
        if block["file"]:
            (folder / block["file"]).write_text(body, encoding="utf-8")
            continue
        if kind == "console":
            typed = [command for command in commands(body) if not ONCE.match(command)]
            if not typed:
                continue
            printed, codes = run_shell(typed, folder, shims)
        else:
            printed, codes = run_python(body, names, folder), ()
        behind = (
            follower is not None
            and follower["kind"] == "text"
            and not text[block.end() : follower.start()].strip()
        )
        yield Ran(
            body=body,
            # An empty line at the end is not seen.
            printed=printed.rstrip("\n").replace(str(folder), "...") + "\n",
            codes=codes,
            place=follower.span("body") if behind else None,
            shown=follower["body"] if behind else None,
        )


def put_programs(folder: Path) -> Path:
    """Return a folder of programs whose `sordino` and `python` are those that run now."""
    programs = folder / ".programs"
    programs.mkdir()
    for name, code in (("sordino", "-c 'from sordino.cli import main; main()'"), ("python", "")):
        script = programs / name
        script.write_text(
            f'#!/bin/sh\nexec {quote(sys.executable)} {code} "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)
    return programs


def run_shell(typed: list[str], folder: Path, programs: Path) -> tuple[str, tuple[int, ...]]:
    """Type commands into a shell; return what it shows, and the exit code of each."""
    codes = folder / ".codes"
    # The code is kept for a command such as `echo $?` that comes next.
    script = "".join(
        f"{command}\nkept=$?; echo $kept >> {quote(str(codes))}; (exit $kept)\n"
        for command in typed
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
        # A page that waits for something is not one that a reader can follow.
        timeout=120,
    )
    read = tuple(int(line) for line in codes.read_text(encoding="utf-8").split())
    codes.unlink()
    return done.stdout, read


def run_python(body: str, names: dict[str, Any], folder: Path) -> str:
    """Run a block of Python in the folder and return what it prints."""
    # What stands behind prompts is compared with its results elsewhere, so here it only has to be done.
    examples = doctest.DocTestParser().get_examples(body)
    if not examples:
        printed = io.StringIO()
        with chdir(folder), redirect_stdout(printed):
            exec(compile(body, "<page>", "exec"), names)
        return printed.getvalue()
    test = doctest.DocTest(examples, names, "page", None, None, None)
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    with chdir(folder), redirect_stdout(io.StringIO()) as kept:
        runner.run(test, clear_globs=False)
    names.update(test.globs)
    return kept.getvalue()


# ---- what does not depend on noise -------------------------------------------------------------------------


def shape(text: str) -> list[str]:
    """Return the lines of an output without what noise, time and the folder decide.

    Words stay, every number is 0, yes and no are one, and of a row of a table the number of its fields is left: which items are in it is noise, too.
    """
    lines = []
    flags = 0
    for line in text.splitlines():
        if re.match(r"\s*(?:│.*)?\d", line):
            lines.append(f"row of {len(line.split()) - flags}")
            continue
        # A list has this column where noise has set it in some row, and then in all rows.
        flags = 1 if re.match(r"rank +item .* too_few$", line.rstrip()) else 0
        masked = line.rstrip().removesuffix("too_few") if flags else line
        masked = re.sub(r"\b[0-9a-f]{32}\b", "ID", masked)
        masked = re.sub(r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?(?<![,.])", "0", masked)
        # Noise decides these as well, such as whether too few rows count.
        masked = re.sub(r"\b(?:yes|no)\b", "yes or no", masked)
        # Below a table stands what a flag means, where noise has set one.
        masked = re.sub(r" (?:tie|too_few|capped): [^.]*\.", "", masked)
        lines.append(" ".join(re.sub(r"([─┌┬┐├┼┤└┴┘])\1+", r"\1", masked).split()))
    return lines


# ---- writing -----------------------------------------------------------------------------------------------


def write_outputs(page: str) -> None:
    """Run a page and write what its commands print where it shows it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        ran = list(run_page(page, Path(folder).resolve()))
    # From the back, so that places in front stay what they are.
    for block in reversed(ran):
        if block.place is not None:
            start, end = block.place
            text = (
                text[:start]
                + "".join(line.rstrip() + "\n" for line in block.printed.splitlines())
                + text[end:]
            )
    (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asked = [
        page for page in PAGES if not sys.argv[1:] or any(part in page for part in sys.argv[1:])
    ]
    for page in asked:
        write_outputs(page)
        print(page)
