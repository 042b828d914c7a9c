"""A results folder of made-up but lifelike numbers: every arm, four tasks, twelve documents, all splits."""

# ruff: noqa: C408

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ridgefill.results import write_json, write_table

SPLIT, TAIL, LAYERS = 19, 256, 30
TASKS = ("niah_single_1", "niah_multikey_1", "niah_multivalue", "niah_multiquery")
DOMAINS = ("code", "documentation", "essays", "legal")
LAMS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# arm, split -> chance of a found value, added loss on all / key tokens, share of the work
ARMS = {
    ("exact", None): (0.97, 0.0, 0.0, 1.0),
    ("no_fill", 19): (0.12, 0.42, 2.9, 0.70),
    ("identity", 19): (0.42, 0.21, 1.1, 0.71),
    ("ridgefill", 19): (0.84, 0.05, 0.31, 0.73),
    ("pop_native", 20): (0.58, 0.3, 1.4, 0.70),
    ("ridgefill_rows", 19): (0.9, 0.04, 0.2, 0.77),
    ("ridgefill_random_rows", 19): (0.8, 0.05, 0.3, 0.77),
    ("ridgefill_longer_tail", 19): (0.85, 0.045, 0.29, 0.77),
    ("no_fill_longer_tail", 19): (0.2, 0.35, 2.5, 0.73),
    ("identity", 15): (0.02, 0.55, 3.0, 0.58),
    ("ridgefill", 15): (0.18, 0.22, 1.6, 0.61),
    ("identity", 17): (0.15, 0.38, 2.1, 0.65),
    ("ridgefill", 17): (0.52, 0.12, 0.9, 0.67),
    ("identity", 22): (0.8, 0.09, 0.4, 0.79),
    ("ridgefill", 22): (0.94, 0.02, 0.09, 0.8),
}
# The same for a run of splices, which needs more samples before a gap closed has an interval.
SPLICED = {
    ("exact", None): (0.97, 0.0, 0.0, 1.0),
    ("ridgefill", 19): (0.4, 0.25, 0.31, 0.73),
    ("splice_exact_keys", 19): (0.94, 0.02, 0.05, 1.0),
    ("splice_exact_values", 19): (0.7, 0.06, 0.1, 1.0),
    ("splice_exact_all", 19): (0.97, 0.0, 0.0, 1.0),
    ("scale_keys_tail", 19): (0.6, 0.13, 0.2, 0.73),
    ("scale_values_tail", 19): (0.3, 0.3, 0.4, 0.73),
}
CLAIM = """\
who: Test
title: A made-up claim
hypothesis: Ridge fill keeps what identity fill loses.
experiment: synthetic_split19
predictions:
  - id: beats-identity
    says: RidgeFill finds more in the filled region than the identity fill.
    rule: {metric: ruler_filled, arm: ridgefill, baseline: identity, set: {model: tiny, split: 19},
           statistic: ci_low, op: ">", threshold: "0"}
    min_n: 20
    missing: undecided
  - id: close-to-exact
    says: RidgeFill is within two points of exact, and key tokens cost less than a tenth of a nat.
    rule:
      all:
        - {metric: ruler_all, arm: ridgefill, baseline: exact, set: {model: tiny, split: 19},
           statistic: lower_bound, op: ">", threshold: "-2"}
        - {metric: nll_key, arm: ridgefill, baseline: exact, set: {model: tiny, split: 19},
           statistic: ci_high, op: "<", threshold: "0.1"}
    min_n: 5
    missing: refuted
  - id: many-legal
    says: On legal documents the loss barely moves.
    rule: {metric: nll_all, arm: ridgefill, baseline: exact, set: {model: tiny, split: 19, subset: legal},
           statistic: estimate, op: "<", threshold: "0.5"}
    min_n: 10
    missing: undecided
"""
VERDICTS = [
    {"id": key, "says": "", "rule_text": "", "verdict": verdict, "reason": reason, "values": {}}
    for key, verdict, reason in (
        ("beats-identity", "supported", ""),
        ("close-to-exact", "refuted", "below -2"),
        ("many-legal", "undecided", "n = 3 of 10"),
    )
]
BASE_MACS = 115_000_000_000


