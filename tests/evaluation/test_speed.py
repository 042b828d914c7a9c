"""Time to first token: what is run when, on which prompts, and what is counted, with clocks that a test reads out."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.arms import ARM_NAMES, Arm, ArmSettings, arm_table
from ridgefill.cost import exact_macs, fill_macs
from ridgefill.errors import ConfigError, TextError
from ridgefill.evaluation import clocks, speed
from ridgefill.evaluation.clocks import device_clock, peak_bytes, timed
from ridgefill.evaluation.requests import make_requests
from ridgefill.evaluation.runs import Fitted, prefill_late
from ridgefill.evaluation.speed import SpeedRun, chosen_arms, filled_prefill, time_arm, timed_pair
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.models.load import Loaded
from ridgefill.passes import run_lower
from ridgefill.results import SCHEMAS, read_table, write_table
from ridgefill.rows import plan_rows
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context
from ridgefill.selectors.frequency import Frequencies

MADE = runpy.run_path(str(Path(__file__).with_name("timing_material.py")))
GEOMETRY, Numbers, prompt = MADE["GEOMETRY"], MADE["Numbers"], MADE["prompt"]
TOKENS, TAIL, SPLIT, REPEATS = 90, 20, 4, 5
LABELS = {"experiment": "e", "model": "m"}
RIDGE = Arm("ridgefill", "ridge", SPLIT, TAIL)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture
def run():
    adapter = MADE["adapter_of"]()
    maps = {(SPLIT, PLAIN): MADE["random_maps"](adapter, SPLIT).predict}
    fitted = Fitted(maps, frequencies=Frequencies((1,) * MADE["VOCABULARY"]))
    return SpeedRun(Loaded(adapter, Numbers(), ""), [RIDGE], fitted, GEOMETRY, TAIL, 64, REPEATS, LABELS)


@pytest.fixture
def requests():
    """Requests over a text of 500 random numbers."""
    words = prompt(500, 3)[0].tolist()
    return make_requests(Numbers(), [" ".join(map(str, words[:200])), " ".join(map(str, words[200:]))], 40, seed=7)


@pytest.fixture
def contexts(requests):
    return lambda number: requests.context([RIDGE], number, TOKENS)


@pytest.fixture
def heard(run, monkeypatch):
    """What is run, in order: (who, ids, whether a profiler records memory)."""
    calls, recording = [], []

    def listen(name, place, who):
        plain = getattr(speed, name)

        def called(*given):
            ids = given[place]
            calls.append((who, tuple(ids[0].tolist()), bool(recording)))
            return plain(*given)

        monkeypatch.setattr(speed, name, called)

    def record(work, device):
        recording.append(True)
        work()
        recording.clear()
        return len(calls)

    listen("stock_prefill", 1, "exact")
    listen("filled_prefill", 3, "arm")
    monkeypatch.setattr(speed, "peak_bytes", record)
    return calls


def test_requests_alternate_with_exact_on_the_same_prompts_which_all_differ(run, contexts, heard):
    """One untimed pair whose memory is measured, then five timed ones; exact first; no prompt twice."""
    told = []
    time_arm(run, RIDGE, contexts, MADE["Ticks"](), lambda: told.append(len(heard)))
    assert [who for who, _, _ in heard] == ["exact", "arm"] * (REPEATS + 1)
    assert [untimed for _, _, untimed in heard] == [True] * 2 + [False] * 2 * REPEATS
    pairs = [(heard[place][1], heard[place + 1][1]) for place in range(0, len(heard), 2)]
    assert all(own == exact for exact, own in pairs)
    assert len({ids for ids, _ in pairs}) == REPEATS + 1
    assert told == [2 * pair for pair in range(1, REPEATS + 2)]


def test_seconds_are_those_between_two_looks_at_the_clock_around_each_request(run, contexts):
    """By a scripted clock: four looks for a pair, none for the untimed one, and nothing between requests counts."""
    moments, expected = [], []
    for pair in range(REPEATS):
        base = 1000.0 * pair
        moments += [base, base + 8 + pair, base + 500, base + 502 + 2 * pair]
        expected.append((8.0 + pair, 2.0 + 2 * pair))
    clock = MADE["Script"](moments)
    rows = time_arm(run, RIDGE, contexts, clock)
    assert [(row["exact_seconds"], row["seconds"]) for row in rows] == expected
    assert clock.read == len(moments)


def test_rows_say_what_was_run(run, contexts, tmp_path):
    """Counts by the plan and the cost model, one row per request, in the layout of the results file."""
    rows = time_arm(run, RIDGE, contexts, MADE["Ticks"]())
    assert [row["repeat"] for row in rows] == list(range(REPEATS))
    for row in rows:
        assert (row["arm"], row["split"], row["length"]) == ("ridgefill", SPLIT, TOKENS)
        assert (row["filled_rows"], row["exact_rows"]) == (TOKENS - TAIL, TAIL)
        assert row["macs"] == fill_macs(GEOMETRY, tokens=TOKENS, split=SPLIT, tail=TAIL, mapped_split_layer=False)
        assert row["exact_macs"] == exact_macs(GEOMETRY, TOKENS)
        assert row["device"] == "cpu"
        assert row["dtype"] == "float32"
        assert row["peak_bytes"] > 0
        assert row["exact_peak_bytes"] > 0
    metadata = {"git_commit": "c", "config_sha256": "h", "ledger_entry": "local/1"}
    write_table(tmp_path / "requests.parquet", "speed", rows, metadata)
    assert read_table(tmp_path / "requests.parquet", "speed").to_pylist() == rows
    assert set(rows[0]) == set(SCHEMAS["speed"].names)


def test_an_arms_request_is_its_own_lower_and_late_pass(run, contexts):
    """The logits of the last row as from the parts called by hand, without any exact pass."""
    context = contexts(0)
    ids = torch.tensor([context.ids])
    lower = run_lower(run.loaded.adapter, ids, SPLIT)
    plan = plan_rows(RIDGE, replace(context, adapter=run.loaded.adapter, lower=lower), GEOMETRY)
    late = run_late(run.loaded.adapter, lower, plan, predictor(RIDGE, run.fitted.maps, run.loaded.adapter), RIDGE)
    done = filled_prefill(run, RIDGE, context, ids)
    assert torch.equal(done.logits, run.loaded.adapter.logits(late.hidden[:, -1:]))
    assert done.logits.shape == (1, 1, MADE["VOCABULARY"])


def test_exact_is_the_stock_models_own_forward_pass(run, contexts):
    """With a cache of every row, and the logits of the last one."""
    context = contexts(0)
    ids = torch.tensor([context.ids])
    made = speed.stock_prefill(run.loaded.adapter, ids)
    assert made.logits.shape == (1, 1, MADE["VOCABULARY"])
    # The head multiplies one row instead of all.
    torch.testing.assert_close(made.logits, run.loaded.adapter.model(ids).logits[:, -1:], rtol=1e-5, atol=1e-5)
    assert made.cache.get_seq_length() == TOKENS


def test_a_window_far_from_the_end_is_kept_for_the_arm_that_ranks_by_it(run, contexts):
    """Question-blind rows read the rows before the tail, which the usual window does not reach."""
    arm = arm_table(ArmSettings(layers=6, split=SPLIT, tail=70, window=10))["ridgefill_question_blind_rows"]
    done = timed_pair(replace(run, window=10), arm, contexts(1), MADE["Ticks"]()).done
    assert len(done.plan.selected) == 9
    attended = Arm("attended", "ridge", SPLIT, TAIL, rows=AttentionRows(0.1, 64))
    assert len(filled_prefill(run, attended, contexts(1), torch.tensor([contexts(1).ids])).plan.selected) == 9


def test_every_arm_that_is_served_can_be_timed(run, requests):
    """Those of the table, whatever their selectors read, but arms that need another model or fitted offsets."""
    table = arm_table(ArmSettings(layers=6, split=SPLIT, tail=TAIL))
    others = {"kva", "swiftkv_tail", "swiftkv_released", "ridgefill_state_correction"}
    arms = [arm for arm in chosen_arms(list(table.values()), None) if arm.name not in others]
    assert {"ridgefill_probe", "ridgefill_protected", "ridgefill_lexical"} <= {arm.name for arm in arms}
    seeing = replace(requests, frequencies=run.fitted.frequencies)
    for arm in arms:
        pair = timed_pair(run, arm, seeing.context([arm], 2, TOKENS), MADE["Ticks"]())
        assert bool(pair.done.logits.isfinite().all())


def test_arms_that_are_not_served_are_left_out_or_refused_by_name():
    """Unasked they are left out; asked for by name, or unknown, one sentence says why."""
    table = list(arm_table(ArmSettings(layers=6, split=SPLIT, tail=TAIL)).values())
    left = {arm.name for arm in table} - {arm.name for arm in chosen_arms(table, None)}
    assert left == {"exact"} | {name for name in ARM_NAMES if name.startswith("splice") or name.endswith("first")}
    assert [arm.name for arm in chosen_arms(table, ("ridgefill", "identity"))] == ["ridgefill", "identity"]
    for name, why in (("exact", "timed against"), ("splice_exact_all", "nothing is saved"), ("rigdefill", "has none")):
        with pytest.raises(ConfigError, match=why):
            chosen_arms(table, (name,))


def test_a_splice_cannot_run_without_an_exact_pass(run, contexts):
    """Also where somebody calls it without asking first."""
    arm = Arm("spliced", "ridge", SPLIT, TAIL, splice=("keys",))
    lower = run_lower(run.loaded.adapter, torch.tensor([contexts(0).ids]), SPLIT)
    with pytest.raises(ConfigError, match="splices rows of an exact pass"):
        prefill_late(run, Context.around(run.loaded.adapter, lower), arm)


def test_a_swiftkv_checkpoint_is_refused_because_its_own_forward_pass_is_not_exact(run):
    """Timing it would compare with SwiftKV itself."""
    other = type("Other", (), {"fingerprint": {"family": "llama_swiftkv"}})()
    with pytest.raises(ConfigError, match=r"own forward pass is SwiftKV's"):
        speed.require_stock(other)
    speed.require_stock(run.loaded.adapter)


def test_the_clock_waits_for_a_cuda_device_and_only_for_it(monkeypatch):
    """Before every look, for the device that was named."""
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    device_clock(torch.device("cpu"))()
    assert waited == []
    clock = device_clock(torch.device("cuda", 1))
    assert timed(lambda: waited.append("work"), clock)[1] >= 0
    assert waited == [torch.device("cuda", 1), "work", torch.device("cuda", 1)]


def test_peak_memory_is_the_most_that_was_there_at_once():
    """A million numbers, a second million, the first given back, a half million more: two millions at once."""

    def work():
        first = torch.ones(1_000_000)
        second = first + 1
        del first
        return second, torch.ones(500_000)

    assert 8_000_000 <= peak_bytes(work, [torch.device("cpu")]) < 8_001_000


def test_peak_memory_on_cuda_counts_from_what_was_there_before(monkeypatch):
    """The allocator's highest mark since it was reset, less what other tensors took."""
    done = []
    for name, value in (("synchronize", None), ("reset_peak_memory_stats", None), ("memory_allocated", 100)):
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name, value=value: done.append(name) or value)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: done.append("most") or 350)
    assert clocks.peak_bytes(lambda: done.append("work"), [torch.device("cuda")]) == 250
    assert done.index("reset_peak_memory_stats") < done.index("work") < done.index("most")


