# Every target sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
BUILD_INPUTS := pyproject.toml constraints.txt CMakeLists.txt $(wildcard core/include/* core/src/*)

.PHONY: install demo test lint clean

install: $(READY)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(READY): $(BUILD_INPUTS) | $(VENV)/bin/python
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[train,dev]'
	touch $@

demo: $(READY)
	$(BIN)/bipointnet demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

test: lint
	$(BIN)/pytest

clean:
	rm -rf $(VENV) build
