# Needs Rust (cargo) and Python 3.11 or later with venv. Everything else is fetched into .venv and target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
# Time that `make fuzz` gives each target.
SECONDS ?= 60

# The PGO profile of typical runs, if this version of rustc recorded it (`make profile`): it saves a tenth of the CPU time.
PROFILE := $(CURDIR)/profile
PROFILED := $(filter $(shell rustc --version | tr ' ' _),$(shell tr ' ' _ < "$(PROFILE)/rustc" 2>/dev/null))
# Hot and cold code are split; otherwise the SACK path overflows the L1 instruction cache.
LAYOUT := -Cllvm-args=-enable-ext-tsp-block-placement -Cllvm-args=-split-machine-functions
# Flags cannot have spaces: without the profile in a folder that has.
OPTIMISED := $(if $(word 2,$(CURDIR)),,$(if $(PROFILED),RUSTFLAGS="$(RUSTFLAGS) \
	-Cprofile-use=$(PROFILE)/lasthop.profdata -Cllvm-args=-no-pgo-warn-mismatch $(LAYOUT)"))

.DEFAULT_GOAL := help
.PHONY: help build demo test test-long lint format fuzz bench wheel profile reproduce fidelity expected docs clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.16,<2'
	$(OPTIMISED) VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release --extras dev
	touch $@

build: $(VENV)/.ready ## build lasthop into .venv (optimised)
	$(OPTIMISED) VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release --skip-install --quiet

demo: build ## a comparison over a shipped trace and all figures of a paper, into out/
	$(BIN)/lasthop compare --down synthetic-lte.down --up synthetic-lte.up --rtt 40ms --loss 1% --schemes reno,newreno,tahoe,snoop,packet-control,i-tcp --out $(OUT)/demo
	$(BIN)/lasthop reproduce zeng2006 --out $(OUT)

test: build ## all quick tests, Rust and Python
	cargo test --workspace --quiet
	$(BIN)/python -m pytest -m 'not long'

test-long: build ## the tests that take minutes too
	cargo test --workspace --release --quiet -- --include-ignored
	$(BIN)/python -m pytest

lint: build ## formatting, lints and types
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check python tests tools bench
	$(BIN)/ruff check python tests tools bench
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest lasthop._native

format: build ## format all sources
	cargo fmt --all
	$(BIN)/ruff format python tests tools bench
	$(BIN)/ruff check --fix python tests tools bench

fuzz: ## run each fuzz target for SECONDS=60 (needs nightly Rust and cargo-fuzz)
	tools/fuzz.sh $(SECONDS)

bench: build ## CPU time per packet, side by side with ns-2 (program ns)
	$(BIN)/python bench/speed.py

wheel: $(VENV)/.ready ## a wheel for pip, into dist/
	$(OPTIMISED) $(BIN)/maturin build --release --out dist

profile: $(VENV)/.ready ## record a new PGO profile, after changes to hot code (needs llvm-tools)
	$(BIN)/python tools/compiler_profile.py

reproduce: build ## all figures of the papers, into out/
	$(BIN)/lasthop reproduce --out $(OUT)

fidelity: build ## compare with the reference results of ns-2 and ns-3 and write docs/fidelity*.md
	$(BIN)/python tools/fidelity.py

expected: build ## redo all figures and record their verdicts (look at the difference before you commit it)
	$(BIN)/python -m lasthop.figures $(OUT)

docs: build ## the pages of docs/schemes, docs/scheme-figures.md, the profiles' table of docs/scenario.md, the reference of the crates in target/doc
	$(BIN)/python tools/scheme_pages.py
	$(BIN)/python tools/scheme_figures.py
	$(BIN)/python tools/profile_table.py
	cargo doc --workspace --no-deps --quiet

clean: ## remove what was built
	rm -rf $(VENV) target dist $(OUT)
