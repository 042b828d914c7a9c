"""An experiment with the suite ``served``: refused without the engine, and run through vLLM's own server with it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / ".venv-vllm"
pytestmark = [pytest.mark.xdist_group("vllm")]
WIDTH, HEAD = 64, 32
SERVED = {
    "lengths": [64, 96], "repeats": 5, "dtype": "float32", "chunk": 128, "min_filled": 16, "users": 2, "user_prompt": 8,
    "new_tokens": 400, "runs": 1, "long": 80,
    "short": {"prompt": 12, "new_tokens": 4, "pairs": 3, "burst": 2, "rounds": 2},
}  # fmt: skip
SERVED_FILES = {"served/requests.parquet": 10, "served/runs.parquet": 2, "served/pairs.parquet": 48}


def write_model(folder, material):
    """A random Llama whose heads are of a size that the engine's kernels have."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=material.LAYERS, hidden_size=WIDTH, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, head_dim=HEAD, vocab_size=material.VOCABULARY, max_position_embeddings=material.CONTEXT,
        initializer_range=0.2, tie_word_embeddings=False, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    material.write_tokenizer(folder)


@pytest.fixture
def with_server(fresh, material, tmp_path):
    """A checkout whose experiment has the suite, registered; without an engine."""
    made = fresh.copy(tmp_path / "checkout")
    for path in (made.root / "model").iterdir():
        path.unlink()
    write_model(made.root / "model", material)
    experiment = yaml.safe_load(material.EXPERIMENT_YAML)
    experiment |= {"arms": ["exact", "identity", "ridgefill"], "curve": {"splits": [3, 4], "arms": ["ridgefill"]}}
    experiment["suites"]["ruler"] |= {"lengths": [400]}
    experiment["suites"]["served"] = SERVED
    claim = yaml.safe_load(material.CLAIM_YAML)
    claim["arms"] = experiment["arms"]
    claim["runs"].append({"id": "served", "configs": claim["runs"][0]["configs"]})
    reached = {"metric": "served_ceiling", "arm": "ridgefill", "set": {"model": "tiny", "split": 4, "subset": "96"}}
    same = {"metric": "served_same", "arm": "ridgefill", "set": {"model": "tiny", "split": 4, "subset": "fresh"}}
    claim["predictions"] = [
        {"id": "reached", "says": "Something.", "min_n": 5, "missing": "undecided",
         "rule": reached | {"statistic": "estimate", "op": ">", "threshold": "0"}},
        {"id": "same", "says": "Short requests have the stock server's tokens.", "min_n": 3, "missing": "undecided",
         "rule": same | {"statistic": "estimate", "op": ">=", "threshold": "100"}},
    ]  # fmt: skip
    settings = yaml.safe_load(material.MODEL_YAML)
    settings["geometry"] |= {"hidden": WIDTH, "head_dim": HEAD}
    material.write(made.root / material.MODEL, yaml.safe_dump(settings))
    material.write(made.root / material.EXPERIMENT, material.plain_yaml(experiment))
    # Written out in full: the ledger takes no aliases.
    material.write(made.root / material.CLAIM, material.plain_yaml(claim))
    made.register()
    return made


def test_without_the_engine_nothing_is_planned(with_server, plan, refused):
    """One sentence, with the command that installs it."""
    refused(plan(with_server, "results/tiny"), r"vLLM is not installed \(looked for .*\); make vllm-setup installs it")


@pytest.mark.slow
def test_a_server_is_measured_and_reported(with_server):
    """Parquet, tables, verdicts and a second path to every number."""
    if not (ENGINE / "bin" / "python").is_file():
        pytest.skip(f"{ENGINE.name} is not there: `make vllm-setup` builds the engine's environment")
    (with_server.root / ENGINE.name).symlink_to(ENGINE)
    done = with_server.snakemake("results/tiny", cores=2)
    assert done.returncode == 0, done.stdout + done.stderr
    for file, count in SERVED_FILES.items():
        assert pq.read_metadata(with_server.results / file).num_rows == count, file
    assert json.loads((with_server.results / "verification.json").read_text())["mismatches"] == []
    verdicts = {one["id"]: one["verdict"] for one in json.loads((with_server.results / "verdicts.json").read_text())}
    assert verdicts == {"reached": "supported", "same": "supported"}
    page = (with_server.results / "report.html").read_text("utf-8")
    assert "Requests too short to fill, beside the stock server" in page
    assert (with_server.results / "tables/served.md").is_file()
