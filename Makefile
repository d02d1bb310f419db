# The two commands of the README: `make run` and `make test`. Both need only Python and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test check kernels coverage benchmark docs clean

run: .venv/run.stamp  ## learn the maze, show progress, write pictures and a page to runs/maze
	$(BIN)/rlvc run maze --out runs/maze --overwrite
	$(BIN)/rlvc report runs/maze

test: .venv/dev.stamp  ## lint, types, layers and tests
	$(MAKE) --jobs 2 --output-sync check kernels
	$(BIN)/python -m pytest -m "" -n 2 --dist loadfile

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: .venv/dev.stamp  ## compile them while the checks go on, once for all tests
	$(BIN)/python tools/kernels.py

coverage: .venv/dev.stamp  ## which lines no test runs; compiled kernels are not counted
	$(BIN)/python -m pytest -m "" -n 2 --dist loadfile --cov

benchmark: .venv/run.stamp  ## the ratios to the floors
	$(BIN)/python benchmarks/floors.py

docs: .venv/dev.stamp  ## the site, into site/; open site/index.html
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
