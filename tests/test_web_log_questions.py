"""Every command of the page about a web log says what a query by hand says: the commands, the log and its declaration are read from the page."""

from __future__ import annotations

import math
import re
import shlex
import string
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "web-log-questions.md"
TEXT = PAGE.read_text(encoding="utf-8")
SAID, PART, NOT, NEVER = (
    "## The questions",
    "## In part",
    "## Not today",
    "## What nobody should be told",
)
# So much that the noise is far below 1: what is left is what the command counts, and what it clips.
EPSILON = "1e7"


def section(title):
    return TEXT.split(f"\n{title}\n")[1].split("\n## ")[0]


def list_rows(title):
    """Return the numbers of the queries of each row of a table, and its commands."""
    for line in section(title).splitlines():
        if numbers := re.match(r"\| ([\d, ]+) \|", line):
            yield (
                [int(one) for one in numbers[1].split(",")],
                re.findall(r"`(sordino [^`]+)`", line),
            )


COMMANDS = {
    (numbers[0], place): command
    for title in (SAID, PART, NOT, NEVER)
    for numbers, commands in list_rows(title)
    for place, command in enumerate(commands)
}
JULY = re.search(r"`\$JULY` stands for `([^`]+)`", TEXT)[1]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a folder with the log, the lists and the declaration of the page."""
    folder = tmp_path_factory.mktemp("log")
    for caption, body in re.findall(
        r":caption: (\S+)\n\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL
    ):
        (folder / caption).write_text(body, encoding="utf-8")
    subprocess.run([sys.executable, "web_log.py"], cwd=folder, check=True)
    return folder


# ---- what a query by hand says -----------------------------------------------------------------------------

PHRASES = "SearchPhrase <> ''"
GOOGLE = f"{PHRASES} AND Title LIKE '%Google%' AND URL NOT LIKE '%.google.%'"
SHOWN = f"{JULY} AND DontCountHits = 0"


def people(label="NULL", where="TRUE"):
    """How many people have each label."""
    return (
        "people",
        f"SELECT {label}, count(DISTINCT UserID) FROM 'hits.parquet' WHERE {where} GROUP BY 1",
    )


def hits(label="NULL", where="TRUE", value="1"):
    """What each person has of each label; added up, after what a person has in all was clipped."""
    query = f"SELECT UserID, {label}, sum({value}) FROM 'hits.parquet' WHERE {where} GROUP BY 1, 2"
    return "hits", query


def means(*columns, label="NULL", where="TRUE"):
    """The mean of each column, what it is of, and its sum."""
    figures = [f"avg({one}), count({one}), sum({one})" for one in columns]
    return (
        "means",
        f"SELECT {label}, {', '.join(figures)} FROM 'hits.parquet' WHERE {where} GROUP BY 1",
    )


EXACT = {
    (1, 0): hits(),
    (2, 0): hits(where="AdvEngineID <> 0"),
    (3, 0): hits(value="AdvEngineID"),
    (3, 1): means("ResolutionWidth"),
    (5, 0): people(),
    (8, 0): hits("AdvEngineID", "AdvEngineID <> 0"),
    (9, 0): people("RegionID"),
    (10, 0): means("AdvEngineID", "ResolutionWidth", label="RegionID"),
    (10, 1): people("RegionID"),
    (11, 0): people("MobilePhoneModel", "MobilePhoneModel <> ''"),
    (12, 0): people("[MobilePhone::TEXT, MobilePhoneModel]", "MobilePhoneModel <> ''"),
    (13, 0): hits("SearchPhrase", PHRASES),
    (14, 0): people("SearchPhrase", PHRASES),
    (15, 0): hits("[SearchEngineID::TEXT, SearchPhrase]", PHRASES),
    (21, 0): hits(where="URL LIKE '%google%'"),
    (22, 0): hits("SearchPhrase", f"{PHRASES} AND URL LIKE '%google%'"),
    (23, 0): hits("SearchPhrase", GOOGLE),
    (23, 1): people("SearchPhrase", GOOGLE),
    (28, 0): means("length(URL)", label="CounterID", where="URL <> ''"),
    (30, 0): means("ResolutionWidth"),
    (31, 0): means(
        "IsRefresh",
        "ResolutionWidth",
        label="ClientIP",
        where=f"{PHRASES} AND SearchEngineID = 1",
    ),
    (34, 0): hits("URL"),
    (36, 0): hits("ClientIP"),
    (37, 0): hits("URL", f"{SHOWN} AND URL <> ''"),
    (38, 0): hits("Title", f"{SHOWN} AND Title <> ''"),
    (39, 0): hits("URL", f"{JULY} AND IsLink <> 0 AND IsDownload = 0"),
    (41, 0): hits(
        "[URLHash::TEXT, EventDate::TEXT]",
        f"{JULY} AND TraficSourceID IN (-1, 6) AND RefererHash = 2",
    ),
    (42, 0): hits(
        "[WindowClientWidth::TEXT, WindowClientHeight::TEXT]", f"{SHOWN} AND URLHash = 1"
    ),
    (29, 0): hits("regexp_extract(Referer, '^https?://([^/]+)/', 1)", "Referer <> ''"),
    (40, 0): people("[TraficSourceID::TEXT, SearchEngineID::TEXT, AdvEngineID::TEXT, URL]", JULY),
    (43, 0): hits(
        "[EventDate::TEXT, strftime(EventTime, '%H'), strftime(EventTime, '%M')]",
        f"{SHOWN} AND EventDate BETWEEN '2013-07-14' AND '2013-07-15'",
    ),
    (7, 0): people("EventDate"),
    (16, 0): (
        "people",
        "SELECT CASE WHEN n < 10 THEN 'below 10' WHEN n < 100 THEN '10 to below 100' ELSE '100 or more' END, count(*)"
        " FROM (SELECT count(*) AS n FROM 'hits.parquet' GROUP BY UserID) GROUP BY 1",
    ),
    (17, 0): (
        "quantiles",
        f"SELECT quantile_disc(n, [0.5, 0.9]) FROM (SELECT count(*) AS n FROM 'hits.parquet' WHERE {PHRASES} GROUP BY UserID)",
    ),
}


def name(label):
    """Return a label as a release of one or several columns writes it."""
    if isinstance(label, list | tuple):
        return tuple(label)
    return None if label is None else str(label)


def ask(query, folder):
    with duckdb.connect() as connection:
        connection.execute(f"SET file_search_path = '{folder}'")
        return connection.execute(query).fetchall()


def clip(facts, most):
    """Add up what people have of each label, where one who has more than `most` in all has the same share of it everywhere."""
    whole = defaultdict(float)
    for person, _, value in facts:
        whole[person] += value
    sums = defaultdict(float)
    for person, label, value in facts:
        sums[name(label)] += value * min(1, most / (whole[person] or 1))
    return sums


# ---- what the command says ---------------------------------------------------------------------------------


def near(figure):
    return pytest.approx(figure, rel=2e-4, abs=1e-2)


@pytest.mark.parametrize("place", COMMANDS, ids=lambda place: f"{place[0]}-{place[1]}")
@pytest.mark.sample(4)
def test_a_command_says_what_the_query_says(place, log, sordino, monkeypatch):
    monkeypatch.chdir(log)
    command = string.Template(COMMANDS[place]).substitute(JULY=JULY)
    typed = shlex.split(command)[1:]
    seeded = ["--epsilon", EPSILON, "--yes-i-mean-it", "--synthetic", "--seed", "7"]
    done = sordino(*typed, *seeded, "--format", "json")
    assert done.code == 0, done.err
    kind, query = EXACT[place]
    facts = ask(query, log)
    if kind == "quantiles":
        assert [row["estimate"] for row in done.json["rows"]] == facts[0][0]
    elif kind == "means":
        check_means(done.json.get("releases", [done.json]), facts, found="--unlisted" in typed)
    else:
        check_labels(done.json["rows"], kind, facts, typed)


def check_means(releases, facts, found):
    for number, release in enumerate(releases):
        exact = {name(row[0]): row[1 + 3 * number : 4 + 3 * number] for row in facts}
        rows = {name(row.get("item")): row for row in release["rows"]}
        # A label without hits has no mean, and one that nobody listed appears only if people share it.
        assert len(rows) >= 5 if found else rows.keys() >= exact.keys()
        for label in rows.keys() & exact.keys():
            row = rows[label]
            mean, count, total = exact[label]
            if found:
                # People count in three groups at most.
                assert row["count"] == pytest.approx(count, rel=0.02)
                assert row["estimate"] == pytest.approx(mean, rel=0.02)
                continue
            assert row["estimate"] == near(mean)
            assert row["count"] == near(count)
            assert row.get("sum", total) == near(total)


def check_labels(rows, kind, facts, typed):
    said = {name(row.get("item")): row["estimate"] for row in rows}
    assert len(said) == len(rows) > 0
    if kind == "people":
        exact = {name(label): count for label, count in facts}
    else:
        exact = clip(facts, rows[0]["clip_high"])
        assert sum(exact.values()) >= 0.9 * sum(clip(facts, math.inf).values())
    found = "--unlisted" in typed
    for label, figure in said.items():
        if not found:
            assert figure == near(exact.get(label, 0))
        elif kind == "people":
            # People count for so many labels at most.
            assert 0.8 * exact[label] <= figure <= exact[label] + 0.5
        else:
            # Clipped is what a person has of the labels that were found, and not of all.
            assert 0.9 * exact[label] - 2 <= figure <= clip(facts, math.inf)[label] + 0.01
    if typed[0] == "top":
        wanted = int(typed[typed.index("-k") + 1])
        largest = sorted(exact.values(), reverse=True)[:wanted]
        if "--threshold" in typed:
            # Those far above are in, those far below are not.
            threshold = float(typed[typed.index("--threshold") + 1])
            assert all(figure > threshold for figure in said.values())
            assert {one for one in exact if exact[one] > 1.1 * threshold} <= said.keys()
        elif found:
            assert sum(said.values()) == pytest.approx(sum(largest), rel=0.05)
        else:
            largest += [0] * (wanted - len(largest))
            assert [*said.values()] == near(largest)
    elif typed[0] == "above":
        threshold = float(typed[typed.index("--threshold") + 1])
        assert said.keys() == {label for label, count in exact.items() if count > threshold}
    elif not found:
        assert said.keys() >= exact.keys()


# ---- the page and its numbers ------------------------------------------------------------------------------


def test_every_command_has_its_query():
    assert COMMANDS.keys() == EXACT.keys()


def test_every_query_of_the_suite_stands_on_the_page_once():
    numbers = [
        number
        for title in (SAID, PART, NOT, NEVER)
        for row, _ in list_rows(title)
        for number in row
    ]
    assert sorted(numbers) == list(range(1, 44))


def test_the_page_counts_what_can_be_said():
    said, part, missing, never = (
        sum(len(row) for row, _ in list_rows(title)) for title in (SAID, PART, NOT, NEVER)
    )
    assert f"**{never} are left out.**" in TEXT
    assert (
        f"**{said + part + missing} are about many people. {said} of these can be said today**, {part} in part, and {missing} cannot."
        in TEXT
    )
    assert said >= 24
    # Nothing is called sayable without a command.
    assert all(commands for title in (SAID, PART) for _, commands in list_rows(title))
