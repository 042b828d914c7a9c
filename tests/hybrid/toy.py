"""A hybrid's settings in miniature: the same layers, narrow, with a curriculum of seconds."""

from ridgefill.hybrid.settings import hybrid_from


def toy(**changes):
    """Settings whose top-level keys can be replaced."""
    data = {
        "name": "toy",
        "about": "for tests",
        "seed": 3,
        "network": {
            "layers": 8, "hidden": 32, "intermediate": 48, "heads": 4, "kv_heads": 2, "head_dim": 16,
            "rotary_share": 0.5, "context": 256, "init": 0.1,
            "recurrent": {
                "key_heads": 2, "value_heads": 4, "key_dim": 8, "value_dim": 12,
                "half_lives": [2, 50], "late_half_lives": [50, 1000], "conv": 0.5,
            },
        },
        "forcing": {"attention": [3], "states": [0, 1, 2, 4, 5, 6]},
        "optimizer": {
            "rate": 0.003, "matrix_rate": 0.003, "warmup": 2, "decay": 0.3, "weight_decay": 0.01, "clip": 1.0,
            "rest": 0.1,
        },
        "stages": [
            {"steps": 36, "lengths": [64], "tokens": 256, "keys": [1, 2], "forced": 0.5},
            {"steps": 4, "lengths": [64, 96], "tokens": 256, "keys": [1, 8], "forced": 0.5},
        ],
    }  # fmt: skip
    return hybrid_from({**data, **changes}, "toy")
