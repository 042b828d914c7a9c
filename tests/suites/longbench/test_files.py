"""Data files are read whole and recorded by hash, or refused by file and line in one sentence."""

import hashlib
import json
import re

import pytest

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.longbench.datasets import DATASETS, find_dataset
from ridgefill.suites.longbench.files import read_v1, read_v2

V1_SPOILT = {
    "no answers field": ({"answers": ...}, "lacks the field 'answers'"),
    "no answers": ({"answers": []}, "has no answers"),
    "answers of another type": ({"answers": "Person"}, "expected a list of strings"),
    "answers that are numbers": ({"answers": [1]}, "expected a list of strings"),
    "context of another type": ({"context": None}, "has context of type NoneType"),
    "another dataset": ({"dataset": "qmsum"}, "of dataset 'qmsum', expected 'trec'"),
    "length as text": ({"length": "12"}, "has length = '12'"),
    "length that is a truth value": ({"length": True}, "has length = True"),
    "no classes": ({"all_classes": None}, "cannot be scored without its classes"),
    "half of a pair": ({"input": "\ud800"}, "half of a surrogate pair in input"),
}
V2_SPOILT = {
    "no question": ({"question": ...}, "lacks the field 'question'"),
    "a fifth letter": ({"answer": "E"}, "has answer 'E', expected one of A, B, C, D"),
    "another difficulty": ({"difficulty": "medium"}, "expected one of easy, hard"),
    "a length in words": ({"length": 812}, "has length of type int"),
    "a missing choice": ({"choice_C": ...}, "lacks the field 'choice_C'"),
}


def spoil(fields, changes):
    changed = {**fields, **changes}
    return {name: value for name, value in changed.items() if value is not ...}


def test_there_are_21_datasets_with_budgets_of_32_to_512_tokens():
    """14 English, 5 Chinese and 2 of code; six stay out of the chat template, four are scored on one line."""
    languages = [one.language for one in DATASETS.values()]
    assert [languages.count(name) for name in ("en", "zh", "code")] == [14, 5, 2]
    assert {one.new_tokens for one in DATASETS.values()} == {32, 64, 128, 512}
    plain = {name for name, one in DATASETS.items() if not one.chat}
    assert plain == {"trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"}
    assert {name for name, one in DATASETS.items() if one.first_line} == {"trec", "triviaqa", "samsum", "lsht"}
    assert [name for name, one in DATASETS.items() if one.stop_at_newline] == ["samsum"]


def test_an_unknown_dataset_names_the_known_ones():
    """The message lists what there is."""
    with pytest.raises(ConfigError, match="no LongBench dataset 'nq'; the known ones are narrativeqa, "):
        find_dataset("nq")


def test_every_file_of_the_tiny_set_is_read_in_order_with_its_hash(v1_folder):
    """Items keep their places, ids and references; the hash is of the file's bytes."""
    for path in sorted(v1_folder.glob("*.jsonl")):
        read = read_v1(v1_folder, path.stem)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert [item.name for item in read.items] == [f"{path.stem}-{place}" for place in range(len(lines))]
        assert [(item.id, list(item.answers)) for item in read.items] == [(one["_id"], one["answers"]) for one in lines]


def test_line_separators_inside_a_text_do_not_split_a_line(tmp_path, trec_line):
    """Only the line feed ends a line; blank lines and carriage returns are passed over."""
    line = json.dumps({**trec_line, "context": "one\u2028two\x85three"}, ensure_ascii=False)
    (tmp_path / "trec.jsonl").write_bytes(f"{line}\r\n\n{line}\n".encode())
    items = read_v1(tmp_path, "trec").items
    assert [item.context for item in items] == ["one\u2028two\x85three"] * 2


@pytest.mark.parametrize("case", V1_SPOILT)
def test_a_malformed_v1_line_is_refused_with_its_number(case, tmp_path, trec_line):
    """The good first line does not hide the bad second one."""
    changes, message = V1_SPOILT[case]
    path = tmp_path / "trec.jsonl"
    path.write_text(f"{json.dumps(trec_line)}\n{json.dumps(spoil(trec_line, changes))}\n", encoding="utf-8")
    with pytest.raises(TextError, match=re.escape(f"{path} line 2 ") + ".*" + re.escape(message)):
        read_v1(tmp_path, "trec")


@pytest.mark.parametrize("raw", [b'{"input": ', b"\xff\xfe", b"[" * 100_000, b"[1, 2]", b"\xef\xbb\xbf{}"])
def test_a_line_that_is_no_object_is_one_sentence_too(raw, tmp_path):
    """Broken JSON, another encoding, endless nesting, a byte-order mark: the file and the line are named."""
    (tmp_path / "qmsum.jsonl").write_bytes(raw)
    with pytest.raises(TextError, match=r"qmsum\.jsonl line 1 "):
        read_v1(tmp_path, "qmsum")


def test_a_reference_that_names_no_paragraph_is_refused_before_any_model_runs(tmp_path, trec_line):
    """Retrieval answers hold the number that is compared."""
    bad = {**trec_line, "dataset": "passage_retrieval_en", "answers": ["the third"]}
    (tmp_path / "passage_retrieval_en.jsonl").write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(TextError, match="line 1 has the answer 'the third'"):
        read_v1(tmp_path, "passage_retrieval_en")


def test_missing_and_empty_files_say_what_to_set(tmp_path):
    """No traceback for a wrong path, a folder, or a file of nothing."""
    with pytest.raises(TextError, match="set its path in the configuration to the folder"):
        read_v1(tmp_path, "lcc")
    (tmp_path / "lcc.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(TextError, match="holds no items"):
        read_v1(tmp_path, "lcc")
    with pytest.raises(TextError, match="could not be read"):
        read_v2(tmp_path)


def test_the_v2_file_is_read_in_order_with_its_hash(v2_file):
    """All fields of every item arrive."""
    read, raw = read_v2(v2_file), json.loads(v2_file.read_text(encoding="utf-8"))
    assert read.sha256 == hashlib.sha256(v2_file.read_bytes()).hexdigest()
    for item, one in zip(read.items, raw, strict=True):
        choices = dict(zip(("choice_A", "choice_B", "choice_C", "choice_D"), item.choices, strict=True))
        others = {name: getattr(item, name) for name in one if name not in ("_id", *choices)}
        assert one == {"_id": item.id, **choices, **others}


@pytest.mark.parametrize("case", V2_SPOILT)
def test_a_malformed_v2_item_is_refused_with_its_place(case, tmp_path, v2_entry):
    """Items are counted from 1."""
    changes, message = V2_SPOILT[case]
    path = tmp_path / "v2.json"
    path.write_text(json.dumps([v2_entry, spoil(v2_entry, changes)]), encoding="utf-8")
    with pytest.raises(TextError, match=re.escape(f"{path} item 2 ") + ".*" + re.escape(message)):
        read_v2(path)


def test_two_v2_items_of_one_id_and_other_shapes_are_refused(tmp_path, v2_entry):
    """An id names one item; a file is an array of at least one."""
    path = tmp_path / "v2.json"
    path.write_text(json.dumps([v2_entry, v2_entry]), encoding="utf-8")
    with pytest.raises(TextError, match="item 2 has the _id of item 1, 'own-0'"):
        read_v2(path)
    for other in ({}, []):
        path.write_text(json.dumps(other), encoding="utf-8")
        with pytest.raises(TextError, match="expected a JSON array of at least one item"):
            read_v2(path)
