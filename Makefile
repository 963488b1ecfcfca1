# The commands of the house; cmake and ninja do the work. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install-deps build program python environment browser wheel demo test test-long test-long-python asan coverage fuzz bench bench-peers bench-python compare-builds format format-check ruff lint lint-all docs docs-images docs-outputs clean

JOBS ?= $(shell nproc)
# SECONDS is a variable of bash, too, which may stand in the environment: only the command line counts.
FUZZ_SECONDS = $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60)
SOURCES = $(shell find include src apps python tests bench fuzz -name '*.h' -o -name '*.cc')
# Repeated builds are cached where ccache is installed.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros# what ccache asks for where headers are precompiled
WITH_CCACHE = $(if $(shell command -v ccache),CMAKE_CXX_COMPILER_LAUNCHER=ccache)

# The environment that builds and tests the Python package.
PYTHON_ENVIRONMENT := build/python-env
PYTHON := $(PYTHON_ENVIRONMENT)/bin/python
PYTHON_SOURCES := python tests examples bench
# What writes and lints text.
DOCS_ENVIRONMENT := build/docs-env

DEMO_MODEL := mlperf-dlrm-dcnv2
DEMO_TOPOLOGY := dgx-h100:2
DEMO_PLAN := build/demo/plan.json

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install-deps:  ## install missing Debian packages (as root, or by sudo)
	@scripts/install_deps.sh

build: install-deps  ## build everything, optimised, into build/ (programs in build/bin)
	$(WITH_CCACHE) cmake --preset release
	cmake --build --preset release --parallel $(JOBS)

program: install-deps  ## build the command-line program only, build/bin/plimsoll
	$(WITH_CCACHE) cmake --preset release
	cmake --build --preset release --target plimsoll --parallel $(JOBS)

environment: install-deps  ## make the Python environment of the package and its tests, build/python-env
	scripts/make_python_environment.sh $(PYTHON_ENVIRONMENT)

browser: install-deps  ## install Chromium, in which the tests open pages of plimsoll report
	@scripts/install_deps.sh browser

python: build environment  ## build the Python package's extension, into build/python
	cmake --preset release -DPLIMSOLL_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
	cmake --build --preset release --target plimsoll_python --parallel $(JOBS)

wheel: environment  ## build a wheel that needs no library of the system, into build/dist, and try it in a clean environment
	scripts/make_wheel.sh $(PYTHON) build/dist

demo: program  ## plan MLPerf DLRM-DCNv2 on two DGX H100 and check the plan
	mkdir -p $(dir $(DEMO_PLAN))
	build/bin/plimsoll shard $(DEMO_MODEL) --on $(DEMO_TOPOLOGY) --batch-size 4096 -o $(DEMO_PLAN) --stats-file build/demo/stats.txt > build/demo/summary.txt
	build/bin/plimsoll check $(DEMO_MODEL) $(DEMO_PLAN) --on $(DEMO_TOPOLOGY)
	@echo "The plan is $(DEMO_PLAN), TorchRec's statistics of it are build/demo/stats.txt."
	@echo
	@cat build/demo/summary.txt

# Packages are fetched while the compiler works.
test: install-deps  ## run every test but the long ones
	$(MAKE) -j 2 build environment browser
	$(MAKE) python
	ctest --test-dir build -LE long --output-on-failure --no-tests=error --parallel $(JOBS)
	PYTHONPATH=build/python $(PYTHON) -m pytest -q -n $(JOBS)

test-long-python: python  ## run the long tests of the Python package
	PYTHONPATH=build/python $(PYTHON) -m pytest -q -m long -n $(JOBS)

test-long: build asan fuzz test-long-python  ## run the long tests, all else under the sanitizers, the fuzz targets, and every benchmark briefly
	ctest --test-dir build -L long --output-on-failure --parallel $(JOBS)
	$(MAKE) bench bench-peers bench-python QUICK=1

fuzz:  ## fuzz every reader and command under the sanitizers, SECONDS=60 each (TARGETS="model plan": only these)
	@scripts/install_deps.sh fuzz
	$(WITH_CCACHE) cmake --preset fuzz
	cmake --build --preset fuzz --target plimsoll-fuzz --parallel $(JOBS)
	fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(JOBS) $(TARGETS)

