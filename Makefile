# Everything runs on the Node that package.json pins, whatever Node the machine has.
machine_path := $(PATH)
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

installed := node_modules/.package-lock.json

.PHONY: help install deps dev check release test-quick test test-long test-fresh bench clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

install: $(installed) ## Install what the control plane and the command need, and nothing beside them
	@manifests/install/machine.sh check

deps: $(installed) ## Install what the tests need, and start the Docker engine
	@manifests/install/machine.sh test

dev: $(installed) ## Run a server and an agent on this machine, with an example application
	@manifests/install/machine.sh run
	@exec cli/setpoint dev

check: $(installed) ## Check format, lint, types, and that what is generated is up to date
	@manifests/install/machine.sh check
	@exec node test/run.ts --only check

release: $(installed) ## Build the agent for servers, as one executable per architecture, into dist
	@manifests/install/machine.sh check
	@exec node cli/release/release.ts

test-quick: deps ## For daily work: check, and the layers unit and api, which start no programs
	@exec node test/run.ts --only check,unit,api

test: deps ## Check, then run every layer of tests: unit, programs, contract, api on both stores, sim, e2e, browser
	@exec node test/run.ts

test-long: deps ## Run the tests that take longer than a coffee
	@manifests/install/machine.sh fresh
	@exec node test/run.ts --only api-rest,api-etcd-rest,sim-rest,programs-rest,e2e-rest,browser-rest,long,fresh --minutes 400

test-fresh: deps ## On bare Debian 12 and 13: run `make dev` and `make test`, install an agent under systemd, and run that for arm64
	@manifests/install/machine.sh fresh
	@exec node test/run.ts --only fresh --minutes 200

bench: deps ## Measure ours against the raw limit, side by side
	@exec node bench/run.ts

clean: ## Remove what was installed and measured; data of `make dev` stays
	rm -rf node_modules .cache bench/results

$(installed): package-lock.json .npmrc
	@echo 'Installing the packages of package-lock.json into node_modules'
	@PATH='$(machine_path)' npm ci --loglevel=error
	@cd node_modules/.bin && ln -sf ../node-linux-*/bin/node node # npm 9 forgets it
	@touch $@
