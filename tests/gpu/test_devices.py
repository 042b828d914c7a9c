"""A GPU of a node is one job's at a time, is free again when its process ends, and is asked for in one sentence."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from ridgefill import devices
from ridgefill.devices import LEASES, leases_folder, take_devices
from ridgefill.errors import ConfigError

TWO = ["GPU-aaaa", "GPU-bbbb"]
CHILD = """
import sys, time
from ridgefill.devices import take_devices
(taken,) = take_devices("cuda", gpus=lambda: ["GPU-aaaa", "GPU-bbbb"], patience=0.0)
print(taken.name, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(LEASES, str(tmp_path / "leases"))
    monkeypatch.setattr(devices, "_PAUSE", 0.01)
    return tmp_path / "leases"


def take(wanted="cuda", names=TWO, patience=0.0):
    (one,) = take_devices(wanted, gpus=lambda: names, patience=patience, say=lambda text: None)
    return one


def take_two(names, patience=0.0):
    return take_devices("cuda", 2, gpus=lambda: names, patience=patience, say=lambda text: None)


@pytest.mark.parametrize("wanted", [None, "cpu"])
def test_the_processor_is_nobodys(wanted, folder):
    assert [take(wanted).name for _ in range(3)] == ["cpu"] * 3
    assert not folder.exists()


def test_two_jobs_take_two_gpus_and_a_third_is_refused_in_one_sentence():
    held = [take(), take()]
    assert [one.name for one in held] == ["cuda:0", "cuda:1"]
    with pytest.raises(ConfigError, match="in use by another job") as refusal:
        take()
    assert "\n" not in str(refusal.value)
    held[0].free()
    assert take().name == "cuda:0"


def test_a_numbered_gpu_is_that_one_or_none():
    held = take("cuda:1")
    assert held.name == "cuda:1"
    with pytest.raises(ConfigError, match="GPU-bbbb"):
        take("cuda:1")
    assert take("cuda:0").name == "cuda:0"
    with pytest.raises(ConfigError, match="sees 2 GPUs"):
        take("cuda:2")


def test_several_gpus_are_taken_together_or_not_at_all():
    """A job that held one while it waited for another could wait for one that waits for it."""
    three = [*TWO, "GPU-cccc"]
    first = take(names=three)
    assert [one.name for one in take_two(three)] == ["cuda:1", "cuda:2"]
    with pytest.raises(ConfigError, match="in use by another job"):
        take_two(three)
    first.free()
    with pytest.raises(ConfigError, match="2 did not become free") as refusal:
        take_two(three)
    assert "\n" not in str(refusal.value)
    assert take(names=three).name == "cuda:0"


def test_more_gpus_than_there_are_is_refused_at_once():
    with pytest.raises(ConfigError, match="cuda 2 times, and this process sees 1 GPUs"):
        take_two(["GPU-aaaa"], patience=60.0)


def test_auto_is_a_gpu_where_there_is_one():
    assert take("auto", []).name == "cpu"
    assert take("auto").name == "cuda:0"


def test_without_a_gpu_the_sentence_says_what_limits_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="CUDA_VISIBLE_DEVICES is ''"):
        take("cuda", [])


def test_one_gpu_under_two_numbers_is_still_one():
    """A scheduler numbers each job's GPUs from 0; their names are the node's."""
    assert take("cuda", ["GPU-bbbb"]).name == "cuda:0"
    assert take("cuda", TWO).name == "cuda:0"
    with pytest.raises(ConfigError):
        take("cuda", ["GPU-bbbb"])


def test_a_waiting_job_gets_the_gpu_that_becomes_free():
    held, said, got = take(names=["GPU-aaaa"]), [], []
    waiting = threading.Thread(
        target=lambda: got.extend(take_devices("cuda", gpus=lambda: ["GPU-aaaa"], patience=60.0, say=said.append))
    )
    waiting.start()
    while not said:
        pass
    held.free()
    waiting.join(60)
    assert [one.name for one in got] == ["cuda:0"]
    assert len(said) == 1


def test_a_killed_process_holds_nothing():
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "cuda:0\n"
        assert take().name == "cuda:1"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert take().name == "cuda:0"


def test_the_locks_are_on_the_node_and_not_in_the_checkout(monkeypatch):
    monkeypatch.delenv(LEASES)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/no/such/folder")
    assert not leases_folder().is_relative_to(os.getcwd())
    assert leases_folder().name.endswith(str(os.getuid()))


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(LEASES, str(tmp_path / "file" / "leases"))
    with pytest.raises(ConfigError, match=LEASES):
        take()


def test_a_link_in_place_of_a_lock_is_refused(folder, tmp_path):
    folder.mkdir()
    (folder / "GPU-aaaa.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError):
        take()
    assert not (tmp_path / "victim").exists()


def test_visible_devices_name_gpus_where_a_driver_tells_no_uuid(monkeypatch):
    import torch

    class Properties:
        uuid = None

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: Properties)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert devices.gpu_names() == ["3", "1"]
    monkeypatch.setattr(Properties, "uuid", "e1")
    assert devices.gpu_names() == ["e1", "e1"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert devices.gpu_names() == []
