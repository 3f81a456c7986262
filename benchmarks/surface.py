"""What a stranger types for the tasks that people come with, run from a new folder, and how many options that takes."""

from __future__ import annotations

import gzip
import json
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import table

ROWS, SHOPS = 20_000, ("Bern", "Genf", "Zürich")
PRODUCTS = [f"P{place:02d}" for place in range(40)]
# What the file of a stranger needs to be said about it, in every command.
SHEET = "--delimiter ';' --encoding cp1252 --decimal , --thousands ."
PERSON = "--user Kunde --max-rows 20"
PAYS = "--ledger budget.db --account umsatz --epsilon .5"


class Task(NamedTuple):
    """A task of somebody: what is typed, line by line, and whether what the last line printed is an answer."""

    who: str
    what: str
    typed: tuple[str, ...]
    holds: Callable[[str], bool]


def write_files(folder: Path) -> None:
    """Write a CSV file as a spreadsheet in Switzerland saves it, lists of public labels, a stream and markers."""
    rng = random.Random(7)
    lines = ["Kunde;Produkt;Betrag;Alter;Filiale"]
    for _ in range(ROWS):
        amount = rng.lognormvariate(4, 1) * (-1 if rng.random() < 0.1 else 1)
        written = f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))
        product = PRODUCTS[min(39, int(rng.expovariate(0.15)))]
        customer = rng.randrange(4000)
        lines.append(
            f"K{customer};{product};{written};{18 + customer * 7 % 70};{rng.choice(SHOPS)}"
        )
    (folder / "umsatz.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    (folder / "produkte.csv").write_text("Produkt\n" + "\n".join(PRODUCTS) + "\n", encoding="utf-8")
    (folder / "filialen.csv").write_text("Filiale\n" + "\n".join(SHOPS) + "\n", encoding="utf-8")
    hours = (f"h{place},{rng.randrange(40) if place != 700 else 400}" for place in range(1000))
    (folder / "hours.csv").write_text("\n".join(hours) + "\n", encoding="utf-8")
    reports = "\n".join(str(rng.randrange(13)) for _ in range(5000))
    (folder / "calls.csv").write_text("calls\n" + reports + "\n", encoding="utf-8")
    markers = ["SNP,T,U"]
    for place in range(500):
        b = sum(rng.random() < (0.6 if place == 99 else 0.5) for _ in range(300))
        markers.append(f"rs{place},{b * 10},{(300 - b) * 10}")
    (folder / "markers.csv").write_text("\n".join(markers) + "\n", encoding="utf-8")
    (folder / "mean.py").write_text(
        "import sys, sordino as sd\n"
        "numbers = [float(line) for line in open('reports.csv').read().split()[1:]]\n"
        "mechanism = sd.CompositeMechanism(lower=0, upper=12, epsilon=2, activation='mixture')\n"
        "print(sd.mean_of_reports(numbers, mechanism=mechanism).interval)\n",
        encoding="utf-8",
    )


def _row(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)["rows"][0]
    return found


CREATE = (
    "sordino ledger create --ledger budget.db --account umsatz --epsilon 20 --source umsatz.csv --unit Kunde "
    "--delimiter ';'"
)
TASKS = (
    Task(
        "newcomer",
        "ten products with the most customers",
        (
            CREATE,
            f"sordino top umsatz.csv --item Produkt --domain produkte.csv -k 10 {PERSON} {PAYS} {SHEET}",
        ),
        lambda text: _row(text)["item"] in PRODUCTS[:4],
    ),
    Task(
        "newcomer",
        "median age, a whole number with an interval",
        (
            f"sordino quantile umsatz.csv --column Alter --q .5 --lower 0 --cap 130 --integer {PERSON} {PAYS} {SHEET}",
        ),
        lambda text: 40 < float(str(_row(text)["estimate"])) < 66,
    ),
    Task(
        "office",
        "sum of amounts of both signs",
        (
            f"sordino sum umsatz.csv --column Betrag --lower none --cap 100000 {PERSON} {PAYS} {SHEET}",
        ),
        lambda text: 900_000 < float(str(_row(text)["estimate"])) < 1_800_000,
    ),
    Task(
        "office",
        "mean amount of each branch",
        (
            f"sordino mean umsatz.csv --column Betrag --lower none --cap 100000 --by Filiale --domain filialen.csv "
            f"--groups-per-unit 3 {PERSON} {PAYS} {SHEET}",
        ),
        lambda text: len(json.loads(text)["rows"]) == 3,
    ),
    Task(
        "office",
        "customers above 60, within a declared range",
        (
            "sordino count umsatz.csv --units --where 'Alter > 60' --type Alter=integer --bounded 0 5000 "
            f"{PERSON} {PAYS} {SHEET}",
        ),
        lambda text: 800 < float(str(_row(text)["estimate"])) < 2600,
    ),
    Task(
        "operator",
        "an alarm on a stream of counts",
        (
            "sordino ledger create --ledger alarm.db --account alarm --epsilon 2 --unit customer --source calls --not-yet",
            "sordino above - --threshold 200 -c 3 --epsilon 1 --sensitivity 1 --monotone --step 1 --ledger alarm.db "
            "--account alarm --format csv < hours.csv",
        ),
        lambda text: "h700,yes" in text,
    ),
    Task(
        "operator",
        "a noisy report of every row, and the mean of the reports",
        (
            "sordino randomize calls.csv --column calls --lower 0 --upper 12 --activation mixture --row-is-unit "
            "--adjacency replace-one --epsilon 2 --no-ledger > reports.csv",
            "python mean.py",
        ),
        lambda text: (
            float(text.split(",")[0].strip("( ")) < 6 < float(text.split(",")[1].strip(") \n"))
        ),
    ),
    Task(
        "genome researcher",
        "the most significant of 500 markers",
        (
            "sordino select markers.csv --statistic tdt --label SNP --families 6000 --epsilon 6 --no-ledger",
        ),
        lambda text: "rs99" in str(_row(text).values()),
    ),
)


class Friction(NamedTuple):
    """What was in the way of strangers: a line that was typed, what it printed before, and which line tells now."""

    what: str
    typed: str
    before: str
    told: str


RELEASE = "--row-is-unit --epsilon 1 --format table --no-ledger"
# What stands under `before` was printed by commit e86ed36 (without --no-ledger, which it did not know).
FRICTIONS = (
    Friction(
        "interval of a bounded count",
        "sordino histogram cells.csv --item cell --domain cell.csv --user id --max-rows 1 --epsilon 1 --format table --no-ledger",
        "low and high alone, held 0 of 75 true counts",
        "Counts ",
    ),
    Friction(
        "a sum of numbers of both signs",
        f"sordino sum signs.csv --column x --cap 1000 {RELEASE}",
        "22920.9, exit code 0: numbers below 0 counted as 0, and nothing said so (truth: -16500)",
        "Error",
    ),
    Friction(
        "the median of ages",
        f"sordino quantile ages.csv --column age --q .5 --lower 0 --cap 130 --integer {RELEASE}",
        "46.0296, an error in rows only",
        "0.5 ",
    ),
    Friction(
        "a group without rows",
        f"sordino mean ages.csv --column age --by g --domain groups.csv --lower 0 --cap 130 {RELEASE}",
        "0.05, from 0 to 0.05",
        "empty",
    ),
    Friction(
        "decimal commas that nobody declared",
        f"sordino sum umsatz.csv --column Betrag --lower none --cap 1000000 --delimiter ';' {RELEASE}",
        "0.15162, from -0.079 to 0.38, exit code 0",
        "Rows that count",
    ),
    Friction(
        "a file in Latin-1 read as UTF-8",
        f"sordino sum latin.csv --column x --lower 0 --cap 100 {RELEASE}",
        "5589.91 of 9600: lines with an umlaut were dropped",
        "sum ",
    ),
    Friction(
        "a predicate on a number",
        f"sordino count ages.csv --where 'age > 30' --type age=integer {RELEASE}",
        "refused: TRY_CAST(age AS DOUBLE) > 30 by hand",
        "rows ",
    ),
    Friction("a compressed file", f"sordino count ages.csv.gz {RELEASE}", "refused", "rows "),
    Friction("a folder of parts", f"sordino count parts {RELEASE}", "nothing was found", "rows "),
    Friction("JSON lines", f"sordino count ages.jsonl {RELEASE}", "refused", "rows "),
    Friction(
        "a release that nothing remembers",
        "sordino count ages.csv --row-is-unit --epsilon 1",
        "released",
        "Error",
    ),
    Friction(
        "an epsilon that protects nobody",
        "sordino count ages.csv --row-is-unit --epsilon 50 --no-ledger",
        "released",
        "Error",
    ),
    Friction(
        "an account for a file that is not there",
        "sordino ledger create --ledger l.db --account a --epsilon 1 --source nowhere.csv --unit id",
        "created",
        "Error",
    ),
    Friction("a misspelled command", "sordino toop ages.csv", "No such command 'toop'.", "Error"),
    Friction(
        "a marker by chance",
        "sordino select markers.csv --statistic tdt --label SNP --families 6000 --epsilon .01 --no-ledger",
        "a random marker, exit code 0",
        "Error",
    ),
    Friction(
        "a report of PLINK as it is",
        "sordino select p.tdt --statistic tdt --label SNP --families 600 --epsilon 3 --no-ledger --format csv",
        "refused",
        "1,",
    ),
)


def write_small_files(folder: Path) -> None:
    """Write the files of the frictions."""
    (folder / "ages.csv").write_text(
        "id,age,g\n" + "".join(f"{i},{18 + i * 7 % 70},{'ab'[i % 2]}\n" for i in range(3000)),
        encoding="utf-8",
    )
    (folder / "groups.csv").write_text("g\na\nb\nempty\n", encoding="utf-8")
    (folder / "signs.csv").write_text(
        "id,x\n" + "".join(f"{i},{(-1) ** i * (i % 50) - 5}\n" for i in range(3000)),
        encoding="utf-8",
    )
    (folder / "cells.csv").write_text(
        "id,cell\n" + "".join(f"{i % 400},c{i * i % 75}\n" for i in range(6000)), encoding="utf-8"
    )
    (folder / "cell.csv").write_text(
        "cell\n" + "".join(f"c{i}\n" for i in range(75)), encoding="utf-8"
    )
    (folder / "latin.csv").write_text("id,x\n" + "Jürgen,5\nAnn,7\n" * 800, encoding="latin-1")
    ages = (folder / "ages.csv").read_bytes()
    (folder / "ages.csv.gz").write_bytes(gzip.compress(ages))
    (folder / "parts").mkdir()
    for part in "ab":
        (folder / "parts" / f"{part}.csv").write_bytes(ages)
    (folder / "ages.jsonl").write_text(
        "".join(json.dumps({"id": i, "age": 18 + i * 7 % 70}) + "\n" for i in range(3000)),
        encoding="utf-8",
    )
    rows = (
        f"   1   rs{i}   {1000 + i}    A    G    {100 + i % 7}    {90 + i % 5}   1.1   1.2   0.3 \n"
        for i in range(40)
    )
    heading = " CHR         SNP          BP  A1  A2      T      U           OR        CHISQ            P \n"
    (folder / "p.tdt").write_text(heading + "".join(rows), encoding="utf-8")


def type_line(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type one line into a shell."""
    binaries = str(Path(sys.executable).parent)
    path = {"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=path, capture_output=True, text=True, check=False
    )


def run(task: Task, folder: Path) -> str:
    """Type the lines of a task, and return what the last one printed."""
    found = ""
    for line in task.typed:
        done = type_line(line, folder)
        if done.returncode:
            raise SystemExit(f"{line}\n{done.stderr}")
        found = done.stdout
    return found


def tell(friction: Friction, folder: Path) -> str:
    """Return the line that tells what happens now, cut to what fits into a table."""
    done = type_line(friction.typed, folder)
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    [line, *_] = [line for line in lines if friction.told in line]
    words = " ".join(line.replace(str(folder), "...").split())
    return words if len(words) < 150 else words[:147] + "..."


def count_options(task: Task) -> int:
    """Return how many options the lines of a task have."""
    words = [word for line in task.typed for word in shlex.split(line)]
    return sum(word.startswith("-") and word != "-" and not word[1:2].isdigit() for word in words)


def report() -> list[str]:
    """Run every task in one new folder, in order."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        write_small_files(folder)
        told = [
            [
                each.what,
                f"`{each.typed.replace(' ' + RELEASE, ' ...')}`",
                each.before,
                tell(each, folder),
            ]
            for each in FRICTIONS
        ]
        for task in TASKS:
            answered = task.holds(run(task, folder))
            about_the_sheet = (
                len(shlex.split(SHEET)) // 2 * sum(SHEET in line for line in task.typed)
            )
            rows.append(
                [
                    task.who,
                    task.what,
                    len(task.typed),
                    count_options(task),
                    about_the_sheet,
                    "yes" if answered else "NO",
                ]
            )
    return [
        "## Tasks of strangers",
        "",
        f"A CSV file of {ROWS} rows as a spreadsheet in Switzerland saves it (semicolons, decimal commas, cp1252), a stream and markers; each task is run as it is typed, in a new folder.",
        "",
        *table(
            [
                "who",
                "task",
                "commands",
                "options",
                "of which say how the file is written",
                "answered",
            ],
            rows,
        ),
        "",
        "### What was in their way",
        "",
        f"`...` stands for `{RELEASE}`.",
        "",
        *table(["what", "command", "before", "now"], told),
        "",
    ]
