# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint type bench docs learns rivals browser cluster dist versions stranger clean

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "nesht needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e ".[plot,fused]"
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/pip install -q -c constraints.txt -e ".[docs]"
	@touch $@

## demo: a HalfCheetah with 170 noise channels learns to run, then shows which inputs it kept (about 2 minutes)
demo: $(VENV)/.core
	$(BIN)/nesht train --config examples/demo.toml --out runs/demo --overwrite
	$(BIN)/nesht inspect runs/demo --figure runs/demo/demo.png

## test: lint, types and all tests (under 10 minutes on 2 cores)
test: lint type
	$(BIN)/pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(VENV)/.dev
	$(BIN)/mypy

## bench: speed against bare physics, evotorch and the published way of working, in an environment of its own
bench:
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install -q -c constraints.txt -e . -r benchmarks/requirements.txt
	$(VENV)-bench/bin/python benchmarks/speed.py
	$(VENV)-bench/bin/python benchmarks/memory.py

## docs: build the documentation, strictly
docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

## dist: build wheel and sdist, install each into an empty environment, run the core of the demo there
dist:
	rm -rf dist $(VENV)-dist
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/pip install -q build
	$(VENV)-dist/bin/python -m build --outdir dist
	set -e; for file in dist/*.whl dist/*.tar.gz; do \
		rm -rf $(VENV)-dist && $(PYTHON) -m venv $(VENV)-dist; \
		$(VENV)-dist/bin/pip install -q -c constraints.txt "$$file[plot,fused]"; \
		$(VENV)-dist/bin/nesht train --config examples/demo.toml --steps 1_000_000 --out $(VENV)-dist/demo; \
		$(VENV)-dist/bin/nesht inspect $(VENV)-dist/demo --figure $(VENV)-dist/demo.png; \
	done

## versions: the quick tests of the core on every supported Python that is here, without extras
versions:
	set -e; for version in 3.11 3.12 3.13; do \
		if ! python$$version -c "" 2> /dev/null; then echo "Python $$version is not here"; continue; fi; \
		rm -rf $(VENV)-$$version && python$$version -m venv $(VENV)-$$version; \
		$(VENV)-$$version/bin/pip install -q -c constraints.txt -e . pytest pytest-xdist hypothesis; \
		$(VENV)-$$version/bin/pytest tests/strategy tests/policies tests/tasks tests/tuning tests/training/test_learning.py \
			tests/test_keys.py tests/test_storage.py; \
	done

## stranger: the README's path from nothing to a policy of one's own, in a fresh clone and environment, timed
stranger: $(VENV)/.core
	$(BIN)/python benchmarks/stranger.py

## browser: the report in a real browser (needs Chromium)
browser: $(VENV)/.dev
	$(BIN)/pytest -m browser -n 0 tests/browser

## cluster: real Ray nodes on this machine, killed on the way (some minutes)
cluster: $(VENV)/.dev
	$(BIN)/pytest -m cluster -n 0 tests

clean:
	rm -rf $(VENV) $(VENV)-* build dist site runs .pytest_cache .mypy_cache .ruff_cache .hypothesis

## learns: the longer proof that it learns: a piece of the paper's table, beside vanilla NES (10 minutes on 2 cores; resumable)
learns: $(VENV)/.core
	$(BIN)/nesht experiment table1 --env HalfCheetah-v4 --noise 10 --method NES ours --seeds 0-2 \
		--out runs/learns --work runs/learns-work
	$(BIN)/nesht report runs/learns --out runs/learns.html

## rivals: the longer proof that every reinforcement learner learns where nothing is hidden (half an hour on 2 cores; resumable)
rivals: $(VENV)/.dev
	$(BIN)/python benchmarks/rivals_learn.py
