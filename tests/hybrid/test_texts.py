"""Texts in the synthetic language: always the same, frozen, and with questions that only far needles answer."""

import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill import texts
from ridgefill.errors import TextError
from ridgefill.hybrid import frozen
from ridgefill.hybrid.texts import DOMAINS, archive, files, generate
from ridgefill.hybrid.tokenizer import make_tokenizer
from ridgefill.hybrid.words import KEYS, NUMBER, VOCABULARY
from ridgefill.suites.balance import CHARS_PER_TOKEN
from ridgefill.suites.documents import check, load, load_manifest, select
from ridgefill.texts import fetch, load_sources, main, member_names

SET = Path(__file__).parents[2] / "data/texts/hybrid"
FILES = tuple(SET / name for name in ("documents.json", "calibration.json", "sources.json"))
PROMPT, TAIL, SCORED = 1024, 64, 256
PIECES = {place: piece for piece, place in VOCABULARY.items()}


@pytest.fixture(scope="module")
def made():
    return files()


@pytest.fixture(scope="module")
def tokens():
    """``tokens(text)``: pieces of a text behind the opening mark, as the suites read it."""
    tokenizer = make_tokenizer(2048)
    return lambda text: [PIECES[one] for one in tokenizer(text)["input_ids"]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The generated source, unpacked without pip."""
    folder = tmp_path_factory.mktemp("texts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
        fetch(load_sources(FILES[2])[frozen.SOURCE], folder)
    return folder


def sentences(pieces, start, word):
    """(place, pieces) of every sentence that begins with ``word``, the start of the text left out."""
    ends = [start, *(place + 1 for place, piece in enumerate(pieces) if piece == ".")]
    spans = [(low, pieces[low:high]) for low, high in itertools.pairwise(ends)]
    return [(low, sentence) for low, sentence in spans if sentence[: len(word)] == word]


def code_of(sentence):
    """Key and digits of ``... code of KEY is DIGITS.``"""
    key = sentence.index(f"{NUMBER}of") + 1
    return sentence[key].removeprefix(NUMBER), "".join(sentence[key + 3 : -1])


def test_freezing_again_gives_the_committed_manifests(tmp_path):
    """The generator has not drifted from what is frozen, byte for byte."""
    assert frozen.main([str(tmp_path)]) == 0
    for path in FILES:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert archive() == archive()


def test_every_frozen_text_is_in_the_unpacked_source(cache):
    """Fetched without a network, each document and calibration text has its hash."""
    known = load_sources(FILES[2])
    listed = [*load_manifest(FILES[0]), *load_manifest(FILES[1])]
    assert len(listed) == len(member_names(known[frozen.SOURCE], cache))
    assert all(load(one, cache, known) for one in listed)
    assert len(select(load_manifest(FILES[0]), list(DOMAINS), 12)) == 48


def test_no_text_shares_a_run_with_another_role_or_is_nearly_another(cache):
    """The overlap gate holds on what is frozen."""
    report = check(cache, {}, *FILES)
    assert report["findings"] == report["near_duplicates"] == []
    assert report["evaluation_texts"] >= 40


@pytest.mark.parametrize("name", DOMAINS)
def test_scored_questions_are_answered_before_the_tail_only(made, tokens, name):
    """Documents are long enough, their needles end before the tail, and most questions are behind the prompt."""
    domain, scored = DOMAINS[name], 0
    for path in (path for path in made if path.startswith(f"{name}/")):
        pieces = tokens(made[path])
        assert len(pieces) >= PROMPT + SCORED + 1
        assert len(made[path]) >= CHARS_PER_TOKEN * (PROMPT + SCORED)
        said = {code_of(one): low for low, one in sentences(pieces, 1, [f"{NUMBER}the", f"{NUMBER}code"])}
        needles = {code: low for code, low in said.items() if code[0] in KEYS}
        asked = {code_of(one): low for low, one in sentences(pieces, 1, [f"{NUMBER}question"])}
        assert set(asked) == set(needles)
        assert len(asked) == domain.needles
        assert {key for key, _ in asked} <= set(domain.keys)
        assert max(needles.values()) < PROMPT - TAIL - 20
        text = made[path]
        assert all(text.count(f" {code}.") == 2 for _, code in asked)
        scored += sum(PROMPT <= low < PROMPT + SCORED - 13 for low in asked.values())
    assert scored >= 0.8 * domain.needles * sum(path.startswith(f"{name}/") for path in made)


def test_calibration_is_enough_and_a_piece_of_the_capture_each(made, tokens):
    """65,536 tokens and 8,192 held out, no text cut by pieces of 1,024, questions at the end as in training."""
    for role, least in (("calibration", 131_072), ("heldout", 8_192)):
        lengths = [len(tokens(text)) for path, text in made.items() if path.startswith(f"{role}/")]
        assert sum(lengths) >= least
        assert max(lengths) <= 1024
    assert all(" question: the code of" in text[-45:] for path, text in made.items() if path.startswith("calibration"))


def test_a_changed_generator_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys):
    """Other bytes than the pinned ones are never unpacked, and an unknown generator is named."""
    source = load_sources(FILES[2])[frozen.SOURCE]
    with pytest.raises(TextError, match=r"SHA-256 \w+, expected 0{64}.*restore ridgefill/hybrid"):
        fetch(replace(source, sha256="0" * 64), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if not path.name.startswith(".")]
    with pytest.raises(TextError, match="no generator makes hybrid-language 9; expected one of hybrid-language 1"):
        generate(frozen.SOURCE, "9", tmp_path / "x.zip")
    changed = tmp_path / "sources.json"
    changed.write_text(json.dumps({"a": {**frozen.source_entry(), "distribution": "other"}}))
    assert main(["a", "--sources", str(changed), "--cache", str(tmp_path / "c")]) == TextError.exit_code
    assert "no generator makes other 1" in capsys.readouterr().err
    assert "generated" in texts.KINDS
