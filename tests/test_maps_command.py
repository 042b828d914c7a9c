"""``ridgefill maps``: what it prints, what it refuses, and how it exits."""

import json
import subprocess
import sys

import pytest
import torch

from ridgefill import cli
from ridgefill.files import sha256_file
from ridgefill.mapfiles.int8 import error, quantise
from ridgefill.mapfiles.layers import layer_bytes
from ridgefill.maps import RidgeMaps, load_maps, save_maps

SPLIT, LAYERS, WIDTH = 2, 4, 128
ARCHITECTURE = {"family": "llama", "layers": LAYERS, "hidden": WIDTH, "layer_types": ["attention"] * LAYERS}
FIT = {"lam": 0.03, "rows": 1000}


def some_maps(width=WIDTH):
    generator = torch.Generator().manual_seed(3)
    late = range(SPLIT, LAYERS)
    weights = {layer: torch.randn(width, width, generator=generator) for layer in late}
    return RidgeMaps(SPLIT, weights, {layer: torch.ones(width) for layer in late})


@pytest.fixture
def folder(tmp_path):
    """A folder of bf16 maps."""
    save_maps(tmp_path / "maps", some_maps(), architecture=ARCHITECTURE, fit=FIT)
    return tmp_path / "maps"


def run(capsys, *words):
    code = cli.main(["maps", *map(str, words)])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_inspect_prints_layers_shapes_sizes_and_the_fit(folder, capsys):
    """For people: one fact a line."""
    code, out, err = run(capsys, "inspect", folder)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert f"split {SPLIT} of {LAYERS} layers: 2 maps [128, 128]" in lines
    assert "lam 0.03" in lines
    assert "layer_types 4 x attention" in lines
    size = (folder / "proj.L3.safetensors").stat().st_size
    assert f"proj.L3.safetensors {size:,} bytes" in lines


def test_inspect_as_json_holds_all_of_it(folder, capsys):
    """For programs."""
    code, out, _ = run(capsys, "inspect", folder, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["split"], found["layers"], found["encoding"], found["d_in"]) == (SPLIT, LAYERS, "bf16", WIDTH)
    assert found["fit"] == FIT
    assert [one["layer"] for one in found["maps"]] == [2, 3]
    assert found["maps"][0]["tensors"] == {"proj.2.weight": "BF16 [128, 128]", "proj.2.bias": "BF16 [128]"}
    assert found["bytes"] == sum(one["bytes"] for one in found["maps"])


def test_inspect_answers_without_torch(folder):
    """It reads headers only."""
    code = f"import sys\nfrom ridgefill import cli\ncli.main(['maps', 'inspect', {str(folder)!r}])\n"
    code += "print({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_verify_passes_what_save_wrote(folder, capsys):
    """Two layers and the manifest."""
    code, out, err = run(capsys, "verify", folder)
    assert (code, err) == (0, "")
    assert out == f"{folder}: 3 files are what their manifest says\n"
    code, out, _ = run(capsys, "verify", folder, "--json")
    assert json.loads(out) == {"ok": True, "checked": 3, "problems": [], "absent": []}


