"""A ledger whose process was killed, and whose file is then moved alone: nothing that was drawn is forgotten, or somebody notices."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import struct
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from ledger.fakes import REAL, Marking, child, finished, in_child, make, raw, refused, spent
from ledger.faults import POINTS
from ledger.operations import prepare
from ledger.parted import make_parted
from sordino.cost import Pure
from sordino.errors import LedgerError
from sordino.ledger import Budget, Ledger, PartRange
from sordino.ledger.store import journal as journals, sqlite

WHOLE, TINY = Fraction(1, 4), Fraction(1, 10**6)
PAGE = 4096


def killed_after_a_draw(ledger, folder):
    """Charge in a process that is killed while it waits; return what its noise says that it drew."""

    def doomed():
        charge = ledger.reserve(Pure(epsilon=WHOLE))
        charge.release(Marking(WHOLE, WHOLE, folder / "noise"), [1], entropy=REAL)
        os.kill(os.getpid(), signal.SIGKILL)

    assert finished(child(doomed)) == -signal.SIGKILL
    return (folder / "noise").stat().st_size * WHOLE


def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    return folder / "budget.db"


def test_a_file_that_is_moved_alone_after_a_kill_holds_what_was_drawn(tmp_path):
    ledger = make(tmp_path / "budget.db")
    drawn = killed_after_a_draw(ledger, tmp_path)
    moved = elsewhere(tmp_path)
    Path(ledger.url).rename(moved)
    assert spent(Ledger.open(moved, account="orders")) == drawn == WHOLE


def test_a_copy_of_the_file_alone_holds_what_was_drawn_while_the_process_lives(tmp_path):
    ledger = make(tmp_path / "budget.db")
    with ledger.reserve(Pure(epsilon=WHOLE)) as charge:
        charge.draw(Pure(epsilon=WHOLE))
        shutil.copy(ledger.url, tmp_path / "copy.db")
        assert spent(Ledger.open(tmp_path / "copy.db", account="orders")) == WHOLE


# ---- the pages of one write, some written and some not ----------------------------------------------------------------


def pages_of(path):
    raw_bytes = Path(path).read_bytes()
    return [raw_bytes[place : place + PAGE] for place in range(0, len(raw_bytes), PAGE)]


def halves(before, after):
    """Return what a file may be while one write goes on: a killed process writes in order, a lost machine in any order."""
    changed = [k for k, page in enumerate(after) if k >= len(before) or page != before[k]]
    for count in range(len(changed)):
        written = set(changed[:count])
        last = max(len(before), max(written, default=0) + 1)
        yield [after[k] if k in written else before[k] for k in range(last)]
    chance = random.Random(7)
    for chosen in {tuple(k for k in changed if chance.random() < 0.5) for _ in range(60)}:
        yield [
            after[k] if k in chosen else before[k] if k < len(before) else bytes(PAGE)
            for k in range(len(after))
        ]


def filled(path, charges):
    """Return a ledger with several accounts and enough charges that its tables have more than one page."""
    ledger = make(path, 1000)
    ledger.grant("red", 1)
    for number in range(charges):
        with ledger.reserve(Pure(epsilon=TINY), label=f"charge {number} " * 20) as charge:
            charge.draw(Pure(epsilon=TINY))
    for number in range(20):
        make(path, 1, f"account {number} " + "x" * 150)
    return ledger


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.sample(8)
def test_half_of_a_write_is_noticed_before_the_next_charge(tmp_path, name):
    """Whatever part of a write is in a file that was moved alone: no charge is missing, or nothing can be charged."""
    ledger = filled(tmp_path / "budget.db", 12)
    at_first = spent(ledger)
    struck = prepare(name, ledger, tmp_path / "mark")
    sqlite.close_all()
    before = pages_of(ledger.url)
    struck.do()
    sqlite.close_all()
    after, seen = pages_of(ledger.url), []
    known = {at_first + struck.before, at_first + struck.after}
    for number, state in enumerate(halves(before, after)):
        path = tmp_path / f"half-{number}.db"
        path.write_bytes(b"".join(state))
        if verified(path):  # what was under way may be there or not; nothing else is missing
            assert Ledger.open(path, account="orders").statement().spent in known
        try:
            half = Ledger.open(path, account="orders")
            half.reserve(Pure(epsilon=TINY))
        except LedgerError as noticed:
            assert "holds half of a write" in str(noticed) or "is damaged" in str(noticed)
            seen.append(True)
        else:
            assert spent(half) - TINY in known
            assert verified(path)
            seen.append(False)
        sqlite.close_all()
        for end in ("", "-journal"):
            path.with_name(path.name + end).unlink(missing_ok=True)
    assert not seen[0]  # nothing was written yet
    assert sum(seen) > 2


def verified(path):
    """Tell whether `verify` finds nothing in any account."""
    try:
        return all(Ledger.open(path, account=name).verify().sound for name in Ledger.accounts(path))
    except LedgerError:
        return False


# ---- the journal that a killed process left ---------------------------------------------------------------------------


def hot(journal):
    """Return a journal of a finished write as it was before the write was finished: with its first bytes."""
    places = range(512, len(journal) - PAGE - 7, PAGE + 8)
    kept = [
        (
            int.from_bytes(journal[k : k + 4], "big"),
            journal[k + 4 : k + 4 + PAGE],
            journal[k + 4 + PAGE :][:4],
        )
        for k in places
    ]
    sums = [
        (int.from_bytes(sum_, "big") - sum(page[k] for k in range(PAGE - 200, 0, -200))) % 2**32
        for _, page, sum_ in kept
    ]
    # All pages of one journal have one number in their sums; what follows is of journals before.
    count = next((n for n, number in enumerate(sums) if number != sums[0]), len(sums))
    [first] = [page for number, page, _ in kept[:count] if number == 1]
    pages = int.from_bytes(first[28:32], "big")
    head = [count, sums[0], pages, 512, PAGE]
    return (
        bytes.fromhex("d9d505f920a163d7")
        + b"".join(number.to_bytes(4, "big") for number in head)
        + journal[28:]
    )


def left_behind(tmp_path, *, written):
    """Return a ledger whose last write was killed: with all of its pages in the file, or none."""
    ledger = make(tmp_path / "budget.db")
    with ledger.reserve(Pure(epsilon=WHOLE)) as charge:
        charge.draw(Pure(epsilon=WHOLE))
    sqlite.close_all()
    before = Path(ledger.url).read_bytes()
    charge = ledger.reserve(Pure(epsilon=TINY))
    sqlite.close_all()
    journal = Path(f"{ledger.url}-journal")
    journal.write_bytes(hot(journal.read_bytes()))
    if not written:
        Path(ledger.url).write_bytes(before)
    return ledger, journal


@pytest.mark.parametrize("written", [True, False])
def test_what_a_killed_process_has_left_is_undone_where_it_was(tmp_path, written):
    ledger, journal = left_behind(tmp_path, written=written)
    assert spent(ledger) == WHOLE
    assert not journal.exists() or not journal.read_bytes().startswith(journals._JOURNAL_START)
    ledger.reserve(Pure(epsilon=TINY))
    assert spent(ledger) == WHOLE + TINY


@pytest.mark.parametrize("charges", [1, 2, 5])
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.each_value
def test_a_file_that_was_used_elsewhere_and_comes_back_keeps_its_charges(
    tmp_path, written, charges
):
    ledger, journal = left_behind(tmp_path, written=written)
    moved = elsewhere(tmp_path)
    Path(ledger.url).rename(moved)
    away = Ledger.open(moved, account="orders")
    for _ in range(charges):
        with away.reserve(Pure(epsilon=TINY)) as charge:
            charge.draw(Pure(epsilon=TINY))
    was = spent(away)
    assert was == WHOLE + (charges + written) * TINY
    sqlite.close_all()
    moved.rename(ledger.url)
    content = Path(ledger.url).read_bytes()
    for use in (
        lambda: ledger.reserve(Pure(epsilon=TINY)),
        lambda: ledger.remaining,
        ledger.verify,
    ):
        assert str(journal) in refused(use, "belongs to it as it was before")
    assert Path(ledger.url).read_bytes() == content
    journal.rename(tmp_path / "away")  # as the message says
    assert spent(ledger) == was
    ledger.reserve(Pure(epsilon=TINY))
    assert spent(ledger) == was + TINY


def test_a_file_that_comes_back_to_a_process_that_has_it_open_keeps_its_charges(tmp_path):
    ledger, journal = left_behind(tmp_path, written=True)
    left = journal.read_bytes()
    assert spent(ledger) == WHOLE  # it is open from now on
    moved = elsewhere(tmp_path)
    Path(ledger.url).rename(moved)

    def away():
        with Ledger.open(moved, account="orders").reserve(Pure(epsilon=TINY)) as charge:
            charge.draw(Pure(epsilon=TINY))

    assert in_child(away) == 0
    moved.rename(ledger.url)
    journal.write_bytes(left)
    refused(lambda: ledger.reserve(Pure(epsilon=TINY)), "belongs to it as it was before")
    refused(lambda: ledger.remaining, "belongs to it as it was before")
    journal.unlink()
    assert spent(ledger) == WHOLE + TINY


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_a_new_ledger_is_not_made_beside_what_another_one_left(tmp_path, end):
    """SQLite would delete it, and it is what the other one needs."""
    ledger, journal = left_behind(tmp_path, written=True)
    left = journal.rename(f"{ledger.url}{end}")
    content = left.read_bytes()
    Path(ledger.url).rename(elsewhere(tmp_path))
    assert str(left) in refused(lambda: make(ledger.url), "Move that file to another folder")
    assert left.read_bytes() == content
    left.rename(f"{elsewhere(tmp_path)}{end}")
    assert make(ledger.url).remaining == 1


def test_a_log_beside_a_file_that_has_none_is_refused(tmp_path):
    """SQLite would put what is in it over the file."""
    ledger = make(tmp_path / "budget.db")
    sqlite.close_all()
    with closing(in_log(shutil.copy(ledger.url, tmp_path / "log.db"))) as older:
        older.execute("UPDATE account SET spent = 0")
        shutil.copy(tmp_path / "log.db-wal", f"{ledger.url}-wal")
    ledger_use = lambda: ledger.reserve(Pure(epsilon=TINY))  # noqa: E731
    assert "budget.db-wal" in refused(ledger_use, "belongs to it as it was before")


def test_a_process_that_is_killed_in_the_middle_of_its_pages_is_undone_or_noticed(tmp_path):
    """Killed by the system at the first page behind a limit, with its journal complete and the first pages written."""
    ledger = filled(tmp_path / "budget.db", 30)
    was = spent(ledger)
    sqlite.close_all()

    def doomed():
        size = Path(ledger.url).stat().st_size
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for _ in range(100):
            ledger.reserve(Pure(epsilon=TINY), label="x" * 500)

    assert in_child(doomed) == -signal.SIGXFSZ
    journal = Path(f"{ledger.url}-journal")
    assert journal.read_bytes().startswith(journals._JOURNAL_START)
    alone = Path(shutil.copy(ledger.url, elsewhere(tmp_path)))
    use = lambda: Ledger.open(alone, account="orders").reserve(Pure(epsilon=TINY))  # noqa: E731
    with pytest.raises(LedgerError, match=r"holds half of a write|is damaged"):
        use()
    assert not verified(alone)
    sqlite.close_all()
    shutil.copy(journal, f"{alone}-journal")  # put beside it again, as the message says
    use()
    charged = len(ledger.statement().charges) - 30
    assert spent(ledger) == was + charged * TINY
    assert spent(Ledger.open(alone, account="orders")) == was + (charged + 1) * TINY


# ---- files of older versions ------------------------------------------------------------------------------------------


def in_log(path):
    """Return a connection such as older versions kept: with what it writes in a log beside the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.execute("PRAGMA user_version = 4")  # something is in the log
    return connection


