"""Anybody's Parquet files as numbers for the ledger: the documented contract, and what falls outside it."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgefill import stats
from ridgefill.errors import ResultsError
from ridgefill.long_table import long_table_measures

DOC = Path(__file__).resolve().parents[2] / "docs/decide-from-parquet.md"
SET = {"model": "m", "split": 1, "subset": None}
NONE = {"estimate": None, "ci_low": None, "ci_high": None, "lower_bound": None, "n": 0}


def rows(count=12, arms=("a", "b"), **fixed):
    """``count`` items of every arm, in two strata and two subsets."""
    rng = np.random.default_rng(3)
    return [
        {
            "metric": "score", "arm": arm, "model": "m", "split": 1, "item": f"i{number:03d}",
            "value": float(rng.normal(5 + (arm == "a"), 1)), "subset": "odd" if number % 2 else "even",
            "stratum": f"s{number // 6}", **fixed,
        }
        for arm in arms
        for number in range(count)
    ]  # fmt: skip


def write(path, data, seed=None):
    """Save rows, with a seed in the metadata when one is given."""
    table = data if isinstance(data, pa.Table) else pa.Table.from_pylist(data)
    pq.write_table(table.replace_schema_metadata(None if seed is None else {"seed": seed}), path)
    return path.name


def ask(folder, *names, baseline=None, arm="a", metric="score", **where):
    return long_table_measures(folder, names)(metric, arm, baseline, {**SET, **where})


def of(data, arm):
    return [row["value"] for row in sorted(data, key=lambda row: (row["stratum"], row["item"])) if row["arm"] == arm]


def test_a_mean_and_a_difference_are_those_of_the_statistics_module(tmp_path):
    """5000 resamples within strata, seed 0; the bound is one-sided and only for differences."""
    data = rows()
    name = write(tmp_path / "t.parquet", data)
    strata = sorted(row["stratum"] for row in data if row["arm"] == "a")
    mean = stats.mean_interval(of(data, "a"), strata, 5000, 0)
    pair = stats.paired_contrast(of(data, "a"), of(data, "b"), strata, 5000, 0)
    bound = stats.lower_bound(of(data, "a"), of(data, "b"), strata, 5000, 0)
    assert ask(tmp_path, name) == {**vars(mean), "lower_bound": None}
    assert ask(tmp_path, name, baseline="b") == {**vars(pair), "lower_bound": bound}
    assert pair != stats.paired_contrast(of(data, "a"), of(data, "b"), None, 5000, 0)


def test_the_seed_is_that_of_the_metadata(tmp_path):
    """Other resamples, the same estimate."""
    data = rows()
    found = ask(tmp_path, write(tmp_path / "t.parquet", data, seed="4050770714030906240"))
    strata = sorted(row["stratum"] for row in data if row["arm"] == "a")
    assert found["ci_low"] == stats.mean_interval(of(data, "a"), strata, 5000, 4050770714030906240).ci_low
    other = ask(tmp_path, write(tmp_path / "u.parquet", data))
    assert (found["estimate"], found["ci_low"] == other["ci_low"]) == (other["estimate"], False)


def test_no_digit_depends_on_the_order_of_rows_or_files(tmp_path):
    """The same rows shuffled, and cut into two files named in either order."""
    data = rows(40)
    whole = ask(tmp_path, write(tmp_path / "t.parquet", data), baseline="b")
    mixed = [data[place] for place in np.random.default_rng(0).permutation(len(data))]
    one, two = write(tmp_path / "z.parquet", mixed[:17]), write(tmp_path / "y.parquet", mixed[17:], seed="0")
    assert ask(tmp_path, one, two, baseline="b") == whole == ask(tmp_path, two, one, baseline="b")


@pytest.mark.parametrize("how", ["null", "no row"])
def test_an_item_without_a_value_is_left_out_and_said(tmp_path, how):
    """Also when the arm has no row for it at all: the set is what any arm has."""
    data = rows()
    if how == "null":
        data[3]["value"] = None
    else:
        del data[3]
    name = write(tmp_path / "t.parquet", data)
    for found in (ask(tmp_path, name), ask(tmp_path, name, baseline="b"), ask(tmp_path, name, arm="b", baseline="a")):
        assert (found["n"], found["status"]) == (11, "incomplete")
    assert ask(tmp_path, name, arm="b")["status"] == "ok"


def test_a_set_narrows_to_model_split_and_subset(tmp_path):
    """Each by itself; what nothing measured is missing."""
    data = rows() + rows(8, model="other") + rows(6, split=2)
    name = write(tmp_path / "t.parquet", data)
    assert [ask(tmp_path, name, **where)["n"] for where in ({}, {"model": "other"}, {"split": 2})] == [12, 8, 6]
    assert ask(tmp_path, name, subset="odd")["n"] == 6
    for where in ({"model": "no"}, {"split": 3}, {"subset": "no"}, {"arm": "no"}, {"metric": "no"}, {"baseline": "no"}):
        assert ask(tmp_path, name, **where) == {**NONE, "status": "missing"}


def test_an_arm_without_a_split_belongs_to_every_split(tmp_path):
    """Such as an exact baseline, compared with the others at each of theirs."""
    data = rows(arms="a") + rows(arms="a", split=2) + rows(arms="b", split=None)
    name = write(tmp_path / "t.parquet", data)
    assert [ask(tmp_path, name, baseline="b", split=split)["n"] for split in (1, 2)] == [12, 12]
    assert ask(tmp_path, name, arm="b", split=None)["n"] == 12


@pytest.mark.parametrize("how", ["two splits", "row twice", "two strata"])
def test_two_values_for_one_item_are_no_number(tmp_path, how):
    """Never a mean over both, and never the first."""
    data, where = rows(), {}
    if how == "two splits":
        data, where = data + rows(split=2), {"split": None}
    elif how == "row twice":
        data.append(dict(data[0]))
    else:
        data[0]["stratum"] = "s9"
    name = write(tmp_path / "t.parquet", data)
    assert ask(tmp_path, name, baseline="b", **where) == {**NONE, "status": "ambiguous"}


def test_optional_columns_and_other_spellings_of_the_types_are_fine(tmp_path):
    """No subset, no stratum, numbered items, float32, dictionaries, columns and files of other kinds."""
    table = pa.Table.from_pylist(rows()).drop_columns(["subset", "stratum"])
    table = table.set_column(0, "metric", table["metric"].dictionary_encode())
    table = table.set_column(4, "item", pa.array([number % 12 for number in range(24)], pa.int16()))
    table = table.set_column(5, "value", table["value"].cast(pa.float32())).append_column("note", pa.array(["x"] * 24))
    (tmp_path / "notes.txt").write_text("not a table")
    pq.write_table(pa.table({"c": [1]}), tmp_path / "other.parquet")
    found = ask(tmp_path, write(tmp_path / "t.parquet", table), "notes.txt", "other.parquet", baseline="b")
    assert (found["n"], found["status"]) == (12, "ok")
    assert ask(tmp_path, "t.parquet", subset="odd")["status"] == "missing"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": "1.5"}, "column 'value' is string, expected one column of double"),
        ({"value": float("nan")}, "holds 24 NaN or infinite values; store NULL"),
        ({"value": float("inf")}, "holds 24 NaN or infinite values; store NULL"),
        ({"split": 1.0}, "column 'split' is double, expected one column of int64"),
        ({"arm": 3}, "column 'arm' is int64, expected one column of string"),
        ({"metric": None}, "column 'metric' is null, expected one column of string"),
    ],
)
def test_a_column_of_another_kind_is_refused(tmp_path, change, words):
    """By name, with what was found and what was expected."""
    with pytest.raises(ResultsError, match=words):
        ask(tmp_path, write(tmp_path / "t.parquet", rows(**change)))


def test_a_null_where_none_may_be_is_refused(tmp_path):
    """An item without a name cannot be paired."""
    data = rows()
    data[5]["item"] = None
    with pytest.raises(ResultsError, match="column 'item' holds NULLs; only split and value may"):
        ask(tmp_path, write(tmp_path / "t.parquet", data))


@pytest.mark.parametrize(
    ("seeds", "words"), [(["1", "2"], "different seeds"), (["-1"], "seed is b'-1'"), ([""], "seed is")]
)
def test_seeds_are_one_whole_number(tmp_path, seeds, words):
    """Two files may not ask for different resamples."""
    names = [write(tmp_path / f"{place}.parquet", rows(), seed=seed) for place, seed in enumerate(seeds)]
    with pytest.raises(ResultsError, match=words):
        ask(tmp_path, *names)


def test_only_the_named_files_are_read(tmp_path):
    """A table beside them that nothing pins does not count, and no table at all is no format."""
    write(tmp_path / "beside.parquet", rows(50))
    assert ask(tmp_path, write(tmp_path / "t.parquet", rows()))["n"] == 12
    pq.write_table(pa.table({"c": [1]}), tmp_path / "other.parquet")
    assert long_table_measures(tmp_path, ["other.parquet", "notes.txt"]) is None
    (tmp_path / "broken.parquet").write_bytes(b"no")
    with pytest.raises(ResultsError, match=r"broken\.parquet is not a readable Parquet file"):
        long_table_measures(tmp_path, ["broken.parquet"])


def test_the_documented_example_prints_what_the_page_says(tmp_path, monkeypatch):
    """Both blocks of the page, run in an empty folder."""
    page = DOC.read_text("utf-8")
    writing, asking = re.findall(r"```python\n(.*?)```\n", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(writing + asking, {})
    assert f"\n    {printed.getvalue()}" in page
    assert printed.getvalue().startswith("table {'estimate': ")
