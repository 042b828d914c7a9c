"""What the workflow refuses while it is being planned."""

from __future__ import annotations

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


def test_a_model_without_files_is_refused_first() -> None:
    """The folder that was given is named."""
    with pytest.raises(Refused, match="nowhere"):
        plan("/nowhere").admit("results/qwen3_split13")


def test_a_model_that_can_be_counted_is_stopped_by_its_registration_alone(folder: str) -> None:
    """Qwen3 has both, so what is missing is the registration."""
    with pytest.raises(Refused, match="ledger register"):
        plan(folder).admit("results/qwen3_split13")
