"""A compact table of digests: what a crawl has to remember about every key, at a few bytes for each.

A ``set`` of 20-byte digests costs 100 bytes an entry or more. Here the entries of a bucket stand back to back
in one ``bytes`` value, and the number of buckets grows one by one (linear hashing), so that no insertion ever
has to move more than one bucket.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

# 128 bits: that two of 10^9 keys share a digest has a probability below 10^-20. It would lose a page.
KEY_BYTES = 16

# Entries of a bucket on average: more save memory, fewer save time.
BUCKET_ENTRIES = 16


class DigestTable:
    """A multimap from keys to values of one width; with a width of 0, a set of keys.

    Keys are of any length and are hashed again, since a fingerprint of the user's need not be a good hash.

    >>> table = DigestTable(value_bytes=2)
    >>> table.add(b"key", b"v1")
    >>> table.add(b"key", b"v2")
    >>> table.values(b"key"), b"key" in table, b"other" in table, len(table)
    ([b'v1', b'v2'], True, False, 2)

    Args:
        value_bytes: the width of the values.
    """

    __slots__ = ("_buckets", "_entries", "_value_bytes", "_width")

    def __init__(self, value_bytes: int = 0) -> None:
        self._value_bytes = value_bytes
        self._width = KEY_BYTES + value_bytes
        self._entries = 0
        self._buckets = [b""]

    def __len__(self) -> int:
        return self._entries

    def __contains__(self, key: bytes) -> bool:
        digest = _digest(key)
        return next(self._places(self._buckets[self._index(digest)], digest), None) is not None

    def add(self, key: bytes, value: bytes = b"") -> None:
        """Add a value to a key, unless the key has it.

        Raises:
            ValueError: when the value has another width than that of the table.
        """
        if len(value) != self._value_bytes:
            raise ValueError(f"a value of {len(value)} bytes in a table of {self._value_bytes}")
        entry = _digest(key) + value
        index = self._index(entry)
        bucket = self._buckets[index]
        if next(self._places(bucket, entry), None) is not None:
            return
        self._buckets[index] = bucket + entry
        self._entries += 1
        if self._entries > BUCKET_ENTRIES * len(self._buckets):
            self._split()

    def values(self, key: bytes) -> list[bytes]:
        """Return the values of a key, in the order in which they were added."""
        digest = _digest(key)
        bucket = self._buckets[self._index(digest)]
        return [bucket[place + KEY_BYTES : place + self._width] for place in self._places(bucket, digest)]

    def discard(self, key: bytes) -> None:
        """Forget a key and all its values."""
        digest = _digest(key)
        index = self._index(digest)
        bucket = self._buckets[index]
        kept = [entry for entry in self._entries_of(bucket) if not entry.startswith(digest)]
        self._buckets[index] = b"".join(kept)
        self._entries -= len(bucket) // self._width - len(kept)

    def _index(self, digest: bytes) -> int:
        """Return the bucket of a digest: by as many bits as there are buckets for."""
        size = len(self._buckets)
        power = 1 << (size.bit_length() - 1)
        number = int.from_bytes(digest[:KEY_BYTES], "big") & (2 * power - 1)
        return number if number < size else number - power

    def _split(self) -> None:
        """Add a bucket and move to it what belongs there; all of that stands in one other bucket."""
        size = len(self._buckets)
        source = size - (1 << (size.bit_length() - 1))
        self._buckets.append(b"")
        stay: list[bytes] = []
        move: list[bytes] = []
        for entry in self._entries_of(self._buckets[source]):
            (stay if self._index(entry) == source else move).append(entry)
        self._buckets[source] = b"".join(stay)
        self._buckets[size] = b"".join(move)

    def _entries_of(self, bucket: bytes) -> Iterator[bytes]:
        return (bucket[place : place + self._width] for place in range(0, len(bucket), self._width))

    def _places(self, bucket: bytes, start: bytes) -> Iterator[int]:
        """Yield where the entries with a given start stand; matches across entries are none."""
        place = bucket.find(start)
        while place >= 0:
            if not place % self._width:
                yield place
            place = bucket.find(start, place + 1)


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=KEY_BYTES, person=b"digest-table-1").digest()
