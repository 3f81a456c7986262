"""What 20,000 customers spend: sums of people against bounds on rows and guessed caps, and the time of one number a person."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from experiments.drawing import COLORS, Panel, Picture

import sordino as sd
from benchmarks.measuring import table, verdict

PEOPLE, EPSILON, CAP, RUNS = 20_000, 1.0, 1e6, 50
TARGET, SLOWEST = 0.0015, 1.5
ROWS, MOST = 20_000_000, 2_000_000
MANY_GROUPS, QUICK = 8000, 1.0
PICTURE = Path(__file__).parents[1] / "docs" / "tutorials" / "what-customers-spend.svg"
DRAWN, FEW = (2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150), 15
GUESSES = (100, 300, 1000, 3000, 10_000)
BOUNDS = (10, 20, 40, 100)


@cache
def purchases():
    """Rows of each customer by a geometric law (10 on average), amounts by a lognormal one (median 20)."""
    import polars as pl

    draw = np.random.default_rng(1)
    rows = draw.geometric(0.1, PEOPLE)
    amount = np.round(draw.lognormal(3, 1, rows.sum()), 2)
    return pl.DataFrame({"customer": np.repeat(np.arange(PEOPLE), rows), "amount": amount})


@cache
def totals():
    return purchases().group_by("customer").sum()["amount"].to_numpy()


def people():
    session = sd.Session(purchases(), unit=sd.PrivacyUnit("customer"), ledger=None)
    return session.sum("amount", epsilon=EPSILON, lower=0, cap=CAP).estimate


def bounded(most):
    unit = sd.PrivacyUnit("customer", max_rows=most)
    session = sd.Session(purchases(), unit=unit, ledger=None)
    return session.sum("amount", epsilon=EPSILON, lower=0, cap=CAP).estimate


def opendp_sum(cap):
    """OpenDP's clamped sum of totals that were made before, with Laplace noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    # With a number of totals that is public, which favors it.
    summed = (
        space
        >> dp.t.then_clamp((0.0, float(cap)))
        >> dp.t.then_resize(PEOPLE, 0.0)
        >> dp.t.then_sum()
    )
    noisy = dp.binary_search_chain(lambda scale: summed >> dp.m.then_laplace(scale), 1, EPSILON)
    return noisy(totals().tolist())


def laplace_sum(cap, epsilon=EPSILON):
    """A clamped sum with Laplace noise, as everybody computes it; here with numpy, because only its size is asked."""
    return np.minimum(totals(), cap).sum() + np.random.default_rng().laplace(0, cap / epsilon)


def approximate_bounds():
    """The rule of Google's library: half of epsilon finds the largest power of two with a noisy count above a threshold.

    Computed here, because the library is not installed: 64 bins, failing once in 10^9.
    """
    half, bins = EPSILON / 2, 64
    counts = np.bincount(
        np.clip(np.ceil(np.log2(np.maximum(totals(), 1))), 0, 63).astype(int), minlength=bins
    )
    threshold = -np.log(2 - 2 * (1 - 1e-9) ** (1 / (bins - 1))) / half
    noisy = counts + np.random.default_rng().laplace(0, 1 / half, bins)
    return laplace_sum(2.0 ** np.flatnonzero(noisy > threshold).max(), half)


def rows_then_cap(most, cap):
    """Tumult's rule: so many rows of each customer at random, each moved below a cap that is known; noise for all of them."""
    import polars as pl

    drawn = np.random.default_rng().random(purchases().height)
    kept = (
        purchases()
        .with_columns(place=pl.Series(drawn))
        .sort("place")
        .group_by("customer")
        .head(most)
    )
    moved = np.minimum(kept["amount"].to_numpy(), cap).sum()
    return moved + np.random.default_rng().laplace(0, most * cap / EPSILON)


def error(release, runs=RUNS):
    true = float(totals().sum())
    found = np.array([release() for _ in range(runs)]) / true - 1
    return float(np.sqrt((found**2).mean())), float(found.mean())


