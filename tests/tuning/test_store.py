"""Files of a search: what they refuse, and that a folder belongs to one search."""

import json

import pyarrow.parquet as pq
import pytest

from ridgefill.errors import ConfigError, NumericsError, ResultsError
from ridgefill.results import write_json
from ridgefill.tuning.store import SCHEMA, SETTINGS, claim_folder, write_rows

ROW = {
    "stage": "development", "suite": "ruler", "item": "a", "stratum": "t", "candidate": "exact", "split": None,
    "tail": None, "rank": None, "rows_share": None, "towards": None, "lam": None, "score": 0.5, "loss": None,
    "key_loss": None, "key_tokens": None, "prompt_tokens": 9, "filled_rows": 0, "exact_rows": 0, "macs": 2**40,
    "exact_macs": 2**40, "prediction": "x", "prompt_sha256": "0",
}  # fmt: skip


def test_rows_come_back_as_they_were_written(tmp_path):
    """With the metadata; columns are the schema's."""
    write_rows(tmp_path / "a.parquet", [ROW, ROW | {"split": 3}], {"model": "m"})
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.to_pylist() == [ROW, ROW | {"split": 3}]
    assert table.schema.equals(SCHEMA, check_metadata=False)
    assert table.schema.metadata[b"model"] == b"m"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"score": float("nan")}, NumericsError, "score = nan"),
        ({"item": None}, ResultsError, "item"),
        ({"macs": "many"}, ResultsError, "macs|many|int"),
        ({"more": 1}, ResultsError, "other columns: .'more'"),
    ],
)
def test_rows_that_are_wrong_leave_no_file(tmp_path, change, error, words):
    """NaN, a missing value, another type, another column."""
    with pytest.raises(error, match=words):
        write_rows(tmp_path / "a.parquet", [ROW | change], {})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NumericsError):
        write_json(tmp_path / "a.json", {"x": float("inf")})


def test_a_folder_belongs_to_the_settings_that_claimed_it(tmp_path):
    """The same settings find it again; others are refused by the names of what differs; so is a stranger's folder."""
    folder = tmp_path / "out"
    mine = claim_folder(folder, {"seed": 1, "splits": (1, 2)})
    assert claim_folder(folder, {"seed": 1, "splits": (1, 2)}) == mine
    with pytest.raises(ConfigError, match=r"another seed, splits; give a new folder"):
        claim_folder(folder, {"seed": 2, "splits": (1,)})
    (folder / SETTINGS).write_text("{")
    with pytest.raises(ConfigError, match="another seed, splits"):
        claim_folder(folder, {"seed": 1, "splits": (1, 2)})
    other = tmp_path / "other"
    other.mkdir()
    assert claim_folder(other, {"seed": 1}) != mine
    assert json.loads((other / SETTINGS).read_text()) == {"seed": 1}
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is no folder of a search"):
        claim_folder(tmp_path / "x", {"seed": 1})
