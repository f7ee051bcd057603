# The two commands for everyone are `make demo` and `make test`; both set up what they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The tests start many processes, and without bytecode each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test slow lint type bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	cd example_project && ../$(BIN)/python demo.py

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not slow" -q -n auto --dist loadfile

slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow -q --timeout 1200

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(VENV)/.installed-dev
	$(BIN)/mypy

$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

# All benchmarks, or one: make bench ONLY=urls
bench: $(VENV)/.installed-bench
	@for script in tests/bench/bench_$(or $(ONLY),*).py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf example_project/dedup example_project/dedup-plan example_project/dedup.db*
