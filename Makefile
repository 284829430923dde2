# `make` lists what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run test check faults bench selftest screenshots lock proto clean

bin := .venv/bin
code := src tests bench
# Tests that need no server, no socket and no Spark.
pure := $(wildcard tests/model tests/wire tests/rules tests/indicators tests/client tests/house)

help: ## list these targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

run: ## set up what is missing, start all of Artery and say where to look (Ctrl-C stops it)
	@scripts/setup run
	@exec $(bin)/artery up

test: ## set up what is missing and run every check and every test
	@scripts/setup test
	@$(MAKE) --no-print-directory style
	cd web && npm test
	@scripts/lanes

check: ## format, lint, types, import rules and the pure tests, in less than a minute
	@scripts/setup test
	@$(MAKE) --no-print-directory style
	@scripts/pytest $(pure)

.PHONY: style
style:
	$(bin)/ruff format --check $(code)
	$(bin)/ruff check $(code)
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

faults: ## kill, freeze, cut and fill everything for about 40 minutes, with new seeds (SEED=7 for one), and print a table
	@scripts/setup test
	@scripts/faults

bench: ## measure (ONLY=start,live for some) and write bench/out/latest.json
	@scripts/setup bench
	@$(bin)/python -m bench $(if $(ONLY),--only $(ONLY))

selftest: ## boot the whole in a temporary folder and walk every journey; the last line is JSON
	@scripts/setup run
	@$(bin)/artery selftest --json

screenshots: ## take the README's pictures from the page in a real browser
	@scripts/setup test
	@$(bin)/python scripts/screenshots

lock: ## resolve every dependency anew, with hashes
	@scripts/lock

proto: ## make the Python code of wire/artery.proto anew
	@scripts/generate-proto

clean: ## remove what was built and cached here; your data stays
	rm -rf .venv .cache web/node_modules web/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
