"""Releases of Tumult Analytics, which needs Spark and a Python of its own: run by `benchmarks.unlisted_peers`.

python unlisted_tumult.py FILE.npz K EPSILON DELTA CAP RUNS prints a list of the items of each run as JSON.
"""

from __future__ import annotations

import json
import sys


def start():
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "4g",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def release(frame, k, epsilon, delta, most):
    """Half of epsilon finds groups, half counts what was found, as its tutorial on unknown groups does."""
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        QueryBuilder,
        Session,
    )

    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(epsilon, delta),
        source_id="visits",
        dataframe=frame,
        protected_change=AddRowsWithID(id_column="user"),
    )
    capped = (
        QueryBuilder("visits")
        .enforce(MaxGroupsPerID("item", most))
        .enforce(MaxRowsPerGroupPerID("item", 1))
    )
    session.create_view(capped, "capped", cache=True)
    found = session.evaluate(
        QueryBuilder("capped").get_groups(["item"]), ApproxDPBudget(epsilon / 2, delta)
    )
    keys = KeySet.from_dataframe(found)
    counted = session.evaluate(
        QueryBuilder("capped").groupby(keys).count(), ApproxDPBudget(epsilon / 2, 0)
    )
    best = counted.toPandas().sort_values("count", ascending=False)
    return [int(item) for item in best["item"][:k]]


def main():
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    path, k, epsilon, delta, most, runs = sys.argv[1:]
    pairs = np.load(path)
    frame = (
        start()
        .createDataFrame(pd.DataFrame({"user": pairs["user"], "item": pairs["item"]}))
        .cache()
    )
    found = [
        release(frame, int(k), float(epsilon), float(delta), int(most)) for _ in range(int(runs))
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
