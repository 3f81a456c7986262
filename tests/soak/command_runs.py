"""How a command line is run: in a child that was forked with everything imported, in one that plays many, or as a process of its own.

A fork costs a tenth of a second less than a start. What the child does is what the interpreter does: `main`, the functions at exit, a last
flush. Every run is bounded in time, memory, processor and size of files, and ended by its own process group alone.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pty
import resource
import select
import shutil
import signal
import sqlite3
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from soak import command_files
from soak.command_lines import Case

PATIENCE = 20.0
"""Seconds that a run may take."""

MEMORY = 1 << 30
"""Bytes that a run may have in memory."""

ADDRESSES = 12 << 30
FILES = 128 << 20
NOBODY = 65534
SHOWN = 4 << 20
"""What is read of an output."""


@dataclass
class Outcome:
    """What a run left behind; no code where it did not end in time."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float
    memory: int
    left: dict[str, bytes] = field(default_factory=dict)
    signalled: bool = False
    before: dict[str, int] | None = None
    after: dict[str, int] | None = None


class Stage:
    """Folders in which cases are played one after the other: always the same paths, because an account is about a path."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.library, self.folder, self.temporary = home / "library", home / "case", home / "tmp"
        home.chmod(0o755)
        self.shared = _readable_by_others()

    def prepare(self, case: Case, variant: str) -> set[str]:
        """Write the files that a case names; return the names of what is there."""
        self.clear()
        os.umask(0o022)
        self.folder.mkdir()
        self.temporary.mkdir()
        for name in command_files.named([*case.arguments, case.stdin, *case.environment.values()]):
            command_files.write(name, self.folder, self.library, case.seed, variant)
        if case.nobody and self.shared:
            for path in (self.folder, self.temporary, *self.folder.iterdir()):
                if path.name not in {"closed.csv", "readonly.db"}:
                    os.chown(path, NOBODY, NOBODY)
        return {path.name for path in self.folder.iterdir()}

    def clear(self) -> None:
        """Remove what the case before left."""
        for path in (self.folder, self.temporary):
            shutil.rmtree(path, ignore_errors=True)

    def spent(self) -> dict[str, int] | None:
        """Return what each account of the ledger has spent, -1 for too much; None where that cannot be read."""
        path = self.folder / "l.db"
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        except sqlite3.Error:
            return None
        try:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%account'"
            ).fetchall()
            rows = connection.execute(
                f'SELECT name, spent, allowance FROM "{names[0][0]}"'
            ).fetchall()
        except (sqlite3.Error, IndexError):
            return None
        finally:
            connection.close()
        return {name: spent if spent <= allowance else -1 for name, spent, allowance in rows}

    def left(self, before: set[str]) -> dict[str, bytes]:
        """Return files that are new, or that a run may write, with their bytes; their names are relative."""
        found = {}
        for top in (self.folder, self.temporary):
            for path in sorted(top.rglob("*")):
                name = path.relative_to(self.home).as_posix()
                known = path.name in before and top == self.folder
                if path.is_file() and (not known or path.suffix == ".db"):
                    found[name] = path.read_bytes()[:SHOWN]
                elif not known and path.is_dir():
                    found[name + "/"] = b""
        return found


def _readable_by_others() -> bool:
    """Tell whether somebody else, too, can import what a run imports late."""
    places = [
        Path(path) for path in (os.__file__, __file__, command_files.__file__, *sys.path) if path
    ]
    whole = {
        parent for place in places if place.exists() for parent in (place, *place.resolve().parents)
    }
    return os.geteuid() == 0 and all(path.stat().st_mode & 0o005 >= 0o004 for path in whole)


def environment_of(case: Case, stage: Stage) -> dict[str, str]:
    """Return the environment of a run."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "OPENBLAS_NUM_THREADS")
        if name in os.environ
    }
    plain = {
        "HOME": str(stage.folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return kept | plain | {"TMPDIR": str(stage.temporary)} | case.environment


class Streams:
    """The ends of the three streams: those of the run, and those that are looked at here."""

    def __init__(self, case: Case, stage: Stage) -> None:
        self.case, self.ours, self.theirs = case, list[int](), [-1, -1, -1]
        self.read: dict[int, tuple[str, bytearray]] = {}
        self.files = {"out": stage.home / "out", "err": stage.home / "err"}
        for path in self.files.values():
            path.write_bytes(b"")
        self.theirs[0] = self._input(case.stdin, stage)
        self.theirs[1] = self._output(case.stdout, "out")
        terminal = case.stderr == case.stdout == "terminal"
        self.theirs[2] = os.dup(self.theirs[1]) if terminal else self._output(case.stderr, "err")

    def _input(self, kind: str, stage: Stage) -> int:
        if kind == "closed":
            return -1
        path = Path(os.devnull) if kind == "null" else stage.folder / kind
        if kind != "null" and path.stat().st_size < 50_000 and self.case.seed % 2:
            behind, front = os.pipe()
            os.write(front, path.read_bytes())
            os.close(front)
            return behind
        return os.open(path, os.O_RDONLY)

    def _output(self, kind: str, name: str) -> int:
        if kind == "closed":
            return -1
        if kind == "full":
            return os.open("/dev/full", os.O_WRONLY)
        if kind in {"gone", "early"}:
            behind, front = os.pipe()
            if kind == "gone":
                os.close(behind)
            else:
                self.read[behind] = kind, bytearray()
            return front
        if kind == "terminal":
            behind, front = pty.openpty()
            self.read[behind] = "terminal", bytearray()
            return front
        return os.open(self.files[name], os.O_WRONLY | os.O_APPEND)

    def enter(self) -> None:
        """Put the ends in place, in the child."""
        for place, end in enumerate(self.theirs):
            if end < 0:
                with contextlib.suppress(OSError):
                    os.close(place)
            else:
                os.dup2(end, place)
        for end in {*self.theirs, *self.read} - {-1, 0, 1, 2}:
            os.close(end)

    def started(self) -> None:
        """Close what only the child needs."""
        for end in self.theirs:
            if end >= 0:
                os.close(end)

    def look(self, seconds: float, more: tuple[int, ...] = ()) -> list[int]:
        """Read what came, for so long at most; return which of the others has something."""
        ready, _, _ = select.select([*self.read, *more], [], [], max(seconds, 0))
        for end in ready:
            if end in self.read:
                kind, text = self.read[end]
                piece = b""
                with contextlib.suppress(OSError):
                    piece = os.read(end, 1 << 16)
                text += piece
                if not piece or kind == "early":
                    os.close(end)
                    del self.read[end]
                    self.files["out"].write_bytes(bytes(text))
        return [end for end in ready if end in more]

    def ended(self) -> None:
        """Read the rest and close all ends."""
        while self.read:
            held = set(self.read)
            self.look(0)
            if held == set(self.read):
                break
        for end, (_, text) in self.read.items():
            self.files["out"].write_bytes(bytes(text))
            os.close(end)

    def said(self, name: str) -> bytes:
        """Return what was written to a stream that is looked at."""
        with self.files[name].open("rb") as file:
            return file.read(SHOWN)


def play(case: Case) -> int:
    """Run the command in this process, as the interpreter would, and return its exit code; the streams are in place."""
    from sordino.cli import main

    sys.argv = ["sordino", *case.arguments]
    _open_streams(case)
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  (what gets here, the interpreter would print)
        traceback.print_exc()
        code = 1
    return code


def finish(code: int) -> int:
    """Do what the interpreter does at its end, and return the code that it ends with."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"Exception ignored while flushing stdout: {type(error).__name__}", file=sys.stderr)
        code = 120
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    return code & 0xFF


def _open_streams(case: Case) -> None:
    """Open the three streams as the interpreter does, in the encoding that the environment names."""
    plain = case.environment.get("PYTHONUTF8") == "0"
    encoding = case.environment.get("PYTHONIOENCODING", "ascii" if plain else "utf-8")
    errors = "surrogateescape" if plain else "strict"

    def opened(place: int, mode: str, errors: str) -> io.TextIOWrapper | None:
        try:
            os.fstat(place)
        except OSError:
            return None
        lines = place == 2 or os.isatty(place)
        raw = open(place, mode + "b", closefd=False)  # noqa: SIM115
        return io.TextIOWrapper(
            raw,
            encoding=encoding,
            errors=errors,
            line_buffering=lines and mode == "w",
            newline=None,
        )

    sys.stdin, sys.stdout, sys.stderr = (  # type: ignore[assignment]
        opened(0, "r", errors), opened(1, "w", errors), opened(2, "w", "backslashreplace"))  # fmt: skip


def bound() -> None:
    """Let this process, and what it starts, have so much and no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILES, FILES))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))


