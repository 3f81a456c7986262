"""Labels that nobody listed: the same ones from every kind of source, one unit moves its own alone, and few units have none found."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from fractions import Fraction

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import DataSourceError, InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.questions import Domain, PrivacyUnit, counts as counts_module, prepare_counts
from sordino.sources import CsvFormat, open_source
from sordino.sources.sql.sql_templates import LONGEST_LABEL
from support.postgres import database, own_server
from support.rank_law import choose
from support.tables import KINDS, columns, made
from support.workbooks import write_table

SALT = b"0123456789abcdef"
ROW, MANY = PrivacyUnit.row(), PrivacyUnit("u", max_rows=1000)
# Names that an engine might take for one: capitals, forms of Unicode, blanks, numbers, and what UTF-16 would order otherwise.
EXTREMES = [
    "a",
    "A",
    "a ",
    " a",
    "ä",
    "a\u0308",
    "ß",
    "ss",
    "İ",
    "i",
    "\uffee",
    "\U0001f600",
    "\U0001f469\u200d\U0001f680",
    "1",
    "1.0",
    "01",
    "-0",
    "0",
    "NULL",
    "nan",
    "NaN",
    "None",
    "%",
    "\\",
    "'",
    "{}",
    "\u202e",
    "\x01",
    "x" * LONGEST_LABEL,
]
NO_LABELS = [None, "", "x" * (LONGEST_LABEL + 1)]
ROWS = [
    (unit, label)
    for place, label in enumerate([*EXTREMES, *NO_LABELS])
    # Some labels of one unit, some of several, some twice of one, and rows of nobody.
    for unit in [*range(1 + place % 4), 0, None]
]


def counted(source, unit=MANY, csv=None, **more):
    """Return the labels that were found with their counts, in the order in which they are handed on."""
    given = {"domain": Domain.unlisted(delta=1e-6), "salt": SALT, **more}
    found = prepare_counts(
        open_source(source, csv=csv), unit, kind="items", item="i", **given
    ).run()
    assert found.values.dtype == "int64"
    assert found.positions is None
    assert list(found.labels) == sorted(found.labels, key=str.encode)
    return dict(zip(found.labels, found.values.tolist(), strict=True))


def is_label(text):
    return text is not None and text != "" and "\0" not in text and len(text) <= LONGEST_LABEL


def oracle(rows, most=None, least=1):
    """Count by hand; with a cap the documented choice, written again."""
    items = defaultdict(set)
    for unit, label in rows:
        if unit is not None and is_label(label):
            items[str(unit)].add(label)

    chosen = [choose(own, [unit], most or len(own), SALT) for unit, own in items.items()]
    found = Counter(label for own in chosen for label in own)
    return {label: n for label, n in found.items() if n >= least}


# ---- every source ----------------------------------------------------------------------------------------------------------


def json_lines(rows, folder):
    path = folder / "t.jsonl"
    lines = [
        json.dumps({"u": unit, "i": label}, ensure_ascii=place % 2 == 0)
        for place, (unit, label) in enumerate(rows)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def workbook(rows, folder):
    write_table(folder / "t.xlsx", [("u", "i"), *rows], sheet="S")
    return f"excel:{folder / 't.xlsx'}#S"


def server_table(rows, _folder, name="unlisted", kind="text"):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS public.{name}")
        connection.execute(f"CREATE TABLE public.{name} (u bigint, i {kind})")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO public.{name} VALUES (%s, %s)", rows)
    return f"{database()}#public.{name}"


SOURCES = {
    **{
        kind: lambda rows, folder, kind=kind: made(
            folder, kind, columns(rows, u=pa.int64(), i=pa.string())
        )
        for kind in KINDS
    },
    "json lines": json_lines,
    "excel": workbook,
    "postgres": server_table,
}
TYPES = {"json lines": CsvFormat(types={"u": "text", "i": "text"})}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=[] if kind in {"csv", "parquet", "postgres"} else [pytest.mark.slow]
        )
        for kind in SOURCES
    ],
)
def test_every_source_finds_the_same_labels(tmp_path, kind):
    # In XML some characters do not exist.
    rows = [row for row in ROWS if kind != "excel" or row[1] != "\x01"]
    source, csv = SOURCES[kind](rows, tmp_path), TYPES.get(kind)
    assert counted(source, csv=csv) == oracle(rows)
    assert counted(source, PrivacyUnit("u", max_rows=3), csv) == oracle(rows, 3)
    for least in (2, 3):
        found = counted(source, csv=csv, domain=Domain.unlisted(delta=1e-6, least=least))
        assert found == oracle(rows, least=least)
        found = counted(
            source,
            PrivacyUnit("u", max_rows=3),
            csv,
            domain=Domain.unlisted(delta=0.5, least=least),
        )
        assert found == oracle(rows, 3, least)
    each = Counter(label for _, label in rows if is_label(label))
    assert counted(source, ROW, csv) == each
    whole = sorted(oracle(rows).items(), key=lambda one: (-one[1], one[0].encode()))
    for best in (1, 5, 12, 100):
        found = counted(source, PrivacyUnit("u"), csv, best=best)
        assert found == dict(whole[: best + 1])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "csv"])
@pytest.mark.sample(4)
def test_a_label_with_nul_is_none(tmp_path, kind):
    rows = [(1, "a\0b"), (2, "\0"), (3, "a"), (4, "a")]
    source = SOURCES[kind](rows, tmp_path)
    assert counted(source) == counted(source, PrivacyUnit("u"), best=3) == {"a": 2}


# Rows that somebody may add to end a release, or to be named by it: what is no text, and texts that no engine could hand out.
HALF = b"\xed\xa0\x80"  # half of a character, as if it were one
ODD_LINES = [
    b"1,\xff",
    b"2," + HALF,
    b"3,\xc0\x80",
    b"4,\xf4\x90\x80\x80",
    b"5,a\0",
    b'6,"',
    b"\xff,tea",
    b"7",
]


def spoiled_csv(folder, odd):
    path = folder / "t.csv"
    path.write_bytes(b"\n".join([b"u,i", b"8,tea", *odd, b"9,tea", b""]))
    return path


def spoiled_json(folder, odd):
    path = folder / "t.jsonl"
    lines = [
        b'{"u": "%b", "i": "%b"}' % (str(place).encode(), text) for place, text in enumerate(odd)
    ]
    path.write_bytes(
        b"\n".join([b'{"u": "8", "i": "tea"}', *lines, b'{"u": "9", "i": "tea"}', b""])
    )
    return path


@pytest.mark.slow
def test_texts_that_are_none_are_no_labels(tmp_path):
    for odd in ([], *([line] for line in ODD_LINES), ODD_LINES):
        assert counted(spoiled_csv(tmp_path, odd)) == {"tea": 2}
    texts = [b"\\ud800", b"\\udc00x", b"a\\u0000b", b"\xff", HALF, b'"', b"x" * 5000]
    for odd in ([], *([text] for text in texts), texts):
        assert counted(spoiled_json(tmp_path, odd), csv=TYPES["json lines"]) == {"tea": 2}
    column = pa.array([b"tea", b"\xff", HALF, None, b"", b"a\0", b"tea"], type=pa.binary()).view(
        pa.string()
    )
    for strings in (column, column.dictionary_encode()):
        assert counted(pa.table({"u": range(7), "i": strings})) == {"tea": 2}
    # An engine that is lent such a text hands it on as it is, and its caller could not read it.
    lent = pa.table({"u": pa.array(range(7)).cast(pa.string()), "i": column})
    for unit, best in ((MANY, None), (ROW, None), (PrivacyUnit("u"), 4)):
        assert counted(duckdb.from_arrow(lent), unit, best=best) == {"tea": 2}
    objects = ["tea", "\ud800", b"tea", float("nan"), None, ["tea"], pd.NA, 10**5000, "tea"]
    odd = pd.DataFrame({"u": range(9), "i": pd.Series(objects, dtype=object)})
    # Bytes are texts, and nothing else among these is one.
    assert counted(odd) == counted(odd, PrivacyUnit("u"), best=4) == {"tea": 3}


def test_rows_that_a_predicate_drops_have_no_labels():
    rows = [(1, "tea"), (2, "tea"), (3, "rice"), (4, "salt")]
    assert counted(frame(rows), where="u < 4 AND i <> 'rice'") == {"tea": 2}


@pytest.mark.slow
def test_no_source_without_rows_fails(tmp_path):
    for kind in ("parquet", "polars", "duckdb", "csv", "postgres"):
        for rows in ([], [(None, "a"), (1, None), (2, "")]):
            source = SOURCES[kind](rows, tmp_path)
            assert counted(source) == counted(source, PrivacyUnit("u"), best=3) == {}


def test_values_of_other_types_have_their_texts():
    nan = float("nan")
    for values, found in {
        (1.0, -0.0, 0.0, nan, -nan, None, 2.5): {"0": 2, "1": 1, "2.5": 1},
        (1, 10, 9, None): {"1": 1, "10": 1, "9": 1},
        (True, False, None, True): {"false": 1, "true": 2},
        (dt.date(2024, 1, 2), None): {"2024-01-02": 1},
    }.items():
        frame = pl.DataFrame({"u": range(len(values)), "i": pl.Series(values, strict=False)})
        # pandas has no dates of its own.
        more = [] if frame["i"].dtype == pl.Date else [frame.to_pandas()]
        for source in (frame, frame.to_arrow(), *more):
            assert counted(source) == found


def test_a_server_has_decimals_that_are_no_numbers():
    rows = [(1, "1.5"), (2, "1.50"), (3, "NaN"), (4, "NaN"), (5, None)]
    source = server_table(rows, None, "decimals", "numeric(9,2)")
    assert counted(source) == counted(source, PrivacyUnit("u"), best=1) == {"1.50": 2}
    floats = server_table([(1, "-0"), (2, "0"), (3, "NaN"), (4, "2.5")], None, "floats", "float8")
    assert counted(floats) == {"0": 2, "2.5": 1}


def test_collations_join_nobody_and_padding_is_no_part_of_a_value(tmp_path):
    rows = [(1, "tea"), (2, "Tea"), (3, "TEA"), (4, "tea "), (5, "te\u0301a"), (6, "t\u00e9a")]
    padded = server_table(rows[:4], None, "padded", "character(9)")
    assert counted(padded) == {"tea": 2, "Tea": 1, "TEA": 1}
    assert counted(server_table([(1, " "), (2, "")], None, "padded", "character(9)")) == {}
    path = tmp_path / "loose.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (u BIGINT, i VARCHAR COLLATE NOACCENT.NOCASE)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    assert counted(f"duckdb:{path}#t") == {label: 1 for _, label in rows}


def test_ties_at_the_cut_follow_the_bytes_in_any_encoding_of_a_database():
    cluster = own_server()
    # In LATIN2 the byte of \u0104 comes before that of \u00c1, which is the smaller code point.
    labels = ["\u0104", "\u00c1", "\u00e1", "z", "\u0142"]
    with cluster.superuser() as connection:
        connection.execute("DROP DATABASE IF EXISTS unlisted_latin2")
        connection.execute(
            "CREATE DATABASE unlisted_latin2 ENCODING 'LATIN2' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        with psycopg.connect(cluster.url(database="unlisted_latin2"), autocommit=True) as inside:
            inside.execute("CREATE TABLE t (u int, i text)")
            with inside.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO t VALUES (%s, %s)", list(enumerate([*labels, "b", "b"]))
                )
                cursor.execute("INSERT INTO t VALUES (9, repeat(chr(225), 5000000)), (10, NULL)")
        source = f"{cluster.url(database='unlisted_latin2')}#t"
        for best in range(1, 7):
            assert list(counted(source, ROW, best=best)) == sorted(["b", *sorted(labels)[:best]])
        connection.execute("DROP DATABASE unlisted_latin2")


# ---- one unit ---------------------------------------------------------------------------------------------------------------

TEXTS = [None, "", "x" * (LONGEST_LABEL + 1), "a", "A", "b", "a ", "\U0001f600", "\uffee", "a\0"]
rows_of_all = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from(TEXTS)), max_size=30
)


def frame(rows):
    return pl.DataFrame(rows, schema={"u": pl.Int64, "i": pl.String}, orient="row")


@given(
    rows_of_all,
    st.tuples(st.sampled_from([None, 0, 7]), st.sampled_from(TEXTS)),
    st.sampled_from([1, 2, 3, 9]),
)
@settings(max_examples=4)
def test_one_row_changes_what_its_own_unit_says_and_nothing_else(rows, more, most):
    unit = PrivacyUnit("u", max_rows=most)
    own = [row for row in rows if row[0] == more[0]]
    before, after = (counted(frame(table), unit) for table in (rows, [*rows, more]))
    assert after == oracle([*rows, more], most)
    was, now = (Counter(counted(frame(table), unit)) for table in (own, [*own, more]))
    assert Counter(before) - was == Counter(after) - now
    assert sum(now.values()) <= most
    assert max(now.values(), default=1) == 1


@given(rows_of_all, st.sampled_from([1, 2]), st.sampled_from([1, 2, 3]))
@settings(max_examples=4)
def test_labels_of_neighbors_differ_in_those_at_the_edge_alone(rows, most, least):
    unit, domain = PrivacyUnit("u", max_rows=most), Domain.unlisted(delta=0.1, least=least)
    whole = counted(frame(rows), unit, domain=domain)
    for one in {row[0] for row in rows} - {None}:
        without = counted(frame([row for row in rows if row[0] != one]), unit, domain=domain)
        assert without.keys() <= whole.keys()
        gone = whole.keys() - without.keys()
        assert {whole[label] for label in gone} <= {least}
        moved = [label for label in without if whole[label] != without[label]]
        assert {whole[label] - without[label] for label in moved} <= {1}
        assert len(gone) + len(moved) <= most


def test_the_edge_is_on_what_is_counted():
    # Unit 9 has three labels and may count for one of them; two other units have each.
    rows = [(unit, label) for label in "abc" for unit in (f"{label}1", f"{label}2", "9")]
    table = pl.DataFrame(rows, schema={"u": pl.String, "i": pl.String}, orient="row")
    found = counted(table, PrivacyUnit("u", max_rows=1), domain=Domain.unlisted(delta=0.1, least=3))
    assert sorted(found.values()) == [3]
    assert (
        counted(table, PrivacyUnit("u", max_rows=1), domain=Domain.unlisted(delta=0.1, least=4))
        == {}
    )
    assert counted(table, domain=Domain.unlisted(delta=0.1, least=3)) == dict.fromkeys("abc", 3)


def test_what_is_no_label_takes_no_place_of_its_unit():
    rows = [(unit, label) for unit in range(20) for label in ("", None, "x" * 5000, "a\0", "tea")]
    assert counted(frame(rows), PrivacyUnit("u", max_rows=1)) == {"tea": 20}


@pytest.mark.parametrize(
    "broken", ["the rule comes after the choice", "the edge comes before the choice"]
)
def test_the_twins_that_a_careful_person_would_write_are_convicted(monkeypatch, broken):
    choose = counts_module._choose_items

    def twin(kept, most, draw, inside, items):
        if broken == "the rule comes after the choice":
            return choose(kept, most, draw, "TRUE", items)
        many = f"item IN (SELECT item FROM {kept} AS seen GROUP BY item HAVING count(DISTINCT unit) >= 3)"
        return choose(kept, most, draw, f"{inside} AND {many}", items)

    monkeypatch.setattr(counts_module, "_choose_items", twin)
    if broken == "the rule comes after the choice":
        with pytest.raises(AssertionError):
            test_what_is_no_label_takes_no_place_of_its_unit()
        return
    # Each of ten labels has three units, one of whom leaves. Then the other two choose otherwise.
    others = [(unit, label) for unit in range(20) for label in (f"rare {unit // 2}", "common")]
    rows = [*others, *((99, f"rare {number}") for number in range(10))]
    unit = PrivacyUnit("u", max_rows=1)
    moved = Counter(counted(frame(rows), unit))
    moved.subtract(counted(frame(others), unit))
    assert sum(map(abs, moved.values())) > 1


# ---- silence ----------------------------------------------------------------------------------------------------------------

CANARY = "canary-7f3a"


def test_nothing_shows_a_label():
    question = prepare_counts(
        open_source(frame([(1, CANARY)])),
        ROW,
        kind="items",
        item="i",
        domain=Domain.unlisted(delta=0.1),
    )
    found = question.run()
    assert found.labels == (CANARY,)
    assert CANARY not in repr(question) + repr(found) + repr(question.domain)
    with pytest.raises(UnknownDomain, match="private: only a release") as caught:
        _ = question.domain.labels
    assert CANARY not in str(caught.value)
    with pytest.raises(UnknownDomain):
        _ = question.domain.size


def test_a_failure_says_nothing():
    lazy = frame([(1, CANARY)]).lazy().with_columns(pl.col("i").str.to_integer().cast(pl.String))
    question = prepare_counts(
        open_source(lazy), ROW, kind="items", item="i", domain=Domain.unlisted(delta=0.1)
    )
    with pytest.raises(DataSourceError) as caught:
        question.run()
    assert str(caught.value) == DataSourceError.AFTER_CHARGE
    assert caught.value.__cause__ is caught.value.__context__ is None


# ---- before the charge --------------------------------------------------------------------------------------------------------


def test_an_unlisted_domain_is_its_public_numbers():
    domain = Domain.unlisted(delta=1e-6, least=3)
    assert (domain.kind, domain.delta, domain.least, domain.hidden) == (
        "unlisted",
        Fraction(1, 10**6),
        3,
        True,
    )
    assert domain == Domain.unlisted(delta=Fraction(1, 10**6), least=3)
    assert domain.origin == "unlisted, delta 1/1000000, least 3"
    assert repr(domain) == f"Domain(kind='unlisted', origin='{domain.origin}')"
    assert domain.resolve(open_source(frame([]))) is domain
    assert not Domain.of(["a"]).hidden
    found = domain.found(["tea", "rice", "tea"])
    assert (found.labels, found.size, found.hidden, found.delta) == (
        ("rice", "tea"),
        2,
        False,
        domain.delta,
    )
    assert found.origin == domain.origin
    assert found.resolve(open_source(frame([]))) is found
    for wrong, message in (
        (
            lambda: Domain.unlisted(delta=0),
            r"Domain.unlisted.delta must be a number in \(0, 1\); got 0",
        ),
        (lambda: Domain.unlisted(delta=1), "Domain.unlisted.delta must be"),
        (lambda: Domain.unlisted(delta="1e-6"), "Domain.unlisted.delta must be"),
        (
            lambda: Domain.unlisted(delta=0.1, least=0),
            "Domain.unlisted.least must be a whole number from 1",
        ),
        (lambda: Domain.unlisted(delta=0.1, least=1.5), "Domain.unlisted.least must be"),
        (lambda: found.found(["tea"]), "Domain.found belongs to Domain.unlisted"),
        (lambda: Domain.of(["a"]).found(["a"]), "Domain.found belongs to Domain.unlisted"),
        (lambda: domain.found([]), "What was found must have one label or more"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            wrong()


def test_what_was_found_is_asked_as_a_list():
    found = Domain.unlisted(delta=0.1).found(["tea", "gold"])
    question = prepare_counts(
        open_source(frame([(1, "tea"), (1, "rice"), (2, "rice")])),
        PrivacyUnit("u", max_rows=1),
        kind="items",
        item="i",
        domain=found,
        salt=SALT,
    )
    counts = question.run()
    assert (counts.labels, counts.values.tolist()) == (("gold", "tea"), [0, 1])


def test_what_is_wrong_is_said_before():
    source = open_source(frame([(1, "a")]))
    ask = {"kind": "items", "item": "i", "domain": Domain.unlisted(delta=0.1), "salt": SALT}
    with pytest.raises(UnboundedContribution, match=r"such as max_rows=5 \(--max-rows 5\)"):
        prepare_counts(source, PrivacyUnit("u"), **ask)
    for change, message in (
        ({"best": 0}, "best must be a whole number from 1"),
        ({"best": 1.5}, "best must be"),
        ({"best": 3, "domain": ["a"]}, "best belongs to Domain.unlisted"),
        ({"best": 3, "domain": Domain.range(0, 9)}, "best belongs to Domain.unlisted"),
        ({"best": 3, "domain": None, "item": None, "kind": "units"}, "belong to kind 'items'"),
        ({"salt": b""}, "16 secret random bytes"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            prepare_counts(source, PrivacyUnit("u", max_rows=2), **{**ask, **change})
    times = pl.DataFrame({"u": [1], "i": pl.Series([0]).cast(pl.Datetime)})
    with pytest.raises(InvalidParameter, match="of type TIMESTAMP"):
        prepare_counts(open_source(times), ROW, **ask)


def test_a_database_of_bytes_that_are_no_letters_is_refused():
    cluster = own_server()
    with cluster.superuser() as connection:
        connection.execute("DROP DATABASE IF EXISTS unlisted_ascii")
        connection.execute(
            "CREATE DATABASE unlisted_ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        with psycopg.connect(cluster.url(database="unlisted_ascii"), autocommit=True) as inside:
            inside.execute("CREATE TABLE t (i text)")
        source = open_source(f"{cluster.url(database='unlisted_ascii')}#t")
        with pytest.raises(
            InvalidParameter, match="Domain.unlisted must not go with a database whose encoding"
        ):
            prepare_counts(source, ROW, kind="items", item="i", domain=Domain.unlisted(delta=0.1))
        connection.execute("DROP DATABASE unlisted_ascii")


def test_sensitivities_are_those_of_listed_labels():
    source = open_source(frame([(1, "a")]))
    for unit in (ROW, PrivacyUnit("u", max_rows=3), PrivacyUnit("u", "replace-one", 3)):
        one, other = (
            prepare_counts(source, unit, kind="items", item="i", salt=SALT, domain=domain)
            for domain in (Domain.unlisted(delta=0.1), ["a"])
        )
        assert one.sensitivity == other.sensitivity
        assert one.joint(7) == other.joint(7)


# ---- many ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_labels_of_one_unit_each(tmp_path):
    size = 1_000_000
    table = pl.select(u=pl.int_range(size), i=pl.format("label {}", pl.int_range(size)))
    table.write_parquet(tmp_path / "t.parquet")
    unit = PrivacyUnit("u", max_rows=5)
    whole = counted(tmp_path / "t.parquet", unit)
    assert len(whole) == size
    assert set(whole.values()) == {1}
    assert counted(tmp_path / "t.parquet", unit, domain=Domain.unlisted(delta=0.1, least=2)) == {}
    first = sorted(f"label {number}" for number in range(size))[:11]
    assert list(counted(tmp_path / "t.parquet", unit, best=10)) == first
