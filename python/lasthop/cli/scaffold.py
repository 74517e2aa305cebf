"""Files to begin with: a window rule, an agent or a figure, each with its tests."""

from __future__ import annotations

import keyword
import re
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lasthop.errors import InputError

#: Kind -> suffix of its file.
KINDS: Final = {"window": ".py", "agent": ".py", "figure": ".toml"}
_TEMPLATES = Path(__file__).parents[1] / "data" / "new"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def check_name(name: str) -> None:
    """Raise `InputError` if `name` is not a name for a file and a class."""
    if not _NAME.fullmatch(name) or "__" in name or name.endswith("_"):
        raise InputError(
            "NAME must be lower-case letters, digits and single underscores, beginning with a"
            f" letter, such as my_rule; found {name!r}"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InputError(f"NAME {name!r} is a word of Python; choose another one")
    if name in sys.stdlib_module_names or name == "lasthop" or _is_installed(name):
        raise InputError(f"NAME {name!r} is an installed module; choose another one")
    if name.startswith("test_") or name == "conftest":
        raise InputError(f"NAME {name!r} would be taken for tests; choose another one")


def _is_installed(name: str) -> bool:
    """True if an installed package has the name, which the new file would hide."""
    found = find_spec(name)
    folders = {Path(sysconfig.get_path(k)) for k in ("purelib", "platlib")}
    return found is not None and not folders.isdisjoint(Path(found.origin or "").parents)


def class_name(name: str) -> str:
    """The name of the class: "my_rule" is MyRule."""
    return "".join(part.capitalize() for part in name.split("_"))


def write(kind: str, name: str, folder: str | Path = ".") -> list[Path]:
    """Write a file and its tests to `folder`, which is created; returns both.

    `kind` is window, agent or figure. No file is overwritten. Raises `InputError` for a wrong kind
    or name, or if a file exists.
    """
    if kind not in KINDS:
        raise InputError(f"the kind must be one of {', '.join(KINDS)}, found {kind!r}")
    check_name(name)
    where = Path(folder)
    files = [where / f"{name}{KINDS[kind]}", where / f"test_{name}.py"]
    for file in files:
        if file.exists() or file.is_symlink():
            raise InputError(f"{file} exists; nothing is written")
    written: list[Path] = []
    try:
        where.mkdir(parents=True, exist_ok=True)
        for file, template in zip(files, (f"{kind}{KINDS[kind]}", f"test_{kind}.py"), strict=True):
            text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
            text = text.replace("@CLASS@", class_name(name)).replace("@NAME@", name)
            with file.open("x", encoding="utf-8") as out:
                written.append(file)
                out.write(text)
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        raise InputError(f"{error.filename}: {error.strerror}") from None
    return files


__all__ = ["KINDS", "check_name", "class_name", "write"]
