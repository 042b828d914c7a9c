"""One published experiment from the model again, on a ledger branch of the user's own, and compared with what is
published.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ridgefill.config import known_experiments
from ridgefill.errors import ConfigError
from workflow.compare import compare
from workflow.compare.text import comparison_text
from workflow.reproduce.evidence import PUBLISHED

SHOWN = 20


def rerun(root: Path, name: str, cores: str) -> int:
    """Run ``results/NAME`` as ``make demo`` does, then compare it with ``data/results/NAME``; returns the exit code.

    Raises ConfigError for a name that no published experiment has.
    """
    names = [known for known in known_experiments(root) if (root / PUBLISHED / known / "experiment.json").is_file()]
    if name not in names:
        raise ConfigError(
            f"found experiment {name!r}, expected one with published results that the workflow can run: "
            f"{', '.join(names) or 'there is none'}"
        )
    command = [sys.executable, "-m", "snakemake", "--cores", cores, f"results/{name}"]
    # Only the workflow knows what is missing; what is complete already is not run again.
    done = subprocess.run(command, cwd=root, check=False)
    if done.returncode:
        sys.stderr.write(f"error: the run of {name} ended with {done.returncode}; nothing was compared\n")
        return done.returncode
    folders = (root / PUBLISHED / name, root / "results" / name)
    found = compare(*(Path(os.path.relpath(folder)) for folder in folders))
    sys.stdout.write(comparison_text(found, SHOWN))
    return 1 if found.beyond else 0
