"""No byte of any entry can change unnoticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.chain import read_chain
from ledger.cli import main

GOOD = Path(__file__).parents[1] / "bad_ledgers" / "good"
FILES = sorted(
    path.relative_to(GOOD).as_posix()
    for folder in ("entries", "bodies", "salts")
    for path in GOOD.glob(f"data/ledger/*/{folder}/*")
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the good project; every test puts back what it changed."""
    root = tmp_path_factory.mktemp("flip") / "root"
    shutil.copytree(GOOD, root)
    return root


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_verify_fails_after_any_change_of_any_byte(
    copy: Path, name: str, place: float, mask: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ledger verify` fails whichever byte of a header, body or salt is changed to whatever else."""
    path = copy / name
    data = path.read_bytes()
    changed = bytearray(data)
    changed[int(place * len(data))] ^= mask
    path.write_bytes(changed)
    try:
        assert main(["verify", "--root", str(copy)]) == 4
        assert "VERIFICATION FAILED" in capsys.readouterr().out
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("folder", ["entries", "bodies", "salts"])
def test_every_single_byte_of_the_last_entry_counts(copy: Path, folder: str) -> None:
    """The last entry, which no later hash covers yet, is checked byte by byte, three changes each."""
    branch = copy / "data" / "ledger" / "main"
    path = max((branch / folder).iterdir())
    data = path.read_bytes()
    try:
        for place in range(len(data)):
            for mask in (0x01, 0x20, 0x80):
                changed = bytearray(data)
                changed[place] ^= mask
                path.write_bytes(changed)
                assert not read_chain(branch).sound, (place, mask)
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_more_or_less_counts(copy: Path, name: str) -> None:
    """Appending, prepending or cutting one byte of any file breaks the chain."""
    path = copy / name
    data = path.read_bytes()
    try:
        for changed in (data + b"\n", b" " + data, data[:-1], b""):
            path.write_bytes(changed)
            assert not read_chain(path.parents[1]).sound
    finally:
        path.write_bytes(data)


def test_the_copy_is_still_good(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tests above put everything back, so they tested what they say."""
    assert main(["verify", "--root", str(copy)]) == 0
