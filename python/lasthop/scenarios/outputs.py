"""Refuses outputs that would replace an input or another output.

Called before the first output is opened. Two paths are the same file if they resolve to it, also by
a symbolic or a hard link.
"""

from __future__ import annotations

import os
import stat

from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lasthop.scenarios.scenario import Scenario
    from lasthop.scenarios.scenario_source import Source

    # An option, or the name of an argument in Python, and a file that it writes.
    Output = tuple[str, str | Path]


def inputs_of(source: Source, *scenarios: Scenario) -> list[str]:
    """The files that the scenarios were read from: scenario file, traces, sizes and schemes."""
    from lasthop import own_schemes

    files = [] if source.origin is None else [source.origin]
    for scenario in scenarios:
        files += scenario.inputs
        files += [f for f in map(own_schemes.file_of, scenario.classes) if f is not None]
    return list(dict.fromkeys(files))


def check(outputs: Iterable[Output | None], inputs: Iterable[str | Path]) -> None:
    """Raise `InputError` if an output is one of the inputs, the file on stdin, or another output.

    Devices and pipes are no regular files, and may be given several times.
    """
    read = {identity: str(file) for file in inputs if (identity := _identity(file)) is not None}
    stdin = _identity("/dev/stdin")
    if isinstance(stdin, tuple):
        read.setdefault(stdin, "stdin")
    written: dict[object, Output] = {}
    for output in outputs:
        identity = None if output is None else _identity(output[1])
        if output is None or identity is None:
            continue
        option, file = output
        if identity in read:
            where = "" if str(file) == read[identity] else f", which is {read[identity]}"
            raise InputError(
                f"{option} would overwrite {file}{where}: this command reads that file; write to"
                " another one"
            )
        other = written.setdefault(identity, output)
        if other is not output:
            raise InputError(
                f"{option} {file} and {other[0]} {other[1]} are the same file; write to two files"
            )


def in_folder(option: str, folder: str | Path, patterns: Sequence[str]) -> list[Output]:
    """The files that an option writes to a folder: names, or patterns such as "*.pcapng".

    A pattern stands for the files that exist already.
    """
    from fnmatch import fnmatch

    try:
        present = os.listdir(folder)
    except OSError:
        present = []
    names = {p for p in patterns if "*" not in p}
    names |= {name for name in present if any(fnmatch(name, p) for p in patterns)}
    return [(option, os.path.join(folder, name)) for name in sorted(names)]


def _identity(path: str | Path) -> object:
    """What two paths of the same file have in common; `None` if it is no regular file."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


__all__ = ["check", "in_folder", "inputs_of"]
