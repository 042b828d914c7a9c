"""The demo's row says what is missing instead of measuring something else."""

from math import isnan

from ridgefill.bench.demo import DemoSettings, rows


def test_a_checkout_without_fetched_files_has_no_value(tmp_path):
    """Fetching them would be most of the time."""
    (row,) = rows(DemoSettings(tmp_path))
    assert isnan(row.value)
    assert not row.met
    assert "no folder models" in row.limited


def test_a_folder_that_is_no_checkout_has_no_value(tmp_path):
    """Git's own words are passed on."""
    for name in ("models", "texts"):
        (tmp_path / name).mkdir()
    (row,) = rows(DemoSettings(tmp_path))
    assert isnan(row.value)
    assert "could not be cloned" in row.limited
