# make demo and make test are for everyone, the rest for those who change dope.
#
# Everything lives in .venv and build/. Stamps in .venv remember what was installed, so a second run
# installs nothing and needs no network; the core is rebuilt when its sources or pyproject.toml changed.
# Paths are relative: the checkout may lie in a folder with spaces.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := pyproject.toml CMakeLists.txt $(shell find cpp -type f)
CXX_FILES := $(shell find cpp -name '*.cpp' -o -name '*.hpp' -o -name '*.h')

# Some machines set it. The tests start a hundred processes, and each would compile all of dope's Python again.
unexport PYTHONDONTWRITEBYTECODE

# Tests pass wrong things on purpose, and know which half of a union, or which type of step, they hold.
TESTS_MAY := arg-type attr-defined call-overload index misc operator type-var union-attr var-annotated

# The stamp's name holds the folder and Python's version: .venv is made anew when the checkout has moved
# or another PYTHON is asked for.
VERSION := -c 'import sys; print(sys.version_info[:2])'
KEY := cksum | cut -d ' ' -f 1
ASKED := $(filter-out file,$(origin PYTHON))
MADE := $(VENV)/.made-$(shell { pwd; $(if $(ASKED),,$(BIN)/python $(VERSION) ||) "$(PYTHON)" $(VERSION); } \
	2>/dev/null | $(KEY))

# `make bench FLOW='--cases A2e --repeat 5' GROWTH='--curves sites-3x3'` measures less, or more. A run that was
# interrupted goes on where it ended.
FLOW :=
WARM := --repeat 1
GROWTH :=
SIGNED := --groups peers

# `make bench-exact EXACT='--cases photos-7 A2h --width 16' CURVES='--cases A2h'` does so too.
EXACT :=
CURVES :=

# `make fuzz FUZZ_SECONDS=3600`: what was found goes on from build/fuzz/corpus. A FUZZ_SEED and a number of FUZZ_RUNS
# repeat the same calls, as a check of a change must; without them every run looks elsewhere.
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0
FUZZ_RUNS ?= -1
FUZZ_CXX := clang++

# What `make attack` runs all of; the other tests have the quick part of it.
ATTACKS := $(addprefix tests/test_,attack.py truth.py verify.py outputs.py hostile_words.py checkpoint.py checkpoint_runs.py \
	budget.py io_bounded.py)

# What `make soak` runs with a thousand examples each.
LAWS := $(addprefix tests/test_,laws.py every_solver.py every_method.py every_executor.py admm.py core_flow.py)

.PHONY: help demo docs test slow soak attack bench bench-docs bench-exact paper ctest fuzz timing lint format wheel clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-13s%s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.with-report ## segment the packaged photo and write pictures into demo/
	$(BIN)/dope demo

# As many processes as cores run tests: threads of BLAS would wait for each other, and take most of the time for it.
test slow soak attack: export OPENBLAS_NUM_THREADS := 1

test: $(VENV)/.with-test ## run the tests; DOPE_DATA names a folder of further test images, if there is one
	$(BIN)/python -m pytest -n auto --dist worksteal

slow: $(VENV)/.with-test ## run the tests that take seconds each: guides, benchmarks, lost machines, more examples of every law
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n auto --dist worksteal -m 'hypothesis and not soak' tests

soak: $(VENV)/.with-dev ## run the tests that take minutes each: rare failures, guides at full size, the scan of docs/mri.md
	$(BIN)/python -m pytest -m soak
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest $(LAWS)

attack: $(VENV)/.with-test ## try to get something false, lost or unbounded: hostile files and names, forged proofs, 20,000 problems
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not soak' $(ATTACKS)

bench: $(VENV)/.with-bench ## measure dope beside all its peers for half an hour, into docs/benchmarks.md and docs/speed.md
	$(BIN)/python benchmarks/flow.py $(FLOW)
	$(BIN)/python benchmarks/warm.py $(WARM)
	$(BIN)/python benchmarks/growth.py $(GROWTH)
	$(BIN)/python benchmarks/signed.py $(SIGNED)
	@$(MAKE) bench-docs

bench-docs: $(VENV)/.with-bench ## write all tables and figures of measurements anew, from benchmarks/results into docs
	$(BIN)/python benchmarks/flow.py --docs
	$(BIN)/python benchmarks/exact.py --docs
	$(BIN)/python benchmarks/signed.py --docs
	$(BIN)/python benchmarks/large.py --docs
	$(BIN)/python benchmarks/simulate.py --docs
	$(BIN)/python benchmarks/overview.py

