"""RidgeFill's results for the ledger: the report's numbers, from hash-pinned bytes and nothing else."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.measures import MeasureError, find_lookup
from ledger.rules import Prediction, decide, rule_from
from ridgefill.errors import ResultsError
from ridgefill.measures import Measures
from ridgefill.provider import config_sha256, ridgefill_measures
from ridgefill.results import FILES, read_json

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "data/results/smollm2_split19"
SET = {"model": "tiny", "split": 19, "subset": None}
ASKED = [("ruler_filled", "ridgefill", "identity"), ("nll_key", "ridgefill", "exact"), ("nll_all", "exact", None)]


@pytest.fixture
def pinned(bare, tmp_path):
    """A finished run whose tables carry the hash of its configuration, as every real one does."""
    folder = Path(shutil.copytree(bare, tmp_path / "synthetic_split19"))
    mark = config_sha256(read_json(folder / "experiment.json"))
    for name in FILES:
        table = pq.read_table(folder / name)
        marks = {**table.schema.metadata, b"config_sha256": mark.encode()}
        pq.write_table(table.replace_schema_metadata(marks), folder / name)
    return folder


def edit(folder, part, key, value):
    """Change one setting of ``experiment.json``."""
    data = json.loads((folder / "experiment.json").read_text("utf-8"))
    data[part][key] = value
    (folder / "experiment.json").write_text(json.dumps(data), "utf-8")


def test_numbers_are_those_of_the_report(pinned):
    """The same statistics, to the last digit, as :class:`Measures` computes from the folder."""
    lookup = ridgefill_measures(pinned, list(FILES))
    for metric, arm, baseline in ASKED:
        found = lookup(metric, arm, baseline, SET)
        assert found["estimate"] is not None
        assert found == Measures(pinned).lookup(metric, arm, baseline, SET)


def test_published_verdicts_follow_from_the_published_files():
    """Through the entry point, every stored verdict of the published run is decided again, values included."""
    files = [path.relative_to(PUBLISHED).as_posix() for path in sorted(PUBLISHED.rglob("*.parquet"))]
    name, lookup = find_lookup(PUBLISHED, files)
    assert name == "ridgefill"
    claims = [json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "data/ledger/main/bodies").glob("*.json"))]
    (claim,) = [body["claim"] for body in claims if body.get("claim", {}).get("experiment") == PUBLISHED.name]
    stored = {verdict["id"]: verdict for verdict in read_json(PUBLISHED / "verdicts.json")}
    for said in claim["predictions"]:
        rule = Prediction(said["id"], said["says"], rule_from(said["rule"]), said["min_n"], said["missing"])
        found = decide(rule, lookup)
        assert found.verdict == stored[said["id"]]["verdict"]
        assert [dict(value) for value in found.values] == stored[said["id"]]["values"]
    assert stored


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("experiment", "statistics", {"resamples": 2000, "seed": 1}),
        ("experiment", "statistics", {"resamples": 200, "seed": 0}),
        ("experiment", "split", 22),
        ("model", "name", "other"),
    ],
)
def test_an_edited_configuration_is_refused(pinned, part, key, value):
    """experiment.json is pinned by nobody; the hash in the pinned tables says which one they were made under."""
    edit(pinned, part, key, value)
    with pytest.raises(ResultsError, match=r"experiment\.json hashes to .* put the run's own experiment\.json back"):
        ridgefill_measures(pinned, list(FILES))
    with pytest.raises(MeasureError, match="the provider of measures ridgefill refused"):
        find_lookup(pinned, list(FILES))


def test_a_table_that_nothing_pins_is_not_read(pinned):
    """Files that no checked hash names answer nothing, whatever they hold; the others still do."""
    ruler = [name for name in FILES if name.startswith("ruler/")]
    (pinned / "documents/tokens.parquet").write_bytes(b"anything")
    (pinned / "lam/lam_curve.parquet").unlink()
    lookup = ridgefill_measures(pinned, [*ruler, "notes.txt"])
    assert lookup("nll_key", "ridgefill", "exact", SET)["status"] == "missing"
    assert lookup("ruler_all", "ridgefill", "exact", SET)["n"] == 40


@pytest.mark.parametrize("gone", ["experiment.json", "marks", "bytes"])
def test_other_results_are_left_to_other_providers(pinned, gone):
    """No experiment.json, no schema in the metadata, or no Parquet at all: not RidgeFill's."""
    path = pinned / "ruler/samples.parquet"
    if gone == "experiment.json":
        (pinned / gone).unlink()
    elif gone == "marks":
        pq.write_table(pa.table({"c": [1]}), path)
    else:
        path.write_bytes(b"not parquet")
    assert ridgefill_measures(pinned, ["ruler/samples.parquet"]) is None
    assert ridgefill_measures(pinned, []) is None


def test_a_table_of_another_shape_is_refused(pinned):
    """The metadata says RidgeFill, the columns do not."""
    path = pinned / "ruler/samples.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["score"]), path)
    with pytest.raises(ResultsError, match="ruler_samples"):
        ridgefill_measures(pinned, ["ruler/samples.parquet"])


@pytest.mark.parametrize("text", ["[1, 2]", "{}", "{"])
def test_a_broken_configuration_is_one_sentence(pinned, text):
    """Whatever experiment.json holds, the refusal names it."""
    (pinned / "experiment.json").write_text(text, "utf-8")
    with pytest.raises(ResultsError, match=r"experiment\.json"):
        ridgefill_measures(pinned, list(FILES))
