"""Figure 3: absolute errors of inner quantiles, those of the paper's method put to 1."""

from __future__ import annotations

from experiments.repeating import table
from experiments.unbounded_quantiles.columns import NAMES, at_hand
from experiments.unbounded_quantiles.inner import QS, RUNS, errors

METHODS = {"EMQ": "EMQ", "ours": "ours"}


def report():
    known, missing = at_hand(NAMES)
    rows = []
    for data in known:
        unit = errors(data.name, 1, "UQE")[1]
        rows.append(
            (data.name, "UQE, absolute", *(f"{value:.3g}" for value in unit), f"{unit.mean():.3g}")
        )
        for method, name in METHODS.items():
            found = errors(data.name, 1, method)[1]
            ratios = [
                f"{one / whole:.2f}" if whole > 1e-9 else "-"
                for one, whole in zip(found, unit, strict=True)
            ]
            rows.append(
                (
                    data.name,
                    name,
                    *ratios,
                    f"{found.mean() / unit.mean():.2f}" if unit.mean() > 0 else "-",
                )
            )
    return [
        "## Inner quantiles by value (figure 3)",
        "",
        f"Mean absolute error at epsilon 1, 1000 records, {RUNS} samples, expectations over the exact laws; of the paper's method (UQE: "
        "growth 1.001, equal rates, from the lower end of the tight range on), and of the others as multiples of it. EMQ knows the tight "
        "range, ours nothing; settings and rounding as in the table by rank. True quantiles are NumPy's, of the records themselves. "
        + missing,
        "",
        *table(("column", "method", *(f"{q:.0%}" for q in QS), "mean"), rows),
        "",
    ]
