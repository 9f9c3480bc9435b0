# `make demo` and `make test` do everything from a fresh clone; the rest is for those who work on longtail.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    ?= .venv
# What `make test` and `make lint` use. Add bench (torch, 750 MB) to also check gradients against torch.
EXTRAS  ?= parquet,skos,stem,neural,serve,report,dev

BIN     := $(VENV)/bin
PACKAGE := $(VENV)/.installed
TOOLS   := $(VENV)/.installed-dev
SITE    := $(VENV)/.installed-docs
RIVALS  := $(VENV)/.installed-bench
PINS    := pyproject.toml constraints.txt
# pip compiles modules to bytecode on one core; COMPILE does it on all of them. Without bytecode every start takes 3 s.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true
PIP     := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt

.PHONY: help install demo test bounds fuzz lint format docs bench micro quick wheel clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(TOOLS)  ## Make the virtual environment and install longtail with all tools for development

demo: $(PACKAGE)  ## Train on the embedded data, compare with baselines, suggest labels for typed titles
	@$(BIN)/longtail demo

test: $(TOOLS)  ## Run all tests
	@$(BIN)/python -m pytest -n auto --dist loadscope

quick: $(TOOLS)  ## Run the tests that take no more than two minutes together
	@$(BIN)/python -m pytest -n auto --dist loadscope -m "not slow"

bounds: $(TOOLS)  ## Run the tests of kernels with every index compared with the bounds of its array (minutes)
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n auto --dist worksteal --timeout 1200 tests/kernels \
		--ignore tests/kernels/test_compiled_cache.py

fuzz: $(TOOLS)  ## Damage models, files and matrices, kill saves, fuzz by coverage; a crash, hang or raw error is a finding (an hour)
	@$(PIP) --no-build-isolation -e ".[fuzz]" || true
	@status=0; \
	LONGTAIL_MACHINES=200 $(BIN)/python -m pytest tests/fuzz/test_saving.py --timeout 1200 || status=1; \
	$(BIN)/python -m tests.fuzz.guided --seconds 20 || status=1; \
	$(BIN)/python -m tests.fuzz.run --count 2000 || status=1; \
	exit $$status

lint: $(TOOLS)  ## Check style, types and the direction of imports
	@status=0; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; \
	$(BIN)/lint-imports || status=1; \
	exit $$status

format: $(TOOLS)  ## Format the code and sort its imports
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

docs: $(SITE)  ## Write the parameter tables and build the documentation site into site/; a warning is an error
	@$(BIN)/python docs/parameters.py
	@$(BIN)/mkdocs build --quiet --strict
	@echo "Open site/index.html"

wheel: $(TOOLS)  ## Build a wheel that brings compiled kernels along, for this Python and platform, into dist/
	@LONGTAIL_CACHE=build/kernels $(BIN)/longtail warm --portable
	@LONGTAIL_KERNELS=build/kernels $(BIN)/python -m hatchling build -t wheel

bench: $(RIVALS)  ## Run every benchmark and rewrite benchmarks/RESULTS.md (many hours)
	@$(BIN)/python -m benchmarks

micro: $(RIVALS)  ## Measure parts of longtail beside the libraries that could replace them (minutes)
	@$(BIN)/python -m benchmarks.micro

clean:  ## Remove the virtual environment, the site and caches
	rm -rf $(VENV) build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "longtail needs Python 3.11 or newer. Name one: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "Could not make a virtual environment. On Debian: apt install python3-venv"; exit 1; }

$(PACKAGE): $(PINS) | $(BIN)/python
	@echo "Installing longtail into $(VENV) (once, under a minute) ..."
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e .
	@$(COMPILE)
	@touch $@

$(TOOLS): $(PINS) | $(BIN)/python
	@echo "Installing longtail and the tools for its development into $(VENV) (once, a minute or two) ..."
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e ".[$(EXTRAS)]"
	@$(COMPILE)
	@touch $(PACKAGE) $@

$(SITE): $(PACKAGE)
	@$(PIP) --no-build-isolation -e ".[docs]"
	@touch $@

$(RIVALS): $(PACKAGE)
	@$(PIP) --no-build-isolation -e ".[neural,report,bench]"
	@touch $@
