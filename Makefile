# The gates of the project. `make test` is what a commit must pass; `.ci/run` runs more rounds of
# it, what ships, and the lints.
CARGO ?= cargo
XTASK = $(CARGO) run --quiet --bin xtask --
# The binary that all commands of `extant` are tested by.
SUITES_OF_CLI = --test program

.PHONY: test test-all test-night test-release test-level test-dist dist demo bench lint tools

# The crates and the tools share one profile and one set of features: everything is built once.
test: LEVEL = test
test: test-level

# All rounds that the gate has; CONTRIBUTING.md says what each variable is.
test-all: LEVEL = all
test-all: test-level

# What takes hours.
test-night: LEVEL = night
test-night: test-level
	$(XTASK) suites --release -p extant-image -p extant-mount

test-level: tools
	$(XTASK) suites --level $(LEVEL)
	$(XTASK) python --level $(LEVEL)
	$(XTASK) tidy
	$(XTASK) licenses

# What ships: the release profile, without assertions; the command also without the mistakes that
# tests plant.
test-release: tools
	$(CARGO) build --release -p extant-cli
	EXTANT_PROGRAM=$(CURDIR)/target/release/extant $(XTASK) suites $(SUITES_OF_CLI)
	$(XTASK) suites --release -p extant-edit
	$(XTASK) crash --release --states 20000
	$(XTASK) crash --release --sequences 40,40

# What others install, in target/dist (docs/INSTALL.md); then each of them in bare roots of three
# releases of Debian and in every Python that is here, compiled once more elsewhere to compare, and
# checked for another processor.
dist:
	$(XTASK) dist

test-dist:
	$(XTASK) dist --everywhere
	$(XTASK) dist --twice
	$(XTASK) dist --check-target aarch64-unknown-linux-gnu

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
