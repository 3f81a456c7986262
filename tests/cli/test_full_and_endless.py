"""Streams that take no more, have no reader, know fewer letters, are interrupted, or never end.

Exit codes stay the documented ones. Processes are real, and buffer what they write, as they do where nobody asks them not to.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from sordino import cli

LOST = "Error: The release could not be written to stdout: it is lost, and its charge stays.\n"
STOPPED = cli.SYSTEM + "\n"
MAIN = "from sordino import cli; cli.main()"


def environment(**more):
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | more


def started(*arguments, code=MAIN, given=b"", **streams):
    """Run the command as a process that buffers its output."""
    line = [sys.executable, "-c", code, *map(str, arguments)]
    kinds = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | streams
    return subprocess.run(line, input=given, timeout=120, check=False, **kinds)


@pytest.fixture
def full():
    with Path("/dev/full").open("wb") as file:
        yield file


@pytest.fixture
def gone():
    """A pipe that nobody reads."""
    behind, front = os.pipe()
    os.close(behind)
    yield front
    os.close(front)


FREE = ("--epsilon", 1, "--no-ledger")
WRITERS = {
    "count": (("count", "orders.csv", "--row-is-unit", *FREE), LOST),
    "version": (("--version",), STOPPED),
    "above on stdin": (("above", "-", "--threshold", 1, "-c", 1, "--sensitivity", 1, *FREE), LOST),
    "help": (("top", "--help"), STOPPED),
    "randomize": (
        ("randomize", "orders.csv", "--column", "price", "--lower", 0, "--upper", 9, *FREE),
        LOST,
    ),
    "randomize on stdin": (
        ("randomize", "-", "--column", "x", "--lower", 0, "--upper", 9, *FREE),
        LOST,
    ),
    "select": (
        ("select", "items.csv", "--score", "code", "--sensitivity", 1, "--format", "csv", *FREE),
        LOST,
    ),
    "plan": (("plan", "selector", "-m", 3, "--epsilon", 1), LOST),
    "ledger": (("ledger", "show", "--ledger", "budget.db", "--account", "shop"), LOST),
    "audit": (("audit", "RandomizedResponse"), LOST),
    "quantile": (
        (
            "quantile",
            "orders.csv",
            "--column",
            "price",
            "--q",
            0.5,
            "--cap",
            9,
            "--row-is-unit",
            *FREE,
        ),
        LOST,
    ),
}
FIRST = ("count", "version", "above on stdin")
GIVEN = {"above on stdin": b"a,1\n", "randomize on stdin": b"x\n1\n"}


@pytest.mark.parametrize(
    "which", [pytest.param(w, marks=() if w in FIRST else pytest.mark.slow) for w in WRITERS]
)
@pytest.mark.sample(4)
def test_a_full_stdout_is_exit_code_four_and_one_sentence(which, full, orders, account):
    line, sentence = WRITERS[which]
    done = started(*line, given=GIVEN.get(which, b""), stdout=full, cwd=orders.parent)
    assert (done.returncode, done.stderr.decode()) == (4, sentence)


def test_the_last_flush_of_the_interpreter_would_decide_otherwise(full, orders):
    """Broken twin: what could not be written is left to the interpreter, which tries again and ends with 120."""
    code = "from sordino import cli; cli._flush_or_drop = lambda *given: None; cli.main()"
    done = started("--version", code=code, stdout=full)
    assert done.returncode == 120


@pytest.mark.parametrize("end", ["full", "gone", pytest.param("closed", marks=pytest.mark.slow)])
@pytest.mark.sample(4)
def test_a_charge_stays_and_one_that_could_not_be_delivered_is_none(
    end, sordino, orders, account, request
):
    streams = {} if end == "closed" else {"stdout": request.getfixturevalue(end)}
    closed = {"preexec_fn": lambda: os.close(1)} if end == "closed" else {}
    done = started(
        "count",
        orders,
        "--user",
        "customer",
        "--units",
        "--epsilon",
        1,
        *account,
        **streams,
        **closed,
    )
    code, spent, sentence = {"full": (4, 1, LOST), "gone": (0, 1, ""), "closed": (2, 0, None)}[end]
    assert done.returncode == code
    assert sordino("ledger", "show", *account).json["spent"] == spent
    assert sentence is None or done.stderr.decode() == sentence


@pytest.mark.parametrize("end", ["full", "gone"])
@pytest.mark.sample(4)
def test_nothing_about_stderr_decides_an_exit_code(end, orders, request):
    line = ("count", orders, "--row-is-unit", "--no-quiet", "--no-ledger")
    stream = request.getfixturevalue(end)
    released = started(*line, "--epsilon", 1, stderr=stream)
    assert released.returncode == 0
    assert json.loads(released.stdout)["release"] == "count"
    assert started(*line, "--epsilon", "nan", stderr=stream).returncode == 2
    assert (
        started(
            "count", orders.with_name("none.csv"), "--row-is-unit", *FREE, stderr=stream
        ).returncode
        == 4
    )


@pytest.mark.parametrize("end", ["full", "gone"])
@pytest.mark.sample(4)
def test_nor_does_a_progress_bar_there(end, orders, request):
    # It is drawn after the charge, where work takes long: then the release was lost, and with a reader that
    # had gone the code was 0.
    code = "from sordino import cli; from sordino.cli import work; work.PATIENCE = 0; cli.main()"
    line = ("count", orders, "--row-is-unit", "--no-quiet", "--no-ledger", "--epsilon", 1)
    released = started(*line, code=code, stderr=request.getfixturevalue(end))
    assert (released.returncode, json.loads(released.stdout)["release"]) == (0, "count")


@pytest.mark.parametrize("room", [0, 30, None])
@pytest.mark.sample(4)
def test_where_stdout_ends_is_decided_by_what_is_released(room, tmp_path):
    """With so much room a release is lost if, and only if, it is longer: two tables with one release have one exit code."""
    out = tmp_path / "out"
    fixed = (
        "--seed",
        3,
        "--synthetic",
        "--column",
        "x",
        "--lower",
        0,
        "--upper",
        1,
        "--epsilon",
        1,
    )
    most = resource.RLIM_INFINITY if room is None else room
    codes, texts = set(), set()
    for rows in (b"x\n1\n0.5\n0.25\n", b"x\n1\n0.5,private\n0.25\n"):
        with out.open("wb") as file:
            done = started(
                *("randomize", "-", *fixed),
                given=rows,
                stdout=file,
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY)
                ),
            )
        codes.add(done.returncode)
        texts.add(out.read_bytes())
    assert codes == {0 if room is None else 4}
    assert len(texts) == 1
    assert room is None or len(texts.pop()) == room


@pytest.mark.parametrize("form", ["json", "csv", "table"])
@pytest.mark.sample(4)
def test_a_label_that_stdout_has_no_letters_for_is_spelled(form, tmp_path):
    scores = tmp_path / "scores.csv"
    scores.write_text("label,score\né漢😀,1\n", encoding="utf-8")
    line = (
        "select",
        scores,
        "--score",
        "score",
        "--label",
        "label",
        "--sensitivity",
        1,
        "--epsilon",
        1,
        "--no-ledger",
        "--format",
        form,
    )
    done = started(*line, env=environment(PYTHONIOENCODING="latin-1"))
    assert done.returncode == 0
    text = done.stdout.decode("latin-1")
    if form == "json":
        assert json.loads(text)["rows"][0]["label"] == "é漢😀"
    assert r"é\u6f22\ud83d\ude00" in text


def test_an_error_of_the_engine_after_an_interrupt_is_an_interrupt(orders):
    """An engine that is interrupted raises an error of its own, which is no defect of sordino."""
    failing = """