def accuracy():
    ways = [("sum of people: nothing guessed", people)]
    ways += [(f"at most {most} rows a person", lambda most=most: bounded(most)) for most in BOUNDS]
    ways += [
        (f"OpenDP, totals clamped at a guess of {cap:,}", lambda cap=cap: opendp_sum(cap))
        for cap in GUESSES
    ]
    ways += [("approximate bounds of Google's library, half of epsilon", approximate_bounds)]
    ways += [
        (
            f"Tumult's rule, {most} rows, amounts up to a known 500",
            lambda most=most: rows_then_cap(most, 500),
        )
        for most in BOUNDS
    ]
    rows = []
    for name, release in ways:
        rmse, bias = error(release)
        asked = ("", "") if release is not people else (f"{TARGET}", verdict(rmse <= TARGET))
        rows.append((name, f"{rmse:.4f}", f"{bias:+.4f}", *asked))
    return rows


# ---- in groups -------------------------------------------------------------------------------------

COUNTRIES, PRODUCTS = 8, 300
ERROR_OF_COUNTRIES = 0.025
"""At epsilon .3: the mean over all countries of what is wrong, as a share of the sum of all."""


@cache
def shop():
    """The same purchases, in eight countries of which one has a third, and of 300 products by a law of powers."""
    import polars as pl

    draw, rows = np.random.default_rng(2), purchases().height
    shares = 0.7 ** np.arange(COUNTRIES)
    country = draw.choice(COUNTRIES, rows, p=shares / shares.sum())
    shares = 1 / (np.arange(PRODUCTS) + 3.0)
    product = draw.choice(PRODUCTS, rows, p=shares / shares.sum())
    return purchases().with_columns(
        country=pl.Series([f"c{place}" for place in country]),
        product=pl.Series([f"p{place:03}" for place in product]),
    )


def labels_of(column):
    return sorted(shop()[column].unique().to_list())


def sums_by(column, epsilon, **bounds):
    unit = sd.PrivacyUnit("customer", max_rows=bounds.pop("max_rows", None))
    session = sd.Session(shop(), unit=unit, ledger=None)
    found = session.sum(
        "amount",
        by=column,
        domain=labels_of(column),
        epsilon=epsilon,
        lower=0,
        cap=CAP,
        **bounds,
    )
    return np.array([row.release.estimate for row in found])


def laplace_rows(column, epsilon, most, cap):
    """Tumult's rule: so many rows of each customer at random, each moved below a cap that is known."""
    import polars as pl

    place = pl.Series(np.random.default_rng().random(shop().height))
    kept = shop().with_columns(place=place).sort("place").group_by("customer").head(most)
    moved = kept.with_columns(moved=pl.col("amount").clip(upper_bound=cap))
    true = moved.group_by(column).agg(pl.sum("moved")).sort(column)["moved"].to_numpy()
    return true + np.random.default_rng().laplace(0, most * cap / epsilon, true.size)


def groups():
    """What is wrong with the sums of all groups, and how much of it is one way."""
    import polars as pl

    rows = []
    ways: dict[str, Any] = {
        "one clip of a customer's total": sums_by,
        "a clip in each group, 40 rows in all": partial(sums_by, max_rows=40),
        "Tumult's rule, 40 rows, amounts up to a known 500": partial(
            laplace_rows, most=40, cap=500
        ),
    }
    for column, epsilon in (
        ("country", 0.1),
        ("country", 0.3),
        ("country", 1.0),
        ("product", 0.3),
        ("product", 1.0),
    ):
        true = shop().group_by(column).agg(pl.sum("amount")).sort(column)["amount"].to_numpy()
        for name, release in ways.items():
            found = np.array([release(column, epsilon) for _ in range(RUNS)]) - true
            wrong = np.abs(found).sum(axis=1).mean() / true.sum()
            lost = found.sum(axis=1).mean() / true.sum()
            asked = ("", "")
            if release is sums_by and (column, epsilon) == ("country", 0.3):
                asked = (f"{ERROR_OF_COUNTRIES}", verdict(wrong <= ERROR_OF_COUNTRIES))
            rows.append((column, epsilon, name, f"{wrong:.4f}", f"{lost:+.4f}", *asked))
    return rows


LARGEST = 10
RECALL = {0.1: 0.9, 0.3: 0.96, 1.0: 0.96}
"""Which share of the ten largest products by what they earn is found."""


