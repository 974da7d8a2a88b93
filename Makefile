# A thin front to CMake, ctest and pytest. `make` sets up and builds; see README.md and CONTRIBUTING.md.
PYTHON := .venv/bin/python
JOBS ?= $(shell nproc)
export THALWEG_BIN ?= $(CURDIR)/build/bin
# Share of each random campaign's full size: make test runs a tenth, make soak all of it.
SCALE ?= 0.1

.PHONY: all setup build bridge wheel jvm test ctest pytest soak demo demo-lance bench lint format sanitize fuzz install clean

all: build bridge

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release -Wno-dev > build.log 2>&1 || cmake --fresh --preset release -Wno-dev > build.log 2>&1 || { cat build.log; exit 1; }
	@mkdir -p build && mv build.log build/configure.log
	@cmake --build build --parallel $(JOBS)

# After the build, so that Iceberg works while the crates are compiled.
bridge: build
	@tools/bridge.sh

# The Python package, build/dist/thalweg-*.whl.
wheel: build bridge
	@tools/wheel.sh

# What the tests with Spark and a REST catalog run on.
jvm: setup
	@tools/jvm.sh

# Both halves at once, each as long as the other; what they print comes at their ends.
test: build bridge jvm
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going ctest pytest

# Half of the tests: the unit tests, short runs of the fuzzers, what runs on the JVM.
ctest:
	@MAKEFLAGS= THALWEG_CAMPAIGN_SCALE=$(SCALE) ctest --test-dir build --output-on-failure --parallel $(JOBS) --label-exclude soak

# The other half: the program, the package, other engines.
pytest:
	@MAKEFLAGS= THALWEG_CAMPAIGN_SCALE=$(SCALE) $(PYTHON) -m pytest -q test

soak: build bridge jvm
	@ctest --test-dir build --output-on-failure --parallel $(JOBS)
	@THALWEG_CAMPAIGN_SCALE=1 $(PYTHON) -m pytest -q -s test -m "campaign"

demo: build
	@$(PYTHON) tools/demo.py

demo-lance: build bridge
	@$(PYTHON) tools/demo_lance.py

bench: setup bridge
	@cmake --preset benchmark -Wno-dev > /dev/null && cmake --build build --parallel $(JOBS)
	@build/bin/thalweg_key_benchmark --benchmark_min_time=0.02
	@$(PYTHON) benchmark/quality.py
	@$(PYTHON) benchmark/upkeep.py
	@$(PYTHON) benchmark/run.py
	@$(PYTHON) benchmark/python_overhead.py
	@build/bin/thalweg-layout-benchmark
	@$(PYTHON) benchmark/overlap_growth.py

lint: build
	@tools/lint.sh

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format-16 -i
	@.venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

sanitize: setup
	@tools/sanitize.sh

fuzz: build
	@tools/fuzz.sh

install: build
	@cmake --install build

clean:
	@rm -rf build build-wheel