import os, signal
from sordino import cli
from sordino.sources import validation
def ask(self, question, labels=None):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 5)
    except KeyboardInterrupt:
        pass
    raise RuntimeError("Query interrupted")
validation.QueryValidation.ask = lambda *given: ask(None, "")
{twin}
cli.main()
"""
    line = ("count", orders, "--row-is-unit", *FREE)
    done = started(*line, code=failing.replace("{twin}", ""))
    assert (done.returncode, done.stderr.decode()) == (130, cli.INTERRUPTED + "\n")
    deaf = "def hear(number, frame):\n    raise KeyboardInterrupt\ncli._receive_signal = hear"
    assert started(*line, code=failing.replace("{twin}", deaf)).returncode == 1, (
        "the broken twin forgets that a signal came"
    )


INSTANTS = {
    "before anything is done": ("cli.signal.signal", 3, 130),
    "while it is answered": ("cli._report_error", 1, 130),
    "once the exit code is known": ("sys.exit", 1, 2),
}


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.sample(4)
def test_a_signal_at_any_instant_is_an_interrupt_or_nothing(instant):
    """Also between two lines of the command itself: there an interrupt once was a traceback and exit code 1."""
    name, call, code = INSTANTS[instant]
    hit = f"""
import os, signal, sys
from sordino import cli
real, calls = {name}, []
def interrupted(*given):
    calls.append(given)
    out = None if {name!r} == "sys.exit" else real(*given)
    if len(calls) == {call}:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
    return real(*given) if {name!r} == "sys.exit" else out
{name} = interrupted
cli.main()
"""
    done = started("count", "--no-such-option", code=hit)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_what_nobody_can_catch_is_not_printed():
    """An interrupt in a finalizer, for example; Python would print the lines that it came through, and what stands there."""
    failing = """
