"""A data scientist has a frame, and asks which products, how much and what customers spend.

    python examples/purchases.py && python examples/data_scientist.py

Needs pandas (`pip install 'sordino[frames]' pandas`). Steps: open the frame once, with whom it
protects and what may be spent in all; then one call for each figure. No bound on rows is guessed.
"""

from __future__ import annotations

import pandas as pd

import sordino as sd


def main() -> None:
    """Release three figures of purchases.csv, and say what is left."""
    # Said types, so that no cell decides what a column is.
    frame = pd.read_csv("purchases.csv", dtype={"customer_id": str})
    shop = sd.open(frame, name="shop", person="customer_id", epsilon=2, save="science.db")
    products, countries = map(sd.Domain.from_file, ("product.csv", "country.csv"))

    best = shop.top_k("product", k=3, epsilon=0.25, domain=products)
    print("Bought by the most customers:")
    print(best.to_pandas()[["item", "low", "high"]].to_string(index=False))

    # More than anybody spends; where to clip is found privately.
    much = {"lower": 0, "cap": 1_000_000}
    sums = shop.sum("price", by="country", epsilon=0.5, domain=countries, **much)
    print("Revenue by country:")
    print(sums.to_pandas()[["item", "low", "high"]].to_string(index=False))

    half = shop.quantile("price", q=0.5, per_person="sum", epsilon=0.5, **much)
    print(f"Half of the customers spend less than {half.value:,.0f}.")

    left = sd.Ledger.open("science.db", account="shop").remaining
    print(f"Left of epsilon 2: {float(left):g}.")


if __name__ == "__main__":
    main()
