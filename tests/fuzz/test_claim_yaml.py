"""Whatever a claim file holds, the ledger takes it or refuses it in one sentence of its own."""

import runpy
import tempfile
from pathlib import Path

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.claims import claim_from, load_claim
from ledger.cli import main

ROOT = Path(__file__).parents[2]
MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, documents, spoiled, refused_or_read = (
    MANGLING[name] for name in ("FUZZ", "documents", "spoiled", "refused_or_read")
)
SOUND = (ROOT / "workflow/claims/smollm2_split19.yaml").read_bytes()
DATA = yaml.safe_load(SOUND)


def written(value):
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")


def read(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "claim.yaml"
        path.write_bytes(data)
        refused_or_read(lambda: load_claim(path))


@FUZZ
@given(spoiled(SOUND))
def test_bytes_of_a_claim(data):
    read(data)


@FUZZ
@given(documents(DATA).map(written))
def test_values_of_a_claim(data):
    read(data)


@FUZZ
@given(st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=80))
@example(b"? [a]\n: b\n")
@example(b"a: &x [1]\nb: *x\n")
@example(b"%YAML 9.9\n---\na: 1\n")
@example(b"a: !!python/object/apply:os.system ['true']\n")
def test_any_bytes_as_a_claim(data):
    read(data)


@FUZZ
@given(documents(DATA))
def test_claims_out_of_a_registration(value):
    refused_or_read(lambda: claim_from(value))


@FUZZ
@given(spoiled(SOUND, most=2))
def test_registering_says_one_sentence(data):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "claim.yaml").write_bytes(data)
        # No ledger is here, so even a sound claim is refused.
        assert 0 < main(["register", "--root", folder, str(Path(folder, "claim.yaml"))]) < 20
