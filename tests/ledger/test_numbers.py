"""NaN and infinities are found wherever a Parquet file can hold them, and nowhere else."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.measures import MeasureError
from ledger.numbers import check_parquet, parquet_metadata

NAN, INF = float("nan"), float("inf")
PAIR = pa.struct([("x", pa.int32()), ("y", pa.float64())])
BAD = {
    "plain": ("c", pa.array([1.0, NAN, None])),
    "float": ("c", pa.array([1.0, NAN, None], pa.float32())),
    "half": ("c", pa.array(np.array([1, NAN, 2], np.float16))),
    "dictionary": ("c", pa.array([1.0, NAN, 1.0]).dictionary_encode()),
    "list": ("c", pa.array([[1.0], None, [2.0, NAN]], pa.list_(pa.float32()))),
    "large list": ("c", pa.array([[1.0], None, [2.0, NAN]], pa.large_list(pa.float64()))),
    "fixed list": ("c", pa.array([[1.0, NAN], None, [2.0, 3.0]], pa.list_(pa.float64(), 2))),
    "struct": ("c.y", pa.array([{"x": 1, "y": NAN}, None, {"x": 2, "y": None}], PAIR)),
    "map": ("c.value", pa.array([[("k", NAN)], None, [("l", 1.0)]], pa.map_(pa.string(), pa.float64()))),
    "deep": ("c.y", pa.array([[{"x": 1, "y": NAN}], [], None], pa.list_(PAIR))),
}


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("case", BAD)
def test_a_nan_is_found_in_every_kind_of_column(tmp_path, case):
    """One sentence with the leaf's name, the file and the count."""
    name, array = BAD[case]
    path = write(tmp_path / "t.parquet", {"before": ["nan"] * len(array), "c": array})
    assert list(check_parquet(path)) == [f"found NaN in column {name} of {path}, 1 value; expected NULL with a status"]


def test_counts_go_over_row_groups_and_infinities_have_their_own_sentence(tmp_path):
    """Four NaN and one infinity in three row groups; the clean column is not named."""
    columns = {"a": [NAN, NAN, 1.0, NAN, None, NAN], "b": [None, -INF, 1.0, 2.0, 3.0, 4.0], "c": [1.0] * 6}
    path = write(tmp_path / "t.parquet", columns, row_group_size=2)
    assert list(check_parquet(path)) == [
        f"found NaN in column a of {path}, 4 values; expected NULL with a status",
        f"found an infinity in column b of {path}, 1 value; expected NULL with a status",
    ]


def test_nulls_text_and_whole_numbers_are_fine(tmp_path):
    """A NULL is how a missing number is written, and the word nan is a word."""
    columns = {"a": pa.array([None, None], pa.float64()), "b": ["nan", "inf"], "c": [1, 2], "d": [[1.5], None]}
    assert list(check_parquet(write(tmp_path / "t.parquet", columns))) == []


def test_a_dot_in_a_name_hides_nothing(tmp_path):
    """Column ``s.y`` and field ``y`` of column ``s`` have the same path in the file; both are looked at."""
    good, bad = [1.0, 2.0], [1.0, NAN]
    for plain, nested in ((good, bad), (bad, good)):
        columns = {"s.y": plain, "s": pa.array([{"x": 1, "y": y} for y in nested], PAIR)}
        found = list(check_parquet(write(tmp_path / "t.parquet", columns)))
        assert [line.split(" of ")[0] for line in found] == ["found NaN in column s.y"]
        assert "1 value;" in found[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=4), min_size=1, max_size=12),
    st.integers(1, 5),
)
def test_counts_are_those_of_a_plain_loop(tmp_path_factory, rows, group):
    """Any nesting of NULL, NaN, infinities and numbers, in row groups of any size."""
    path = tmp_path_factory.mktemp("loop") / "t.parquet"
    write(path, {"c": pa.array(rows, pa.list_(pa.float32()))}, row_group_size=group)
    flat = [value for row in rows for value in row if value is not None]
    wanted = {"NaN": sum(value != value for value in flat), "an infinity": sum(abs(value) == INF for value in flat)}
    found = [line.removeprefix("found ").split(" in column c of ") for line in check_parquet(path)]
    counts = {what: int(rest.rpartition(", ")[2].split()[0]) for what, rest in found}
    assert counts == {what: count for what, count in wanted.items() if count}


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "page"])
def test_an_unreadable_file_is_one_sentence(tmp_path, damage):
    """Also when only a page inside is damaged; never a traceback."""
    path = write(tmp_path / "t.parquet", {"c": [1.0, 2.0, 3.0]}, compression="zstd")
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"text": b"not parquet", "cut": data[:-9], "page": data[:4] + bytes(60) + data[64:]}[damage])
    (line,) = check_parquet(path)
    assert line.startswith(f"{path} is not a readable Parquet file (")
    assert "\n" not in line


def test_metadata_is_text_without_the_arrow_schema(tmp_path):
    """Keys as they were written; an unreadable file is refused."""
    table = pa.table({"c": [1.0]}).replace_schema_metadata({"seed": "7", "config_sha256": "ab"})
    pq.write_table(table, tmp_path / "t.parquet")
    assert parquet_metadata(tmp_path / "t.parquet") == {"seed": "7", "config_sha256": "ab"}
    assert parquet_metadata(write(tmp_path / "u.parquet", {"c": [1]})) == {}
    with pytest.raises(MeasureError, match="not a readable Parquet file"):
        parquet_metadata(tmp_path / "none.parquet")
