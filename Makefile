# Builds, tests and shows gorun. `make` alone lists the targets.

GO          ?= go
PKG         ?= ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
MYPY        ?= mypy
STATIC      := CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w'
BIN         ?= bin
LIB         ?= lib
# Names of libring.so that are not ring_'s stay inside. The number of its soname is RING_ABI of ring.h. Files that nothing asks for their build id
# have none: it would depend on the names of folders.
LIBRING     := CGO_ENABLED=1 $(GO) build -buildmode=c-shared -trimpath -tags netgo,osusergo \
               -ldflags="-s -w -buildid= -extldflags '-Wl,--version-script=$(CURDIR)/ring/capi/exports.map -Wl,-soname,libring.so.1'" -o $(LIB)/libring.so.1 ./ring/capi
DEMO        := -np 4 -H f1:2,f2:2 bin/examples/mnist

# The header of the NVIDIA library marks calls as deprecated that its Go binding
# wraps all the same. The binding finds its symbols at run time only, so they
# must be bound as late as can be: some compilers bind them at start.
export CGO_CFLAGS  ?= -g -O2 -Wno-deprecated-declarations
export CGO_LDFLAGS ?= -g -O2 -Wl,-z,lazy

# Go and git look for a workspace and a repository in all folders above. Sources may be unpacked below /tmp, as
# pip and Spack do, where anybody can put a go.work that names other modules, or a .git.
export GOWORK := off
export GIT_CEILING_DIRECTORIES := $(abspath $(CURDIR)/..)
ifeq ($(wildcard .git),)
export GOFLAGS := $(shell GOWORK=off $(GO) env GOFLAGS) -buildvcs=false
endif

.DEFAULT_GOAL := help
.PHONY: help build launcher native agents arm-test wheel wheels man site recording dist package-test python-test reproducible upgrade-test install demo check test kube fresh gpu-test lint fuzz simulate simulate-elastic sweep faults doctor-faults faults-peers faults-elastic faults-resilient soak bench bench-mpi mpi-matrix bench-peers bench-scale clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: launcher ## bin/gorun (static), bin/examples/*; with a C compiler bin/gorun-gpu, bin/gorun-bench, bin/gorun-mpir, bin/gorun-ompi4.so, bin/gorun-pmix, lib/libring.so and ring.h
	$(STATIC) -o bin/examples/ ./examples/...
	@if command -v "$$($(GO) env CC)" >/dev/null; then \
		$(MAKE) --no-print-directory native; \
	else \
		echo "no C compiler, so no bin/gorun-gpu, bin/gorun-bench, bin/gorun-mpir, bin/gorun-ompi4.so and lib/libring.so: gorun asks /proc and nvidia-smi for GPUs, and has no bench --device cuda, MPIR_proctable, --mpi ompi4, C or Python"; \
	fi

launcher:
	$(STATIC) -o bin/gorun ./cmd/gorun

