"""A disk that is really full, at every place that writes: one sentence, nothing half written, and it goes on later."""

from __future__ import annotations

import shutil

import pytest
from faults_book import attempts, last_result, open_starts, verified

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]
LEDGER = "data/ledger/local"
ENTRY_BYTES = 3 * 4096
"""What one entry takes on a disk with blocks of 4 KiB: header, body and salt."""


@pytest.mark.parametrize(
    ("name", "folder", "free", "output"),
    [
        ("capture", "results/tiny/capture", 8192, "moments.safetensors"),
        ("fit", "results/tiny/maps", 16384, "SHA256SUMS"),
        ("ruler", "results/tiny/ruler", 8192, "samples.parquet"),
        ("documents", "results/tiny/documents", 24576, "tokens.parquet"),
    ],
)
def test_a_full_disk_stops_a_job_with_one_sentence(checkout, inside_job, refused, tidy, name, folder, free, output):
    """Capture, fit, and both that write Parquet: the attempt has failed for that reason, and no file is cut short."""
    for path in (checkout.root / folder).rglob("*"):
        if path.is_file():
            path.unlink()
    done = inside_job(checkout, ["--disk", folder, str(free)], name)
    refused(done, r"could not be written .*No space left", "free space")
    left = checkout.root / "left" / folder
    assert left.is_dir()
    assert not (left / output).exists()
    tidy(left)
    assert open_starts(checkout) == []
    status, message = last_result(checkout)
    assert status == "failed"
    assert "No space left" in message


@pytest.mark.parametrize("entries", [0, 1], ids=["start", "result"])
def test_a_full_disk_under_the_ledger_loses_no_entry(checkout, inside_job, job, refused, tidy, entries):
    """No room for the start: nothing runs. Room for the start alone: its result is missing, the next run is whole."""
    before = attempts(checkout)
    free = str(entries * ENTRY_BYTES + 4096)
    done = inside_job(checkout, ["--disk", LEDGER, free], "capture")
    refused(done, r"cannot append to .*data/ledger/local \(No space left on device\); make room")
    # The disk was this process's own: what it held is put where it would be.
    left = checkout.root / "left" / LEDGER
    assert len(list((left / "entries").glob("*.json"))) == len(before) + 2 + entries
    tidy(left)
    shutil.copytree(left, checkout.root / LEDGER, dirs_exist_ok=True)
    assert open_starts(checkout) == ["capture"] * entries
    assert job(checkout, "capture").returncode == 0
    assert verified(checkout).count("orphaned_start") == entries
