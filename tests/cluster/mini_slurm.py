"""A Slurm of one machine in a scratch folder: its own key, ports, state and logs, nothing in ``/etc``, no service."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_SECONDS = 120
CPUS, GPUS, MEMORY_MB = 4, 2, 16000
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
CONFIGURATION = """\
ClusterName=mini
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
EnforcePartLimits=ALL
ReturnToService=2
MinJobAge=3600
GresTypes=gpu
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:small:{gpus}
PartitionName=cpu Nodes=ALL Default=YES
PartitionName=gpu Nodes=ALL
"""
# What a job's own steps were given, one line each; an empty last word where no GPU was.
PROLOG = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_STEP_ID ${{CUDA_VISIBLE_DEVICES:-}}" >> {folder}/devices
"""
# The plugin's inner step drops every SLURM_ variable, and with it where the configuration is.
SRUN = """\
#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {srun} "$@"
"""


class NoSlurm(Exception):
    """It could not be started; the message says which part, and the end of its log."""


@dataclass(frozen=True)
class MiniSlurm:
    """A running one: made by ``started``, ended by ``stop``."""

    folder: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead Slurm's commands to this one."""
        return {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": f"{self.folder}/bin:{PATH}"}

    def run(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        return subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=True,
            timeout=LONGEST_SECONDS,
        ).stdout  # fmt: skip

    def jobs(self) -> list[dict[str, str]]:
        """All jobs ever submitted, in order, as ``scontrol`` shows them: field by field."""
        shown = self.run("scontrol", "--oneliner", "show", "jobs").splitlines()
        found = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in shown]
        return sorted((job for job in found if "JobId" in job), key=lambda job: int(job["JobId"]))

    def active(self) -> list[dict[str, str]]:
        """Jobs that wait or run."""
        return [job for job in self.jobs() if job["JobState"] not in ENDED]

    def devices(self, job: str) -> set[str]:
        """What CUDA_VISIBLE_DEVICES said to the steps of a job; empty where it was not set."""
        lines = [line.split(" ") for line in (self.folder / "devices").read_text("utf-8").splitlines()]
        return {words[2] for words in lines if words[0] == job and words[2]}

    def start(self) -> None:
        """Start munged, slurmctld and slurmd, and wait for an idle node."""
        munge, configuration = self.folder / "munge", str(self.folder / "slurm.conf")
        self._daemon(
            "munged", "--foreground", f"--key-file={munge}/key", f"--socket={munge}/socket",
            f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed",
        )  # fmt: skip
        self._until("munged", munge / "log", (munge / "socket").exists)
        self._daemon("slurmctld", "-D", "-i", "-f", configuration)
        self._daemon("slurmd", "-D", "-f", configuration, "-N", "localhost")
        self._until("slurmd", self.folder / "slurmd.log", lambda: "idle" in self._states())

    def stop(self) -> None:
        """Cancel what is left, end the daemons in the opposite order, remove the folder."""
        try:
            if len(self.daemons) == 3 and all(daemon.poll() is None for daemon in self.daemons):
                self.run("scancel", "--full", "--quiet", "--user=root")
                end = time.monotonic() + LONGEST_SECONDS
                while self.active() and time.monotonic() < end:
                    time.sleep(0.5)
        finally:
            for daemon in reversed(self.daemons):
                daemon.terminate()
                try:
                    daemon.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _daemon(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=PATH)
        if program is None:
            raise NoSlurm(f"{name} is not installed")
        environment = {**os.environ, **self.environment}
        with (self.folder / f"{name}.out").open("wb") as out:
            self.daemons.append(
                subprocess.Popen(
                    [program, *arguments], env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )  # fmt: skip

    def _states(self) -> str:
        try:
            return self.run("sinfo", "--noheader", "-o", "%T")
        except subprocess.CalledProcessError:
            return ""

    def _until(self, name: str, log: Path, done: Callable[[], bool]) -> None:
        end = time.monotonic() + LONGEST_SECONDS
        while not done():
            stopped = [str(daemon.args) for daemon in self.daemons if daemon.poll() is not None]
            if stopped or time.monotonic() > end:
                logs = (path for path in (log, self.folder / f"{name}.out") if path.exists())
                said = "".join(path.read_text("utf-8", "replace") for path in logs)
                raise NoSlurm(f"{stopped[0] if stopped else name} did not come up: {said[-600:]}")
            time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def started() -> MiniSlurm:
    """A running Slurm in a new folder, which ``stop`` removes. Raises NoSlurm."""
    # Not below pytest's folder: munge wants every folder above its socket to be open to all.
    folder = Path(tempfile.mkdtemp(prefix="ridgefill-slurm-"))
    made = MiniSlurm(folder)
    try:
        _write(folder)
        made.start()
    except BaseException:
        made.stop()
        raise
    return made


def _write(folder: Path) -> None:
    """The configuration, the key and the devices."""
    folder.chmod(0o755)
    for name in ("munge", "state", "spool", "bin"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge/key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    values = {
        "folder": folder, "host": socket.gethostname().split(".", maxsplit=1)[0], "ports": free_ports(2),
        "cpus": CPUS, "memory": MEMORY_MB, "gpus": GPUS, "srun": shutil.which("srun", path=PATH),
    }  # fmt: skip
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**values), encoding="utf-8")
    (folder / "gres.conf").write_text(f"Name=gpu Type=small File={folder}/gpu[0-{GPUS - 1}]\n", encoding="utf-8")
    (folder / "devices").touch()
    for path, text in (("prolog", PROLOG), ("bin/srun", SRUN)):
        (folder / path).write_text(text.format(**values), encoding="utf-8")
        (folder / path).chmod(0o755)
    for number in range(GPUS):
        try:
            # Slurm names a device only where it is a character device: this one is /dev/null's.
            os.mknod(folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except OSError as failure:
            raise NoSlurm(f"device files cannot be made here ({failure.strerror})") from None
