"""The setting ``DEDUP_CHUNKS``: how bodies are cut, and what their chunks are embedded with."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scrapy_dedup.chunks.cut import Cutter
from scrapy_dedup.chunks.keys import Model, digest_of
from scrapy_dedup.chunks.split import Split, by_size, by_tokens, load
from scrapy_dedup.chunks.template import Template
from scrapy_dedup.errors import ConfigError

DEFAULT_SPLITTER = "markdown"
SCHEME = "chunks1"
UNITS = ("characters", "tokens")

MAX_SIZE = 1_000_000
MAX_PATTERNS = 100
MAX_TOKENIZER_BYTES = 100 * 2**20

_SPLITTER_PACKAGE = "semantic-text-splitter"
_SPLITTER_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class ChunkOptions:
    """The options of the chunks.

    Attributes:
        size: of a chunk at most, in ``unit``.
        unit: ``characters``, or ``tokens`` of ``tokenizer``.
        tokenizer: path of a Hugging Face ``tokenizer.json``.
        splitter: ``markdown``, or ``package.module:name`` of a function ``split(text)`` or of a text splitter
            of a framework, which then knows its own size.
        shared_share: the share of a host's page names that a block has to stand under to be cut as a chunk of
            its own; None leaves all blocks with their pages.
        shared_chars: characters of neighbouring repeated blocks at least; shorter ones stay with their pages.
        keep_shared: regular expressions; a block in which one is found stays with its pages.
        template: how a chunk becomes the string that is embedded; None puts its headings before it.
        model: the name of the embedding model, with ``revision``, ``dimensions``, ``prefix``, ``normalize``
            and ``max_tokens`` as `scrapy_dedup.chunks.keys.Model` has them.

    Raises:
        ConfigError: with every problem of the options.
    """

    size: int = 1_000
    unit: str = "characters"
    tokenizer: str | None = None
    splitter: str = DEFAULT_SPLITTER
    shared_share: float | None = 0.05
    shared_chars: int = 100
    keep_shared: tuple[str, ...] = ()
    template: str | None = None
    model: str | None = None
    revision: str | None = None
    dimensions: int | None = None
    prefix: str | None = None
    normalize: bool | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep_shared, list):
            object.__setattr__(self, "keep_shared", tuple(self.keep_shared))
        if problems := list(self._problems()):
            raise ConfigError(problems)

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> ChunkOptions:
        """Return the options that a dict states.

        Raises:
            ConfigError: with every problem found.
        """
        known = [item.name for item in fields(cls)]
        unknown = [str(name) for name in stated if name not in known]
        problems = [f"has the unknown option {name!r}{_meant(name, known)}" for name in unknown]
        if problems:
            problems[-1] += f" known are {', '.join(known)}"
        try:
            options = cls(**{str(name): value for name, value in stated.items() if name in known})
        except ConfigError as error:
            raise ConfigError([*problems, *error.problems]) from None
        if problems:
            raise ConfigError(problems)
        return options

    def at(self, folder: Path) -> ChunkOptions:
        """Return the options with a relative path of the tokenizer resolved against a folder."""
        return replace(self, tokenizer=str(folder / self.tokenizer)) if self.tokenizer else self

    @property
    def embedding(self) -> Model:
        """What chunks are embedded with."""
        return Model(self.model, self.revision, self.dimensions, self.prefix, self.normalize, self.max_tokens)

    @property
    def rendering(self) -> Template:
        """How a chunk becomes the string that is embedded."""
        return Template(self.template)

    @cached_property
    def cutter(self) -> Cutter:
        """What cuts bodies by these options.

        Raises:
            ConfigError: the splitter or the tokenizer is not there.
        """
        try:
            markdown, plain = self._splits()
        except ValueError as error:
            name = "tokenizer" if self.unit == "tokens" else "splitter"
            raise ConfigError([f"DEDUP_CHUNKS: {name}: {error}"]) from error
        return Cutter(markdown, plain, tuple(map(re.compile, self.keep_shared)), self.shared_chars)

    @cached_property
    def policy_id(self) -> str:
        """The name of all that shapes the cut: ``chunks1-`` and 16 hexadecimal digits.

        Raises:
            ConfigError: the tokenizer cannot be read.
        """
        is_default = self.splitter == DEFAULT_SPLITTER
        shaping = {
            "splitter": f"{_SPLITTER_PACKAGE}/{version(_SPLITTER_PACKAGE)}" if is_default else self.splitter,
            "size": self.size if is_default else None,
            "unit": self.unit if is_default else None,
            "tokenizer": hashlib.sha256(self._tokenizer_text.encode()).hexdigest()
            if self.tokenizer
            else None,
            "shared_share": self.shared_share,
            "shared_chars": self.shared_chars,
            "keep_shared": list(self.keep_shared),
        }
        return f"{SCHEME}-{digest_of(shaping)[:16]}"

    def spec(self) -> dict[str, Any]:
        """Return the options in a form for JSON."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def _splits(self) -> tuple[Split, Split]:
        if self.splitter != DEFAULT_SPLITTER:
            split = load(self.splitter)
            return split, split
        if self.unit == "tokens":
            tokenizer = self._tokenizer_text
            return by_tokens(self.size, tokenizer), by_tokens(self.size, tokenizer, "text")
        return by_size(self.size), by_size(self.size, "text")

    @cached_property
    def _tokenizer_text(self) -> str:
        path = Path(self.tokenizer or "")
        try:
            if path.stat().st_size > MAX_TOKENIZER_BYTES:
                raise ValueError(f"it has more than {MAX_TOKENIZER_BYTES // 2**20} MiB")
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError([f"DEDUP_CHUNKS: tokenizer: {path} cannot be read ({error})"]) from error

    def _problems(self) -> Iterable[str]:
        for name, is_right, hint in _CHECKS:
            value = getattr(self, name)
            if not is_right(value):
                yield f"{name} is {value!r:.100}; use {hint}"
        if self.unit == "tokens" and not self.tokenizer:
            yield "unit is 'tokens', but there is no tokenizer; name the path of its tokenizer.json"
        if self.unit == "characters" and self.tokenizer:
            yield "tokenizer is set, but unit is 'characters'; set unit to 'tokens'"
        if isinstance(self.template, str):
            try:
                Template(self.template)
            except ValueError as error:
                yield f"template {error}"


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else ";"


