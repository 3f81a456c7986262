"""One release by one tool, in a process of its own and in the Python of that tool: run by `benchmarks.scale_peers`.

python peer_queries.py TOOL FOLDER TASK RUNS prints as JSON when the engine was ready, when the first release was there, the answers,
and, of the tools that say it, the scales of the noise.
"""

from __future__ import annotations

import json
import sys
import time

EPSILON = 1.0
M, K, GROUPS, ITEMS = 10, 10, 8, 1000
HIGHEST = 500
"""Public upper end of the amounts, of which the largest is 403."""
COLUMNS = {"top": "item", "mean": "region", "mean, scattered": "shelf"}


def labels(task):
    return [f"i{n}" for n in range(ITEMS)] if task == "top" else [f"g{n}" for n in range(GROUPS)]


def sordino(folder, task):
    import sordino as sd

    session = sd.Session(folder, unit=sd.PrivacyUnit("buyer", max_rows=M), ledger=None)
    yield
    while True:
        if task == "top":
            top = session.top_k("item", k=K, epsilon=EPSILON, domain=labels(task))
            yield [(row.item, row.estimate) for row in top.rows], None
        else:
            found = session.mean(
                "amount",
                epsilon=EPSILON,
                lower=0,
                cap=HIGHEST,
                by=COLUMNS[task],
                domain=labels(task),
                # Rows that scatter are bounded in all groups together.
                groups_per_unit=1 if task == "mean" else None,
            )
            yield [(row.item, row.release.value) for row in found], None


def opendp(folder, task, trusted=False):
    import importlib

    import polars as pl

    # By its name: with the types of opendp or without, `dp.polars` is known to nobody but itself.
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    yield
    by, named = COLUMNS[task], labels(task)
    margin = dp.polars.Margin(by=[pl.col(by)], max_length=10**9, max_groups=len(named))
    while True:
        # Trusted: that nobody has more rows is taken for granted, and nothing is cut.
        unit = (
            dp.unit_of(contributions=M)
            if trusted
            else dp.unit_of(contributions=1, identifier=pl.col("buyer"))
        )
        context = dp.Context.compositor(
            data=pl.scan_parquet(f"{folder}/*.parquet"),
            privacy_unit=unit,
            privacy_loss=dp.loss_of(epsilon=EPSILON),
            split_evenly_over=1,
            margins=[margin],
        )
        query = context.query()
        if not trusted:
            # Each item of a buyer once, then ten of them: `truncate_num_groups` fails with one column in 0.16.
            query = query.truncate_per_group(1, by=["item"]) if task == "top" else query
            query = query.truncate_per_group(M)
        figure = dp.len(signed=True) if task == "top" else pl.col("pay").dp.mean((0, HIGHEST))  # type: ignore[attr-defined]
        query = query.group_by(by).agg(figure.alias("figure")).with_keys(pl.LazyFrame({by: named}))
        found = query.release().collect()
        if task == "top":
            found = found.sort("figure", descending=True).head(K)
        yield (
            found.select(by, "figure").rows(),
            lambda query=query: query.summarize()["scale"].to_list(),
        )


def tumult(folder, task):
    import tmlt.analytics as ta
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield
    keys = ta.KeySet.from_dict({COLUMNS[task]: labels(task)})
    while True:
        budget = ta.PureDPBudget(EPSILON)
        session = ta.Session.from_dataframe(
            privacy_budget=budget,
            source_id="rows",
            dataframe=spark.read.parquet(folder),
            protected_change=ta.AddRowsWithID(id_column="buyer"),
        )
        query = ta.QueryBuilder("rows")
        if task == "top":
            query = query.enforce(ta.MaxGroupsPerID("item", M)).enforce(
                ta.MaxRowsPerGroupPerID("item", 1)
            )
            query = query.groupby(keys).count(name="figure")
        else:
            query = (
                query.enforce(ta.MaxRowsPerID(M))
                .groupby(keys)
                .average("pay", 0, HIGHEST, name="figure")
            )
        frame = session.evaluate(query, budget)
        if task == "top":
            frame = frame.orderBy("figure", ascending=False).limit(K)

        def scales(session=session, query=query, budget=budget):
            told = session._noise_info(query, budget)  # noqa: SLF001 - the only place that says it
            return [float(one["noise_parameter"]) for one in told]

        yield [tuple(row) for row in frame.select(COLUMNS[task], "figure").collect()], scales


def main():
    tool, folder, task, runs = sys.argv[1:]
    steps = {
        "sordino": lambda: sordino(folder, task),
        "OpenDP": lambda: opendp(folder, task),
        "OpenDP, trusted": lambda: opendp(folder, task, trusted=True),
        "Tumult": lambda: tumult(folder, task),
    }[tool]()
    next(steps)
    ready = time.monotonic()
    answers, scales = next(steps)
    released = time.monotonic()
    answers = [answers] + [next(steps)[0] for _ in range(int(runs) - 1)]
    told = {
        "ready": ready,
        "released": released,
        "answers": answers,
        "scales": scales() if scales and int(runs) > 1 else None,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
