"""``make demo``: crawl the site that the project serves itself and show what became of its URLs.

Arguments of the spider follow as name=value, for example ``python demo.py edition=2``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

from scrapy_dedup.crawl.funnel import funnel

PROJECT = Path(__file__).resolve().parent
LEDGER = PROJECT / "dedup.db"
FEEDS = (PROJECT / "dedup" / "observations.jsonl", PROJECT / "dedup" / "bodies.jsonl")


def main() -> int:
    """Do what ``scrapy crawl demo`` does, then print the funnel and all paths; return the exit code."""
    os.chdir(PROJECT)
    print("Crawling 313 pages behind more than 20,000 URLs, served on localhost by this project.")
    if LEDGER.exists():
        print(f"{LEDGER} is kept from an earlier run: texts that it holds are not stored again.")
    process = CrawlerProcess(get_project_settings())
    crawler = process.create_crawler("demo")
    process.crawl(crawler, **dict(argument.split("=", 1) for argument in sys.argv[1:]))
    process.start()
    if process.bootstrap_failed or crawler.stats.get_value("finish_reason") != "finished":
        print("The crawl failed; its log above says why.", file=sys.stderr)
        return 1
    print(f"\n{funnel(crawler.stats.get_stats())}\n\nThe ledger, and the feeds with one JSON record a line:")
    for path in (LEDGER, *FEEDS):
        print(f"  {path}")
    print(f"\nTry next, in {PROJECT}:")
    # The environment need not be activated; resolving the path would leave it.
    scrapy = os.path.normpath(Path(sys.executable).with_name("scrapy"))
    print(f"  {scrapy} dedup stats")
    print(f"  {scrapy} dedup explain 'http://LOCALHOST:8765/shop/tools?color=red'")
    print(f"  {scrapy} crawl demo -a edition=2    # the same site with one page changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
