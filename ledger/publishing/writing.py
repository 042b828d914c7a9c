"""Writing a file for others where none was."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ledger.errors import UsageError, WriteFailed
from ledger.files import sync_folder, write_new


def write_once(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, whole or not at all; a file with the same bytes may be there already.

    UsageError when other bytes are there, WriteFailed when the system refuses.
    """
    temporary = path.parent / f".{secrets.token_hex(16)}.tmp"
    try:
        write_new(temporary, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            if not path.is_file() or path.read_bytes() != data:
                raise UsageError(f"{path} is there already with other bytes; remove it or name another file") from None
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as failure:
        raise WriteFailed(
            f"cannot write {path} ({failure.strerror}); name a file in a folder you may write to"
        ) from None
