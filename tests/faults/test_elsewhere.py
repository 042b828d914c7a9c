"""A whole run where nothing is usual: a folder with spaces and Unicode, reached through a link, with no network."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from faults_book import verified
from faults_compared import digests

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]
NAME = "Übung 1 – данные & 実験 'it$elf"
NOTHING_THERE = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"


@pytest.fixture(scope="module")
def elsewhere(fresh, tmp_path_factory):
    """The checkout in a folder of that name, its model too, after a complete run through a link to it."""
    base = tmp_path_factory.mktemp("elsewhere")
    real = fresh.copy(base / NAME)
    (real.root / "model").rename(real.root / "mein Modell")
    (base / "link").symlink_to(real.root, target_is_directory=True)
    linked = dataclasses.replace(real, root=base / "link")
    lone = ["unshare", "--net", *([] if allowed("--net") else ["--map-root-user"])]
    if not allowed(*lone[1:]):
        pytest.skip("no test without a network: this system does not allow a network namespace of one's own")
    words = [*lone, sys.executable, *linked.command("results/tiny", model="mein Modell", cores=2)]
    return real, linked, linked.python("-c", f"import os; os.execvp('unshare', {words!r})")


def allowed(*options):
    """Whether this system lets a process leave the network."""
    return subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0


def test_a_run_in_a_path_with_spaces_and_unicode_ends_with_the_same_bytes(elsewhere, finished, tidy):
    """Checkout and model lie in folders that every shell command has to quote."""
    real, _, done = elsewhere
    assert done.returncode == 0, done.stdout + done.stderr
    assert digests(real.results) == digests(finished.results)
    assert json.loads((real.results / "verification.json").read_text("utf-8"))["passed"]
    tidy(real.results)


def test_a_checkout_reached_through_a_link_is_the_same_checkout(elsewhere):
    """Run through the link, the ledger verifies from both ends, inputs are recorded below the root, nothing is new."""
    real, linked, done = elsewhere
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 ok" in verified(real)
    assert "4 ok" in verified(linked)
    (start,) = [
        body
        for path in (real.root / "data/ledger/local/bodies").glob("*.json")
        if (body := json.loads(path.read_text("utf-8"))).get("run") == "capture"
    ]
    assert {one["path"] for one in start["inputs"]} >= {"mein Modell/model.safetensors", "mein Modell/config.json"}
    again = real.snakemake("results/tiny", model="mein Modell")
    assert "Nothing to be done" in again.stdout + again.stderr, again.stdout + again.stderr


def test_a_run_needs_no_network_once_the_wheels_are_there(elsewhere):
    """Not even that of this machine: texts come from wheels on the disk, the model from its folder."""
    real, _, done = elsewhere
    assert done.returncode == 0, done.stdout + done.stderr
    words = [
        "unshare",
        "--net",
        *([] if allowed("--net") else ["--map-root-user"]),
        sys.executable,
        "-c",
        NOTHING_THERE,
    ]
    alone = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Network is unreachable" in alone.stderr
    assert (real.root / "texts/tinyprose.fetched").is_file()
