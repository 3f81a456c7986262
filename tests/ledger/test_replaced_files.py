"""A file that is replaced under its name while a process has it open, and nobody writes."""

from __future__ import annotations

import multiprocessing
import shutil
from fractions import Fraction
from pathlib import Path

from ledger.fakes import charge_some, make, spent
from ledger.test_moved_files import TINY, hot
from sordino.cost import Pure


def test_a_copy_that_others_write_is_not_judged_by_the_file_that_a_process_has_open(tmp_path):
    """The journal of a writer in the copy that took the place of the file has nothing to do with the file that was there."""
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))  # it is open from now on
    journal = Path(f"{ledger.url}-journal")
    for path in (Path(ledger.url), journal):
        copy = shutil.copy(path, tmp_path / "copy")
        path.unlink()
        shutil.copy(copy, path)
    # Not a fork, which would close what is open.
    other = multiprocessing.get_context("spawn").Process(target=charge_some, args=(ledger, 3))
    other.start()
    other.join()
    assert other.exitcode == 0
    journal.write_bytes(hot(journal.read_bytes()))  # and is killed in the middle of the third
    ledger.reserve(Pure(epsilon=TINY))
    assert spent(ledger) == 2 * TINY + 2 * Fraction(1, 1000)
