# The two commands are `make table2` and `make test`; both make their environment first. `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin

# Make splits names at spaces, so the targets below could not name files in such a folder.
ifneq ($(words $(CURDIR) $(VENV)),2)
$(error This folder, or VENV, has a space in its path, which make cannot handle: "$(CURDIR)", "$(VENV)")
endif

CORES ?= all
PYTEST_ARGS ?=
WORKERS ?= auto
TESTS ?= tests/workflow tests/rules tests/fuzz tests/unit
SIZE ?= small
OUT ?=
# Any Python from 3.11.4 to 3.12 that really starts (a version manager's shim may exist without one behind it).
PYTHON ?= $(shell for p in python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11, 4) <= sys.version_info < (3, 13))' 2>/dev/null && { echo $$p; break; }; done)

# The locks are complete, so --no-deps: uv then asks no index about dependencies and finds its built wheels again.
# llama-cpp-python is compiled here: leave out its image library and llama.cpp's tools, use every core.
# CMAKE_ARGS from outside (a GPU build, say) come last and win.
export CMAKE_ARGS := -DLLAVA_BUILD=OFF -DCMAKE_PROJECT_llama.cpp_INCLUDE=$(CURDIR)/envs/llama_cpp.cmake $(CMAKE_ARGS)
export CMAKE_BUILD_PARALLEL_LEVEL := $(shell nproc 2>/dev/null || echo 2)
# WHEELS names a folder that `make wheels` filled: packages then come from there alone, without any network.
WHEELS ?=
FROM := $(if $(WHEELS),--no-index --find-links $(abspath $(WHEELS)))
UV := VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install $(if $(WHEELS),--offline) $(FROM) --quiet --no-deps --require-hashes --build-constraints envs/build.lock

SOURCES := src workflow/scripts tests benchmarks minibench
TABLES := all

.PHONY: audit help env dev-env gpu-env slurm-env wheels table2 test lint format rulegraph schema lock codex fuzz kill-test minibench-env minibench bench unlock clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*  ## ' $(MAKEFILE_LIST) | awk -F ':|  ## ' '{printf "  make %-14s %s\n", $$1, $$3}'

$(BIN)/uv: envs/uv.lock
	@test -n "$(PYTHON)" || { echo "No Python 3.11 (from 3.11.4) or 3.12 found on PATH (tried python3.12, python3.11, python3, python)." \
		"Install one, or say PYTHON=/path/to/python."; exit 1; }
	@command -v c++ >/dev/null || { echo "No C++ compiler (c++) found on PATH; llama-cpp-python is compiled from source." \
		"Install one, such as Debian's g++."; exit 1; }
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(FROM) --quiet --disable-pip-version-check --require-hashes -r envs/uv.lock
	@touch $@

$(VENV)/.run: $(BIN)/uv envs/requirements.lock envs/build.lock envs/llama_cpp.cmake
	@echo "Installing pinned packages; compiling llama-cpp-python takes a few minutes the first time"
	@start=$$SECONDS; $(UV) -r envs/requirements.lock && echo "Installed in $$((SECONDS - start)) s"
	@touch $@

$(VENV)/.dev: $(VENV)/.run envs/requirements-dev.lock
	@$(UV) -r envs/requirements-dev.lock
	@touch $@

$(VENV)/.gpu: $(VENV)/.run envs/requirements-gpu.lock
	@$(UV) -r envs/requirements-gpu.lock
	@touch $@

$(VENV)/.slurm: $(VENV)/.run envs/requirements-slurm.lock
	@$(UV) -r envs/requirements-slurm.lock
	@touch $@

wheels: FROM :=
wheels: $(BIN)/uv  ## every package of the environments for runs and tests -> WHEELS (default: wheels/), for machines without network
	@for lock in uv build requirements requirements-dev; do \
		$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
			-d $(or $(WHEELS),wheels) -r envs/$$lock.lock || exit 1; done
	@echo "Elsewhere: make env WHEELS=$(or $(WHEELS),wheels)"

env: $(VENV)/.run  ## the environment for runs
dev-env: $(VENV)/.dev  ## the environment for tests
gpu-env: $(VENV)/.gpu  ## PyTorch for the backends transformers and sentence_transformers (5 GB)
slurm-env: $(VENV)/.slurm  ## what profiles/slurm needs to submit jobs

table2: env  ## the embedded default run -> results/table2.csv
	@$(BIN)/snakemake --cores $(CORES) $(TABLES)
	@PYTHONPATH=src $(BIN)/python -m lmev2 show table2

