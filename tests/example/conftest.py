"""The example project, importable and as a copy to run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

EXAMPLE_PROJECT = Path(__file__).parents[2] / "example_project"

sys.path.insert(0, str(EXAMPLE_PROJECT))


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the example project, without what crawls left in the original."""
    target = tmp_path_factory.mktemp("project") / "example_project"
    shutil.copytree(
        EXAMPLE_PROJECT, target, ignore=shutil.ignore_patterns("dedup", "dedup-*", "dedup.db*", "__pycache__")
    )
    return target
