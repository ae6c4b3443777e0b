# Needs make and a Python 3.11 or later with venv; everything else goes into .venv. With the oldest versions:
#     make test VENV=.venv-min CONSTRAINTS=constraints-min.txt

PYTHON      ?= python3
WORKERS     ?= auto
SCALE       ?= 100
VENV        ?= .venv
CONSTRAINTS ?= constraints.txt
BIN         := $(VENV)/bin
STAMP       := $(VENV)/.setup-done

.DEFAULT_GOAL := help
.PHONY: help setup demo test trust fuzz lint bench mini clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the package and its development tools (once)

demo: $(STAMP) ## do the whole job on drawn birds: images, scores, model, correction
	@$(BIN)/choqolate demo

test: $(STAMP) ## run the whole test suite, doctests and a browser included
	@sh tools/browser.sh
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist=worksteal

trust: $(STAMP) ## kill, flip, fault and fuzz what is written and read, for long, and print the table
	@sh tools/browser.sh
	@$(BIN)/python -m tests.trust -n $(WORKERS)

fuzz: $(STAMP) ## fuzz every parser for long: SCALE times (100) what make test does
	@CHOQOLATE_TRUST=$(SCALE) $(BIN)/python -m tests.trust -n $(WORKERS) tests/trust/test_fuzz_*.py

lint: $(STAMP) ## check style (ruff) and types (mypy)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

bench: $(STAMP) ## measure speed and memory
	@$(BIN)/python benchmarks/bench.py

mini: $(STAMP) ## train the small encoder that comes with the package anew (about ten minutes)
	@$(BIN)/python tools/train_mini.py

clean: ## remove caches, builds and what the commands write by default; .venv stays
	@rm -rf build dist choqolate-demo choqolate-compare choqolate-debias choqolate-paper gradient-analysis .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path "./.venv*" -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# -qq keeps errors and drops pip's warnings about the machine it runs on.
$(STAMP): pyproject.toml $(CONSTRAINTS) hatch_build.py $(wildcard src/choqolate/integral/*.[ch])
	@echo "Setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@
