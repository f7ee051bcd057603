"""URLs that are wrong in every way that we know of, from a fresh seed at each run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCHEMES = [
    "http://",
    "https://",
    "HTTP://",
    "hTTps://",
    "http:",
    "http:/",
    "http:///",
    "http:\\\\",
    " https://",
    "\thttp://",
]
HOSTS = [
    "shop.example",
    "Shop.Example",
    "www.shop.example",
    "a.shop.example:8080",
    "bücher.example",
    "xn--bcher-kva.example",
    "192.0.2.1",
    "0xC0.0.2.1",
    "3221225985",
    "[2001:DB8::1]",
    "[::ffff:192.0.2.1]",
    "ex%61mple.example",
    "h",
    "h.",
    "\uff45xample.com",
    "faß.example",
    "shop.example:80",
    "shop.example:443",
    "shop.example:0080",
    "shop.example:",
    "shop。example",
    "h;jsessionid=ABC.node_1",
]
SEGMENTS = [
    "a",
    "B",
    "docs",
    "index.html",
    "Index.HTML",
    "caf%c3%a9",
    "café",
    "%7Euser",
    "~user",
    ".",
    "..",
    "%2e",
    "%2E%2e",
    "",
    "a b",
    "a;v=1",
    "x;jsessionid=0A1B.node1",
    "..;jsessionid=A",
    ";jsessionid=A",
    "(S(lit3py55t21z5v55vlm25s55))",
    "(X(1)S(lit3py55t21z5v55vlm25s55))",
    "%2F",
    "%252F",
    "%",
    "%4",
    "%%34%31",
    "a%zz",
    "%E9",
    "東京",
    "a|b",
    "[x]",
    "a'b",
    "search",
    "cart",
    "%41%42",
    "https:",
    "a\\b",
    "x%3Bjsessionid=A",
    "x;JSESSION%49D=1",
]
NAMES = [
    "a",
    "b",
    "page",
    "p",
    "sort",
    "color",
    "utm_source",
    "UTM_Medium",
    "utm%5Fterm",
    "amp;utm_source",
    "utm_zone",
    "gclid",
    "pk_campaign",
    "pk_id",
    "pk",
    "sid",
    "PHPSESSID",
    "ASPSESSIONIDQQGGQQAB",
    "CFID",
    "CFTOKEN",
    "f[0]",
    "f%5B0%5D",
    "",
    "start",
    "é",
    "a+b",
    "a%20b",
    "%",
    "s%69d",
    "?",
]
VALUES = [
    None,
    "",
    "1",
    "0",
    "x",
    "0123456789abcdef0123456789abcdef",
    "01234567%38%39abcdef0123456789abcdef.n1",
    "a=b",
    "%26",
    "%2541",
    "é",
    "a b",
    "a+b",
    "100%",
    "it's",
    "http://other.example/./x?y",
    "[1]",
    "%e9",
    "A;B",
]
FRAGMENTS = [
    None,
    "",
    "top",
    "!/item/1",
    "/item/1",
    ":~:text=x",
    "/a:~:text=x",
    "%21/x",
    "a b",
    "é",
    "%",
    ":%7E:x",
]
NOISE = [
    "%",
    "%4",
    "%34",
    "%31",
    "%2e",
    ";",
    "/",
    "//",
    "/.",
    "/..",
    "?",
    "#",
    "&",
    "&&",
    "=",
    "'",
    "[",
    "]",
    "\\",
    "\t",
    "\n",
    " ",
    "\x00",
    "\x7f",
    "é",
    "\u00ad",
    "\u3002",
    "@",
    ":",
    "|",
    "^",
    "`",
    "{",
    "<",
    '"',
    ";jsessionid=A",
    "&utm_source=x",
    "\u200d",
]


def _query(source: random.Random) -> str:
    pairs = []
    for _ in range(source.randint(0, 5)):
        value = source.choice(VALUES)
        pairs.append(source.choice(NAMES) + ("" if value is None else f"={value}"))
    return source.choice(["&", "&", "&", "&&", ";"]).join(pairs)


def make_url(source: random.Random) -> str:
    """Return a URL built of awkward parts, half of the time with noise thrown in."""
    path = "".join("/" + source.choice(SEGMENTS) for _ in range(source.randint(0, 4)))
    fragment = source.choice(FRAGMENTS) if source.random() < 0.4 else None
    query = f"?{_query(source)}" if source.random() < 0.7 else ""
    url = (
        source.choice(SCHEMES[:2] if source.random() < 0.7 else SCHEMES) + source.choice(HOSTS) + path + query
    )
    url += "" if fragment is None else f"#{fragment}"
    for _ in range(source.choice([0, 0, 1, 1, 2, 3])):
        place = source.randint(6, len(url))
        url = url[:place] + source.choice(NOISE) + url[place + source.randint(0, 2) :]
    return url


@pytest.fixture
def fuzzed_urls() -> Callable[[int], Iterator[str]]:
    """Return a function that makes so many URLs; the seed is printed, so that a failure can be repeated."""

    def make(count: int) -> Iterator[str]:
        seed = int(os.environ.get("SCRAPY_DEDUP_FUZZ_SEED") or random.SystemRandom().randrange(2**32))
        print(f"SCRAPY_DEDUP_FUZZ_SEED={seed}")
        source = random.Random(seed)
        for _ in range(count):
            yield make_url(source)

    return make


def _folder(variable: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no folder")
    return Path(os.environ[variable])


@pytest.fixture
def cases_folder() -> Path:
    """Return the folder of shared cases, or skip."""
    return _folder("SCRAPY_DEDUP_CASES")


@pytest.fixture
def corpus_folder() -> Path:
    """Return the folder of real data, or skip."""
    return _folder("SCRAPY_DEDUP_CORPUS")
