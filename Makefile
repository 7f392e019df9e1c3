# A thin front: every target is one command that can be run by itself.
UV := scripts/uv
RUN := $(UV) run --frozen
TEST := $(RUN) --all-extras python -m scripts.test

.DEFAULT_GOAL := help
.PHONY: help demo test acceptance lint unit build clean-cluster

help: ## What can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: ## From a bare machine to graded incidents: builds, cluster, two problems, two agents, a table
	$(RUN) main.py demo

test: ## All checks: lint, types, imports, Go, unit, flow, crash, contract, and live on a cluster
	$(TEST)

acceptance: ## The whole live matrix: every problem, every agent, every kill point (several hours on two cores)
	$(TEST) --acceptance

lint: ## ruff, mypy --strict, import contracts
	$(TEST) --only lint

unit: ## Everything that needs no cluster
	$(TEST) --only fast

build: ## Builds every tool and image ahead of time
	$(RUN) main.py cluster build

clean-cluster: ## Removes the cluster (images and caches stay)
	$(RUN) main.py cluster down
