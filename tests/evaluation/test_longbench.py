"""LongBench v1 and v2 under every arm on tiny random models: what the model reads, what ends an answer, what is drawn.

References are passes of the stock model from scratch and the suite's own light functions.
"""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ridgefill.arms import make_arm
from ridgefill.cost import Geometry, exact_macs
from ridgefill.errors import ConfigError, TextError
from ridgefill.evaluation.longbench import LongBenchRun, end_ids, evaluate_v1, placed
from ridgefill.evaluation.longbench_v2 import evaluate_v2
from ridgefill.evaluation.runs import Fitted
from ridgefill.evaluation.sampling import sample
from ridgefill.models.llama import LlamaAdapter
from ridgefill.models.load import Loaded
from ridgefill.results import read_table, write_table
from ridgefill.suites.longbench import prompts, v2
from ridgefill.suites.longbench.files import read_v1, read_v2
from ridgefill.suites.longbench.scores import score

TESTS = Path(__file__).parents[1]
DATA = TESTS / "suites" / "longbench" / "data"
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
SPLIT, TAIL, BUDGET, CONTEXT = 4, 110, 300, 2000
CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
MARKS = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"]
METADATA = {"git_commit": "0", "config_sha256": "0", "ledger_entry": "main/1"}
ARMS = ("exact", "no_fill", "identity", "identity_question_blind_rows", "identity_random_rows")


