"""`sordino report` and `sordino ledger report`: pages of files and accounts, and what is said of files that are none."""

from __future__ import annotations

import json
import os
import sys

import pytest

from report.pages import assert_whole, document, write_documents
from sordino.cli.report import NOT_WRITTEN
from sordino.ledger import Ledger
from study.shop import put_shop


@pytest.fixture
def result(top, tmp_path):
    """A file that the command has written."""
    path = tmp_path / "top.json"
    path.write_text(top("--format", "json").out, encoding="utf-8")
    return path


def test_a_page_of_what_a_command_has_printed(sordino, result):
    made = sordino("report", result, "--title", "A <shop>")
    assert (made.code, made.err) == (0, "")
    seen = assert_whole(made.out)
    assert seen.text.startswith("A <shop>")
    for row in json.loads(result.read_text(encoding="utf-8"))["rows"]:
        assert row["item"] in seen.text
    assert "For auditors: " in seen.text
    assert "Simulated" not in seen.text


def test_several_files_and_a_list_in_one(sordino, tmp_path):
    one, two = write_documents(tmp_path, document(), [document(id="1" * 32), document(id="2" * 32)])
    assert assert_whole(sordino("report", one, two).out).elements.count("article") == 3


def test_the_results_of_a_run_make_its_page(sordino, tmp_path):
    study = put_shop(tmp_path)
    results = tmp_path / "monday" / "results.json"
    assert (
        sordino("run", study, "--run-id", "monday", "--output", results.parent, "--quiet").code == 0
    )
    made = sordino("report", results)
    told = json.loads(results.read_text(encoding="utf-8"))
    apart = tmp_path / "apart.json"
    apart.write_text(json.dumps(told["releases"]), encoding="utf-8")
    assert (made.code, made.out) == (0, sordino("report", apart).out)
    assert_whole(made.out)
    own = ("--ledger", tmp_path / "budget.db", "--account", "shop")
    assert sordino("report", results, *own).code == 0
    # An edited one is refused beside its ledger, like any other.
    told["releases"][0]["rows"][0]["estimate"] += 1
    results.write_text(json.dumps(told), encoding="utf-8")
    assert sordino("report", results, *own).code == 5


def test_the_page_is_written_whole_or_not_at_all(sordino, result, tmp_path):
    file = tmp_path / "report.html"
    made = sordino("report", result, "--output", file)
    assert (made.code, made.out, made.err) == (0, "", "")
    assert file.read_text(encoding="utf-8") == sordino("report", result).out
    again = sordino("report", result, "--output", file)
    assert again.code == 2
    assert "not there yet" in again.err
    assert not list(tmp_path.glob("*.part"))


def test_an_account_with_what_it_kept(sordino, top, account, orders):
    assert top("--keep", ledger=account[1], account="shop").code == 0
    assert top(ledger=account[1], account="shop").code == 0
    before = Ledger.open(account[1], account="shop").statement()
    alone = sordino("ledger", "report", *account)
    both = sordino("ledger", "report", *account, "--with-releases")
    assert (alone.code, both.code) == (0, 0)
    assert assert_whole(alone.out).elements.count("article") == 0
    seen = assert_whole(both.out)
    assert seen.elements.count("article") == 1
    assert "Account shop has 20% of its budget left" in seen.text
    # Nothing is charged, nothing is recorded, and where the table lies is told nobody.
    assert Ledger.open(account[1], account="shop").statement() == before
    assert str(orders) not in both.out


def test_a_kept_release_makes_the_same_page_as_its_file(sordino, top, account, tmp_path):
    kept = top("--keep", "--format", "json", ledger=account[1], account="shop")
    (path,) = write_documents(tmp_path, kept.json)
    pages = [
        sordino("report", path, *account, "--title", "T").out,
        sordino("ledger", "report", *account, "--with-releases", "--title", "T").out,
    ]
    assert pages[0] == pages[1]


def test_a_statement_and_words_of_its_owner(sordino, top, account, result, tmp_path):
    assert top("--keep", ledger=account[1], account="shop").code == 0
    statement, about = tmp_path / "s.json", tmp_path / "about.txt"
    assert sordino("ledger", "publish", *account, "--as", "json", "--output", statement).code == 0
    about.write_text("One.\n\nTwo & three.", encoding="utf-8")
    made = sordino(
        "report",
        result,
        "--statement",
        statement,
        "--about",
        about,
        "--docs",
        "https://x.example/docs",
    )
    seen = assert_whole(made.out)
    assert "Two & three." in seen.text
    assert "(the owner must add this)" in seen.text
    assert any(place.startswith("https://x.example/docs/proofs/") for place in seen.links)


