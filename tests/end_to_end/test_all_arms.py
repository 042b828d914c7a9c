"""One experiment file runs every arm, selector, correction and splice, and every suite, on a tiny random hybrid.

The arms are those of the SmolLM2 and Gemma experiments of the same kind, read from their files, and those that only a
model with recurrent layers can have.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

ROOT = Path(__file__).parents[2]
# Minutes: thirteen jobs of the workflow. tests/evaluation/ holds the same arms and suites in process.
pytestmark = [pytest.mark.xdist_group("end_to_end_arms"), pytest.mark.slow]
SPLIT, TAIL, LAYERS = 4, 128, 8
RECURRENT = ["ridgefill_state_correction", "splice_exact_states", "splice_exact_all"]
CORRECTED_IDENTITY = {"name": "identity_state_correction", "like": "identity", "state_correction": True}
SUITES = {
    "agreement": {"documents": 2, "lengths": [160, 224], "new_tokens": 8, "arms": ["identity", "ridgefill_rows"]},
    "turns": {"lengths": [512], "samples": 1, "new_tokens": 16, "arms": ["identity", "ridgefill_rows"]},
    "speed": {"lengths": [192], "repeats": 5, "arms": ["ridgefill"]},
    "serving": {
        "lengths": [192], "users": 2, "user_prompt": 16, "new_tokens": 8, "chunk": 64, "repeats": 1,
        "arms": ["ridgefill"],
    },
}  # fmt: skip
REFITTED = [
    {"name": "lam_per_layer", "like": "ridgefill", "maps": {"lam_for": "layer"}},
    {"name": "fewer_tokens", "like": "ridgefill", "maps": {"tokens": 512}},
]
MODEL = f"""\
name: tiny
family: qwen3_5
geometry:
  layers: {LAYERS}
  hidden: 32
  heads: 4
  kv_heads: 2
  head_dim: 16
  intermediate: 64
  vocab: 512
  context: 1024
  recurrent: {{attention_every: 4, key_heads: 2, value_heads: 6, key_dim: 8, value_dim: 12, conv_kernel: 4}}
qk_norm: true
source: {{kind: hub, repo: example/tiny, revision: null}}
"""


def arms():
    """The list of the real models' experiments, which is one, and what recurrent layers add."""
    lists = [
        yaml.safe_load((ROOT / f"workflow/config/experiments/{name}_arms.yaml").read_text("utf-8"))["arms"]
        for name in ("smollm2", "gemma3_270m")
    ]
    assert lists[0] == lists[1]
    low = {"name": "ridgefill_rank64", "like": "ridgefill", "maps": {"towards": "identity", "rank": 8}}
    shared = [low if isinstance(arm, dict) and arm["name"] == "ridgefill_rank64" else arm for arm in lists[0]]
    return [*shared, *RECURRENT, CORRECTED_IDENTITY, *REFITTED]


def names():
    return [arm if isinstance(arm, str) else arm["name"] for arm in arms()]


