"""Result files: schemas are enforced both ways, nothing half-written is left, NaN never enters."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgefill.errors import NumericsError, ResultsError
from ridgefill.results import FILES, MORE_FILES, SCHEMAS, metadata_of, read_json, read_table, write_json, write_table

MARKS = {"git_commit": "c" * 40, "config_sha256": "d" * 64, "ledger_entry": "3"}
ROW = {"split": 19, "lam": 0.03, "layer": 20, "component": "key", "cosine": 0.9, "rows": 100}
TOKEN = {
    "document": "a", "domain": "code", "arm": "exact", "split": None, "position": 5, "token": 7,
    "novel": True, "key": False, "nll": None, "status": "failed",
}  # fmt: skip


def test_a_table_comes_back_as_it_was_written(tmp_path):
    """Rows, types and metadata survive, and the schema version is added."""
    path = tmp_path / "lam" / "curve.parquet"
    write_table(path, "lam_curve", [ROW, {**ROW, "layer": 21}], MARKS)
    table = read_table(path, "lam_curve")
    assert table.to_pylist() == [ROW, {**ROW, "layer": 21}]
    assert metadata_of(table) == {**MARKS, "schema": "lam_curve", "schema_version": "1"}


def test_the_same_rows_give_the_same_bytes(tmp_path):
    """Two writes of one table are equal byte for byte, so a ledger hash names the content."""
    for name in ("a", "b"):
        write_table(tmp_path / name, "lam_curve", [ROW], MARKS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_missing_number_is_null_with_a_status(tmp_path):
    """NULL is allowed where a status explains it."""
    write_table(tmp_path / "t", "document_tokens", [TOKEN], MARKS)
    assert read_table(tmp_path / "t", "document_tokens").column("nll").to_pylist() == [None]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused_with_their_row(tmp_path, bad):
    """A non-finite number is a NumericsError and leaves no file."""
    with pytest.raises(NumericsError, match="row 1 has cosine"):
        write_table(tmp_path / "t", "lam_curve", [ROW, {**ROW, "cosine": bad}], MARKS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({k: v for k, v in ROW.items() if k != "rows"}, "lacks column 'rows'"),
        ({**ROW, "extra": 1}, "extra"),
        ({**ROW, "layer": None}, "may not be NULL"),
        ({**ROW, "layer": "twenty"}, "not int32"),
        ({**ROW, "layer": 2**40}, "not int32"),
    ],
)
def test_a_row_of_another_shape_is_refused(tmp_path, row, words):
    """Missing, unknown, NULL and mistyped columns each end in one sentence."""
    with pytest.raises(ResultsError, match=words):
        write_table(tmp_path / "t", "lam_curve", [row], MARKS)


def test_metadata_is_required_when_writing(tmp_path):
    """A file that does not say which commit, config and ledger entry made it cannot be written."""
    with pytest.raises(ResultsError, match="ledger_entry"):
        write_table(tmp_path / "t", "lam_curve", [ROW], {"git_commit": "x", "config_sha256": "y"})


def test_schema_drift_is_an_error_when_reading(tmp_path):
    """A renamed column, another version, missing metadata and a broken file are told apart."""
    path = tmp_path / "t"
    write_table(path, "lam_curve", [ROW], MARKS)
    good = pq.read_table(path)
    renamed = good.rename_columns([*good.column_names[:-1], "count"])
    pq.write_table(renamed.replace_schema_metadata(good.schema.metadata), path)
    with pytest.raises(ResultsError, match="has columns"):
        read_table(path, "lam_curve")
    pq.write_table(good.replace_schema_metadata({**good.schema.metadata, b"schema_version": b"0"}), path)
    with pytest.raises(ResultsError, match="schema version 0"):
        read_table(path, "lam_curve")
    pq.write_table(good.replace_schema_metadata({}), path)
    with pytest.raises(ResultsError, match="metadata lacks"):
        read_table(path, "lam_curve")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ResultsError, match="not a readable Parquet"):
        read_table(path, "lam_curve")
    with pytest.raises(ResultsError, match="does not exist"):
        read_table(tmp_path / "absent", "lam_curve")


def test_an_interrupted_write_keeps_the_old_file(tmp_path, monkeypatch):
    """When the disk is full the old file stays whole and no temporary file is left."""
    path = tmp_path / "t"
    write_table(path, "lam_curve", [ROW], MARKS)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultsError, match="No space left"):
        write_table(path, "lam_curve", [ROW, ROW], MARKS)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_json_refuses_nan_and_names_a_broken_file(tmp_path):
    """JSON side files follow the same rules."""
    with pytest.raises(NumericsError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    write_json(tmp_path / "x.json", {"a": "ä"})
    assert read_json(tmp_path / "x.json") == {"a": "ä"}
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ResultsError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_every_file_of_a_results_folder_has_a_schema():
    """FILES names known schemas only, and each schema is a real Arrow schema without duplicates."""
    assert set(FILES.values()) | set(MORE_FILES.values()) == set(SCHEMAS)
    assert set(FILES).isdisjoint(MORE_FILES)
    for schema in SCHEMAS.values():
        assert isinstance(schema, pa.Schema)
        assert len(set(schema.names)) == len(schema.names)


def test_the_results_side_never_loads_torch():
    """Reading results, tables and the recompute step start without torch or transformers."""
    code = (
        "import sys, ridgefill.results, ridgefill.measures, ridgefill.tables, ridgefill.tables.report,"
        " ridgefill.recompute; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