# What needs a C compiler, CC, for the processor GOARCH, in BIN and LIB.
native:
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags='-s -w -buildid=' -o $(BIN)/gorun-gpu ./cmd/gorun-gpu
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags='-s -w -buildid=' -o $(BIN)/gorun-bench ./cmd/gorun-bench
	$$($(GO) env CC) -std=c11 -Wall -Wextra -O2 -shared -fPIC -s -o $(BIN)/gorun-ompi4.so internal/mpi/pmi/ompi4/libpmi.c
	$$($(GO) env CC) -std=gnu11 -Wall -Wextra -g -O2 -ffile-prefix-map=$(CURDIR)=. -o $(BIN)/gorun-mpir cmd/gorun/internal/mpir/helper/mpir.c
	$(LIBRING)
	@rm -f $(LIB)/libring.h $(LIB)/libring.so.h $(LIB)/libring.so.1.h
	ln -sf libring.so.1 $(LIB)/libring.so
	cp ring/capi/ring.h $(LIB)/
	@if pkg-config --exists pmix; then set -x; \
		$$($(GO) env CC) -std=gnu11 -Wall -Wextra -O2 -rdynamic -s -o $(BIN)/gorun-pmix internal/mpi/pmix/helper/*.c $$(pkg-config --cflags pmix) -ldl -lpthread; \
	else \
		echo "no libpmix-dev, so no bin/gorun-pmix: gorun does not start programs of Open MPI 5"; \
	fi

agents: ## bin/gorun-linux-ARCH.gz, gorun for hosts of other architectures: amd64 and arm64
	@for arch in amd64 arm64; do \
		[ $$arch != "$$($(GO) env GOARCH)" ] || [ "$$($(GO) env GOOS)" != linux ] || continue; \
		set -x; GOOS=linux GOARCH=$$arch $(STATIC) -o bin/.gorun-linux-$$arch ./cmd/gorun && gzip -9nc bin/.gorun-linux-$$arch >bin/gorun-linux-$$arch.gz && \
		rm bin/.gorun-linux-$$arch || exit; \
	done

man: launcher ## manual pages and completions, in dist/
	@mkdir -p dist/man/man1 dist/completions
	bin/gorun man >dist/man/man1/gorun.1
	@for c in bench compat completion gpus hosts man version; do bin/gorun man $$c >dist/man/man1/gorun-$$c.1 || exit; done
	@for s in bash zsh fish; do bin/gorun completion $$s >dist/completions/$$s || exit; done

PYTHON      ?= python3
WHEELS      ?= dist
wheel: build ## dist/gorun_launcher-*.whl for Python on systems like this one, with the programs and the library in it
	@rm -f $(WHEELS)/gorun_launcher-*.whl
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEELS) ./ring/python
	@ls $(WHEELS)/gorun_launcher-*.whl

wheels: ## dist/gorun_launcher-*: wheels for x86_64 and aarch64 with glibc 2.17 and later, and the sdist (Zig of PyPI compiles)
	@PYTHON="$(PYTHON)" .ci/wheels $(WHEELS)

site: ## dist/site: README.md and docs/ as one searchable site
	@.ci/site

recording: build ## docs/recording.svg, docs/top.svg and docs/doctor.png: what README.md shows
	@.ci/recording/make

dist: man ## dist/: a release: archives, packages (deb, rpm), wheels, recipes, parts lists and checksums; RELEASE=1 SIGNING_KEY=FILE signs it and checks more
	@.ci/dist

SYSTEMS     ?=
package-test: ## what make dist made, installed, run on two hosts and removed in bare systems (SYSTEMS='debian:trixie busybox'; root)
	@.ci/chroots $(SYSTEMS)

PYTHONS     ?= python3
python-test: ## the wheel of make dist or make wheels, installed in each of PYTHONS ('python3.12 debian:trixie'; the second wants root)
	@.ci/pythons $(WHEELS) $(PYTHONS)

reproducible: ## the release of HEAD made twice and compared
	@.ci/reproducible

upgrade-test: ## programs, packages and running jobs of the last tag, or of FROM=COMMIT, with this gorun, and the other way
	@.ci/upgrade

PREFIX      ?= /usr/local
install: build man ## gorun, libring.so, ring.h, the manual and completions in PREFIX (/usr/local), below DESTDIR if that is set
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install bin/gorun $$(ls bin/gorun-gpu bin/gorun-bench bin/gorun-ompi4.so bin/gorun-mpir bin/gorun-pmix 2>/dev/null) $(DESTDIR)$(PREFIX)/bin
	install -m 644 dist/man/man1/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	@[ ! -e lib/libring.so ] || .ci/libring lib $(DESTDIR)$(PREFIX) lib rpath
	install -D -m 644 dist/completions/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gorun
	install -D -m 644 dist/completions/zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_gorun
	install -D -m 644 dist/completions/fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/gorun.fish

demo: ## train on two SSH hosts made up for the moment, on this machine
	@.ci/setup demo
	@$(MAKE) --no-print-directory build
	@$(GO) build -o bin/.lab-hosts ./internal/test/lab/hosts
	@echo '$$ gorun $(DEMO)'
	@bin/.lab-hosts -n 2 -- bin/gorun -F '{config}' $(DEMO)

check: ## the fast tier, for while you work: build, vet, staticcheck, and the tests that start no host and take no seconds
	@$(GO) build ./...
	$(GO) vet $(PKG)
	$(GO) run $(STATICCHECK) $(PKG)
	$(GO) test -short -timeout 2m $$($(GO) list ./... | grep -vE '/internal/test/(attacks|e2e|faults)|/ring/(capi|python)$$')

test: ## all checks and tests; FUZZ=1 (or CI=true) adds 10 s of fuzzing for a quarter of the targets
	@.ci/test

lint: ## gofmt, go vet (also for arm64 and macOS), one statement per line, line widths and goroutines' variables (internal/test/style), staticcheck, go mod tidy, actionlint, shellcheck, mypy
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt these files:"; echo "$$unformatted"; exit 1; }
	$(GO) vet $(PKG)
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet $(PKG)
	.ci/darwin
	$(GO) -C internal/test/style build -o $(CURDIR)/bin/.style .
	@bin/.style $$(git ls-files -co --exclude-standard '*.go' | grep -v /testdata/)
	$(GO) run $(STATICCHECK) $(PKG)
	$(GO) mod tidy -diff
	@for module in examples/kubernetes/check internal/test/style; do \
		set -x; $(GO) -C $$module vet ./... && $(GO) -C $$module mod tidy -diff || exit; \
	done
	$(GO) -C internal/test/kube vet . ./cluster ./pause
	$(GO) -C internal/test/kube mod tidy -diff
	GOFLAGS= $(GO) run $(ACTIONLINT)
	@if command -v shellcheck >/dev/null; then \
		set -x; shellcheck -S warning -e SC1007 $$(git ls-files '*.sh') $$(git ls-files .ci | grep -vE '\.(go|yaml|yml|py|txt)$$'); \
	else \
		echo "no shellcheck, so the shell scripts are not checked (package shellcheck)"; \
	fi
	@if command -v $(MYPY) >/dev/null; then \
		set -x; python3 .ci/style.py $$(git ls-files -co --exclude-standard '*.py' | grep -v /testdata/) && \
			cd ring/python && $(MYPY) --cache-dir $(CURDIR)/bin/.mypy; \
	else \
		echo "no mypy, so statements and types of Python are not checked (package mypy)"; \
	fi

kube: build ## a shell in which kubectl reaches a Kubernetes made for it: N=2 nodes, RUN=command (root; 20 minutes the first time)
	@parts=$$(.ci/kube) && $(GO) -C internal/test/kube build -o $(CURDIR)/bin/.kube . && bin/.kube -n $(or $(N),2) -parts "$$parts" -bin bin $(RUN)

fresh: ## make demo and every tool of the tests in a Debian made for the moment (root, 20 GB, an hour)
	@.ci/fresh

gpu-test: ## checks on an NVIDIA GPU, with PyTorch and without a network, in ten minutes; without Go it takes what make build has made
	@if command -v $(firstword $(GO)) >/dev/null; then $(MAKE) --no-print-directory build; fi
	@$(PYTHON) -B internal/tools/gpucheck/check.py

arm-test: ## tests of ring and its kernels as programs of aarch64, in the emulator qemu-user (17 minutes; package qemu-user-static; root for all)
	@.ci/arm

fuzz: ## fuzz every target for FUZZTIME, 30s by default
	@.ci/fuzz

simulate: ## N made-up jobs (1000000) on a clock of their own, from seed FROM (0); one with its log: SEED=7
	@SIMULATE_N=$(or $(N),1000000) SIMULATE_FROM=$(FROM) SIMULATE_SEED=$(SEED) $(GO) test -count=1 -timeout 0 -v -run '^TestWholeJobs$$' ./launcher/core

simulate-elastic: ## N made-up elastic jobs (6000), and as many storms of signals, from seed FROM (0); one of each with its log: SEED=7
	@SIMULATE_N=$(or $(N),6000) SIMULATE_FROM=$(or $(FROM),0) SIMULATE_SEED=$(SEED) $(GO) test -count=1 -timeout 0 -v -run '^(TestWholeElasticJobs|TestStormOfSignals)$$' ./internal/elastic

sweep: ## a small job with every system call failed in turn (hours); SWEEP=SEED for 60 of them
	@SWEEP=$(or $(SWEEP),all) $(GO) test -count=1 -timeout 0 -v -run '^TestEveryCallMayFail$$' ./internal/test/e2e

soak: build ## N jobs one after the other, 2000 by default, then 50 at once; prints what grows; KEPT=1 on kept hosts
	$(GO) run ./internal/tools/soak $(if $(KEPT),-kept) -n $(or $(N),2000) bin/gorun

faults: ## harm to jobs: the rows of docs/reliability.md; with N=200 [SEED=1] that many at random, by seed
ifdef N
	$(STATIC) -o bin/gorun ./cmd/gorun
	$(STATIC) -o bin/faults/ ./internal/test/faults/rank ./internal/tools/campaign
	@bin/faults/campaign -n $(N) -seed $(or $(SEED),1) $(CAMPAIGN) bin/gorun bin/faults/rank
else
	$(GO) test -count=1 -timeout 15m ./internal/test/faults/...
endif

bench: ## benchmarks of the collectives and of launching
	$(GO) test -run '^$$' -bench . -benchmem ./ring/... ./launcher/... ./internal/test/e2e

bench-mpi: ## gorun beside Open MPI 5's mpirun: start of 64 ranks on 8 hosts, latency and bandwidth; on an idle machine, as root
	$(GO) test -run '^$$' -bench '^(BenchmarkOpenMPI5|BenchmarkMPICH)$$' -benchtime 1x -timeout 60m -v ./internal/test/e2e

mpi-matrix: ## docs/mpi-matrix.md: MPI programs under gorun and under their own launchers, as root; ROWS='Intel.*3 hosts' for some rows
	GORUN_MPI_MATRIX=docs/mpi-matrix.md GORUN_MPI_ROWS='$(ROWS)' $(GO) test -run '^TestMPIMatrix$$' -timeout 4h -v ./internal/test/e2e

HOSTS       ?= 4096
bench-scale: ## one job on HOSTS=4096 stub hosts of 8 ranks, and what it cost the launcher (docs/scale.md)
	$(STATIC) -o bin/gorun ./cmd/gorun
	@$(GO) build -o bin/.stub-hosts ./internal/tools/stub/hosts
	bin/.stub-hosts -n $(HOSTS) -slots 8 -- bin/gorun --start-timeout 15m --summary -F '{config}' --hostfile '{hosts}' -np $$((8 * $(HOSTS))) true

bench-peers: build ## ring beside others, tables and docs/allreduce-*.svg (packages libopenmpi-dev openmpi-bin libmpich-dev mpich libgloo-dev); ROW=small-2 for one goal, ROW=slow for slow runs, ROW=delay for hosts far apart (root); PEERS='-runs 1 -max 1M' for a quick try
ifeq ($(ROW),slow)
	@$(GO) run ./internal/tools/peers -slow 200 $(PEERS) bin/gorun
else ifdef ROW
	@$(GO) run ./internal/tools/peers -row $(ROW) $(PEERS) bin/gorun
else
	@$(GO) run ./internal/tools/peers -np 2 -svg docs/allreduce-2.svg $(PEERS) bin/gorun
	@$(GO) run ./internal/tools/peers -np 4 -svg docs/allreduce-4.svg $(PEERS) bin/gorun
	@$(GO) run ./internal/tools/peers -transport tcp -svg docs/allreduce-tcp.svg $(PEERS) bin/gorun
	@if [ "$$(id -u)" = 0 ]; then \
		$(GO) run ./internal/tools/peers -transport veth -svg docs/allreduce-veth.svg $(PEERS) bin/gorun; \
	else \
		echo "no root, so nothing between network namespaces"; \
	fi
endif

doctor-faults: ## plant each fault that gorun doctor must name N (20) times on hosts of namespaces, and count (root; an hour); ONLY=DNS for one, LEVEL=--long
	DOCTOR_FAULTS=$(or $(N),20) DOCTOR_ONLY='$(ONLY)' DOCTOR_LEVEL='$(LEVEL)' $(GO) test -v -timeout 6h -count 1 -run TestDoctorNamesPlantedFaults ./internal/test/e2e

faults-peers: build ## the same faults done to gorun, mpirun and mpiexec.hydra (packages openmpi-bin mpich); needs root
	$(GO) run ./internal/tools/faultpeers -n $(or $(N),1) bin/gorun

faults-elastic: build ## the same harm to elastic jobs of stock Horovod under horovodrun and gorun, N (3) times (.ci/horovod; an hour; root); SILENT=60 silent hosts, or ADDED=10 added ones, under gorun; STORMS=20 [SEED=1] [LENGTH=10m] jobs with random signals and hosts that come, go and vanish
ifdef STORMS
	@$(GO) test -c -o bin/.e2e.test ./internal/test/e2e
	@cd internal/test/e2e && failed= && for seed in $$(seq $(or $(SEED),1) $$(($(or $(SEED),1) + $(STORMS) - 1))); do \
		if ELASTIC_CHAOS=$(or $(LENGTH),10m) ELASTIC_SEED=$$seed ../../../bin/.e2e.test -test.timeout 0 -test.v -test.run '^TestElastic$$/.*/chaos' >../../../bin/.storm.$$seed 2>&1 && \
			grep -q '^ *--- PASS: TestElastic/.*/chaos' ../../../bin/.storm.$$seed; then \
			echo "ok   seed $$seed: $$(grep -o 'map\[.*epochs' ../../../bin/.storm.$$seed)"; \
		else \
			echo "FAIL seed $$seed: bin/.storm.$$seed"; failed="$$failed $$seed"; \
		fi; \
	done; [ -z "$$failed" ] || { echo "failed seeds:$$failed"; exit 1; }
else
	$(GO) run ./internal/tools/elastic -n $(or $(N),3) -silent $(or $(SILENT),0) -added $(or $(ADDED),0) bin/gorun
endif

faults-resilient: build ## trainings that lose no step (.ci/torch; root): N (50) of which a rank or a host is lost, from SEED (1); or times, on an idle machine: RECOVER=50 killed ranks [SMALLER=1], COST=10 turns beside plain ones, USEFUL=10m beside torchrun and Horovod (.ci/horovod)
	$(GO) run ./internal/tools/elastic $(if $(RECOVER),-recover $(RECOVER) $(if $(SMALLER),-smaller),$(if $(COST),-cost $(COST),$(if $(USEFUL),-useful $(USEFUL) -n $(or $(N),1),-kills $(or $(N),50) -seed $(or $(SEED),1) -jobs $(or $(JOBS),1)))) bin/gorun

clean: ## remove everything that was built
	rm -rf bin lib dist
