# One word a command; a bare `make` lists them. Each makes what it needs first: .venv, pinned packages, peers.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
KEEP ?=
ARGS ?=

.PHONY: help demo test check bench format generate lock peers clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: .venv/demo.stamp ## watch nodes move and be followed, embedded, in under a minute (KEEP=1 leaves it running)
	@$(BIN)/python -m services.demo $(if $(KEEP),--keep) $(ARGS)

test: .venv/dev.stamp peers ## all tests, against real servers (ARGS="-k name" for some)
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: .venv/dev.stamp ## format, lint, types, layers, generated files: what CI runs besides the tests
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m libs.machine.crd --check
	@$(BIN)/python -m libs.talos.generate --check
	@$(BIN)/mypy

bench: .venv/dev.stamp peers ## measure the design's numbers as ratios within one run
	@$(BIN)/python -m tests.bench $(ARGS)

format: .venv/dev.stamp ## format and mend what can be mended by itself
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

generate: .venv/dev.stamp ## write the CRD and the protobuf modules anew
	@$(BIN)/python -m libs.machine.crd
	@$(BIN)/python -m libs.talos.generate

peers: .venv/dev.stamp ## build kube-apiserver, etcd, kubectl and talosctl for the tests, once
	@$(BIN)/python -m tests.peers

lock: .venv/dev.stamp ## resolve pyproject.toml into the two lock files
	@$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --group embedded \
		-o deploy/requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --group dev \
		-o tests/requirements.lock pyproject.toml

clean: ## remove the virtual environment and what was made here (built peers stay in the cache)
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit("nodetrail needs Python 3.11 or newer, and $(PYTHON) is "+sys.version.split()[0]+": make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@echo "making .venv"
	@$(PYTHON) -m venv .venv

.venv/demo.stamp: deploy/requirements.lock | .venv/bin/pip
	@echo "installing pinned packages into .venv"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/requirements.lock
	@touch $@

.venv/dev.stamp: tests/requirements.lock | .venv/bin/pip
	@echo "installing pinned packages for development into .venv"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	@touch $@ .venv/demo.stamp
