#!/bin/sh
# An operator runs releases every night: from cron, again after a failure, and on a new machine.
#
#     python examples/purchases.py && sh examples/operator.sh
#
# Steps: 1 declare, 2 a study, 3 the line for cron, 4 a retry, 5 a new machine.
# A run has a name, here the day, and is paid once under that name, however often and wherever it is started.
set -eu

# 1. Once.
sordino declare purchases.csv --person customer_id --epsilon 2

# 2. All releases of a night are in a file, and charged together or not at all.
cat > nightly.toml <<'TOML'
name = "nightly"
table = "purchases"

[budget]
epsilon = 0.1

[[release]]
kind = "top_k"
name = "best_sellers"
item = "product"
k = 3
domain = {file = "product.csv"}
share = 0.5

[[release]]
kind = "count_distinct_units"
name = "customers"
share = 0.5
TOML
sordino run nightly.toml --dry-run --format table

# 3. What cron starts: 15 3 * * *  cd /path/to/shop && sordino run nightly.toml --run-id "$(date +\%F)" --quiet
night=2026-11-30
sordino run nightly.toml --run-id "$night" --quiet > /dev/null

# 4. A retry of the same night pays nothing. Here the folder was lost: it is written again, to the last letter.
mv "nightly-$night" before
sordino run nightly.toml --run-id "$night" --quiet > /dev/null
diff -r before "nightly-$night"
echo "The same night again: the same folder, and no second charge."

# 5. A new machine: the ledger is copied while it may be in use, and the rest of the folder goes along.
#    From then on the old machine must not run: two copies of a ledger are two budgets. (Or keep it in PostgreSQL.)
mkdir new-machine
sordino ledger backup new-machine/budget.db --ledger budget.db > /dev/null
cp purchases.csv product.csv sordino.toml nightly.toml new-machine/
(cd new-machine && sordino run nightly.toml --run-id "$night" --quiet > /dev/null)
diff -r before "new-machine/nightly-$night"
(cd new-machine && sordino ledger show --ledger budget.db --account purchases --format table)
