# Two commands do nearly everything: `make demo` and `make test`. Both set up what they need.
.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
export PYTHON
# Each worker has brokers and a Spark of its own; more than two with Spark keep two cores too busy for Spark's time
# limits. The last one begins with the operator's tests, which mostly wait (tests/support/side_by_side.py).
# Long files come first, in the order of the command line: the many short unit tests fill the gaps at the end. The
# simulations are a minute each, so they come before those.
WORKERS ?= 2
SIDE_BY_SIDE := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
TESTED = $(WITH_READER) .ci/test $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(or $(TESTS),tests/integration tests/unit/planning tests/unit)

# Only for what runs: an environment is built with the extension all the same.
ifneq ($(filter-out python,$(READER)),)
$(error READER is python, or not given)
endif
WITH_READER := $(if $(READER),DYNAMIC_KAFKA_NATIVE=no)

DEMO_ARGS := $(if $(STRATEGY),--strategy $(STRATEGY)) $(if $(SEED),--seed $(SEED)) $(if $(DURATION),--duration $(DURATION)) $(if $(KEEP),--keep) $(ARGS)
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

.PHONY: help setup setup-spark42 setup-kube setup-all kube-programs cluster-up cluster-down docs crds rights dashboard messages test lint format unit integration demo \
	e2e e2e-clean brokers produce bench dist images chart lock clean
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv from the lock, with Spark's class archive; fetch broker jars into the user's cache
	@.ci/venv .venv requirements/dev.lock
	@$(BIN)/python -m tests.support.kafka.warm_up
	@$(BIN)/python -m tests.support.spark_warm_up

setup-spark42: ## Make a second environment with the oldest supported Spark, for tests that compare and of Spark Connect
	@.ci/venv .venv-spark42 requirements/spark42.lock

setup-kube: ## Run setup, and build Kubernetes and the spark-operator for tests, once per machine, into the user's cache
	@.ci/prerequisites --go
	@$(MAKE) --no-print-directory --jobs=2 setup kube-programs

# Side by side: compiling takes minutes, and setting up the environments waits for downloads and disks.
setup-all:
	@.ci/prerequisites --go
	@$(MAKE) --no-print-directory --jobs=3 setup setup-spark42 kube-programs HELM=helm

kube-programs:
	@$(PYTHON) -m tests.support.kube_programs $(HELM)

test: setup-all ## Run lint, the unit tests and a story of each chapter (TESTS='files': all tests of these; ARGS='options of pytest', WORKERS=)
	@$(TESTED) $(if $(TESTS),,--tier=test) $(ARGS)

test-all: setup-all ## Run all tests, of large matrices a random third (ARGS=, WORKERS=, READER=python, SEEDS=all: all cases, SAMPLE=n: that choice)
	@$(TESTED) $(if $(READER),,--tier=test-all) $(ARGS)

test-changed: setup ## Run the tests of what changed since BASE=origin/main, in files or in their folder (BASE=, ARGS=)
	@tests=$$($(BIN)/python -m tests.support.changed $(BASE)) && $(MAKE) --no-print-directory test TESTS="$$tests"

lint: setup ## Run ruff, mypy --strict, and the checks of layers and English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy spark_app operator tests/support $(wildcard examples)
	$(BIN)/lint-imports --cache-dir build/import_linter
	$(BIN)/python -m tests.support.prose_lint

format: setup ## Sort imports and format the code with ruff
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .

unit: setup ## Run the tests without brokers and Spark (TESTS=, ARGS=)
	$(BIN)/python -m pytest $(or $(TESTS),tests/unit) $(ARGS)

integration: setup-all ## Run the tests on real brokers and a real API server (TESTS=, ARGS=)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(or $(TESTS),tests/integration) $(ARGS)

cluster-up: setup-kube ## Start a Kubernetes to look around in: kind where Docker and kind work, else local processes
	@$(BIN)/python -m tests.support.kube up

cluster-down: setup ## Stop that Kubernetes
	@$(BIN)/python -m tests.support.kube down

