"""The servers that tests make for themselves: they keep what was committed, and they end with their tests."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from support import postgres
from support.postgres import NoServer, own_server, started_server
from support.server_keeper import children

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 60.0


def rows(address):
    with psycopg.connect(address) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM kept ORDER BY value")]


def gone(process):
    """Tell whether a process has ended; one that nobody has asked how it ended has."""
    try:
        if Path("/proc/self/stat").exists():
            state = (
                Path(f"/proc/{process}/stat")
                .read_text(errors="replace")
                .rpartition(")")[2]
                .split()[0]
            )
            return state == "Z"
        os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError):
        return True
    return False


def is_kept(memory):
    """Tell whether the system still keeps a piece of memory that processes share."""
    return ctypes.CDLL(None).shmget(ctypes.c_int(int(memory)), ctypes.c_size_t(0), 0) != -1


def in_time(happens):
    give_up = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def postmaster(server):
    return int((server.data / "postmaster.pid").read_text().split()[0])


def test_a_server_that_is_killed_keeps_what_was_committed():
    with started_server(work_mem="5MB") as server:
        folder, address = server.folder, server.address
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
            connection.execute("CREATE TABLE kept (value bigint)")
        for round_, ends in enumerate(
            (server.kill, server.stop, lambda: server.stop(signal.SIGQUIT), server.kill)
        ):
            with (
                closing(psycopg.connect(address, autocommit=True)) as writer,
                closing(psycopg.connect(address)) as busy,
            ):
                writer.execute("INSERT INTO kept VALUES (%s)", [round_])
                busy.execute("INSERT INTO kept VALUES (-1)")
                busy.pgconn.send_query(
                    b"SELECT sum(i) FROM (SELECT generate_series(1, 1000000000000) AS i) AS s"
                )
                processes = [postmaster(server), *children(postmaster(server))]
                ends()
                assert len(processes) > 3
                for process in processes:
                    in_time(lambda process=process: gone(process))
                with pytest.raises(psycopg.OperationalError):
                    writer.execute("SELECT 1")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(address)
            again = threading.Thread(
                target=server.start
            )  # it does not depend on the thread that started it
            again.start()
            again.join()
            assert server.address == address
            assert rows(address) == list(range(round_ + 1))
        assert address != own_server().address
    assert not folder.exists()


LEFT_BEHIND = """
import os, signal, sys
from support.postgres import started_server
with started_server() as server:
    if sys.argv[1] == "killed server":
        server.kill()
    numbers = (server.data / "postmaster.pid").read_text().split("\\n")
    print(server.folder, numbers[0], numbers[6].split()[0], flush=True)
    sys.stdin.readline()
    os._exit(3)
"""


@pytest.mark.parametrize(
    "what",
    [
        "tests that are killed",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("tests that leave at once", "killed server")
        ),
    ],
)
def test_nothing_is_left_of_a_server_when_its_tests_are_gone(what):
    command = [sys.executable, "-c", LEFT_BEHIND, what]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    ) as tests:
        folder, process, memory = tests.stdout.readline().split()
        assert Path(folder).is_dir()
        assert gone(int(process)) == (what == "killed server")
        assert is_kept(memory)
        if what == "tests that are killed":
            tests.kill()
        else:
            tests.stdin.write("leave\n")
    in_time(lambda: gone(int(process)) and not Path(folder).exists())
    assert not is_kept(memory)


def test_the_server_is_nobodys_but_the_tests():
    with own_server().superuser() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
    assert own_server().folder.stat().st_mode & 0o077 == 0
    assert (
        own_server().folder.stat().st_uid
        == (own_server().who or {"user": os.getuid()})["user"]
        != 0
    )


def test_where_there_is_no_server_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "_package", lambda: None)
    monkeypatch.setattr(postgres, "_SYSTEM", tmp_path)
    monkeypatch.setattr(postgres, "NAMED", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        NoServer,
        match="need initdb and postgres.*install a PostgreSQL server.*SORDINO_TEST_POSTGRES",
    ):
        started_server().__enter__()
    monkeypatch.setattr(postgres, "NAMED", str(tmp_path))
    with pytest.raises(
        NoServer, match="must name a folder with initdb and postgres, or an address"
    ):
        started_server().__enter__()


RUN = """
import pytest
from support import postgres

@pytest.mark.parametrize("number", range(40))
def test_that_needs_a_server(number, monkeypatch):
    monkeypatch.setattr(postgres, "NAMED", "nowhere")
    postgres.Cluster()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_without_a_server_fails_once_for_each_worker(tmp_path, workers):
    (tmp_path / "conftest.py").write_text((TESTS.parent / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(RUN)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        workers,
        str(tmp_path),
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode != 0
    assert 1 <= ran.stdout.count("FAILED") <= max(1, int(workers))
    assert "passed" not in ran.stdout
    assert "skipped" not in ran.stdout
    assert "must name a folder with initdb and postgres" in ran.stdout
