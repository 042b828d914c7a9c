"""Files of samples, questions and texts that a user hands over: taken, or refused in one sentence."""

import json
import runpy
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ridgefill.suites.longbench.files import read_v1, read_v2
from ridgefill.suites.manifest import load_manifest
from ridgefill.suites.questions import question_set
from ridgefill.suites.ruler.official import load_official
from ridgefill.suites.userfiles import read_text
from ridgefill.texts import load_sources

ROOT = Path(__file__).parents[2]
MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, as_json, documents, refused_or_read, spoiled = (
    MANGLING[name] for name in ("FUZZ", "as_json", "documents", "refused_or_read", "spoiled")
)
NEEDLE = {
    "index": 0, "length": 4096, "answer_prefix": " The special magic number for a-b is", "outputs": ["1234567"],
    "input": "Some text.\nOne of the special magic numbers for a-b is: 1234567.\nMore.\nWhat is the number for a-b?",
}  # fmt: skip
CHAIN = {
    "index": 0, "length": 4096, "answer_prefix": " Answer:", "outputs": ["ABCDE", "FGHIJ"],
    "input": "VAR ABCDE = 12345\nnoise\nVAR FGHIJ = VAR ABCDE\nFind all variables that are assigned the value 12345.",
}  # fmt: skip
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "Paris is in France.", "qas": [
    {"id": "1", "question": "Where is Paris?", "answers": [{"text": "France", "answer_start": 12}],
     "is_impossible": False}]}]}]}  # fmt: skip
HOTPOT = [{"_id": "1", "question": "Where?", "answer": "France", "context": [["t", ["Paris is in France."]]],
           "supporting_facts": [["t", 0]]}]  # fmt: skip
V1 = {"input": "q", "context": "c", "answers": ["a"], "length": 3, "dataset": "qasper", "language": "en",
      "all_classes": None, "_id": "1"}  # fmt: skip
V2 = [{"_id": "1", "domain": "d", "sub_domain": "s", "difficulty": "easy", "length": "short", "question": "q",
       "choice_A": "a", "choice_B": "b", "choice_C": "c", "choice_D": "d", "answer": "A", "context": "c"}]  # fmt: skip
MANIFEST = {"schema_version": 1, "documents": [{
    "id": "d", "role": "evaluation", "domain": "code", "source": "s", "member": "m.py", "offset": 0, "length": 5,
    "sha256": "0" * 64, "licence": "MIT"}]}  # fmt: skip
SOURCES = json.loads((ROOT / "data/texts/sources.json").read_text("utf-8"))
KINDS = {
    "niah": (NEEDLE, lambda path: load_official(path, "niah_single_1", 4096)),
    "vt": (CHAIN, lambda path: load_official(path, "vt", 4096)),
    "squad": (SQUAD, lambda path: question_set("qa_1", path)),
    "hotpotqa": (HOTPOT, lambda path: question_set("qa_2", path)),
    "v1": (V1, lambda path: read_v1(path.parent, "qasper")),
    "v2": (V2, read_v2),
    "manifest": (MANIFEST, load_manifest),
    "sources": (SOURCES, load_sources),
    "text": (NEEDLE, read_text),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("texts") / "qasper.jsonl"


@pytest.mark.parametrize("kind", KINDS)
def test_sound_files_are_read(file, kind):
    sound, reader = KINDS[kind]
    file.write_bytes(as_json(sound) + b"\n")
    assert refused_or_read(lambda: reader(file)) is not None


@pytest.mark.parametrize("kind", KINDS)
@FUZZ
@given(drawn=st.data())
def test_spoiled_files(file, kind, drawn):
    sound, reader = KINDS[kind]
    one = documents(sound).map(as_json) | spoiled(as_json(sound))
    file.write_bytes(b"\n".join(drawn.draw(st.lists(one, min_size=1, max_size=2))) + b"\n")
    refused_or_read(lambda: reader(file))


@pytest.mark.parametrize("kind", KINDS)
@FUZZ
@given(data=st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
@example(data=b"[" * 100_000)
@example(data=b"9" * 5000)
@example(data=b"")
@example(data=b"\xef\xbb\xbf{}")
def test_any_bytes(file, kind, data):
    file.write_bytes(data)
    refused_or_read(lambda: KINDS[kind][1](file))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file(tmp_path, kind):
    (tmp_path / "folder").mkdir()
    for name in ("missing", "a\0b", "x" * 300, "\ud800"):
        refused_or_read(lambda name=name: KINDS[kind][1](tmp_path / name))