def _metadata(entry):
    return {"git_commit": "0" * 40, "config_sha256": "1" * 64, "ledger_entry": entry}


def ruler_rows(rng, arms=ARMS, samples=10):
    """Found values nest across arms through one draw per value, as they do for a real model."""
    rows = []
    for task in TASKS:
        wanted = 4 if task in ("niah_multivalue", "niah_multiquery") else 1
        for sample in range(samples):
            difficulty, spots = rng.random(wanted), rng.random(wanted)
            references = [str(v) for v in rng.integers(1_000_000, 9_999_999, wanted)]
            prompt = int(rng.integers(850, 896))
            for (arm, split), (skill, _, _, share) in arms.items():
                hit = difficulty + rng.normal(0, 0.03, wanted) < skill
                found = [r if h else "0000000" for r, h in zip(references, hit, strict=True)]
                exact = BASE_MACS + prompt * 1_000_003
                rows.append(
                    dict(
                        experiment="synthetic_split19",
                        model="tiny",
                        source="ruler-style",
                        task=task,
                        length=1024,
                        sample=sample,
                        prompt_sha256=f"{sample:064x}",
                        prompt_tokens=prompt,
                        tail=TAIL,
                        split=split,
                        arm=arm,
                        filled_rows=0 if arm == "exact" else prompt - TAIL,
                        exact_rows=90 if arm.endswith("_rows") else 0,
                        in_filled_region=bool((spots < 0.8).all()),
                        in_filled_region_queried=bool(spots[0] < 0.8),
                        prediction="The values are " + ", ".join(found) + ".",
                        references=references,
                        score=float(np.mean(hit)),
                        status="ok",
                        generated_tokens=20,
                        macs=int(exact * share),
                        exact_macs=exact,
                    )
                )
    return rows


def document_rows(rng, arms=ARMS):
    documents, tokens = [], []
    for domain in DOMAINS:
        for number in range(3):
            document = f"{domain}-{number}"
            novel = rng.random(512) < 0.6
            # One document has no key token and so has no part in nll_key.
            key = (rng.random(512) < 0.03) & ~novel if document != "essays-2" else np.zeros(512, bool)
            base = rng.gamma(1.2, 1.6, 512)
            weight = rng.uniform(0.6, 1.6)
            for (arm, split), (_, every, keyed, share) in arms.items():
                added = np.where(key, keyed, every) * weight * rng.uniform(0.2, 1.8, 512)
                nll = (base + added).astype(np.float32)
                documents.append(
                    dict(
                        experiment="synthetic_split19",
                        model="tiny",
                        document=document,
                        domain=domain,
                        prompt_tokens=1536,
                        scored_tokens=512,
                        tail=TAIL,
                        split=split,
                        arm=arm,
                        filled_rows=1280,
                        exact_rows=0,
                        macs=int(2 * BASE_MACS * (share - 0.03)),
                        exact_macs=2 * BASE_MACS,
                        status="ok",
                    )
                )
                tokens += [
                    dict(
                        document=document,
                        domain=domain,
                        arm=arm,
                        split=split,
                        position=1024 + i,
                        token=i * 7 % 4096,
                        novel=bool(novel[i]),
                        key=bool(key[i]),
                        nll=float(nll[i]),
                        status="ok",
                    )
                    for i in range(512)
                ]
    return documents, tokens


def timing_rows(rng, suite, items, seconds, arms=ARMS):
    rows = []
    for item in items:
        for (arm, split), (*_, share) in arms.items():
            exact = seconds * rng.uniform(0.9, 1.1)
            total = exact * (share + 0.04) * rng.uniform(0.97, 1.03)
            rows.append(
                dict(
                    suite=suite,
                    item=item,
                    arm=arm,
                    split=split,
                    lower_seconds=total * 0.6,
                    late_seconds=total * 0.4,
                    exact_seconds=exact,
                )
            )
    return rows


