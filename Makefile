# Each target sets itself up: a virtual environment in .venv, the package and what the target needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
REJAX := .venv-rejax
DOPAMINE := .venv-dopamine
WHEEL := .venv-wheel
LOWEST := .venv-lowest

.PHONY: reproduce reproduce-full test test-optimised test-slow test-search test-lowest test-page lint types layers check docs wheel benchmark benchmark-peers benchmark-compiled clean

# --clear: what another Python has begun there, one that was too old say, must not stay.
$(VENV)/package: pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed: $(VENV)/package
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

reproduce: $(VENV)/package  ## run the paper's experiments and write report/index.html
	$(BIN)/edrl reproduce

reproduce-full: $(VENV)/package  ## the same at the paper's sizes, with many seeds, in report-full
	$(BIN)/edrl reproduce --full

test: $(VENV)/installed  ## install what is needed and run the test suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-optimised: $(VENV)/installed  ## the test suite with programs compiled as users compile them, not quickly
	EDRL_TEST_OPTIMISED=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test-slow: $(VENV)/installed  ## training on CartPole, runs that are killed again and again
	$(BIN)/python -m pytest -m slow

test-search: $(VENV)/installed  ## the test suite with examples that were not tried before
	$(BIN)/python -m pytest -n 2 --dist loadgroup --hypothesis-profile search

test-page: $(VENV)/installed  ## look at report/index.html with a headless Chromium, which must be installed
	EDRL_PAGE=report/index.html $(BIN)/python -m pytest tests/report/test_page_in_browser.py

test-lowest:  ## the test suite with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade pip uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[dev]'
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/installed  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed  ## mypy and pyright
	$(BIN)/mypy
	$(BIN)/pyright

layers: $(VENV)/installed  ## imports point downward only
	$(BIN)/lint-imports

check: lint types layers test  ## everything that .ci/run checks

$(VENV)/docs: $(VENV)/package
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: $(VENV)/docs  ## build the documentation into site/, any warning an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs site
	$(BIN)/edrl playground --out site/playground/index.html

wheel:  ## build the wheel, install it into an empty environment and use it there
	rm -rf dist $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --upgrade pip build
	$(WHEEL)/bin/python -m build
	$(PYTHON) -m venv --clear $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet dist/*.whl
	cd $(WHEEL) && bin/edrl reproduce figure-2 --out report
	cd $(WHEEL) && bin/edrl train --preset quick --out runs/cartpole && bin/edrl evaluate runs/cartpole

benchmark: $(VENV)/installed  ## side-by-side measurements, written to benchmarks/results
	$(BIN)/python -m benchmarks

$(PEERS)/installed:
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet sb3-contrib==2.9.2 ale-py gymnasium opencv-python-headless MinAtar tensorboard setuptools
	$(PEERS)/bin/python -m pip install --quiet --no-deps cleanrl==0.4.8
	touch $@

$(DOPAMINE)/installed:
	$(PYTHON) -m venv --clear $(DOPAMINE)
	$(DOPAMINE)/bin/python -m pip install --quiet --upgrade pip
	$(DOPAMINE)/bin/python -m pip install --quiet dopamine-rl==4.1.2
	$(DOPAMINE)/bin/python -m pip uninstall --quiet --yes tensorflow-probability
	$(DOPAMINE)/bin/python -m pip install --quiet tfp-nightly
	touch $@

benchmark-peers: $(VENV)/installed $(PEERS)/installed $(DOPAMINE)/installed  ## training beside agents of other projects
	$(BIN)/python -m benchmarks training nature

$(REJAX)/installed:
	$(PYTHON) -m venv --clear $(REJAX)
	$(REJAX)/bin/python -m pip install --quiet --upgrade pip
	$(REJAX)/bin/python -m pip install --quiet rejax==0.1.3 gymnax==0.0.9
	touch $@

benchmark-compiled: $(VENV)/installed $(REJAX)/installed  ## compiled training beside the host's and rejax's
	$(BIN)/python -m benchmarks compiled

clean:
	rm -rf $(VENV) $(PEERS) $(REJAX) $(DOPAMINE) $(WHEEL) $(LOWEST) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .jax_cache
