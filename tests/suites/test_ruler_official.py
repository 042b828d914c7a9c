"""Files of the pinned generator: read line by line, needles found from the references, bad lines refused.

The records have the generator's fields and the forms that needles are found by; their other words are ours.
"""

import hashlib
import json

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.ruler import question_first
from ridgefill.suites.ruler.official import load_official, official_path

NEEDLE = "Here a special magic numbers for {} is: {}."
FILLER = "Rain fell, e.g. on Tuesday. “Why not?” they asked!"


def keyed(*pairs, asked="red-fox", separator=" "):
    context = separator.join(text for pair in pairs for text in (FILLER, NEEDLE.format(*pair)))
    return f"Note the numbers.\n{context} {FILLER}\nWhat are the numbers for {asked}?"


def record(text, outputs, **more):
    return {"index": 17, "input": text, "outputs": outputs, "length": 99, "answer_prefix": " They are", **more}


@pytest.fixture
def load(tmp_path):
    """Write records as JSON lines and read them back."""

    def load(task, *records, count=None, **options):
        path = tmp_path / f"{task}.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        return load_official(path, task, 4096, count, **options)

    return load


def texts(sample, queried=None):
    for needle in sample.needles:
        assert sample.question_prompt[needle.char_start : needle.char_end] == needle.text
    return [needle.text for needle in sample.needles if queried is None or needle.queried == queried]


def test_records_become_samples_numbered_by_line(load):
    """Turn, prefix, references, the task's answer length and metric; the record's own index is not used."""
    read = load("niah_single_2", *[record(keyed(("red-fox", value)), [value]) for value in ("1234567", "7654321")])
    assert [sample.index for sample in read.samples] == [0, 1]
    first = read.samples[0]
    assert (first.task, first.length, first.new_tokens, first.metric) == ("niah_single_2", 4096, 128, "all")
    assert (first.answer_prefix, first.references) == (" They are", ("1234567",))
    assert read.sha256 == hashlib.sha256(read.path.read_bytes()).hexdigest()
    assert len(load_official(read.path, "niah_single_2", 4096, 1).samples) == 1
    assert load_official(read.path, "niah_single_2", 4096, new_tokens=9).samples[0].new_tokens == 9


def test_the_question_is_the_last_line_and_can_move(load):
    """Trailing white space aside."""
    sample = load("niah_single_2", record(keyed(("red-fox", "1234567")) + " \n", ["1234567"])).samples[0]
    start, end = sample.question
    assert sample.question_prompt[start:end] == "What are the numbers for red-fox?"
    assert question_first(sample).question_prompt.startswith("What are the numbers for red-fox?\nNote")


def test_distractors_are_needles_that_are_not_queried(load):
    """Every sentence that gives a key its value, with exactly its own text."""
    text = keyed(("red-fox", "1234567"), ("big owl", "2222222"), ("red-fox", "3333333"), ("old-elk", "4444444"))
    sample = load("niah_multikey_1", record(text, ["1234567", "3333333"])).samples[0]
    assert texts(sample, True) == [NEEDLE.format("red-fox", value) for value in ("1234567", "3333333")]
    assert texts(sample, False) == [NEEDLE.format("big owl", "2222222"), NEEDLE.format("old-elk", "4444444")]


@pytest.mark.parametrize("task", ["niah_multikey_2", "niah_multikey_3"])
def test_needle_lines_of_a_haystack_are_no_needles(task, load):
    """Only the line with the reference counts, whatever the others hold."""
    text = keyed(("old-elk", "4444444"), ("red-fox", "1234567"), ("big-owl", "2222222"), separator="\n")
    sample = load(task, record(text, ["1234567"])).samples[0]
    assert texts(sample) == [NEEDLE.format("red-fox", "1234567")]


def test_a_value_of_two_keys_is_queried_for_the_asked_key_only(load):
    """The same number under a key that nobody asks for is a distractor."""
    sample = load("niah_multikey_1", record(keyed(("old-elk", "1234567"), ("red-fox", "1234567")), ["1234567"]))
    assert texts(sample.samples[0], True) == [NEEDLE.format("red-fox", "1234567")]
    assert texts(sample.samples[0], False) == [NEEDLE.format("old-elk", "1234567")]


def test_a_reference_outside_any_such_sentence_counts_wherever_it_is(load):
    """Each sentence that holds it, and an error with file and line when none does."""
    text = "Read.\nThe code 1234567 was given. Nothing here. Later 1234567 again\nWhat is the code for red-fox?"
    sample = load("niah_single_1", record(text, ["1234567"])).samples[0]
    assert texts(sample, True) == ["The code 1234567 was given.", "Later 1234567 again\n".strip()]
    with pytest.raises(TextError, match=r"niah_single_1.jsonl:2 does not hold its reference '7777777'"):
        load("niah_single_1", record(text, ["1234567"]), record(text, ["7777777"]))