def older(path):
    """Make the file of a ledger one that an older version has left."""
    sqlite.close_all()
    in_log(path).close()
    Path(f"{path}-journal").unlink(missing_ok=True)
    assert Path(path).read_bytes()[18] == 2


def test_a_file_of_an_older_version_leaves_its_log_when_it_is_charged(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    older(ledger.url)
    assert ledger.remaining == 1 - TINY
    assert Path(ledger.url).read_bytes()[18] == 2  # to look does not change it
    ledger.reserve(Pure(epsilon=TINY))
    assert Path(ledger.url).read_bytes()[18] == 1
    assert not Path(f"{ledger.url}-wal").exists()
    assert spent(ledger) == 2 * TINY


def test_a_file_that_an_older_process_has_open_is_not_charged_beside_its_log(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    older(ledger.url)
    monkeypatch.setattr(sqlite, "_LOCK_TIMEOUT", 0.05)
    with closing(in_log(ledger.url)) as process:
        process.execute("SELECT * FROM account").fetchall()
        refused(
            lambda: ledger.reserve(Pure(epsilon=TINY)),
            "is kept open by an older version of sordino",
        )
        assert ledger.remaining == 1 - TINY  # looking is possible
        refused(lambda: ledger.reserve(Pure(epsilon=TINY)), "Nothing was charged")
    ledger.reserve(Pure(epsilon=TINY))
    assert spent(ledger) == 2 * TINY


def test_a_file_that_goes_back_into_a_log_under_a_process_leaves_it_again(tmp_path):
    """An older version does that whenever it opens the file."""
    ledger = make(tmp_path / "budget.db")
    for number in range(1, 4):
        ledger.reserve(Pure(epsilon=TINY))
        assert Path(ledger.url).read_bytes()[18] == 1
        assert raw(ledger.url, "PRAGMA journal_mode = WAL") == [("wal",)]
        assert spent(ledger) == number * TINY


@pytest.mark.parametrize("instant", range(6))
@pytest.mark.sample(4)
def test_a_kill_while_a_file_leaves_its_log_loses_nothing(tmp_path, instant, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    older(ledger.url)
    with closing(in_log(ledger.url)) as process:
        process.execute("UPDATE account SET spent = spent")
        folder = elsewhere(tmp_path)
        for end in ("", "-wal"):
            shutil.copy(f"{ledger.url}{end}", f"{folder}{end}")
    killed = Ledger(str(folder), "orders")

    def doomed():
        from ledger.faults import Counter

        Counter(instant).install()
        killed.reserve(Pure(epsilon=TINY))

    assert in_child(doomed) == -signal.SIGKILL
    assert spent(killed) == TINY
    killed.reserve(Pure(epsilon=TINY))
    assert spent(killed) == 2 * TINY


# ---- programs that know nothing of the rules --------------------------------------------------------------------------


def test_a_write_that_somebody_undid_is_not_called_done(tmp_path, monkeypatch):
    """A reader without `flock` may take the journal of a living writer for one of a dead one, where its locks were dropped."""
    ledger, noise, connect = make(tmp_path / "budget.db"), tmp_path / "noise", sqlite3.connect

    def undo(before):
        Path(ledger.url).write_bytes(before)

    for meddle in (lambda before: Path(f"{ledger.url}-journal").unlink(), undo):
        charge = ledger.reserve(Pure(epsilon=TINY))
        sqlite.close_all()
        meddles = partial(meddle, Path(ledger.url).read_bytes())

        class Connection(sqlite3.Connection):
            def execute(self, sql, *arguments, meddles=meddles):
                cursor = super().execute(sql, *arguments)
                if sql == "COMMIT" and self.total_changes:
                    meddles()
                return cursor

        with monkeypatch.context() as patch:
            patch.setattr(
                sqlite3,
                "connect",
                lambda *a, connected=Connection, **k: connect(*a, factory=connected, **k),
            )
            release = partial(charge.release, Marking(TINY, TINY, noise), [1], entropy=REAL)
            refused(release, "was changed by another program")
        assert not noise.exists()


def test_a_file_without_its_journal_is_checked_once(tmp_path, monkeypatch):
    ledger, checks = make(tmp_path / "budget.db"), []
    monkeypatch.setattr(sqlite, "is_whole", lambda connection: checks.append(1) or True)
    ledger.reserve(Pure(epsilon=TINY))
    assert not checks
    for k in range(1, 3):
        sqlite.close_all()
        Path(f"{ledger.url}-journal").unlink()
        assert ledger.remaining
        for _ in range(3):
            ledger.reserve(Pure(epsilon=TINY))
        assert len(checks) == k


def charge_many_parts(tmp_path):
    """Return a ledger with a charge whose writes have journals of several MiB: its account has a long name, and it many parts."""
    ledger = make_parted(tmp_path / "budget.db", account="a" * 300)
    return ledger, ledger.reserve(Pure(epsilon=TINY), parts=PartRange(1, 4_096))


def test_a_large_write_is_done_when_the_file_counts_it(tmp_path):
    """It keeps its old first page early, where it is looked for; what is left of its journal is cut."""
    ledger, charge = charge_many_parts(tmp_path)
    charge.settle()
    journal = Path(f"{ledger.url}-journal").read_bytes()
    assert len(journal) == sqlite._JOURNAL_BYTES
    assert journal.index(journals._FIRST_PAGE_START) < 100_000
    assert ledger.verify().sound


@pytest.mark.parametrize("written", [True, False])
def test_a_large_write_that_was_killed_is_undone(tmp_path, monkeypatch, written):
    monkeypatch.setattr(sqlite, "_JOURNAL_BYTES", 1 << 30)  # its journal is read here as a whole
    ledger, charge = charge_many_parts(tmp_path)
    sqlite.close_all()
    before = Path(ledger.url).read_bytes()
    charge.settle()
    sqlite.close_all()
    journal = Path(f"{ledger.url}-journal")
    journal.write_bytes(hot(journal.read_bytes()))
    assert journal.stat().st_size > 2 << 20
    if not written:
        Path(ledger.url).write_bytes(before)
    [line] = Ledger.open(ledger.url, account=ledger.account).statement().charges
    assert line.state == "reserved"


def test_a_journal_that_was_only_begun_over_a_long_one_keeps_nobody_out(tmp_path):
    """What is left of a large write is as long as a journal is looked at; the next write begins over it, and is killed."""
    ledger, charge = charge_many_parts(tmp_path)
    charge.settle()
    sqlite.close_all()
    file, journal = Path(ledger.url), Path(f"{ledger.url}-journal")
    left, size = journal.read_bytes(), file.stat().st_size // PAGE
    for pages, fits in ((size, True), (size - 1, False)):  # SQLite would cut the file to these
        head = journals._JOURNAL_START + struct.pack(">5I", 0, 0, pages, 512, PAGE)
        journal.write_bytes(head + left[len(head) :])
        with file.open("rb") as opened:
            look = partial(journals.look, opened.fileno(), ledger.url, ledger.url)
            if fits:
                assert not look().alone
            else:
                refused(look, "belongs to it as it was before")


def test_of_a_journal_that_is_too_long_to_be_looked_at_nobody_says_that_it_fits(tmp_path):
    """Its old first page may stand farther back than it is looked at, and tell of another state."""
    ledger = make(tmp_path / "budget.db")
    sqlite.close_all()
    size = Path(ledger.url).stat().st_size
    head = journals._JOURNAL_START + struct.pack(">5I", 1, 0, size // PAGE, 512, PAGE)
    for length, fits in (
        (journals._MOST_JOURNAL_BYTES // 2, True),
        (journals._MOST_JOURNAL_BYTES, False),
    ):
        Path(f"{ledger.url}-journal").write_bytes(head.ljust(length, b"\0"))
        with Path(ledger.url).open("rb") as file:
            seen = partial(journals.look, file.fileno(), ledger.url, ledger.url)
            if fits:
                assert not seen().alone
            else:
                refused(seen, "belongs to it as it was before")


def test_a_journal_that_counts_no_page_yet_is_nobody_elses(tmp_path):
    """A process that was killed while it began one leaves pages of an older one behind its beginning."""
    path = tmp_path / "budget.db"
    ledger = Ledger.create(
        path,
        account="orders",
        budget=Budget(epsilon=1),
        adjacency="add-remove",
        unit="who",
        source="name:orders",
    )
    for _ in range(3):
        ledger.reserve(Pure(epsilon=Fraction(1, 100)))
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    old = bytearray(whole[:page])
    old[24:28] = (1).to_bytes(4, "big")

    def write(records):
        head = bytes.fromhex("d9d505f920a163d7") + records.to_bytes(4, "big") + bytes(4)
        head += (len(whole) // page).to_bytes(4, "big") + (512).to_bytes(4, "big")
        head += page.to_bytes(4, "big")
        journal = head.ljust(512, b"\0") + (1).to_bytes(4, "big") + bytes(old) + bytes(4)
        (tmp_path / "budget.db-journal").write_bytes(journal)

    with path.open("rb") as file:
        write(0)
        assert not journals.look(file.fileno(), str(path), str(path)).alone
        write(1)
        with pytest.raises(LedgerError, match="belongs to it as it was before"):
            journals.look(file.fileno(), str(path), str(path))
