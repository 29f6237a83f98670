# Each target sets up what it needs in .venv, once: `make demo` the library, `make test` and `make lab` also their tools.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test lab bench check format clean

demo: $(VENV)/demo.ready
	$(BIN)/workbench demo

test: $(VENV)/test.ready check
	$(BIN)/workbench fetch smollm2-135m
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

check: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(VENV)/test.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lab: $(VENV)/lab.ready
	$(BIN)/jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

bench: $(VENV)/bench.ready
	$(BIN)/python benchmarks/spine.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/families.py
	$(BIN)/python benchmarks/patching.py
	$(BIN)/python benchmarks/dashboards.py

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is wanted; name one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/%.ready: $(VENV)/demo.ready
	$(PIP) --editable ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) reports .pytest_cache .ruff_cache .hypothesis
