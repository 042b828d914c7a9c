"""The Slurm profile, its page and the rules name the same things."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text("utf-8"))
PAGE = (ROOT / "docs/run-on-a-cluster.md").read_text("utf-8")


def rules():
    """Text of every rule by name."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "workflow/rules").glob("*.smk"))]
    parts = [part for text in texts for part in re.split(r"^rule ", text, flags=re.MULTILINE)[1:]]
    return {part.split(":", maxsplit=1)[0]: part for part in parts}


def test_the_page_turns_gpus_off_for_exactly_the_rules_that_ask_for_one():
    """A rule that gets a GPU later must be in the command, and the command names none that is gone."""
    asking = {name for name, text in rules().items() if "gpu=asked" in text}
    assert len(asking) > 10
    assert set(re.findall(r"(\w+):gpu=0", PAGE)) == asking


def test_rules_that_time_arms_take_their_node_alone():
    """Those whose job is one for all arms because it compares seconds, and no other."""
    timing = {name for name, text in rules().items() if "TIMED_THREADS" in text}
    assert timing == {"speed", "serving", "served"}
    assert PROFILE["set-resources"] == {name: {"slurm_extra": "'--exclusive'"} for name in timing}


def test_slurm_never_starts_a_job_again_and_is_asked_by_squeue():
    """Two that would make the same attempt would meet at its lease; without a database sacct never answers."""
    assert PROFILE["slurm-no-requeue"] is True
    assert PROFILE["retries"] == 1
    assert PROFILE["slurm-status-command"] == "squeue"


def test_every_job_sent_to_the_cluster_says_how_much_memory_and_time_it_needs():
    """So that the profile's defaults never decide."""
    sent = {name: text for name, text in rules().items() if "localrule: True" not in text}
    assert [name for name, text in sent.items() if "mem_mb=" not in text or "runtime=" not in text] == []
