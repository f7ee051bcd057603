"""The identities of chunks: of a place in a body, of an entry in an index, and of a vector.

All are digests of canonical JSON, so that no two values run together, and name the version of their scheme.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict, dataclass

# The namespace of the UUIDs, itself the UUIDv5 of the scheme's name as a URN.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:scrapy-dedup:entry:1")

_canonical = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Model:
    """All that decides about the vector of a string; what is not known stays None.

    Attributes:
        name: of the model.
        revision: of its weights.
        dimensions: of the vector.
        prefix: what is put before each string, such as ``passage: ``.
        normalize: whether vectors are brought to the length 1.
        max_tokens: after how many tokens a string is cut off.
    """

    name: str | None = None
    revision: str | None = None
    dimensions: int | None = None
    prefix: str | None = None
    normalize: bool | None = None
    max_tokens: int | None = None


def digest_of(parts: object) -> str:
    """Return the SHA-256 of the canonical JSON of a value, as 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(parts).encode("ascii")).hexdigest()


def chunk_id(body_id: str, chunk_policy: str, start: int, end: int) -> str:
    """Return the identity of a place in a body under a chunk policy."""
    return "chunk1-" + digest_of(["chunk", 1, body_id, chunk_policy, start, end])[:32]


def entry_id(embed_text: str) -> str:
    """Return the identity in an index of the chunk that is embedded as this string."""
    return "entry1-" + digest_of(["entry", 1, embed_text])[:32]


def entry_uuid(identity: str) -> str:
    """Return an `entry_id` as a UUID of version 5, for stores that take nothing else."""
    return str(uuid.uuid5(NAMESPACE, identity))


def embed_key(embed_text: str, model: Model) -> str:
    """Return what two vectors have in common that are the same: the string and the model, as sha256:<hex>."""
    return "sha256:" + digest_of(["embed", 1, embed_text, asdict(model)])
