"""Whatever an experiment's or a model's file holds, or an override says, it is read or refused in one sentence."""

import runpy
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ridgefill.config import EXPERIMENT_DIR, MODEL_DIR, load_experiment, load_model, with_overrides
from workflow.dag import Plan, Refused

ROOT = Path(__file__).parents[2]
NAME, MODEL = "smollm2_suites", "smollm2-135m-instruct"
MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, VALUES, documents, spoiled, refused_or_read = (
    MANGLING[name] for name in ("FUZZ", "VALUES", "documents", "spoiled", "refused_or_read")
)
EXPERIMENT = (ROOT / EXPERIMENT_DIR / f"{NAME}.yaml").read_bytes()
MODEL_FILE = (ROOT / MODEL_DIR / f"{MODEL}.yaml").read_bytes()
BOMB = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n" % ((one, one) + (one - 1,) * 8) for one in range(98, 112)
)
SETTINGS = {"ledger_branch": "local", "model_path": "", "models": "models", "shards": 1, "texts": "texts", "kva": ""}


def written(value):
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    for folder in (EXPERIMENT_DIR, MODEL_DIR):
        (root / folder).mkdir(parents=True)
    for folder in ("data/texts", "workflow/claims"):
        shutil.copytree(ROOT / folder, root / folder)
    return root


def read(project, experiment=EXPERIMENT, model=MODEL_FILE):
    (project / EXPERIMENT_DIR / f"{NAME}.yaml").write_bytes(experiment)
    (project / MODEL_DIR / f"{MODEL}.yaml").write_bytes(model)
    return refused_or_read(lambda: load_experiment(NAME, project))


def test_the_sound_files_are_read(project):
    assert read(project).name == NAME
    assert load_model(MODEL, project).name == MODEL


@FUZZ
@given(data=spoiled(EXPERIMENT))
def test_bytes_of_an_experiment(project, data):
    read(project, data)


@FUZZ
@given(data=documents(yaml.safe_load(EXPERIMENT)).map(written))
def test_values_of_an_experiment(project, data):
    read(project, data)


@FUZZ
@given(data=st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
@example(data=b"? [a]\n: b\n")
@example(data=b"? {a: b}\n: b\n")
@example(data=b"title: 2020-99-99\n")
@example(data=b"title: !!binary x\n")
@example(data=b"title: !!int x\n")
@example(data=b"title: !!float x\n")
@example(data=b"a: " + b"[" * 5000)
@example(data=b"title: 0b\n")
@example(data=b"title: " + b"9" * 9000 + b"\n")
@example(data=b"a: &x [*x]\n")
@example(data=b"a: !!python/object/apply:os.system ['true']\n")
@example(data=BOMB + b"title: *o\n")
@example(data=EXPERIMENT.replace(b"title:", BOMB + b"title: *o\nother:"))
def test_any_bytes_as_an_experiment(project, data):
    read(project, data)


@FUZZ
@given(data=spoiled(MODEL_FILE) | documents(yaml.safe_load(MODEL_FILE)).map(written))
def test_a_models_file(project, data):
    read(project, model=data)


@FUZZ
@given(
    key=st.sampled_from(["dtype", "split", "suites.ruler.lengths", "arms", "statistics.seed", "claim", "no.such", ""]),
    value=st.text(max_size=30)
    | st.sampled_from(["[", "&a *a", "2020-99-99", "!!int x", "a: b: c", "\0", "? [a]\n: b"]),
)
def test_overrides(project, key, value):
    made = read(project)
    refused_or_read(lambda: with_overrides(made, {key: value}))


def refusal_of(question):
    try:
        question(NAME)
    except Refused as refusal:
        return str(refusal)
    return ""


@FUZZ
@given(data=documents(yaml.safe_load(EXPERIMENT), most=1).map(written))
@example(data=EXPERIMENT.replace(b"data/texts/documents.json", b'"a\\0b"'))
@example(data=EXPERIMENT.replace(b"data/texts/documents.json", b"/etc/passwd"))
@example(data=EXPERIMENT.replace(b"data/texts/documents.json", b"../../etc"))
@example(data=EXPERIMENT.replace(b"workflow/claims/", b"../../"))
@example(data=EXPERIMENT.replace(b"workflow/claims/smollm2_suites.yaml", b"/etc/passwd"))
@example(data=EXPERIMENT.replace(b"workflow/claims/smollm2_suites.yaml", b'"a\\0b"'))
def test_planning(project, data):
    read(project, data)
    plan = Plan(project, SETTINGS)
    for question in (plan.registration, plan.text_files, plan.fitted_files):
        assert "\n" not in refusal_of(question)
