"""A driver takes answers of a certain size. Whether one is larger may not depend on rows: it is refused before the charge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import InvalidParameter
from sordino.questions import PrivacyUnit, prepare_counts, prepare_numbers
from sordino.sources import open_source
from support.counted import SALT
from support.spark import Server, session

ROW = PrivacyUnit.row()
SIZE = 200_000
SETTING = "spark.driver.maxResultSize"


@pytest.fixture(scope="module")
def small():
    """A session of a server whose driver takes small answers."""
    server = Server(**{SETTING: f"{SIZE}"})
    made = server.session()
    yield made
    # While there is a server: later the client would try for minutes.
    made.stop()
    server.remove()


def count(made, labels):
    """The question about as many labels as there are, each of which has a row: the largest answer."""
    source = open_source(made.createDataFrame(pa.table({"n": np.arange(labels)})))
    return prepare_counts(source, ROW, kind="items", item="n", domain=sd.Domain.range(0, labels))


# Few and wide buckets, all of which have a row; totals are as long as they get.
FIGURE = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=None, cap=1e18, growth=1e3)


def add_up(made, groups):
    """The same of sums: each bucket of each group has a row."""
    edges = np.array(FIGURE.grid.edges)
    values = np.concatenate([[edges[0] - 1], edges])
    table = pa.table({"g": np.repeat(np.arange(groups), values.size), "x": np.tile(values, groups)})
    return prepare_numbers(
        open_source(made.createDataFrame(table)),
        ROW,
        column="x",
        grid=FIGURE.grid,
        salt=SALT,
        by="g",
        domain=sd.Domain.range(0, groups),
        ladder=FIGURE.search.ladder,
    )


def rank(made, best):
    """The question about the best of labels that nobody listed, of which there are more, all as long as they get."""
    labels = [f"{place:04}".ljust(4096, "\U0001d11e") for place in range(2 * best + 2)]
    # Four bytes a character, but for those of the number.
    frame = made.createDataFrame(pa.table({"label": labels, "who": np.arange(len(labels))}))
    domain = sd.Domain.unlisted(delta=1e-6, least=1)
    return prepare_counts(
        open_source(frame), PrivacyUnit("who"), kind="items", item="label", domain=domain, best=best
    )


def find_most(ask, made, most=100_000):
    """The largest question that is not refused; what is refused is so by its size alone, before a row is read."""
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        try:
            ask(made, middle)
        except InvalidParameter as refused:
            assert f"must fit {SIZE:,} bytes" in str(refused)
            assert SETTING in str(refused)
            high = middle
        else:
            low = middle
    return low


def test_the_largest_answer_that_is_not_refused_arrives(small):
    labels = find_most(count, small)
    assert labels > SIZE / 40
    assert count(small, labels).run().values.sum() == labels


def test_the_largest_sums_that_are_not_refused_arrive(small):
    groups = find_most(add_up, small)
    assert groups * (FIGURE.grid.size + 1) > SIZE / 100
    assert add_up(small, groups).sums().count.sum() == groups * (FIGURE.grid.size + 1)


@pytest.mark.parametrize(
    "name",
    ["spark.sql.shuffle.partitions", "spark.sql.adaptive.coalescePartitions.initialPartitionNum"],
)
def test_what_many_tasks_send_beside_their_rows_is_counted(small, name):
    """Each task tells something about itself, whatever it has found."""
    adaptive = "spark.sql.adaptive.enabled"
    before = {one: small.conf.get(one, None) for one in (name, adaptive)}
    small.conf.set(name, "120")
    # So that no tasks are put together.
    small.conf.set(adaptive, str("shuffle" not in name).lower())
    try:
        labels = find_most(count, small)
        assert SIZE / 80 < labels < (SIZE - 120 * 1024) / 24 + 1
        assert count(small, labels).run().values.sum() == labels
    finally:
        for one, value in before.items():
            small.conf.unset(one) if value is None else small.conf.set(one, value)


def test_the_longest_labels_that_are_not_refused_arrive(small):
    best = find_most(rank, small, 100)
    assert best + 2 > SIZE / 6 / 4096
    assert len(rank(small, best).run().labels) == best + 1


def test_twice_as_many_long_labels_would_fail_after_the_charge(small, monkeypatch):
    best = 2 * find_most(rank, small, 100)
    monkeypatch.setattr("sordino.sources.spark.frames._read_spark_limit", lambda _: None)
    question = rank(small, best)
    with pytest.raises(sd.SordinoError, match="could not finish"):
        question.run()


def test_twice_as_much_would_fail_after_the_charge(small, monkeypatch):
    """So that the law above can tell: without the refusal the rows decide how a release ends."""
    monkeypatch.setattr("sordino.sources.spark.frames.SparkBackend.limit", None)
    monkeypatch.setattr("sordino.sources.spark.frames._read_spark_limit", lambda _: None)
    question = count(small, 4 * SIZE // 24)
    with pytest.raises(sd.SordinoError, match="could not finish"):
        question.run()


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1g", 1 << 30),
        ("512M", 512 << 20),
        ("1024", 1024),
        ("2tb", 2 << 40),
        ("64 k", 1 << 30),
        ("0", None),
    ],
)
def test_sizes_are_read_as_spark_writes_them(written, size):
    from sordino.sources.spark.frames import _read_spark_limit

    class Conf:
        def get(self, name, usual):
            return written if name == SETTING else usual

    class Made:
        conf = Conf()

    # A session of Spark Connect knows no context.
    Made.__module__ = "pyspark.sql.connect.session"
    found = _read_spark_limit(Made())
    assert (None if found is None else found.size) == size


def test_a_session_that_says_more_than_its_context_takes_is_not_believed():
    """A session may be built with another size over a context that runs already."""
    from sordino.sources.spark.frames import _read_spark_limit

    def told(size):
        return type(
            "Conf", (), {"get": lambda _self, name, usual: size if name == SETTING else usual}
        )()

    def made(session, context):
        of = type("Context", (), {"getConf": lambda _self: told(context)})()
        return type("Session", (), {"conf": told(session), "sparkContext": of})()

    assert _read_spark_limit(made("0", "200000")).size == 200_000
    assert _read_spark_limit(made("8g", "1g")).size == 1 << 30
    assert _read_spark_limit(made("1g", "0")).size == 1 << 30
    assert _read_spark_limit(made("0", "0")) is None


def test_a_server_that_does_not_tell_is_taken_for_a_usual_one():
    from pyspark.errors import PySparkException

    from sordino.sources.spark.frames import _read_spark_limit

    class Conf:
        def get(self, _name, _usual):
            raise PySparkException("no")

    made = type("Session", (), {"conf": Conf(), "__module__": "pyspark.sql.connect.session"})
    assert _read_spark_limit(made()).size == 1 << 30


def test_a_usual_server_takes_a_gigabyte():
    assert open_source(session().sql("SELECT 1 AS x")).backend.limit.size == 1 << 30
    with pytest.raises(InvalidParameter, match="1,073,741,824"):
        prepare_counts(
            open_source(session().sql("SELECT 1 AS x")),
            ROW,
            kind="items",
            item="x",
            domain=sd.Domain.range(0, 10**8),
        )
