"""The commands. Each is a module of this package with `add_parser` and a function of its name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options

#: In the order of `lasthop --help`.
NAMES = (
    *("schemes", "run", "inspect", "compare", "reproduce", "replay", "link", "gateway"),
    *("validate", "sweep", "evaluate", "merge", "report", "check", "trace", "advise", "new"),
    *("schema", "doctor"),
)


def add_parser(name: str, commands: Any) -> None:
    """Add a command with its options to `commands`, the subparsers of a parser."""
    _module(name).add_parser(commands)


def call(options: Options, words: list[str]) -> int:
    """Carry out the command of these options; `words` is the command line."""
    status: int = getattr(_module(options.command), options.command)(options, words)
    return status


def _module(name: str) -> Any:
    # Without importlib, which imports more than a short command needs.
    return getattr(__import__("lasthop.cli", fromlist=(name,)), name)
