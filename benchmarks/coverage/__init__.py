"""How often every interval that is printed holds what it names, over shapes of data and bounds on what a unit counts for.

The steps of each request run as in a session, with fresh noise; only its rows are read once. Truths are computed from the tables.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.coverage import account, figures, items, people, reports, selected
from benchmarks.coverage.tables import ITEM_SHAPES, NUMBER_SHAPES
from benchmarks.coverage.trials import FALSE_ALARMS, cell, convicted, tests
from benchmarks.measuring import table, verdict

PROCESSES = 2
FAMILIES: dict[str, Any] = {
    "Counts of rows, units and items": (items, ITEM_SHAPES, items.cells(ITEM_SHAPES)),
    "Quantiles, sums, means and variances": (figures, NUMBER_SHAPES, figures.cells(NUMBER_SHAPES)),
    "Figures of people": (people, NUMBER_SHAPES, people.cells()),
    "Counts on an account with a delta": (account.Counts, ITEM_SHAPES, account.Counts.cells()),
    "Figures on an account with a delta": (
        account.Figures,
        NUMBER_SHAPES,
        account.Figures.cells(),
    ),
    "The mean of local reports": (reports, NUMBER_SHAPES, reports.cells()),
}


def measured(families=tuple(FAMILIES)):
    """The tallies of all cells, by family and cell."""
    cells = [(family, each) for family in families for each in FAMILIES[family][2]]
    # Engines have threads, which a fork would leave behind.
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(measure, cells, chunksize=2))
    return dict(zip(cells, found, strict=True))


def measure(family_and_cell):
    family, each = family_and_cell
    return FAMILIES[family][0].measure(*each)


def rows_of(family, tallies, looked_at):
    """One line for each request, unit and interval; a column for each shape."""
    _, shapes, cells = FAMILIES[family]
    lines = []
    for name in dict.fromkeys(name for name, _, _ in cells):
        for unit in dict.fromkeys(unit for _, _, unit in cells):
            found = [tallies.get((family, (name, shape, unit)), {}) for shape in shapes]
            for interval in dict.fromkeys(interval for one in found for interval in one):
                said = [cell(one[interval], looked_at) if interval in one else "" for one in found]
                # Where no table has an end, nothing is promised.
                if set(said) - {"", "no end"}:
                    lines.append((f"`{name}`", unit, interval, promised(found, interval), *said))
    return lines


def promised(found, interval):
    """What the rows that are shown promise, in percent; rounded down."""
    shares = {
        one[interval].worst()[0] for one in found if interval in one and one[interval].worst()
    }
    least, most = (int(end * 1000) / 10 for end in (min(shares), max(shares)))
    return f"{least:.12g} %" if least == most else f"{least:.12g} to {most:.12g} %"


def report():
    tallies = measured()
    every = [tally for cell_ in tallies.values() for tally in cell_.values() if tally.runs]
    looked_at = tests(every)
    narrow = sum(convicted(tally, looked_at) for tally in every)
    lines = [
        *selected.report(),
        "",
        "## Coverage of every printed interval",
        "",
        f"{len(tallies)} requests about tables of some 1,500 rows of 500 units, epsilon 1 (reports: 2), {items.RUNS} releases each (figures of columns and reports: "
        f"{figures.RUNS}), each with fresh noise. A cell says in how many releases the interval held what it names, and the exact lower bound of that share at 95 % (Clopper and Pearson). "
        "Of several rows (items, ranks, quantiles, groups) it is the one that is least likely to hold as often as it promises. An interval without an end is no trial; `no end`: it never had one.",
        "",
        "`low, high` is about rows or items that count, of which a unit has at most M, and about clipped numbers; `true_low, true_high` about all of them. Of figures of people both are about the one number of each unit; of `sum --by` about what units count as within the clip of all groups. Of counts `low, high of all rows` says that all rows hold together. "
        "`tie`: rows of `top` that are no larger than the next one are marked so; only such rows are trials. "
        "`rank_error`: the rank of a quantile lies that close to its target. zipf, flat: 20 items; few: 4 items. money: Pareto's law, lower 0, cap 1,000,000; ties: whole numbers from 0 to 9, a tenth missing, lower 0, cap 100; "
        "mixed: both signs, a fifth missing, cap 100,000. A row without a number does not count. Bounded ranges end below some counts on purpose. "
        "On an account with a delta, here (8, 1e-6) that has left epsilons behind, counts and totals have Gaussian noise, searches and selections Gumbel noise.",
        "",
        f"**too narrow** stands where some row held so seldom that, if all {looked_at} shares on this page were as promised, any mark at all would come with a probability of at most {FALSE_ALARMS:g}.",
        "",
        *table(
            ("intervals", "target", ""),
            [(f"{narrow} of {len(every)} too narrow", "0", verdict(narrow == 0))],
        ),
    ]
    for family in FAMILIES:
        lines += section(family, tallies, looked_at)
    return lines


def section(family, tallies, looked_at):
    """The table of one family."""
    header = ("request", "unit", "interval", "promised", *FAMILIES[family][1])
    return ["", f"### {family}", "", *table(header, rows_of(family, tallies, looked_at))]
