"""What retrieval leans on, and that the README tells how it is used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scrapy_dedup.retrieval
from scrapy_dedup.records import to_dict

from .conftest import section

PACKAGE = Path(scrapy_dedup.retrieval.__file__).parent
README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("name", ["hits", "repetition"])
def test_the_comparison_of_hits_is_pure_and_knows_near_alone(name):
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    ours = {module for module in imported if module.startswith("scrapy_dedup")}
    assert {
        module for module in ours if not module.startswith(("scrapy_dedup.near", "scrapy_dedup.retrieval"))
    } == set()
    assert imported.isdisjoint({"pathlib", "os", "time", "random"})


def test_no_framework_is_loaded_unless_it_is_asked_for():
    code = (
        "import sys, scrapy_dedup.retrieval;"
        "sys.exit(not {'langchain_core', 'llama_index', 'haystack', 'scrapy'}.isdisjoint(sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_langchain_lines_of_the_readme_run(site, embedder, tmp_path, monkeypatch):
    pytest.importorskip("langchain_core")
    from langchain_core.embeddings import Embeddings

    class Words(Embeddings):
        def embed_documents(self, texts):
            return [embedder.embed(text) for text in texts]

        def embed_query(self, text):
            return embedder.embed(text)

    (code,) = re.findall(
        r"```python\n(from langchain_core.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    )
    site.crawl({"/a": section("Alpha", "Bread"), "/b": section("Alpha", "Bread")})
    (tmp_path / "dedup-plan").mkdir()
    lines = "".join(json.dumps(to_dict(one)) + "\n" for one in site.plan())
    (tmp_path / "dedup-plan" / "plan.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    names = {"embeddings": Words()}
    exec(compile(code, "README", "exec"), names)

    (passage,) = names["passages"]
    assert passage.metadata["url"] == "https://site.example/a"
    assert passage.metadata["also_seen_at"] == ["https://site.example/b"]
    assert names["applied"].upserted == 1
