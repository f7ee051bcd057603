"""Policy speed against w3lib and courlan: ``python tests/bench/bench_urls.py``.

All candidates see the same fresh URLs: each repetition generates its own, so that remembering whole URLs
would not help. They take turns in chunks of 1,000, so that a slow moment of the machine meets all of them;
process CPU time is counted, and the best of three repetitions is kept. The ratios of one run are what counts;
microseconds differ between machines.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote

import courlan
from w3lib.url import canonicalize_url

from scrapy_dedup.urls import UrlPolicy

WORDS = [
    "shoe",
    "run",
    "trail",
    "light",
    "pro",
    "max",
    "kids",
    "men",
    "women",
    "blue",
    "red",
    "new",
    "sale",
    "guide",
    "how",
    "to",
    "best",
    "review",
    "api",
    "index",
    "install",
    "user",
    "admin",
    "data",
    "model",
    "cloud",
    "price",
    "test",
    "city",
    "bank",
    "game",
    "film",
]
TERMS = ["café", "München", "東京", "Москва", "naïve", "Δέλτα", "القاهرة"]
SUFFIXES = ["com", "org", "de", "co.uk", "io", "fr", "net"]
CHUNK = 1_000
REPETITIONS = 3
REQUIRED = {"generated": {"w3lib": 4.0, "courlan": 4.0}, "documentation": {"w3lib": 6.0}}


class Web:
    """A made-up web of 300 hosts with the popularity of Zipf's law."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        fixed = random.Random(7)  # hosts stay, URLs change
        self.hosts = [
            fixed.choice(["www.", "", "shop.", "docs.", "news.", "m.", "blog."])
            + f"{fixed.choice(WORDS)}{fixed.choice(WORDS)}{number}.{fixed.choice(SUFFIXES)}"
            for number in range(300)
        ]
        self.weights = [1 / (rank + 1) for rank in range(300)]

    def slug(self, words: int) -> str:
        return "-".join(self.random.choice(WORDS) for _ in range(words))

    def hexadecimal(self, digits: int) -> str:
        return "".join(self.random.choice("0123456789abcdef") for _ in range(digits))

    def number(self, below: int) -> int:
        return self.random.randint(1, below)

    def base(self) -> str:
        scheme = "https" if self.random.random() < 0.85 else "http"
        return f"{scheme}://{self.random.choices(self.hosts, self.weights)[0]}"

    def campaign(self) -> list[str]:
        choice = self.random.choice
        names = [
            f"utm_source={choice(['newsletter', 'twitter', 'google'])}",
            f"utm_medium={choice(['email', 'cpc', 'social'])}",
            f"utm_campaign={self.slug(3)}",
        ]
        return names[: self.number(3)]

    def click(self) -> list[str]:
        return [
            self.random.choice(
                [
                    f"gclid=Cj0KCQjw{self.hexadecimal(40)}",
                    f"fbclid=IwAR{self.hexadecimal(50)}",
                    f"msclkid={self.hexadecimal(32)}",
                    f"mc_cid={self.hexadecimal(10)}&mc_eid={self.hexadecimal(10)}",
                    f"_ga=2.{self.number(10**9)}",
                    f"igshid={self.hexadecimal(12)}",
                ]
            )
        ]

    def facets(self) -> str:
        choice = self.random.choice
        known = [
            f"color={choice(['red', 'blue', 'black'])}",
            f"size={self.number(47)}",
            f"sort={choice(['price_asc', 'new', 'rating'])}",
            f"page={self.number(40)}",
            f"brand={choice(WORDS)}",
            f"price={self.number(50)}-{self.number(300)}",
            f"q={choice(WORDS)}+{choice(WORDS)}",
            f"filter%5Bmat%5D={choice(WORDS)}",
            f"id={self.number(99_999)}",
        ]
        found = self.random.sample(known, self.random.randint(0, 5))
        found += self.campaign() if self.random.random() < 0.25 else []
        found += self.click() if self.random.random() < 0.15 else []
        self.random.shuffle(found)
        return f"{self.base()}/{self.slug(1)}/{self.slug(2)}{_query(found)}"

    def documentation(self) -> str:
        version = self.random.choice(["en", "stable", "latest", "v2.1", "3.12"])
        anchor = f"#{self.slug(2)}" if self.random.random() < 0.4 else ""
        return f"{self.base()}/{version}/{self.slug(1)}/{self.slug(2)}-{self.number(9999)}.html{anchor}"

    def news(self) -> str:
        date = f"{self.random.randint(2005, 2026)}/{self.number(12):02d}/{self.number(28):02d}"
        found = self.campaign() if self.random.random() < 0.35 else []
        found += self.click() if self.random.random() < 0.15 else []
        return f"{self.base()}/{date}/{self.slug(6)}{self.random.choice(['/', '', '.html'])}{_query(found)}"

    def session(self) -> str:
        base = self.base()
        return self.random.choice(
            [
                f"{base}/viewtopic.php?f={self.number(40)}&t={self.number(99_999)}&sid={self.hexadecimal(32)}",
                f"{base}/shop/item;jsessionid={self.hexadecimal(32).upper()}?id={self.number(9999)}",
                f"{base}/index.php?PHPSESSID={self.hexadecimal(32)}&id={self.number(9999)}",
                f"{base}/showthread.php?t={self.number(99_999)}&page={self.number(9)}",
            ]
        )

    def unicode(self) -> str:
        term = f"{self.random.choice(TERMS)}_{self.random.choice(WORDS)}{self.number(999)}"
        term = self.random.choice([term, quote(term), quote(term).lower()])
        title = f"?title={quote(self.random.choice(TERMS))}" if self.random.random() < 0.3 else ""
        return f"{self.base()}/wiki/{term}{title}"

    def plain(self) -> str:
        base = self.base()
        return self.random.choice(
            [
                f"{base}/{self.slug(2)}/{self.number(9999)}",
                f"{base}/{self.slug(1)}/{self.slug(3)}/",
                f"{base}/~{self.random.choice(WORDS)}/{self.number(999)}",
                f"{base}/p/{self.number(10**6)}",
            ]
        )

    def odd(self) -> str:
        base = self.base()
        scheme, _, host = base.partition("://")
        path = f"{self.slug(1)}/{self.slug(2)}{self.number(999)}"
        return self.random.choice(
            [
                f"HTTP://{host.upper()}/{path}",
                f"{base}:{443 if scheme == 'https' else 80}/{path}",
                f"{base}:8080/{path}",
                f"http://u:p@{host}/{path}",
                f"{base}/a/../{path}",
                f"{base}/./{path}",
                f"{base}//{path}",
                f"{base}/%7E{path}",
                f"{base}/{path} x",
                f"{base}./{path}",
                f" {base}/{path}\n",
            ]
        )

    def foreign(self) -> str:
        path = f"{self.slug(2)}{self.number(9999)}"
        return self.random.choice(
            [
                f"https://bücher{self.number(40)}.de/{path}",
                f"http://xn--bcher{self.number(40)}-kva.de/{path}",
                f"http://[2001:DB8::{self.number(99):x}]/{path}",
                f"http://192.0.2.{self.number(99)}/{path}",
                f"{self.base()}/{path}%",
                f"{self.base()}/{path}?q=100%&x=%zz",
                f"mailto:{path}@example.com",
            ]
        )

    def anything(self) -> str:
        kinds = [
            self.facets,
            self.documentation,
            self.news,
            self.session,
            self.unicode,
            self.plain,
            self.odd,
            self.foreign,
        ]
        return self.random.choices(kinds, [25, 15, 20, 10, 10, 10, 6, 4])[0]()


