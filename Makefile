# Each target sets itself up: a virtual environment in .venv, the package and what the target needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: reproduce reproduce-full test test-slow test-search test-page lint types layers check benchmark clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

reproduce: $(VENV)/installed  ## run the paper's experiments and write report/index.html
	$(BIN)/edrl reproduce

reproduce-full: $(VENV)/installed  ## the same at the paper's sizes, with many seeds, in report-full
	$(BIN)/edrl reproduce --full --out report-full

test: $(VENV)/installed  ## install what is needed and run the test suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-slow: $(VENV)/installed  ## training on CartPole, runs that are killed again and again
	$(BIN)/python -m pytest -m slow

test-search: $(VENV)/installed  ## the test suite with examples that were not tried before
	$(BIN)/python -m pytest -n 2 --dist loadgroup --hypothesis-profile search

test-page: $(VENV)/installed  ## look at report/index.html with a headless Chromium, which must be installed
	EDRL_PAGE=report/index.html $(BIN)/python -m pytest tests/report/test_page_in_browser.py

lint: $(VENV)/installed  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed  ## mypy
	$(BIN)/mypy

layers: $(VENV)/installed  ## imports point downward only
	$(BIN)/lint-imports

check: lint types layers test  ## everything that .ci/run checks

benchmark: $(VENV)/installed  ## side-by-side measurements, written to benchmarks/results
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .jax_cache