def recalls():
    """Which share of the ten products that earn most is named."""
    import polars as pl

    true = shop().group_by("product").agg(pl.sum("amount")).sort("amount")["product"]
    wanted, rows = set(true.to_list()[-LARGEST:]), []

    def ours(epsilon):
        session = sd.Session(shop(), unit=sd.PrivacyUnit("customer"), ledger=None)
        asked = {"k": LARGEST, "domain": labels_of("product"), "cap": CAP}
        return {row.item for row in session.top_sums("product", "amount", epsilon=epsilon, **asked)}

    def by(release):
        names = np.array(labels_of("product"))
        return lambda epsilon: set(names[np.argsort(-release("product", epsilon))[:LARGEST]])

    ways = {
        "one clip of a customer's total": ours,
        "a clip in each group, 40 rows in all": by(partial(sums_by, max_rows=40)),
        "Tumult's rule, 40 rows, amounts up to a known 500": by(
            partial(laplace_rows, most=40, cap=500)
        ),
    }
    for epsilon, target in RECALL.items():
        for name, release in ways.items():
            found = np.mean([len(release(epsilon) & wanted) / LARGEST for _ in range(RUNS)])
            asked = (f"{target}", verdict(found >= target)) if release is ours else ("", "")
            rows.append((epsilon, name, f"{found:.3f}", *asked))
    return rows


# ---- means in groups -------------------------------------------------------------------------------

BUYERS, LANDS, FEW_BUYERS, FEW_RUNS = 10_952, 7, 1000, 30
MEANS = {0.3: (0.03, 0.9), 1.0: (0.013, 0.94)}
"""At an epsilon: the median error, and which share of intervals holds the mean over all rows."""
CAP_OF_PRICES = 1e6


@cache
def prices():
    """Prices of 206,360 purchases of 10,952 customers, who have 11, 22, 43 or at most 212 (median, .75, .9, all) in 4.7 of seven countries."""
    import polars as pl

    draw = np.random.default_rng(3)
    rows = np.clip(np.round(draw.lognormal(np.log(11), 1.045, BUYERS)), 1, 212).astype(int)
    customer = np.repeat(np.arange(BUYERS), rows)
    shares = 0.7 ** np.arange(LANDS)
    country = draw.choice(LANDS, customer.size, p=shares / shares.sum())
    dear = np.linspace(0.8, 1.25, LANDS)[country]
    price = np.round(draw.lognormal(2.5, 0.7, customer.size) * dear, 2)
    return pl.DataFrame(
        {
            "customer": customer,
            "country": pl.Series([f"c{place}" for place in country]),
            "price": price,
        }
    )


@cache
def true_means():
    import polars as pl

    found = prices().group_by("country").agg(pl.mean("price")).sort("country")
    return found["price"].to_numpy()


def means_by_country(epsilon, **bounds):
    """Estimates and ends of intervals in each country."""
    unit = sd.PrivacyUnit("customer", max_rows=bounds.pop("max_rows", None))
    session = sd.Session(prices(), unit=unit, ledger=None)
    found = session.mean(
        "price",
        by="country",
        domain=[f"c{place}" for place in range(LANDS)],
        epsilon=epsilon,
        lower=0,
        cap=CAP_OF_PRICES,
        **bounds,
    )
    return np.array([[row.release.estimate, row.release.low, row.release.high] for row in found])


def known_means(epsilon, most=40, cap=60):
    """Tumult's rule: so many rows of each customer at random, prices up to a known cap, half of epsilon for a sum and half for a count."""
    import polars as pl

    place = pl.Series(np.random.default_rng().random(prices().height))
    kept = prices().with_columns(place=place).sort("place").group_by("customer").head(most)
    both = (
        kept.with_columns(moved=pl.col("price").clip(upper_bound=cap))
        .group_by("country")
        .agg(pl.sum("moved"), pl.len())
        .sort("country")
    )
    draw, each = np.random.default_rng(), epsilon / 2
    total = both["moved"].to_numpy() + draw.laplace(0, most * cap / each, LANDS)
    mean = total / np.maximum(1, both["len"].to_numpy() + draw.laplace(0, most / each, LANDS))
    return np.column_stack([mean, np.full((LANDS, 2), np.nan)])