def reseal(folder, name, data):
    """Replace a file and make manifest and checksums agree with it."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "ridgefill.json").read_text())
    manifest["files"][name] = sha256_file(folder / name)
    (folder / "ridgefill.json").write_text(json.dumps(manifest))
    names = [*manifest["files"], "ridgefill.json"]
    (folder / "SHA256SUMS").write_text("".join(f"{sha256_file(folder / name)}  {name}\n" for name in names))


def flip(folder):
    path = folder / "proj.L2.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")


def lose(folder):
    (folder / "proj.L3.safetensors").unlink()


def put_nan(folder):
    weights = {2: some_maps().weights[2].clone()}
    weights[2][0, :3] = float("nan")
    reseal(folder, "proj.L2.safetensors", layer_bytes(2, weights, torch.ones(WIDTH), "bf16", {}))


def other_shape(folder):
    weights = {2: torch.zeros(WIDTH, 64)}
    reseal(folder, "proj.L2.safetensors", layer_bytes(2, weights, torch.ones(WIDTH), "bf16", {}))


def not_safetensors(folder):
    reseal(folder, "proj.L2.safetensors", b"hello, this is not a tensor")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flip, "proj.L2.safetensors has SHA-256"),
        (lose, "proj.L3.safetensors"),
        (put_nan, "proj.L2.safetensors: weight holds 3 values that are not finite"),
        (other_shape, "holds proj.2.bias bfloat16 [128], proj.2.weight bfloat16 [128, 64]; expected"),
        (not_safetensors, "proj.L2.safetensors is not a safetensors file"),
    ],
)
def test_verify_says_what_is_wrong_and_exits_with_4(folder, capsys, damage, words):
    """Hash, presence, values, shape and format, also when every checksum agrees."""
    damage(folder)
    code, out, err = run(capsys, "verify", folder)
    assert (code, out) == (4, "")
    assert words in err
    assert all(line.startswith("error: ") for line in err.splitlines())


def test_verify_tells_every_problem_at_once(folder, capsys):
    """Not only the first."""
    put_nan(folder)
    flip(folder)
    lose(folder)
    code, out, _ = run(capsys, "verify", folder, "--json")
    found = json.loads(out)
    assert (code, found["ok"]) == (4, False)
    assert any("proj.L2" in problem for problem in found["problems"])
    assert any("proj.L3" in problem for problem in found["problems"])


def test_verify_checks_what_only_the_checksums_list(folder, capsys):
    """A licence is checked when it is there, and mentioned when it is not."""
    (folder / "LICENSE").write_text("terms")
    with open(folder / "SHA256SUMS", "a") as stream:
        stream.write(f"{sha256_file(folder / 'LICENSE')}  LICENSE\n")
    assert run(capsys, "verify", folder)[0] == 0
    (folder / "LICENSE").write_text("other terms")
    code, _, err = run(capsys, "verify", folder)
    assert code == 4
    assert "LICENSE has SHA-256" in err
    (folder / "LICENSE").unlink()
    code, out, _ = run(capsys, "verify", folder)
    assert code == 0
    assert "not here and not needed: LICENSE" in out


def test_quantize_writes_int8_maps_and_prints_what_it_cost(folder, tmp_path, capsys):
    """Worst and mean error of every layer, recomputed; the result verifies and has a card."""
    code, out, _ = run(capsys, "quantize", folder, tmp_path / "int8", "--json")
    found = json.loads(out)
    assert code == 0
    for one in found["layers"]:
        weight = some_maps().weights[one["layer"]].bfloat16()
        assert {**vars(error(weight, *quantise(weight))), "layer": one["layer"]} == one
    assert found["worst"] == max(one["worst"] for one in found["layers"])
    assert found["bytes"] < 0.6 * found["from_bytes"]
    assert run(capsys, "verify", tmp_path / "int8")[0] == 0
    assert "int8" in (tmp_path / "int8/README.md").read_text()
    assert torch.equal(load_maps(tmp_path / "int8").weights.codes[2], quantise(some_maps().weights[2].bfloat16())[0])


def test_quantize_as_a_table(folder, tmp_path, capsys):
    """A line for each layer, one for all."""
    code, out, err = run(capsys, "quantize", folder, tmp_path / "int8")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["layer", "2", "3", "all"]


@pytest.mark.parametrize("words", [["--json"], []])
def test_quantize_leaves_nothing_when_it_cannot(tmp_path, capsys, words):
    """A width that is no multiple of 128, and a target that is there already."""
    architecture = {**ARCHITECTURE, "hidden": 64}
    save_maps(tmp_path / "maps", some_maps(64), architecture=architecture, fit=FIT)
    code, out, err = run(capsys, "quantize", tmp_path / "maps", tmp_path / "int8", *words)
    assert (code, out) == (4, "")
    assert "these have 64, which is not a multiple of 128" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["maps"]
    code, _, err = run(capsys, "quantize", tmp_path / "maps", tmp_path / "maps", *words)
    assert code == 7
    assert "exists already" in err


@pytest.mark.parametrize("action", ["inspect", "verify"])
@pytest.mark.parametrize("what", ["nothing", "empty", "file"])
def test_what_is_no_folder_of_maps_is_one_sentence(tmp_path, capsys, action, what):
    """No such path, an empty folder, a file."""
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    if what == "file":
        path.write_text("x")
    code, out, err = run(capsys, action, path)
    assert (code, out) == (4, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