from sordino import cli
class Private:
    def __repr__(self):
        return "<private 86753099>"
    def __del__(self):
        raise KeyboardInterrupt("86753099")
ready = cli._prepare_run
def with_one(arguments):
    Private()
    return ready(arguments)
cli._prepare_run = with_one
cli.main()
"""
    done = started("count", "--no-such-option", code=failing)
    assert done.returncode == 2
    assert b"86753099" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_signals_are_heard_where_no_callback_of_the_engine_runs(sordino, top, monkeypatch):
    from sordino.sources import engine as engine_module

    threads = []
    ask = engine_module.Engine.ask

    def seen(self, *given, **named):
        threads.append(threading.current_thread() is threading.main_thread())
        return ask(self, *given, **named)

    monkeypatch.setattr(engine_module.Engine, "ask", seen)
    assert top().code == 0
    assert threads
    assert not any(threads)


def test_a_signal_that_is_ignored_stays_ignored():
    """As `nohup` asks for: a stream goes on when its terminal goes."""
    line = [
        sys.executable,
        "-c",
        MAIN,
        "above",
        "-",
        "--threshold",
        "5",
        "-c",
        "1",
        "--epsilon",
        "9",
        "--sensitivity",
        "1",
        "--no-ledger",
    ]
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), **ignore
    ) as child:
        child.stdin.write(b"a,-1000\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["label"] == "a"
        child.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        rest, _ = child.communicate(b"b,-1000\n", timeout=60)
        assert json.loads(rest)["label"] == "b"
        assert child.returncode == 0


class Endless:
    """A standard input without end, that tells how much was taken of it; it gives up after so many MiB."""

    def __init__(self, first, again, most=24):
        self.pieces = itertools.chain([first], itertools.repeat(again))
        self.taken, self.most, self.rest = 0, most << 20, b""

    def read1(self, size=-1):
        if self.taken > self.most:
            return b""
        piece = self.rest or next(self.pieces)
        piece, self.rest = piece[:size], piece[size:]
        self.taken += len(piece)
        return piece

    read = read1

    def readline(self, size):
        piece = self.rest or next(self.pieces)
        end = piece.find(b"\n") + 1
        if end:
            self.rest = piece[end:]
            self.taken += end
            return piece[:end]
        found = piece
        while len(found) < size:
            found += next(self.pieces)
        self.taken += size
        return found[:size]


ABOVE = ("above", "-", "--threshold", 5, "-c", 1, "--sensitivity", 1, *FREE)
RANDOMIZE = ("randomize", "-", "--column", "x", "--lower", 0, "--upper", 1, *FREE)
ZEROS, LETTERS = b"\0" * (1 << 16), b"x" * (1 << 16)
ENDLESS = {
    # line, first bytes, all others, exit code, most MiB that may be taken before the end
    "zeros": (ABOVE, b"\0", ZEROS, 4, 3),
    "an open quote": (ABOVE, b'"a', LETTERS, 4, 3),
    "an answer without end": (ABOVE, b"a,", ZEROS, 0, None),
    "empty lines": (ABOVE, b"\n", b"\n" * (1 << 16), 0, None),
    "a header without end": (RANDOMIZE, b"x", LETTERS, 4, 3),
    "a line without end": (RANDOMIZE, b"x\n", LETTERS, 0, None),
    "a line of delimiters": (RANDOMIZE, b"x\n", b"," * (1 << 16), 0, None),
    "a line of quotes": (RANDOMIZE, b"x\n", b'"' * (1 << 16), 0, None),
    "a unit without end": (
        (*RANDOMIZE, "--user", "u", "--max-rows", 1),
        b"u,x\n",
        LETTERS,
        0,
        None,
    ),
}


@pytest.mark.parametrize("which", ENDLESS)
@pytest.mark.sample(4)
def test_input_without_end_is_refused_or_read_in_bounded_memory(which, sordino, monkeypatch):
    line, first, again, code, most = ENDLESS[which]
    sordino(*line[:1], "--help")  # what is imported late is no part of it
    given = Endless(
        first, again, most=1 if which == "empty lines" else 24
    )  # each of which is looked at
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    tracemalloc.start()
    try:
        result = sordino(*line)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.code == code
    assert peak < 20 << 20, f"{peak >> 20} MiB"
    assert given.taken >> 20 < most if most is not None else given.taken > given.most


def test_what_is_held_would_be_seen(sordino, monkeypatch):
    """Broken twin: an answer that is too long is kept."""
    from sordino.sources.csv.answer_lines import _AnswerLines

    monkeypatch.setattr(_AnswerLines, "_keep", lambda self, rest: self._rest.extend(rest))
    with pytest.raises(AssertionError, match="MiB"):
        test_input_without_end_is_refused_or_read_in_bounded_memory(
            "an answer without end", sordino, monkeypatch
        )


def test_what_is_no_ordinary_file_is_refused_unread(sordino, orders, tmp_path):
    """A device or a named pipe has no end that anybody knows: it is refused before it is opened, which could wait for ever."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    unit = ("--row-is-unit", *FREE)
    for path in (pipe, Path("/dev/zero")):
        for line in (
            ("count", path, *unit),
            ("randomize", path, "--column", "x", "--lower", 0, "--upper", 1, *FREE),
            ("select", path, "--score", "x", "--sensitivity", 1, *FREE),
            ("top", orders, "--item", "product", "-k", 1, "--domain", path, *unit),
        ):
            result = sordino(*line)
            assert (result.code, result.out) == (4, ""), line
            assert "must " in result.err


