"""Neighbouring files: stdout with fixed noise, exit code and messages are the same whatever one unit's rows look like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CANARY = b"kryptonite-86753099173"
ONE_RECORD = {
    "a ragged row with too few fields": b"u9",
    "a ragged row with too many fields": b"u9,unlisted,1,2,3,4,5",
    "an open quote": b'u9,"tea,1',
    "an open quote at the start": b'"u9,tea,1',
    "a quote in the middle": b'u9,te"a,1',
    "bad UTF-8": b"u9,t\xff\xfea,1",
    "a truncated character": b"u9,t\xe2\x82,1",
    "a very long line": b"u9," + b"x" * 5_000_000 + b",1",
    "a line longer than any buffer": b"u9," + b"x" * 40_000_000 + b",1",
    "an overflow": b"u9,unlisted,99999999999999999999999999999999999999999999",
    "a failing cast": b"u9,unlisted,not-a-number",
    "an infinite price": b"u9,unlisted,inf",
    "an unknown label": b"u9,dynamite,1",
    "a NULL unit": b",tea,1",
    "a NULL label": b"u9,,1",
    "a NUL byte": b"u9,t\x00a,1",
    "a lone carriage return": b"u9,t\ra,1",
    "only a carriage return": b"\r",
    "a control character": b"u9,t\x1fa,1",
    "a blank line": b"",
    "a byte order mark": b"\xef\xbb\xbfu9,unlisted,1",
    "a canary": b"u9," + CANARY + b",1",
}
ROWS = [f"u{i % 8},{('tea', 'rice', 'salt')[i % 3]},{i}".encode() for i in range(200)]


pytestmark = pytest.mark.usefixtures("no_progress")


def shop(folder, records):
    folder.mkdir(exist_ok=True)
    path = folder / "orders.csv"
    path.write_bytes(b"user,product,price\n" + b"".join(record + b"\n" for record in records))
    (folder.parent / "items.csv").write_text("name\ntea\nrice\nsalt\nsugar\n", encoding="utf-8")
    return path


def commands(path):
    domain = ("--domain", path.parent.parent / "items.csv")
    fixed = ("--synthetic", "--seed", 7, "--no-quiet")
    named = ("top", path, "--item", "product", "--user", "user", "-k", 3, "--epsilon", 1)
    top = (*named, *domain, *fixed)
    above = (
        "above",
        path,
        "--item",
        "product",
        "--user",
        "user",
        "--threshold",
        5,
        "-c",
        2,
        "--epsilon",
        1,
        *domain,
        *fixed,
    )
    return [
        (*top, "--format", "table"),
        (*above, "--format", "table"),
        (*above, "--adaptive", "--measure-share", "0.5"),
        (*top, "--threshold", 5),
        (*top, "--set", "--format", "table"),
        (*top, "--where", "TRY_CAST(price AS INTEGER) * 1000000 + 5 > 7 OR price = 'x'"),
        (*top, "--where", "TRY_CAST(price AS INTEGER) * 2147483647 + 2147483647 > 0"),
        (
            "histogram",
            path,
            "--item",
            "product",
            "--user",
            "user",
            "--max-rows",
            2,
            "--epsilon",
            1,
            *domain,
            *fixed,
        ),
        (
            "count",
            path,
            "--user",
            "user",
            "--units",
            "--epsilon",
            1,
            "--where",
            "product IN ('tea', 'rice')",
            *fixed,
        ),
        (*named, "--domain-sql", "SELECT x FROM (VALUES ('tea'), ('rice'), ('salt')) t(x)", *fixed),
    ]


_plain = []


def said(outcome, folder):
    """Return the exit code, stdout and stderr, without the folder that this test was given."""
    return outcome.code, outcome.out.replace(str(folder), ""), outcome.err.replace(str(folder), "")


@pytest.fixture
def plain(sordino, tmp_path):
    """What every command says about the plain file: once for all tests, since they change the other file only."""
    if not _plain:
        _plain.extend(
            [said(sordino(*line), tmp_path) for line in commands(shop(tmp_path / "a", ROWS))]
        )
    return _plain


PLACES = {"first": 0, "middle": 100, "last": len(ROWS)}
CASES = [
    (what, place)
    for what in ONE_RECORD
    for place in PLACES
    if place == "middle" or "line" not in what
]
LATER = {
    case for i, case in enumerate(CASES) if (i + i // 3) % 3
}  # the default run looks at a third, at every place


@pytest.mark.parametrize(
    ("what", "place"),
    [
        pytest.param(*case, id="-".join(case), marks=[pytest.mark.slow] if case in LATER else [])
        for case in CASES
    ],
)
@pytest.mark.sample(12)
def test_a_record_that_the_rules_drop_changes_nothing(sordino, tmp_path, plain, what, place):
    record, at = ONE_RECORD[what], PLACES[place]
    other = shop(tmp_path / "b", [*ROWS[:at], record, *ROWS[at:]])
    some = slice(None) if place == "middle" else slice(1)
    for a, line in zip(plain[some], commands(other)[some], strict=True):
        b = said(sordino(*line), tmp_path)
        assert a == b
        assert a[0] == 0
        assert CANARY.decode() not in b[1] + b[2]


@pytest.mark.slow
def test_a_file_without_a_last_line_end_and_with_other_line_ends(sordino, tmp_path, plain):
    for change in (
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
    ):
        other = shop(tmp_path / "b", ROWS)
        other.write_bytes(change(other.read_bytes()))
        assert [said(sordino(*line), tmp_path) for line in commands(other)] == plain


def test_an_empty_table_is_a_table(sordino, tmp_path):
    empty = shop(tmp_path / "a", [])
    one = shop(tmp_path / "b", [b"u1,dynamite,1"])
    for line_a, line_b in zip(commands(empty)[:7], commands(one)[:7], strict=True):
        a, b = sordino(*line_a), sordino(*line_b)
        assert (a.code, a.out, a.err) == (b.code, b.out, b.err)
        assert a.code == 0


def test_where_forms_that_could_look_or_fail_are_refused_alike(sordino, tmp_path):
    forms = [
        "(SELECT count(*) FROM lines) > 3",
        "product = (SELECT max(product) FROM orders)",
        "CASE WHEN product = 'tea' THEN error('boom') ELSE TRUE END",
        "EXISTS (SELECT 1)",
        "error('x') IS NULL",
        "CAST(price AS INTEGER) > 3",
        "price::INTEGER > 3",
        "random() < 0.5",
        "row_number() OVER () < 3",
        "count(*) > 3",
        "price > 1; DROP TABLE x",
        "read_text('/etc/passwd') = ''",
    ]
    a, b = shop(tmp_path / "a", ROWS), shop(tmp_path / "b", [])
    for form in forms:
        results = [sordino(*commands(path)[0], "--where", form) for path in (a, b)]
        assert {r.code for r in results} == {2}, form
        assert results[0].err == results[1].err
        assert all(r.out == "" for r in results)


def test_an_engine_failure_is_one_constant_sentence(sordino, tmp_path, monkeypatch):
    import duckdb

    path = tmp_path / "orders.parquet"
    duckdb.sql(
        f"COPY (SELECT 'u' || i AS user, 'tea' AS product, i AS price FROM range(300000) t(i)) TO '{path}'"
    )
    whole = path.read_bytes()
    shop(tmp_path / "x", [])
    url = tmp_path / "b.db"
    account = ("--ledger", url, "--account", "shop")
    assert (
        sordino(
            "ledger", "create", *account, "--epsilon", 10, "--unit", "user", "--source", path
        ).code
        == 0
    )
    seen = set()
    for corrupt in (b"", b"\xff" * 4000, CANARY * 300):
        data = bytearray(whole)
        data[2000 : 2000 + len(corrupt)] = corrupt
        path.write_bytes(bytes(data))
        line = (
            "top",
            path,
            "--item",
            "product",
            "--user",
            "user",
            "-k",
            1,
            "--epsilon",
            1,
            "--domain",
            tmp_path / "items.csv",
        )
        result = sordino(*line, *account)
        if corrupt and result.code:
            seen.add((result.code, result.out, result.err))
    assert len(seen) == 1
    code, out, err = seen.pop()
    assert (code, out) == (4, "")
    assert err.startswith("Error: The data engine could not finish this release. The charge stays;")
    assert CANARY.decode() not in err
    assert sordino("ledger", "show", *account).json["spent"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "times"), [("SIGINT", 1), ("SIGTERM", 1), ("SIGHUP", 1), ("SIGINT", 4)]
)
def test_an_interrupt_leaves_the_charge(sordino, tmp_path, name, times):
    path = tmp_path / "orders.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("user,product,price\n")
        for i in range(60):
            file.write("".join(f"u{i}-{j},item{j % 977},{j}\n" for j in range(100_000)))
    (tmp_path / "items.csv").write_text("name\nitem1\nitem2\n", encoding="utf-8")
    account = ("--ledger", str(tmp_path / "b.db"), "--account", "shop")
    assert (
        sordino(
            "ledger", "create", *account, "--epsilon", 10, "--unit", "user", "--source", path
        ).code
        == 0
    )
    command = [
        str(Path(sys.executable).with_name("sordino")),
        "top",
        str(path),
        "--item",
        "product",
        "--user",
        "user",
        "-k",
        "1",
    ]
    command += ["--epsilon", "1", "--domain", str(tmp_path / "items.csv"), *account]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and sordino("ledger", "show", *account).json["spent"] == 0:
        time.sleep(0.02)
    for _ in range(times):
        child.send_signal(getattr(signal, name))
        time.sleep(0.02)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out == b""
    assert "Traceback" not in err.decode()
    if times == 1:
        assert (
            err.decode().strip()
            == "Interrupted. Nothing more is released; whatever was charged stays charged."
        )
    assert sordino("ledger", "show", *account).json["spent"] == 1
