# Needs only Python 3.11 or newer and make. `make help` lists the targets.

CONFIG ?= configs/demo.yaml
ARGS ?=
# The seed of an order of the tests; a new one, if it is empty.
ORDER ?=
# The package whose tests run; all, if it is empty.
ROOM ?=
EXTRAS ?= demo
# One more than two cores, as some tests wait for other processes; each takes up to 4 GiB.
WORKERS ?= 3
# The first Python that is new enough and can make environments; override with PYTHON=...
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
# A linked environment, as in a git worktree, belongs to another folder: it is used as it is.
PINS := $(if $(shell test -L $(VENV) && echo linked),,pyproject.toml constraints.txt)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)$(if $(ORDER), --order $(ORDER))
ROOM_TESTS = $(if $(ROOM),tests/$(patsubst mllm_jax/%,%,$(patsubst tests/%,%,$(ROOM:/=))))
# Each stamp stands for installed extras; newer pins install them anew.
CREATED := $(VENV)/.created
DEMO := $(VENV)/.installed-demo
TEST := $(VENV)/.installed-test
LINT := $(VENV)/.installed-lint
COMPILERS := $(VENV)/.installed-compilers
SITE := $(VENV)/.installed-docs
# An install into a linked environment would change that of the folder which it belongs to.
# --no-compile: bytecode is made for the modules that are imported, not for all that are installed.
INSTALL := test ! -L $(VENV) || { echo "error: $(VENV) is a link, through which nothing is installed; valid: this target first in the folder that it leads to, or no link"; exit 1; }; $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	--only-binary :all: --constraint constraints.txt --editable
# make's jobs would install into one environment at the same time.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help install train test test-all golden test-slurm test-browser lint docs bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo
	@echo "  PYTHON=python3.12       the Python of a new .venv"
	@echo "  CONFIG=configs/my.yaml  the experiment of train, bench data and bench sharding"
	@echo "  WORKERS=4               the processes that run tests (0: none beside pytest)"
	@echo "  ORDER=1234              the order of the tests of an earlier run, which shows this number"
	@echo "  ROOM=data/planning      the package of which test runs the tests"
	@echo "  ARGS='train.steps=10'   more arguments for those (overrides) and for test (pytest)"

train: $(DEMO) ## Train the demo and evaluate it: text, images and speech on 4 emulated devices
	$(BIN)/python launch.py train --config $(CONFIG) $(ARGS)

test: $(TEST) ## Run the tests that take minutes, in a random order
	@test -z "$(ROOM)" || test -d "$(ROOM_TESTS)" || \
		{ echo "error: ROOM=$(ROOM): no folder $(ROOM_TESTS); valid: a folder of tests/, such as data/planning"; exit 1; }
	$(PYTEST) -m "not slow and not gpu and not slurm" $(ROOM_TESTS) $(ARGS)

test-all: $(TEST) ## Run every test, the slow ones too
	$(PYTEST) $(ARGS)

golden: $(TEST) ## Compare losses, programs, files and plans with those of the commit in tests/golden
	$(BIN)/python -m tests.golden $(ARGS)

test-slurm: $(TEST) ## Install Debian's Slurm, as root, and train on two nodes of it
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null || \
		{ echo "error: test-slurm installs Debian's slurm-wlm and munge, for which it must be root on Debian"; exit 1; }
	dpkg --status slurm-wlm munge >/dev/null || \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes slurm-wlm munge; }
	$(BIN)/python -m pytest -n 0 -m slurm tests/slurm $(ARGS)

test-browser: $(TEST) ## Install Debian's chromium, as root, and open pages in it
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null || \
		{ echo "error: test-browser installs Debian's chromium, for which it must be root on Debian"; exit 1; }
	dpkg --status chromium >/dev/null || \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes chromium; }
	$(BIN)/python -m pytest -n 0 -m browser tests/pages $(ARGS)

install: $(CREATED) ## Install only: EXTRAS=cuda13 (NVIDIA), tpu, demo, test, ...
	$(INSTALL) ".[$(EXTRAS)]"

lint: $(LINT) ## Check style, formatting, types and which package imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
# By two processes in half the time; on a busy machine they may not find each other.
	$(BIN)/mypy --num-workers 2 || $(BIN)/mypy
	$(BIN)/lint-imports

docs: $(SITE) ## Build the documentation site into site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/site/mkdocs.yml

bench: $(COMPILERS) ## Measure the data pipeline, the train step and the pipeline of stages
	$(BIN)/python launch.py bench data --config $(CONFIG) $(ARGS)
	$(BIN)/python launch.py bench sharding --config $(CONFIG) $(ARGS)
	$(BIN)/python launch.py bench step
	$(BIN)/python launch.py bench pipeline
	$(BIN)/python launch.py bench microbatches
	$(BIN)/python launch.py bench co_issue
	$(BIN)/python launch.py bench overlap
	$(BIN)/python launch.py bench cost
	$(BIN)/python launch.py bench balance
	$(BIN)/python launch.py bench loader

clean: ## Remove .venv and every cache; runs/ stays
	rm -rf $(VENV) .cache build site *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11 or does not run; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(DEMO): $(CREATED) $(PINS)
	$(INSTALL) ".[demo]"
	@touch $@

# The compiler for TPUs (extra compile) needs no TPU.
$(TEST): $(CREATED) $(PINS)
	$(INSTALL) ".[demo,test,compile]"
	@touch $@

# Compilers for TPUs and for NVIDIA GPUs, which need neither.
$(COMPILERS): $(CREATED) $(PINS)
	$(INSTALL) ".[demo,compile,cuda13]"
	@touch $@

$(SITE): $(CREATED) $(PINS)
	$(INSTALL) ".[docs]"
	@touch $@

$(LINT): $(CREATED) $(PINS)
	$(INSTALL) ".[demo,test,lint]"
	@touch $@
