"""Take docs/report.png: what a report looks like in a browser, of made-up loans of a library and real noise.

python docs/report_picture.py    # needs Chromium, as the tests of reports do; the numbers change each time
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

PICTURE = Path(__file__).with_name("report.png")
WIDTH, HEIGHT = 1000, 1045
ABOUT = (
    "Which kinds of books people borrow from a library, and for how long. The library is made up."
)

# How many readers borrowed each kind of book: made up.
BORROWED = {
    "novels": 940,
    "travel": 770,
    "cooking": 745,
    "history": 560,
    "gardens": 410,
    "poetry": 395,
    "music": 240,
    "law": 60,
    "maps": 15,
}

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from sordino.cli import run  # noqa: E402
from support.browser import opened_browser  # noqa: E402


def write_report(folder: Path) -> Path:
    """Make the loans, ask three questions about them, and return the page of the answers."""
    loans, kinds = folder / "loans.csv", folder / "kinds.csv"
    rng = random.Random(7)
    with loans.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["reader", "kind", "days"])
        for kind, readers in BORROWED.items():
            lines.writerows(
                [f"r{n}", kind, min(60, round(rng.lognormvariate(2.6, 0.6)))]
                for n in range(3 * readers)
            )
    kinds.write_text("\n".join(["kind", *BORROWED]) + "\n", encoding="utf-8")
    pays = ["--ledger", "budget.db", "--account", "library"]
    who = ["--user", "reader"]
    ask = ["--quiet", *pays, "--format", "json"]
    run(
        [
            "ledger",
            "create",
            *pays,
            "--epsilon",
            "3",
            "--unit",
            "reader",
            "--source",
            "loans.csv",
            "--format",
            "csv",
        ]
    )
    figure = ["--column", "days", "--lower", "0", "--cap", "365", "--max-rows", "9", *who]
    questions = {
        "top": [
            "top",
            "loans.csv",
            "--item",
            "kind",
            "-k",
            "6",
            "--epsilon",
            "0.5",
            "--domain",
            "kinds.csv",
            *who,
        ],
        "readers": ["count", "loans.csv", "--units", "--epsilon", "0.1", *who],
        "days": [
            "quantile",
            "loans.csv",
            *figure,
            "--q",
            "0.1,0.25,0.5,0.75,0.9",
            "--epsilon",
            "0.9",
            "--interval-share",
            "0.5",
        ],
    }
    files = []
    for name, question in questions.items():
        files.append(f"{name}.json")
        run([*question, *ask, "--output", files[-1]])
    (folder / "about.txt").write_text(ABOUT, encoding="utf-8")
    words = ["--title", "What a library lends", "--about", "about.txt"]
    run(["report", *files, *pays, *words, "--output", "report.html"])
    return folder / "report.html"


def main() -> None:
    """Take the picture."""
    # What is typed is on the page: names of files without their folder.
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser, chdir(folder):
        page = write_report(Path(folder))
        browser.resize(WIDTH, HEIGHT)
        browser.pretend()
        browser.open(page)
        PICTURE.write_bytes(browser.picture(whole=False))
    print(PICTURE)


if __name__ == "__main__":
    main()
