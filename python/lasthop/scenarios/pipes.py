"""Inputs that can be read only once: pipes, FIFOs and what the shell passes as a descriptor.

A command reads a trace several times, also in other processes. A pipe is therefore copied once, to
a file that is removed when this process ends.
"""

from __future__ import annotations

import os
import re
import stat

from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from tempfile import TemporaryDirectory

#: Paths below which a file is a descriptor of this process, which no other process can open.
_DESCRIPTORS = ("/dev/fd/", "/proc/", "/dev/stdin")
#: Bytes of a pipe that are read; an endless one would fill the disk.
MAX_BYTES = 1 << 30
#: Size of one read, in bytes.
_PIECE = 1 << 20
#: How the name of a copy begins; a digest of its content follows.
PREFIX = "pipe-"

#: How the name of the folder of the copies begins.
FOLDER = "lasthop-pipes-"
#: The path of a copy in a filled-in scenario; the second group is its name.
_COPY = re.compile(rf'(?<=")([^"\n]*[/\\]{FOLDER}[^"/\\]+)[/\\]+({PREFIX}[0-9a-f]+)(?=")')

_folder: TemporaryDirectory[str] | None = None


def is_pipe(path: str | Path) -> bool:
    """True if a file can be read only once, or only by this process."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return True
    # A here-document may be a file that is deleted already: no other process can open it.
    named = os.path.abspath(path).startswith(_DESCRIPTORS)
    return named and stat.S_ISREG(mode) and not os.path.exists(os.path.realpath(path))


def regular(path: str) -> str:
    """The path of a regular file with the content of `path`: of a copy if it is a pipe.

    Raises `InputError` if the pipe is empty, larger than `MAX_BYTES` or not readable.
    """
    if not is_pipe(path):
        return os.path.realpath(path) if path.startswith(_DESCRIPTORS) else path
    import hashlib
    import tempfile

    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix=FOLDER)
    partial = os.path.join(_folder.name, "partial")
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb") as pipe, open(partial, "wb") as copy:
            while size <= MAX_BYTES and (piece := pipe.read(_PIECE)):
                digest.update(piece)
                copy.write(piece)
                size += len(piece)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    if not 0 < size <= MAX_BYTES:
        what = "larger than 1 GiB" if size else "empty; a pipe can be read only once"
        raise InputError(f"{path}: the pipe is {what}")
    copied = os.path.join(_folder.name, PREFIX + digest.hexdigest()[:16])
    os.replace(partial, copied)
    return copied


def without_folder(filled: str) -> str:
    """A filled-in scenario with the copies of pipes by name, which says what they contain.

    The copies may be those of another process.
    """
    return _COPY.sub(r"\2", filled) if FOLDER in filled else filled


def is_copy(path: str) -> bool:
    """True if a path is the copy of a pipe."""
    return os.path.basename(os.path.dirname(path)).startswith(FOLDER)


def keep(path: str, folder: str | Path) -> str:
    """The path under which a trace can still be read after this process: a copy is put in
    `folder`.
    """
    if not is_copy(path):
        return path
    import shutil

    kept = os.path.join(folder, os.path.basename(path))
    if not os.path.exists(kept):
        try:
            shutil.copyfile(path, f"{kept}.partial")
            os.replace(f"{kept}.partial", kept)
        except OSError as error:
            raise InputError(f"{kept}: {error.strerror or error}") from None
    return kept


def kept_text(filled: str, folder: str | Path) -> str:
    """A filled-in scenario for `scenario.toml` in `folder`, to which the copies of pipes that it
    names are written.
    """
    for found in _COPY.finditer(filled) if FOLDER in filled else ():
        keep(os.path.join(found[1], found[2]), folder)
    return without_folder(filled)


__all__ = ["PREFIX", "is_copy", "is_pipe", "keep", "kept_text", "regular", "without_folder"]
