# The front door. `make help` lists what there is.
#
# A thin front of Meson and Ninja: each target first installs the Debian packages that it needs and
# that are missing (tools/deps says which and why), then makes a build folder ready (tools/configure),
# then does its job. Whoever prefers Meson can call it directly: `meson setup build`.

# Another compiler for the release build: `make CC=clang`. Other targets choose their own.
ifneq ($(filter command line environment,$(origin CC)),)
export AWARE_CC := $(CC)
endif

prefix  ?= /usr/local
DESTDIR ?=
ARGS    ?=

AWARE := build/aware

.DEFAULT_GOAL := all
.PHONY: learn all run check test test-all test-rest e2e e2e-compare e2e-scale asan tsan tidy format fuzz bench results-stale docs install deb image clean help

all: ## build the program, build/aware, and what measures it, build/aware-bench
	@tools/deps build
	@tools/configure release
	@ninja -C build products

run: all ## the demo: learn to autoscale five workloads, about a minute; ARGS="..." runs anything
ifeq ($(strip $(ARGS)),)
	$(AWARE) run
else
	$(AWARE) $(ARGS)
endif

check: ## while you work, 2 minutes: the rooms you changed, who depends on them, the house rules
	@tools/deps test
	@tools/run-tests check

test: ## what must pass: all but the longest tests, 10 minutes with the build
	@tools/deps test
	@tools/run-tests release

test-all: ## everything: also the longest tests, real time, and both sanitizers, half an hour
	@tools/deps test
	@tools/run-tests

test-rest: ## what test-all has beyond test; the last line counts both
	@tools/deps test
	@tools/run-tests rest

e2e: ## on a real Kubernetes of one node, on loopback: needs root; the first time builds it, 15 minutes
	@tests/e2e/run $(ARGS)

e2e-scale: ## 5 000 objects and 50 000 pods on a real API server: 20 minutes; ARGS="--objects 200": 8
	@tools/deps build e2e
	@tools/configure release
	@ninja -C build aware
	@tests/e2e/cluster/build
	@tests/e2e/scale build $(ARGS)

e2e-compare: ## Kubernetes' HPA and aware on the same real pods: 20 minutes; ARGS=--quick: 5
	@tests/e2e/run --compare $(ARGS)

asan: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer (clang)
	@tools/deps test
	@tools/run-tests asan

tsan: ## the tests that have threads under ThreadSanitizer (gcc)
	@tools/deps test
	@tools/run-tests tsan

tidy: ## static analysis with clang-tidy, cppcheck and shellcheck; any finding fails
	@tools/deps tidy
	@tools/configure tidy
	@tools/tidy

format: ## lay out every C file according to .clang-format
	@tools/deps tidy
	@find . -path './build*' -prune -o -name '*.[ch]' -exec clang-format -i {} +

fuzz: ## feed every parser random input, FUZZ_SECONDS=60 each
	@tools/deps fuzz
	@tools/configure fuzz
	@ninja -C build-fuzz
	@tools/fuzz

bench: all ## measure: neural core against PyTorch, learners, environments, control; a missed goal fails
	@tools/deps bench
	build/aware-bench nn --against torch --check
	build/aware-bench rl
	build/aware-bench env
	build/aware-bench control --check

learn: all ## train every learner in full on known problems, 5 seeds each: the tables of docs/results
	@ninja -C build $(addprefix tests/learning/,learn_dpg learn_ppo learn_dqn bcq_offline)
	@for t in learn_dpg learn_ppo learn_dqn bcq_offline; do build/tests/learning/$$t --full || exit 1; done

results-stale: ## list pages of docs/results whose code has changed since they were measured
	@tools/results-stale

docs: all ## write the man page and docs/REFERENCE.md from the program's own tables
	$(AWARE) __reference >build/reference.md
	@mv build/reference.md docs/REFERENCE.md
	@echo "wrote docs/REFERENCE.md; the man page is build/tools/aware.1: man -l build/tools/aware.1"

install: all ## install the program, the library and its headers; prefix=/usr/local DESTDIR=
	@meson configure build -Dprefix=$(abspath $(prefix))
	@ninja -C build build.ninja >build/reconfigure.log || { cat build/reconfigure.log; exit 1; }
	@ninja -C build products
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild --quiet

deb: ## Debian packages of what is committed, in build-deb/, checked by lintian
	@tools/deps build deb
	@tools/deb

image: all ## an OCI image without docker, build/aware.oci: the program, its libraries, no shell
	@tools/deps image
	@tools/image $(AWARE) build/aware.oci

clean: ## delete every build folder; runs/ is yours and stays
	rm -rf build build-asan build-tsan build-fuzz build-tidy build-deb

help: ## list the targets
	@echo "usage: make [TARGET] [VARIABLE=value]"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { name = $$1 == "all" ? "(none)" : $$1; \
	    printf "  %-11s  %s\n", name, $$2 }' Makefile
