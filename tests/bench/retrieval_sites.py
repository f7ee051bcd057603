"""The sites of the retrieval benchmark, their questions, and a model that runs without a network."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

VERSIONS = ("4.2", "5.0", "5.1", "5.2")
MANUAL_PAGES = 150
MANUAL_QUESTIONS = 300
PREAMBLE_PAGES = 500
TEMPLATE_PAGES = 569

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Question:
    """What is asked, and what answers it: a section of a page, or any passage that holds some words."""

    text: str
    page: str | None = None
    section: str | None = None
    words: str | None = None


@dataclass(frozen=True)
class Site:
    """Texts by URL, and questions by kind."""

    pages: dict[str, str]
    questions: dict[str, list[Question]]
    chunk_size: int = 1_000
    relates_raw: bool = True  # 500 copies of a passage in as many contexts make a million pairs


def page_of(url: str) -> str:
    """Return what names a page in all of its versions."""
    return re.sub(r"^https://[^/]+/(?:\d\.\d/)?", "", url)


# -- A: four versions of a manual


class NotAvailable(Exception):
    """The releases are neither in the cache nor to be had."""


def manual(cache: Path, seed: int = 5) -> Site:
    """Return pages of the Django documentation in four versions, and headings of the newest as questions.

    Raises:
        NotAvailable: the source distributions cannot be downloaded.
    """
    texts = {version: dict(_pages(_release(cache, version))) for version in VERSIONS}
    common = sorted(set.intersection(*(set(pages) for pages in texts.values())))
    source = random.Random(seed)
    names = sorted(source.sample(common, min(MANUAL_PAGES, len(common))))
    pages = {
        f"https://docs.example/{version}/{name}": texts[version][name]
        for version in VERSIONS
        for name in names
    }
    questions = []
    for name in names:
        headings = re.findall(r"^(#+) (.+)$", texts[VERSIONS[-1]][name], re.MULTILINE)
        title = headings[0][1] if headings else name
        questions += [
            Question(f"{title}: {heading}", page=name, section=heading)
            for level, heading in headings[1:]
            if len(level) <= 3 and len(heading) > 8
        ]
    return Site(pages, {"headings": source.sample(questions, MANUAL_QUESTIONS)})


def _release(cache: Path, version: str) -> Path:
    def found() -> list[Path]:
        return [path for path in cache.glob("*.tar.gz") if path.name.lower() == f"django-{version}.tar.gz"]

    if not found():
        cache.mkdir(parents=True, exist_ok=True)
        wanted = [f"django=={version}", "--no-deps", "--no-binary", "django", "--dest", str(cache)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, *wanted], check=False, capture_output=True, text=True)
        if done.returncode or not found():
            last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise NotAvailable(f"the source distribution of Django {version} cannot be had ({last})")
    return found()[0]


def _pages(path: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(path) as archive:
        for member in archive:
            inside = re.fullmatch(r"[^/]+/docs/((?:topics|ref|howto|intro|faq)/.+)\.txt", member.name)
            file = archive.extractfile(member) if inside and member.isfile() else None
            if inside and file is not None:
                yield inside[1], as_markdown(file.read().decode("utf-8"))


def as_markdown(text: str) -> str:
    """Return reStructuredText with Markdown headings; their levels follow from the order of the signs."""
    lines = text.split("\n")
    signs: list[tuple[str, bool]] = []
    kept: list[str] = []
    place = 0
    while place < len(lines):
        over = _is_rule(lines[place]) and place + 2 < len(lines) and _is_rule(lines[place + 2])
        title = lines[place + 1] if over else lines[place]
        rule = lines[place + 2] if over else (lines[place + 1] if place + 1 < len(lines) else "")
        if title.strip() and not _is_rule(title) and _is_rule(rule) and len(rule) >= len(title.strip()):
            style = (rule[0], over)
            signs += [style] if style not in signs else []
            kept += ["", f"{'#' * (signs.index(style) + 1)} {title.strip()}", ""]
            place += 3 if over else 2
        else:
            kept.append(lines[place])
            place += 1
    rendered = (_without_markup(line) for line in kept)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in rendered if line is not None)).strip()


_TITLES = {
    "note": "Note",
    "warning": "Warning",
    "seealso": "See also",
    "versionadded": "New in Django",
    "versionchanged": "Changed in Django",
    "deprecated": "Deprecated since version",
    "admonition": "",
}


def _without_markup(line: str) -> str | None:
    """Return a line as a page shows it: labels and the like are not shown, notes have a title."""
    directive = re.match(r"( *)\.\. +(?:_[^:]+:|([\w-]+) ?::)(.*)", line)
    if directive is None:
        return re.sub(r"::$", ":", line)
    indent, name, rest = directive.groups()
    if name in _TITLES:
        return f"{indent}{_TITLES[name]} {rest.strip()}".rstrip()
    return f"{indent}{rest.strip()}" if name and name not in _UNSHOWN and rest.strip() else None


_UNSHOWN = {"code-block", "console", "module", "currentmodule", "highlight", "index", "toctree", "contents"}


def _is_rule(line: str) -> bool:
    return len(line) >= 4 and len(set(line)) == 1 and line[0] in "=-~^`*+#\"'"


# -- B and C: generated

THINGS = str.split("""
kettle bridge orchard violin harbour glacier loom saddle compass lantern beehive windmill quarry
vineyard chimney ferry telescope anvil canoe tapestry lighthouse aqueduct piano drum sundial carpet mosaic
observatory printing-press greenhouse monastery tavern foundry shipyard library bakery pottery brewery
fountain archive stable cellar dovecote tannery sawmill granary pulpit staircase organ clock""")
QUALITIES = str.split("""
copper wooden crooked painted abandoned narrow silent gilded frozen mossy woven vaulted
smoky salted hollow slender ancient rusty marble velvet amber granite ivory scarlet leaning tiled flooded
carved sunken twisted""")
PLACES = str.split("""
Bergen Toledo Ghent Riga Porto Split Lucca Bruges Cork Turku Basel Malmo Trieste Nantes Krakow
Zadar Leiden Durham Graz Siena Tartu Vigo Aachen Bath Coimbra Dresden Evora Ferrara Girona Haarlem""")
DEEDS = str.split("""
repaired measured painted inherited borrowed described restored flooded guarded carried weighed
polished rebuilt catalogued admired auctioned dismantled rented sketched blessed""")
PEOPLE = str.split("""
weavers sailors monks surveyors gardeners masons beekeepers pilgrims apprentices merchants
millers shepherds carpenters glaziers nuns fishermen coopers drummers copyists potters""")
SEASONS = str.split("spring summer autumn winter harvest lent carnival advent")


def topic(source: random.Random) -> list[str]:
    """Return the words that a page is about."""
    return [*source.sample(THINGS, 4), *source.sample(QUALITIES, 3), *source.sample(PEOPLE, 2)]


def sentence(words: Sequence[str], source: random.Random) -> str:
    things, qualities, people = words[:4], words[4:7], words[7:]
    return (
        f"The {source.choice(people)} of {source.choice(PLACES)} {source.choice(DEEDS)} the "
        f"{source.choice(qualities)} {source.choice(things)} beside the {source.choice(things)} in "
        f"{source.choice(SEASONS)}."
    )


NOTICE_WHO = str.split(
    "readers members borrowers visitors guardians societies schools couriers trustees clerks"
)
NOTICE_DEEDS = """must renew|may return|shall report|must sign|may collect|shall deposit|must insure
|may request|shall declare|must cancel|may transfer|shall acknowledge""".replace("\n", "").split("|")
NOTICE_THINGS = """loan card|copying fee|reading permit|damage form|lending agreement|overdue notice|guarantee
|reservation slip|entry badge|transport crate|privacy statement|appeal|invoice|waiver|locker key|refund"""
NOTICE_WHEN = """before the desk closes|within the stated term|upon written consent|at their own expense
|during office hours|without further notice|by registered post|under supervision"""


def notice(source: random.Random) -> str:
    """Return a sentence of rules that no page is about."""
    things, when = (listed.replace("\n", "").split("|") for listed in (NOTICE_THINGS, NOTICE_WHEN))
    first, second = source.sample(things, 2)
    who, deed = source.choice(NOTICE_WHO).capitalize(), source.choice(NOTICE_DEEDS)
    return f"{who} {deed} the {first} and the {second} {source.choice(when)}."


def preamble_site(seed: int = 7) -> Site:
    """Return pages that put a preamble of 400 words between their title and their own text."""
    source = random.Random(seed)
    said: list[str] = []
    while len(" ".join(said).split()) < 400:
        said.append(notice(source))
    third = len(said) // 3
    preamble = "\n\n".join(
        " ".join(part) for part in (said[:third], said[third : 2 * third], said[2 * third :])
    )
    pages, own = {}, []
    for number in range(PREAMBLE_PAGES):
        words = topic(source)
        title = f"The {words[4]} {words[0]} of {source.choice(PLACES)}"
        text = " ".join(sentence(words, source) for _ in range(12))
        pages[f"https://memo.example/{number}-{words[0]}"] = f"# {title}\n\n{preamble}\n\n{text}"
        own.append(Question(f"{title}, {words[1]} and {words[2]}", page=f"{number}-{words[0]}"))
    about = [Question(one, words=one) for one in source.sample(said, 24)]
    return Site(pages, {"own": source.sample(own, 250), "preamble": about}, relates_raw=False)


def template_site(seed: int = 9) -> Site:
    """Return pages of 240 characters of their own in a template of 1,010; all say different things."""
    source = random.Random(seed)
    formal = topic(source)
    template: list[str] = []
    while len(" ".join(template)) < 960:
        template.append(sentence(formal, source))
    half = len(template) // 2
    pages, questions = {}, []
    for number in range(TEMPLATE_PAGES):
        words = topic(source)
        text = ""
        while len(text) < 200:
            text = f"{text} {sentence(words, source)}".strip()
        name = f"{number}-{words[0]}"
        parts = [" ".join(template[:half]), text, " ".join(template[half:])]
        pages[f"https://catalogue.example/{name}"] = "\n\n".join(parts)
        asked = " ".join(word for word in re.findall(r"[A-Za-z-]+", text) if len(word) > 4)
        questions.append(Question(asked, page=name))
    return Site(pages, {"own": source.sample(questions, 300)}, chunk_size=1_500)


# -- the model


class Model:
    """The static vectors of wordllama, 256 numbers for each token, averaged over a text.

    Raises:
        ImportError: wordllama, tokenizers or safetensors are not installed.
    """

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        found = importlib.util.find_spec("wordllama")
        if found is None or found.origin is None:
            raise ImportError("wordllama is not installed")
        folder = Path(found.origin).parent
        self._tokenizer = Tokenizer.from_file(
            str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        )
        (self._vectors,) = load_file(folder / "weights" / "l2_supercat_256.safetensors").values()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text."""
        rows = np.zeros((len(texts), self._vectors.shape[1]), np.float32)
        for row, encoded in zip(rows, self._tokenizer.encode_batch([*texts]), strict=True):
            if encoded.ids:
                row[:] = self._vectors[encoded.ids].astype(np.float32).mean(axis=0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1)


def cache_folder() -> Path:
    """Return where downloads are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scrapy_dedup" / "bench"
