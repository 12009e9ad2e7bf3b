# The gates of the project. `make test` is what a commit must pass; `.ci/run` runs more rounds of it
# and the lints.
CARGO ?= cargo

.PHONY: test test-all demo bench lint tools

# The crates and the tools share one profile and one set of features: everything is built once.
test: tools
	$(CARGO) run --quiet --bin xtask -- suites
	$(CARGO) run --quiet --bin xtask -- tidy
	$(CARGO) run --quiet --bin xtask -- licenses

# All that the suites have; CONTRIBUTING.md says what each variable is.
test-all: export EXTANT_FEATURES = all
test-all: export EXTANT_CUTS = 3000
test-all: export EXTANT_MODEL_SEEDS = 4
test-all: export EXTANT_THREAD_ROUNDS = 3
test-all: export EXTANT_HOSTILE_ROUNDS = 200
test-all: export EXTANT_FAST_COMMIT_SEEDS = 30
test-all: export EXTANT_CLAIMS_ROUNDS = 60
test-all: export EXTANT_MOUNT_CALLS = 25000
test-all: export EXTANT_EDIT_CUTS = all
test-all: export EXTANT_CRASH_STATES = 20000
test-all: export EXTANT_CRASH_SEQUENCES = 100
test-all: export EXTANT_CRASH_SCHEDULES = 1000
test-all: export EXTANT_KERNEL_JOURNALS = 100
test-all: export EXTANT_JOURNAL_LIVES = 60
test-all: export EXTANT_BOOT = 1
test-all: test

# What the tests call from the host: installed by apt when root, else named. With CI=true a missing
# tool is an error.
tools:
	$(CARGO) run --bin xtask -- tools

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