def test_a_statement_that_was_edited_makes_no_page_beside_its_ledger(
    sordino, top, account, result, tmp_path
):
    assert top("--keep", ledger=account[1], account="shop").code == 0
    statement = tmp_path / "s.json"
    assert sordino("ledger", "publish", *account, "--as", "json", "--output", statement).code == 0
    whole = statement.read_text(encoding="utf-8")
    assert sordino("report", result, "--statement", statement, *account).code == 0
    edited = whole.replace("add-remove", "replace-one")
    assert edited != whole
    statement.write_text(edited, encoding="utf-8")
    made = sordino(
        "report", result, "--statement", statement, *account, "--output", tmp_path / "x.html"
    )
    assert (made.code, made.out) == (5, "")
    assert "The statement does not hold" in made.err
    assert not (tmp_path / "x.html").exists()


def edit(path, change):
    found = json.loads(path.read_text(encoding="utf-8"))
    change(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def test_a_result_that_was_edited_makes_no_page_beside_its_ledger(sordino, top, account, tmp_path):
    """Of what the ledger has kept; also where the file says that it was not kept."""
    path = tmp_path / "top.json"
    kept = top("--keep", "--format", "json", ledger=account[1], account="shop").out
    for change in (
        lambda found: found["rows"][0].update(estimate=found["rows"][0]["estimate"] + 1),
        lambda found: found["rows"].pop(),
        lambda found: found.update(kept=False, epsilon=0.001),
    ):
        path.write_text(kept, encoding="utf-8")
        assert sordino("report", path, *account).code == 0
        edit(path, change)
        made = sordino("report", path, *account, "--output", tmp_path / "x.html")
        assert (made.code, made.out) == (5, "")
        assert "must be what the ledger has kept of it" in made.err
        assert f"sordino ledger release {json.loads(kept)['id']}" in made.err
        assert not (tmp_path / "x.html").exists()
    # Without the ledger nobody can tell.
    assert sordino("report", path).code == 0


def test_what_the_ledger_has_not_kept_is_shown_as_it_is(sordino, top, account, tmp_path):
    path = tmp_path / "top.json"
    path.write_text(
        top("--format", "json", ledger=account[1], account="shop").out, encoding="utf-8"
    )
    edit(path, lambda found: found["rows"].pop())
    made = sordino("report", path, *account)
    assert made.code == 0
    assert "1 of the results could not be compared: the ledger has kept nothing of them" in made.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "RESULT must be JSON"),
        ("{", "RESULT must be JSON"),
        ("[" * 100_000, "RESULT must be JSON"),
        ("9" * 10_000, "RESULT must be JSON"),
        ("\x00", "RESULT must be JSON"),
        ("7", "RESULT must hold a release"),
        ("[]", "RESULT must hold a release"),
        ("[7]", "RESULT must hold a release"),
        ("{}", "has neither `release` nor `type`"),
        ('{"release": "top"}', "must have `rows`"),
    ],
)
def test_a_file_that_is_no_release_is_refused_in_one_sentence(sordino, tmp_path, text, says):
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    made = sordino("report", path, "--output", tmp_path / "r.html")
    assert (made.code, made.out) == (2, "")
    assert says in made.err
    assert made.err.count("\n") == 1
    assert not (tmp_path / "r.html").exists()
    assert not list(tmp_path.glob("*.part"))


def test_bytes_that_are_no_text_are_refused(sordino, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe{}")
    assert "RESULT must be JSON" in sordino("report", path).err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--ledger", "b.db"), "--ledger and --account go together"),
        (("--account", "shop"), "--ledger and --account go together"),
        (("--title", "x" * 300), "at most 200 characters"),
        (("--docs", "javascript:x"), "place of the documentation"),
        (("--about", "nowhere.txt"), "The file of --about must be a file that can be read"),
        (
            ("--statement", "nowhere.yaml"),
            "The file of --statement must be a file that can be read",
        ),
    ],
)
def test_what_does_not_fit_is_refused(sordino, result, flags, says):
    made = sordino("report", result, *flags)
    assert (made.code, made.out) == (2, "")
    assert says in made.err


def test_a_file_that_is_not_there(sordino, tmp_path):
    made = sordino("report", tmp_path / "nowhere.json")
    assert made.code == 2
    assert "RESULT must be a file that can be read" in made.err
    assert sordino("report").code == 2


def test_without_the_extra_it_says_what_to_install(sordino, result, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    made = sordino("report", result, "--output", tmp_path / "r.html")
    assert (made.code, made.out) == (4, "")
    assert "pip install 'sordino[report]'" in made.err
    assert not (tmp_path / "r.html").exists()


def test_a_page_that_cannot_be_written_costs_nothing(sordino, result, monkeypatch, tmp_path):
    def fail(_):
        raise OSError

    monkeypatch.setattr(os, "fsync", fail)
    made = sordino("report", result, "--output", tmp_path / "r.html")
    assert made.code == 4
    assert made.err == f"Error: {NOT_WRITTEN}\n"
    assert not list(tmp_path.glob("r.html*"))
