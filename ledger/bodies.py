"""The shape of every kind's body. A kind that is not listed here does not exist in this version."""

from __future__ import annotations

from ledger import shapes
from ledger.files import safe_path
from ledger.shapes import Check, array, nullable, record, table, text

_pinned = record({"path": safe_path, "sha256": shapes.sha256})
_input = record({"path": safe_path, "sha256": shapes.sha256, "bytes": shapes.natural})
_output = record({"path": safe_path, "sha256": shapes.sha256, "bytes": shapes.natural, "published": shapes.boolean})
_commit = shapes.matching("[0-9a-f]{40,64}", "a git commit")
_seed = shapes.matching("0|[1-9][0-9]{0,18}", "a seed in decimal digits")
_pointer = record({"seq": shapes.natural, "leaf": shapes.sha256})
_common: dict[str, Check] = {"origin": shapes.origin, "time": shapes.utc_time}
# What a registration says, and an amendment says anew: the parsed claim (checked by ledger.claims) and the
# bytes it was parsed from and pins.
_claimed: dict[str, Check] = {
    "experiment": shapes.name,
    "claim": shapes.anything,
    "claim_file": _pinned,
    "configs": array(_pinned),
}

BODY_CHECKS: dict[str, Check] = {
    "genesis": record({**_common, "title": text}),
    "fork": record({**_common, "checkpoint": text}),
    "register": record({**_common, **_claimed}),
    "amend": record({**_common, **_claimed, "registration": _pointer, "reason": shapes.sentence}),
    "void": record({**_common, "registration": _pointer, "reason": shapes.sentence}),
    "key": record(
        {
            **_common,
            "public_key": text,  # a C2SP verifier key, checked by ledger.custody
            "role": shapes.one_of("signer", "cosigner"),
            "replaces": nullable(shapes.matching("[0-9a-f]{8}", "a key id of 8 hex digits")),
            "lost": shapes.boolean,
            "reason": text,
        }
    ),
    "start": record(
        {
            **_common,
            "registration": record({"origin": shapes.origin, "seq": shapes.natural, "leaf": shapes.sha256}),
            "experiment": shapes.name,
            "run": shapes.name,
            "label": text,
            "seed": _seed,
            "configs": array(_pinned),
            "overrides": table(shapes.name, text),
            "inputs": array(_input),
            "git": nullable(record({"commit": _commit, "dirty": shapes.boolean})),
        }
    ),
    "result": record(
        {
            **_common,
            "start": _pointer,
            "status": shapes.one_of("ok", "failed"),
            "message": text,
            "outputs": array(_output),
        }
    ),
}
