"""A hash of the code that a job really runs, so that editing a report does not run a capture again."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("ridgefill", "workflow")
DATA = (".sql", ".j2", ".css", ".js")


def source_hash(module: str, root: Path) -> str:
    """SHA-256 over the syntax of ``module`` and every project module it imports, comments and docstrings left out.

    Queries, templates and style sheets beside a module count when the module names them.
    """
    seen: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name, root)
        if name in seen or path is None:
            continue
        module = _read(path)
        seen[name] = module.digest
        for used in _data_files(path, module.words):
            seen[used.relative_to(root).as_posix()] = hashlib.sha256(used.read_bytes()).hexdigest()
        waiting.extend(module.imports)
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(seen.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


class _Module(NamedTuple):
    """One file: the hash of its bare syntax, what it imports, and the strings in it."""

    digest: str
    imports: tuple[str, ...]
    words: frozenset[str]


@cache
def _read(path: Path) -> _Module:
    """Read once however many jobs run it: walking the syntax is most of what planning costs."""
    tree = _bare(ast.parse(path.read_text("utf-8")))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return _Module(digest, tuple(_imports(tree)), frozenset(words))


def _file(name: str, root: Path) -> Path | None:
    if name.split(".", maxsplit=1)[0] not in PACKAGES:
        return None
    base = root.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _data_files(path: Path, words: frozenset[str]) -> Iterator[Path]:
    """Files beside a module whose name, with or without the ending, is a string in it."""
    for beside in sorted(path.parent.iterdir()):
        if beside.suffix in DATA and not words.isdisjoint({beside.name, beside.stem}):
            yield beside


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # ``from package import module`` names a module too.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