def run_forked(case: Case, stage: Stage, variant: str = "plain") -> Outcome:
    """Run a case in a fork of this process, or as a process of its own."""
    names = stage.prepare(case, variant)
    before = stage.spent() if "l.db" in names else None
    streams = Streams(case, stage)
    ready, told = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(ready)
            os.setsid()
            streams.enter()
            _enter(case, stage)
            if case.mode == "process":
                _become(case)
            os.write(told, b".")
            os.close(told)
            code = finish(play(case))
        except KeyboardInterrupt:  # outside of what the command can catch
            code = 130
        finally:
            os._exit(code)
    os.close(told)
    streams.started()
    outcome = _wait(case, child, streams, ready, begun)
    os.close(ready)
    streams.ended()
    outcome.out, outcome.err, outcome.left = (
        streams.said("out"),
        streams.said("err"),
        stage.left(names),
    )
    outcome.before, outcome.after = before, None if before is None else stage.spent()
    return outcome


def _enter(case: Case, stage: Stage) -> None:
    os.chdir(stage.folder)
    environment = environment_of(case, stage)
    os.environ.clear()
    os.environ.update(environment)
    bound()
    for name in (
        "SIGTERM",
        "SIGHUP",
        "SIGINT",
    ):  # as `main` has it: so no signal of ours comes too early
        signal.signal(getattr(signal, name), signal.default_int_handler)
    if case.nobody and stage.shared:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _become(case: Case) -> None:
    for name in ("SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    line = [sys.executable, "-c", "from sordino.cli import main; main()", *case.arguments]
    os.execve(sys.executable, [os.fsencode(word) for word in line], os.environ)


def _wait(case: Case, child: int, streams: Streams, ready: int, begun: float) -> Outcome:
    """Wait for the end of a child, send it the signal of its case, and end it where it takes too long."""
    signalled, at, pause = False, None, 0.001
    waiting: tuple[int, ...] = (ready,) if case.signal is not None else ()
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        now = time.monotonic()
        if ended:
            code: int | None = os.waitstatus_to_exitcode(status)
            break
        if now - begun > PATIENCE:
            os.killpg(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            code = None
            break
        if at is not None and case.signal is not None and now >= at:
            os.kill(child, getattr(signal, case.signal[0]))
            signalled, at = True, None
        heard = streams.look(pause, waiting)
        if heard and case.signal is not None:
            waiting, at = (), now + case.signal[1]
        pause = min(pause * 1.5, 0.02)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it started ends with it
    return Outcome(
        code, b"", b"", time.monotonic() - begun, used.ru_maxrss * 1024, signalled=signalled
    )
