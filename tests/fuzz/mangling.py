"""What hypothesis makes of a sound file: values replaced, keys lost or renamed, bytes flipped, cut and repeated.

``RIDGEFILL_FUZZ`` is how many examples each test tries; the examples are the same in every run.
"""

import copy
import json
import os
import struct

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ledger.errors import LedgerError
from ridgefill.errors import RidgeFillError

EXAMPLES = int(os.environ.get("RIDGEFILL_FUZZ", "60"))
FUZZ = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
LONGEST_SENTENCE = 2000


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


# What has broken readers before: paths that lead out, halves of characters, numbers past every limit.
AWKWARD = st.sampled_from(
    ["..", "../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "", " ", "\n", "x" * 3000, "é" * 40, "~", "{0}", "%s",
     0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 1e308, float("inf"), float("-inf"), float("nan"), True, False, None,
     [], {}, [[]], [{}], {"": None}, ["a", "a"], "2020-13-45", "1e999", "0x", "exact", "registration"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = AWKWARD | st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value, place=()):
    """Every place in a parsed document, the whole first."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


@st.composite
def documents(draw, sound, most=3):
    """A copy of ``sound`` (mappings and lists) with one to ``most`` things wrong, or another value altogether."""
    made = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.sampled_from(list(places(made))))
        if not place:
            if draw(st.integers(0, 9)) == 0:
                return draw(VALUES)
            continue
        holder = made
        for key in place[:-1]:
            holder = holder[key]
        key = place[-1]
        kind = draw(st.sampled_from(["replace", "replace", "delete", "rename", "add", "repeat"]))
        if kind == "replace":
            holder[key] = draw(VALUES)
        elif kind == "delete":
            del holder[key]
        elif isinstance(holder, dict):
            name = draw(st.text(max_size=8) | st.sampled_from(["..", "/", "a\0b", "x" * 300]))
            holder[name] = holder.pop(key) if kind == "rename" else draw(VALUES)
        else:
            holder.append(copy.deepcopy(holder[key]) if kind == "repeat" else draw(VALUES))
    return made


@st.composite
def spoiled(draw, data, most=4, near_end=0):
    """Bytes with one to ``most`` places changed. near_end: most of them among so many last bytes, where footers are."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, most))):
        low = max(0, len(made) - near_end) if near_end and draw(st.booleans()) else 0
        at = draw(st.integers(low, max(low, len(made) - 1)))
        kind = draw(st.sampled_from(["flip", "flip", "insert", "delete", "cut", "repeat"]))
        if kind == "flip" and at < len(made):
            made[at] = draw(st.integers(0, 255))
        elif kind == "insert":
            made[at:at] = draw(
                st.binary(max_size=12) | st.sampled_from([b"\0" * 9, b"\xff" * 8, b"[" * 3000, b"&a *a"])
            )
        elif kind == "delete":
            del made[at : at + draw(st.integers(1, 40))]
        elif kind == "cut":
            del made[at:]
        else:
            made[at:at] = made[at : at + draw(st.integers(1, 40))]
    return bytes(made)


def as_json(value):
    """JSON as a careless or hostile writer leaves it: infinities and halves of characters included."""
    return json.dumps(value).encode()


def header_and_rest(data):
    """The parsed header of a safetensors file, and its tensors' bytes."""
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header, rest):
    """A safetensors file with another header."""
    text = as_json(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def tensor_files(data):
    """Safetensors files with bytes or entries of the header wrong."""
    header, rest = header_and_rest(data)
    return spoiled(data) | documents(header).map(lambda made: with_header(made, rest))


def refused_or_read(call):
    """Call it; an error of ours has to be one sentence, any other goes through."""
    try:
        return call()
    except (RidgeFillError, LedgerError) as error:
        said = str(error)
        assert said.strip()
        assert "Traceback" not in said
        assert "\n" not in said, said
        assert len(said) <= LONGEST_SENTENCE, said[:300]
        return None