def _is_whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _or_none(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_right(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 10_000


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1


def _are_patterns(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= MAX_PATTERNS and all(map(_is_pattern, value))


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, OverflowError, RecursionError):
        return False
    return isinstance(value, str) and bool(value)


_CHECKS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("size", _is_whole(1, MAX_SIZE), f"a whole number from 1 to {MAX_SIZE:,}"),
    ("unit", UNITS.__contains__, "'characters' or 'tokens'"),
    ("tokenizer", _or_none(_is_text), "the path of a tokenizer.json"),
    (
        "splitter",
        lambda value: (
            value == DEFAULT_SPLITTER
            or (isinstance(value, str) and _SPLITTER_NAME.fullmatch(value) is not None)
        ),
        "'markdown' or 'package.module:name'",
    ),
    ("shared_share", _or_none(_is_share), "a share above 0 and at most 1, or None"),
    ("shared_chars", _is_whole(0, MAX_SIZE), f"a whole number from 0 to {MAX_SIZE:,}"),
    ("keep_shared", _are_patterns, f"a list of up to {MAX_PATTERNS} regular expressions"),
    ("template", _or_none(_is_text), "a text with fields such as {headings} and {text}, or None"),
    ("model", _or_none(_is_text), "the name of the embedding model"),
    ("revision", _or_none(_is_text), "the revision of its weights"),
    ("dimensions", _or_none(_is_whole(1, 1_000_000)), "a whole number from 1"),
    ("prefix", _or_none(_is_text), "what is put before each string"),
    ("normalize", lambda value: value is None or isinstance(value, bool), "True, False or None"),
    ("max_tokens", _or_none(_is_whole(1, 100_000_000)), "a whole number from 1"),
)