demo: setup-kube ## Migrate a stream between real clusters by kubectl apply, under kills (STRATEGY=restart, SEED=, DURATION=, KEEP=1, READER=python)
	@cd examples && $(WITH_READER) PYTHONPATH=.. exec ../$(BIN)/python -m demo $(DEMO_ARGS)

e2e: setup ## Migrate and break things in pods, on a node of our own, as root (ARGS='options of pytest')
	@PYTHONPATH=examples $(BIN)/python -m tests.e2e $(ARGS)

e2e-clean: setup ## Remove what a killed `make e2e` left
	@$(BIN)/python -m tests.support.node.box

brokers: setup ## Run two real clusters on this machine until Ctrl-C, for docs/start/tutorial.md
	@cd examples && PYTHONPATH=.. exec ../$(BIN)/python -m brokers

produce: ## Write records to one of them (TO=east, west or host:port, TEXT='one two three')
	@cd examples && PYTHONPATH=.. exec ../$(BIN)/python -m brokers produce $(TO) $(TEXT)

bench: setup setup-spark42 ## Measure reading against Spark's own source, planning and memory (ARGS='reader --only raw_100B', ARGS=--record)
	$(BIN)/python -m tests.bench $(ARGS)

dist: ## Build the wheels and the sdist into dist/, in a small environment of its own (PROJECT_URL=)
	@.ci/venv .venv-dist requirements/dist.lock
	@.ci/dist dist .venv-dist
	@.venv-dist/bin/twine check --strict dist/dynamic_kafka-*

images: ## Build both images for tests, without a registry, and print their archives
	@.ci/venv .venv requirements/dev.lock
	@$(BIN)/python -m tests.support.images

chart: ## Pack the chart into dist/ with the operator's image in its values (IMAGE=, DIGEST=)
	@.ci/chart dist '$(IMAGE)' '$(DIGEST)'

lock: ## Pin all dependencies anew, within the bounds of pyproject.toml (UPGRADE=1: to the newest)
	@.ci/venv .venv requirements/dev.lock
	@mkdir -p build
	$(UV_COMPILE) requirements/build.in -o requirements/build.lock
	$(UV_COMPILE) pyproject.toml --extra spark --extra operator --extra dev -o requirements/dev.lock
	grep -Ev '^(pyspark|py4j)==' requirements/dev.lock | grep -E '^[a-z]' | sed 's/ *\\$$//' > build/constraints.txt
	$(UV_COMPILE) pyproject.toml requirements/spark42.in --extra spark -c build/constraints.txt \
		-o requirements/spark42.lock
	$(UV_COMPILE) requirements/dist.in -c build/constraints.txt -o requirements/dist.lock
	$(UV_COMPILE) pyproject.toml --extra operator -c build/constraints.txt -o requirements/operator.lock
	$(UV_COMPILE) pyproject.toml --extra spark-image -c build/constraints.txt -o requirements/spark-image.lock

clean: ## Remove the environments, build/ and dist/ (the user's cache stays)
	rm -rf .venv .venv-spark42 .venv-dist build dist

crds: setup ## Generate crds/, the chart's copy of them and docs/reference/crds.md from the models
	@$(BIN)/python -m kafkastream_operator.models.crd crds charts/kafkastream-operator/definitions
	@$(BIN)/python -m kafkastream_operator.models.reference docs/reference/crds.md

rights: setup-all ## Render the operator's rights from the chart, for the demo and tests, which run without Helm
	@$(BIN)/python -m tests.support.operator

dashboard: setup ## Generate the chart's Grafana dashboard from tests/support/dashboard.py
	@$(BIN)/python -m tests.support.dashboard charts/kafkastream-operator/monitoring/dashboard.json

messages: setup ## Write down the messages of both packages, whose wording a test pins
	@$(BIN)/python -m tests.support.messages

docs: setup ## Generate the generated parts of docs/ from the code
	@$(BIN)/python -m dynamic_kafka.options --write docs/reference/options.md
	@$(BIN)/python -m tests.support.generated_docs