def means():
    """How far means by country are off, and how often their intervals hold the mean over all rows."""
    ways: dict[str, Any] = {
        "one clip for all countries, all rows weighed": means_by_country,
        "a clip in each country, 40 rows in all": partial(means_by_country, max_rows=40),
        "Tumult's rule, 40 rows, prices up to a known 60": known_means,
        "Tumult's rule, 40 rows, prices up to a guessed 1,000": partial(known_means, cap=1000),
    }
    rows = []
    for epsilon in (0.1, 0.3, 1.0):
        for name, release in ways.items():
            found = np.array([release(epsilon) for _ in range(RUNS)])
            off = found[:, :, 0] / true_means() - 1
            held = (found[:, :, 1] <= true_means()) & (true_means() <= found[:, :, 2])
            median, share = float(np.median(np.abs(off))), float(held.mean())
            asked = ("", "")
            if release is means_by_country and epsilon in MEANS:
                error, least = MEANS[epsilon]
                good = verdict(median <= error and share >= least)
                asked = (f"{error}, {least}", good)
            told = "" if np.isnan(found).any() else f"{share:.3f}"
            rows.append((epsilon, name, f"{median:.4f}", f"{float(off.mean()):+.4f}", told, *asked))
    return rows


def ask_by_country(figure, epsilon, frame, max_rows=None, **asked):
    """Estimates and ends of intervals in each country."""
    unit = sd.PrivacyUnit("customer", max_rows=max_rows)
    session = sd.Session(frame, unit=unit, ledger=None)
    countries = sorted(frame["country"].unique().to_list())
    given = {"by": "country", "domain": countries, "lower": 0, "cap": CAP_OF_PRICES}
    found = getattr(session, figure)("price", epsilon=epsilon, **given, **asked)
    return np.array([[row.release.estimate, row.release.low, row.release.high] for row in found])


def medians():
    """How far medians by country are off the median of all rows, and how wide their intervals are."""
    import polars as pl

    found = prices().group_by("country").agg(pl.median("price")).sort("country")
    true = found["price"].to_numpy()
    ways = {"all rows weighed": None, "10 rows in all": 10, "40 rows in all": 40}
    rows = []
    for epsilon in (0.1, 0.3, 1.0):
        for name, most in ways.items():
            asked = partial(ask_by_country, "quantile", epsilon, prices(), max_rows=most, q=0.5)
            each = np.array([asked() for _ in range(FEW_RUNS)])
            off = np.abs(each[:, :, 0] / true - 1)
            wide = (each[:, :, 2] - each[:, :, 1]) / true
            held = (each[:, :, 1] <= true) & (true <= each[:, :, 2])
            said = f"{np.median(off):.4f}", f"{np.median(wide):.3f}", f"{held.mean():.3f}"
            rows.append((epsilon, name, *said))
    return rows


def scales():
    """Means of countries whose prices lie up to thirtyfold apart: one clip, and one of each."""
    import polars as pl

    times = pl.col("country").str.slice(1).cast(pl.Float64)
    frame = prices().with_columns(price=pl.col("price") * 30.0 ** (times / (LANDS - 1)))
    found = frame.group_by("country").agg(pl.mean("price")).sort("country")
    true = found["price"].to_numpy()
    rows = []
    for epsilon in (0.3, 1.0, 2.0):
        for clip in ("shared", "each"):
            asked = partial(ask_by_country, "mean", epsilon, frame, clip=clip)
            each = np.array([asked() for _ in range(FEW_RUNS)])
            off = np.abs(each[:, :, 0] / true - 1)
            held = (each[:, :, 1] <= true) & (true <= each[:, :, 2])
            told = [f"{np.median(off[:, place]):.4f}" for place in (0, LANDS - 1)]
            rows.append((epsilon, clip, f"{np.median(off):.4f}", *told, f"{held.mean():.3f}"))
    return rows


