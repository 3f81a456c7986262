"""Labels of several columns, computed columns and cross tables: what they take, and how far their figures lie off.

Times are ratios within one run, medians of five. The figures of tables are those of made-up counts with the noise of the
product, drawn here: a table adds up whatever the rows are.
"""

from __future__ import annotations

import math
import resource
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

import sordino as sd
from benchmarks.measuring import process, verdict
from sordino.figures.table_fit import fit_within, list_margins
from sordino.figures.table_sums import round_cells, share_margins
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.session.cross_table import (
    Layout,
    build_table,
    find_margin_reach,
    find_mix,
    find_table_reach,
    place_ends,
)
from sordino.sources import open_source

ROWS, TIMES, TABLES, RUNS, HELD = 2_000_000, 9, 3000, 3, 20_000


def report():
    yield "## Tables of several columns"
    yield ""
    yield from _list_times()
    yield ""
    yield from _list_large()
    yield ""
    yield from _list_figures()
    yield ""
    yield from _list_measured()
    yield ""
    yield _count_violations()


# ---- times -----------------------------------------------------------------------------------------------------


def _list_times():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        draw = np.random.default_rng(1)
        day = np.datetime64("2023-01-01") + draw.integers(0, 730, ROWS).astype("timedelta64[D]")
        columns = {f"l{n}": draw.integers(0, 200, ROWS) for n in range(3)}
        frame = pl.DataFrame({"u": np.arange(ROWS), "day": day, **columns})
        frame = frame.with_columns(*(pl.col(f"l{n}").cast(pl.String) for n in range(3)))
        frame = frame.with_columns(month=pl.col("day").dt.strftime("%Y-%m"))
        frame.write_parquet(path)
        part = [str(n) for n in range(200)]
        months = [f"{year}-{month:02}" for year in (2023, 2024) for month in range(1, 13)]
        asked = {
            "one label of 200": ("l0", part),
            "two labels, 40,000 cells": (("l0", "l1"), dict.fromkeys(("l0", "l1"), part)),
            "three labels, 8,000,000 cells": (
                ("l0", "l1", "l2"),
                dict.fromkeys(("l0", "l1", "l2"), part),
            ),
            "the month as a column": ("month", months),
            "month(day)": ("month(day)", Domain.of(months)),
        }
        taken = {name: [] for name in asked}
        for _ in range(TIMES):
            for name, (item, domain) in asked.items():
                taken[name].append(_time(path, item, domain))
        yield f"Counts of {ROWS:,} rows of Parquet, each a unit: seconds, medians of {TIMES}, and the ratio to one label, or to a column that has the month already; then the same of processor time, of all threads, which hardly changes with what else a machine does."
        yield ""
        yield "| labels | seconds | ratio | processor | ratio | asked |"
        yield "|---|---|---|---|---|---|"
        spent = {
            name: [median(one) for one in zip(*found, strict=True)] for name, found in taken.items()
        }
        for name, found in spent.items():
            to = spent["the month as a column" if "month" in name else "one label of 200"]
            wanted = {"three labels, 8,000,000 cells": "≤ 3.6", "month(day)": "≤ 1.3"}.get(name, "")
            cells = (f"{own:.2f} | {own / base:.2f}" for own, base in zip(found, to, strict=True))
            yield f"| {name} | {' | '.join(cells)} | {wanted} |"


def _time(path, item, domain):
    source = open_source(path)
    source = source.compute([item]) if isinstance(item, str) else source
    question = prepare_counts(source, PrivacyUnit.row(), kind="items", item=item, domain=domain)
    start, worked = time.perf_counter(), time.process_time()
    question.run()
    return time.perf_counter() - start, time.process_time() - worked


# ---- ten million cells ----------------------------------------------------------------------------------------


LARGE, PARTS = 20_000_000, {"l0": 250, "l1": 200, "l2": 200}
_LARGE_RUNS = {
    "each row is a unit": ["--row-is-unit"],
    "two rows a unit, of which one counts": ["--user", "u", "--max-rows", "1"],
}


