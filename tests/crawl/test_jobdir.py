"""A crawl that is paused and resumed is one job; a key that failed before the pause frees its variants."""

from __future__ import annotations

import re

import pytest

from scrapy_dedup.crawl.jobdir import FILE_NAME, read_job_id, write_job_id

from .conftest import read_ledger
from .server import NOT_FOUND, page

SPIDER = """
import scrapy


class Steps(scrapy.Spider):
    name = "steps"
    custom_settings = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 3}

    async def start(self):
        yield scrapy.Request(self.base + "/")

    def parse(self, response):
        yield from response.follow_all(css="a")
"""
ROUTES = {
    "/": page("index", ["/f/", "/1"]),
    "/f/": NOT_FOUND,
    "/1": page("first", ["/2"]),
    "/2": page("second", ["/3"]),
    "/3": page("third", ["/f"]),
    "/f": page("behind the failure"),
}


@pytest.mark.slow
def test_a_variant_found_after_the_pause_gets_its_turn(serve, project):
    made = project({"shop/spiders/steps.py": SPIDER})
    server = serve(ROUTES)
    ends: list[str] = []
    while "finished" not in ends and len(ends) < 6:
        code, log = made.scrapy(
            "crawl", "steps", "-a", f"base={server.base}", "-s", "JOBDIR=job", WITH_DEDUP="1"
        )
        assert code == 0, log
        ends += re.findall(r"Spider closed \((\w+)\)", log)

    seen = read_ledger(made.folder / "dedup.db")

    assert len(ends) > 1
    assert ends[-1] == "finished"
    assert len(seen.bodies_of("behind the failure")) == 1
    assert len({observation.job_id for observation in seen.observations}) == 1


def test_the_job_of_a_folder_is_read_back(tmp_path):
    write_job_id(tmp_path / "new", "j1", spider="s", corpus="c")

    assert read_job_id(tmp_path / "new", spider="s", corpus="c") == "j1"
    assert read_job_id(tmp_path / "new", spider="other", corpus="c") is None
    assert read_job_id(tmp_path / "new", spider="s", corpus="other") is None


@pytest.mark.parametrize(
    "held", ["", "{", "[]", '{"job_id": 3}', '{"spider": "s", "corpus": "c", "job_id": ""}']
)
def test_a_torn_or_foreign_file_names_no_job(tmp_path, held):
    (tmp_path / FILE_NAME).write_text(held)

    assert read_job_id(tmp_path, spider="s", corpus="c") is None
