"""``make demo``: crawl the site that the project serves itself and show what became of its URLs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent
LEDGER = PROJECT / "dedup.db"
FEEDS = (PROJECT / "dedup" / "observations.jsonl", PROJECT / "dedup" / "bodies.jsonl")


def main() -> int:
    """Run the crawl, print the funnel and the paths of the feeds; return the exit code."""
    print("Crawling 313 pages behind more than 20,000 URLs, served on localhost by this project.", flush=True)
    if LEDGER.exists():
        print(f"{LEDGER} is kept from an earlier run: texts that it holds are not stored again.", flush=True)
    for command in (("crawl", "demo"), ("dedup", "stats")):
        code = subprocess.run([sys.executable, "-m", "scrapy", *command], cwd=PROJECT, check=False).returncode
        if code:
            print(f"scrapy {' '.join(command)} failed with exit code {code}.", file=sys.stderr)
            return code
    print("\nLedger and feeds (one JSON record a line):")
    for path in (LEDGER, *FEEDS):
        print(f"  {path}")
    print(
        f"\nAsk about a URL:  cd {PROJECT} && scrapy dedup explain 'http://LOCALHOST:8765/shop/tools?color=red'"
    )
    print("Crawl it again, with one page changed:  scrapy crawl demo -a edition=2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
