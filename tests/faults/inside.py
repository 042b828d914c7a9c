"""``inside OPTIONS MODULE ARGUMENTS``: ``python -m MODULE`` on a full disk, read-only, offline, or as another user.

    --disk FOLDER FREE     a disk of its own at FOLDER, holding what is there and FREE bytes more
    --read-only FOLDER     FOLDER cannot be written, not even by root
    --offline              no network but this process's own
    --user NUMBER          as another user, of no group

All of it is seen by this process alone and ends with it. What is on a disk of its own in the end is copied to ``left``.
Exit code 77: this system does not allow it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

MOUNTS, USER, NETWORK = 0x00020000, 0x10000000, 0x40000000
KEEP_CAPABILITIES, CAPABILITIES_3, READ_EVERYTHING = 8, 0x20080522, 1 << 2
NOT_ALLOWED = 77
LEFT = Path("left")


def main(words: list[str]) -> int:
    """Prepare, run the module, say what is left."""
    disks = []
    try:
        _unshare(MOUNTS | (NETWORK if "--offline" in words else 0))
        while words[0].startswith("--"):
            option = words.pop(0)
            if option == "--disk":
                disks.append(Path(words.pop(0)))
                _small(disks[-1], int(words.pop(0)))
            elif option == "--read-only":
                folder = words.pop(0)
                _mount("--bind", folder, folder)
                _mount("-o", "remount,bind,ro", folder)
            elif option == "--user":
                _become(int(words.pop(0)))
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.stderr.write(f"not allowed here: {failure}\n")
        return NOT_ALLOWED
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        for folder in disks:
            shutil.copytree(folder, LEFT / folder, symlinks=True)
    return 0


def _unshare(flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    ids = os.geteuid(), os.getegid()
    if library.unshare(flags) != 0:
        if library.unshare(flags | USER) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {ids[0]} 1"), ("gid_map", f"0 {ids[1]} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    _mount("--make-rprivate", "/")


def _become(user: int) -> None:
    """Be another user, who may still read everything: where Python itself lies may be open to root alone."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    version = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
    # Effective, permitted and inheritable, the lower halves before the upper ones.
    sets = (ctypes.c_uint32 * 6)(READ_EVERYTHING, READ_EVERYTHING, 0, 0, 0, 0)
    if library.capset(version, sets) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def _small(folder: Path, free: int) -> None:
    """A disk at ``folder`` with the files that are there and room for ``free`` bytes, in whole blocks."""
    kept = folder.with_name(f"{folder.name}.kept")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, kept)
    _mount("-t", "tmpfs", "-o", "size=64m", "full", str(folder))
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    shutil.rmtree(kept)
    at = os.statvfs(folder)
    size = (at.f_blocks - at.f_bfree) * at.f_frsize + free
    _mount("-o", f"remount,size={size}", str(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