bench-exact: $(VENV)/.with-bench ## measure exact minima beside PyMaxflow for about an hour, into docs/exact_speed.md
	$(BIN)/python benchmarks/exact.py $(EXACT)
	$(BIN)/python benchmarks/exact.py --curves $(CURVES)
	$(BIN)/python benchmarks/exact.py --docs

paper: $(VENV)/.with-bench ## run the paper's experiments for hours, into paper/ and docs/paper.md; goes on where it was broken off
	$(BIN)/dope paper all --output paper --serial benchmarks/serial_cut.py
	$(BIN)/python benchmarks/paper_page.py paper

ctest: $(VENV)/.tools ## run the C++ tests under the address and undefined-behaviour sanitizers
	PATH="$$PWD/$(BIN):$$PATH" && \
	cmake --fresh -S . -B build/ctest -G Ninja -DDOPE_TESTS=ON -DDOPE_PYTHON=OFF -DDOPE_SANITIZE=ON && \
	cmake --build build/ctest && \
	ctest --test-dir build/ctest --parallel 4 --output-on-failure --no-tests=error

fuzz: $(VENV)/.tools ## look for calls that break the C++ core, for FUZZ_SECONDS (600); needs clang and its libFuzzer
	PATH="$$PWD/$(BIN):$$PATH" && \
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$(FUZZ_CXX)" -DDOPE_FUZZ=ON -DDOPE_PYTHON=OFF \
		-DDOPE_WERROR=ON && \
	cmake --build build/fuzz
	mkdir -p build/fuzz/corpus
	build/fuzz/flow_fuzz -max_total_time=$(FUZZ_SECONDS) -seed=$(FUZZ_SEED) -runs=$(FUZZ_RUNS) -max_len=600 -len_control=0 -entropic=0 -use_cmp=0 -timeout=20 \
		-verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus

timing: $(VENV)/.tools ## time the C++ core by kernel
	PATH="$$PWD/$(BIN):$$PATH" && \
	cmake -S . -B build/timing -G Ninja -DDOPE_TESTS=ON -DDOPE_PYTHON=OFF && \
	cmake --build build/timing --target flow_timing && \
	build/timing/flow_timing

lint: $(VENV)/.with-dev ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-any-generics \
		$(TESTS_MAY:%=--disable-error-code=%) tests
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

format: $(VENV)/.with-dev ## put Python and C++ into shape
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CXX_FILES)

# Warnings are errors: a link that leads nowhere, a docstring that Sphinx cannot read, an example that fails.
docs: $(VENV)/.with-docs ## run the examples and build the documentation, without a network, into build/docs
	rm -rf build/docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --fresh-env -d build/doctrees docs build/docs
	$(BIN)/python docs/extensions/check.py build/docs
	@echo "The start page is build/docs/index.html"

wheel: $(VENV)/.with-dev ## build the source archive, and a wheel from it, into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean: ## remove all that was made
	rm -rf $(VENV) build dist demo .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A peer without a wheel is built from source, with tools that a new environment may not have.
$(VENV)/.with-bench: $(VENV)/.tools-bench
$(VENV)/.tools-bench: $(VENV)/.tools
	$(PIP) install --upgrade setuptools wheel
	@touch $@

# An editable install with one extra. The build tools are in .venv, so that pip need not fetch them each time.
$(VENV)/.with-%: $(VENV)/.tools $(CORE)
	@command -v "$${CXX:-c++}" >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || { \
		echo "No C++ compiler found: install g++ or clang++ (C++20), or name yours with CXX=..." >&2; exit 1; }
	$(PIP) install --no-build-isolation --editable ".[$*]"
	@touch $@

$(VENV)/.tools: $(MADE) pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		> $(VENV)/build-requires.txt
	$(PIP) install -r $(VENV)/build-requires.txt cmake ninja
	@touch $@

# ensurepip is missing where a distribution packages it apart; pip itself then fills the environment.
$(MADE):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "dope needs Python >= 3.11, but $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || { \
		echo "$(PYTHON) has no C headers (Python.h): install its development package," \
			"on Debian and Ubuntu python3-dev" >&2; exit 1; }
	@if ls $(VENV)/.made-* >/dev/null 2>&1; then rm -rf $(VENV); fi
	"$(PYTHON)" -m venv $(VENV) || { \
		"$(PYTHON)" -m venv --without-pip $(VENV) && "$(PYTHON)" -m pip --python $(BIN)/python install pip; } || { \
		echo "$(PYTHON) can make no virtual environment: install its venv package," \
			"on Debian and Ubuntu python3-venv" >&2; exit 1; }
	@touch $(VENV)/.made-$$({ pwd; $(BIN)/python $(VERSION); } | $(KEY))