def _query(parameters: list[str]) -> str:
    return f"?{'&'.join(parameters)}" if parameters else ""


def distinct(make: Callable[[], str], count: int) -> list[str]:
    """Return so many different URLs."""
    urls: dict[str, None] = {}
    while len(urls) < count:
        urls[make()] = None
    return list(urls)


def host_rules(hosts: Iterable[str]) -> dict[str, dict[str, object]]:
    """Return 400 host rules: for two of three of the 300 hosts, and for 200 hosts that never come."""
    kinds: list[dict[str, object]] = [
        {"drop": ["sort", "brand"]},
        {"allow": ["id", "q", "t", "f", "title"]},
        {"facets": ["color", "size", "price"], "keep": ["ref"]},
        {"trailing_slash": "keep"},
        {"www_alias": True},
    ]
    named = [host for rank, host in enumerate(hosts) if rank % 3] + [
        f"never{number}.example" for number in range(200)
    ]
    return {host: kinds[number % len(kinds)] for number, host in enumerate(named)}


def measure(
    make: Callable[[int], list[str]], candidates: dict[str, Callable[[str], object]], seed: int
) -> dict[str, float]:
    """Return the best CPU time of each candidate, in microseconds for each URL."""
    best = dict.fromkeys(candidates, float("inf"))
    order = list(candidates.items())
    for repetition in range(REPETITIONS):
        urls = make(seed + repetition)
        spent = dict.fromkeys(candidates, 0.0)
        for start in range(0, len(urls), CHUNK):
            chunk = urls[start : start + CHUNK]
            order = order[1:] + order[:1]  # nobody is always the first to touch a URL
            for name, candidate in order:
                began = time.process_time()
                for url in chunk:
                    try:
                        candidate(url)
                    except ValueError:  # w3lib refuses some URLs
                        continue
                spent[name] += time.process_time() - began
        best = {name: min(best[name], spent[name] / len(urls) * 1e6) for name in candidates}
    return best


def main(count: int, seed: int) -> int:
    """Print the ratios; return 1 if one is below what is required."""
    policy = UrlPolicy.preset("standard", hosts=host_rules(Web(seed).hosts))
    candidates = {
        "scrapy_dedup": policy.decide,
        "w3lib": canonicalize_url,
        "courlan": courlan.clean_url,
    }
    kinds = {"generated": lambda web: web.anything, "documentation": lambda web: web.documentation}
    failed = False
    print(f"seed {seed}, {count} URLs, 400 host rules")
    for kind, maker in kinds.items():
        times = measure(lambda seed, maker=maker: distinct(maker(Web(seed)), count), candidates, seed)
        for name, microseconds in times.items():
            ratio = microseconds / times["scrapy_dedup"]
            required = REQUIRED[kind].get(name)
            failed |= required is not None and ratio < required
            wanted = "" if required is None else f" (required {required:.0f}x)"
            print(f"{kind:14} {name:13} {microseconds:7.2f} us/URL  {ratio:5.2f}x{wanted}")
    return int(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    raise SystemExit(main(options.count, options.seed))
