"""The README.md of a folder of maps, written from what the fit recorded and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ridgefill.mapfiles.manifest import RECURRENT, Manifest
from ridgefill.mapfiles.names import Encoding

_REPO = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")

_WORDS = {
    "model": "model",
    "lam": "ridge penalty (scale-free)",
    "alpha": "ridge penalty (absolute)",
    "condition": "condition number of the penalised system",
    "rows": "calibration rows",
    "chunk": "tokens per piece of text",
    "stride": "one row kept of every",
    "sources": "calibration text",
    "towards": "penalty pulls maps towards",
    "rank": "rank of the maps",
    "heldout_rows": "held-out rows",
    "write_cosine": "mean cosine of cache writes on held-out rows",
}
"""What the fit's keys mean; any other key is shown as it is."""

_LAYOUT: dict[Encoding, str] = {
    "bf16": "One file per late layer, `proj.L<l>.safetensors`: `proj.<l>.weight` bf16 and `proj.<l>.bias` bf16.",
    "int8": "One file per late layer, `proj8.L<l>.safetensors`: `proj.<l>.codes` int8, `proj.<l>.scale` bf16 (one for "
    "every 128 columns of a row) and `proj.<l>.bias` bf16; a weight is its code times its scale.",
}


def base_model(manifest: Manifest) -> str | None:
    """The hub repository of the model that the maps were fitted on, when the fit knows one."""
    names = (manifest.fit.get("base_model"), manifest.architecture.get("model"), manifest.fit.get("model"))
    return next((str(name) for name in names if name and _REPO.fullmatch(str(name))), None)


def model_card(manifest: Manifest, encoding: Encoding) -> str:
    """Model card with ``base_model`` metadata, as the hub reads it; its text repeats the manifest in words."""
    from huggingface_hub import ModelCard, ModelCardData

    data = ModelCardData(
        base_model=base_model(manifest),
        library_name="ridgefill",
        license=_licence(manifest),
        tags=["ridgefill", "prefill", "kv-cache"],
    )
    architecture = manifest.architecture
    layers, name = int(architecture["layers"]), _model_name(manifest)
    kinds = list(architecture.get("layer_types", ()))[manifest.split :]
    recurrent = kinds.count(RECURRENT)
    body = f"""
# RidgeFill maps for {name}: split {manifest.split} of {layers}, {encoding}

These are not a language model. They are {layers - manifest.split} linear maps, one for every layer of {name} from
{manifest.split} on{f" ({recurrent} of them recurrent)" if recurrent else ""}. Each predicts its layer's block input
({manifest.d_out} values) from the state that enters layer {manifest.split} ({manifest.d_in} values), so that a long
prompt's first rows need not run through the late layers: a closed-form ridge regression, nothing trained.

## Use

```python
from ridgefill import RidgeFillMaps

maps = RidgeFillMaps.from_pretrained("path/or/repository")
with maps.fill(model, tail=4096):
    model.generate(**inputs, max_new_tokens=64)
```

The last `tail` tokens of a prompt run exactly, and prompts no longer than that are not touched. A model of
another architecture is refused. The fill is an approximation: measure it on your own task.

## How they were fitted

{_table(_fit_rows(manifest.fit))}

## Files

{_LAYOUT[encoding]} `ridgefill.json` says which model they fit and holds every file's SHA-256, as does `SHA256SUMS`.
"""
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n{body}"))


def _model_name(manifest: Manifest) -> str:
    names = (manifest.architecture.get("model"), manifest.fit.get("model"), manifest.architecture.get("family"))
    return str(next((name for name in names if name), "an unnamed model"))


def _licence(manifest: Manifest) -> str | None:
    """As the maps' own manifest states it, in the hub's spelling."""
    licence = manifest.extra.get("license") or manifest.fit.get("license")
    return str(licence).lower() if licence else None


def _fit_rows(fit: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """The fit as rows of words and values; nested values under their own key, nothing left out."""
    rows: list[tuple[str, str]] = []
    for key, value in sorted(fit.items()):
        label = prefix + _WORDS.get(key, key)
        if isinstance(value, Mapping):
            rows += _fit_rows(value, f"{label}: ")
        elif value is not None:
            rows.append((label, _shown(value)))
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(one) for one in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _table(rows: list[tuple[str, str]]) -> str:
    if not rows:
        return "The files say nothing about it."
    cells = [f"| {_cell(label)} | {_cell(value)} |" for label, value in rows]
    return "\n".join(["| | |", "|---|---|", *cells])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
