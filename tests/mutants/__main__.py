"""Tries all mutants of the list, or those that are named: each must be convicted by one of its tests."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from mutants.places import ListError, Mutant, find_change, find_tests, read_list, source_roots
from mutants.runs import Verdict, run_control, try_mutant

PROJECT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("list.toml")


def main() -> int:
    """Run what the arguments say; 1 unless every mutant is convicted."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of mutants; without any, all of them"
    )
    parser.add_argument("--processes", type=int, default=2, help="how many at a time (2)")
    parser.add_argument(
        "--no-control", action="store_true", help="do not run the tests without a mutant first"
    )
    asked = parser.parse_args()
    mutants = read_list(LIST)
    if unknown := sorted(set(asked.names) - {mutant.name for mutant in mutants}):
        parser.error(f"there is no mutant {', '.join(unknown)}")
    wanted = [mutant for mutant in mutants if not asked.names or mutant.name in asked.names]
    if wrong := list_errors(wanted, PROJECT):
        print("\n".join(wrong))
        return 1
    pool = ThreadPoolExecutor(asked.processes)
    try:
        if not asked.no_control and not _passes_without(wanted, pool, asked.processes):
            print("without a mutant not all of these tests pass, so they would convict anything")
            return 1
        waiting = [pool.submit(try_mutant, mutant, PROJECT) for mutant in wanted]
        verdicts = [_tell(done.result()) for done in as_completed(waiting)]
    finally:
        # Who interrupts it waits for those that run, and not for all.
        pool.shutdown(cancel_futures=True)
    left = sorted(one.name for one in verdicts if one.word != "convicted")
    print(f"{len(verdicts) - len(left)} of {len(verdicts)} mutants convicted")
    if left:
        print(f"not convicted: {', '.join(left)}")
    return int(bool(left))


def list_errors(mutants: list[Mutant], project: Path) -> list[str]:
    """Return what is wrong with a list: places and tests that are not there."""
    wrong = []
    for mutant in mutants:
        try:
            find_change(mutant, source_roots(project))
            find_tests(mutant, project)
        except ListError as error:
            wrong.append(str(error))
    return wrong


def _passes_without(mutants: list[Mutant], pool: ThreadPoolExecutor, processes: int) -> bool:
    """Tell whether all tests pass without a mutant: only then a test that fails convicts one."""
    files: dict[str, list[str]] = {}
    for test in sorted({test for mutant in mutants for test in find_tests(mutant, PROJECT)}):
        files.setdefault(test.partition("::")[0], []).append(test)
    # The tests of a file stay together: what they prepare is prepared once.
    parts = [
        [test for file in list(files)[at::processes] for test in files[file]]
        for at in range(processes)
    ]
    runs = [pool.submit(run_control, part, PROJECT) for part in parts if part]
    words = {_tell(run.result()).word for run in runs}
    return words <= {"survived"}


def _tell(verdict: Verdict) -> Verdict:
    print(
        f"{verdict.word:10}  {verdict.name:32}  {verdict.seconds:5.1f} s  {verdict.why}", flush=True
    )
    return verdict


if __name__ == "__main__":
    sys.exit(main())
