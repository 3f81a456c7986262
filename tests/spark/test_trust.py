"""What could let one row, or a setting of the owner, decide more than its own part: refused before the charge, or of no effect."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import logging
import os
import re
import signal
import sys
import threading
import time
import warnings

import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.spark import frames as spark_module
from support.counted import SALT
from support.number_states import GRIDS, asked
from support.spark import Server, frame, own_server, session

CANARY = "canary-7f3a"
ROW = PrivacyUnit.row()


@pytest.fixture
def own():
    """A session whose settings a test may change."""
    made = own_server().session()
    yield made
    made.stop()


def count(source, **options):
    question = prepare_counts(open_source(source), ROW, kind="rows", **options)
    return question.run().values.tolist()


# ---- refused before the charge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns", [["who", "day(on_day)"], ["who", "shop"], ["who", "on_day", "shop"]]
)
def test_a_unit_of_several_columns_is_refused_before_the_charge(tmp_path, columns):
    """So an account with parts pays for no table of Spark either: its unit has a column that is cut."""
    rows = pa.table({"who": ["a"], "shop": ["x"], "on_day": pa.array([dt.date(2026, 11, 27)])})
    unit = PrivacyUnit(columns, max_rows=1)
    ledger = sd.Ledger.create(
        tmp_path / "budget.db",
        account="orders",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=unit,
        source="name:orders",
        **({"parts": "day"} if "day(on_day)" in columns else {}),
    )
    named = {"part": "2026-11-27"} if "day(on_day)" in columns else {}
    asked = {"unit": unit, "ledger": ledger, "name": "orders", **named}
    with pytest.raises(InvalidParameter, match=r"must be one column.*got several for a spark"):
        sd.Session(frame(rows), **asked).count(epsilon=0.1)
    assert ledger.statement().charges == ()
    # The same rows elsewhere are counted: nothing but the engine is wrong.
    sd.Session(rows, **asked).count(epsilon=0.1)
    assert len(ledger.statement().charges) == 1


def test_without_ansi_rules_nothing_is_asked(own):
    """A number that is too large would become another one, in silence."""
    one = own.sql("SELECT 1 AS x")
    question = prepare_counts(open_source(one), ROW, kind="rows")
    own.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(InvalidParameter, match="ANSI"):
        open_source(one)
    with pytest.raises(DataSourceError, match="could not finish"):
        question.run()
    own.conf.set("spark.sql.ansi.enabled", "true")
    assert question.run().values.tolist() == [1]


def test_sums_wrap_without_ansi_rules():
    """The twin of that refusal: what would be answered."""
    own = own_server().session()
    own.conf.set("spark.sql.ansi.enabled", "false")
    wrapped = own.sql(
        "SELECT sum(x) AS s FROM VALUES (9223372036854775807L), (1L) AS t(x)"
    ).toArrow()
    own.stop()
    assert wrapped.column("s").to_pylist() == [-(2**63)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.legacy.integerGroupingId", "true"),
        ("spark.sql.ansi.enforceReservedKeywords", "true"),
        ("spark.sql.execution.topKSortFallbackThreshold", "3"),
    ],
)
def test_settings_that_change_what_a_query_means_are_refused(own, name, value):
    one = own.sql("SELECT 1 AS x")
    own.conf.set(name, value)
    with pytest.raises(InvalidParameter, match=name.rpartition(".")[2]):
        open_source(one)
    own.conf.unset(name)
    assert count(one) == [1]


def test_names_that_differ_in_capitals_alone_are_refused(own):
    own.conf.set("spark.sql.caseSensitive", "true")
    with pytest.raises(InvalidParameter, match="differ in more than capitals"):
        open_source(own.sql("SELECT 1 AS user, 2 AS User"))


def test_columns_that_are_no_labels(own):
    source = open_source(
        own.sql(
            "SELECT 1.5D AS x, CAST(1.5 AS FLOAT) AS f, array(1) AS a, X'00' AS b, TIMESTAMP'2024-01-01' AS t,"
            " named_struct('k', 1) AS s, map(1, 2) AS m, INTERVAL 1 DAY AS i, parse_json('1') AS v, 1 AS u"
        )
    )
    for name in "xf":
        with pytest.raises(InvalidParameter, match="floats"):
            prepare_counts(source, ROW, kind="items", item=name, domain=["1.5"])
        with pytest.raises(InvalidParameter, match="floats"):
            prepare_counts(source, PrivacyUnit(name), kind="units")
    for name in "abtsmiv":
        with pytest.raises(InvalidParameter, match="texts, numbers, dates or booleans"):
            prepare_counts(source, ROW, kind="items", item=name, domain=["1"])
        with pytest.raises(InvalidParameter):
            prepare_counts(source, ROW, kind="rows", where=f"{name} IS NULL")
    with pytest.raises(InvalidParameter, match="at most 18 digits"):
        asked(own.sql("SELECT CAST(0 AS DECIMAL(38,19)) AS x"), GRIDS["one edge"])


def test_an_older_spark_is_refused(monkeypatch):
    one = frame(pa.table({"x": [1]}))
    monkeypatch.setitem(vars(one.sparkSession), "version", "3.5.8")
    with pytest.raises(UnsupportedBackend, match="Spark 4"):
        open_source(one)


def test_without_its_client_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(UnsupportedBackend, match=r"sordino\[spark\]"):
        open_source("sc://127.0.0.1:1#a.b.c")


def test_a_frame_that_cannot_be_planned_is_refused_without_its_words(own):
    with pytest.raises(DataSourceError, match="can plan") as caught:
        open_source(own.sql("SELECT 1 AS x").select(CANARY))
    assert CANARY not in str(caught.value)


# ---- of no effect ---------------------------------------------------------------------------------------------------------


def answers(of):
    visits = of.createDataFrame(
        pa.table(
            {
                "u": [f"u{i % 9}" for i in range(60)],
                "g": ["aé\U0001f600"[i % 3] for i in range(60)],
                "x": [i / 4 for i in range(60)],
            }
        )
    )
    unit = PrivacyUnit("u", max_rows=2)
    items = prepare_counts(
        open_source(visits),
        unit,
        kind="items",
        item="g",
        domain=["a", "é", "😀"],
        salt=SALT,
        where="x * 2 <> 3 AND g LIKE '_'",
    )
    numbers = asked(
        visits, GRIDS["from 0"], unit=unit, by="g", domain=["a", "é"], groups_per_unit=1
    )
    return [items.run().values.tolist(), *(one.counts.tolist() for one in numbers.run())]


def test_settings_and_functions_of_the_session_change_nothing(own):
    from pyspark.sql.types import IntegerType

    wanted = answers(session())
    for name, value in {
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "America/Lima",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.groupByOrdinal": "false",
        "spark.sql.variable.substitute": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    }.items():
        with warnings.catch_warnings(action="ignore"):  # one of them is deprecated
            own.conf.set(name, value)
    for name in ("sha2", "length", "least", "isnan", "try_multiply", "substr", "coalesce", "get"):
        own.udf.register(name, lambda *_: 1, IntegerType())
    for name in ("rows", "labels", "kept", "frame_of_rows"):
        own.sql("SELECT 1 AS c0, 'a' AS label, 0 AS position").createOrReplaceTempView(name)
    described = own.sql("DESCRIBE FUNCTION length").toArrow().to_pylist()
    assert "StringLength" not in str(described)
    assert (
        own.sql("SELECT length(TRUE) AS n").schema[0].dataType.simpleString() == "int"
    )  # which is none of Spark's own
    assert answers(own) == wanted


def test_units_are_told_apart_under_every_collation(own):
    """Under the collation of the column one unit would answer for another."""
    letters = own.sql(
        "SELECT CAST(x AS STRING COLLATE UTF8_LCASE) AS u FROM VALUES ('a'), ('A'), ('b') AS t(x)"
    )
    own.sql("SELECT 1").toArrow()
    assert "collate" in letters.schema[0].dataType.simpleString().lower()
    assert letters.distinct().count() == 2
    source = open_source(letters)
    assert prepare_counts(source, PrivacyUnit("u"), kind="units").run().values.tolist() == [3]
    assert count(letters, where="u = 'A'") == [1]


def test_bytes_that_are_no_text_are_missing(own):
    """One of them would end a release of labels that nobody listed, on its way out."""
    odd = own.sql(
        "SELECT CAST(x AS STRING) AS item FROM VALUES (X'ff'), (X'61'), (X'61'), (X'c3') AS t(x)"
    )
    unlisted = sd.Domain.unlisted(delta=1e-6, least=1)
    for domain in (unlisted, sd.Domain.assume_public()):
        found = prepare_counts(
            open_source(odd), ROW, kind="items", item="item", domain=domain
        ).run()
        assert (found.labels, found.values.tolist()) == (("a",), [2])


# ---- after the charge -----------------------------------------------------------------------------------------------------


def refused_after_charge(question):
    with pytest.raises(DataSourceError) as caught:
        question.run()
    assert str(caught.value) == DataSourceError.AFTER_CHARGE
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@contextlib.contextmanager
def listening():
    """Hear what the client of Spark logs of an error."""
    from pyspark.logger import PySparkLogger

    heard = io.StringIO()
    watching = logging.StreamHandler(heard)
    loggers = [
        logging.getLogger(),
        *(PySparkLogger.getLogger(name) for name in spark_module._LOGGERS),
    ]
    for logger in loggers:
        logger.addHandler(watching)
    yield heard
    for logger in loggers:
        logger.removeHandler(watching)


FAILING = f"SELECT CAST(x AS INT) AS n FROM VALUES ('{CANARY}'), ('1') AS t(x)"
"""Its rows stand in the plan itself: Spark computes them while it makes the plan."""


def test_a_frame_that_fails_on_a_row_says_one_sentence(own, capfd):
    """Rows of this frame are computed by its owner, who is told nothing, before the charge and after it."""
    with listening() as heard:
        refused_after_charge(
            prepare_counts(open_source(own.sql(FAILING)), PrivacyUnit("n"), kind="units")
        )
    out, err = capfd.readouterr()
    assert CANARY not in heard.getvalue() + out + err


def test_the_client_of_spark_would_have_said_it(own):
    """The twin: without the mute the client logs the value."""
    with listening() as heard, pytest.raises(Exception, match="cannot be cast"):
        own.sql(FAILING).toArrow()
    assert CANARY in heard.getvalue()


def test_a_table_that_changes_ends_the_question(own):
    own.sql("CREATE OR REPLACE TEMPORARY VIEW changing AS SELECT 'a' AS item, 1 AS u")
    question = prepare_counts(
        open_source(own.table("changing")),
        PrivacyUnit("u"),
        kind="items",
        item="item",
        domain=["a"],
    )
    assert question.run().values.tolist() == [1]
    for other in (
        "'a' AS item, 1L AS u",
        "1 AS u, 'a' AS item",
        "'a' AS item",
        "'a' AS item, 1 AS u, 2 AS more",
    ):
        own.sql(f"CREATE OR REPLACE TEMPORARY VIEW changing AS SELECT {other}")
        refused_after_charge(question)
    own.sql("DROP VIEW changing")
    refused_after_charge(question)


def test_a_session_that_ends_ends_the_question():
    own = own_server().session()
    question = prepare_counts(open_source(own.sql("SELECT 1 AS x")), ROW, kind="rows")
    own.stop()
    refused_after_charge(question)


SLOW = "SELECT count(*) AS n FROM range(0, 40000000000, 1, 4) WHERE sha2(CAST(id AS STRING), 512) LIKE 'zz%'"


def test_an_interrupt_stops_the_query(own):
    """Ctrl-C reaches the server, and the work ends."""
    question = prepare_counts(open_source(own.sql(SLOW)), PrivacyUnit("n"), kind="units")
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        question.run()
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_is_one_sentence():
    server = Server()
    try:
        own = server.session()
        own.client.set_retry_policies([])  # the client would try for ten minutes
        question = prepare_counts(open_source(own.sql(SLOW)), PrivacyUnit("n"), kind="units")
        threading.Timer(2, server.kill).start()
        refused_after_charge(question)
    finally:
        server.remove()


def test_every_function_that_is_called_is_called_by_its_full_name():
    """What is not in the list could be replaced by a function of the session."""
    asked_for: list[str] = []

    class Silent(spark_module._SparkScan):
        def ask(self, question, labels=None, **named):
            asked_for.append(spark_module._FUNCTIONS.sub("(", question))
            return super().ask(question, labels, **named)

    before, spark_module._SparkScan = spark_module._SparkScan, Silent
    try:
        answers(session())
    finally:
        spark_module._SparkScan = before
    syntax = {
        "over",
        "in",
        "values",
        "decimal",
        "cast",
        "try_cast",
        "when",
        "as",
        "and",
        "or",
        "not",
        "then",
        "else",
        "from",
        "join",
        "where",
        "select",
        "case",
        "on",
        "by",
    }
    called = {name for one in asked_for for name in re.findall(r"(?i)\b([a-z_]\w*)\s*\(", one)}
    assert len(asked_for) > 3
    assert {name.lower() for name in called} <= syntax


@pytest.mark.parametrize("labels", [None, [], ["a"]])
@pytest.mark.parametrize("read", [False, True])
def test_braces_in_a_question_are_its_own(read, labels):
    """Names of frames stand in braces, and Spark looks for such names only where there are frames."""
    one = session().range(1).selectExpr("id AS c0")
    rows = ("SELECT * FROM {r}", {"r": one}) if read else ("SELECT CAST(1 AS BIGINT) AS c0", {})
    answer = spark_module._SparkScan(session(), *rows).ask(
        "SELECT concat('{', '}', '{r}') AS t FROM rows", labels
    )
    assert list(answer["t"]) == ["{}{r}"]


def test_types_that_rows_decide_are_refused(tmp_path):
    """One row more would decide whether a question is refused, for free. What was declared is public."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "t.json").write_text('{"a": 1}\n', encoding="utf-8")
    spark, csv, json = session(), str(tmp_path / "t.csv"), str(tmp_path / "t.json")
    guessed = spark.read.csv(csv, header=True, inferSchema=True)
    guessed.createOrReplaceTempView("guessed")
    for made in (
        guessed,
        guessed.filter("a > 0").select("b"),
        guessed.crossJoin(spark.read.schema("c int").csv(csv)),
        spark.table("guessed"),
        spark.read.json(json),
        spark.sql(f"SELECT * FROM json.`{json}`"),
        spark.read.csv(csv),
    ):
        with pytest.raises(UnsupportedBackend, match="must read files that declare the types"):
            open_source(made)
    for made in (
        spark.read.schema("a int, b int").csv(csv, header=True),
        spark.read.csv(csv, header=True),
        spark.read.schema("a int").json(json),
        spark.createDataFrame([(1, "] csv")], "a int, b string").filter("b <> '] csv x'"),
    ):
        assert open_source(made).columns
