"""Every table of a results folder: its columns as an Arrow schema, and the files that hold it.

What published files carry must not change, so a new column is a new schema.
"""

from __future__ import annotations

import pyarrow as pa

_TYPES = {
    "str": pa.string(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "list<str>": pa.list_(pa.field("item", pa.string(), nullable=False)),
    "list<i32>": pa.list_(pa.field("item", pa.int32(), nullable=False)),
    "list<f32>": pa.list_(pa.field("item", pa.float32(), nullable=False)),
}


def _schema(**columns: str) -> pa.Schema:
    """``name="type"`` or ``name="type?"`` for a column that may be NULL."""
    return pa.schema([pa.field(n, _TYPES[t.rstrip("?")], nullable=t.endswith("?")) for n, t in columns.items()])


SCHEMAS: dict[str, pa.Schema] = {
    "ruler_samples": _schema(
        experiment="str", model="str", source="str", task="str", length="i32", sample="i32",
        prompt_sha256="str", prompt_tokens="i32", tail="i32", split="i32?", arm="str", filled_rows="i32",
        exact_rows="i32", in_filled_region="bool", in_filled_region_queried="bool", prediction="str",
        references="list<str>", score="f64?", status="str", generated_tokens="i32", macs="i64",
        exact_macs="i64",
    ),
    "documents": _schema(
        experiment="str", model="str", document="str", domain="str", prompt_tokens="i32",
        scored_tokens="i32", tail="i32", split="i32?", arm="str", filled_rows="i32", exact_rows="i32",
        macs="i64", exact_macs="i64", status="str",
    ),
    "document_tokens": _schema(
        document="str", domain="str", arm="str", split="i32?", position="i32", token="i32", novel="bool",
        key="bool", nll="f32?", status="str",
    ),
    "timings": _schema(
        suite="str", item="str", arm="str", split="i32?", lower_seconds="f64", late_seconds="f64",
        exact_seconds="f64",
    ),
    "lam_curve": _schema(split="i32", lam="f64", layer="i32", component="str", cosine="f64", rows="i64"),
    "fit_layers": _schema(
        split="i32", layer="i32", lam="f64", alpha="f64", condition="f64", residual_share="f64"
    ),
    "arm_runs": _schema(
        suite="str", item="str", arm="str", split="i32?", fill="str", prompt_order="str", seed="i64", tail="i32",
        filled_rows="i32", selected="list<i32>", macs="i64", selection_macs="i64", correction_macs="i64",
        exact_macs="i64", matched_to="str?", target_macs="i64?",
    ),
    "lam_curve_options": _schema(
        towards="str", rank="i32?", split="i32", lam="f64", layer="i32", component="str", cosine="f64", rows="i64"
    ),
    "measured": _schema(
        suite="str", item="str", arm="str", split="i32?", layer="i32", what="str", head="i32", value="f64"
    ),
    "speed": _schema(
        experiment="str", model="str", arm="str", split="i32?", length="i32", repeat="i32", exact_seconds="f64",
        seconds="f64", filled_rows="i32", exact_rows="i32", macs="i64", exact_macs="i64", peak_bytes="i64?",
        exact_peak_bytes="i64?", device="str", threads="i32", dtype="str",
    ),
    "serving": _schema(
        experiment="str", model="str", pair="str", arm="str", split="i32?", length="i32", repeat="i32", users="i32",
        user_prompt="i32", chunk="i32", filled_rows="i32", exact_rows="i32", first_token_seconds="f64",
        tokens_per_second="f64", latency_mean="f64", latency_p50="f64", latency_p99="f64", latency_max="f64",
        latencies="list<f32>", alone="list<f32>", device="str", threads="i32", dtype="str",
    ),
    "agreement": _schema(
        experiment="str", model="str", document="str", domain="str", prompt_tokens="i32", new_tokens="i32", seed="i64",
        tail="i32", split="i32?", arm="str", filled_rows="i32", exact_rows="i32", macs="i64", exact_macs="i64",
        status="str",
    ),
    "served_pairs": _schema(
        experiment="str", model="str", phase="str", number="i32", place="i32", role="str", arm="str", split="i32?",
        length="i32", filled_rows="i32", first_token_seconds="f64", decode_seconds="f64?", gaps="list<f32>",
        tokens="list<i32>", device="str", threads="i32", dtype="str",
    ),
    "agreement_tokens": _schema(
        document="str", domain="str", variant="str", arm="str", split="i32?", prompt_tokens="i32", position="i32",
        token="i32", copyable="bool", top1="bool", kl="f32?", status="str",
    ),
    "turn_samples": _schema(
        experiment="str", model="str", source="str", task="str", length="i32", sample="i32", prompt_sha256="str",
        prompt_tokens="i32", second_prompt_tokens="i32", tail="i32", split="i32?", arm="str", filled_rows="i32",
        exact_rows="i32", in_filled_region="bool", in_filled_region_queried="bool", first_prediction="str",
        first_references="list<str>", first_score="f64?", first_tokens="i32", second_prediction="str",
        second_references="list<str>", second_score="f64?", second_tokens="i32", status="str", macs="i64",
        exact_macs="i64",
    ),
    "longbench_v1_samples": _schema(
        experiment="str", model="str", source="str", dataset="str", sample="i32", item="str", metric="str",
        prompt_sha256="str", prompt_tokens="i32", whole_tokens="i32", cut="bool", chat="bool", tail="i32", split="i32?",
        arm="str", filled_rows="i32", exact_rows="i32", prediction="str", references="list<str>", score="f64?",
        status="str", generated_tokens="i32", macs="i64", exact_macs="i64",
    ),
    "longbench_v2_samples": _schema(
        experiment="str", model="str", source="str", item="str", domain="str", sub_domain="str", difficulty="str",
        length="str", prompt_sha256="str", prompt_tokens="i32", whole_tokens="i32", cut="bool", tail="i32",
        split="i32?", arm="str", filled_rows="i32", exact_rows="i32", reasoning_seed="i64", reasoning="str",
        reasoning_tokens="i32", at_cap="bool", answer_seed="i64?", answer_prompt_tokens="i32?",
        answer_filled_rows="i32?", response="str", response_tokens="i32", choice="str?", answer="str", correct="bool?",
        status="str", macs="i64", exact_macs="i64",
    ),
}  # fmt: skip

# Relative path of every Parquet file of a results folder, and its schema.
FILES: dict[str, str] = {
    "ruler/samples.parquet": "ruler_samples",
    "ruler/timings.parquet": "timings",
    "documents/documents.parquet": "documents",
    "documents/tokens.parquet": "document_tokens",
    "documents/timings.parquet": "timings",
    "lam/lam_curve.parquet": "lam_curve",
    "fit/fit_layers.parquet": "fit_layers",
}

# Files that a results folder may have beside those, each with a view of its own: ``ruler_arms`` and so on.
MORE_FILES: dict[str, str] = {
    "lam/more_maps.parquet": "lam_curve_options",
    "ruler/arms.parquet": "arm_runs",
    "ruler/measured.parquet": "measured",
    "documents/arms.parquet": "arm_runs",
    "documents/measured.parquet": "measured",
    "agreement/documents.parquet": "agreement",
    "agreement/tokens.parquet": "agreement_tokens",
    "turns/samples.parquet": "turn_samples",
    "speed/requests.parquet": "speed",
    "serving/runs.parquet": "serving",
    "served/requests.parquet": "speed",
    "served/runs.parquet": "serving",
    "served/pairs.parquet": "served_pairs",
    "longbench_v1/samples.parquet": "longbench_v1_samples",
    "longbench_v2/samples.parquet": "longbench_v2_samples",
}
