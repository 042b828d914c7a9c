"""Where maps are: a local path, else a repository on the hub. Nothing here imports torch."""

from __future__ import annotations

import re
from pathlib import Path

from ridgefill.errors import MapError

_REPO = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def locate(path_or_repo: str | Path, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """The folder or file of maps; a path that exists is used as it is and the hub is never asked.

    A repository is fetched into the hub cache (``HF_HOME``) with ``huggingface_hub``; ``HF_HUB_OFFLINE`` or
    ``local_files_only`` keep it to what the cache holds. Files in subfolders are no maps and are not fetched.
    Raises ``MapError`` when there is nothing.
    """
    path = Path(path_or_repo).expanduser()
    if path.exists():
        return path
    name = str(path_or_repo)
    if isinstance(path_or_repo, Path) or not _REPO.fullmatch(name):
        raise MapError(f"{name} does not exist; give a folder of maps, a safetensors file of maps or a hub repository")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        found = snapshot_download(
            name,
            revision=revision,
            local_files_only=local_files_only,
            ignore_patterns=["*/*"],
            library_name="ridgefill",
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        at = f" at revision {revision}" if revision else ""
        raise MapError(
            f"{name} is no local path, and the hub repository of that name could not be had{at} ({reason}); check the "
            "name, connect to the hub once, or give a local folder"
        ) from error
    return Path(str(found))
