# Everything is made from here: `make demo` and `make test` set themselves up. Needed are Python 3.11
# or newer, a Rust toolchain and make; `uv` is used where it is installed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
TOOLS := $(VENV)/.tools
CORE := $(VENV)/.core
FULL_CORE := $(VENV)/.full-core
TEST_CORE := $(VENV)/.test-core
CHECKERS := $(VENV)/.checkers
DOCTOOLS := $(VENV)/.doctools
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name '*.toml') Cargo.toml Cargo.lock rust-toolchain.toml
OUT ?= out/shred-quick
FUZZ_CASES ?= 100000
READER_CASES ?= 1000000
REPLICATIONS ?= 8

# A virtual environment of somebody else's must not be mistaken for ours.
unexport CONDA_PREFIX
unexport PYTHONPATH
unexport PYTHONHOME
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)

UV := $(shell command -v uv 2>/dev/null)
ifdef UV
INSTALL := uv pip install --quiet
DEVELOP := $(BIN)/maturin develop --uv
else
INSTALL := $(PYTHON) -m pip install --quiet --disable-pip-version-check
DEVELOP := $(BIN)/maturin develop
endif

.PHONY: help
help:  ## Show this list.
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name what; do \
	    printf '  make %-11s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: $(CORE)  ## Run the SHRED study quickly on all cores and say where its report is.
	$(BIN)/aqmlab study run shred --quick --out $(OUT)
	@echo "Open $(OUT)/report.html in a browser."

.PHONY: build
build: $(CORE)  ## Make .venv with aqmlab in it, optimised.

.PHONY: test
test: $(TEST_CORE) $(CHECKERS) $(DOCTOOLS)  ## Check formats, lints, spelling, types and documentation, and run all tests.
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(MAKE) --no-print-directory --jobs=2 test-rust test-python

# Without `aqm-py`, which has no tests, cargo would choose other features of `syn` and `num-traits`, and compile all
# crates of the core again.
# cargo would try to use make's jobserver, which is closed.
.PHONY: test-rust
test-rust: | $(PYTHON)  ## Lint Rust, and run its tests.
	env -u MAKEFLAGS cargo clippy --locked --workspace --all-targets -- -D warnings
	env -u MAKEFLAGS cargo test --locked --workspace

.PHONY: test-python
test-python: $(TEST_CORE) $(CHECKERS) $(DOCTOOLS)  ## Check the types of Python, and run its tests.
	$(BIN)/mypy
	$(PYTHON) -m pytest -n auto

# The quick check: the unit tests of the crates but for those that take seconds or work in real time, and of each
# package of Python the tests that start no program and make no large run. A core that is there is not built again.
QUICK_CRATES := aqm-net aqm-queue aqm-link aqm-tcp aqm-traffic aqm-sim aqm-flow aqm-trace aqm-pcap aqm-live
SLOW_RUST_TESTS := the_share_of_marks_follows_from_the_price larger_packets_are_selected_more_often_with_scale_by_size \
    the_mean_is_the_sum_over_all_sizes lab::tests load::tests pcap::tests run::tests
QUICK_TESTS := architecture batch_means campaign catalog claim_tables metrics measures precision public_names \
    response_times rule rules run scenario stats store study study_file study_query study_seeds sweep tc_read

.PHONY: check
check: $(CHECKERS) $(if $(wildcard $(CORE) $(TEST_CORE)),,$(TEST_CORE))  ## Find most mistakes in 90 seconds, after one `make test`.
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(BIN)/mypy
	cargo test --quiet --locked $(QUICK_CRATES:%=-p %) --lib -- $(SLOW_RUST_TESTS:%=--skip %)
	$(PYTHON) -m pytest -n auto -m 'not program' $(QUICK_TESTS:%=tests/test_%.py)

.PHONY: check-faults
check-faults: $(CORE) $(CHECKERS)  ## Seed faults in a copy of the project, and fail if `make check` misses one.
	$(PYTHON) tests/seeded_faults.py

.PHONY: fuzz
fuzz: $(CORE) $(CHECKERS)  ## Drive 100,000 random connections, queues, lines and packets, and read a million mangled files (FUZZ_CASES, READER_CASES).
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-queue --test all random_steps
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-tcp --test all invariants
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-live --lib fuzz
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-pcap --lib fuzz
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-sim --lib both_engines_agree_on_lines
	AQM_FUZZ_CASES=$(READER_CASES) $(PYTHON) -m pytest -n auto tests/test_link_files.py tests/test_tc_fuzz.py tests/test_pages_har.py -k mangled
	AQM_FUZZ_CASES=$(FUZZ_CASES) cargo test --locked --release -p aqm-traffic --lib mangled_files