def tokenizer_of(chat=CHAT, opening=False):
    """One token a character; whatever is not ASCII is unknown."""
    letters = [*MARKS, "\n", *map(chr, range(32, 127))]
    made = Tokenizer(models.WordLevel({one: place for place, one in enumerate(letters)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    if opening:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=MARKS[3:], clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = chat
    return tokenizer


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(7)
    config = LlamaConfig(
        **{**BUILT["COMMON"], "vocab_size": len(tokenizer_of()), "max_position_embeddings": CONTEXT},
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return BUILT["settled"](LlamaForCausalLM(config), torch.float32, 7)


@pytest.fixture
def run(model):
    """A run of five arms, cut to 300 tokens."""
    arms = [make_arm(name, layers=6, split=SPLIT, tail=TAIL, rows_share=0.1) for name in ARMS]
    return LongBenchRun(
        Loaded(LlamaAdapter(model), tokenizer_of(), ""), arms, Fitted(), Geometry(6, 32, 32, 16, 64), TAIL, 16, BUDGET,
        CONTEXT, lambda label: sum(map(ord, label)), {"experiment": "e", "model": "m", "source": prompts.OWN.source},
        list,
    )  # fmt: skip


@pytest.fixture
def run_v2(run, monkeypatch):
    """Answers of at most 40 and 20 tokens, and arms that may see a question which is longer than the tail."""
    monkeypatch.setattr("ridgefill.evaluation.longbench_v2.REASONING_TOKENS", 40)
    monkeypatch.setattr("ridgefill.evaluation.longbench_v2.ANSWER_TOKENS", 20)
    return replace(run, arms=[arm for arm in run.arms if "blind" not in arm.name])


def v1_item(dataset, index=0):
    return read_v1(DATA / "v1", dataset).items[index]


def greedy(model, ids, count, stops, first_stops=()):
    """Tokens of passes from scratch, most likely first; none of ``first_stops`` to begin with."""
    made = []
    with torch.inference_mode():
        while len(made) < count:
            logits = model(torch.tensor([[*ids, *made]])).logits[0, -1]
            if not made:
                logits[list(first_stops)] = -torch.inf
            token = int(logits.argmax())
            if token in stops:
                break
            made.append(token)
    return made


@pytest.mark.parametrize("dataset", ["hotpotqa", "trec", "samsum", "lcc", "passage_count"])
def test_the_exact_arms_answer_is_the_stock_models_to_the_cut_prompt(model, run, dataset):
    """Cut, templated or not as the dataset says, decoded greedily, scored by the suite's own scorer."""
    item, tokenizer = v1_item(dataset), run.loaded.tokenizer
    row = evaluate_v1(run, item, prompts.OWN)[0]
    made = prompts.prompt_for(item, prompts.OWN, BUDGET, encode=run.encode, decode=run.decode)
    text = f"<|user|>{made.prompt.text}<|end|><|assistant|>" if made.chat else made.prompt.text
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    line = {tokenizer.convert_tokens_to_ids("\n")} if dataset == "samsum" else set()
    stops = {2, MARKS.index("<|end|>")} | line
    expected = greedy(model, ids, made.new_tokens, stops, stops if line else ())
    assert row["prediction"] == run.decode(expected)
    assert (row["generated_tokens"], row["prompt_tokens"]) == (len(expected), len(ids))
    assert (row["chat"], row["cut"], row["whole_tokens"]) == (made.chat, made.prompt.cut, made.prompt.whole_tokens)
    assert row["score"] == score(dataset, row["prediction"], item.answers, classes=item.classes)
    assert row["macs"] == row["exact_macs"] == exact_macs(run.geometry, len(ids))


def test_a_line_break_ends_a_samsum_answer_but_is_never_its_first_token(run, monkeypatch):
    """With the line break always most likely: at the first token the next one is taken, then the answer ends; another
    dataset goes on to its budget.
    """
    line = run.loaded.tokenizer.convert_tokens_to_ids("\n")

    def biased(hidden):
        logits = torch.zeros(*hidden.shape[:-1], len(run.loaded.tokenizer))
        logits[..., line], logits[..., 2], logits[..., 40] = 9.0, 8.0, 7.0
        return logits

    monkeypatch.setattr(LlamaAdapter, "logits", lambda self, hidden: biased(hidden))
    rows = evaluate_v1(run, v1_item("samsum"), prompts.OWN)
    assert {(row["prediction"], row["generated_tokens"]) for row in rows} == {(run.decode([40]), 1)}
    assert {row["generated_tokens"] for row in evaluate_v1(run, v1_item("passage_count"), prompts.OWN)} == {32}


def test_arms_fill_what_lies_before_the_tail_and_one_sample_has_one_prompt(run, tmp_path):
    """Every arm reads the same prompt; rows are as the schema has them and come back from a file."""
    rows = evaluate_v1(run, v1_item("hotpotqa"), prompts.OWN)
    assert [row["arm"] for row in rows] == list(ARMS)
    assert len({(row["prompt_sha256"], row["prompt_tokens"]) for row in rows}) == 1
    tokens = rows[0]["prompt_tokens"]
    by_arm = {row["arm"]: row for row in rows}
    assert by_arm["identity"]["filled_rows"] == tokens - TAIL
    chosen = by_arm["identity_random_rows"]["exact_rows"]
    assert (chosen, by_arm["identity_random_rows"]["filled_rows"]) == (round(0.1 * tokens), tokens - TAIL - chosen)
    write_table(tmp_path / "v1.parquet", "longbench_v1_samples", rows, METADATA)
    assert read_table(tmp_path / "v1.parquet", "longbench_v1_samples").num_rows == len(ARMS)


def test_arms_that_do_not_fit_one_batch_answer_the_same(run_v2, monkeypatch):
    """Batches of one arm and of all: the same rows, sampled answers included."""
    item = read_v2(DATA / "v2.json").items[0]
    together = [evaluate_v1(run_v2, v1_item("hotpotqa"), prompts.OWN), evaluate_v2(run_v2, item, v2.OWN)]
    monkeypatch.setattr("ridgefill.evaluation.longbench.DECODE_BYTES", 1)
    assert together == [evaluate_v1(run_v2, v1_item("hotpotqa"), prompts.OWN), evaluate_v2(run_v2, item, v2.OWN)]


def test_an_arm_that_moves_the_question_is_left_out(run):
    """The order of a LongBench prompt is its template's."""
    moved = make_arm("identity_rows_question_first", layers=6, split=SPLIT, tail=TAIL, rows_share=0.1)
    rows = evaluate_v1(replace(run, arms=[*run.arms, moved]), v1_item("trec"), prompts.OWN)
    assert [row["arm"] for row in rows] == list(ARMS)


def test_a_prompt_without_room_to_answer_is_refused_by_name(run):
    """One sentence with the item, its tokens and what to lower."""
    with pytest.raises(TextError, match=r"hotpotqa-0 has \d+ tokens .* Lower the suite's budget, 300"):
        evaluate_v1(replace(run, context=320), v1_item("hotpotqa"), prompts.OWN)


def test_the_question_is_found_where_the_template_puts_it(run):
    """From its last occurrence to the end, the turn without its marks; none where there is none."""
    prompt, turn, question = placed(run, "cat? a cat sat. cat? go", "cat?")
    assert prompt.text[slice(*turn)] == "cat? a cat sat. cat? go"
    assert prompt.text[slice(*question)] == "cat? go<|end|><|assistant|>"
    assert placed(run, "a cat sat", "dog")[2] is placed(run, "a cat sat", "")[2] is None
    plain, turn, _ = placed(run, "a cat", "", chat=False)
    assert (plain.text, turn) == ("a cat", None)
    marked = replace(run, loaded=replace(run.loaded, tokenizer=tokenizer_of(opening=True)))
    assert placed(marked, "a cat", "", chat=False)[0].ids[:2] == [1, run.encode("a")[0]]


def test_a_template_that_changes_the_turn_is_refused(run):
    """Rows of the template are those outside the turn, so it has to be found."""
    shouting = replace(run, loaded=replace(run.loaded, tokenizer=tokenizer_of("{{ messages[0].content | upper }}")))
    with pytest.raises(TextError, match="does not repeat the user's turn"):
        placed(shouting, "a cat", "")


def test_an_answer_ends_at_the_end_of_the_text_and_of_the_turn():
    """The template's own mark after an answer counts; without a template, or one that repeats nothing, only the end."""
    assert end_ids(tokenizer_of()) == {2, MARKS.index("<|end|>")}
    assert end_ids(tokenizer_of(None)) == {2}
    assert end_ids(tokenizer_of("{{ messages[-1].content }}")) == {2}


def drawn(model, ids, count, stops, seed):
    """Tokens of passes from scratch, each where the running sum of softmax(logits / 0.1) passes a uniform number."""
    generator, made = torch.Generator().manual_seed(seed), []
    with torch.inference_mode():
        while len(made) < count:
            p = (model(torch.tensor([[*ids, *made]])).logits[0, -1].double() / 0.1).softmax(0).tolist()
            wanted, passed, token = torch.rand((), generator=generator, dtype=torch.float64).item(), p[0], 0
            while passed <= wanted:
                token += 1
                passed += p[token]
            if token in stops:
                break
            made.append(token)
    return made


def test_both_requests_of_the_exact_arm_are_drawn_as_from_the_stock_model(model, run_v2):
    """The first with the cut document, the second with what was reasoned and no document; each with its own seed."""
    item = read_v2(DATA / "v2.json").items[1]
    row = evaluate_v2(run_v2, item, v2.OWN)[0]
    first = v2.reasoning_prompt(item, v2.OWN, encode=run_v2.encode, decode=run_v2.decode, budget=BUDGET)
    stops = {2, MARKS.index("<|end|>")}

    def asked(text, count, request):
        ids = run_v2.encode(f"<|user|>{text}<|end|><|assistant|>")
        return ids, drawn(model, ids, count, stops, v2.seed_for_item(item, request, run_v2.seed_for))

    ids, tokens = asked(first.text, 40, "reasoning")
    assert (row["prompt_tokens"], row["reasoning"]) == (len(ids), run_v2.decode(tokens))
    assert (row["reasoning_tokens"], row["at_cap"]) == (len(tokens), len(tokens) == 40)
    second = v2.answer_prompt(item, row["reasoning"], v2.OWN, encode=run_v2.encode, decode=run_v2.decode, budget=BUDGET)
    ids, tokens = asked(second.text, 20, "answer")
    assert (row["answer_prompt_tokens"], row["response"]) == (len(ids), run_v2.decode(tokens))
    outcome = v2.judge(item, row["reasoning"], row["response"])
    assert (row["choice"], row["correct"], row["status"]) == (outcome.choice, outcome.correct, outcome.status)


def test_arms_that_write_the_truth_draw_what_exact_draws(run_v2):
    """Seeds are the item's, shared by all arms: one whose tail covers the prompt says what exact says, and with other
    seeds exact says something else.
    """
    item = read_v2(DATA / "v2.json").items[0]
    covered = make_arm("identity", layers=6, split=SPLIT, tail=CONTEXT, rows_share=0.1)
    exact, same = evaluate_v2(replace(run_v2, arms=[run_v2.arms[0], covered]), item, v2.OWN)
    said = ("reasoning", "response", "reasoning_seed", "answer_seed")
    assert [exact[name] for name in said] == [same[name] for name in said]
    assert exact["reasoning_seed"] != exact["answer_seed"]
    other = evaluate_v2(replace(run_v2, arms=run_v2.arms[:1], seed_for=len), item, v2.OWN)[0]
    assert other["reasoning"] != exact["reasoning"]


def test_an_arm_that_reasoned_nothing_is_not_asked_again(run_v2, monkeypatch, tmp_path):
    """The item leaves its denominator: status empty, no second seed, NULL in the file."""
    monkeypatch.setattr("ridgefill.evaluation.longbench_v2.end_ids", lambda _: frozenset(range(len(tokenizer_of()))))
    rows = evaluate_v2(run_v2, read_v2(DATA / "v2.json").items[0], v2.OWN)
    assert {(row["status"], row["correct"], row["answer_seed"], row["response_tokens"]) for row in rows} == {
        ("empty", None, None, 0)
    }
    write_table(tmp_path / "v2.parquet", "longbench_v2_samples", rows, METADATA)
    assert read_table(tmp_path / "v2.parquet", "longbench_v2_samples").num_rows == len(run_v2.arms)


def test_the_second_prompt_is_filled_by_the_arm_that_reasoned_it(run_v2):
    """Rows before its tail, none when it is no longer than the tail; that is no error."""
    item = read_v2(DATA / "v2.json").items[0]
    for row in evaluate_v2(run_v2, item, v2.OWN):
        if row["arm"] == "identity":
            assert row["answer_filled_rows"] == row["answer_prompt_tokens"] - TAIL > 0
    longer = replace(run_v2, arms=[run_v2.arms[0], replace(run_v2.arms[2], tail=600)], budget=600)
    assert {row["answer_filled_rows"] for row in evaluate_v2(longer, item, v2.OWN)} == {0}


def test_sampling_is_greedy_as_far_as_a_temperature_near_zero_goes():
    """A temperature of zero is refused, and a token without probability is never drawn."""
    logits = torch.randn(50, generator=torch.Generator().manual_seed(1))
    assert {sample(logits, 1e-6, torch.Generator().manual_seed(seed)) for seed in range(20)} == {int(logits.argmax())}
    with pytest.raises(ConfigError, match=r"the temperature is 0\.0"):
        sample(logits, 0.0, torch.Generator())
    logits[7:] = -torch.inf
    assert max(sample(logits, 1.0, torch.Generator().manual_seed(seed)) for seed in range(200)) == 6
