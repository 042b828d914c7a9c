"""What the workflow refuses while it is being planned."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ridgefill.config import load_model
from workflow.dag import Plan, Refused

ROOT = Path(__file__).resolve().parents[1]


def plan(model_path: str) -> Plan:
    """The workflow as the command line configures it, with a hub model's folder given."""
    return Plan(ROOT, {"ledger_branch": "local", "model_path": model_path, "models": "models", "texts": "texts"})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder that holds what every model must."""
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    return str(tmp_path)


def test_a_hybrid_plans_as_far_as_its_registration(folder: str) -> None:
    """Recurrent layers are counted, so what is missing is the registration."""
    with pytest.raises(Refused, match="ledger register"):
        plan(folder).admit("results/qwen35_split12")


def test_a_model_whose_work_cannot_be_counted_is_refused_before_it_runs(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hybrid's configuration that leaves its recurrent sizes out: one sentence, not a wrong column hours later."""
    known = load_model("qwen3.5-9b", ROOT)
    lacking = known.model_copy(update={"geometry": known.geometry.model_copy(update={"recurrent": None})})
    monkeypatch.setattr("workflow.dag.load_model", lambda name, root: lacking)
    with pytest.raises(Refused, match=r"qwen3\.5-9b: .* expected their sizes as `recurrent`"):
        plan(folder).admit("results/qwen35_split12")


def test_a_checkpoint_of_this_repository_plans_as_far_as_its_registration(tmp_path: Path) -> None:
    """Its files are what its rule copies; without the folder of results or models, what is missing is the claim."""
    made = plan("")
    assert made.committed_files("hybrid-attention")[0].startswith("data/models/hybrid-attention/")
    assert made.committed_files("smollm2-135m-instruct") == []
    assert made.text_files("hybrid_attention") == ["texts/hybrid-language.fetched"]
    assert made.sources_file("hybrid-language") == "data/texts/hybrid/sources.json"
    elsewhere = Plan(tmp_path, dict(made.config))
    shutil.copytree(ROOT / "workflow/config", tmp_path / "workflow/config")
    with pytest.raises(Refused, match=r"hybrid-attention lacks data.models.hybrid-attention.config\.json; restore"):
        elsewhere.admit("results/hybrid_attention")
    shutil.copytree(ROOT / "data/models/hybrid-attention", tmp_path / "data/models/hybrid-attention")
    for path in ("workflow/claims", "data/texts"):
        shutil.copytree(ROOT / path, tmp_path / path)
    with pytest.raises(Refused, match=r"ledger register workflow.claims.hybrid_attention\.yaml"):
        elsewhere.admit("results/hybrid_attention")


def test_a_checkpoint_that_is_not_pinned_yet_is_refused(tmp_path: Path) -> None:
    """One sentence says that it has to be trained and pinned."""
    shutil.copytree(ROOT / "workflow/config", tmp_path / "workflow/config")
    path = tmp_path / "workflow/config/models/hybrid-attention.yaml"
    text = path.read_text("utf-8")
    path.write_text(text[: text.index("  files:")] + "  files: null\n", encoding="utf-8")
    with pytest.raises(Refused, match="nobody has pinned yet; train it into data/models/hybrid-attention"):
        Plan(tmp_path, {"ledger_branch": "local", "models": "models", "texts": "texts"}).admit(
            "results/hybrid_attention"
        )


def test_a_model_without_files_is_refused_first() -> None:
    """The folder that was given is named."""
    with pytest.raises(Refused, match="nowhere"):
        plan("/nowhere").admit("results/qwen3_split13")


def test_a_model_that_can_be_counted_is_stopped_by_its_registration_alone(folder: str) -> None:
    """Qwen3 has both, so what is missing is the registration."""
    with pytest.raises(Refused, match="ledger register"):
        plan(folder).admit("results/qwen3_split13")


def test_a_job_asks_for_as_many_gpus_as_its_models_layers_are_spread_over(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "workflow/config", tmp_path / "workflow/config")
    made = Plan(tmp_path, {"ledger_branch": "local", "models": "models", "texts": "texts"})
    assert made.gpus("smollm2_split19") == 1
    with (tmp_path / "workflow/config/models/gemma3-270m.yaml").open("a", encoding="utf-8") as file:
        file.write("loading:\n  device: cuda\n  gpus: 4\n")
    assert made.gpus("gemma3_270m_arms") == 4