.PHONY: reference
reference: $(CORE)  ## Compare with recorded ns-2, ns-3, Linux and str0m runs, with theory, real HTTP pages, a speed test and published Wi-Fi rates.
	$(PYTHON) reference/agreement.py
	cd reference && ../$(PYTHON) -m http_pages.compare
	cd reference && ../$(PYTHON) -m wifi_airtime.compare
	cd reference && ../$(PYTHON) -m rpm.compare

.PHONY: theory
theory:  ## Compare flow-level links and single queues with closed formulas at length, which `make test` leaves out.
	cargo test --locked -p aqm-flow -p aqm-sim -- --ignored

.PHONY: tc-kernel
tc-kernel: $(CORE)  ## Run the commands of `aqmlab tc write` in a real kernel (User-Mode Linux), and read them back.
	$(PYTHON) reference/tc_kernel.py
	$(PYTHON) reference/tc_networkd.py
	$(PYTHON) reference/tc_traffic.py

.PHONY: kernel
kernel: $(CORE) $(CHECKERS)  ## Build a kernel in virtual time if there is none, and test live runs in it (AQM_KERNEL_RUNS).
	$(BIN)/aqmlab kernel show >/dev/null 2>&1 || $(BIN)/aqmlab kernel build
	$(PYTHON) -m pytest tests/real_kernel.py

.PHONY: pages
pages: $(CORE) $(CHECKERS)  ## Run the commands of all pages, also the long comparisons that `make test` leaves out.
	AQM_SLOW_PAGES=1 $(PYTHON) -m pytest -n auto tests/test_docs.py

.PHONY: gcc-original
gcc-original:  ## Run str0m's Google Congestion Control through RFC 8867 in virtual time, and write its record.
	reference/gcc_original/run.sh

.PHONY: guests
guests: $(CORE)  ## Build and install the guests, run their tests, and run the admission test of each stack and control.
	cd guests && cargo build --locked --release
	cp guests/target/release/aqmlab-guests $(BIN)/
	cd guests && cargo fmt --check && cargo clippy --locked --release --all-targets -- -D warnings
	cd guests && cargo test --locked --release
	$(BIN)/aqmlab-guests list | $(PYTHON) -c 'import json, sys; [print(stack["name"], control) for stack in json.load(sys.stdin) for control in stack["controls"]]' | while read -r stack control; do \
	    $(BIN)/aqmlab guest check --server-config "{\"control\": \"$$control\"}" \
	        $(BIN)/aqmlab-guests serve "$$stack" </dev/null || exit 1; done
	$(MAKE) --no-print-directory boringssl-guests
	@if command -v go >/dev/null; then $(MAKE) --no-print-directory gvisor-guest; \
	else echo 'aqmlab-gvisor is not built, because go (1.26.3 or newer) is not on the PATH'; fi

.PHONY: gvisor-guest
gvisor-guest: $(CORE)
	cd guests/gvisor && go build -trimpath -o ../../$(BIN)/aqmlab-gvisor .
	cd guests/gvisor && test -z "$$(gofmt -l .)" && go vet ./... && go test ./...
	for control in reno cubic; do \
	    $(BIN)/aqmlab guest check --server-config "{\"control\": \"$$control\"}" $(BIN)/aqmlab-gvisor || exit 1; done

# Libraries that read the clock of the system: each is a program of its own, with the congestion controls of its library.
BORINGSSL_GUESTS := quiche tquic
quiche_controls := reno cubic bbr2_gcongestion
tquic_controls := cubic bbr bbr3 copa

# boring-sys reads the headers of BoringSSL with libclang, for which the compiler's own headers are sufficient.
.PHONY: boringssl-guests
boringssl-guests: $(CORE)
	@missing=; for tool in cmake c++ git; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	    echo "The guests $(BORINGSSL_GUESTS) were not built, because the PATH has no:$$missing"; exit; fi; \
	$(INSTALL) 'libclang==18.1.1'; \
	export LIBCLANG_PATH="$$($(PYTHON) -c 'import clang.native; print(*clang.native.__path__)')"; \
	export BINDGEN_EXTRA_CLANG_ARGS="-isystem $$(c++ -print-file-name=include)"; \
	for guest in $(BORINGSSL_GUESTS); do \
	    $(MAKE) --no-print-directory $$guest-guest; done

.PHONY: $(BORINGSSL_GUESTS:%=%-guest)
$(BORINGSSL_GUESTS:%=%-guest): %-guest:
	cd guests/$* && cargo build --locked --release --target-dir ../target
	cp guests/target/release/aqmlab-$* $(BIN)/
	cd guests/$* && cargo fmt --check && cargo clippy --locked --release --all-targets --target-dir ../target -- -D warnings
	cd guests/$* && cargo test --locked --release --target-dir ../target
	for control in $($*_controls); do \
	    $(BIN)/aqmlab guest check --server-config "{\"control\": \"$$control\"}" $(BIN)/aqmlab-$* </dev/null || exit 1; done

