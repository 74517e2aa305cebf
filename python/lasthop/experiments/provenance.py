"""Identifies the code behind a result: the build of lasthop and the source of a Python rule."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import secrets
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def build_id() -> str:
    """Digest of the code that determines the numbers of a run: the simulator, which also computes
    the metrics.
    """
    from lasthop import _native

    return _digest(Path(str(_native.__file__)).read_bytes())


def source_id(module: str) -> str:
    """Digest of the source of a loaded module and of all modules that it imports.

    Modules of Python and of site-packages are left out. Code that is not in a file, as in a
    notebook, cannot be compared: each call returns another value.
    """
    pending, seen = [module], dict[str, bytes]()
    while pending:
        name = pending.pop()
        path = _own_source(name)
        if path is None and name == module:
            return secrets.token_hex(16)
        if path is not None and name not in seen:
            seen[name] = path.read_bytes()
            pending += _imported(seen[name], name)
    # The name of the first module depends only on the location of its file.
    first = seen.pop(module)
    return _digest(first, *(part for name in sorted(seen) for part in (name.encode(), seen[name])))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()


def _own_source(name: str) -> Path | None:
    """The source file of a module; `None` if it belongs to Python, lasthop or an installed
    package.
    """
    file = getattr(sys.modules[name], "__file__", None) if name in sys.modules else _unloaded(name)
    path = Path(file).resolve() if file is not None else None
    if path is None or path.suffix != ".py" or not path.is_file():
        return None
    return None if any(folder in path.parents for folder in _installed()) else path


def _unloaded(name: str) -> str | None:
    """The file of a module that a rule imports at run time."""
    parent = name.rpartition(".")[0]
    if parent and _own_source(parent) is None:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


@cache
def _installed() -> tuple[Path, ...]:
    """Folders of the standard library, of installed packages and of lasthop."""
    found = [sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    return tuple(Path(folder).resolve() for folder in found)


def _imported(source: bytes, name: str) -> Iterator[str]:
    """Names of modules in all import statements of the module `name`, at any level of its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = (
                    getattr(sys.modules.get(name), "__package__", None) or name.rpartition(".")[0]
                )
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
