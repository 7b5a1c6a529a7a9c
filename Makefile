# The commands of a working day. What they do is in scripts/.

.DEFAULT_GOAL := help
.PHONY: help demo dashboards dashboards-preview demo-serve test check lint fmt fuzz faults soak mutations coverage temporal standalone sdks bench

export GOWORK := off

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run the payments demo, with nothing but Go
	@echo 'compiling the demo: the first time this takes a minute or two' >&2
	@go -C examples run ./payments

demo-serve: ## run the demo under steady load with faults now and then, for the boards
	@echo 'compiling: the first time this takes a minute or two' >&2
	@go -C examples run ./serve

test: ## run all tests on real servers, installing what they need
	@scripts/test.sh

check: ## format, vet, lint, tidy, import rules, known vulnerabilities
	@scripts/check.sh

lint: ## run the linter alone
	@scripts/lint.sh

fmt: ## format the code
	@scripts/lint.sh fmt

fuzz: ## run every fuzz target for a minute
	@scripts/fuzz.sh 60s

faults: ## kill and stop payments at random, 200 times or COUNT=, from a SEED=
	@scripts/faults.sh "$(COUNT)" "$(SEED)"

soak: ## kill the workers of 500 workflows for two minutes, or of COUNT=, from a SEED=
	@scripts/soak.sh "$(COUNT)" "$(SEED)"

mutations: ## break the protocol on purpose, and see that a test notices each fault
	@go -C tools run ./mutations

dashboards: ## write the boards and rules anew from their program
	@scripts/dashboards.sh -update

dashboards-preview: ## draw the boards in a browser page, over the demo under load with faults
	@scripts/preview.sh

coverage: ## statement coverage of guard and redisx, over both
	@scripts/coverage.sh

standalone: ## test standalone activities, on a Temporal server of its own that takes long to build
	@scripts/standalone.sh

sdks: ## test temporalx with the Temporal SDK and the three minor versions before it
	@scripts/sdks.sh

bench: ## measure what the guard adds to an activity and telemetry to a call, without a server
	@scripts/bench.sh

temporal: ## build the pinned Temporal CLI, once, and print its path
	@scripts/temporal.sh
