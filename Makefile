# The gates of the project. `make test` is what a commit must pass; `.ci/run` adds the lints.
CARGO ?= cargo

.PHONY: test demo bench lint tools

# The crates and the tools share one profile and one set of features: everything is built once.
test: tools
	$(CARGO) test --workspace --no-fail-fast
	$(CARGO) run --quiet --bin xtask -- tidy
	$(CARGO) run --quiet --bin xtask -- licenses

# What the tests call from the host: installed by apt when root, else named. With CI=true a missing
# tool is an error.
tools:
	$(CARGO) build --workspace --all-targets
	$(CARGO) run --quiet --bin xtask -- tools

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# A real tree of this machine becomes an ext4 image, and comes out again; then the posts run in the
# laboratory.
demo:
	@echo "demo: builds extant without link-time optimisation, one to two minutes on two cores"
	$(CARGO) build --profile demo --workspace --bins
	$(CARGO) run --profile demo --quiet --bin xtask -- demo

bench:
	bench/run
