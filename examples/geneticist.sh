#!/bin/sh
# A geneticist looks for the marker that is most significant in 150 families with an affected child.
#
#     sh examples/geneticist.sh    # makes counts of made-up families, snps.csv, in this folder
#
# Steps: 1 a table with a line for each marker, 2 an account, 3 how likely is the right one found, 4 the marker.
set -eu

# 1. How often heterozygous parents passed on one allele or the other. A report of plink --tdt will do as well.
python - <<'PY'
import csv, random

chance = random.Random(5)
with open("snps.csv", "w", newline="") as file:
    lines = csv.writer(file)
    lines.writerow(["snp", "b", "c"])
    for marker in range(40):
        parents = sum(chance.random() < 2 / 3 for _ in range(300))
        passed = sum(chance.random() < (0.66 if marker == 17 else 0.5) for _ in range(parents))
        lines.writerow([f"rs{1000 + marker}", passed, parents - passed])
PY

# 2. A family is replaced by another one, so the number of families stays public.
sordino ledger create --ledger trios.db --account trios --epsilon 5 --adjacency replace-one --unit family --source name:trios --format table

# 3. Nothing is read or charged, so it has to be said how many markers there are.
sordino select snps.csv --statistic tdt --b b --c c --families 150 --snp snp --epsilon 3 --ledger trios.db --account trios --dry-run --like-rows 40 --format table

# 4. The release.
sordino select snps.csv --statistic tdt --b b --c c --families 150 --snp snp --epsilon 3 --ledger trios.db --account trios --format table
sordino ledger show --ledger trios.db --account trios --format table
