"""Pages work as written: their commands run from the first to the last, and print what the page shows but for noise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import page_outputs  # noqa: E402


@pytest.mark.parametrize("page", page_outputs.PAGES)
def test_a_page_runs_as_it_is_written_and_shows_what_it_prints(page, tmp_path):
    for block in page_outputs.run_page(page, tmp_path):
        # A command fails only where the page asks for its exit code next.
        typed = [one for one in page_outputs.commands(block.body) if not page_outputs.ONCE.match(one)]
        for command, code, following in zip(typed, block.codes, [*typed[1:], ""], strict=bool(block.codes)):
            assert code == 0 or following.startswith("echo $?"), (command, code, block.printed)
        if block.shown is not None:
            assert page_outputs.shape(block.shown) == page_outputs.shape(block.printed), block.body


def test_every_tutorial_is_run():
    tutorials = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert tutorials <= set(page_outputs.PAGES)


def test_the_first_release_works_with_made_up_flights_too(tmp_path, monkeypatch):
    page = "docs/tutorials/first-release.md"
    made_up = lambda folder: page_outputs.put_made_up_flights(folder / "demo")  # noqa: E731
    monkeypatch.setitem(page_outputs.PAGES, page, made_up)
    blocks = [block for block in page_outputs.run_page(page, tmp_path) if block.shown is not None]
    assert len(blocks) == 6
    for block in blocks:
        assert page_outputs.shape(block.shown) == page_outputs.shape(block.printed), block.body


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


def test_a_command_that_fails_unseen_is_noticed(tmp_path):
    programs = page_outputs.put_programs(tmp_path)
    printed, codes = page_outputs.run_shell(["false | cat", "echo $?", "echo on"], tmp_path, programs)
    assert (printed, codes) == ("1\non\n", (1, 0, 0))
