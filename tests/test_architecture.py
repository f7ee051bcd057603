"""Imports point one way, and only the shell knows Scrapy."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("scrapy_dedup").origin).parent

# A layer may import itself and the layers before it. The process that extracts a text also signs it, so the
# signatures of near/ come before content/.
LAYERS = [
    "records",
    "errors",
    "urls",
    "near",
    "content",
    "chunks",
    "retrieval",
    "config",
    "ledger",
    "batch",
    "jobs",
    "crawl",
]
SHELL = "crawl"
FRAMEWORK = {"scrapy", "twisted", "itemadapter"}
DATABASES = {"sqlite3", "psycopg", "sqlalchemy", "alembic"}
WORLD = {"socket", "subprocess", "multiprocessing", "time", "random", "secrets"}

# Extraction runs in processes of its own, which is why the pool, and only the pool, knows the world outside.
WORLDLY = {"content/pool.py", "content/worker.py"}


def imported(path: Path) -> Iterator[str]:
    package = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def modules(layer: str) -> list[Path]:
    return sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_to_earlier_layers_only(layer):
    later = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules(layer)
        for name in imported(path)
        if name.startswith("scrapy_dedup.") and name.split(".")[1] in later
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer != SHELL])
def test_only_the_shell_knows_scrapy(layer):
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules(layer)
        for name in imported(path)
        if name.partition(".")[0] in FRAMEWORK
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", ["records", "errors", "urls", "content", "near", "chunks", "config"])
def test_layers_before_the_ledger_touch_no_database_socket_or_process(layer):
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules(layer)
        if path.relative_to(PACKAGE).as_posix() not in WORLDLY
        for name in imported(path)
        if name.partition(".")[0] in DATABASES | WORLD
    ]
    assert wrong == []


def test_every_layer_is_listed():
    found = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} == set(LAYERS)


def test_reading_a_ledger_and_deciding_about_a_url_load_no_scrapy():
    code = "import sys; from scrapy_dedup import Ledger, UrlPolicy; sys.exit('scrapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
