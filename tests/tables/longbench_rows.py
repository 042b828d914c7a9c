"""Rows of both LongBench suites by hand: which answers each arm gave, and what every one of them earns."""

import json
import runpy
from pathlib import Path

import numpy as np

from ridgefill.provider import config_sha256
from ridgefill.results import FILES, metadata_of, read_json, read_table, write_json, write_table

BUILD = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
V1, V2 = "longbench_v1/samples.parquet", "longbench_v2/samples.parquet"
SCHEMAS = {V1: "longbench_v1_samples", V2: "longbench_v2_samples"}
ARMS = {("exact", None): 0, ("identity", 19): 3, ("ridgefill", 19): 1, ("ridgefill", 22): 0}
"""How many words of five each arm loses, more or less."""
SHARED = {
    "experiment": "synthetic_split19", "model": "tiny", "source": "longbench-style", "prompt_sha256": "0" * 64,
    "prompt_tokens": 400, "whole_tokens": 900, "cut": True, "tail": 256, "filled_rows": 144, "exact_rows": 0, "macs": 1,
    "exact_macs": 2,
}  # fmt: skip
WORDS = ("red", "green", "blue", "grey", "gold")
# 24 items an arm; exact wrote nothing for one of them and ridgefill for another.
OUTCOMES = {
    ("exact", None): "rrrrrrrrwwnrrrrrwrrrrewr",
    ("identity", 19): "rwnwrwrwwwwwrwnrwwrwwrwr",
    ("ridgefill", 19): "rrrwrrrrrwwrrerrwrnrrrwr",
    ("ridgefill", 22): "rrrrrrrrwwnrrrrrwrrrrrwr",
}
CLAIM = """\
predictions:
  - id: answers
    says: RidgeFill answers more than the identity fill.
    rule: {metric: longbench_v2, arm: ridgefill, baseline: identity, set: {split: 19},
           statistic: ci_low, op: ">", threshold: "0"}
    min_n: 20
    missing: undecided
  - id: hard-ones
    says: On hard items too.
    rule: {metric: longbench_v2, arm: ridgefill, baseline: identity, set: {split: 19, subset: hard},
           statistic: estimate, op: ">", threshold: "0"}
    min_n: 20
    missing: undecided
  - id: scores
    says: RidgeFill is within two points of exact.
    rule: {metric: longbench_v1, arm: ridgefill, baseline: exact, set: {split: 19},
           statistic: lower_bound, op: ">", threshold: "-2"}
    min_n: 20
    missing: undecided
"""
VERDICTS = {"answers": "supported", "hard-ones": "undecided", "scores": "refuted"}
DOMAINS = ("Code Repository", "Single-Document QA", "Long, odd. name")


def v1_rows(rng, sizes=(("hotpotqa", 9), ("passage_count", 5), ("qmsum", 7))):
    """Word F1 that loses words, counts that are right or not, and summaries whose score only stands there."""
    rows = []
    for dataset, size in sizes:
        for sample in range(size):
            for (arm, split), lost in ARMS.items():
                said = WORDS[: 5 - min(4, int(rng.integers(0, lost + 1)))]
                right = rng.integers(0, 4) >= lost
                prediction, score, references, metric = {
                    "hotpotqa": (" ".join(said), 2 * len(said) / (len(said) + 5), [" ".join(WORDS)], "f1"),
                    "passage_count": ("12" if right else "11", float(right), ["12"], "count"),
                    "qmsum": ("they met", float(rng.random()), ["they met again"], "rouge_l"),
                }[dataset]
                rows.append(
                    SHARED
                    | {
                        "dataset": dataset, "sample": sample, "item": "same id", "metric": metric, "chat": True,
                        "split": split, "arm": arm, "prediction": prediction, "references": references, "score": score,
                        "status": "ok", "generated_tokens": 3,
                    }
                )  # fmt: skip
    return rows


def v2_rows(outcomes):
    """``outcomes[arm, split]`` is a letter an item: r right, w wrong, n names no letter, e wrote nothing."""
    return [
        SHARED
        | {
            "item": f"item-{place:03d}", "domain": DOMAINS[place % 3], "sub_domain": "any",
            "difficulty": ("easy", "hard")[place % 2], "length": ("short", "medium", "long")[place // 2 % 3],
            "split": split, "arm": arm, "reasoning_seed": 1, "reasoning": "so", "reasoning_tokens": 1, "at_cap": False,
            "answer_seed": 2, "answer_prompt_tokens": 50, "answer_filled_rows": 0, "response_tokens": 5, "answer": "B",
        }
        | v2_answer(outcome)
        for (arm, split), letters in outcomes.items()
        for place, outcome in enumerate(letters)
    ]  # fmt: skip


def v2_answer(outcome):
    """What was written, and the verdict on it."""
    text, choice, correct, status = {
        "r": ("**The correct answer is (B)**", "B", True, "ok"),
        "w": ("The correct answer is C.", "C", False, "ok"),
        "n": ("It is B.", None, False, "no_answer"),
        "e": ("", None, None, "empty"),
    }[outcome]
    return {"response": text, "choice": choice, "correct": correct, "status": status}


def build(folder):
    """A small finished run with both suites, whose tables carry the hash of its configuration; not rendered."""
    BUILD["build"](folder, {key: BUILD["ARMS"][key] for key in ARMS}, samples=3)
    settings = read_json(folder / "experiment.json")
    settings["experiment"]["statistics"]["resamples"] = 400
    write_json(folder / "experiment.json", settings)
    mark = {"config_sha256": config_sha256(settings)}
    for name, schema in FILES.items():
        table = read_table(folder / name, schema)
        write_table(folder / name, schema, table.to_pylist(), metadata_of(table) | mark)
    (folder / "claim.yaml").write_text(CLAIM, "utf-8")
    decided = [{"id": key, "verdict": verdict, "reason": ""} for key, verdict in VERDICTS.items()]
    (folder / "verdicts.json").write_text(json.dumps(decided), "utf-8")
    write(folder, V1, v1_rows(np.random.default_rng(7)))
    write(folder, V2, v2_rows(OUTCOMES))
    return folder


def write(folder, name, rows):
    """One suite's file, as a run of the folder's experiment leaves it."""
    marks = {"git_commit": "0" * 40, "config_sha256": config_sha256(read_json(folder / "experiment.json"))}
    write_table(folder / name, SCHEMAS[name], rows, {**marks, "ledger_entry": "main/21" if name == V1 else "main/23"})


def change(folder, name, edit):
    """Let ``edit`` change each row of a file."""
    table = read_table(folder / name, SCHEMAS[name])
    rows = table.to_pylist()
    for row in rows:
        edit(row)
    write_table(folder / name, SCHEMAS[name], rows, metadata_of(table))


def cells(folder):
    """The numbers of a rendered folder, by id."""
    return json.loads((folder / "cells.json").read_text("utf-8"))["cells"]
