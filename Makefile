# Every target sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
INPUTS := pyproject.toml constraints.txt CMakeLists.txt $(wildcard core/include/* core/src/*)
# Bytecode is left to the first import (or to DEV_READY): compiling all of PyTorch takes longer than the rest.
PIP_INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --no-compile

.PHONY: install demo test lint clean

install: $(READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(READY): $(INPUTS) | $(BIN)/python
	$(PIP_INSTALL) --editable '.[train]'
	@touch $@

$(DEV_READY): $(READY)
	$(PIP_INSTALL) --editable '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

demo: $(READY)
	$(BIN)/bipointnet demo

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

test: lint
	$(BIN)/pytest

clean:
	rm -rf $(VENV) build
