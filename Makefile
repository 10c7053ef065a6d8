# Every target makes .venv itself and installs into it only when pyproject.toml changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FEW := $(VENV)/.installed-for-the-demo
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo node agents test test-deep test-frameworks check lint format types size bench gates clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("agentmem needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once, a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# What the demo needs is a fifth of what the tests need; what they installed serves it too.
$(FEW): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("agentmem needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test $(STAMP) -nt pyproject.toml || { echo "installing into $(VENV) (once, a minute)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[web,server]'; }
	@touch $@

demo: $(FEW) ## show the main job on your machine: no key, no server
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## run all tests (a few minutes)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

test-deep: $(STAMP) ## ten times the examples, and the long tests
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --deep

node: ## Node 22 and the suites of the Model Context Protocol, into .node (for tests/unit/test_mcp.py)
	@mkdir -p .node
	@npm install --prefix .node --no-audit --no-fund node@22 @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@0.15.0

agents: ## Claude Code and Codex, into .node (for the hooks in tests/unit/test_hook.py)
	@mkdir -p .node
	@npm install --prefix .node --no-audit --no-fund @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0

test-frameworks: $(STAMP) ## every framework's adapter with the real package, each in its own environment
	@$(BIN)/nox $(if $(FRAMEWORK),-s $(FRAMEWORK))

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@PYTHONPATH=. $(BIN)/lint-imports --no-cache --no-logo >.lint-imports.log || { cat .lint-imports.log; exit 1; }

types: $(STAMP)
	@$(BIN)/mypy

check: lint types test ## what CI runs: format, lint, types, tests

format: $(STAMP) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

size: ## files, lines of code, classes, the largest folder
	@$(PYTHON) benchmarks/size.py

bench: $(STAMP) ## measure, with ratios against a baseline (DATA=folder adds the public data sets)
	@set -e; for name in tokens text indexes scale overhead working prediction extraction inspector; do \
		echo "== $$name"; $(BIN)/python benchmarks/$$name.py; done
	@test -z "$(DATA)" || { set -e; for folder in $(DATA)/retrieval/*; do \
		$(BIN)/python benchmarks/retrieval.py --data $$folder; done; \
		$(BIN)/python benchmarks/preferences.py --data $(DATA)/prefs/dev.jsonl; \
		$(BIN)/python benchmarks/injection.py --data $(DATA)/injection/dev.jsonl; \
		$(BIN)/python benchmarks/contradictions.py --data $(DATA)/contradictions; \
		$(BIN)/python benchmarks/merging.py --data $(DATA)/contradictions; \
		$(BIN)/python benchmarks/extractive.py --data $(DATA)/retrieval; }

gates: $(STAMP) ## fail when recall, silence or the profile gets worse (DATA=folder adds the public sets)
	@$(BIN)/python benchmarks/gates.py $(if $(DATA),--data $(DATA))

clean: ## remove the environment and every cache
	@rm -rf $(VENV) .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist .bench
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
