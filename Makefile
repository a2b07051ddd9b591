# `make help` lists the targets. Everything is made from this checkout: the virtual environment too.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where the demo's Kafka is; empty starts the embedded broker.
BOOTSTRAP ?=

RUST_SOURCES := $(shell find rust -name '*.rs' -not -path '*/target/*') $(shell find rust -name Cargo.toml) Cargo.toml Cargo.lock
DEPS := $(VENV)/.deps
BUILT := $(VENV)/.built
RELEASE := $(VENV)/.release
# Of `make fuzz` and `make fuzz-guided`.
RUNS ?= 1000000
SEED ?= 1
JOBS ?=
TARGETS ?=
TARGET ?= batches
SECONDS ?= 60
# Of `make test-exits`.
EXITS ?= 500
PYTHON_EXITS ?=
# zig, which links for any Linux; too large for everybody's environment.
CROSS := .cache/cross
ZIG := $(CROSS)/.done
MATURIN_ZIG := PATH=$(CURDIR)/$(CROSS)/bin:$$PATH $(CROSS)/bin/maturin build --release --zig --compatibility manylinux_2_17
ARM := aarch64-unknown-linux-gnu

.PHONY: help demo test test-rust test-python test-spark-cluster test-exits check bench bench-rust bench-python bench-spark wheel wheel-arm test-arm fuzz fuzz-guided docs format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

$(DEPS): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	touch $@

# Tests run on the `ci` profile: near release speed, without the minutes of link-time optimisation.
$(BUILT): $(DEPS) $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile ci
	touch $@
	rm -f $(RELEASE)

$(RELEASE): $(DEPS) $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --release
	touch $@
	touch $(BUILT)

demo: $(BUILT) ## flights into Kafka, back as Arrow, committed, and through PySpark (BOOTSTRAP=host:port for your own Kafka)
	$(BIN)/samsarrow demo $(if $(BOOTSTRAP),--bootstrap-servers $(BOOTSTRAP))

test: test-rust test-python ## every test, on real Kafka and real Spark

test-rust:
	cargo test --workspace --quiet

test-python: $(BUILT)
	$(BIN)/python -m pytest tests

test-spark-cluster: $(BUILT) ## Spark as a cluster of two workers, and as a Connect server
	SAMSARROW_SPARK_CLUSTER=1 $(BIN)/python -m pytest tests/spark/test_places.py

test-exits: $(BUILT) ## programs that use clients end, EXITS=500 of them (PYTHON_EXITS=3.14 or a path, BOOTSTRAP=host:port)
	$(BIN)/python tests/exits --runs $(EXITS) $(if $(PYTHON_EXITS),--python $(PYTHON_EXITS)) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

check: $(BUILT) ## lint, types, stubs, licences
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest samsarrow --mypy-config-file pyproject.toml
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo deny --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-deny
	cargo deny --log-level error check licenses bans sources

bench: bench-rust bench-python ## every benchmark; the Python ones against their peers on real Kafka

bench-rust:
	cargo bench --workspace --quiet

bench-python: $(RELEASE)
	$(BIN)/python -m pytest benches/python --benchmark-only

bench-spark: $(RELEASE) ## the Spark source and sink against Spark's own connector, with floors
	$(BIN)/python benches/spark/bench.py

$(ZIG): pyproject.toml
	test -x $(CROSS)/bin/python || $(PYTHON) -m venv $(CROSS)
	$(CROSS)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(CROSS)/bin/python -m pip install --quiet --disable-pip-version-check --group cross
	touch $@

wheel: $(ZIG) ## the wheel for every Linux with glibc 2.17 or later, into dist/
	$(MATURIN_ZIG) --out dist

wheel-arm: $(ZIG) ## the same for 64-bit ARM, cross-built
	rustup --quiet target add $(ARM)
	$(MATURIN_ZIG) --target $(ARM) --out dist

test-arm: $(BUILT) wheel-arm ## Rust tests and the wheel with pyarrow for 64-bit ARM, under emulation
	$(BIN)/python tests/arm $$(ls -t dist/samsarrow-*aarch64.whl | head -1)

fuzz: ## mutated inputs for everything that reads foreign bytes (RUNS=50000000 JOBS=2 SEED=1 TARGETS="lz4 zstd")
	cargo build --quiet --profile fuzz -p samsarrow-fuzz
	target/fuzz/samsarrow-fuzz --runs $(RUNS) $(if $(JOBS),--jobs $(JOBS)) --seed $(SEED) $(TARGETS)

fuzz-guided: ## the same guided by coverage, one target with cargo-fuzz (TARGET=batches SECONDS=60)
	cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz
	cargo run --quiet --profile fuzz -p samsarrow-fuzz -- --seeds rust/fuzz/fuzz/corpus --runs 200 $(TARGET)
	cd rust/fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run $(TARGET) fuzz/corpus/$(TARGET) corpus/$(TARGET) -- -max_total_time=$(SECONDS)

docs: $(BUILT) ## docs/options.md from the option table
	$(BIN)/python -m samsarrow.cli options > docs/options.md

format: $(DEPS) ## format Python and Rust
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt --all

clean: ## remove what make made
	rm -rf $(VENV) target dist .cache
