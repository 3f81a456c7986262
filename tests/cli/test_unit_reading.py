"""An account takes one reading of the column of its unit, on every way of the command to it."""

from __future__ import annotations

import pytest

LINES = "who,g,x\n7,a,1\n07,b,2\nNA,a,3\n"


@pytest.fixture
def people(tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text(LINES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


PAYING = ("--ledger", "b.db", "--account", "a")
CREATE = ("ledger", "create", *PAYING, "--epsilon", 9, "--unit", "who", "--source", "people.csv")
COUNT = ("count", "people.csv", "--user", "who", "--max-rows", 1, "--epsilon", 1, *PAYING)
RANDOMIZE = (
    *(
        "randomize",
        "people.csv",
        "--column",
        "x",
        "--user",
        "who",
        "--max-rows",
        1,
        "--lower",
        0,
        "--upper",
        3,
    ),
    *("--epsilon", 1, "--adjacency", "replace-one", *PAYING),
)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--type", "who=integer"), "csv integer"),
        (("--null", "NA"), 'csv text, null "NA"'),
        (("--encoding", "latin-1"), 'csv text, encoding "latin-1"'),
    ],
)
def test_another_reading_is_refused_before_the_charge_and_the_kept_one_shown(sordino, more, says):
    assert sordino(*CREATE).code == 0
    assert sordino(*COUNT).code == 0
    for dry in ((), ("--dry-run",)):
        again = sordino(*COUNT, *more, *dry)
        assert (again.code, again.out) == (5, "")
        assert f"but this release reads it as {says}: by these" in again.err
    told = sordino("ledger", "show", *PAYING, "--format", "json").json
    assert (told["reading"], told["spent"]) == ("csv text", 1.0)
    assert (
        "The column of the person is read as csv text."
        in sordino("ledger", "show", *PAYING, "--details", "--format", "table").out
    )


@pytest.mark.usefixtures("people")
def test_reports_of_rows_are_charged_alike(sordino):
    assert sordino(*CREATE, "--adjacency", "replace-one").code == 0
    first = sordino(*RANDOMIZE)
    assert first.code == 0, first.err
    again = sordino(*RANDOMIZE, "--null", "NA")
    assert (again.code, again.out) == (5, "")
    assert 'reads it as csv text, null "NA"' in again.err


@pytest.mark.usefixtures("people")
def test_rows_of_a_pipe_are_charged_alike(sordino, told):
    assert sordino(*CREATE, "--adjacency", "replace-one").code == 0
    assert sordino(*RANDOMIZE).code == 0
    piped = [*RANDOMIZE]
    piped[1] = "-"
    for more in (("--null", "NA"), ("--encoding", "latin-1"), ("--quote", "none")):
        for dry in ((), ("--dry-run",)):
            again = told(LINES, *piped, *more, *dry)
            assert (again.code, again.out) == (5, ""), more
            assert "but this release reads it as csv text, " in again.err
    same = told(LINES, *piped, "--type", "who=text", "--thousands", "'")
    assert same.code == 0, same.err
    assert sordino("ledger", "show", *PAYING, "--format", "json").json["spent"] == 2
    for dry in ((), ("--dry-run",)):
        missing = told("7,1\n", *piped, "--no-header", "--columns", "x,y", *dry)
        assert (missing.code, missing.out) == (2, ""), missing.err


@pytest.mark.usefixtures("people")
def test_what_a_pipe_says_first_holds_for_files(sordino, told):
    assert sordino(*CREATE, "--adjacency", "replace-one").code == 0
    piped = [*RANDOMIZE]
    piped[1] = "-"
    assert told(LINES, *piped, "--null", "NA").code == 0
    assert sordino(*RANDOMIZE).code == 5
    assert sordino(*RANDOMIZE, "--null", "NA").code == 0