def test_statements_of_the_chain_are_found_and_those_of_the_example_are_not(load):
    """Each referenced variable's own assignment; not where it is assigned from, nor one that ends in its name."""
    example = "Track.\nVAR ABC = 11111\nnoise\nVAR DEF = VAR ABC \nFind 11111. They are ABC DEF"
    text = f"{example}\n\nTrack.\nVAR LMNOP = 22222\nnoise\nVAR QRSTU = VAR LMNOP \nVAR ZLMNOP = 33333\nFind 22222."
    sample = load("vt", record(text, ["LMNOP", "QRSTU"])).samples[0]
    assert texts(sample, True) == ["VAR LMNOP = 22222", "VAR QRSTU = VAR LMNOP"]
    assert sample.new_tokens == 30
    with pytest.raises(TextError, match=r"vt.jsonl:1 does not assign its reference 'LMNOPQ'"):
        load("vt", record(text, ["LMNOPQ"]))


DOCUMENTS = ("Lea\nIt lies in Brall.", "Two parts.\n\nOne of them is old.", "Brall is BIG")
QA = (
    "Reply.\n\n"
    + "\n\n".join(f"Document {i}:\n{text}" for i, text in enumerate(DOCUMENTS, 1))
    + "\n\nReply.\n\nQ: Where?"
)


@pytest.mark.parametrize(
    ("outputs", "holding"), [(["brall"], (0, 2)), (["is old", "none"], (1,)), (["Reply"], ()), (["yes"], ())]
)
def test_every_document_that_holds_an_answer_is_a_needle(outputs, holding, load):
    """Whatever the case; instructions are no document, and an answer that none holds leaves no needle."""
    sample = load("qa_2", record(QA, outputs)).samples[0]
    assert texts(sample, True) == [DOCUMENTS[place] for place in holding]
    assert (sample.metric, sample.new_tokens) == ("part", 32)


@pytest.mark.parametrize("task", ["cwe", "fwe"])
def test_counted_words_have_no_needles(task, load):
    """Their references stand in many places by design."""
    assert load(task, record("List.\n1. a 2. b 3. a\nWhich?", ["a"])).samples[0].needles == ()


GOOD = json.dumps(record(keyed(("red-fox", "1234567")), ["1234567"]))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "is not a line of JSON"),
        (GOOD[:-1], "is not a line of JSON"),
        ("[" * 100_000, "is not a line of JSON"),
        (b"\xff\xfe", "is not a line of JSON"),
        ("[1]", "holds a list, expected a JSON object"),
        (GOOD.replace('"input"', '"inputs"'), "has input None, expected a text"),
        (GOOD.replace('" They are"', '""'), "has answer_prefix '', expected a text"),
        (GOOD.replace('["1234567"]', "[]"), r"has outputs \[\], expected a list of texts"),
        (GOOD.replace('["1234567"]', "[1234567]"), r"has outputs \[1234567\], expected"),
        (GOOD.replace('["1234567"]', '"1234567"'), "has outputs '1234567', expected"),
    ],
)
def test_a_malformed_line_is_refused_with_file_and_number(line, complaint, tmp_path):
    """The second line of three."""
    path = tmp_path / "niah_single_2.jsonl"
    data = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b"\n".join([GOOD.encode(), data, GOOD.encode()]) + b"\n")
    with pytest.raises(TextError, match=rf"niah_single_2.jsonl:2 {complaint}"):
        load_official(path, "niah_single_2", 4096)


def test_missing_empty_short_and_other_files_are_refused(tmp_path):
    """Each in one sentence; a file under another name has another task's rules only if asked so."""
    path = tmp_path / "fwe.jsonl"
    with pytest.raises(TextError, match="no RULER file at"):
        load_official(path, "fwe", 4096)
    with pytest.raises(TextError, match="cannot read"):
        load_official(tmp_path, "fwe", 4096)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(TextError, match="is empty"):
        load_official(path, "fwe", 4096)
    path.write_text(GOOD + "\n", encoding="utf-8")
    with pytest.raises(TextError, match="holds 1 samples and 2 were asked for"):
        load_official(path, "fwe", 4096, 2)
    with pytest.raises(TextError, match="expected 1111"):
        load_official(path, "fwe", 4096, expected="1" * 64)


@pytest.mark.parametrize("place", ["4096/data/vt/validation.jsonl", "4096/vt/validation.jsonl", "4096/vt.jsonl"])
def test_the_file_of_a_task_is_found_where_the_generator_puts_it(place, tmp_path):
    """By length and task; the error says where it was looked for."""
    with pytest.raises(TextError, match=r"no RULER file of vt at 4096 tokens, looked for at .*4096/vt\.jsonl"):
        official_path(tmp_path, "vt", 4096)
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text("x", encoding="utf-8")
    assert official_path(tmp_path, "vt", 4096) == tmp_path / place
