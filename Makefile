# Each target sets itself up: a virtual environment in .venv, the package and what the target needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test lint types layers check benchmark clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

test: $(VENV)/installed  ## install what is needed and run the test suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

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
