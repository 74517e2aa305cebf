"""What code a result comes from: the build of lasthop, and the source of a window rule of one's own."""

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
    """Digest of the code that makes the numbers of a run: the simulator, and the metrics taken from its answer."""
    from lasthop import _native, metrics

    return _digest(*(Path(str(m.__file__)).read_bytes() for m in (_native, metrics)))


def source_id(module: str) -> str:
    """Digest of the source of a loaded module and of every module that it imports, those of Python and of
    site-packages excepted. Code that is in no file, as in a notebook, cannot be compared: each call gives another answer.
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
    # The first one's name is where it lies, which is of no consequence.
    first = seen.pop(module)
    return _digest(first, *(part for name in sorted(seen) for part in (name.encode(), seen[name])))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()


def _own_source(name: str) -> Path | None:
    """The source file of a module, unless it is Python's, lasthop's or installed."""
    file = getattr(sys.modules[name], "__file__", None) if name in sys.modules else _unloaded(name)
    path = Path(file).resolve() if file is not None else None
    if path is None or path.suffix != ".py" or not path.is_file():
        return None
    return None if any(folder in path.parents for folder in _installed()) else path


def _unloaded(name: str) -> str | None:
    """The file of a module that is only imported when a rule runs."""
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
    """Folders of Python's own modules, of installed ones, and of lasthop."""
    found = [sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parent)]
    return tuple(Path(folder).resolve() for folder in found)


def _imported(source: bytes, name: str) -> Iterator[str]:
    """Names of modules that the code of the module `name` may import, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = getattr(sys.modules.get(name), "__package__", None) or name.rpartition(".")[0]
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
