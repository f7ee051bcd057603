"""Identities: golden values of stored schemes, and what is part of an embed_key."""

from __future__ import annotations

import uuid

import pytest

from scrapy_dedup.chunks import ChunkOptions, Model
from scrapy_dedup.chunks.keys import chunk_id, embed_key, entry_id, entry_uuid
from scrapy_dedup.chunks.template import Template
from scrapy_dedup.errors import ConfigError

TEXT = "Guide > Größe\n\nSome text."


def test_identities_have_not_changed():
    entry = entry_id(TEXT)
    assert entry == "entry1-fc5349ccfa23ece5b6daa2f4f15dc3a2"
    assert entry_uuid(entry) == "7867ce21-17b3-5d1e-ac38-847234726e78"
    assert (
        chunk_id("body1-" + "0" * 32, "chunks1-" + "0" * 16, 3, 14)
        == "chunk1-3f2e07cd02213ab2fa7ce3d010790636"
    )
    assert (
        embed_key(TEXT, Model("m", "r", 256))
        == "sha256:37a3178094344bf22114eb9ce2941578c140849da3ccff6d98820dd9a81053ff"
    )
    assert uuid.UUID(entry_uuid(entry)).version == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n"},
        {"revision": "s"},
        {"dimensions": 128},
        {"prefix": "passage: "},
        {"normalize": True},
        {"max_tokens": 512},
    ],
)
def test_all_of_the_model_is_part_of_the_key(changes):
    base = {"name": "m", "revision": "r", "dimensions": 256}
    assert embed_key(TEXT, Model(**base)) != embed_key(TEXT, Model(**{**base, **changes}))


def test_a_prefix_and_a_text_do_not_run_together():
    assert embed_key("bc", Model(prefix="a")) != embed_key("c", Model(prefix="ab"))


def rendered(template, headings=("A", "B")):
    return Template(template).render("T", headings, title="Title", url="https://h/", language=None)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "A > B\n\nT"),
        ("{text}", "T"),
        ("{title}: {headings}\n{text} {{x}} {language}", "Title: A > B\nT {x}"),
        ("{url} {text}", "https://h/ T"),
    ],
)
def test_a_template_renders_its_fields(template, said):
    assert rendered(template) == said


def test_the_default_template_names_no_page():
    assert not Template().names_the_page
    assert rendered(None, ()) == "T"


WRONG = [
    ({"size": 0}, "size is 0"),
    ({"size": True}, "size is True"),
    ({"unit": "words"}, "unit is 'words'"),
    ({"unit": "tokens"}, "there is no tokenizer"),
    ({"tokenizer": "t.json"}, "unit is 'characters'"),
    ({"splitter": "semantic"}, "splitter is 'semantic'"),
    ({"shared_share": 0}, "shared_share is 0"),
    ({"keep_shared": ["("]}, "keep_shared is"),
    ({"keep_shared": "abc"}, "keep_shared is 'abc'"),
    ({"template": "{headings}"}, r"template lacks \{text\}"),
    ({"template": "{text!r}"}, "template names fields with a format"),
    ({"template": "{text.__class__}"}, "template names text.__class__"),
    ({"template": "{"}, "template "),
    ({"dimensions": "256"}, "dimensions is '256'"),
    ({"normalize": 1}, "normalize is 1"),
    ({"sizes": 10}, "unknown option 'sizes'; did you mean 'size'"),
]


@pytest.mark.parametrize(("stated", "fault"), WRONG, ids=[fault for _, fault in WRONG])
def test_wrong_options_are_named(stated, fault):
    with pytest.raises(ConfigError, match=fault):
        ChunkOptions.of(stated)


def test_all_faults_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        ChunkOptions.of({"size": 0, "unit": 1, "sizes": 1})
    assert len(caught.value.problems) == 3


def test_the_policy_names_what_shapes_the_cut_and_nothing_else():
    default = ChunkOptions()
    assert ChunkOptions(size=900).policy_id != default.policy_id
    assert ChunkOptions(keep_shared=["x"]).policy_id != default.policy_id
    assert ChunkOptions(shared_share=None).policy_id != default.policy_id
    assert ChunkOptions(model="m", template="{text}").policy_id == default.policy_id


def test_tokens_are_those_of_the_tokenizer(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (tmp_path / "t.json").write_text(made.to_str())
    options = ChunkOptions(size=3, unit="tokens", tokenizer="t.json").at(tmp_path)
    from scrapy_dedup.chunks import NOTHING_REPEATED

    text = "one two three four five six seven"
    pieces = options.cutter.cut(text, "text", NOTHING_REPEATED)
    assert [text[piece.start : piece.end] for piece in pieces] == ["one two three", "four five six", "seven"]


@pytest.mark.parametrize("content", [None, "no tokenizer"])
def test_a_tokenizer_that_is_none_is_refused(tmp_path, content):
    if content:
        (tmp_path / "t.json").write_text(content)
    with pytest.raises(ConfigError, match="DEDUP_CHUNKS: tokenizer"):
        _ = ChunkOptions(unit="tokens", tokenizer="t.json").at(tmp_path).cutter
