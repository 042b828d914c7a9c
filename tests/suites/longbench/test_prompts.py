"""Prompts: the user's templates or ours, and the middle cut."""

import json
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.longbench.cutting import cut_middle
from ridgefill.suites.longbench.datasets import DATASETS
from ridgefill.suites.longbench.files import read_v1
from ridgefill.suites.longbench.prompts import OWN, prompt_for, read_templates

NAIVE = runpy.run_path(str(Path(__file__).parents[2] / "naive" / "longbench.py"))
WITHOUT_INPUT = {"gov_report", "multi_news", "vcsum", "passage_count", "lcc"}


def ask(item, templates, budget, words):
    return prompt_for(item, templates, budget, encode=words.encode, decode=words.decode)


@given(st.integers(0, 40), st.integers(2, 45))
def test_the_cut_equals_taking_tokens_out_of_the_middle(count, budget):
    """For odd and even lengths and budgets; what fits is left whole."""
    first, last = cut_middle(range(count), budget)
    assert first + last == NAIVE["cut_middle"](range(count), budget)
    assert not last or len(first) == len(last) == budget // 2


def test_a_budget_of_less_than_two_tokens_is_refused():
    """One from each end is the least."""
    with pytest.raises(ConfigError, match="the prompt budget is 1 tokens"):
        cut_middle([1, 2, 3], 1)


def test_our_wording_covers_every_dataset_and_is_labelled():
    """Each template holds the context once, and the input where the dataset has one."""
    assert set(OWN.by_dataset) == set(DATASETS)
    assert (OWN.source, OWN.sha256) == ("longbench-style", None)
    for name, template in OWN.by_dataset.items():
        assert template.count("{context}") == 1
        assert template.count("{input}") == (name not in WITHOUT_INPUT)
        assert template.format(context="", input="").count("{") == 0


def test_few_shot_and_code_prompts_end_with_the_data_or_the_cue():
    """The model continues the last example, so nothing stands after the input."""
    for name in ("trec", "triviaqa", "samsum", "lsht"):
        assert OWN.by_dataset[name].endswith("{input}")
    for name in ("lcc", "repobench-p"):
        assert OWN.by_dataset[name].endswith(":\n")


def test_a_prompt_that_fits_is_the_filled_template(v1_folder, words):
    """Braces in the texts are only text; the dataset says whether the chat template is used."""
    for name in ("hotpotqa", "trec", "lcc"):
        item = read_v1(v1_folder, name).items[0]
        made = ask(item, OWN, 10_000, words)
        expected = OWN.by_dataset[name].replace("{context}", item.context).replace("{input}", item.input)
        assert made.prompt.text == expected
        assert (made.prompt.whole_tokens, made.prompt.cut) == (len(words.encode(expected)), False)
        assert (made.chat, made.new_tokens) == (DATASETS[name].chat, DATASETS[name].new_tokens)


def test_braces_in_the_data_are_left_alone(tmp_path, v1_folder, words):
    """A context that reads like a template is not filled in."""
    line = json.loads((v1_folder / "lcc.jsonl").read_text(encoding="utf-8").splitlines()[0])
    line |= {"context": "x = {input} + {0}\n", "input": "{context}"}
    (tmp_path / "lcc.jsonl").write_text(json.dumps(line), encoding="utf-8")
    made = ask(read_v1(tmp_path, "lcc").items[0], OWN, 1_000, words)
    assert "x = {input} + {0}\n" in made.prompt.text


def test_a_long_prompt_keeps_its_first_and_last_half_without_special_tokens(v1_folder, words):
    """The opening mark counts towards the first half, as the tokenizer put it there, and is not shown."""
    item = read_v1(v1_folder, "hotpotqa").items[0]
    whole = ask(item, OWN, 10_000, words).prompt
    made = ask(item, OWN, 40, words).prompt
    ids = words.encode(whole.text)
    assert made.text == words.decode(ids[:20]) + words.decode(ids[-20:])
    assert (made.whole_tokens, made.cut) == (whole.whole_tokens, True)
    assert len(words.encode(made.text)) == 40  # 39 shown and a new opening mark
    assert made.text.endswith("Answer:")


def test_each_half_becomes_text_by_itself(v1_folder, words):
    """Two calls of the decoder, so its opening habits apply to both halves."""
    item = read_v1(v1_folder, "hotpotqa").items[0]
    made = prompt_for(item, OWN, 20, encode=words.encode, decode=lambda ids: f"<{words.decode(ids)}>")
    assert made.prompt.text.count("<") == made.prompt.text.count(">") == 2


def official(folder, **templates):
    path = folder / "dataset2prompt.json"
    path.write_text(json.dumps(templates), encoding="utf-8")
    return path


def test_the_users_templates_are_used_as_they_are_and_labelled_official(tmp_path, v1_folder, words):
    """Templates of other datasets are not looked at."""
    templates = read_templates(official(tmp_path, hotpotqa="Q {input} T {context}", nq="{other}"), ["hotpotqa"])
    item = read_v1(v1_folder, "hotpotqa").items[0]
    assert (templates.source, len(templates.sha256)) == ("official", 64)
    assert ask(item, templates, 1_000, words).prompt.text == f"Q {item.input} T {item.context}"
    with pytest.raises(TextError, match="no template for lcc"):
        ask(read_v1(v1_folder, "lcc").items[0], templates, 1_000, words)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("no field", "expected plain {context}"),
        ("{input}", "expected plain {context}"),
        ("{context} {answers}", "expected plain {context}"),
        ("{context} {}", "expected plain {context}"),
        ("{context} {input.__class__}", "expected plain {context}"),
        ("{context:>9}", "expected plain {context}"),
        ("{context!r}", "expected plain {context}"),
        ("{context} {", "unbalanced braces"),
        (7, "has hotpotqa of type int"),
    ],
)
def test_templates_that_could_not_be_filled_are_refused(template, message, tmp_path):
    """Before any model runs."""
    with pytest.raises(TextError, match=message):
        read_templates(official(tmp_path, hotpotqa=template), ["hotpotqa"])


def test_a_template_file_that_lacks_a_dataset_is_refused(tmp_path):
    """The missing name is in the sentence; so is a missing file."""
    with pytest.raises(TextError, match="lacks the field 'lcc'"):
        read_templates(official(tmp_path, hotpotqa="{context}"), ["hotpotqa", "lcc"])
    with pytest.raises(TextError, match=r"no file at .*dataset2prompt"):
        read_templates(tmp_path / "none" / "dataset2prompt.json", ["lcc"])
