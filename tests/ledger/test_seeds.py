"""Seeds follow from the registration."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.seeds import hkdf_sha256, run_seed


def test_first_published_case_of_rfc_5869() -> None:
    """Appendix A.1 of the RFC."""
    key, salt, info = b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA))
    assert hkdf_sha256(key, salt, info, 42).hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


@given(st.binary(min_size=1, max_size=64), st.binary(max_size=32), st.binary(max_size=40), st.integers(1, 200))
def test_another_implementation_agrees(key: bytes, salt: bytes, info: bytes, length: int) -> None:
    """Written out from section 2 of the RFC with the standard library alone."""
    pseudorandom = hmac.digest(salt or bytes(32), key, "sha256")
    other = block = b""
    for counter in range(1, length // 32 + 2):
        block = hmac.digest(pseudorandom, block + info + bytes([counter]), "sha256")
        other += block
    other = other[:length]
    assert hkdf_sha256(key, salt, info, length) == other


@given(st.binary(min_size=32, max_size=32), st.text())
def test_seeds_are_stable_and_fit_63_bits(leaf: bytes, label: str) -> None:
    """The same registration and label give the same seed in [0, 2**63)."""
    try:
        seed = run_seed(leaf.hex(), label)
    except UnicodeEncodeError:
        return
    assert seed == run_seed(leaf.hex(), label)
    assert 0 <= seed < 2**63


def test_labels_and_registrations_tell_seeds_apart() -> None:
    """Another label or another registration gives another seed."""
    assert len({run_seed(leaf * 64, label) for leaf in "01" for label in ("", "a", "b")}) == 6


def test_a_short_leaf_is_refused() -> None:
    """A truncated hash is no registration."""
    with pytest.raises(ValueError, match="expected 32"):
        run_seed("ab", "x")


def test_golden_seed() -> None:
    """The derivation never changes: a recorded seed must be derivable for ever."""
    assert run_seed("00" * 32, "fit/split 19") == GOLDEN


GOLDEN = 2816794133572692375
