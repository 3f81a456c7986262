"""Sordino beside Tumult Analytics and OpenDP Polars: time, memory and error of the same two questions over the same files.

python -m benchmarks.scale_peers [ROWS ...]      # 1,000,000 and 10,000,000 unless said; writes its section of scale.md

Peers need versions that fit neither each other nor ours, so each has a Python of its own: OPENDP_PYTHON names one with `opendp[polars]`,
TUMULT_PYTHON one of version 3.12 with `tmlt.analytics`, beside Java 17. Who is missing is named in the table.
Linux only: processor time and memory are those of a whole session of processes, read from /proc.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.measuring import compile_package, machine, table, write_section
from benchmarks.peer_queries import COLUMNS, GROUPS, HIGHEST, K, M
from benchmarks.scale import write_rows

ROWS = (1_000_000, 10_000_000)
SMALL, RUNS, DRAWS = 100_000, 20, 400
MOST_SECONDS = 200
PYTHONS = {
    "sordino": sys.executable,
    "OpenDP": os.environ.get("OPENDP_PYTHON"),
    "OpenDP, trusted": os.environ.get("OPENDP_PYTHON"),
    "Tumult": os.environ.get("TUMULT_PYTHON"),
}
# A region is one of the buyer, a shelf one of the row.
MORE = (
    f", CAST(amount AS BIGINT) AS pay, 'g' || (buyer % {GROUPS}) AS region"
    f", 'g' || CAST(hash(i, 5) % {GROUPS} AS INTEGER) AS shelf"
)
PAGE = Path(__file__).with_name("scale.md")
_QUERIES = str(Path(__file__).with_name("peer_queries.py"))
_TICKS, _BLOCK = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Peak of memory and sum of processor time of all processes of one session, looked at ten times a second.

    Memory that several of them share counts for each. Of a process that ends, the time since the last look is missing.
    """

    def __init__(self, session) -> None:
        self.peak, self._session, self._ticks = 0, session, {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    @property
    def seconds(self):
        return sum(self._ticks.values()) / _TICKS

    def _run(self):
        while not self._done.wait(0.1):
            resident = 0
            for number, fields in list_processes(self._session):
                resident += int(fields[21]) * _BLOCK
                self._ticks[number] = int(fields[11]) + int(fields[12])
            self.peak = max(self.peak, resident)


def list_processes(session):
    """Return number and figures of each process of a session, whatever group it put itself into."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[3]) == session:
            found.append((int(folder.name), fields))
    return found


def end_session(process):
    """End what is left of it: Spark's workers have a group of their own, and outlive who started them."""
    for number, _ in list_processes(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def ask(tool, folder, task, runs=1):
    """Return what one process of a tool tells, with its seconds, processor seconds and peak, or how it failed."""
    python = str(PYTHONS[tool])
    with (
        tempfile.TemporaryDirectory(prefix="scale-peers-") as work,
        tempfile.TemporaryFile() as printed,
    ):
        started = time.monotonic()
        process = subprocess.Popen(
            [python, "-W", "ignore", _QUERIES, tool, str(folder), task, str(runs)],
            cwd=work,
            env=os.environ | {"PYSPARK_PYTHON": python, "TMPDIR": work},
            stdout=printed,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with Watch(process.pid) as watch:
            try:
                code = process.wait(MOST_SECONDS)
            except subprocess.TimeoutExpired:
                code = None
            ended = time.monotonic()
        end_session(process)
        if code != 0:
            return f"did not end in {MOST_SECONDS} s" if code is None else f"failed, code {code}"
        printed.seek(0)
        told = json.loads(printed.read().splitlines()[-1])
    return told | {
        "start": told["ready"] - started,
        "release": told["released"] - told["ready"],
        "whole": ended - started,
        "worked": watch.seconds,
        "peak": watch.peak,
    }


def time_tools(sizes):
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="scale-peers-") as made:
            folder = Path(made, "rows")
            write_rows(folder, size, more=MORE)
            for task in ("top", "mean"):
                for tool, python in PYTHONS.items():
                    if python is None:
                        rows.append([f"{size:,}", task, tool, "no Python named", *["-"] * 4])
                        continue
                    one = ask(tool, folder, task)
                    figures = [one, *["-"] * 4]
                    if not isinstance(one, str):
                        figures = [
                            f"{one[name]:.1f} s" for name in ("start", "release", "whole", "worked")
                        ] + [f"{one['peak'] / 1e9:.2f} GB"]
                    rows.append([f"{size:,}", task, tool, *figures])
                    print(rows[-1], file=sys.stderr, flush=True)
    return table(
        ["rows", "task", "tool", "start", "release", "whole process", "processor", "peak memory"],
        rows,
    )


def read_truth(folder, task):
    """Return of each label: the number that counts, and for means also the sum."""
    by, files = COLUMNS[task], f"read_parquet('{folder}/*.parquet')"
    figures = "count(DISTINCT buyer), 0" if task == "top" else "count(*), sum(pay)"
    with duckdb.connect() as engine:
        found = engine.execute(f"SELECT {by}, {figures} FROM {files} GROUP BY {by}").fetchall()
    return {label: (count, int(total)) for label, count, total in found}


def measure_error(truth, task, answers):
    """Return (mean absolute error, share of the true best that were found) over all answers."""
    best = sorted(truth, key=lambda label: truth[label][0], reverse=True)[:K]
    right = {
        label: count if task == "top" else total / count for label, (count, total) in truth.items()
    }
    errors = [abs(value - right.get(label, 0)) for answer in answers for label, value in answer]
    found = statistics.mean(
        len(set(best) & {label for label, _ in answer}) / K for answer in answers
    )
    return statistics.mean(errors), found


def draw_answers(truth, task, scales, middle):
    """Answers by the laws that a tool says it draws: whole Laplace noise, on counts, or on sums about `middle` and on counts."""
    rng = np.random.default_rng(1)

    def noise(scale):
        p = -np.expm1(-1 / scale)
        return int(rng.geometric(p)) - int(rng.geometric(p))

    answers = []
    for _ in range(DRAWS):
        if task == "top":
            noisy = [(label, count + noise(scales[0])) for label, (count, _) in truth.items()]
            answers.append(sorted(noisy, key=lambda one: one[1], reverse=True)[:K])
        else:
            answers.append(
                [
                    (
                        label,
                        (total - middle * count + noise(scales[0]))
                        / max(1, count + noise(scales[1]))
                        + middle,
                    )
                    for label, (count, total) in truth.items()
                ]
            )
    return answers


def compare_errors():
    rows = []
    with tempfile.TemporaryDirectory(prefix="scale-peers-") as made:
        folder = Path(made, "rows")
        write_rows(folder, SMALL, even=True, more=MORE)
        for task in COLUMNS:
            truth = read_truth(folder, task)
            # Whose bound is on all rows of a unit, wherever they lie, draws the same for both means.
            for tool, middle, laws in (
                ("sordino", None, None),
                ("OpenDP", 0, (M,) if task == "top" else (2 * M * HIGHEST, 2 * M)),
                ("Tumult", HIGHEST // 2, (M,) if task == "top" else (M * HIGHEST, 2 * M)),
            ):
                if laws is None:
                    told = ask(tool, folder, task, RUNS)
                    answers = told["answers"]
                else:
                    answers = draw_answers(truth, task, laws, middle)
                error, found = measure_error(truth, task, answers)
                how = (
                    f"{RUNS} releases"
                    if laws is None
                    else f"laws, scales {', '.join(map(str, laws))}"
                )
                rows.append(
                    [task, tool, f"{error:.3g}", f"{found:.0%}" if task == "top" else "-", how]
                )
                print(rows[-1], file=sys.stderr, flush=True)
    return table(["task", "tool", "mean absolute error", "of the true ten found", "by"], rows)


def versions():
    found = []
    for name, module in (
        ("OpenDP", "opendp"),
        ("OpenDP", "polars"),
        ("Tumult", "tmlt.analytics"),
        ("Tumult", "pyspark"),
    ):
        if PYTHONS[name] is not None:
            code = f"from importlib.metadata import version; print(version('{module}'))"
            done = subprocess.run(
                [PYTHONS[name], "-c", code], stdout=subprocess.PIPE, text=True, check=True
            )
            found.append(f"{module} {done.stdout.strip()}")
    return ", ".join(found)


def report(sizes=ROWS):
    compile_package()
    return [
        "## Beside peers",
        "",
        *machine()[:2],
        f"Peers: {versions()}.",
        "",
        f"Two questions with a pure epsilon of 1, of buyers of whom at most {M} rows, or items, count. *Top*: the {K} of 1,000 public items with the most buyers, with counts. *Mean*: of a whole amount in each of "
        f"{GROUPS} public regions, where a buyer has one region; amounts are public to lie in 0 to {HIGHEST}. A buyer has ten rows on average, and some four in ten have more: rows are cut by each tool, but by *OpenDP, trusted*, "
        f"which takes it on trust that nobody has more than {M} (`contributions={M}`), so that here its answer is not private as it says. Files are Parquet; each figure is of one cold process with both cores. "
        "*Start* is until the library, and of Tumult Spark, is there; *release* is the first one, from files to answers; *processor* is the time of all its processes, which other work on the machine moves less; "
        "*peak memory* is the sum of what is resident in them, looked at ten times a second.",
        "",
        *time_tools(sizes),
        "",
        f"Errors at the same epsilon, over {SMALL:,} rows of which each buyer has exactly {M}. No row is cut for a mean, and for *top* a buyer's repeated items count once for all. *Mean, scattered* is the same mean where a buyer's rows lie in any "
        f"of {GROUPS} groups. Ours are of {RUNS} whole releases. Peers draw whole Laplace noise of scales that they tell (`summarize`, `_noise_info`), so their errors are of {DRAWS} draws from these laws: counts alone, or sum and count of a mean.",
        "",
        *compare_errors(),
        "",
        "What was made equal, and what was not:",
        "",
        f"- **Bounds.** All know that amounts lie in 0 to {HIGHEST}. Peers clip there; ours looks for a lower clip inside the same epsilon. Tumult adds noise to the sum about the middle of the range, which halves it.",
        f"- **Cut.** Tumult: `MaxRowsPerID({M})`, or `MaxGroupsPerID` and `MaxRowsPerGroupPerID`. OpenDP: `truncate_per_group`, with an `identifier`. It cuts by a shuffle of its own; `truncate_num_groups`, meant for items, failed in this version with one column. Ours takes rows by a secret salt.",
        f"- **Rows of a buyer in several groups.** All bound the rows of a buyer by {M} in all groups together. Where a buyer has one region, ours is told so (`groups_per_unit=1`), which is no better here.",
        "- **Keys** are public for all: a key set (Tumult), `with_keys` (OpenDP), a domain (ours).",
        "- **Intervals.** Ours come with one for each figure; peers' figures are bare.",
        "- **cwida/privacy**, an extension of DuckDB, is not in the tables. It is handed out by DuckDB's own server of community extensions, which was out of reach, and by no package index. Its source (edd1164, for DuckDB 1.5.4) did not "
        "compile in one try (half of its files, against the headers of that version), which was not followed up. By its documentation grouped queries are (epsilon, delta) there, never pure, so they would not have been at the same guarantee.",
        "",
        "Made with `python -m benchmarks.scale_peers`.",
    ]


if __name__ == "__main__":
    write_section(PAGE, "scale_peers", report([int(one) for one in sys.argv[1:]] or ROWS))
