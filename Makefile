# `make help` lists the targets. Everything is made from this checkout: the virtual environment too.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
# rust-toolchain.toml names the compiler. Where rustup does not install it by itself, make does; without a network the
# default toolchain compiles.
ifneq ($(shell command -v rustup),)
ifeq ($(shell rustc --version 2>/dev/null),)
ifneq ($(shell rustup toolchain install >/dev/null 2>&1 && echo installed),installed)
export RUSTUP_TOOLCHAIN := stable
endif
endif
endif

# Where a virtual environment has its programs.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Of `make dev`: arguments of pytest.
TESTS ?= tests/unit
CORE := python/samsarrow/_core.abi3.so
# Where the demo's Kafka is; empty starts the embedded broker.
BOOTSTRAP ?=

RUST_SOURCES := $(shell find rust -name '*.rs' -not -path '*/target/*') $(shell find rust -name Cargo.toml) Cargo.toml Cargo.lock
JAVA_SOURCES := $(shell find jvm/src -type f) jvm/build.py jvm/crates.py
DEPS := $(VENV)/.deps
BUILT := $(VENV)/.built
RELEASE := $(VENV)/.release
# What `make demo` makes where nothing else is made yet: with fewer packages, in less time, less optimised.
DEMO := $(VENV)/.demo
# Of `make jar`; `release` for use.
JAR_PROFILE ?= ci
# Of the extension and the jar for tests: with it, what they and Rust's tests share is compiled once (ADR 56).
FEATURES := samsarrow-spark/tests
JAR := jvm/target/.$(JAR_PROFILE)
JAR_FILE := jvm/target/samsarrow-spark.jar
# Classes of Kafka and Spark as tests' JVMs start from them; nothing fails without.
ARCHIVES := .cache/.archives
# Of `make fuzz` and `make fuzz-guided`.
RUNS ?= 1000000
SEED ?= 1
JOBS ?=
TARGETS ?=
# Of `make test-matrix`, Kafkas, and of `make test-spark-versions`, Sparks; empty is all, other surroundings too.
VERSIONS ?=
TARGET ?= batches
SECONDS ?= 60
# Of `make test-exits`.
EXITS ?= 500
PYTHON_EXITS ?=
# zig, which links for any Linux; too large for everybody's environment.
CROSS := .cache/cross
NATIVE := .cache/native
NATIVE_BIN := $(NATIVE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
ZIG := $(CROSS)/.done
MATURIN_ZIG := PATH=$(CURDIR)/$(CROSS)/bin:$$PATH $(CROSS)/bin/maturin build --release --zig --compression-level 9 --out dist
CARGO_ZIG := PATH=$(CURDIR)/$(CROSS)/bin:$$PATH cargo-zigbuild build --quiet
# mkdocs and its theme, which nothing else needs.
SITE := .cache/site
# Engines that read plans; too large for the other environment.
ENGINES := .cache/engines
ENGINES_DEPS := $(ENGINES)/.done
SITE_DEPS := $(SITE)/.done
ARM := aarch64-unknown-linux-gnu
LINUXES := x86_64-unknown-linux-gnu $(ARM)
MUSLS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl

.PHONY: help archives dev demo jar jar-linux test test-built test-rust test-python test-spark-whole test-spark-cluster test-spark-versions test-spark-leaks test-spark-jni test-matrix test-chaos test-share test-engines test-security test-exits test-backup test-conservation deny check check-python check-stub check-rust lock hooks coverage bench bench-rust bench-python bench-engines bench-tls bench-share bench-spark bench-spark-scale bench-scale wheel wheel-arm wheel-musl wheel-native wheel-spark wheel-spark-native wheels test-wheels test-wheel-spark sdist test-arm site release-check simulate simulate-nightly simulate-defects test-simulation test-determinism fuzz fuzz-guided generate format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

# Modules are compiled when they are first imported, which most of them never are.
$(DEPS): pyproject.toml tools/constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint tools/constraints.txt --group dev
	touch $@

# Tests run on the `ci` profile, which those of Rust share.
$(BUILT): $(DEPS) $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile ci --features extension-module,$(FEATURES)
	touch $@
	rm -f $(RELEASE)

$(RELEASE): $(DEPS) $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --release
	touch $@
	touch $(BUILT)

# A copy that takes the name at once: a program that has the old one mapped goes on with it.
dev: $(DEPS) ## the quick loop: the extension without optimisation, then some tests (TESTS="tests/broker -k seek")
	$(BIN)/python -m pip show --quiet samsarrow 2>/dev/null || VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile dev
	cargo build --quiet -p samsarrow-py --features extension-module
	rm -f $(BUILT) $(RELEASE)
	cp target/debug/lib_core.so $(CORE).new
	mv $(CORE).new $(CORE)
	$(BIN)/python -m pytest -q $(TESTS)

# The core and the packages beside each other: one waits for processors, the other for the network.
$(DEMO): pyproject.toml $(RUST_SOURCES)
	@echo "1 of 3: a virtual environment in $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1' 'maturin>=1.16,<2'
	@echo "2 of 3: pyarrow and PySpark (400 MB) are installed, and some 180 crates compiled, for a quick start and not for speed; minutes, the first time"
	@trap 'kill $$(jobs -p) 2>/dev/null || true' EXIT; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group demo & \
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile demo --skip-install; \
	wait $$!
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile demo --group demo
	@touch $@

demo: ## flights into Kafka, back as Arrow, committed, and through PySpark (BOOTSTRAP=host:port for your own Kafka)
	@$(MAKE) --no-print-directory $(if $(wildcard $(DEPS)),$(BUILT),$(DEMO))
	@echo "3 of 3: the demo"
	$(BIN)/samsarrow demo $(if $(BOOTSTRAP),--bootstrap-servers $(BOOTSTRAP))

$(JAR): $(DEPS) $(RUST_SOURCES) $(JAVA_SOURCES)
	cargo build --quiet --profile $(JAR_PROFILE) -p samsarrow-jvm $(if $(filter ci,$(JAR_PROFILE)),--features $(FEATURES))
	$(BIN)/python jvm/build.py $(JAR_FILE) target/$(JAR_PROFILE)/libsamsarrow_jvm.so
	rm -f jvm/target/.release
	touch jvm/target/.ci $@

jar: $(JAR) ## the source and sink in Spark's JVM, format samsarrow-jvm, into jvm/target/ (JAR_PROFILE=release for use)

jar-linux: $(ZIG) $(DEPS) ## the same with libraries for every Linux with glibc 2.17 or later, on x86-64 and 64-bit ARM
	rustup --quiet target add $(LINUXES)
	for target in $(LINUXES); do $(CARGO_ZIG) --profile $(JAR_PROFILE) -p samsarrow-jvm --target $$target.2.17; done
	$(BIN)/python jvm/build.py $(JAR_FILE) $(LINUXES:%=target/%/$(JAR_PROFILE)/libsamsarrow_jvm.so)
	rm -f jvm/target/.release
	touch jvm/target/.ci $(JAR)

$(ARCHIVES): $(DEPS)
	$(BIN)/python tests/support/archives.py
	touch $@

archives: $(ARCHIVES) ## loaded classes of Kafka and Spark, from which JVMs of tests start (ADR 57); part of test

# More than there are processors: tests wait for answers that are late on purpose.
test test-rust: export RUST_TEST_THREADS ?= 6

test: test-built ## every test, on real Kafka and real Spark
	$(BIN)/python tests/side_by_side.py --rust

# All that has to be made before the first test runs.
test-built: $(BUILT) $(JAR) $(ARCHIVES)
	cargo test --workspace --profile ci --quiet --no-run
	$(SIMULATION) test $(SIMULATED) --no-run

test-rust: test-simulation
	cargo test --workspace --profile ci --quiet

# Tokio's random numbers come from the seed only in builds with this flag, so simulations have a folder of their own.
SIMULATION := RUSTFLAGS='--cfg tokio_unstable' cargo
SIMULATED_DEBUG := --quiet --target-dir target/simulation -p samsarrow-simulation --features simulation
SIMULATED := --profile simulation $(SIMULATED_DEBUG)
SEEDS ?= 1000
FIRST ?= 1
WORLD ?=

test-simulation: ## 200 seeds of each simulated world, and all seeds that have failed (ADR 65)
	$(SIMULATION) test $(SIMULATED)

simulate: ## clients and brokers on a simulated network and clock (SEEDS=100000 FIRST=1 JOBS=2 WORLD=groups, or SEED=145 WORLD=groups TRACE=1)
	$(SIMULATION) build $(SIMULATED)
	target/simulation/simulation/samsarrow-simulation $(if $(filter command line,$(origin SEED)),--seed $(SEED) $(if $(TRACE),--trace),--seeds $(SEEDS) --first $(FIRST) $(if $(JOBS),--jobs $(JOBS))) $(WORLD)

simulate-nightly: ## 100,000 seeds of each simulated world, other ones every day
	$(MAKE) simulate SEEDS=100000 FIRST=$$(date +%Y%m%d)00000 JOBS=$$(nproc)

simulate-defects: ## how many seeds find each known defect (SEEDS=10000)
	$(SIMULATION) build $(SIMULATED)
	target/simulation/simulation/samsarrow-simulation --defects --seeds $(SEEDS)

test-determinism: ## equal traces of equal seeds, in debug and in the profile of simulations (SEEDS=1000)
	$(SIMULATION) build $(SIMULATED)
	$(SIMULATION) build $(SIMULATED_DEBUG)
	for profile in simulation debug; do for run in 1 2; do \
	  target/simulation/$$profile/samsarrow-simulation --hashes --seeds $(SEEDS) $(WORLD) > target/simulation/$$profile-$$run.txt || exit 1; \
	done; done
	for run in simulation-2 debug-1 debug-2; do cmp target/simulation/simulation-1.txt target/simulation/$$run.txt || exit 1; done
	@echo "$$(wc -l < target/simulation/simulation-1.txt) runs have equal traces in all builds"

test-python: $(BUILT) $(JAR) $(ARCHIVES)
	$(BIN)/python tests/side_by_side.py

test-spark-whole: $(BUILT) $(JAR) ## all of Spark's tests: each direction of checkpoints, kills and failures of both sinks
	SAMSARROW_SPARK_WHOLE=1 SAMSARROW_SPARK_KILLS=$${SAMSARROW_SPARK_KILLS:-2} $(BIN)/python -m pytest tests/spark

test-spark-cluster: $(BUILT) $(JAR) ## Spark as a cluster of two workers, and as a Connect server, in Python and in the JVM
	SAMSARROW_SPARK_CLUSTER=1 $(BIN)/python -m pytest tests/spark/test_spark_cluster.py tests/spark/test_jvm_cluster.py

test-spark-versions: $(BUILT) $(JAR) ## what queries find through samsarrow-jvm on Spark 4.0 to 4.3, in an environment each (VERSIONS="4.0 4.2")
	cd tests && ../$(BIN)/python -m matrix shapes $(VERSIONS)

test-spark-leaks: $(BUILT) $(JAR) ## what 400 million rows, 1,000 cancelled tasks and 1,000 limits leave behind in Spark's JVM: nothing
	$(BIN)/python tests/leaks

test-spark-jni: $(BUILT) $(JAR) ## the JVM reader's tests in a JVM that checks each JNI call; fails where it warns of one of ours
	mkdir -p .cache
	SAMSARROW_SPARK_JAVA_OPTIONS=-Xcheck:jni $(BIN)/python -m pytest -q -s tests/spark/test_jvm_*.py >.cache/jni.log 2>&1 || { tail -40 .cache/jni.log; exit 1; }
	! grep -A 12 -E 'FATAL ERROR in native|WARNING in native|JNI local refs|JNI call made' .cache/jni.log | grep -B 12 'io.github.samsarrow'

test-matrix: $(BUILT) $(JAR) ## every Kafka since 0.8.2, other Pythons, pyarrows and Sparks, into docs/compatibility.md (VERSIONS="2.8.2 3.7.2")
	cd tests && ../$(BIN)/python -m matrix $(VERSIONS)

test-chaos: $(RELEASE) ## a bad network, brokers away for ten minutes, topics that come and go, ten minutes a group protocol and ten of producers (SAMSARROW_CHAOS_SEED=2); two hours
	SAMSARROW_NETWORK_FLOOR=0.8 SAMSARROW_AWAY_SECONDS=600 SAMSARROW_ROLLING_ROUNDS=5 SAMSARROW_CHAOS_SECONDS=600 $(BIN)/python -m pytest tests/network tests/kafka/test_chaos.py tests/kafka/test_produce_chaos.py -s --timeout 1800

test-share: $(RELEASE) ## share groups: members of three clients, and 40 killed members, 6 restarts and 6 new leaders (SAMSARROW_SHARE_VERSIONS="4.2.2 4.3.1" SAMSARROW_CHAOS_SEED=2)
	SAMSARROW_SHARE_RECORDS=$${SAMSARROW_SHARE_RECORDS:-200000} SAMSARROW_SHARE_KILLS=$${SAMSARROW_SHARE_KILLS:-40} SAMSARROW_SHARE_RESTARTS=$${SAMSARROW_SHARE_RESTARTS:-6} $(BIN)/python -m pytest tests/interop/test_share_groups.py tests/kafka/test_share_chaos.py tests/broker/test_share_worker.py --log-cli-level INFO

$(ENGINES_DEPS): pyproject.toml
	test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check --group engines
	touch $@

test-engines: $(BUILT) $(ENGINES_DEPS) ## Ray Data, Daft, DataFusion and dlt on the embedded broker and on real Kafka, in an environment of their own
	PYTHONPATH=$(CURDIR)/python $(ENGINES)/bin/python -m pytest tests/engines tests/house/test_docs_fences.py -k "not docs or engines.md"

bench-engines: $(RELEASE) $(ENGINES_DEPS) ## Ray Data, Daft and DataFusion against their own readers, on real Kafka
	PYTHONPATH=$(CURDIR)/python $(ENGINES)/bin/python -m pytest benches/python/test_engines.py

test-security: $(BUILT) ## every login, store and certificate on real Kafka, with logins renewed for a minute under load
	SAMSARROW_REAUTHENTICATION_SECONDS=60 $(BIN)/python -m pytest tests/security

test-backup: $(BUILT) ## backups and restores of Apache Kafka that are killed 50 times (SAMSARROW_BACKUP_KILLS=50 SAMSARROW_BACKUP_SEED=1)
	SAMSARROW_BACKUP_KILLS=$${SAMSARROW_BACKUP_KILLS:-50} $(BIN)/python -m pytest tests/kafka/test_backup.py

test-exits: $(BUILT) ## programs that use clients end, EXITS=500 of them (PYTHON_EXITS=3.14 or a path, BOOTSTRAP=host:port)
	$(BIN)/python tests/exits --runs $(EXITS) $(if $(PYTHON_EXITS),--python $(PYTHON_EXITS)) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

test-conservation: $(RELEASE) ## rows that are read and written under each disturbance, on real Kafka and the embedded broker: none is lost in silence (SECONDS=3600 SEED=1 BOOTSTRAP=host:port)
	$(BIN)/python tests/conservation --seconds $(if $(filter file,$(origin SECONDS)),3600,$(SECONDS)) --seed $(SEED) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

deny:
	cargo deny --version >/dev/null 2>&1 || cargo install --locked --debug --quiet cargo-deny

check: check-rust check-python check-stub deny ## lint, types, stubs, licences, workflows
	cargo deny --log-level error check licenses bans sources

check-python: $(DEPS)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/check_prose.py
	$(BIN)/typos
	$(BIN)/mypy
	for example in examples/*/*.py; do $(BIN)/mypy --no-error-summary $$example || exit 1; done
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --quiet --offline --no-progress .github

# Alone needs the extension.
check-stub: $(BUILT)
	$(BIN)/python -m mypy.stubtest samsarrow._core --mypy-config-file pyproject.toml

lock: $(DEPS) ## the versions of development packages in .venv, into tools/constraints.txt
	@sed -n '/^#/p' tools/constraints.txt > tools/constraints.new
	$(BIN)/python -m pip list --format=freeze --exclude samsarrow --exclude pip --exclude setuptools >> tools/constraints.new
	mv tools/constraints.new tools/constraints.txt

hooks: $(DEPS) ## Git hooks that format, lint, and check the language before each commit (pre-commit)
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type commit-msg

# The Rust tests run in a build of their own; Python's measure the package, not the extension.
coverage: $(BUILT) $(JAR) ## covered lines, by crate and by Python module, into target/coverage
	cargo llvm-cov --version >/dev/null 2>&1 || cargo install --locked --debug --quiet cargo-llvm-cov
	mkdir -p target/coverage
	cargo llvm-cov --workspace --profile ci --quiet --json --summary-only --output-path target/coverage/rust.json
	$(BIN)/python -m pytest -q tests/unit tests/broker tests/aio tests/values --cov samsarrow --cov-report json:target/coverage/python.json
	$(BIN)/python tools/coverage.py target/coverage/rust.json target/coverage/python.json

check-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --profile ci --quiet -- -D warnings

bench: bench-rust bench-python ## every benchmark; the Python ones against their peers on real Kafka

bench-rust:
	cargo bench --workspace --bench '*' --quiet

bench-python: $(RELEASE) ## samsarrow and its peers on real Kafka, into docs/benchmarks.json, the chart and the tables of docs/benchmarks.md
	SAMSARROW_BENCH_PLOT=$${SAMSARROW_BENCH_PLOT:-docs/benchmarks.svg} SAMSARROW_BENCH_RESULTS=$${SAMSARROW_BENCH_RESULTS:-docs/benchmarks.json} SAMSARROW_BENCH_CLI_RECORDS=$${SAMSARROW_BENCH_CLI_RECORDS:-1000000} $(BIN)/python -m pytest benches/python --ignore benches/python/test_tls.py --ignore benches/python/test_share.py
	[ -n "$$SAMSARROW_BENCH_RESULTS" ] || $(BIN)/python tools/benchmarks.py

bench-tls: $(RELEASE) ## what TLS costs, against a bare loop and confluent-kafka; fails where a floor is missed
	$(BIN)/python -m pytest benches/python/test_tls.py -q

bench-share: $(RELEASE) ## share groups against a bare loop of ShareFetch and confluent-kafka; fails where a floor is missed
	$(BIN)/python -m pytest benches/python/test_share.py -q

bench-spark: $(RELEASE) ## the Spark source and sink against Spark's own connector, with floors
	$(MAKE) --no-print-directory jar JAR_PROFILE=release
	$(BIN)/python benches/spark/bench.py

bench-spark-scale: $(RELEASE) ## a hundred partitions on a cluster of two workers, and thousands that are planned, in Spark's JVM
	$(MAKE) --no-print-directory jar JAR_PROFILE=release
	$(BIN)/python benches/spark/scale.py

bench-scale: $(RELEASE) ## what many partitions, topics, clients and members cost, into docs/benchmarks.md; fails where it grows more than in proportion
	$(BIN)/python benches/scale

$(ZIG): pyproject.toml
	test -x $(CROSS)/bin/python || $(PYTHON) -m venv $(CROSS)
	$(CROSS)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(CROSS)/bin/python -m pip install --quiet --disable-pip-version-check --group cross
	touch $@

wheel: $(ZIG) ## the wheel for every Linux with glibc 2.17 or later, into dist/
	$(MATURIN_ZIG) --compatibility manylinux_2_17

wheel-arm: $(ZIG) ## the same for 64-bit ARM, cross-built
	rustup --quiet target add $(ARM)
	$(MATURIN_ZIG) --compatibility manylinux_2_17 --target $(ARM)

wheel-musl: $(ZIG) ## the same for Alpine and others with musl, on both kinds of machine
	rustup --quiet target add $(MUSLS)
	for target in $(MUSLS); do $(MATURIN_ZIG) --compatibility musllinux_1_2 --target $$target; done

wheels: wheel wheel-arm wheel-musl test-wheels ## all of them, then a line for each: size, platform, where it was imported and tried

test-wheels: $(ZIG) $(DEPS) ## the wheels in dist/: platform, stable interface, size, SBOM, licences; tried on the oldest Python, the newest and ARM
	$(BIN)/python tests/wheels dist $(CROSS)/bin

wheel-native: ## a wheel for this machine alone, tried in an environment of its own; needs neither zig nor anything of .venv
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	rm -rf $(NATIVE)
	$(PYTHON) -m venv $(NATIVE)
	$(NATIVE_BIN)/python -m pip install --quiet "$$(ls -t dist/samsarrow-[0-9]*.whl | head -1)"
	cd $(NATIVE) && $(CURDIR)/$(NATIVE_BIN)/python $(CURDIR)/tests/wheels/smoke.py

sdist: $(ZIG) ## the source distribution into dist/, built and installed from in an environment of its own
	$(CROSS)/bin/maturin sdist --out dist
	$(CROSS)/bin/python tests/wheels dist $(CROSS)/bin --source

wheel-spark: ## samsarrow-spark, the wheel with the jar of jar-linux, into dist/
	$(MAKE) --no-print-directory jar-linux JAR_PROFILE=release
	$(BIN)/python jvm/wheel.py $(JAR_FILE) dist

wheel-spark-native: ## the same for this machine alone; needs no zig
	$(MAKE) --no-print-directory jar JAR_PROFILE=release
	$(BIN)/python jvm/wheel.py $(JAR_FILE) dist

test-wheel-spark: ## both wheels in dist/ and PySpark, by pip into an empty environment: the README's query with and without the jar
	$(PYTHON) tests/wheels/spark.py dist

test-arm: $(BUILT) wheel-arm ## Rust tests and the wheel with pyarrow for 64-bit ARM, under emulation
	$(BIN)/python tests/arm $$(ls -t dist/samsarrow-*aarch64.whl | head -1)

$(SITE_DEPS): pyproject.toml
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --group site
	touch $@

site: $(SITE_DEPS) ## the documentation as a site, into site/; fails where a link, an anchor or a public name is missing
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict
	$(SITE)/bin/python tools/check_site.py site

release-check: $(DEPS) ## whether this checkout may be released: refuses what is not green, and runs `make check` and `make test`
	$(BIN)/python tools/release_check.py

fuzz: ## mutated inputs for everything that reads foreign bytes (RUNS=50000000 JOBS=2 SEED=1 TARGETS="lz4 zstd")
	cargo build --quiet --profile fuzz -p samsarrow-fuzz
	target/fuzz/samsarrow-fuzz --runs $(RUNS) $(if $(JOBS),--jobs $(JOBS)) --seed $(SEED) $(TARGETS)

fuzz-guided: ## the same guided by coverage, one target with cargo-fuzz (TARGET=batches SECONDS=60)
	cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz
	cargo run --quiet --profile fuzz -p samsarrow-fuzz -- --seeds rust/fuzz/fuzz/corpus --runs 200 $(TARGET)
	cd rust/fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run $(TARGET) fuzz/corpus/$(TARGET) corpus/$(TARGET) -- -max_total_time=$(SECONDS)

generate: $(BUILT) ## what follows from the core's tables: docs/options.md, docs/metrics.md, docs/errors.md, the dashboard, exceptions, types of options; methods of the admin clients; THIRD-PARTY-NOTICES
	$(BIN)/python dashboards/build.py > dashboards/samsarrow.json
	$(BIN)/python tools/generate.py
	$(BIN)/python tools/admin_methods.py
	$(BIN)/python tools/pages.py
	$(BIN)/python tools/notices.py

format: $(DEPS) ## format Python and Rust
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt --all

clean: ## remove what make made
	rm -rf $(VENV) target jvm/target dist site .cache
