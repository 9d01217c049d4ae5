# Mooncake: every target that a person needs. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X github.com/mooncake-go/mooncake/cmd/mooncake/cli.version=$(VERSION)
BIN      := bin
TOOLS    := .tools
MODULES  := . sdk bench
# Upstream's program names: the same binary answers to them.
ALIASES  := mooncake_master mooncake_client mooncake_http_metadata_server \
            mooncake_store_service mc_store_rest_server mooncake-hicache-sizing \
            transfer_engine_bench
PLUGINS  := $(wildcard plugins/*/cmd/mooncake-plugin-*)
FUZZTIME ?= 60s
PYTHON   ?= python3
PYTESTFLAGS ?=
DEMOFLAGS ?=
# What moves the demo's pages: the name of a transport plugin.
PROTOCOL ?= tcp

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Check for Go, gcc and git, and install what Debian or Ubuntu can give
	@./scripts/setup.sh

.PHONY: setup-python
setup-python: # also for the headers and virtual environments of Python
	@./scripts/setup.sh --python

.PHONY: setup-tests
setup-tests: # also for Redis and PyTorch, which some tests of test-all use
	@./scripts/setup.sh --tests

.PHONY: build
build: setup ## Build every binary into bin/
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/mooncake $(addprefix ./,$(PLUGINS))
	go build -trimpath -ldflags '-s -w' -o $(BIN)/mooncake_etcd go.etcd.io/etcd/server/v3 # the etcd members of masters
	@for a in $(ALIASES); do ln -sf mooncake $(BIN)/$$a; done
	@chmod go-w $(BIN) $(BIN)/* # a plugin binary that others can change is not run

.PHONY: demo
demo: $(if $(RDMA_VM),,build) ## Run the main job: a master, three stores and two workers on loopback
	$(BIN)/mooncake demo --protocol $(PROTOCOL) $(DEMOFLAGS)

.PHONY: demo-rdma
demo-rdma: build ## Run the main job over RDMA, in a VM with software devices
	test/rdma-vm/rdma-vm --ro -- $(MAKE) --no-print-directory demo PROTOCOL=rdma \
		DEMOFLAGS='$(or $(DEMOFLAGS),--page-size 64KiB --pool-size 24MiB --requests 100 --window 32 --lease-ttl 5s)'

# What go has to download first, so that a network that fails once does not fail a test.
download = @for m in $(MODULES) examples/evict-fifo examples/transport-uds examples/tier-s3; do (cd $$m && $(CURDIR)/scripts/retry.sh go list -deps -test ./... >/dev/null); done; \
	cd examples/tier-s3/testserver && $(CURDIR)/scripts/retry.sh go list -deps tool >/dev/null

.PHONY: test
test: setup-python ## Run the tests: Go, real processes, Python
	$(download)
	$(MAKE) --no-print-directory -j2 test-processes test-packages
	$(MAKE) --no-print-directory test-python

# The tests of real processes, which wait for them most of the time, so three of them run at once and beside the other tests.
.PHONY: test-processes
test-processes:
	go test -p 3 -timeout 30m ./test/...

.PHONY: test-packages
test-packages:
	go test -timeout 30m ./core/... ./plugins/... ./cmd/...
	cd sdk && go test -timeout 10m ./...
	cd bench && go test -timeout 10m ./...
	cd examples/evict-fifo && go test ./...
	cd examples/transport-uds && go test ./...
	cd examples/tier-s3 && go test -timeout 20m ./...

.PHONY: test-all
test-all: test-long test-rest ## Run what make test leaves out: long tests, the race detector, sanitizers, PyTorch, RDMA devices

# What neither make test nor the long tests are: CI runs both at once with MOONCAKE_TEST_LONG=1 make test.
.PHONY: test-rest
test-rest: setup-tests
	$(MAKE) --no-print-directory -j2 test-race test-python-rest
	$(MAKE) --no-print-directory test-rdma

.PHONY: test-python-rest
test-python-rest: # one after the other: each builds the extension in place
	@for t in test-examples-python test-python-mtls test-python-asan test-python-torch; do $(MAKE) --no-print-directory $$t || exit; done

# The kernel for arm64, emulated. It needs qemu-aarch64-static, of Debian's package qemu-user-static.
.PHONY: test-arm64
test-arm64: ## Run the tests of checksums on an emulated arm64
	@command -v qemu-aarch64-static >/dev/null || { echo 'test-arm64: no qemu-aarch64-static; run: apt-get install qemu-user-static'; exit 1; }
	cd sdk && CGO_ENABLED=0 GOARCH=arm64 go test -short -timeout 20m -exec qemu-aarch64-static ./x/crc32c

.PHONY: test-seals
test-seals: setup-tests ## Run the tests of stores once more with each kind of sealed objects; minutes, and not part of the others
	MOONCAKE_TEST_SEALS=1 go test -timeout 60m -run TestSuiteWithSeals ./core/store

.PHONY: test-build
test-build: ## Run the test of mooncake build with the compiler, twice; minutes, and not part of the others
	MOONCAKE_TEST_BUILD=1 go test -timeout 60m -run TestFromAProxy ./cmd/mooncake/cli/build

.PHONY: test-long
test-long: setup-tests # the tests that make test skips because they take long
	$(download)
	MOONCAKE_TEST_LONG=1 $(MAKE) --no-print-directory test-processes
	MOONCAKE_TEST_LONG=1 $(MAKE) --no-print-directory test-python PYTESTFLAGS='-m long $(PYTESTFLAGS)'

.PHONY: test-race
test-race: setup-tests # the Go tests but for those of real processes, with the race detector; random sequences are fewer
	$(download)
	RAPID_CHECKS=25 go test -p 3 -race -short -timeout 20m ./core/... ./plugins/...
	cd sdk && RAPID_CHECKS=75 go test -race -timeout 20m ./...
	cd examples/transport-uds && go test -race ./...

.PHONY: pydev
pydev: setup ## Build what the Python package needs in place, for PYTHONPATH=sdk/python
	$(PYTHON) sdk/python/build_native.py sdk/python/mooncake

.PHONY: libmooncake
libmooncake: setup ## Build the library for programs in C, with headers, into dist/libmooncake
	./scripts/libmooncake.sh

.PHONY: wheel
wheel: setup ## Build the Python wheels for x86-64 and arm64, and the source distribution, into dist/
	PYTHON=$(PYTHON) ./scripts/wheel.sh

.PHONY: test-wheel
test-wheel: wheel ## Install the wheels into bare systems for x86-64 and arm64 and use them there (root)
	./scripts/test-wheel.sh

# Tests wait for processes most of the time, so three files of them run at once.
PYTEST := $(TOOLS)/python/bin/python -m pytest -q -p no:cacheprovider -n 3 --dist loadfile

.PHONY: test-python
test-python: setup-python $(TOOLS)/python/.stamp ## Run the tests of the Python package, over real processes
	$(MAKE) --no-print-directory pydev PYTHON=$(TOOLS)/python/bin/python
	$(PYTEST) sdk/python/tests $(PYTESTFLAGS)

WITH_CERTIFICATES := store/test_store_bytes.py store/test_store_zerocopy.py store/test_store_sessions.py store/test_store_tiers.py \
                     engine/test_engine_store.py consumers/test_sglang_hicache.py consumers/test_vllm_store.py

.PHONY: test-python-mtls
test-python-mtls: setup-tests $(TOOLS)/python/.stamp ## Run Python tests of stores, engines and their users, with certificates; ALL=1 for all of them
	$(MAKE) --no-print-directory pydev PYTHON=$(TOOLS)/python/bin/python
	MOONCAKE_TEST_SECURITY=mtls $(PYTEST) $(addprefix sdk/python/tests/,$(if $(ALL),store engine consumers,$(WITH_CERTIFICATES))) $(PYTESTFLAGS)

.PHONY: test-python-torch
test-python-torch: setup-tests $(TOOLS)/python/.stamp # the tests of tensors, with PyTorch where the system has it
	$(MAKE) --no-print-directory pydev PYTHON=$(TOOLS)/python/bin/python
	./scripts/test-python-torch.sh $(PYTESTFLAGS)

# FREE_THREADED: the interpreter, python3.14t or python3.13t of PATH where it is missing.
.PHONY: test-python-free-threaded
test-python-free-threaded: setup-python ## Run the tests of the extension and of stores with a CPython without the GIL, if there is one
	./scripts/test-python-free-threaded.sh $(TOOLS)/python-free-threaded '$(FREE_THREADED)' $(PYTESTFLAGS)

.PHONY: test-examples-python
test-examples-python: setup-tests $(TOOLS)/examples-python/.stamp ## Run the tests of plugins in Python, alone and under a real host
	cd sdk/python-plugin && $(CURDIR)/$(TOOLS)/examples-python/bin/python -m pytest $(PYTESTFLAGS)
	MOONCAKE_TEST_EXAMPLES_PYTHON=$(CURDIR)/$(TOOLS)/examples-python go test -timeout 20m -count 1 -run Python ./test/examples/

.PHONY: test-examples-rust
test-examples-rust: setup-tests ## Run the tests of plugins in Rust; needs cargo, and minutes for the first build
	cd sdk/rust/mooncake-plugin && cargo fmt --check && cargo clippy --all-targets -- -D warnings && cargo test
	MOONCAKE_TEST_RUST=1 CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),$(CURDIR)/sdk/rust/mooncake-plugin/target) go test -timeout 60m -count 1 -run Rust ./test/examples/

.PHONY: test-python-asan
test-python-asan: setup-tests $(TOOLS)/python/.stamp # the extension's own tests, with sanitizers
	PYTHON=$(CURDIR)/$(TOOLS)/python/bin/python sdk/python/native/asan.sh

$(TOOLS)/python/.stamp: sdk/python/tests/requirements.txt
	$(PYTHON) -m venv --clear $(TOOLS)/python
	./scripts/retry.sh $(TOOLS)/python/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

$(TOOLS)/examples-python/.stamp: sdk/python-plugin/requirements.txt
	$(PYTHON) -m venv --clear $(TOOLS)/examples-python
	./scripts/retry.sh $(TOOLS)/examples-python/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

.PHONY: test-rdma
test-rdma: setup ## Run the tests that need RDMA devices, or disks that fail, in a VM that has them; results in dist/test-rdma
	./scripts/test-rdma.sh

.PHONY: test-short
test-short: setup ## Run the tests without the race detector and without real processes
	go test -short -timeout 5m ./core/... ./plugins/... ./cmd/...
	cd sdk && go test -short -timeout 5m ./...
	cd bench && go test -short -timeout 5m ./...

.PHONY: bench
bench: build ## Measure the parts on this machine, each beside its limit
	$(BIN)/mooncake bench

SEEDS ?= 1000

.PHONY: soak
soak: ## Simulate so many pools, with one master and with elected ones, over faults and restarts; SEEDS=N, and FIRST=N for the first
	@MOONCAKE_SIM_SEEDS=$(SEEDS) MOONCAKE_SIM_FIRST=$(FIRST) go test ./core/store -run '^Test(Elected)?Simulation$$' -count=1 -v -timeout 0 2>&1 | \
		awk '/^[0-9]+ passed, [0-9]+ failed$$/ {ran++; passed += $$1; failed += $$3; next} /--- FAIL|sim[a-z]*_test.go|^panic|^FAIL|^#/ {print} \
			END {printf "%d passed, %d failed\n", passed, failed; exit ran != 2 || failed > 0}'

.PHONY: attack
attack: ## Attack pools from outside in each security mode; OUT=FILE for JSON
	ATTACK_MODES=off,tls,mtls ATTACK_OUT='$(if $(OUT),$(abspath $(OUT)))' go test -count 1 -timeout 20m ./test/attack

# CHAOSFLAGS: flags of mooncake bench chaos, and names of faults. OUT: a file for JSON.
.PHONY: chaos
chaos: build ## Kill and stop the processes of pools under load, and count what is lost and what is wrong; OUT=FILE for JSON
	$(BIN)/mooncake bench chaos --etcd $(BIN)/mooncake_etcd $(CHAOSFLAGS) $(if $(OUT),--out '$(OUT)')

# HAFLAGS: flags of mooncake bench ha, and names of faults. OUT: a file for JSON.
.PHONY: bench-ha
bench-ha: build ## Kill and stop leaders of pools with three masters and etcd, and measure the pauses; OUT=FILE for JSON
	$(BIN)/mooncake bench ha --etcd $(BIN)/mooncake_etcd $(HAFLAGS) $(if $(OUT),--out '$(OUT)')

.PHONY: bench-tier
bench-tier: build ## Measure the storage tier on the disk of TIERPATH (the temporary folder), fio beside; OUT=FILE for JSON
	$(BIN)/mooncake bench tier --subprocess $(if $(TIERPATH),--path '$(TIERPATH)') $(if $(OUT),--out '$(OUT)')

.PHONY: bench-plugins
bench-plugins: ## Measure what a transport costs that runs as a process of its own, as ratios
	MOONCAKE_BENCH_PLUGINS=9 go test ./test/subprocess -count 1 -run TestRatios -v

.PHONY: test-netem
test-netem: ## Run the tests of slow, shared, far and lossy links over tc netem, in a VM whose kernel has it
	go test -c -o dist/netem.test ./test/netem
	test/rdma-vm/rdma-vm --ro --mem 4096 --timeout 1800 -- env NETEM_CELLS=short dist/netem.test -test.v -test.timeout 30m -test.run 'TestFarAndLossy|TestSlowAndShared'

# CELLS: a regular expression that selects cells by name, such as tcp-engine-100Mbit-16x.
.PHONY: bench-netem
bench-netem: pydev ## Measure transfers over slow, shared, far and lossy links (root; hours); CELLS=REGEXP, UPSTREAM=PYTHON for the reference beside, OUT=FILE for the table
	go test -c -o dist/netem.test ./test/netem
	cd test/netem && NETEM_CELLS=all NETEM_OUT='$(if $(OUT),$(abspath $(OUT)))' NETEM_PYTHON=$$(command -v $(PYTHON)) NETEM_UPSTREAM=$(UPSTREAM) \
		../../dist/netem.test -test.v -test.timeout 12h -test.run 'TestSlowAndShared/$(CELLS)'

.PHONY: bench-quic
bench-quic: ## Measure quic beside tcp on links with distance and loss (root; about 20 minutes)
	go test -run '^$$' -bench Links -benchtime=1x -timeout 1h ./test/netem

.PHONY: profile
profile: bench-program ## Write profiles and flame graphs of a store and a master under load into dist/profile
	$(BIN)/mooncake-bench profile --out dist/profile --seconds 15

.PHONY: bench-python
bench-python: pydev ## Measure the Python package beside Go, and threads beside one another
	$(PYTHON) sdk/python/bench/measure.py --goals

.PHONY: bench-program
bench-program: # the program behind the measurements for developers
	cd bench && go build -trimpath -o $(CURDIR)/$(BIN)/ ./cmd/mooncake-bench

# WORKS: which workloads, separated by commas. FULL=1: also what takes long. OUT: a file for JSON.
PEERS := $(TOOLS)/peers
.PHONY: bench-peers
bench-peers: build pydev bench-program bench-peers-setup ## Measure this project beside its competitors and the machine's limits, in turn; OUT=FILE for JSON
	$(BIN)/mooncake-bench peers --programs $(BIN) --upstream $(PEERS)/upstream --python $(PYTHON) $(if $(WORKS),--only $(WORKS)) \
		$(if $(FULL),--full) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(TRACE),--trace $(TRACE)) $(if $(OUT),--out $(OUT))

# MASTER: upstream for the masters of the wheels, as a control. LOAD: how long the random load lasts, such as 1m. RUN: a
# regular expression that selects checks, such as 0.3.13. OUT: a file for JSON.
.PHONY: interop
interop: setup-python ## Hold the master to the unmodified clients in upstream's Python wheels; OUT=FILE for JSON
	go test -c -o dist/wheels.test ./test/wheels
	cd test/wheels && MOONCAKE_INTEROP=full MOONCAKE_INTEROP_MASTER='$(MASTER)' MOONCAKE_INTEROP_LOAD='$(LOAD)' \
		MOONCAKE_INTEROP_OUT='$(if $(OUT),$(abspath $(OUT)))' PYTHON=$$(command -v $(PYTHON)) \
		../../dist/wheels.test -test.timeout 2h -test.run './$(RUN)'

# NAMES: which ones of allocator, eviction, objects and framing, separated by spaces.
.PHONY: bench-stat
bench-stat: $(TOOLS)/benchstat ## Compare the parts with the figures in docs/bench, by benchstat
	@./scripts/bench-stat.sh $(CURDIR)/$< $(NAMES)

.PHONY: bench-stat-update
bench-stat-update: $(TOOLS)/benchstat ## The same, and the figures in docs/bench become those of this machine
	@./scripts/bench-stat.sh $(CURDIR)/$< --update $(NAMES)

$(TOOLS)/benchstat: internal/tools/go.mod internal/tools/go.sum
	cd internal/tools && $(CURDIR)/scripts/retry.sh go build -o $(CURDIR)/$(TOOLS)/ golang.org/x/perf/cmd/benchstat
	@touch $@

.PHONY: bench-peers-setup
bench-peers-setup: # install the competitors that are available
	@mkdir -p $(PEERS)
	@./scripts/bench-peers-setup.sh $(PEERS) $(PYTHON)

.PHONY: conformance
conformance: build ## Hold every plugin to its contract; reports in dist/conformance
	./scripts/conformance.sh $(BIN) dist/conformance

.PHONY: conformance-docs
conformance-docs: build # the same, and its table goes into docs/plugins/testing.md
	./scripts/conformance.sh --docs $(BIN) dist/conformance

# RUN: a regular expression that selects bugs, such as transport/. ALL=1: each check runs on each bug.
.PHONY: kit-score
kit-score: ## Count the seeded bugs that the conformance suites find; OUT=FILE for JSON
	go build -o dist/kit-score ./test/kitscore/cmd/kit-score
	dist/kit-score $(if $(OUT),-out $(OUT)) $(if $(RUN),-run '$(RUN)') $(if $(ALL),-all) $(if $(DOCS),-docs $(DOCS))

.PHONY: kit-score-docs
kit-score-docs: # the same, and its table goes into docs/plugins/testing.md
	$(MAKE) kit-score DOCS=docs/plugins/testing.md

.PHONY: fuzz
fuzz: setup ## Run every fuzz target for FUZZTIME (default 60s)
	./scripts/fuzz.sh $(FUZZTIME)

.PHONY: fmt
fmt: ## Format the sources
	gofmt -w $$(git ls-files '*.go')

PYTHON_CODE := sdk/python sdk/python-plugin bench

.PHONY: lint
lint: setup-python tools $(TOOLS)/python/.stamp ## Run the linters for code, dead code, prose and protobuf, and the check for generated code
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run: make fmt'; exit 1; }
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOLS)/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...); done
	cd sdk && CGO_ENABLED=0 GOARCH=arm64 go vet ./x/crc32c
	$(TOOLS)/python/bin/ruff check -q $(PYTHON_CODE) && $(TOOLS)/python/bin/ruff format -q --check $(PYTHON_CODE)
	./scripts/deadcode.sh
	./scripts/vale.sh
	cd sdk/proto && $(CURDIR)/$(TOOLS)/buf lint && $(CURDIR)/$(TOOLS)/buf breaking --against released.binpb
	@out=$$(mktemp -d); trap 'rm -rf '$$out EXIT; \
		(cd sdk/proto && PATH=$(CURDIR)/$(TOOLS):$$PATH buf generate -o $$out); \
		for f in $$(cd $$out && find . -name '*.pb.go'); do \
			cmp -s $$out/$$f sdk/proto/$$f || { echo "sdk/proto/$$f is not what its .proto file says; run: make generate"; exit 1; }; \
		done; \
		(cd sdk/proto && $(PLUGIN_MESSAGES) -o $$out/plugins.binpb) && cmp -s $$out/plugins.binpb sdk/proto/plugins.binpb || \
			{ echo "sdk/proto/plugins.binpb is not what its .proto files say; run: make generate"; exit 1; }

.PHONY: generate
generate: tools ## Generate the protobuf code, and the settings in the manifests of plugins
	cd sdk/proto && PATH=$(CURDIR)/$(TOOLS):$$PATH buf generate
	cd sdk/proto && $(PLUGIN_MESSAGES) -o plugins.binpb
	@for m in $(MODULES); do (cd $$m && go generate ./...) || exit 1; done

# The messages of plugins as one file, for plugins in other languages than Go.
PLUGIN_MESSAGES = $(CURDIR)/$(TOOLS)/buf build --as-file-descriptor-set --exclude-source-info $(addprefix --path mooncake/,plugin evict alloc tier transport)

.PHONY: release-proto
release-proto: tools # with each release: what make lint holds the messages of the next one to
	cd sdk/proto && $(CURDIR)/$(TOOLS)/buf build --exclude-source-info -o released.binpb

.PHONY: vuln
vuln: tools ## Look for known vulnerabilities in what the binaries use (needs the network)
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOLS)/govulncheck ./...); done

.PHONY: tools
tools: setup $(TOOLS)/.stamp ## Build the pinned linters and generators into .tools/

TOOL_PACKAGES := github.com/golangci/golangci-lint/v2/cmd/golangci-lint \
                 github.com/bufbuild/buf/cmd/buf \
                 github.com/errata-ai/vale/v3/cmd/vale \
                 golang.org/x/tools/cmd/deadcode \
                 golang.org/x/vuln/cmd/govulncheck \
                 google.golang.org/protobuf/cmd/protoc-gen-go \
                 google.golang.org/grpc/cmd/protoc-gen-go-grpc

$(TOOLS)/.stamp: internal/tools/go.mod internal/tools/go.sum
	cd internal/tools && $(CURDIR)/scripts/retry.sh go list -deps $(TOOL_PACKAGES) >/dev/null
	cd internal/tools && go build -o $(CURDIR)/$(TOOLS)/ $(TOOL_PACKAGES)
	@touch $@

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) $(TOOLS) dist