asan: install-deps  ## build and test with the address and undefined-behaviour sanitizers, in build/asan
	$(WITH_CCACHE) cmake --preset asan
	cmake --build --preset asan --parallel $(JOBS)
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/leaks.supp ctest --test-dir build/asan -LE long --output-on-failure --no-tests=error --parallel $(JOBS)

# What earlier runs counted is thrown away first.
coverage:  ## what the tests reach of every folder of src, in build/coverage; fails where that is too little
	@scripts/install_deps.sh coverage
	$(WITH_CCACHE) cmake --preset coverage
	cmake --build --preset coverage --parallel $(JOBS)
	find build/coverage -name '*.gcda' -delete
	ctest --test-dir build/coverage -LE long --output-on-failure --no-tests=error --parallel $(JOBS)
	/usr/bin/python3 scripts/coverage.py build/coverage $(JOBS)

# QUICK=1: whether the benchmarks below run at all, on the smallest cases.
bench: install-deps  ## build and run the benchmarks, in build/bench
	$(WITH_CCACHE) cmake --preset bench
	cmake --build --preset bench --parallel $(JOBS)
	scripts/run_benches.sh build/bench/bin $(if $(QUICK),quick)

bench-peers: build  ## the peers' own planners and ours in one run (installs them from PyPI into build/peers)
	scripts/make_peer_environment.sh build/peers
	build/peers/bin/python bench/embedding/torchrec_peer.py build/bin/plimsoll $(if $(QUICK),--quick)
	build/peers/bin/python bench/checkpoint/torch_peer.py build/bin/plimsoll $(if $(QUICK),--quick)
	$(WITH_CCACHE) cmake --preset bench
	cmake --build --preset bench --target tight_bench --parallel $(JOBS)
	build/peers/bin/python bench/embedding/tight_peer.py build/bench/bin/tight_bench $(if $(QUICK),--quick)

bench-python: build python  ## the Python planner beside TorchRec's own, steps of both plans on two ranks, pipeline stages
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/torchrec_planner.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/torchrec_seeds.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/torchrec_settings.py $(if $(QUICK),--quick,--all)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/published_steps.py
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/step_charges.py build/step_model.json $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/torchrec_steps.py --steps 100 --machine build/step_model.json $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/graphs/balanced_stages.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/embedding/resident_memory.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/checkpoint/step_times.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/checkpoint/profile_time.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/checkpoint/compiled_peaks.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/checkpoint/knapsack_peaks.py $(if $(QUICK),--quick)
	PYTHONPATH=build/python $(PYTHON) -W ignore bench/checkpoint/extra_times.py $(if $(QUICK),--quick)

compare-builds: install-deps  ## do GCC and Clang, debug and release make the same plans?
	scripts/compare_builds.sh build/compare $(JOBS)

format: install-deps  ## format the C++ sources in place
	@clang-format-14 -i $(SOURCES)

format-check: install-deps  ## fail where `make format` would change something
	@clang-format-14 --dry-run --Werror $(SOURCES)

ruff: install-deps  ## run ruff over Python
	scripts/make_docs_environment.sh $(DOCS_ENVIRONMENT)
	$(DOCS_ENVIRONMENT)/bin/ruff check $(PYTHON_SOURCES)
	$(DOCS_ENVIRONMENT)/bin/ruff format --check $(PYTHON_SOURCES)

lint: ruff  ## run ruff over Python, and clang-tidy over what changed since main (on main: in the last commit)
	cmake --preset lint
	scripts/lint.sh build/lint $(JOBS)

lint-all: ruff  ## run ruff over Python, and clang-tidy over all of src and apps
	cmake --preset lint
	scripts/lint.sh build/lint $(JOBS) all

docs: build  ## build the documentation as a site, into build/site; fails where a link leads nowhere
	scripts/make_docs_environment.sh $(DOCS_ENVIRONMENT)
	NO_MKDOCS_2_WARNING=1 $(DOCS_ENVIRONMENT)/bin/mkdocs build --strict --quiet
	@echo "The site lies in build/site."

docs-images: program environment browser  ## draw the pictures of README and docs again
	$(PYTHON) scripts/make_screenshots.py build/bin/plimsoll docs/images

docs-outputs: build  ## write what the commands of README.md and docs print now into these pages
	/usr/bin/python3 tests/docs/docs_test.py build/bin/plimsoll . --write-outputs

clean:  ## remove build/
	rm -rf build
