# `make demo` and `make test` do everything from a fresh clone; the rest is for those who work on longtail.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    ?= .venv
BIN     := $(VENV)/bin
EXTRAS  := neural,serve,report,dev
STAMP   := $(VENV)/.installed
TORCH   := $(shell grep '^torch==' constraints.txt)

.PHONY: help install demo test lint format bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP)  ## Make the virtual environment and install the pinned dependencies

demo: $(STAMP)  ## Train on the embedded data, measure beside a baseline, suggest labels for typed titles
	@$(BIN)/longtail demo

test: $(STAMP)  ## Run all tests
	@$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(STAMP)  ## Check style, types and the direction of imports
	@status=0; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; \
	$(BIN)/lint-imports || status=1; \
	exit $$status

format: $(STAMP)  ## Format the code and sort its imports
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

bench: $(STAMP)  ## Measure against other libraries and rewrite benchmarks/RESULTS.md (hours)
	@$(BIN)/python -m benchmarks.peers
	@$(BIN)/python -m benchmarks.embeddings accuracy
	@$(BIN)/python -m benchmarks.embeddings throughput

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist

# Torch comes first and alone, so that no other package's looser requirement can choose its version.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "longtail needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "Could not make a virtual environment. On Debian: apt install python3-venv"; exit 1; }
	@echo "Installing longtail and its pinned dependencies into $(VENV) (once, some minutes) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt $(TORCH) hatchling editables
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
		--no-build-isolation -e ".[$(EXTRAS)]"
	@touch $@
