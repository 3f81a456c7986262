"""Look for findings with several processes, for so many minutes; or look at one case."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fuzz import broken, servers, spark_tables
from fuzz.checks import check, use_home
from fuzz.found import FOLDER, keep, load, smaller
from fuzz.generate import make_case
from fuzz.workers import Summary, Work, look


def main() -> int:
    """Run what the arguments say; 1 if something was found."""
    asked = _arguments()
    if asked.case is not None:
        return _one(asked.case, asked.broken, Path(asked.folder), asked.shrink, asked.spark)
    seed = int(time.time()) if asked.seed is None else asked.seed
    print(f"seed {seed}, {asked.minutes:g} minutes, {asked.processes} processes", flush=True)
    with (
        servers.reachable(wanted=not asked.no_server and not asked.spark) as address,
        spark_tables.reachable(wanted=asked.spark) as spark,
    ):
        work = Work(
            seed=seed,
            minutes=asked.minutes,
            most=asked.cases,
            processes=asked.processes,
            server=address,
            spark=spark,
            several=asked.several,
            walks=asked.walk,
            broken=asked.broken,
            shrinking=asked.shrink,
            stop=asked.broken is not None or asked.stop,
            folder=Path(asked.folder),
            home=use_home(),
        )
        summary = look(work)
    _tell(summary)
    return int(bool(summary.found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to look")
    parser.add_argument("--cases", type=int, help="look at so many cases at most")
    parser.add_argument(
        "--seed",
        type=int,
        help="where to begin: the same seed, the same cases; by default, what the clock says",
    )
    parser.add_argument("--case", metavar="FILE_OR_SEED", help="look at one case")
    parser.add_argument(
        "--broken",
        choices=sorted(broken.TWINS),
        help="take one mend out, and stop when that is found",
    )
    parser.add_argument("--several", action="store_true", help="databases of several tables alone")
    parser.add_argument(
        "--walk",
        action="store_true",
        help="databases of one, two and three tables, of each many neighbors: its units leave and come",
    )
    parser.add_argument("--stop", action="store_true", help="stop at the first finding")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-server", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--spark", action="store_true", help="tables of Spark, and no others")
    parser.add_argument(
        "--shrink",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="how long a finding is cut down",
    )
    parser.add_argument("--folder", default=str(FOLDER), help="where findings are kept")
    return parser.parse_args()


def _one(named: str, twin: str | None, folder: Path, seconds: float, spark: bool) -> int:
    if twin is not None:
        broken.install(twin)
    from_file = Path(named).is_file()
    case = load(Path(named)) if from_file else make_case(int(named), "spark" if spark else None)
    kind = case.source["kind"]
    with (
        servers.reachable(wanted=kind == "postgres"),
        spark_tables.reachable(wanted=kind == "spark"),
    ):
        finding = check(case, pool=False)
        print(finding or "nothing was found")
        if finding is not None and not from_file and seconds:
            case, finding = smaller(case, finding, seconds=seconds)
            path = keep(case, finding, folder)
            print(f"{path.name}\n{path.read_text(encoding='utf-8')}")
    return int(finding is not None)


def _tell(summary: Summary) -> None:
    cases, processor = max(summary.cases, 1), max(summary.processor, 1e-9)
    print(
        f"{summary.cases} cases of {summary.tables / cases:.1f} tables in {summary.seconds:.0f} s, "
        f"{cases / processor:.1f} cases a second of a processor, {summary.neighbors:,} pairs of neighbors among {summary.walked:,} tables; {len(summary.found)} findings"
    )
    for (what, how), times in sorted(summary.kinds.items()):
        print(f"  {what}, {how}: {times}")
    for one in summary.found:
        print(
            f"FOUND like {one.like}, seed {one.seed}, after {one.seconds:.1f} s and about {one.cases} cases: {one.finding}"
        )
        if one.path is not None:
            print(f"  {one.path.name}")


if __name__ == "__main__":
    sys.exit(main())