.PHONY: bench
bench: $(CORE) $(CHECKERS)  ## Measure speed and scale, beside ns-2, ns-3 and htsim where installed.
	$(PYTHON) benches/bench.py

.PHONY: bench-check
bench-check: $(CORE) $(CHECKERS)  ## Count instructions, and fail if a packet takes 2 % more than on record.
	$(PYTHON) benches/bench.py --check

.PHONY: bench-live
bench-live: $(FULL_CORE)  ## Measure how exact and how fast live runs are on this machine.
	$(PYTHON) benches/live.py

.PHONY: studies
studies: $(CORE)  ## Run every study in full, and write its results on its page.
	$(PYTHON) -c 'from aqmlab.studies import STUDIES; print(*STUDIES, sep="\n")' | while read -r study; do \
	    $(BIN)/aqmlab study run "$$study" --out "out/$$study"; done
	$(PYTHON) -c 'from aqmlab.studies import STUDIES, load; print(*(name for name in STUDIES if load(name).with_queues), sep="\n")' | while read -r study; do \
	    $(BIN)/aqmlab study run "$$study" --queues today --out "out/$$study-today"; done
	$(PYTHON) -m aqmlab.studies.docs.pages docs/studies --take out --commit "$$(git rev-parse HEAD)"
	$(PYTHON) -m aqmlab.studies.docs.images docs/studies --take out --commit "$$(git rev-parse HEAD)"
	$(PYTHON) -m aqmlab.studies.docs.costs docs/studies/repeating.md --take out

.PHONY: cards
cards: $(CORE)  ## Measure all queues in the scenarios of RFC 7928 (REPLICATIONS=N: not 8 of each run).
	$(BIN)/aqmlab report-card all --replications $(REPLICATIONS) --out out/report-cards --pages docs/report-cards

.PHONY: docs
docs: $(CORE) $(DOCTOOLS)  ## Write the reference pages and build the documentation as a site.
	$(PYTHON) -m aqmlab.cli.reference docs/reference
	$(PYTHON) -m sphinx --quiet --fail-on-warning --fresh-env -b html docs docs/_build
	@echo "Open docs/_build/index.html in a browser."

.PHONY: snapshots
snapshots: $(TEST_CORE) $(CHECKERS)  ## Accept changed numbers: pinned results, and outputs shown in the documentation.
	AQM_UPDATE_SNAPSHOTS=1 cargo test --locked --workspace
	AQM_UPDATE_SNAPSHOTS=1 $(PYTHON) -m pytest
	@git status --short

.PHONY: fmt
fmt: $(CHECKERS)  ## Format Rust and Python.
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: clean
clean:  ## Remove everything that was made here, the environment and the results included.
	rm -rf $(VENV) target guests/target out docs/_build .pytest_cache .mypy_cache .ruff_cache

$(PYTHON):
ifdef UV
	uv venv --quiet --python '>=3.11' $(VENV)
else
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        exec "$$python" -m venv $(VENV); fi; done; \
	echo 'aqmlab needs Python 3.11 or newer, with its venv module' >&2; exit 1
endif

$(TOOLS): pyproject.toml | $(PYTHON)
	$(INSTALL) 'maturin>=1.9,<2'
	@touch $@

# What stands at this place of pyproject.toml's table `project`, a line each.
required = $(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]$(1), sep="\n")'

# Packages are installed while the core is compiled with this profile.
define install-core
	$(call required,["dependencies"]) | xargs $(INSTALL) & installing=$$!; \
	    $(DEVELOP) --skip-install --locked --profile $(1); wait $$installing
	$(DEVELOP) --locked --profile $(1)
	$(PYTHON) -m compileall -q python/aqmlab
endef

$(CORE): $(TOOLS) pyproject.toml $(RUST_SOURCES)
	$(call install-core,quick)
	@rm -f $(TEST_CORE)
	@touch $@

# Optimised at link time too, as `pip install .` does it: what the benchmarks measure.
$(FULL_CORE): $(TOOLS) pyproject.toml $(RUST_SOURCES)
	$(call install-core,release)
	@rm -f $(TEST_CORE)
	@touch $(CORE) $@

# The tests of Python use the crates that `cargo test` uses, which panic where an integer overflows.
$(TEST_CORE): $(TOOLS) pyproject.toml $(RUST_SOURCES)
	$(call install-core,dev)
	@rm -f $(CORE) $(FULL_CORE)
	@touch $@

$(CHECKERS): pyproject.toml $(TOOLS)
	$(call required,["optional-dependencies"]["dev"]) | xargs $(INSTALL)
	@touch $@

$(DOCTOOLS): docs/requirements.txt $(TOOLS)
	$(INSTALL) -r docs/requirements.txt
	@touch $@
