"""The soak of commands: random command lines on random input, with laws that hold for every one.

`run` starts workers that are processes of their own: each imports the command once, and forks for every line. A case that breaks a law is
written down as a shell line and the seed that makes it again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak.command_lines import Case

TOLD = 60.0
"""Seconds between two lines about how far it is."""

TWINS = (
    "message-quotes-a-field",
    "header-before-the-charge",
    "exit-code-seven",
    "uncaught",
    "rows-left-in-a-file",
    "charged-and-refused",
    "ledger-keeps-a-row",
    "a-bad-line-refuses",
    "warning",
    "nobody-asks-who-pays",
)


@dataclass
class Summary:
    """What was looked at, and what was found: law, seed and line of the first case of each kind."""

    cases: int = 0
    runs: int = 0
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    around: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, Any]] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0


def run(arguments: list[str]) -> int:
    """Look for breaches as the arguments say; 1 if there were any."""
    asked = _arguments(arguments)
    if asked.worker is not None:
        from soak.command_worker import work

        return work(asked)
    summary = look(asked)
    print(told(summary))
    if asked.folder:
        kept = Path(asked.folder)
        kept.mkdir(parents=True, exist_ok=True)
        for one in summary.found:
            (kept / f"command-{one['seed']}.json").write_text(
                json.dumps(one, indent=2) + "\n", encoding="utf-8"
            )
    return int(bool(summary.found))


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak commands", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to look")
    parser.add_argument("--cases", type=int, help="look at so many cases at most")
    parser.add_argument(
        "--seed",
        type=int,
        help="where to begin: the same seed, the same cases; by default, what the clock says",
    )
    parser.add_argument("--case", type=int, metavar="SEED", help="look at one case, and show it")
    parser.add_argument(
        "--broken", choices=TWINS, help="break one thing, and stop when that is found"
    )
    parser.add_argument("--only", metavar="WORD", help="only cases whose command has this word")
    parser.add_argument("--stop", action="store_true", help="stop at the first finding")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", default="", help="where findings are kept")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def look(asked: argparse.Namespace) -> Summary:
    """Let workers look, and add up what they say."""
    seed = int(time.time()) if asked.seed is None else asked.seed
    begun = time.monotonic()
    summary = Summary()
    stop = asked.broken is not None or asked.stop or asked.case is not None
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        os.chmod(home, 0o755)  # noqa: PTH101  (some runs are those of nobody)
        workers = [
            _start(asked, seed, place, Path(home))
            for place in range(1 if asked.case is not None else asked.processes)
        ]
        try:
            _listen(workers, summary, begun, stop=stop)
        finally:
            for one in workers:
                one.terminate()
                one.communicate()
    summary.seconds = time.monotonic() - begun
    return summary


def _start(asked: argparse.Namespace, seed: int, place: int, home: Path) -> subprocess.Popen[str]:
    more = [] if asked.broken is None else ["--broken", asked.broken]
    more += [] if asked.case is None else ["--case", str(asked.case)]
    more += [] if asked.only is None else ["--only", asked.only]
    more += [] if asked.cases is None else ["--cases", str(-(-asked.cases // asked.processes))]
    line = [
        sys.executable,
        "-m",
        "soak.commands",
        "--worker",
        str(place),
        "--seed",
        str(seed),
        "--minutes",
        str(asked.minutes),
    ]
    line += ["--processes", str(asked.processes), "--folder", str(home / str(place)), *more]
    import sordino

    paths = [
        str(Path(__file__).resolve().parents[1]),
        str(Path(sordino.__file__).resolve().parents[1]),
    ]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)


def _listen(
    workers: list[subprocess.Popen[str]], summary: Summary, begun: float, *, stop: bool
) -> None:
    import selectors

    waiting = selectors.DefaultSelector()
    for one in workers:
        assert one.stdout is not None
        waiting.register(one.stdout, selectors.EVENT_READ, one)
    shown = begun
    while waiting.get_map():
        for key, _ in waiting.select(timeout=1.0):
            line = key.fileobj.readline()  # type: ignore[union-attr]
            if not line:
                waiting.unregister(key.fileobj)
                if key.data.wait():
                    lost = {
                        "law": "a worker is lost",
                        "like": "worker",
                        "seed": -1,
                        "line": f"exit code {key.data.returncode}",
                    }
                    summary.found.append(lost)
                continue
            _add(summary, json.loads(line))
            if stop and summary.found:
                return
        if time.monotonic() > shown + TOLD:
            shown = time.monotonic()
            print(
                f"{shown - begun:.0f} s: {summary.runs} runs, {len(summary.found)} findings",
                file=sys.stderr,
                flush=True,
            )


def _add(summary: Summary, said: dict[str, Any]) -> None:
    summary.cases += said["cases"]
    summary.runs += said["runs"]
    for name in ("codes", "paths", "around"):
        getattr(summary, name).update(said[name])
    summary.slowest, summary.largest = (
        max(summary.slowest, said["slowest"]),
        max(summary.largest, said["largest"]),
    )
    for one in said["found"]:
        summary.times[one["like"]] += 1
        if summary.times[one["like"]] == 1:
            summary.found.append(one)
            print(
                f"FOUND {one['law']}\n  seed {one['seed']}: {one['line']}",
                file=sys.stderr,
                flush=True,
            )


def told(summary: Summary) -> str:
    """Return what was looked at and found as lines for people."""
    rate = summary.runs / max(summary.seconds, 1e-9)
    lines = [
        f"{summary.runs} runs of {summary.cases} command lines in {summary.seconds:.0f} s, {rate:.1f} a second; {len(summary.found)} "
        f"findings; slowest {summary.slowest:.1f} s, at most {summary.largest >> 20} MiB"
    ]
    lines += [f"  exit code {code}: {times}" for code, times in sorted(summary.codes.items())]
    lines += [f"  {path}: {times}" for path, times in sorted(summary.paths.items())]
    lines += [f"  {what}: {times}" for what, times in sorted(summary.around.items()) if times]
    for one in summary.found:
        lines.append(
            f"FOUND {one['law']} ({summary.times[one['like']]} times), seed {one['seed']}\n  {one['line']}"
        )
    return "\n".join(lines)


def shell_line(case: Case) -> str:
    """Return a case as a line for a shell, as far as a shell can say it."""
    ends = {
        "full": ">/dev/full",
        "closed": ">&-",
        "gone": "| true",
        "early": "| head -c 1",
        "terminal": "(terminal)",
        "file": "",
    }
    words = [f"{name}={value}" for name, value in case.environment.items()] + [
        "sordino",
        *case.arguments,
    ]
    line = shlex.join(
        word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words
    )
    behind = {"null": "", "closed": "<&-"}.get(case.stdin, f"<{case.stdin}")
    error = "" if case.stderr == "file" else "2" + ends[case.stderr]
    coming = "" if case.signal is None else f"({case.signal[0]} after {case.signal[1]:.3f} s)"
    return " ".join(
        part
        for part in (
            line,
            behind,
            ends[case.stdout],
            error,
            coming,
            "(as nobody)" if case.nobody else "",
        )
        if part
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
