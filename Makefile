# Needs Rust (cargo) and Python 3.11 or later with venv. Everything else is fetched into .venv and target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
# Time that `make fuzz` gives each target.
SECONDS ?= 60
# Further options of `maturin build`, for instance --zig --compatibility manylinux_2_28.
WHEEL_FLAGS ?=
# With .venv on the path, where maturin finds zig.
WHEEL = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --out dist $(WHEEL_FLAGS)

# PGO: the profile that `make build-pgo` records, and the layout that goes with it: hot and cold
# code are split; otherwise the SACK path overflows the L1 instruction cache.
PGO_PROFILE := $(CURDIR)/target/pgo/lasthop.profdata
PGO := RUSTFLAGS="$(RUSTFLAGS) -Cprofile-use=$(PGO_PROFILE) -Cllvm-args=-no-pgo-warn-mismatch \
	-Cllvm-args=-enable-ext-tsp-block-placement -Cllvm-args=-split-machine-functions"
# All files: the modules of the schemes come from a macro, which `cargo fmt` does not follow.
FORMAT := find crates fuzz examples -name '*.rs' -not -path '*/target/*' -exec rustfmt --edition 2024

# Not with the job slots of make, of which a running test program holds one.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo
# Cargo's profile of the module in .venv.
BUILD := local
DEVELOP = env -u MAKEFLAGS -u MFLAGS PIP_COMPILE=0 VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --profile $(BUILD)
# What commands import is compiled also where PYTHONDONTWRITEBYTECODE is set: compiling takes longer
# than a short run. The packages of pytest's workers would be compiled by each of them.
IMPORTED := jinja2 markupsafe numpy polars \
	matplotlib mpl_toolkits contourpy cycler dateutil kiwisolver packaging PIL pyparsing \
	_pytest hypothesis
COMPILE := $(BIN)/python -m compileall -q -x '/tests?/' python/lasthop \
	$(addprefix $(VENV)/lib/python*/site-packages/,$(IMPORTED))
# The packages of the tests are compiled as they are imported.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help fetched packages module build build-release build-pgo demo test test-skipped test-rest test-module test-python test-rust test-rust-beside test-live test-stacks test-long lint format fuzz bench growth instructions same-bytes wheel wheel-pgo reproduce fidelity validation expected docs docs-site evaluation-cards clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.maturin:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv 'maturin>=1.16,<2'
	touch $@

# Crates, fetched while the environment is made.
fetched:
	-$(CARGO) fetch --quiet --target "$$(rustc -vV | sed -n 's/^host: //p')"

# uv needs a fifth of pip's time. What it cannot fetch, pip does in the next step.
packages:
	-$(BIN)/uv pip install --quiet --python $(BIN)/python --requirement pyproject.toml --extra dev

module:
	$(DEVELOP) --skip-install --quiet

$(BIN)/lasthop: pyproject.toml
	$(MAKE) --jobs 2 fetched $(VENV)/.maturin
	$(MAKE) --jobs 2 packages module BUILD=$(BUILD)
	$(DEVELOP) --extras dev --uv || $(DEVELOP) --extras dev
	touch $@

$(VENV)/.docs: $(BIN)/lasthop
	$(DEVELOP) --extras docs
	touch $@

build: $(BIN)/lasthop ## build lasthop into .venv
	$(DEVELOP) --skip-install --quiet
	$(COMPILE)

build-release: BUILD := release
build-release: build ## the same, with all crates optimised together: up to 6 % faster

build-pgo: BUILD := release
build-pgo: $(BIN)/lasthop ## the same with profile-guided optimisation: a further tenth, five minutes (needs llvm-tools)
	$(BIN)/python tools/pgo_profile.py
	$(PGO) $(DEVELOP) --skip-install --quiet
	$(COMPILE)

demo: build ## a comparison over a shipped trace and all figures of a paper, into out/
	$(BIN)/lasthop compare --down synthetic-lte.down --up synthetic-lte.up --rtt 40ms --loss 1% --schemes reno,newreno,tahoe,snoop,packet-control,i-tcp --out $(OUT)/demo
	$(BIN)/lasthop reproduce zeng2006 --out $(OUT)

