"""What a finished run says about itself does not survive a changed byte."""

from __future__ import annotations

import re

import pytest

from ledger.verify import verify

# One finished run serves all of these tests, so they stay in one process when tests are spread over several.
pytestmark = pytest.mark.xdist_group("end_to_end")


def flip(path, place):
    """Change one byte of a file and return what it was."""
    before = path.read_bytes()
    changed = bytearray(before)
    changed[place % len(before)] ^= 1
    path.write_bytes(bytes(changed))
    return before


@pytest.mark.parametrize("folder", ["entries", "bodies", "salts"])
def test_a_flipped_byte_in_any_entry_fails_verification(checkout, folder):
    """Header, body and salt of every entry that the run wrote, one byte at a time; restored, all is well again."""
    files = sorted((checkout.root / "data/ledger/local" / folder).iterdir())
    assert len(files) == 10
    for number, path in enumerate(files):
        before = flip(path, 7 * number + 3)
        assert not verify(checkout.root).ok, path
        path.write_bytes(before)
    assert verify(checkout.root).ok


def test_ledger_verify_says_which_entry_was_changed(checkout):
    """The command line: the entry, and an exit code."""
    flip(checkout.root / "data/ledger/local/entries/00000005.json", 40)
    done = checkout.ledger("verify")
    assert done.returncode == 4
    assert "VERIFICATION FAILED" in done.stdout
    assert "#5" in done.stdout


@pytest.mark.parametrize("name", ["ruler/samples.parquet", "documents/tokens.parquet", "lam/lam_curve.parquet"])
def test_a_result_with_other_bytes_than_recorded_fails_verification(checkout, name):
    """The ledger has the SHA-256 of every output of every run."""
    flip(checkout.results / name, 100)
    done = checkout.ledger("verify")
    assert done.returncode == 5
    assert name in done.stdout


def test_a_changed_digit_in_the_report_fails_the_recomputation(checkout, job):
    """One digit of one number: the workflow's last job ends with an error and names the number."""
    page = checkout.results / "report.html"
    text = page.read_text("utf-8")
    found = re.search(r'data-cell="(main\.[^"]+)"[^>]*>[^<0-9]*([0-9])', text)
    assert found is not None
    digit = "1" if found[2] != "1" else "2"
    page.write_text(text[: found.start(2)] + digit + text[found.end(2) :], encoding="utf-8")
    done = job(checkout, "verify")
    assert done.returncode == 7
    assert f"MISMATCH report.html: {found[1]}" in done.stderr
    assert re.search(r"^error: \d+ numbers of results/tiny do not match", done.stderr, re.M)
