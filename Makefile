# make run     sets everything up and runs the main job (python/magis/demo)
# make test    sets everything up and runs every test of the daily set; test-long runs the rest
# make docs    the documentation's site, in build/site
# make bench   the MAGIS paper's evaluation (hours; broken off, it goes on where it was), a page in
#              build/paper; bench-quick: in ten minutes; bench-others: all other benchmarks
# make check   format, lint, types, include direction
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
JOBS ?= $(shell nproc)

.PHONY: run docs test test-core test-python test-long bench bench-quick bench-others check format bless setup core-tools clean

# ---- set-up
$(VENV)/.ready: dev-requirements.txt
	scripts/setup_venv.sh $(PYTHON) $(VENV)
	touch $@

build/.packages: scripts/setup_packages.sh
	scripts/setup_packages.sh
	mkdir -p build && touch $@

# Editable install: Python runs from the source tree, the extension is rebuilt when a source changed.
CORE_SOURCES := $(shell find core bindings python/magis/measure \( -name '*.cpp' -o -name '*.h' -o -name '*.c' \)) \
	CMakeLists.txt pyproject.toml
build/.installed: $(VENV)/.ready $(CORE_SOURCES)
	mkdir -p build
	$(PY) -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $@

setup: build/.installed

# ---- the main job
run: build/.installed
	$(PY) -m magis.demo.train_bert --json build/run.json

# ---- documentation
docs: build/.installed
	$(PY) -m mkdocs build --strict

# ---- tests
build/.configured: $(VENV)/.ready build/.packages CMakeLists.txt CMakePresets.json
	cmake --preset release
	touch $@

core-tools: build/.configured
	cmake --build --preset release --parallel $(JOBS)

test-core: core-tools
	build/release/magis_tests --gtest_brief=1

test-python: build/.installed core-tools
	$(PY) -m pytest -q -n $(JOBS) tests/python

test: test-core test-python

test-long: core-tools build/.installed
	MAGIS_LONG=1 build/release/magis_tests --gtest_brief=1
	$(PY) -m pytest -q -m long tests/python

bench: core-tools build/.installed
	$(PY) bench/paper/run.py --jobs $(JOBS)

bench-quick: core-tools build/.installed
	$(PY) bench/paper/run.py --quick --jobs $(JOBS)

OTHER_BENCHES := $(filter-out bench/paper/run.py, $(wildcard bench/*.py bench/*/run.py))
bench-others: core-tools build/.installed
	build/release/magis_bench
	set -e; for script in $(OTHER_BENCHES); do $(PY) $$script; done

# Rewrites the expected texts of tests that compare printed output.
bless: core-tools build/.installed
	MAGIS_BLESS=1 build/release/magis_tests --gtest_brief=1
	MAGIS_BLESS=1 $(PY) -m pytest -q tests/python

# ---- style
CPP_FILES := $(shell find core bindings tests/core bench/core -name '*.cpp' -o -name '*.h')
check: $(VENV)/.ready build/.packages
	clang-format --dry-run --Werror $(CPP_FILES)
	$(VENV)/bin/ruff format --check python tests/python bench
	$(VENV)/bin/ruff check python tests/python bench
	$(VENV)/bin/mypy
	$(PY) -m pytest -q tests/python/test_layers.py

format: $(VENV)/.ready build/.packages
	clang-format -i $(CPP_FILES)
	$(VENV)/bin/ruff format python tests/python bench
	$(VENV)/bin/ruff check --fix python tests/python bench

clean:
	rm -rf build
