# Gantry's commands for people. `make help` lists them.

DATA_DIR ?= /var/lib/gantry
RELEASE  := $(or $(CARGO_TARGET_DIR),target)/release
GANTRY   := $(RELEASE)/gantry

.PHONY: help up down status build test verify fix bench packages

help: ## lists these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: packages build ## starts a one-machine cluster with the demo on it; it stays up
	@$(GANTRY) image build-testbed --data-dir $(DATA_DIR) --binary $(RELEASE)/testbed-static
	@$(GANTRY) up --detach --data-dir $(DATA_DIR)
	@$(GANTRY) demo conformance/demo --data-dir $(DATA_DIR)

down: ## stops the cluster and leaves nothing behind, its data included (KEEP=1 keeps the data)
	@$(GANTRY) down $(if $(KEEP),,--purge) --data-dir $(DATA_DIR)

status: ## what the cluster runs
	@$(GANTRY) status --data-dir $(DATA_DIR)

build: ## builds the release binary and the testbed program
	@scripts/build.sh

test: packages ## runs every check and every test, the end-to-end suite included
	@scripts/test.sh

verify: ## only the static checks: formatting, house rules, licences, clippy
	@cargo xtask verify

fix: ## formats the tree
	@cargo xtask fix

bench: packages build ## measures, and rewrites docs/benchmarks.md
	@cargo xtask bench first-light

packages: ## installs the Debian packages that Gantry needs, and says why
	@scripts/packages.sh