def write_hybrid(folder, material):
    """Random recurrent layers that remember tens of rows, with a tokenizer."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    spec = importlib.util.spec_from_file_location("builders", ROOT / "tests/families/builders.py")
    builders = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builders)
    torch.manual_seed(3)
    rotary = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    shape = builders.COMMON | builders.HYBRID | {"vocab_size": 512, "max_position_embeddings": 1024, "eos_token_id": 1}
    model = builders.remembering(Qwen3_5ForCausalLM(Qwen3_5TextConfig(**shape, rope_parameters=rotary)), 3)
    builders.settled(model, torch.float32, 3).save_pretrained(folder)
    material.write_tokenizer(folder)


@pytest.fixture(scope="module")
def done(fresh, material, tmp_path_factory):
    """The experiment with all arms on the hybrid, registered and run to its report."""
    made = fresh.copy(tmp_path_factory.mktemp("all_arms") / "checkout")
    for path in (made.root / "model").iterdir():
        path.unlink()
    write_hybrid(made.root / "model", material)
    experiment = yaml.safe_load(material.EXPERIMENT_YAML)
    experiment |= {"split": SPLIT, "tail": TAIL, "arms": arms(), "curve": {"splits": [SPLIT, 5], "arms": ["identity"]}}
    experiment["suites"]["ruler"] |= {"lengths": [448, 512], "tasks": ["niah_multikey_1"]}
    experiment["suites"]["documents"] |= {"prompt_tokens": 256, "scored_tokens": 32}
    experiment["suites"] |= SUITES
    claim = yaml.safe_load(material.CLAIM_YAML) | {"arms": names(), "predictions": []}
    claim["runs"] += [{"id": run, "configs": claim["runs"][0]["configs"]} for run in ("corrections", *SUITES)]
    material.write(made.root / material.EXPERIMENT, material.plain_yaml(experiment))
    material.write(made.root / material.MODEL, MODEL)
    # Written out in full: the ledger takes no aliases.
    material.write(made.root / material.CLAIM, material.plain_yaml(claim))
    made.register()
    ran = made.snakemake("results/tiny", cores=2)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return made


def rows(done, name):
    return pq.read_table(done.results / name, partitioning=None).to_pylist()


def test_every_arm_has_its_rows_seeds_and_costs_in_the_parquet_files(done):
    """For every prompt of both suites, arms that move a question aside where there is none to move."""
    asked = [name for name in names() if not name.endswith("question_first")]
    for suite, expected in (("ruler", names()), ("documents", asked)):
        found = rows(done, f"{suite}/arms.parquet")
        by_item = {}
        for row in found:
            by_item.setdefault(row["item"], []).append(row)
        assert len(by_item) == 2
        for item_rows in by_item.values():
            assert [row["arm"] for row in item_rows] == [*expected, "identity"]  # the last from the split curve
            assert len({row["seed"] for row in item_rows}) == 1
            for row in item_rows:
                assert row["selected"] == sorted(set(row["selected"]))
                assert 0 < row["macs"] - row["selection_macs"] - row["correction_macs"] <= row["exact_macs"] * 1.01
        assert len({row["seed"] for row in found}) == 2


def test_arms_spend_what_they_are_for(done):
    """Chosen and random rows are as many; matched arms cost the same within 0.5 %; corrections are charged."""
    for item in {row["item"] for row in rows(done, "ruler/arms.parquet")}:
        found = rows(done, "ruler/arms.parquet")
        by_arm = {row["arm"]: row for row in found if row["item"] == item and row["split"] in (SPLIT, None)}
        count = {name: len(row["selected"]) for name, row in by_arm.items()}
        assert count["ridgefill_rows"] == count["ridgefill_random_rows"] == count["identity_rows"] > 0
        assert count["ridgefill_probe"] == count["ridgefill_probe_random"] > 0
        assert by_arm["ridgefill_random_rows"]["selected"] != by_arm["ridgefill_rows"]["selected"]
        for name, like in (("ridgefill_random_matched", "ridgefill_rows"), ("no_fill_longer_tail", "ridgefill")):
            assert by_arm[name]["matched_to"] == like
            assert by_arm[name]["target_macs"] == by_arm[like]["macs"]
        assert abs(by_arm["no_fill_longer_tail"]["macs"] / by_arm["ridgefill"]["macs"] - 1) < 0.005
        for name in ("scale_keys_tail", "ridgefill_state_correction", "identity_state_correction"):
            assert by_arm[name]["correction_macs"] > 0
        assert by_arm["ridgefill_rank64"]["macs"] < by_arm["ridgefill"]["macs"]


def test_maps_fitted_otherwise_are_there_and_say_how(done):
    """Of fewer tokens, by their rows; with a penalty per layer, by each of them; the choice's curve beside them."""
    fits = {
        name: json.loads((done.results / "maps" / f"split{SPLIT}{name}" / "ridgefill.json").read_text("utf-8"))["fit"]
        for name in ("", "-tokens512", "-lam-per-layer")
    }
    assert 512 <= fits["-tokens512"]["rows"] < fits[""]["rows"] == fits["-lam-per-layer"]["rows"]
    assert len(fits["-lam-per-layer"]["lam_by_layer"]) == LAYERS - SPLIT
    curve = rows(done, "lam/more_maps.parquet")
    assert {"zero-tokens512", "zero-lam-per-layer"} < {row["towards"] for row in curve}


