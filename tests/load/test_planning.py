"""Ten thousand samples in two thousand jobs are planned while one waits; only a bound far above that is asserted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "smollm2_split19"
MOST_SECONDS = 600
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout whose experiment asks for 10,000 samples, registered on a branch of its own."""
    root = tmp_path_factory.mktemp("load")
    for name in ("Snakefile", "ridgefill", "ledger", "workflow", "profiles", "data/texts", "data/ledger/main"):
        source = ROOT / name
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copyfile(source, root / name)
        else:
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = root / f"workflow/config/experiments/{NAME}.yaml"
    text = path.read_text()
    assert text.count("    samples: 10\n") == 1
    path.write_text(text.replace("    samples: 10\n", "    samples: 2500\n"))
    done = run(root, "-m", "ledger", "register", f"workflow/claims/{NAME}.yaml")
    assert done.returncode == 0, done.stderr
    return root


def run(root, *words):
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def test_two_thousand_jobs_are_planned(project):
    done = run(
        project, "-m", "snakemake", "-n", "--quiet", "rules", "--cores", "2", f"results/{NAME}", "--config",
        "shards=1000",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    shards = [line.split() for line in done.stdout.splitlines() if line.startswith("shard ")]
    assert shards[0][1] == "2000"


def test_the_samples_are_ten_thousand(project):
    code = (
        "import json; from ridgefill.config import load_experiment\n"
        "r = load_experiment('smollm2_split19').suites.ruler\n"
        "print(json.dumps(r.samples * len(r.tasks) * len(r.lengths)))"
    )
    assert json.loads(run(project, "-c", code).stdout) == 10_000