def fit_rows():
    curve, layers = [], []
    for split in (15, 17, 19, 22):
        picked = 0.03 if split != 22 else 0.01
        for layer in range(split, LAYERS):
            depth = (layer - split) / 15
            for lam in LAMS:
                for part, top in (("key", 0.97), ("value", 0.9)):
                    away = 0.004 * (np.log10(lam) - np.log10(picked)) ** 2
                    cosine = float(top - 0.15 * depth - away + 0.002 * (split - 15))
                    curve.append(dict(split=split, lam=lam, layer=layer, component=part, cosine=cosine, rows=6144))
            layers.append(
                dict(
                    split=split,
                    layer=layer,
                    lam=picked,
                    alpha=picked * 812.5,
                    condition=3.1e4 * (1 + depth) / picked,
                    residual_share=0.05 + 0.3 * depth,
                )
            )
    return curve, layers


def build(folder: Path, arms=ARMS, samples=10) -> Path:
    """Write every file that a finished run leaves, tables and report excepted."""
    rng = np.random.default_rng(19)
    ruler = ruler_rows(rng, arms, samples)
    documents, tokens = document_rows(rng, arms)
    curve, layers = fit_rows()
    items = [f"{task}/1024/{sample}" for task in TASKS for sample in range(samples)]
    names = [f"{domain}-{number}" for domain in DOMAINS for number in range(3)]
    tables = {
        "ruler/samples.parquet": ("ruler_samples", ruler, "7"),
        "ruler/timings.parquet": ("timings", timing_rows(rng, "ruler", items, 2.1, arms), "7"),
        "documents/documents.parquet": ("documents", documents, "9"),
        "documents/tokens.parquet": ("document_tokens", tokens, "9"),
        "documents/timings.parquet": ("timings", timing_rows(rng, "documents", names, 4.0, arms), "9"),
        "lam/lam_curve.parquet": ("lam_curve", curve, "5"),
        "fit/fit_layers.parquet": ("fit_layers", layers, "5"),
    }
    for name, (schema, rows, entry) in tables.items():
        write_table(folder / name, schema, rows, _metadata(entry))
    experiment = {
        "name": "synthetic_split19",
        "title": "A made-up model, split 19 of 30, tail 256",
        "model": "tiny",
        "split": SPLIT,
        "tail": TAIL,
        "statistics": {"resamples": 2000, "seed": 0},
    }
    model = {"name": "tiny", "geometry": {"layers": LAYERS}}
    write_json(folder / "experiment.json", {"experiment": experiment, "model": model, "overrides": {}})
    runs = {
        name: {"start": start, "result": start + 1, "leaf": f"{start:064x}", "status": "ok"}
        for name, start in (("fit", 4), ("ruler", 6), ("documents", 8))
    }
    registration = {"branch": "main", "seq": 1, "leaf": "ab" * 32}
    environment = {"python": "3.11.7", "torch": "2.13.0", "machine": "x86_64"}
    write_json(
        folder / "provenance.json",
        {"registration": registration, "runs": runs, "git_commit": "0" * 40, "environment": environment},
    )
    write_json(folder / "overlap.json", {"run": 50, "pairs": 12, "findings": []})
    (folder / "claim.yaml").write_text(CLAIM, encoding="utf-8")
    (folder / "verdicts.json").write_text(json.dumps(VERDICTS, indent=1), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """The finished run without tables; shared, so tests must not write into it."""
    return build(tmp_path_factory.mktemp("bare") / "synthetic_split19")


@pytest.fixture(scope="session")
def rendered(bare, tmp_path_factory):
    """The same with tables, figures and report; shared, so tests must not write into it."""
    from ridgefill.tables import render

    folder = tmp_path_factory.mktemp("rendered") / "synthetic_split19"
    shutil.copytree(bare, folder)
    render(folder)
    return folder


@pytest.fixture
def results(rendered, tmp_path):
    """A private copy of the rendered folder, to be tampered with."""
    return Path(shutil.copytree(rendered, tmp_path / "synthetic_split19"))


@pytest.fixture(scope="session")
def spliced(tmp_path_factory):
    """A finished run of splices without claim and tables; shared, so tests must not write into it."""
    folder = build(tmp_path_factory.mktemp("spliced") / "synthetic_split19", SPLICED, samples=24)
    (folder / "claim.yaml").unlink()
    (folder / "verdicts.json").unlink()
    return folder
