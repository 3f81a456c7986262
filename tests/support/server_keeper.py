"""Keep one server for the tests that started this process; end it when they are gone.

The tests hold the other end of standard input. The system closes it when their process ends, killed or not: then
the server is stopped, by the signal whose number was given, and the folder removed. Each line is one order, in JSON, and
has one line of answer.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE = 300.0


def started(folder: Path, command: list[str], who: dict[str, Any]) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **who
        )


def ended(server: subprocess.Popen[bytes], how: int) -> int | None:
    """Send a signal and wait; return None when the server is still there."""
    server.send_signal(how)
    with suppress(subprocess.TimeoutExpired):
        server.wait(PATIENCE)
    return server.poll()


def killed(server: subprocess.Popen[bytes]) -> int | None:
    """Kill the server and every process of it at once: none of them writes or removes anything any more."""
    server.send_signal(
        signal.SIGSTOP
    )  # it makes no processes any more, and nobody else gets their numbers
    for process in children(server.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return ended(server, signal.SIGKILL)


def children(parent: int) -> list[int]:
    if Path("/proc/self/stat").exists():
        pairs = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                its_parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
                pairs.append((int(path.parent.name), int(its_parent)))
    else:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        )
        pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    return [process for process, its_parent in pairs if its_parent == parent]


def forget_memory(folder: Path) -> None:
    """Give back the shared memory of a killed server, which the system would keep until it is restarted."""
    with suppress(FileNotFoundError):  # a server that was stopped has given it back
        number = (folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        ctypes.CDLL(None).shmctl(int(number), 0, None)  # 0 is IPC_RMID


def keep(folder: Path, how: int) -> None:
    server: subprocess.Popen[bytes] | None = None
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        answer: int | bool | None
        if order == "start":
            server = started(folder, *arguments)
            answer = server.pid
        elif order == "look" or server is None:
            answer = server is not None and server.poll() is None
        else:
            answer = ended(server, *arguments) if order == "end" else killed(server)
        print(json.dumps(answer), flush=True)
    if server is not None and server.poll() is None and ended(server, how) is None:
        killed(server)
    forget_memory(folder)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    try:
        keep(place, int(sys.argv[2]))
    finally:
        shutil.rmtree(place, ignore_errors=True)