def test_a_domain_of_one_endless_line_is_refused(sordino, orders, tmp_path):
    """The file is public, and yet it need not fill the memory."""
    listed = tmp_path / "listed.csv"
    for beginning in (b"", b"name\ntea\n"):
        listed.write_bytes(beginning)
        os.truncate(listed, 64 << 20)  # zeros that take no room on the disk
        line = (
            "top",
            orders,
            "--item",
            "product",
            "-k",
            1,
            "--row-is-unit",
            *FREE,
            "--domain",
            listed,
        )
        sordino("top", "--help")
        tracemalloc.start()
        try:
            result = sordino(*line)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert result.code == 4
        assert peak < 24 << 20


def test_a_domain_that_is_read_whole_would_be_seen(sordino, orders, tmp_path, monkeypatch):
    """Broken twin: lines of any length."""
    from sordino.questions import label_files

    monkeypatch.setattr(label_files, "_read_bounded_lines", lambda file: file)
    with pytest.raises(AssertionError):
        test_a_domain_of_one_endless_line_is_refused(sordino, orders, tmp_path)


def test_a_program_that_calls_the_command_keeps_its_own_garbage_collected(orders):
    """Only the command's own process may be spared that: garbage of another one may hold private rows."""
    frozen = gc.get_freeze_count()
    assert cli.run(["count", str(orders), "--row-is-unit", *map(str, FREE), "--quiet"]) == 0
    assert gc.get_freeze_count() <= frozen
    alone = started(
        "count",
        orders,
        "--row-is-unit",
        *FREE,
        code="import gc\nfrom sordino import cli\n"
        "cli.sys.exit = lambda code: print(gc.get_freeze_count() > 0)\ncli.main()",
    )
    assert alone.stdout.decode().endswith("True\n")