def _list_large():
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        draw = np.random.default_rng(3)
        # Some parts are common, most are rare: a few thousand cells have many units.
        parts = {
            name: (size * draw.random(LARGE) ** 3).astype(np.int64) for name, size in PARTS.items()
        }
        frame = pl.DataFrame({"u": draw.integers(0, LARGE // 2, LARGE), **parts})
        frame.with_columns(*(pl.col(name).cast(pl.String) for name in PARTS)).write_parquet(
            home / "rows.parquet"
        )
        del frame, parts
        line = [sys.executable, "-m", "sordino", "histogram", str(home / "rows.parquet")]
        for name, size in PARTS.items():
            file = home / f"{name}.csv"
            file.write_text("\n".join([name, *map(str, range(size))]) + "\n", encoding="utf-8")
            line += ["--item", name, "--domain", f"{name}={file}"]
        line += ["--epsilon", "1", "--no-ledger", "--format", "csv"]
        cells = math.prod(PARTS.values())
        yield f"A histogram of {cells:,} cells of {LARGE:,} rows of Parquet at epsilon 1, by the command, from its start to its end: seconds, processor seconds of all threads, and peak memory, medians of {RUNS}. What reaches the threshold is shown. Asked: at most 60 s and 2 GB."
        yield ""
        yield "| units | seconds | processor | peak GB | cells shown |  |"
        yield "|---|---|---|---|---|---|"
        for name, unit in _LARGE_RUNS.items():
            before = _find_worked()
            found = [(*process(*line, *unit), _find_worked()) for _ in range(RUNS)]
            seconds, peak = (median(one[place] for one in found) for place in (1, 2))
            worked = np.diff([before, *(one[3] for one in found)])
            shown = found[0][0].count("\n") - 1
            met = verdict(seconds <= 60 and peak <= 2e9)
            yield f"| {name} | {seconds:.1f} | {median(worked):.1f} | {peak / 1e9:.2f} | {shown:,} | {met} |"


def _find_worked():
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- figures ---------------------------------------------------------------------------------------------------


def _make_tables():
    draw = np.random.default_rng(1)
    full = lambda shape, lines, mean, axis=0: _fill(draw, shape, lines, mean, axis)  # noqa: E731
    scattered = np.where(draw.random((100, 100)) < 0.05, draw.poisson(29, (100, 100)), 0)
    return {
        "2 x 2": (draw.poisson(50, (2, 2)), TABLES),
        "5 x 5": (draw.poisson(20, (5, 5)), TABLES),
        "10 x 10": (draw.poisson(20, (10, 10)), TABLES),
        "20 x 12": (draw.poisson(100, (20, 12)), TABLES),
        "100 x 100": (draw.poisson(3, (100, 100)), TABLES),
        "10 x 5 x 4": (draw.poisson(20, (10, 5, 4)), TABLES),
        "100 x 100, 95% empty, scattered": (scattered, 300),
        "100 x 100, five full rows": (full((100, 100), 5, 30), 300),
        "100 x 100, five full columns": (full((100, 100), 5, 30, 1), 100),
        "40 x 30, six large offices": (full((40, 30), 6, 60), TABLES),
        "20 x 12, one full row": (full((20, 12), 1, 50), 400),
        "10 x 5 x 4, one full slice": (full((10, 5, 4), 1, 40), 400),
    }


def _fill(draw, shape, lines, mean, axis):
    truth = np.zeros(shape, dtype=np.int64)
    where = tuple(slice(lines) if at == axis else slice(None) for at in range(len(shape)))
    truth[where] = draw.poisson(mean, truth[where].shape)
    return truth


def _list_figures():
    draw, law = (
        np.random.default_rng(2),
        sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).noise,
    )
    assert law.rate == Fraction(1)
    yield f"Tables at epsilon 1, a person in one cell. *Hold*: in how many all intervals held together (cells, margins, total; asked: 95%), of {HELD:,} noises of that shape, because the truth has no part in it. *Inside*: in how many there were whole numbers, none below 0, inside of all intervals (asked: 95%). Then the root mean square error of the first margin: of the estimates, of what is shown, and of cells clamped at 0."
    yield ""
    yield "| table | tables | hold | inside | estimates | shown | clamped | ms a fit |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, (truth, many) in _make_tables().items():
        yield _measure(name, truth, many, draw, law)


def _measure(name, truth, many, draw, law):
    reach = {axes: find_margin_reach(axes, truth.shape, law) for axes in list_margins(truth.ndim)}
    first = tuple(range(1, truth.ndim))
    inside, p = 0, 1 - math.exp(-1)
    held = sum(_is_held(_draw_noise(draw, p, truth.shape), reach) for _ in range(HELD))
    errors = {"estimates": [], "shown": [], "clamped": []}
    taken = []
    for _ in range(many):
        noisy = truth + _draw_noise(draw, p, truth.shape)
        start = time.perf_counter()
        sums = {axes: noisy.sum(axis=axes, keepdims=True) for axes in reach}
        ends = {
            axes: (np.maximum(one - reach[axes], 0), one + reach[axes])
            for axes, one in sums.items()
        }
        fitted = fit_within(noisy, ends)
        taken.append(time.perf_counter() - start)
        shown = noisy if fitted is None else fitted
        inside += fitted is not None
        for key, one in (("estimates", noisy), ("shown", shown), ("clamped", np.maximum(noisy, 0))):
            errors[key].append(one.sum(axis=first) - truth.sum(axis=first))
    rms = {key: math.sqrt(np.mean(np.square(found))) for key, found in errors.items()}
    return (
        f"| {name} | {many} | {held / HELD:.3f} | {inside / many:.3f} | {rms['estimates']:.1f} "
        f"| {rms['shown']:.1f} | {rms['clamped']:.1f} | {1000 * median(taken):.1f} |"
    )


def _draw_noise(draw, p, shape):
    return draw.geometric(p, shape) - draw.geometric(p, shape)


def _is_held(noise, reach):
    return all(
        np.all(np.abs(noise.sum(axis=axes) if axes else noise) <= far)
        for axes, far in reach.items()
    )


# ---- measured margins ------------------------------------------------------------------------------------------


def _list_measured():
    yield "Margins that are measured as well, at epsilon 1 or a rho of 1/8, a person in one cell, with what the product measures at each shape. *Hold*: in how many tables all intervals held together (asked: 95%). Then the root mean square errors of a cell, a row, a column and the total, and how far their intervals reach; of the same budget on the cells alone, and with margins."
    yield ""
    yield "| table | noise | measured | tables | hold | errors, cells alone | errors, measured | reach, cells alone | reach, measured |"
    yield "|---|---|---|---|---|---|---|---|---|"
    draw = np.random.default_rng(3)
    for shape, gaussian, many in (
        ((10, 5), False, TABLES),
        ((10, 10), False, TABLES),
        ((20, 12), False, TABLES),
        ((50, 20), False, 1000),
        ((100, 100), False, 500),
        ((5, 5), True, TABLES),
        ((10, 10), True, 10 * TABLES),
        ((20, 12), True, TABLES),
        ((100, 100), True, 500),
    ):
        yield _measure_margins(shape, gaussian, many, draw)


def _measure_margins(shape, gaussian, many, draw):
    shares = share_margins(shape, gaussian=gaussian)
    make = lambda share: (  # noqa: E731
        sd.GaussianMechanism(rho=share / 8, sensitivity=sd.COUNTING)
        if gaussian
        else sd.LaplaceMechanism(epsilon=share, sensitivity=sd.COUNTING)
    )
    mechanisms = {axes: make(share) for axes, share in shares.items()}
    alone = {(): make(Fraction(1))}
    mix, every = find_mix(shape, mechanisms), [(), (1,), (0,), (0, 1)]
    reach = find_table_reach(mechanisms, shape)
    truth = draw.poisson(20, shape).astype(float)
    sums = {axes: truth.sum(axis=axes, keepdims=True) for axes in list_margins(2)}
    errors, held = dict.fromkeys(every, 0.0), 0
    for _ in range(many):
        noisy = {
            axes: sums[axes] + _draw(one, draw, sums[axes].shape)
            for axes, one in mechanisms.items()
        }
        cells = round_cells(mix.estimate(noisy))
        ends = place_ends(cells, reach, rounded=True)
        held += all(
            np.all((low <= sums[axes]) & (sums[axes] <= high)) for axes, (low, high) in ends.items()
        )
        for axes in every:
            errors[axes] += float(np.mean((cells.sum(axis=axes, keepdims=True) - sums[axes]) ** 2))
    before = find_mix(shape, alone)
    far = find_table_reach(alone, shape)
    told = [
        [math.sqrt(before.find_variance(axes)) for axes in every],
        [math.sqrt(errors[axes] / many) for axes in every],
        [float(far[axes]) for axes in every],
        [float(reach[axes]) for axes in every],
    ]
    errors_and_reach = " | ".join(", ".join(f"{one:.3g}" for one in row) for row in told)
    kind, what = (
        ("Gaussian" if gaussian else "Laplace"),
        ("total" if len(shares) == 2 else "all margins"),
    )
    return f"| {shape[0]} x {shape[1]} | {kind} | {what} | {many} | {held / many:.3f} | {errors_and_reach} |"


def _draw(mechanism, draw, shape):
    tails = np.asarray(mechanism.noise.sf(np.arange(-1, 400)), dtype=float)
    half = tails[:-1] - tails[1:]
    mass = np.concatenate([half[:0:-1], half])
    return draw.choice(np.arange(-399, 400), size=shape, p=mass / mass.sum())


# ---- adding up -------------------------------------------------------------------------------------------------

MANY = 10_000


def _count_violations():
    """Count tables of the product of which a number is not the sum of its cells: estimates and what is shown."""
    draw, wrong, shown, entropy = np.random.default_rng(5), 0, 0, sd.Seeded(5)
    # A person is in one sum of each margin.
    one_cell = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)
    shapes = [(4, 3), (10, 6), (3, 3, 2), (5, 5), (60,)]
    for number in range(MANY):
        shape = shapes[number % len(shapes)]
        shares = share_margins(shape, gaussian=False) if number % 2 else {(): Fraction(1)}
        truth = draw.poisson(draw.choice([0.2, 5, 300]), shape)
        epsilon = Fraction(str(draw.choice([0.1, 1, 3])))
        parts = {}
        for axes, share in shares.items():
            counts = truth.sum(axis=axes).reshape(-1)
            mechanism = sd.LaplaceMechanism(
                epsilon=epsilon * share, sensitivity=one_cell.over(counts.size)
            )
            parts[axes] = mechanism.release(counts, entropy=entropy)
        sides = tuple(tuple(f"{axis}.{n}" for n in range(size)) for axis, size in enumerate(shape))
        layout = Layout(sides=sides, is_row=True, max_cells=1, not_negative=number % 3 == 0)
        table = build_table(parts, layout, tuple("abc"[: len(shape)]))
        for value in ("estimate", "published"):
            numbers = {row.item: getattr(row, value) for row in table}
            if None in numbers.values():
                continue
            shown += value == "published"
            cells = np.array([numbers[item] for item in layout.list_items(())]).reshape(shape)
            wrong += any(
                numbers[item] != one
                for axes in list_margins(len(shape))
                for item, one in zip(
                    layout.list_items(axes), cells.sum(axis=axes).reshape(-1).tolist(), strict=True
                )
            )
    return f"Of {MANY:,} tables of the product, of one to three columns, with and without measured margins, {wrong} had a margin or a total that was not the sum of its cells; {shown:,} of them with whole numbers in place of the estimates, which add up as well."
