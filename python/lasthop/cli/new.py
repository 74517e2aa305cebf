"""The command `lasthop new`."""

from __future__ import annotations

from typing import Any

from lasthop.cli import options as common
from lasthop.cli import scaffold
from lasthop.cli.options import Options

_COMPARE = "lasthop compare --rate 2Mbps --rtt 100ms --loss 1% --schemes"
#: Kind -> the command to try next.
_NEXT = {
    "window": f"{_COMPARE} newreno,{{file}}:{{scheme}}",
    "agent": f"{_COMPARE} cubic,{{file}}:{{scheme}}",
    "figure": "lasthop reproduce {file} --out {name}",
}


def add_parser(commands: Any) -> None:
    """Add `new` to the command line."""
    new = commands.add_parser(
        "new",
        help="write a window rule, an agent or a figure to begin with, and its tests",
        description=(
            "Write a file that runs, and its tests: a window rule or an agent in Python (NAME.py),"
            " or a scenario with a\nfigure and a claim (NAME.toml). No file is overwritten. See"
            " docs/own-schemes.md and docs/figures.md."
        ),
        **common.examples(
            "lasthop new window my_rule",
            "lasthop new agent my_agent --out schemes",
            "lasthop new figure my_figure",
        ),
    )
    new.add_argument("kind", choices=tuple(scaffold.KINDS), help="what to write")
    new.add_argument(
        "name", metavar="NAME", help="name of the file; the class is named after it (MyRule)"
    )
    new.add_argument(
        "--out", metavar="DIR", default=".", help="folder of the files (default: this one)"
    )
    common.add_json(new)


def new(options: Options, command: list[str]) -> int:
    """`lasthop new`."""
    files = scaffold.write(options.kind, options.name, options.out)
    words = _NEXT[options.kind].format(
        file=files[0], scheme=scaffold.class_name(options.name), name=options.name
    )
    if options.json:
        written = [str(f) for f in files]
        document = {"schema_version": 1, "written": written, "next": words}
        common.print_document(document, options, command)
    else:
        print(f"written: {', '.join(map(str, files))}\n")
        print(f"run it:   {words}\ntest it:  pytest {files[1]}")
    return 0
