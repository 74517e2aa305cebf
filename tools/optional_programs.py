"""Programs that only some tests need, and their Debian packages.

Usage:
    optional_programs.py packages     prints the packages of those that are missing
    optional_programs.py all-packages prints the packages of all
    optional_programs.py hide FOLDER  fills FOLDER with links to every program of PATH except these,
                                      so that PATH=FOLDER is a machine without them

Imports the standard library only, so that it runs before `.venv` exists.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

#: Program -> its Debian package, and the names that the program has, the first found counts.
PROGRAMS = {
    "chromium": ("chromium", ("chromium", "chromium-browser", "google-chrome")),
    "curl": ("curl", ("curl",)),
    "fish": ("fish", ("fish",)),
    "groff": ("groff-base", ("groff",)),
    "ip": ("iproute2", ("ip",)),
    "iperf3": ("iperf3", ("iperf3",)),
    "nft": ("nftables", ("nft",)),
    "ping": ("iputils-ping", ("ping",)),
    "tcpdump": ("tcpdump", ("tcpdump",)),
    "tshark": ("tshark", ("tshark",)),
    "zsh": ("zsh", ("zsh",)),
}


def path_of(program: str) -> str | None:
    """The path of a program of `PROGRAMS`; `None` if it is missing."""
    _, names = PROGRAMS[program]
    return next(filter(None, map(shutil.which, names)), None)


def packages(programs: list[str]) -> list[str]:
    """The Debian packages of these programs, sorted."""
    return sorted(PROGRAMS[program][0] for program in programs)


def hide(folder: Path) -> None:
    """Link every program of PATH into a folder, except those of `PROGRAMS`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Tests run commands as other users, who find programs by this PATH too.
    folder.chmod(0o755)
    hidden = {name for _, names in PROGRAMS.values() for name in names}
    for source in filter(os.path.isdir, os.environ["PATH"].split(os.pathsep)):
        for program in Path(source).resolve().iterdir():
            link = folder / program.name
            if program.name not in hidden and not link.is_symlink() and os.access(program, os.X_OK):
                link.symlink_to(program)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["packages"]:
            print(*packages([program for program in PROGRAMS if path_of(program) is None]))
        case ["all-packages"]:
            print(*packages(list(PROGRAMS)))
        case ["hide", folder]:
            hide(Path(folder))
        case _:
            sys.exit(__doc__)
