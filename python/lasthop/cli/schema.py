"""The command `lasthop schema`."""

from __future__ import annotations

from typing import Any

from lasthop.cli import options as common
from lasthop.cli.options import Options

# As `lasthop.analysis.schemas.NAMES`, which imports numpy.
NAMES = (
    *("run", "compare", "sweep", "check", "baseline", "reproduce", "inspect", "replay", "link"),
    *("gateway", "validate", "validate-all", "evaluate", "schemes", "doctor", "new", "trace"),
    *("fit", "advise"),
    "scenario",
)


def add_parser(commands: Any) -> None:
    """Add `schema` to the command line."""
    schema = commands.add_parser(
        "schema",
        help="print the JSON Schema of an output or of scenario files",
        description=(
            "Print the JSON Schema (2020-12) of what a command prints with --json, or of scenario"
            " files."
        ),
        **common.examples("lasthop schema compare", "lasthop schema scenario"),
    )
    schema.add_argument(
        "document",
        choices=NAMES,
        help="a command, fit (trace fit), baseline (the file of `lasthop check`), or scenario",
    )


def schema(options: Options, _: list[str]) -> int:
    """`lasthop schema`."""
    from lasthop.analysis import schemas

    common.print_json(schemas.schema(options.document))
    return 0