lint: dev-env  ## formatting, types, workflow lint
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/snakefmt --check Snakefile rules
	@$(BIN)/snakemake --lint

format: dev-env  ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/snakefmt Snakefile rules

# Modules run side by side, the long ones first; what computes with a model on all cores runs after them, one by one.
# Where PYTEST_ARGS select tests, one of the two may have none, which pytest reports as 5.
test: lint  ## lint and the whole test suite
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not live and not alone" \
		$(PYTEST_ARGS) $(TESTS) || [ $$? = 5 -a -n '$(PYTEST_ARGS)' ]
	@$(BIN)/python -m pytest -m "alone and not live" $(PYTEST_ARGS) $(TESTS) || [ $$? = 5 -a -n '$(PYTEST_ARGS)' ]

MINUTES ?= 60
fuzz: dev-env  ## fuzz what reads outside input for MINUTES minutes (docs/reliability.md); findings -> .tools/fuzz
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv-fuzz
	@VIRTUAL_ENV=$(CURDIR)/.venv-fuzz $(BIN)/uv pip install --quiet --no-deps --require-hashes -r envs/requirements-fuzz.lock
	@$(BIN)/python tests/fuzz/fuzz_campaign.py --minutes $(MINUTES) --atheris .venv-fuzz/bin/python

kill-test: dev-env  ## kill a run at 20 points and compare with an undisturbed one (docs/reliability.md)
	@KILL_POINTS=20 $(BIN)/python -m pytest tests/workflow/test_kills.py

rulegraph: dev-env  ## draw docs/rulegraph.svg from the workflow (needs graphviz's dot)
	@$(BIN)/snakemake --rulegraph dot --quiet all 2>/dev/null > docs/rulegraph.dot
	@dot -Tsvg docs/rulegraph.dot -o docs/rulegraph.svg

schema: dev-env  ## write workflow/schemas/config.schema.json from the configuration models
	@PYTHONPATH=src $(BIN)/python -m lmev2 schema > workflow/schemas/config.schema.json

lock: dev-env  ## pin everything anew from pyproject.toml (writes envs/*.lock and envs/lmev2.yaml)
	@$(BIN)/python envs/lock.py

codex:  ## the Codex CLI for agent `codex` -> .tools/codex (needs npm; 180 MB)
	@command -v npm >/dev/null || { echo "No npm found on PATH. Install it (Debian: apt-get install npm), or install" \
		"Codex in another way and name the program in models.agent.program."; exit 1; }
	@mkdir -p .tools/codex && cp envs/codex/package.json envs/codex/package-lock.json .tools/codex
	@npm ci --prefix .tools/codex --ignore-scripts --no-audit --no-fund
	@.tools/codex/node_modules/.bin/codex --version

LOCKS := uv build requirements requirements-dev requirements-gpu requirements-slurm requirements-fuzz requirements-audit
audit: dev-env  ## known vulnerabilities of every pinned package (needs the network)
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv-audit
	@VIRTUAL_ENV=$(CURDIR)/.venv-audit $(BIN)/uv pip install --quiet --no-deps --require-hashes -r envs/requirements-audit.lock
	@.venv-audit/bin/pip-audit --strict --disable-pip $(LOCKS:%=-r envs/%.lock)

minibench-env: $(BIN)/uv  ## the environment that records the shipped data root
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv-minibench
	@VIRTUAL_ENV=$(CURDIR)/.venv-minibench $(BIN)/uv pip install --quiet --require-hashes -r minibench/requirements.lock

minibench: minibench-env  ## record resources/minibench again (needs Chromium)
	@.venv-minibench/bin/python -m minibench.record
	@.venv-minibench/bin/python -m minibench.build

bench: dev-env  ## costs of every stage on made-up data -> OUT (SIZE: small, medium, full; docs/performance.md)
	@test -n "$(OUT)" || { echo "Say where data and results go: make bench SIZE=full OUT=/path/to/folder"; exit 1; }
	@PYTHONPATH=src $(BIN)/python -m benchmarks.run $(OUT) --sizes $(SIZE)
	@PYTHONPATH=src $(BIN)/python -m benchmarks.tables $(OUT)

unlock:  ## after a run was killed: remove the lock it left on this folder
	@$(BIN)/snakemake --unlock --cores 1

clean:  ## remove results; the call cache and the environment stay
	@find results -mindepth 1 ! -path results/README.md -delete
	@rm -rf .snakemake