# One worker per processor: while tests wait for other processes, Rust compiles. Live links come
# last, since their packets must not wait for other tests; they wait for timers two thirds of the
# time.
WORKERS = --numprocesses $$(nproc) --dist worksteal
OTHER_TESTS = $(WORKERS) --ignore-glob 'tests/test_live*.py'
LIVE_TESTS = --numprocesses 4 --dist loadgroup tests/test_live*.py
# What the last `make test` has skipped, and why.
SKIPPED := target/skipped-tests.jsonl
test: ## all quick tests, on the build in .venv
	@mkdir -p target && rm -f $(SKIPPED)
	$(MAKE) --jobs 2 test-rust-beside test-python
	@PYTHONPATH=tools $(BIN)/python tests/skipped_tests.py $(SKIPPED)

test-python: build
	$(PYTEST) -m 'not long and not more' --record-skipped=$(SKIPPED) $(OTHER_TESTS)
	$(PYTEST) -m 'not long and not more' --record-skipped=$(SKIPPED) $(LIVE_TESTS)

# Compiled and run in the time that the tests in Python leave.
test-rust-beside: build
	@nice -n 19 $(MAKE) test-rust >target/test-rust.log 2>&1 || { cat target/test-rust.log; exit 1; }
	@grep -h '^test result' target/test-rust.log | awk '{ passed += $$4; ignored += $$8 } \
		END { print "Rust: " passed " passed, " ignored " ignored" }'

test-skipped: ## the tests that `make test` skipped for missing programs, now installed
	@test -e $(SKIPPED) || { echo "make test-skipped: run make test first" >&2; exit 2; }
	$(PYTEST) --only-recorded=$(SKIPPED) $(OTHER_TESTS)
	$(PYTEST) --only-recorded=$(SKIPPED) $(LIVE_TESTS)

test-rest: build ## the tests that show on a larger scale what `make test` shows, but not those that take minutes
	LASTHOP_LONG_TESTS=1 $(CARGO) test --workspace --quiet --test relays
	PROPTEST_CASES=2000 $(CARGO) test --workspace --quiet --test sim completion::
	$(CARGO) test --workspace --quiet
	$(PYTEST) -m 'more and not long' $(WORKERS)

# The module as the test programs are compiled, with the same checks. It replaces that in .venv.
test-module: BUILD := dev
test-module: $(BIN)/lasthop ## the module with checks of overflow and invariants, into .venv (slower)
	$(DEVELOP) --skip-install --quiet

# Examples, and those in the documentation, are compiled by `make test-rest`: half a minute.
test-rust:
	$(CARGO) test --workspace --profile local --quiet --tests

test-live: build ## tests of live links, which need root; part of `make test`
	$(PYTEST) tests/test_live*.py -rs

test-stacks: ## quinn and smoltcp over simulated links (examples/foreign-stacks)
	cargo test --manifest-path examples/foreign-stacks/Cargo.toml --locked --quiet

# Those that are left out need programs: tests/test_rust_programs.py runs them.
test-long: export LASTHOP_TEST_PROFILE := long-tests
test-long: build $(VENV)/.docs ## the tests that take minutes too
	@rm -f $(SKIPPED)
	LASTHOP_LONG_TESTS=1 cargo test --workspace --profile long-tests --quiet -- --include-ignored \
		--skip wireshark_reads --skip of_a_real_stack --skip packetdrill_scripts
	$(PYTEST) --record-skipped=$(SKIPPED) $(OTHER_TESTS)
	$(PYTEST) --record-skipped=$(SKIPPED) tests/test_live*.py
	@PYTHONPATH=tools $(BIN)/python tests/skipped_tests.py $(SKIPPED)

