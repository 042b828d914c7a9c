"""What a published folder says about itself: ``index.json`` for programs, ``INDEX.md`` for people.

Both are derived from the folder alone, so a receiver can derive them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger.artifacts import results_folder, standing_outputs
from ledger.branches import branch_names, branch_path
from ledger.chain import read_chain
from ledger.checkpoint import checkpoint_of
from ledger.checkpoints import stored_sizes
from ledger.files import hash_file
from ledger.findings import refuse_errors
from ledger.openness import Open, registrations, starts
from ledger.publishing.marker import INDEX_TYPE
from ledger.publishing.redaction import pinned_files
from ledger.views import printable, summary
from ledger.world import World

INDEX_PAGE = "INDEX.md"


def describe(folder: Path, results: bool) -> dict[str, Any]:
    """The index of a published folder as JSON-ready values; BrokenLedger when a branch does not verify."""
    world = World({name: read_chain(branch_path(folder, name)) for name in branch_names(folder)})
    for name, chain in world.chains.items():
        refuse_errors(name, chain.findings)
    return {
        "type": INDEX_TYPE,
        "results": results,
        "branches": [_branch(world, name) for name in world.chains],
        "files": list(_files(folder, world)),
    }


def json_bytes(index: Mapping[str, Any]) -> bytes:
    """The bytes of ``index.json``."""
    return (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def without_words(index: Any) -> Any:
    """An index without the sentences about entries, which later versions may word otherwise."""
    if isinstance(index, Mapping):
        return {key: without_words(value) for key, value in index.items() if key != "what"}
    return [without_words(value) for value in index] if isinstance(index, list) else index


def _branch(world: World, name: str) -> dict[str, Any]:
    chain = world.chains[name]
    return {
        "name": name,
        "origin": chain.origin,
        "size": len(chain.leaves),
        "root": checkpoint_of(chain.origin, chain.leaves).root.hex(),
        "checkpoints": list(stored_sizes(chain.path)),
        "entries": [
            {
                "seq": entry.seq,
                "time": entry.time,
                "kind": entry.kind,
                "grade": entry.header["grade"],
                "leaf": entry.leaf,
                "withheld": entry.body is None,
                "what": summary(entry),
            }
            for entry in chain.entries
        ],
        "registrations": [_open_json(item) for item in registrations(world, name)],
        "starts": [_open_json(item) for item in starts(world, name)],
    }


def _open_json(item: Open) -> dict[str, Any]:
    closed = [{"branch": branch, "seq": seq} for branch, seq in item.closed_by]
    value: dict[str, Any] = {"seq": item.seq, "state": item.state, "closed_by": closed, "maybe": item.maybe}
    if item.kind != "start":
        value |= {"voided_by": item.voided_by, "amended_by": list(item.amended_by)}
    return value


def _files(folder: Path, world: World) -> Iterator[dict[str, Any]]:
    for branch, chain in world.chains.items():
        for (path, sha256), numbers in pinned_files(chain.entries).items():
            yield _file(folder, path, sha256, branch, "pinned", numbers)
        for (experiment, name), output in standing_outputs(world, branch).items():
            if output.published:
                path = f"{results_folder(Path(), branch, experiment).as_posix()}/{name}"
                yield _file(folder, path, output.sha256, branch, "output", [output.result])


def _file(folder: Path, path: str, sha256: str, branch: str, kind: str, numbers: Sequence[int]) -> dict[str, Any]:
    here = (folder / path).is_file() and hash_file(folder / path)[0] == sha256
    return {"path": path, "sha256": sha256, "kind": kind, "branch": branch, "named_by": list(numbers), "here": here}


def page(index: Mapping[str, Any]) -> str:
    """The text of ``INDEX.md``."""
    lines = [
        "# Published ledger",
        "",
        "No entry before the last can be missing or changed: each header names the hash of the one before. That",
        "the end was not cut off only a signed checkpoint shows. A withheld body stays bound by its header and can",
        "be revealed later. `ledger import-check .` checks this folder offline, `sha256sum -c SHA256SUMS` its files.",
    ]
    for branch in index["branches"]:
        lines += ["", *_branch_lines(branch)]
    files = index["files"]
    if files:
        lines += ["", "## Files that entries name", "", "| file | SHA-256 | named by | here |", "|---|---|---|---|"]
    for item in files:
        named = ", ".join(f"{item['branch']} #{seq}" for seq in item["named_by"])
        lines.append(f"| {_cell(item['path'])} | `{item['sha256']}` | {named} | {'yes' if item['here'] else 'no'} |")
    return "\n".join(lines) + "\n"


def _branch_lines(branch: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {branch['name']}"
    yield ""
    sizes = ", ".join(map(str, branch["checkpoints"])) or "none"
    yield f"Origin `{branch['origin']}`, {branch['size']} entries, root `{branch['root']}`; checkpoints: {sizes}."
    yield ""
    yield "| # | time (UTC) | kind | grade | leaf | what |"
    yield "|---|---|---|---|---|---|"
    for entry in branch["entries"]:
        cells = (entry["seq"], entry["time"], entry["kind"], entry["grade"] or "", f"`{entry['leaf']}`", entry["what"])
        yield "| " + " | ".join(_cell(str(cell)) for cell in cells) + " |"
    yield ""
    yield "Registrations, by the starts in the branches published here:"
    yield ""
    yield from [_registration_line(item) for item in branch["registrations"]] or ["* none"]
    yield ""
    yield "Starts, by their results:"
    yield ""
    yield from [_state_line(item, "result", "without a result") for item in branch["starts"]] or ["* none"]


def _registration_line(item: Mapping[str, Any]) -> str:
    line = _state_line(item, "start", "open: never started")
    if item["amended_by"]:
        line += "; amended by " + ", ".join(f"#{seq}" for seq in item["amended_by"])
    return line + (f"; voided by #{item['voided_by']}" if item["voided_by"] is not None else "")


def _state_line(item: Mapping[str, Any], closer: str, opened: str) -> str:
    if item["state"] == "closed":
        says = f"{closer} " + ", ".join(f"{one['branch']} #{one['seq']}" for one in item["closed_by"])
    elif item["state"] == "open":
        says = f"{opened} (certain)"
    else:
        says = f"no {closer} seen; {item['maybe']} withheld {closer}{'s'[: item['maybe'] != 1]} could be its own"
    return f"* #{item['seq']}: {says}"


def _cell(text: str) -> str:
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return plain.replace("|", "\\|")