def small_groups():
    """A thousand groups of some 200 rows of 11 people: which of their means are drawn, and hold."""
    import polars as pl

    draw = np.random.default_rng(4)
    shares = 1 / (np.arange(FEW_BUYERS) + 20.0)
    rows = np.clip(np.round(draw.lognormal(np.log(11), 0.9, 11_000)), 1, 200).astype(int)
    customer = np.repeat(np.arange(11_000), rows)
    group = draw.choice(FEW_BUYERS, customer.size, p=shares / shares.sum())
    frame = pl.DataFrame(
        {
            "customer": customer,
            "group": pl.Series([f"g{place:03}" for place in group]),
            "price": np.round(draw.lognormal(2.5, 0.7, customer.size), 2),
        }
    )
    labels = sorted(frame["group"].unique().to_list())
    true = frame.group_by("group").agg(pl.mean("price")).sort("group")["price"].to_numpy()
    found = []
    for epsilon in (0.3, 1.0, 2.0):
        drawn = held = 0
        for _ in range(10):
            session = sd.Session(frame, unit=sd.PrivacyUnit("customer"), ledger=None)
            asked = {"domain": labels, "epsilon": epsilon, "lower": 0, "cap": CAP_OF_PRICES}
            each = [row.release for row in session.mean("price", by="group", **asked)]
            shown = np.array([not one.too_few for one in each])
            ends = np.array([[one.low, one.high] for one in each])
            good = (ends[:, 0] <= true) & (true <= ends[:, 1])
            drawn, held = drawn + int(shown.sum()), held + int((good & shown).sum())
        share = f"{held / drawn:.3f}" if drawn else ""
        found.append((epsilon, f"{drawn / 10:.0f} of {len(labels)}", share))
    return found


def draw():
    """The error of a sum by the bound on rows that somebody guesses, beside that of people."""
    picture = Picture(640, 330)
    panel = Panel(
        picture,
        (60, 30, 560, 230),
        (0, 150),
        (1e-4, 1),
        "relative error of the sum",
        logarithmic=True,
    )
    errors = [error(lambda most=most: bounded(most), FEW)[0] for most in DRAWN]
    panel.line(DRAWN, errors, COLORS[0])
    panel.line((0, 150), [error(people, FEW)[0]] * 2, COLORS[1])
    picture.text(340, 292, "at most so many rows of a customer (10 on average)", "middle")
    picture.legend(
        60, 318, ("rows bounded by --max-rows", "sum of people: nothing to guess"), wide=260
    )
    picture.write(PICTURE)


def seconds():
    """Twenty million rows of Parquet: the engine's own sums of customers, and ours with all that a release is."""
    import duckdb

    # What it prints while it works would stand among the numbers.
    duckdb.sql("SET enable_progress_bar = false")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "purchases.parquet"
        price = "exp(3 + 3 * random() - 1.5)"
        duckdb.sql(
            f"COPY (SELECT CAST(floor(power(random(), 2) * {MOST}) AS BIGINT) AS customer, round({price}, 2) AS price, "
            f"CAST(round({price}, 2) AS DECIMAL(12,2)) AS cents FROM range({ROWS})) TO '{path}'"
        )
        rows = []
        for column in ("price", "cents"):
            own, ours = zip(*(one_round(path, column) for _ in range(7)), strict=True)
            ratio = statistics.median(b / a for a, b in zip(own, ours, strict=True))
            rows.append(
                (
                    column,
                    f"{statistics.median(own):.2f}",
                    f"{statistics.median(ours):.2f}",
                    f"{ratio:.2f}",
                    SLOWEST,
                    verdict(ratio <= SLOWEST),
                )
            )
        return rows


def many_groups():
    """Sums and means of 8,000 groups with one clip, from the opening of a Parquet file: seconds and processor seconds."""
    import polars as pl

    labels = [f"g{place:05}" for place in range(MANY_GROUPS)]
    draw = np.random.default_rng(3)
    rows = draw.geometric(0.1, PEOPLE)
    frame = pl.DataFrame(
        {
            "customer": np.repeat(np.arange(PEOPLE), rows),
            "shelf": [labels[place] for place in draw.integers(0, MANY_GROUPS, rows.sum())],
            "amount": draw.lognormal(3, 1, rows.sum()),
        }
    )
    asked = {"by": "shelf", "domain": labels, "epsilon": EPSILON, "cap": CAP}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "purchases.parquet"
        frame.write_parquet(path)
        found = []
        for figure, more in (("sum", {}), ("mean", {"lower": 0})):
            took = []
            for _ in range(8):
                wall, processor = time.perf_counter(), time.process_time()
                session = sd.Session(path, unit=sd.PrivacyUnit("customer"), ledger=None)
                release = getattr(session, figure)("amount", **asked, **more)
                between = time.perf_counter(), time.process_time()
                assert len(release) == MANY_GROUPS
                str(release)
                took.append(
                    (between[0] - wall, between[1] - processor, time.process_time() - between[1])
                )
            wall, processor, table = (statistics.median(one) for one in zip(*took[1:], strict=True))
            found.append(
                (
                    figure,
                    f"{wall:.2f}",
                    f"{processor:.2f}",
                    QUICK,
                    verdict(processor < QUICK),
                    f"{table:.2f}",
                )
            )
    return found


