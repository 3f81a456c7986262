"""What a PostgreSQL server would fail on, and must not: whether a release fails is seen by everyone, and rows decide nothing about it."""

from __future__ import annotations

import psycopg
import pytest

from sordino.columns import StepRange
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.postgres import LEGIBLE
from support.number_states import GRIDS, asked
from support.postgres import own_server

ODD = {
    "SQL_ASCII": (b"\xff", b"a\x81"),
    "WIN1252": (b"\x81", b"\xe9"),
    "EUC_JP": (b"\x8f\xf5\xa1", b"a"),
}
"""Texts of each encoding, among them some that do not exist in UTF-8."""


@pytest.fixture(params=ODD)
def encoded(request):
    cluster, name = own_server(), f"in_{request.param.lower()}"
    with cluster.superuser() as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{request.param}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        with psycopg.connect(cluster.url(database=name), autocommit=True) as inside:
            inside.execute("CREATE TABLE visits (x float8, u text, g text)")
            inside.execute(
                "INSERT INTO visits SELECT i % 7, 'u' || i % 5, 'a' FROM generate_series(1, 20) i"
            )
            yield inside, f"{cluster.url(database=name)}#visits", request.param
        connection.execute(f"DROP DATABASE {name}")


@pytest.mark.sample(4)
def test_no_text_of_a_row_makes_a_question_fail_in_any_encoding(encoded):
    """A unit that is no text in UTF-8 counts like every other one, and nobody else's rows are others for it."""
    connection, address, encoding = encoded
    more = {"by": "g", "domain": ["a"], "groups_per_unit": 1, "unit": PrivacyUnit("u", max_rows=1)}

    def state():
        question = asked(address, GRIDS["from 0"], **more)
        items = prepare_counts(
            open_source(address),
            PrivacyUnit("u", max_rows=1),
            kind="items",
            item="g",
            domain=["a"],
            salt=b"0" * 16,
        )
        return (
            question.run()[0].counts,
            question.totals([StepRange(low=0, high=100, step=1)])[0],
            items.run().values.tolist(),
        )

    with pytest.raises(InvalidParameter, match="no letters in Unicode"):
        prepare_counts(
            open_source(address),
            PrivacyUnit.row(),
            kind="items",
            item="g",
            domain=Domain.assume_public(),
        )
    before = state()
    for size, text in enumerate(ODD[encoding], start=1):
        connection.execute(
            "INSERT INTO visits VALUES (3, convert_from(%s, %s), 'a')", [text, encoding]
        )
        counts, total, items = state()
        assert counts.sum() == before[0].sum() + size
        assert (counts >= before[0]).all()
        assert total == (before[1].steps + 3 * size, before[1].known + size, before[1].missing)
        assert items == [before[2][0] + size]


def test_every_byte_is_a_letter_in_the_encodings_from_which_labels_are_taken():
    """The others have some that are none: of them this test would fail for each."""
    failing = set()
    with own_server().superuser() as connection:
        for name in [*sorted(LEGIBLE - {"UTF8"}), "WIN1252"]:
            for byte in range(1, 256):
                try:
                    connection.execute("SELECT convert(%s, %s, 'UTF8')", [bytes([byte]), name])
                except psycopg.Error:
                    failing.add(name)
    assert failing == {"WIN1252"}


def test_time_limits_of_a_role_do_not_end_a_question():
    """A limit would turn the number of rows, or what is in them, into a failure that everybody sees."""
    cluster = own_server()
    with cluster.superuser() as connection:
        connection.execute("CREATE ROLE hurried LOGIN")
        connection.execute("ALTER ROLE hurried SET statement_timeout = '250ms'")
        connection.execute("CREATE TABLE crowd AS SELECT i AS x FROM generate_series(1, 3) i")
        connection.execute(
            "CREATE OR REPLACE VIEW slowly AS SELECT x + length(pg_sleep(0.1)::text) AS x FROM crowd"
        )
        connection.execute("GRANT SELECT ON slowly TO hurried")
        try:
            question = asked(
                f"{cluster.url('hurried', database='postgres')}#slowly", GRIDS["from 0"]
            )
            assert question.run()[0].records == 3
        finally:
            for statement in ("DROP VIEW slowly", "DROP TABLE crowd", "DROP ROLE hurried"):
                connection.execute(statement)


def test_labels_that_a_database_cannot_hold_are_refused_before_the_charge():
    cluster = own_server()
    with cluster.superuser() as connection:
        connection.execute(
            "CREATE DATABASE in_latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        with psycopg.connect(cluster.url(database="in_latin1"), autocommit=True) as inside:
            inside.execute("CREATE TABLE visits (x float8, g text)")
            inside.execute("INSERT INTO visits VALUES (1, 'caf\u00e9')")
        source = open_source(f"{cluster.url(database='in_latin1')}#visits")
        for domain in (["tea", "caf\u00e9"], Domain.assume_public(), Domain.range(0, 9)):
            asks = prepare_counts(source, PrivacyUnit.row(), kind="items", item="g", domain=domain)
            assert asks.run().values.sum() == (1 if asks.domain.numbered is None else 0)
        for domain in (["tea", "\u8336"], ["\u8336"] * 2):
            with pytest.raises(DataSourceError, match="cannot answer"):
                prepare_counts(source, PrivacyUnit.row(), kind="items", item="g", domain=domain)
            with pytest.raises(DataSourceError, match="cannot answer"):
                asked(
                    f"{cluster.url(database='in_latin1')}#visits",
                    GRIDS["from 0"],
                    by="g",
                    domain=domain,
                )
        connection.execute("DROP DATABASE in_latin1")
