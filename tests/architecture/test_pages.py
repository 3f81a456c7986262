"""Pages work as written: their commands run from the first to the last, and print what the page shows but for noise."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import pytest

from sordino.cli import group

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import page_outputs  # noqa: E402
import release_picture  # noqa: E402
import year_picture  # noqa: E402


# `make audit` runs these.
@pytest.mark.slow
@pytest.mark.parametrize("page", page_outputs.PAGES)
def test_a_page_runs_as_it_is_written_and_shows_what_it_prints(page, tmp_path):
    for block in page_outputs.run_page(page, tmp_path):
        # A command fails only where the page asks for its exit code next.
        typed = [
            one for one in page_outputs.commands(block.body) if not page_outputs.ONCE.match(one)
        ]
        for command, code, following in zip(
            typed, block.codes, [*typed[1:], ""], strict=bool(block.codes)
        ):
            assert code == 0 or following.startswith("echo $?"), (command, code, block.printed)
        if block.shown is not None:
            assert page_outputs.shape(block.shown) == page_outputs.shape(block.printed), block.body


@pytest.mark.parametrize(
    "page",
    [page for page in page_outputs.PAGES if page_outputs.PAGES[page] is page_outputs.put_flights],
)
@pytest.mark.slow
def test_pages_about_flights_work_with_made_up_ones_too(page, tmp_path, monkeypatch):
    monkeypatch.setitem(page_outputs.PAGES, page, page_outputs.put_made_up)
    compared = 0
    for block in page_outputs.run_page(page, tmp_path):
        if block.shown is not None:
            assert page_outputs.shape(block.shown) == page_outputs.shape(block.printed), block.body
            compared += 1
    assert compared


# What these pages show takes minutes, or needs a program or a server that not every machine has.
NOT_RUN = {
    "docs/how-to/audit-someone-elses-mechanism.md": "a program of somebody else, 5,000 times",
    "docs/how-to/genome-wide-panels.md": "PLINK, and a genome",
    "docs/how-to/release-from-spark.md": "a server of Spark",
    "docs/how-to/share-one-ledger.md": "a PostgreSQL server",
}


def test_every_page_with_commands_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    typed = {
        path.relative_to(ROOT).as_posix()
        for path in pages
        for block in page_outputs.BLOCK.finditer(path.read_text(encoding="utf-8"))
        if block["kind"] == "console"
        and any(
            not page_outputs.ONCE.match(command) for command in page_outputs.commands(block["body"])
        )
    }
    assert typed == {*page_outputs.PAGES, *NOT_RUN}


def test_the_picture_of_a_release_is_what_the_library_releases():
    assert release_picture.PICTURE.read_text(encoding="utf-8") == release_picture.picture(), (
        "python docs/release_picture.py draws it anew"
    )


def test_the_picture_of_a_year_is_what_the_accounts_count():
    assert year_picture.PICTURE.read_text(encoding="utf-8") == year_picture.picture(), (
        "python docs/year_picture.py draws it anew"
    )
    for name in year_picture.BUDGETS:
        last = year_picture.fitting(name)
        # At the last night a little is left, less than another one takes.
        assert (
            year_picture.spent(name, last)
            <= year_picture.EPSILON
            < year_picture.spent(name, last + 1)
        )


def test_the_first_page_names_every_command():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    table = text[text.index("## Which command") : text.index("```{toctree}")]
    named = {
        name
        for cell in re.findall(r"\| ([^|]*`[^|]*) \| \[", table)
        for name in re.findall(r"[a-z-]+", cell)
    }
    assert set(group.list_commands(click.Context(group))) - named == set()


def not_to_be_copied(text):
    """Return the lines of a page that the copy button would take, or leave out, against their meaning."""
    # It takes lines with a prompt, and those that a backslash carries on.
    for block in page_outputs.BLOCK.finditer(text):
        if block["kind"] == "console":
            lines = re.split(r"(?<!\\)\n", block["body"].rstrip("\n"))
            yield from (line for line in lines if not line.startswith("$ "))
        elif block["kind"] == "text" and block["body"].startswith("$ "):
            yield block["body"]


def test_a_block_that_is_copied_holds_commands_alone():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    found = {
        page.relative_to(ROOT): list(not_to_be_copied(page.read_text(encoding="utf-8")))
        for page in pages
    }
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_a_block_that_holds_more_than_commands_is_found():
    page = "```console\n$ a \\\n  b\nprinted\n```\n\n```text\n$ c\n```\n"
    assert list(not_to_be_copied(page)) == ["printed", "$ c\n"]


def test_commands_are_what_a_reader_types():
    body = "$ cat x | sordino above - \\\n    -c 1\nwhat it prints\n$ echo $?\n"
    assert page_outputs.commands(body) == ["cat x | sordino above - \\\n    -c 1", "echo $?"]


def test_a_shape_keeps_words_and_the_number_of_fields_and_nothing_of_noise():
    table = "rank  item  low\n   1  BOS   12\nSpent: epsilon 1.\n"
    assert page_outputs.shape(table) == page_outputs.shape(table.replace("BOS   12", "DEN  -3.5"))
    for changed in ("item  low  high", "item  lower"):
        assert page_outputs.shape(table) != page_outputs.shape(table.replace("item  low", changed))
    assert page_outputs.shape(table) != page_outputs.shape(table.replace("BOS", "BOS yes"))
    assert page_outputs.shape(table) != page_outputs.shape(table.replace("Spent", "Cost"))
    assert page_outputs.shape(table) != page_outputs.shape(table + "One line more.\n")


def test_a_flag_that_noise_sets_in_a_list_is_no_part_of_its_shape():
    plain = "rank  item  low  tie\n   1  BOS    9  no\n   2  DEN    3\nlow: x. tie: the next.\n"
    flagged = (
        "rank  item  low  tie  too_few\n   1  BOS    9  no   no\n   2  DEN    0  yes\n"
        "low: x. tie: the next. too_few: cannot be told from 0.\n"
    )
    assert page_outputs.shape(plain) == page_outputs.shape(flagged)
    assert page_outputs.shape(plain) != page_outputs.shape(flagged.replace("BOS", "BOS x"))
    # Of other tables it is a column as any other.
    other = flagged.replace("rank", "pair")
    assert page_outputs.shape(other) != page_outputs.shape(plain.replace("rank", "pair"))


def test_a_command_that_fails_unseen_is_noticed(tmp_path):
    programs = page_outputs.put_programs(tmp_path)
    printed, codes = page_outputs.run_shell(
        ["false | cat", "echo $?", "echo on"], tmp_path, programs
    )
    assert (printed, codes) == ("1\non\n", (1, 0, 0))
