"""Numbers in canonical JSON: the published sequence of doubles, regenerated and hashed.

The reference suite of RFC 8785 (cyberphone/json-canonicalization, testdata/README.md) describes how its
hundred million lines "bits in hex,number" are generated and gives the SHA-256 of their beginnings. One
number spelled otherwise anywhere changes the hash, so no file is needed to compare with.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import struct
from collections.abc import Iterator

import pytest
import rfc8785

PUBLISHED = [
    (1_000, 37_967, "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687"),
    (10_000, 399_022, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"),
    (100_000, 4_031_728, "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7"),
]
# A third of each power of ten from 1e22 down to 1e-27, some of them a few units off: no formula gives these bits.
THIRDS = """
446696695dbd1cc3 443211ede4974a35 43fce97ca0f21056 43c7213080c1a6ac 439280f39a348556 435d9b1f5d20d557
4327af4c4a80aaac 42f2f2a36ecd5556 42be51057e155558 428840d131aaaaac 4253670dc1555557 421f0b4935555557
41e8d5d42aaaaaac 41b3de4355555556 417fca0555555556 41496e6aaaaaaaab 4114585555555555 40e046aaaaaaaaab
40aa0aaaaaaaaaaa 4074d55555555555 4040aaaaaaaaaaab 400aaaaaaaaaaaab 3fd5555555555555 3fa1111111111111
3f6b4e81b4e81b4f 3f35d867c3ece2a5 3f0179ec9cbd821e 3ecbf647612f3696 3e965e9f80f29212 3e61e54c672874db
3e2ca213d840baf8 3df6e80fe033c8c6 3dc2533fe68fd3d2 3d8d51ffd74c861c 3d5774ccac3d3817 3d22c3d6f030f9ac
3cee0624b3818f79 3cb804ea293472c7 3c833721ba905bd3 3c4ebe9c5db3c61e 3c18987d17c304e5 3be3ad30dfcf371d
3baf7b816618582f 3b792f9ab81379bf 3b442615600f9499 3b101e77800c76e1 3ad9ca58cce0be35 3aa4a1e0a3e6fe90
3a708180831f320d 3a3a68cd9e985016
"""
NEAR_ONE = """
3ff0000000000000 bff0000000000000 bfeffffffffffffa bfeffffffffffffb 3feffffffffffffa 3feffffffffffffb
3feffffffffffffc 3feffffffffffffe bfefffffffffffff bfefffffffffffff 3fefffffffffffff 3fefffffffffffff
"""
# Where the spelling changes: the smallest normal and its neighbours, the largest, 2**53, 2**68, 1e23, 1e21, 1e-6.
EDGES = """
3fd3333333333332 3fd3333333333333 3fd3333333333334 0010000000000000 000ffffffffffffd 000fffffffffffff
7fefffffffffffff ffefffffffffffff 4340000000000000 c340000000000000 4430000000000000 44b52d02c7e14af5
44b52d02c7e14af6 44b52d02c7e14af7 444b1ae4d6e2ef4e 444b1ae4d6e2ef4f 444b1ae4d6e2ef50 3eb0c6f7a0b5ed8c
3eb0c6f7a0b5ed8d 41b3de4355555553 41b3de4355555554 41b3de4355555555 41b3de4355555556 41b3de4355555557
becbf647612f3696 43143ff3c1cb0959
"""


def bits_of(words: str) -> list[int]:
    """Hexadecimal words as integers."""
    return [int(word, 16) for word in words.split()]


def chosen() -> Iterator[int]:
    """Bits of the 168 chosen doubles, in order."""
    sign = 1 << 63
    yield from (0, sign, 1, sign | 1)
    yield from (sign | bits for bits in bits_of(THIRDS))
    yield from bits_of(THIRDS)
    fives = [10.0, *(float(f"5e-{power}") for power in range(10))]
    steps = [float(f"5.{'0' * zeros}6e-6") for zeros in range(1, 15)]
    yield from (to_bits(value) for value in (*fives, *steps, 5e-6))
    yield from bits_of(NEAR_ONE + EDGES)


def hashed() -> Iterator[int]:
    """Bits of the endless rest: SHA-256 of 32 zero bytes, then of each hash; four doubles a hash."""
    block = bytes(32)
    while True:
        block = hashlib.sha256(block).digest()
        for bits in struct.unpack("<4Q", block):
            value = from_bits(bits)
            if value != 0 and math.isfinite(value):
                yield bits


def sequence() -> Iterator[int]:
    """Bits of the whole sequence: the chosen ones, 2000 from the smallest normal on, the hashed ones."""
    smallest_normal = 1 << 52
    return itertools.chain(chosen(), range(smallest_normal, smallest_normal + 2000), hashed())


def from_bits(bits: int) -> float:
    """The double with these 64 bits."""
    (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    return value


def to_bits(value: float) -> int:
    """The 64 bits of a double."""
    return int.from_bytes(struct.pack(">d", value), "big")


def test_the_chosen_doubles_are_168() -> None:
    """As many as the description lists, so that the rest of the sequence starts where it should."""
    assert len(list(chosen())) == 168


@pytest.mark.parametrize(("count", "size", "sha256"), PUBLISHED)
def test_the_published_beginnings_come_out_byte_for_byte(count: int, size: int, sha256: str) -> None:
    """The library spells the first thousand to hundred thousand doubles as published."""
    lines = [b"%x,%s\n" % (bits, rfc8785.dumps(from_bits(bits))) for bits in itertools.islice(sequence(), count)]
    text = b"".join(lines)
    assert len(text) == size
    assert hashlib.sha256(text).hexdigest() == sha256
