"""Write a made-up table to try things with: purchases.csv, and a public list of countries.

    python examples/purchases.py [FOLDER]

Each row is a purchase; 3,000 customers have 1 to about 60 of them. The same file each time.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from pathlib import Path

COUNTRIES = {"DE": 35, "FR": 25, "IT": 18, "PL": 13, "AT": 9, "IE": 0}
PRODUCTS = {"tea": 5, "coffee": 8, "cocoa": 2, "filters": 3, "mugs": 2, "kettles": 1, "honey": 2}
COLUMNS = ("customer_id", "country", "product", "price", "day")


def main(folder: str = ".") -> None:
    """Write both files into a folder."""
    chance = random.Random(2026)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "purchases.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for number in range(3_000):
            [country] = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))
            for _ in range(1 + int(chance.expovariate(1 / 6))):
                [product] = chance.choices(list(PRODUCTS), list(PRODUCTS.values()))
                price = round(math.exp(chance.gauss(2.8, 0.7)), 2)
                lines.writerow([f"c{number}", country, product, price, chance.randrange(1, 366)])
    for column, labels in (("country", COUNTRIES), ("product", PRODUCTS)):
        with (place / f"{column}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([[column], *([label] for label in labels)])


if __name__ == "__main__":
    main(*sys.argv[1:])
