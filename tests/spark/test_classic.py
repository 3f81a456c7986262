"""A classic session, whose Python talks to a Java of its own: in a process of its own, where there is no Spark Connect."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from support.spark import command
from support.tables import columns

CANARY = "canary-7f3a"


@contextmanager
def gateway(folder):
    """Start the Java of a classic session by hand; it ends when its standard input does, so with the tests."""
    said = folder / "gateway"
    known = dict(os.environ, _PYSPARK_DRIVER_CONN_INFO_PATH=str(said), SPARK_HOME=str(folder))
    settings = {"spark.ui.showConsoleProgress": "false"}
    started = command(folder, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell", **settings)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            started, env=known, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder
        ) as java,
    ):
        try:
            give_up = time.monotonic() + 120
            while not said.exists():
                assert java.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < give_up
                time.sleep(0.1)
            written = said.read_bytes()
            port, length = struct.unpack(">ii", written[:8])
            yield {
                "PYSPARK_GATEWAY_PORT": str(port),
                "PYSPARK_GATEWAY_SECRET": written[8 : 8 + length].decode(),
            }
        finally:
            java.kill()


ROWS = [
    (f"u{i % 9}", "aé\U0001f600"[i % 3], [0.5, -0.0, float("nan"), 1e30, None][i % 5])
    for i in range(90)
]
KINDS = {"u": pa.string(), "g": pa.string(), "x": pa.float64()}


def answers(source, failing=None):
    """Return what is asked of a source, as JSON has it."""
    from sordino.errors import DataSourceError
    from sordino.questions import Domain, PrivacyUnit, prepare_counts
    from sordino.sources import open_source
    from support.counted import SALT
    from support.number_states import GRIDS, asked

    unit, opened = PrivacyUnit("u", max_rows=2), open_source(source)
    items = prepare_counts(
        opened,
        unit,
        kind="items",
        item="g",
        domain=["a", "é"],
        salt=SALT,
        where="x * 2 > 0 OR x IS NULL",
    )
    unlisted = prepare_counts(
        opened, unit, kind="items", item="g", domain=Domain.unlisted(delta=1e-6), salt=SALT
    ).run()
    numbers = asked(
        source, GRIDS["from 0"], unit=unit, by="g", domain=["a", "é"], groups_per_unit=1
    )
    found = [items.run().values.tolist(), list(unlisted.labels), unlisted.values.tolist()]
    found += [one.counts.tolist() for one in numbers.run()]
    if failing is not None:
        try:
            prepare_counts(open_source(failing), PrivacyUnit("n"), kind="units").run()
        except DataSourceError as error:
            found.append(str(error))
    return found


def stopped(spark):
    """Return what progress says of a query that is stopped by an error of the one who watches, and whether it ran on."""
    from sordino.questions import PrivacyUnit, prepare_counts
    from sordino.sources import open_source

    slow = "SELECT id AS n FROM range(0, 40000000, 1, 4000) WHERE sha2(CAST(id AS STRING), 512) NOT LIKE 'zz%'"
    seen = []

    def watch(percent):
        seen.append(percent)
        if len({*seen}) > 3:
            raise ZeroDivisionError

    try:
        prepare_counts(open_source(spark.sql(slow)), PrivacyUnit("n"), kind="units").run(
            progress=watch
        )
    except ZeroDivisionError:
        time.sleep(1)
        return [
            seen == sorted(seen),
            max(seen) < 50,
            spark.sparkContext.statusTracker().getActiveJobsIds(),
        ]
    return seen


def in_a_classic_session():
    """Run in a process of its own: print the answers, and what is left in the session."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    failing = spark.sql(f"SELECT CAST(x AS INT) AS n FROM VALUES ('{CANARY}'), ('1') AS t(x)")
    found = answers(spark.createDataFrame(columns(ROWS, **KINDS)), failing)
    found.append(stopped(spark))
    left = [table.name for table in spark.catalog.listTables()]
    print(json.dumps([type(spark).__module__, found, left]))


@pytest.mark.slow
def test_a_classic_session_answers_as_every_other_source(tmp_path):
    script = "import warnings; warnings.simplefilter('ignore'); from spark.test_classic import in_a_classic_session as ask; ask()"
    tests = str(Path(__file__).parents[1])
    with gateway(tmp_path) as known:
        ran = subprocess.run(
            [sys.executable, "-c", script],
            env=dict(os.environ, PYTHONPATH=tests, **known),
            capture_output=True,
            text=True,
            check=True,
        )
    module, found, left = json.loads(ran.stdout.splitlines()[-1])
    assert module == "pyspark.sql.session"
    assert found.pop() == [True, True, []]
    assert found[-1].startswith("The data engine could not finish this release.")
    assert found[:-1] == answers(columns(ROWS, **KINDS))
    assert left == []
    assert CANARY not in ran.stdout + ran.stderr