def one_round(path, column):
    import duckdb

    begun = time.perf_counter()
    own = duckdb.connect()
    own.execute(
        f"SELECT count(*), sum(spent) FROM (SELECT customer, sum({column}) AS spent FROM read_parquet('{path}') GROUP BY customer)"
    ).fetchall()
    between = time.perf_counter()
    session = sd.Session(path, unit=sd.PrivacyUnit("customer"), ledger=None)
    session.sum(column, epsilon=EPSILON, lower=0, cap=CAP)
    return between - begun, time.perf_counter() - between


def report():
    draw()
    return [
        "## Figures of people",
        "",
        f"The sum of what {PEOPLE:,} customers spend, at epsilon {EPSILON:g}: rows of a customer by a geometric law (10 on average), amounts by a lognormal one. "
        f"Relative error of {RUNS} releases each, root mean square and mean. Ours has a public cap of {CAP:,.0f} on what one customer adds up to; the others need a guess that is close.",
        "",
        *table(("way", "error", "bias", "target", ""), accuracy()),
        "",
        f"The sums of the same purchases in {COUNTRIES} countries and of {PRODUCTS} products: what is wrong in all groups together, as a share of the sum of all, and how much of it is one way. Means of {RUNS} releases.",
        "",
        *table(("groups", "epsilon", "way", "error", "bias", "target", ""), groups()),
        "",
        f"Which share of the {LARGEST} products that earn most is found among {PRODUCTS}, in the mean of {RUNS} releases.",
        "",
        *table(("epsilon", "way", "recall", "target", ""), recalls()),
        "",
        f"Mean price of {prices().height:,} purchases by {BUYERS:,} customers in {LANDS} countries (11, 22 and 43 purchases of a customer at the .5, .75 and .9 quantile): the median error, how much of it is one way, and how many of the 95 % intervals hold the mean over all rows as it is. Of {RUNS} releases each.",
        "",
        *table(("epsilon", "way", "error", "bias", "held", "target", ""), means()),
        "",
        f"Median price of the same purchases in each country, by the median error, the median width of the 95 % intervals (both as shares of the median of all rows), and how many of them hold that median. {FEW_RUNS} releases each.",
        "",
        *table(("epsilon", "way", "error", "width", "held"), medians()),
        "",
        f"Mean price where the prices of the {LANDS} countries lie up to thirtyfold apart, with one clip for all or a clip of each: the median error in all countries, in the cheapest, in the dearest, and how many intervals hold the mean over all rows. {FEW_RUNS} releases each.",
        "",
        *table(("epsilon", "clip", "error", "cheapest", "dearest", "held"), scales()),
        "",
        f"{FEW_BUYERS:,} groups of some 200 rows: how many means are not marked `too_few`, and how many intervals of those hold the mean over all rows. Ten releases each.",
        "",
        *table(("epsilon", "drawn", "held"), small_groups()),
        "",
        f"Seconds of a sum over {ROWS:,} rows of Parquet by up to {MOST:,} customers: the engine's own `GROUP BY customer` in two threads, and a release from the opening of the file. Medians of seven pairs; the ratio is the median of theirs.",
        "",
        *table(("amounts", "engine", "release", "ratio", "target", ""), seconds()),
        "",
        f"Figures of {MANY_GROUPS:,} groups with one clip, of {PEOPLE:,} customers, from the opening of a Parquet file: seconds, and processor seconds of all threads, which hardly change with what else a machine does; then those of its table as text. Medians of seven after one that is not counted.",
        "",
        *table(("figure", "seconds", "processor", "target", "", "table"), many_groups()),
    ]  # fmt: skip
