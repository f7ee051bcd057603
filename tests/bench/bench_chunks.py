"""Chunks: what cutting and signing adds to the CPU of extraction, on real documentation sites, and how fast.

``SCRAPY_DEDUP_CORPUS=FOLDER python tests/bench/bench_chunks.py``. Each page of each site is extracted; then
all texts are cut as the pages of one host, repeated blocks found, and the chunks signed and given their
identities. That has to take a quarter of the CPU of the extraction at most. Exit code 1 when it takes more.
"""

from __future__ import annotations

import os
import sys
import tarfile
import time
from pathlib import Path

from scrapy_dedup.chunks import ChunkOptions, HostPages
from scrapy_dedup.chunks.blocks import blocks
from scrapy_dedup.chunks.keys import chunk_id, embed_key, entry_id
from scrapy_dedup.content import ExtractOptions, Payload
from scrapy_dedup.content.digest import normalized_digest, text_digest
from scrapy_dedup.content.extract import extract
from scrapy_dedup.near import simhash_batch
from scrapy_dedup.near.host_blocks import page_name

MOST = 0.25
MAX_PAGES = 120
SITES = ("3dcitydb", "httpcommand", "eip712", "multiversion")


def pages(archive: Path) -> list[tuple[str, bytes]]:
    """Return the URL and the bytes of the first pages of a site."""
    found: list[tuple[str, bytes]] = []
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".html") and len(found) < MAX_PAGES:
                file = tar.extractfile(member)
                found.append((f"https://site.example/{member.name}", file.read() if file else b""))
    return found


def extracted(found: list[tuple[str, bytes]], options: ExtractOptions) -> dict[str, str]:
    texts = {}
    for url, data in found:
        result = extract(Payload(data, "utf-8", url), options)
        if result.text is not None:
            texts[url] = result.text.text
    return texts


def chunked(texts: dict[str, str], options: ExtractOptions) -> tuple[int, int]:
    """Do what the ledger's chunks are made by; return the number of chunks and of distinct ones."""
    chunk_options = ChunkOptions()
    cutter, template, model = chunk_options.cutter, chunk_options.rendering, chunk_options.embedding
    host = HostPages()
    for url, text in texts.items():
        host.add(page_name(url), [one.key for one in blocks(text)])
    repeated = host.repeated(0.05)
    count = 0
    held: set[str] = set()
    for url, text in texts.items():
        new: dict[str, str] = {}
        for piece in cutter.cut(text, "markdown", repeated):
            said = text[piece.start : piece.end]
            embedded = template.render(said, piece.headings, title=None, url=url, language=None)
            count += 1
            chunk_id("body1-" + "0" * 32, chunk_options.policy_id, piece.start, piece.end)
            if (identity := entry_id(embedded)) not in held:
                held.add(identity)
                new[embedded] = said
        simhash_batch(list(new.values()))
        for embedded, said in new.items():
            embed_key(embedded, model)
            text_digest(said)
            normalized_digest(said)
    return count, len(held)


def main() -> int:
    corpus = os.environ.get("SCRAPY_DEDUP_CORPUS")
    if not corpus:
        print("SCRAPY_DEDUP_CORPUS names no folder with real sites: nothing was measured")
        return 0
    options = ExtractOptions()
    missed = 0
    extract(Payload(b"<p>Warm up.</p>", "utf-8", "https://site.example/"), options)
    chunked({"https://site.example/": "Warm up."}, options)
    for site in SITES:
        found = pages(Path(corpus) / "sites" / f"{site}.tar.xz")
        started = time.process_time()
        texts = extracted(found, options)
        between = time.process_time()
        count, distinct = chunked(texts, options)
        took = time.process_time() - between
        share = took / (between - started)
        size = sum(map(len, texts.values()))
        missed += share > MOST
        print(
            f"  {site:<14} {len(texts):>4} texts {size / 1e6:6.2f} MB  "
            f"chunks {count:>6,} distinct {distinct:>6,}  "
            f"{took:6.2f} s of {between - started:6.2f} s = {share:6.1%}   <= {MOST:.0%} "
            f"{'ok' if share <= MOST else 'MISSED'}",
            flush=True,
        )
    print(f"  load {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
