# Two commands do everything: `make book` and `make test`. The environment lives in .venv; see README.md.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.ready
export TF_CPP_MIN_LOG_LEVEL ?= 2
# Real data files in a folder beside the checkout are used without downloading; name another folder with the variable.
BESIDE := $(abspath $(wildcard ../shared/data))
ifneq ($(BESIDE),)
export MOGP_DATA_MIRROR ?= $(BESIDE)
endif

.DEFAULT_GOAL := help
.PHONY: help book test check fuzz serve pdf lint format bench bench-peers bench-defaults bench-calibration clean distclean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or 3.12 is needed; name it with make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

book: $(STAMP)  ## set up, run every chapter in the quick profile, build the site
	$(BIN)/mogp book

test: $(STAMP) lint  ## set up, check style and types, run the tests: of a grid of cases, those that have most
	$(BIN)/python -m pytest -n 2

check: $(STAMP) lint  ## all there is: every case of every grid, 10 000 damaged files for every parser
	MOGP_FUZZ=10000 $(BIN)/python -m pytest -n 2 -m ""

fuzz: $(STAMP)  ## 10 000 damaged files for every parser of data files
	MOGP_FUZZ=10000 $(BIN)/python -m pytest -n 2 tests/datasets/formats/test_fuzz.py

serve: $(STAMP)  ## look at the built site at http://127.0.0.1:8000
	$(BIN)/mogp serve

pdf: $(STAMP)  ## the built book as one PDF (needs Chromium)
	$(BIN)/mogp pdf

lint: $(STAMP)  ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## put the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## speed against GPflow, as ratios; writes the speed page of the guide
	cd benchmarks && ../$(BIN)/python run.py --page ../chapters/guide/speed.md

PEERS := .venv-peers/.ready

$(PEERS): benchmarks/requirements-peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-peers.txt
	@touch $@

bench-peers: $(STAMP) $(PEERS)  ## speed against GPyTorch, GPy, gpar and Omikuji, in an environment of their own
	cd benchmarks && ../$(BIN)/python peers.py ../.venv-peers/bin/python
	cd benchmarks && ../$(BIN)/python labels_peer.py ../.venv-peers/bin/python
	cd benchmarks && ../$(BIN)/python gaps_peer.py ../.venv-peers/bin/python

bench-defaults: $(STAMP) $(PEERS)  ## how good default fits are: goes on with the study (hours in all), writes its page
	cd benchmarks && ../$(BIN)/python -m defaults.run
	cd benchmarks && ../$(BIN)/python -m defaults.page

bench-calibration: $(STAMP)  ## are bands honest: goes on with the study (half an hour in all), writes its page
	cd benchmarks && ../$(BIN)/python -m calibration.run
	cd benchmarks && ../$(BIN)/python -m calibration.why
	cd benchmarks && ../$(BIN)/python -m calibration.page

clean:  ## remove what was built
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache mogp/.ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean  ## also remove the environments
	rm -rf .venv .venv-peers
