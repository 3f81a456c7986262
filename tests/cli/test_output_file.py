"""`--output FILE`: the file holds all of a release or is not there, and what cannot be written is refused before the charge."""

from __future__ import annotations

import json
import os

import pytest

from sordino.cli import output_file
from support.release_lines import GIVEN, RELEASE_LINES, write_files

TABLES = [
    name for name in RELEASE_LINES if "stdin" not in name and not name.startswith("randomize")
]
LOST = "Error: The release could not be written to the file of --output: it is lost, and its charge stays.\n"
ACCOUNT = ("--ledger", "budget.db", "--account", "shop")
pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def shop(sordino, tmp_path, monkeypatch):
    """A folder with the files of `RELEASE_LINES`, and an account."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    made = sordino(
        "ledger", "create", *ACCOUNT, "--epsilon", 5, "--unit", "u", "--source", "orders.csv"
    )
    assert made.code == 0
    return tmp_path


@pytest.fixture
def release(sordino, shop):
    def call(name, *flags, payer=ACCOUNT, epsilon=1):
        extra = ("--force",) if "statistic" in name else ()
        return sordino(*RELEASE_LINES[name], *extra, "--epsilon", epsilon, *payer, *flags)

    return call


@pytest.fixture
def spent(sordino):
    return lambda: sordino("ledger", "show", *ACCOUNT, "--format", "json").json["spent"]


def names(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith("told")}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_the_release_is_in_the_file_and_stdout_stays_empty(release, shop, name):
    done = release(name, "--output", "told.json", payer=("--no-ledger",))
    assert (done.code, done.out, done.err) == (0, "", "")
    told = json.loads((shop / "told.json").read_text(encoding="utf-8"))
    assert told["release"] == RELEASE_LINES[name][0]
    assert names(shop) == {"told.json"}


@pytest.mark.parametrize("name", ["randomize", "randomize on stdin"])
def test_so_are_reports(told, shop, name):
    line = (*RELEASE_LINES[name], "--epsilon", 1, "--synthetic", "--seed", 3)
    printed = told(GIVEN.get(name, ""), *line).out
    done = told(GIVEN.get(name, ""), *line, "--output", "told.csv")
    assert (done.code, done.out) == (0, "")
    assert (shop / "told.csv").read_text(encoding="utf-8") == printed
    assert len(printed.splitlines()) == 3
    again = told(GIVEN.get(name, ""), *line, "--output", "told.csv")
    assert (again.code, again.out) == (2, "")
    assert names(shop) == {"told.csv"}


def test_reports_appear_whole_and_a_full_disk_is_said(told, shop, monkeypatch):
    line = (*RELEASE_LINES["randomize"], "--epsilon", 1, "--no-ledger", "--output", "told.csv")

    def fail(self, text):
        assert names(shop) == {"told.csv.part"}
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_file.OutputFile, "_put", fail)
    done = told("", *line)
    assert (done.code, done.out, done.err) == (4, "", LOST)
    assert names(shop) == set()


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_it_is_what_stdout_would_have_been(release, shop, form):
    seeded = ("--synthetic", "--seed", 3, "--format", form)
    printed = release("top", *seeded, payer=()).out
    release("top", *seeded, "--output", "told", payer=())
    assert (shop / "told").read_text(encoding="utf-8") == printed


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_a_file_that_belongs_to_the_ledger_is_refused(release, shop, spent, end):
    """The database would take it for a part of itself, and not open any more."""
    done = release("count", "--output", f"./budget.db{end}")
    assert (done.code, done.out) == (2, "")
    assert "belongs to the ledger" in done.err
    assert spent() == 0


def bad_places(folder):
    (folder / "told.json").write_text("an earlier release", encoding="utf-8")
    (folder / "told.link").symlink_to(folder / "nowhere")
    (folder / "told.taken.part").write_text("", encoding="utf-8")
    return {
        "told.json": "is not there yet",
        "told.link": "is not there yet",
        "told.taken": "nobody is writing",
        "none/told": "a folder that exists",
        "orders.csv/told": "a folder that exists",
        "": "is not there yet",
        "t" * 300: "a folder that exists",
        ".": "is not there yet",
    }


def test_what_cannot_be_written_is_refused_before_the_charge(release, shop, spent):
    for place, words in bad_places(shop).items():
        before = {path.name for path in shop.iterdir()}
        for name in ("top", "sum", "select"):
            done = release(name, "--output", place)
            assert (done.code, done.out) == (2, ""), place
            assert words in done.err, place
        assert {path.name for path in shop.iterdir()} == before
    assert (shop / "told.json").read_text(encoding="utf-8") == "an earlier release"
    assert spent() == 0


def test_a_refused_release_leaves_no_file(release, shop, spent):
    assert release("top", "--output", "told", epsilon=6).code == 3
    assert release("count", "--bounded", 1, 0, "--output", "told").code == 2
    assert release("top", "--assume-public", "--output", "told").code == 2
    assert names(shop) == set()
    assert spent() == 0


@pytest.fixture
def seen(release, shop, monkeypatch):
    """Release into a file; returns what was there whenever something was forced to the disk."""
    found = []
    sync = os.fsync

    def watched(descriptor):
        found.append(names(shop))
        return sync(descriptor)

    def call():
        monkeypatch.setattr(output_file.os, "fsync", watched)
        assert release("top", "--output", "told").code == 0
        return found

    return call


def test_it_appears_whole(seen):
    # When the file was forced to the disk, and when its folder was.
    assert seen() == [{"told.part"}, {"told"}]


def test_a_file_that_shows_a_part_is_convicted(seen, monkeypatch):
    """Broken twin: it writes under the name itself."""
    init = output_file.OutputFile.__init__

    def without_part(self, path):
        init(self, path)
        self._part = path

    monkeypatch.setattr(output_file.OutputFile, "__init__", without_part)
    # It is in its own way then: neither the second look nor the new name would let it.
    monkeypatch.setattr(output_file.OutputFile, "_refuse_what_is_there", lambda self: None)
    monkeypatch.setattr(output_file.OutputFile, "_take_name", lambda self: None)
    assert seen()[0] == {"told"}


def test_a_claim_after_the_charge_is_convicted(release, shop, spent, monkeypatch):
    """Broken twin: the name is claimed when the release is there, and it is paid for and lost."""
    from sordino.cli.options import RunOptions

    add = output_file.OutputFile.add
    monkeypatch.setattr(RunOptions, "claim_output", lambda run: None)
    monkeypatch.setattr(
        output_file.OutputFile, "add", lambda self, text: (self.claim(), add(self, text))
    )
    assert release("top", "--output", "none/told").code == 2
    assert spent() == 1


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_full_disk_is_the_constant_sentence_and_the_charge_stays(
    release, shop, spent, monkeypatch, step
):
    def fail(*_given, **_named):
        raise OSError(28, "No space left on device", "told.part")

    if step == "fsync":
        monkeypatch.setattr(output_file.OutputFile, "_put", fail)
    else:
        monkeypatch.setattr(output_file.os, "link", fail)
        monkeypatch.setattr(output_file.Path, "rename", fail)
    done = release("top", "--output", "told")
    assert (done.code, done.out, done.err) == (4, "", LOST)
    assert names(shop) == set()
    assert spent() == 1


def test_an_interrupt_leaves_no_part(release, shop, spent, monkeypatch):
    def interrupt(*_given):
        raise KeyboardInterrupt

    monkeypatch.setattr(output_file.OutputFile, "_put", interrupt)
    assert release("top", "--output", "told").code == 130
    assert names(shop) == set()
    assert spent() == 1


def test_of_two_at_once_one_is_refused_before_its_charge(release, shop, spent, monkeypatch):
    second = []
    put = output_file.OutputFile._put

    def meanwhile(self, text):
        monkeypatch.setattr(output_file.OutputFile, "_put", put)
        second.append(release("count", "--output", "told"))
        return put(self, text)

    monkeypatch.setattr(output_file.OutputFile, "_put", meanwhile)
    first = release("top", "--output", "told")
    assert (first.code, second[0].code) == (0, 2)
    assert json.loads((shop / "told").read_text(encoding="utf-8"))["release"] == "top"
    assert spent() == 1
    assert names(shop) == {"told"}


def test_a_release_that_was_finished_between_look_and_claim_is_not_written_over(
    release, shop, spent, monkeypatch
):
    """The name is looked at once more when it is claimed: until then another command may claim and finish."""
    looked, between = os.path.lexists, []

    def look(path):
        there = looked(path)
        monkeypatch.setattr(output_file.os.path, "lexists", looked)
        between.append(release("count", "--output", "told"))
        return there

    monkeypatch.setattr(output_file.os.path, "lexists", look)
    late = release("top", "--output", "told")
    assert (between[0].code, late.code) == (0, 2)
    assert "is not there yet" in late.err
    assert json.loads((shop / "told").read_text(encoding="utf-8"))["release"] == "count"
    assert spent() == 1
    assert names(shop) == {"told"}


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_was_made_meanwhile_is_not_written_over(
    release, shop, spent, monkeypatch, links
):
    """Nor is the release lost, which was paid for: it stays in the file beside it."""
    put = output_file.OutputFile._put

    def meanwhile(self, text):
        (shop / "told").write_text("of somebody else", encoding="utf-8")
        return put(self, text)

    def fail(*_given):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(output_file.OutputFile, "_put", meanwhile)
    if not links:
        monkeypatch.setattr(output_file.os, "link", fail)
    done = release("top", "--output", "told")
    assert (done.code, done.out, done.err) == (4, "", f"Error: {output_file.TAKEN}\n")
    assert (shop / "told").read_text(encoding="utf-8") == "of somebody else"
    assert json.loads((shop / "told.part").read_text(encoding="utf-8"))["release"] == "top"
    assert names(shop) == {"told", "told.part"}
    assert spent() == 1


def test_a_file_system_without_links_will_do(release, shop, monkeypatch):
    def fail(*_given):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(output_file.os, "link", fail)
    assert release("top", "--output", "told").code == 0
    assert json.loads((shop / "told").read_text(encoding="utf-8"))["release"] == "top"
    assert names(shop) == {"told"}


def test_a_folder_that_cannot_be_kept_loses_nothing(release, shop, monkeypatch):
    def fail(*_given):
        raise OSError

    monkeypatch.setattr(output_file.OutputFile, "_keep_name", fail)
    assert release("top", "--output", "told").code == 0
    assert names(shop) == {"told"}


def test_streams_have_no_file(told, shop):
    line = (*RELEASE_LINES["above on stdin"], "--epsilon", 1, "--no-ledger", "--output", "told")
    refused = told("tea,7\n", *line)
    assert (refused.code, refused.left) == (2, 6)
    assert "--output is for a table" in refused.err
    assert names(shop) == set()
