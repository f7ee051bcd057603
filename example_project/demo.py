"""``make demo``: crawl the site that the project serves itself, plan an index of its texts and ask that.

Arguments of the spider follow as name=value, for example ``python demo.py edition=2``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ask
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

from scrapy_dedup.crawl.funnel import funnel

PROJECT = Path(__file__).resolve().parent
LEDGER = PROJECT / "dedup.db"
FEEDS = PROJECT / "dedup"
PLAN = PROJECT / "dedup-plan" / "plan.jsonl"


def main() -> int:
    """Do what ``scrapy crawl demo`` does, then what an index gains by it; return the exit code."""
    os.chdir(PROJECT)
    print("Crawling 325 pages behind more than 20,000 URLs, served on localhost by this project.")
    if LEDGER.exists():
        print(f"{LEDGER} is kept from an earlier run: texts that it holds are not stored again.")
    process = CrawlerProcess(get_project_settings())
    crawler = process.create_crawler("demo")
    process.crawl(crawler, **dict(argument.split("=", 1) for argument in sys.argv[1:]))
    process.start()
    if process.bootstrap_failed or crawler.stats.get_value("finish_reason") != "finished":
        print("The crawl failed; its log above says why.", file=sys.stderr)
        return 1
    print(f"\n{funnel(crawler.stats.get_stats())}")
    # The index of the example is made anew each time, so its plan has everything: --rebuild.
    planning = ("dedup", "plan", "--rebuild")
    print("\nWhat an index has to hold, by scrapy", *planning, flush=True)
    if subprocess.run([sys.executable, "-m", "scrapy", *planning], check=False).returncode != 0:
        return 1
    ask.main(ask.QUESTIONS)
    _tell_what_is_next()
    return 0


def _tell_what_is_next() -> None:
    print("\nThe ledger, and the files with one JSON record a line:")
    for path in (LEDGER, *(FEEDS / f"{name}.jsonl" for name in ("observations", "bodies", "chunks")), PLAN):
        print(f"  {path}")
    with PLAN.open(encoding="utf-8") as lines:
        plan_id = json.loads(next(lines))["plan_id"]
    print(f"\nTry next, in {PROJECT}:")
    # The environment need not be activated; resolving the path would leave it.
    python = os.path.normpath(sys.executable)
    scrapy = os.path.normpath(Path(sys.executable).with_name("scrapy"))
    print(f"  {python} ask.py 'Where is the serial number stamped?'")
    print(f"  {scrapy} dedup stats")
    print(f"  {scrapy} dedup explain 'http://LOCALHOST:8765/shop/tools?color=red'")
    print(f"  {scrapy} dedup plan --applied {plan_id}")
    print(f"  {scrapy} crawl demo -a edition=2    # the same site with one page changed,")
    print(f"  {scrapy} dedup plan                 # what that changes in the index,")
    print(f"  {python} ask.py                     # and the index with that plan applied")


if __name__ == "__main__":
    sys.exit(main())
