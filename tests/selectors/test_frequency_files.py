"""Token frequencies on disk, and the published layout of row scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ridgefill.errors import MapError
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.frequency_files import load_frequencies, load_rowsel, save_frequencies


@given(counts=st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_frequencies_come_back_as_they_were(tmp_path_factory, counts):
    """Property: counts survive exactly, the largest included."""
    path = tmp_path_factory.mktemp("frequencies") / "frequencies.safetensors"
    save_frequencies(path, Frequencies(tuple(counts)))
    assert load_frequencies(path) == Frequencies(tuple(counts))
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "tables",
    [
        {"counts": np.array([1.0], dtype=np.float32)},
        {"counts": np.array([[1]], dtype=np.int64)},
        {"counts": np.array([3, -1], dtype=np.int64)},
        {"counts": np.array([], dtype=np.int64)},
        {"other": np.array([1], dtype=np.int64)},
        {"counts": np.array([1], dtype=np.int64), "more": np.array([1], dtype=np.int64)},
    ],
)
def test_other_tables_are_no_frequencies(tmp_path, tables):
    """Another type or shape, a negative count, an empty vocabulary, other or further tables."""
    save_file(tables, tmp_path / "f.safetensors")
    with pytest.raises(MapError, match=r"f\.safetensors holds"):
        load_frequencies(tmp_path / "f.safetensors")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    """A missing one, and bytes that are no safetensors."""
    with pytest.raises(MapError, match="cannot be read"):
        load_frequencies(tmp_path / "missing.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not a table")
    with pytest.raises(MapError, match="cannot be read"):
        load_rowsel(tmp_path / "broken.safetensors")


def test_the_published_layout_of_row_scores_is_read(tmp_path):
    """Three tables of float32 over one vocabulary; at the published size the file has the published bytes."""
    tables = {name: np.arange(248_320, dtype=np.float32) + place for place, name in enumerate(
        ("score", "score_none", "score_all")
    )}  # fmt: skip
    path = tmp_path / "rowsel.safetensors"
    save_file(tables, path)
    found = load_rowsel(path)
    assert list(found) == ["score", "score_none", "score_all"]
    assert all(np.array_equal(found[name], table) for name, table in tables.items())
    assert path.stat().st_size - 2_980_272 < 100


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("score", np.zeros(3, np.float32)),
        ("score_all", np.zeros(4, np.float16)),
        ("score", np.zeros((4, 1), np.float32)),
    ],
)
def test_row_scores_of_another_layout_are_refused(tmp_path, name, table):
    """Vocabularies that differ, another type, another shape, a table too few."""
    tables = {one: np.zeros(4, np.float32) for one in ("score", "score_none", "score_all")}
    save_file(tables | {name: table}, tmp_path / "rowsel.safetensors")
    with pytest.raises(MapError, match="expected three tables of float32"):
        load_rowsel(tmp_path / "rowsel.safetensors")
    save_file({"score": tables["score"]}, tmp_path / "rowsel.safetensors")
    with pytest.raises(MapError, match="expected score, score_none, score_all"):
        load_rowsel(tmp_path / "rowsel.safetensors")