def test_what_corrections_measured_is_there_by_layer_and_head(done):
    """Scales of the late attention layer's two key-value heads, shares of recurrent layers' six value heads."""
    for suite in ("ruler", "documents"):
        found = {(row["arm"], row["what"], row["layer"]): 0 for row in rows(done, f"{suite}/measured.parquet")}
        for row in rows(done, f"{suite}/measured.parquet"):
            found[row["arm"], row["what"], row["layer"]] += 1
        items = 2
        expected = {(f"scale_{part}s_tail", f"{part}_scale", 7): 2 * items for part in ("key", "value")}
        for arm in ("ridgefill_state_correction", "identity_state_correction"):
            expected |= {(arm, "rho", layer): 6 * items for layer in (5, 6)}
        assert found == expected


def test_exact_parts_in_all_filled_layers_are_the_exact_arm(done):
    """With keys, values and states spliced nothing of the fill is left; with keys and values alone something is."""
    losses = {}
    for row in rows(done, "documents/tokens.parquet"):
        if row["split"] == 5:
            continue
        losses.setdefault(row["arm"], []).append(row["nll"])
    gap = {name: max(abs(a - b) for a, b in zip(losses["exact"], found, strict=True)) for name, found in losses.items()}
    assert gap["splice_exact_all"] <= 1e-4
    assert gap["splice_exact_keys_values"] > 1e-3
    assert gap["ridgefill"] > 1e-3


def test_every_suite_leaves_its_rows(done):
    """Agreement, two turns, time to first token and mixed serving of the arms that they name, and of exact."""
    followed = rows(done, "agreement/tokens.parquet")
    assert {row["arm"] for row in followed} == {"exact", "identity", "ridgefill_rows"}
    assert {row["variant"] for row in followed} == {"greedy", "text"}
    assert all(row["top1"] and row["kl"] == 0 for row in followed if row["arm"] == "exact")
    assert {row["arm"] for row in rows(done, "turns/samples.parquet")} == {"exact", "identity", "ridgefill_rows"}
    assert len(rows(done, "speed/requests.parquet")) == 5
    assert {row["arm"] for row in rows(done, "serving/runs.parquet")} == {"exact", "ridgefill"}


def test_corrections_are_in_the_published_layout_with_their_checksums(done):
    """One file for each fill that is corrected, value before key width, as map folders have them."""
    from safetensors import safe_open

    lines = (done.results / "corrections/SHA256SUMS").read_text("utf-8").splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == [
        "split4-identity-fill/correction.safetensors", "split4/correction.safetensors",
    ]  # fmt: skip
    with safe_open(done.results / "corrections/split4/correction.safetensors", framework="pt") as stored:
        shapes = {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
    assert shapes == {f"st.{layer}": [6, 12, 8] for layer in (5, 6)}


def test_the_report_has_every_arm_and_its_numbers_hold(done):
    """Main table and splices; the recomputation agrees; the ledger is clean."""
    page = (done.results / "report.html").read_text("utf-8")
    main = (done.results / "tables/main.md").read_text("utf-8")
    assert "splice_exact" not in main.split("\n")[0]
    assert (done.results / "tables/splices.md").is_file()
    assert "Traceback" not in page
    verification = json.loads((done.results / "verification.json").read_text("utf-8"))
    assert verification["passed"], verification["mismatches"]
    assert verification["tables"]["splices"] > 0
    assert verification["tables"]["spending"] > 0
    assert done.ledger("verify").returncode == 0
