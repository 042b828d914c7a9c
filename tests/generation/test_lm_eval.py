"""The model for lm-evaluation-harness: exact where nothing is filled, else our own scores and tokens."""

import json

import pytest
import torch

pytest.importorskip("lm_eval", reason="lm_eval is not installed; pip install '.[eval]' to run these tests")

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from ridgefill.errors import ConfigError, MapError
from ridgefill.lm_eval_model import RidgeFillLM
from ridgefill.pretrained import RidgeFillMaps

TAIL = 20
CHOICES = ["w3 w4", "w5", "w9 w8 w7"]
LIKELIHOOD = """\
task: tiny_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: {choices}
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: acc}}]
"""
GENERATION = """\
task: tiny_generation
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "w1"
generation_kwargs: {{until: ["w999"], max_gen_toks: 6, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""
# One batch of right-padded texts there, one context at a time here: sums in another order.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Two local tasks over six documents of other lengths, and the documents' texts."""
    folder = tmp_path_factory.mktemp("tasks")
    texts = [" ".join(f"w{(11 * number + entry) % 90}" for number in range(12 + 9 * entry)) for entry in range(6)]
    rows = [json.dumps({"text": text, "answer": entry % 3}) for entry, text in enumerate(texts)]
    (folder / "data.jsonl").write_text("\n".join(rows) + "\n")
    for name, task in (("choice", LIKELIHOOD), ("generation", GENERATION)):
        written = task.format(data=folder / "data.jsonl", choices=json.dumps(CHOICES))
        (folder / f"{name}.yaml").write_text(written)
    return TaskManager(include_path=str(folder), include_defaults=False), texts


@pytest.fixture
def harness(saved):
    """``harness(**choices)``: the model as its command line makes it."""

    def make(**choices):
        return RidgeFillLM(str(saved[0]), ridgefill=str(saved[1]), device="cpu", dtype="float32", **choices)

    return make


def evaluated(model, name, manager):
    """Every sample's raw answers, in order."""
    done = simple_evaluate(
        model=model, tasks=[name], task_manager=manager, log_samples=True, bootstrap_iters=0, verbosity="ERROR"
    )
    samples = sorted(done["samples"][name], key=lambda sample: sample["doc_id"])
    return [sample["resps"] for sample in samples]


def likelihoods(responses):
    return torch.tensor([[one[0][0] for one in sample] for sample in responses], dtype=torch.float64)


def test_it_is_registered(saved):
    """By the name that ``--model`` takes."""
    from lm_eval.api.registry import get_model

    assert get_model("ridgefill") is RidgeFillLM


@pytest.mark.parametrize("choices", [{"tail": 4096}, {"tail": TAIL, "fill": False}])
def test_where_nothing_is_filled_scores_are_the_harness_own(saved, harness, tasks, choices):
    """A tail longer than every context, or no fill: likelihoods and texts of ``HFLM``."""
    manager, _ = tasks
    stock = HFLM(str(saved[0]), device="cpu", dtype="float32", batch_size=3)
    found, expected = (likelihoods(evaluated(model, "tiny_choice", manager)) for model in (harness(**choices), stock))
    assert float((found - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())
    made, theirs = (evaluated(model, "tiny_generation", manager) for model in (harness(**choices), stock))
    assert made == theirs


def test_likelihoods_are_those_of_a_filled_context(harness, tasks, saved, model_of, tiny_tokenizer):
    """Context through ``prefill``, continuation through stock steps one token at a time; other numbers than stock."""
    manager, texts = tasks
    found = likelihoods(evaluated(harness(tail=TAIL), "tiny_choice", manager))
    exact = likelihoods(evaluated(harness(fill=False), "tiny_choice", manager))
    model, maps = model_of(), RidgeFillMaps.from_pretrained(saved[1])
    expected = torch.zeros_like(found)
    for entry, text in enumerate(texts):
        ids = tiny_tokenizer(text, return_tensors="pt")["input_ids"]
        for place, choice in enumerate(CHOICES):
            done = maps.prefill(model, ids, tail=TAIL)
            logits = done.logits
            for token in tiny_tokenizer(choice)["input_ids"]:
                expected[entry, place] += logits.log_softmax(-1)[0, token].double()
                with torch.no_grad():
                    logits = model(torch.tensor([[token]]), cache=done.cache, use_cache=True).logits[:, -1]
    assert float((found - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())
    longer = [len(text.split()) > TAIL for text in texts]
    assert [not torch.equal(one, other) for one, other in zip(found, exact, strict=True)] == longer


def test_generation_is_filled(harness, tasks, saved, model_of, tiny_tokenizer, own_decoding):
    """In a padded batch, each text as our own decoding makes it."""
    manager, texts = tasks
    found = evaluated(harness(tail=TAIL, batch_size=3), "tiny_generation", manager)
    maps = RidgeFillMaps.from_pretrained(saved[1])
    maps = RidgeFillMaps(maps.maps.to(torch.float32, torch.device("cpu")), maps.architecture, maps.fit)
    expected = []
    for text in texts:
        ids = tiny_tokenizer(text, return_tensors="pt")["input_ids"]
        expected.append(tiny_tokenizer.decode(own_decoding(model_of(), maps, ids, new=6), skip_special_tokens=True))
    assert [one[0][0] for one in found] == expected


def test_what_cannot_be_filled_is_said_when_the_model_is_made(harness, saved, tmp_path):
    """Not after hours of requests."""
    with pytest.raises(ConfigError, match="tail is 0"):
        harness(tail=0)
    with pytest.raises(MapError, match="nowhere"):
        RidgeFillLM(str(saved[0]), ridgefill=str(tmp_path / "nowhere"), device="cpu")
    with pytest.raises(ConfigError, match="expected 1 to 512"):
        harness()._loglikelihood_tokens([(None, [1], [2] * 513)], disable_tqdm=True)