def test_requests_are_stretches_of_the_text_with_their_own_characters(requests):
    """Ids follow each other in the text, beginning again at its end; each offset cuts its own number out."""
    whole = [int(word) for word in requests.text.split()]
    reading = arm_table(ArmSettings(layers=6, split=3, tail=TAIL))["ridgefill_lexical"]
    for number in range(40):
        context = requests.context([reading], number, TOKENS)
        begin = requests.starts[number]
        assert list(context.ids) == (whole * 2)[begin : begin + TOKENS]
        assert [int(context.text[a:b]) for a, b in context.offsets] == list(context.ids)
    assert any(start + TOKENS > len(whole) for start in requests.starts)
    assert len(set(requests.starts)) == 40
    assert len({requests.context([], number, TOKENS).seed for number in range(40)}) == 40


def test_the_tokenizers_opening_mark_is_part_of_a_request():
    """First, without characters, and counted."""
    made = make_requests(Numbers(mark=5), [" ".join(str(n) for n in range(60))], 3, seed=1)
    assert made.context([], 0, 10).ids[0] == 5
    assert made.context([], 0, 10).tokens == 10


@pytest.mark.parametrize("count", [4, 100])
def test_too_little_text_for_different_prompts_is_refused(count):
    """Fewer tokens than requests, or a request beyond the planned ones."""
    if count == 4:
        with pytest.raises(TextError, match="at most the 4 planned"):
            make_requests(Numbers(), ["1 2 3 4"], count, 0).context([], 4, 3)
    else:
        with pytest.raises(TextError, match="hold 4 tokens; expected at least 100"):
            make_requests(Numbers(), ["1 2 3 4"], count, 0)
