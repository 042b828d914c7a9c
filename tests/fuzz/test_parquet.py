"""Whatever a results file holds, it is read or refused in one sentence, by the readers and by ``ridgefill query``."""

import runpy
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.cli import main
from ridgefill.results import SCHEMAS, read_table

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "data/results/smollm2_split19"
FILE, SCHEMA = "fit/fit_layers.parquet", "fit_layers"
MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, refused_or_read, spoiled = (MANGLING[name] for name in ("FUZZ", "refused_or_read", "spoiled"))
SOUND = (PUBLISHED / FILE).read_bytes()
TEXT = st.binary(max_size=12)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("parquet") / "file.parquet"


def test_the_sound_file_is_read(file):
    file.write_bytes(SOUND)
    assert refused_or_read(lambda: read_table(file, SCHEMA)).num_rows


@FUZZ
@given(data=spoiled(SOUND, near_end=3000))
def test_bytes_of_a_footer(file, data):
    file.write_bytes(data)
    refused_or_read(lambda: read_table(file, SCHEMA))


@FUZZ
@given(data=st.binary(max_size=60) | st.binary(max_size=40).map(lambda text: b"PAR1" + text + b"PAR1"))
def test_any_bytes_as_a_table(file, data):
    file.write_bytes(data)
    refused_or_read(lambda: read_table(file, SCHEMA))


@FUZZ
@given(metadata=st.dictionaries(TEXT | st.sampled_from([b"schema_version", b"git_commit", b"\xff"]), TEXT, max_size=4))
def test_metadata_of_a_table(file, metadata):
    table = pq.read_table(PUBLISHED / FILE, partitioning=None)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **metadata}), file)
    refused_or_read(lambda: read_table(file, SCHEMA))


@pytest.mark.parametrize("schema", ["ruler_samples", "arm_runs"])
def test_a_table_of_another_kind(file, schema):
    pq.write_table(pa.table({"a" * 300: [1], "b\n": ["x"]}), file)
    assert refused_or_read(lambda: read_table(file, schema)) is None
    assert schema in SCHEMAS


@FUZZ
@given(drawn=st.data())
def test_querying_a_spoiled_folder_says_one_sentence(tmp_path_factory, capsys, drawn):
    folder = tmp_path_factory.getbasetemp() / "spoiled_results"
    if not folder.is_dir():
        shutil.copytree(PUBLISHED, folder)
    name = drawn.draw(st.sampled_from([FILE, "experiment.json"]))
    sound = (PUBLISHED / name).read_bytes()
    (folder / name).write_bytes(drawn.draw(spoiled(sound, near_end=3000)))
    try:
        code = main(["query", "--results", str(folder), "select count(*) from fit_layers"])
    finally:
        (folder / name).write_bytes(sound)
    said = capsys.readouterr().err
    assert bool(code) == said.startswith("error: ")
    assert said.count("\n") == int(bool(code))
