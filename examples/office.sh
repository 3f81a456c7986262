#!/bin/sh
# A statistical office publishes a table of region by age, and quantiles of income in each region.
#
#     sh examples/office.sh        # makes a survey of made-up persons, survey.csv, in this folder
#
# Steps: 1 lists of labels, 2 declare, 3 look before, 4 the table, 5 quantiles, 6 statement.
set -eu

python - <<'PY'
import csv, random

chance = random.Random(11)
regions, ages = ("east", "islands", "north", "south", "west"), ("0-17", "18-39", "40-64", "65+")
with open("survey.csv", "w", newline="") as file:
    lines = csv.writer(file)
    lines.writerow(["person", "region", "age", "income"])
    for person in range(8_000):
        [region], [age] = chance.choices(regions, (2, 0, 3, 4, 1)), chance.choices(ages, (2, 3, 3, 2))
        lines.writerow([person, region, age, round(chance.lognormvariate(10.2, 0.6))])
# 1. From what the office knows without the survey: nobody answered on the islands, and they are in the list.
for name, labels in (("region", regions), ("age", ages)):
    with open(f"{name}.csv", "w", newline="") as file:
        csv.writer(file).writerows([[name], *([label] for label in labels)])
PY

# 2. Once: whom it protects, what may be spent in all, which labels are public.
sordino declare survey.csv --person person --epsilon 2 --labels region=region.csv --labels age=age.csv

# 3. How wide will the ranges be? Nothing is read or charged.
sordino table survey --item region --item age --epsilon 0.5 --dry-run --format table

# 4. A person is in one cell; cells, margins and the total add up, and no number is below 0.
sordino table survey --item region --item age --epsilon 0.5 --no-negative --keep --format csv > cells.csv

# 5. Three quantiles of income in each region for one price. No income is above ten millions.
sordino quantile survey --column income --q 0.1,0.5,0.9 --by region --lower 0 --cap 10000000 --epsilon 1 --keep --format csv > incomes.csv

# 6. What is promised, in words that others can check.
sordino ledger publish --ledger budget.db --account survey --output promise.json --as json
sordino verify promise.json --ledger budget.db --account survey --format table
sordino ledger show --ledger budget.db --account survey --format table
