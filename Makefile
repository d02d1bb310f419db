# `make run` and `make test` need nothing but Python and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test check kernels coverage benchmark docs clean

run: .venv/run.stamp  ## learn the maze; write figures and a report to runs/maze
	$(BIN)/rlvc run maze --out runs/maze --overwrite
	$(BIN)/rlvc report runs/maze

test: .venv/dev.stamp  ## linters, type checks, import layers and all tests
	$(MAKE) --jobs 2 --output-sync check kernels
	$(BIN)/python -m pytest -m "" -n 2 --dist loadfile

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: .venv/dev.stamp  ## compile the kernels once for all tests, while the checks run
	$(BIN)/python tools/kernels.py

coverage: .venv/dev.stamp  ## lines that no test runs; compiled kernels are not counted
	$(BIN)/python -m pytest -m "" -n 2 --dist loadfile --cov

benchmark: .venv/run.stamp  ## the costs, relative to their lower bounds
	$(BIN)/python benchmarks/floors.py

docs: .venv/dev.stamp  ## build the site; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch .venv/run.stamp $@

clean:
	rm -rf .venv runs site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
