# Every target works on a fresh Debian machine that has cargo and make; nothing asks a question.

CARGO ?= cargo

.PHONY: help build demo test test-long fuzz sim mutants bench

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

build: ## the binary, target/release/recado
	@scripts/setup.sh build
	$(CARGO) build --release -p recado-cli

demo: build ## build, then see the queue at work (under 20 s)
	$${CARGO_TARGET_DIR:-target}/release/recado demo

test: ## formatting, lints, purity of the core, all tests
	@scripts/test.sh

test-long: ## the same with the long suites
	@RECADO_LONG=1 scripts/test.sh

fuzz: ## fuzz with libFuzzer, FUZZ_SECONDS (300) a target; needs a nightly toolchain
	@scripts/fuzz.sh

SECONDS ?= 60
sim: ## simulate fresh seeds for SECONDS=60, or SEED=x again
	@$(CARGO) run --quiet -p recado-sim -- $(if $(SEED),--seed $(SEED),--seconds $(SECONDS))

mutants: ## how many seeds each deliberate mistake lives through (half an hour)
	@$(CARGO) run --quiet -p recado-sim --features mutants -- --mutants

bench: ## measure, next to the machine's own limits
	@scripts/setup.sh build
	$(CARGO) run --release -p recado-bench
