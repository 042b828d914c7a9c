"""The profile for Kubernetes: a Job that the API's own types accept, and a profile that asks for what the pod has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "profiles/kubernetes"
JOB = yaml.safe_load((FOLDER / "job.yaml").read_text("utf-8"))
PROFILE = yaml.safe_load((FOLDER / "config.yaml").read_text("utf-8"))
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_nothing_but_snakemake_starts_a_job_again():
    """A second pod beside a first would find its leases taken, or worse, a volume without locks."""
    assert JOB["spec"]["backoffLimit"] == 0
    assert (JOB["spec"]["parallelism"], JOB["spec"]["completions"]) == (1, 1)
    assert POD["restartPolicy"] == "Never"
    assert PROFILE["retries"] == 1


def test_the_profile_plans_with_what_the_pod_is_given():
    limits = CONTAINER["resources"]["limits"]
    assert PROFILE["cores"] == int(limits["cpu"])
    assert PROFILE["resources"]["gpu"] == int(limits["nvidia.com/gpu"])
    assert PROFILE["resources"]["mem_mb"] == 1000 * int(limits["memory"].removesuffix("Gi"))


def test_the_checkout_is_a_volume_and_the_locks_are_the_pods_own():
    volumes = {one["name"]: one for one in POD["volumes"]}
    mounts = {one["name"]: one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert set(volumes) == set(mounts)
    assert "persistentVolumeClaim" in volumes["checkout"]
    assert CONTAINER["workingDir"] == mounts["checkout"]
    assert volumes["leases"]["emptyDir"] == {}
    assert {"name": "RIDGEFILL_DEVICE_LEASES", "value": mounts["leases"]} in CONTAINER["env"]


def test_the_command_names_a_profile_that_exists():
    words = CONTAINER["command"]
    assert (ROOT / words[words.index("--profile") + 1] / "config.yaml").is_file()


def test_the_api_types_accept_the_job():
    """Required fields included; names that the API does not have would be dropped, so both are compared."""
    client = pytest.importorskip("kubernetes.client", reason="not linted: pip install kubernetes, the API's own types")

    class Answer:
        data = json.dumps(JOB)

    api = client.ApiClient()
    read = api.deserialize(Answer, "V1Job")
    assert api.sanitize_for_serialization(read) == JOB


def test_a_dry_run_with_the_profile_plans_the_embedded_experiment():
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--profile", "profiles/kubernetes", "results/smollm2_split19"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
