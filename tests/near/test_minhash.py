"""MinHash: stored values that never change, an estimate as good as theory says, datasketch's form."""

from __future__ import annotations

import hashlib
import math
import random
import shutil
import subprocess
import time

import numpy as np
import pytest
from datasketch import MinHashLSH
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near.minhash import (
    EMPTY,
    PERMUTATIONS,
    SCHEME,
    as_datasketch,
    minhash,
    minhash_batch,
    signatures,
    similarity,
)
from scrapy_dedup.near.shingles import mix

TEXT = "The ferry leaves the harbour at nine, and the winter timetable holds until the end of March."

# text: first two values of its signature, and the start of the SHA-256 of all of them in little endian
GOLDEN = {
    TEXT: (1136807050, 253368500, "5e30fe08497e969f"),
    "渡し船は九時に港を出る": (651293110, 48757095, "416d09d812c7d224"),
    "one": (924780055, 749481858, "61e1e07352d651b7"),
}


def digest(signature):
    return hashlib.sha256(signature.astype("<u4").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("text", GOLDEN)
def test_a_signature_never_changes(text):
    signature = minhash(text)

    assert (*signature[:2].tolist(), digest(signature)) == GOLDEN[text]
    assert SCHEME == "minhash128-w3-1"


@given(st.lists(st.text(max_size=40), max_size=8))
def test_a_batch_gives_the_values_of_its_texts_one_by_one(texts):
    batch = minhash_batch(texts)

    assert batch.shape == (len(texts), PERMUTATIONS)
    assert all((row == minhash(text)).all() for row, text in zip(batch, texts, strict=True))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50), st.randoms())
def test_order_and_repeats_of_shingles_do_not_matter(values, source):
    other = values + source.choices(values, k=5)
    source.shuffle(other)
    hashes = np.array([*values, *other], np.uint64)

    first, second = signatures(hashes, np.array([0, len(values), len(hashes)]))

    assert (first == second).all()
    assert similarity(first, second) == 1.0


def test_texts_of_more_shingles_than_one_block_are_signed_as_alone():
    source = random.Random(5)
    texts = [
        " ".join(source.choices(["oak", "elm", "ash", "fir", "yew"], k=size)) for size in (50_000, 3, 40_000)
    ]

    assert all((row == minhash(text)).all() for row, text in zip(minhash_batch(texts), texts, strict=True))


@pytest.mark.parametrize("text", ["", " \n ", "... !"], ids=["empty", "spaces", "punctuation"])
def test_a_text_without_tokens_is_similar_to_nothing(text):
    signature = minhash(text)

    assert (signature == EMPTY).all()
    assert similarity(signature, signature) == 0.0
    assert similarity(signature, minhash(TEXT)) == 0.0


def test_the_estimate_is_as_good_as_theory_allows():
    errors, variances = [], []
    for trial in range(600):
        source = random.Random(trial)
        shared = source.randint(0, 300)
        draws = [source.getrandbits(64) for _ in range(600 - shared)]
        sets = draws[:300], [*draws[:shared], *draws[300:]]
        hashes = mix(np.array([*sets[0], *sets[1]], np.uint64))
        jaccard = shared / (600 - shared)
        errors.append(similarity(*signatures(hashes, np.array([0, 300, 600]))) - jaccard)
        variances.append(jaccard * (1 - jaccard) / PERMUTATIONS)

    spread = math.sqrt(sum(error * error for error in errors) / sum(variances))
    assert 0.9 <= spread <= 1.1
    assert abs(sum(errors) / len(errors)) <= 0.005


@pytest.fixture
def redis_storage(tmp_path):
    """Start a Redis server that answers on a socket file alone, and return how datasketch finds it."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed")
    socket = tmp_path / "redis"
    options = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path))
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        yield {"type": "redis", "basename": b"texts", "redis": {"unix_socket_path": str(socket)}}
    finally:
        server.terminate()
        server.wait(20)


def test_datasketch_finds_what_was_signed_here():
    words = TEXT.split()
    near = " ".join([*words[:8], "but", *words[9:]])
    assert found_by_datasketch(None) == [["first"], []]
    ours = similarity(minhash(TEXT), minhash(near))
    assert as_datasketch(minhash(TEXT)).jaccard(as_datasketch(minhash(near))) == ours


def test_an_index_of_datasketch_in_redis_holds_our_signatures(redis_storage):
    assert found_by_datasketch(redis_storage) == [["first"], []]


def found_by_datasketch(storage):
    """Return what an index of datasketch finds for a text that it holds, and for one that is like none."""
    granite, seagulls = (
        "Granite from the quarry is cut in the yard behind the station.",
        "Seagulls rest on the rails of the upper deck until noon.",
    )
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(25, 5), storage_config=storage)
    for name, text in (("first", TEXT), ("other", granite)):
        index.insert(name, as_datasketch(minhash(text)))
    return [index.query(as_datasketch(minhash(text))) for text in (TEXT, seagulls)]