lint: build ## formatting, lints, docs of the crates, types, licences, sources and use of dependencies
	$(FORMAT) --check {} +
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	$(BIN)/ruff format --check python fidelity tests tools bench
	$(BIN)/ruff check python fidelity tests tools bench
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest lasthop._native
	@cargo deny --version >/dev/null 2>&1 || { echo "make lint: cargo-deny is missing; install it with: cargo install --locked cargo-deny" >&2; exit 2; }
	cargo deny --workspace check bans licenses sources
	@cargo machete --version >/dev/null 2>&1 || { echo "make lint: cargo-machete is missing; install it with: cargo install --locked cargo-machete" >&2; exit 2; }
	cargo machete --skip-target-dir

format: build ## format all sources
	$(FORMAT) {} +
	$(BIN)/ruff format python fidelity tests tools bench
	$(BIN)/ruff check --fix python fidelity tests tools bench

fuzz: ## run each fuzz target for SECONDS=60 (needs nightly Rust and cargo-fuzz)
	tools/fuzz.sh $(SECONDS)

bench: build-release ## CPU time per packet beside ns-2 (program ns) and htsim (HTSIM=its folder sim), for docs/speed.md
	$(BIN)/python bench/speed.py $(addprefix --htsim ,$(HTSIM))

growth: build-release ## the table of how the cost of a packet grows (needs valgrind)
	$(BIN)/python bench/growth.py

instructions: build-release ## instructions per packet against their baselines, ± 2 %; WRITE=--write records new ones (needs valgrind)
	$(BIN)/python bench/instructions.py $(WRITE)

same-bytes: build ## run --json prints the same bytes from all builds: optimised, dev, and PGO if build-pgo recorded a profile
	mkdir -p target/same-bytes
	cp target/local/liblasthop_native.so target/same-bytes/local.so
	PYO3_PYTHON="$(CURDIR)/$(BIN)/python" cargo build --package lasthop-native --quiet
	cp target/debug/liblasthop_native.so target/same-bytes/dev.so
	rm -f target/same-bytes/pgo.so
	if test -e $(PGO_PROFILE); then \
		PYO3_PYTHON="$(CURDIR)/$(BIN)/python" $(PGO) cargo build --release --package lasthop-native --quiet --target-dir target/pgo/used && \
		cp target/pgo/used/release/liblasthop_native.so target/same-bytes/pgo.so; fi
	$(BIN)/python tools/same_bytes.py target/same-bytes/*.so

wheel: $(BIN)/lasthop ## a wheel for pip, into dist/
	$(BIN)/python tools/shell_files.py
	$(WHEEL)

wheel-pgo: $(BIN)/lasthop ## the same with profile-guided optimisation, as releases are built (needs llvm-tools)
	$(BIN)/python tools/pgo_profile.py
	$(BIN)/python tools/shell_files.py
	$(PGO) $(WHEEL)

reproduce: build ## all figures of the papers, into out/
	$(BIN)/lasthop reproduce --out $(OUT)

fidelity: build ## compare with the reference results of ns-2 and ns-3 and write docs/fidelity*.md
	$(BIN)/python -m fidelity

validation: build ## carry the real transfers that are missing (root), simulate all, and write docs/validation-cells.md; SIMULATE=--simulate-only carries none
	$(BIN)/python -m fidelity.linux $(SIMULATE)

expected: build ## redo all figures and record their verdicts (look at the difference before you commit it)
	$(BIN)/python -m fidelity.expected $(OUT)

docs: build ## the pages of docs/schemes, the tables of docs/scenario.md and docs/evaluation.md, the reference of the crates in target/doc
	$(BIN)/python tools/scheme_pages.py
	$(BIN)/python tools/profile_table.py
	$(BIN)/python tools/evaluation_tables.py
	cargo doc --workspace --no-deps --quiet

evaluation-cards: build ## docs/evaluation-cards.md, the cards of all schemes: an hour of CPU time; QUICK=--quick ten minutes; QUICK="--quick --missing" only new schemes
	$(BIN)/python tools/evaluation_tables.py --cards $(QUICK)

docs-site: build $(VENV)/.docs ## the docs site, into target/docs-site/html
	cargo doc --workspace --no-deps --quiet
	$(BIN)/python tools/docs_site.py target/docs-site --rust target/doc

clean: ## remove what was built
	rm -rf $(VENV) target dist $(OUT)
