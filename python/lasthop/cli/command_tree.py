"""The commands, options and examples of the command line as values, read from its parser.

The completion scripts, the manual page and the reference of the docs site are made from them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option, or a positional argument."""

    #: Empty for a positional argument.
    flags: tuple[str, ...]
    #: Name of the value in help texts; empty if the option takes none.
    value: str
    help: str
    choices: tuple[str, ...] = ()
    #: True if it may be given several times, or takes several values.
    repeated: bool = False
    #: True for an option whose value may be left out, and for an argument that may be.
    optional: bool = False

    @property
    def takes_value(self) -> bool:
        """False for a switch."""
        return bool(self.value)

    @property
    def id(self) -> str:
        """The last flag without dashes, or the name of the argument."""
        return self.flags[-1].lstrip("-") if self.flags else self.value


@dataclass(frozen=True)
class Group:
    """Options under one heading."""

    title: str
    about: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Command:
    """`lasthop` without a command (name ""), or one of its commands."""

    name: str
    #: One line.
    summary: str
    about: str
    usage: str
    groups: tuple[Group, ...]
    examples: tuple[str, ...]

    def options(self) -> Iterator[Option]:
        """All options and arguments."""
        for group in self.groups:
            yield from group.options


def of(top: argparse.ArgumentParser) -> list[Command]:
    """`lasthop` without a command, then all commands in the order of `lasthop --help`."""
    found = [_command("", top.description or "", top)]
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {a.dest: a.help or "" for a in action._choices_actions}
            found += [_command(n, summaries[n], parser) for n, parser in action.choices.items()]
    return found


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> Command:
    groups = []
    for group in parser._action_groups:
        options = tuple(
            _option(parser, action)
            for action in group._group_actions
            if action.help != argparse.SUPPRESS
            and not isinstance(action, argparse._SubParsersAction)
        )
        if options:
            groups.append(Group(group.title or "", group.description or "", options))
    examples = (parser.epilog or "").replace("%%", "%").splitlines()[1:]
    about = " ".join((parser.description or "").split())
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return Command(
        name, summary, about, usage, tuple(groups), tuple(line.strip() for line in examples)
    )


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    choices = tuple(map(str, action.choices or ()))
    value = ""
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else None
        value = metavar or ("|".join(choices) if choices else action.dest.upper())
    return Option(
        tuple(action.option_strings),
        value,
        " ".join(text.split()),
        choices,
        repeated=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
        optional=action.nargs in ("?", "*"),
    )
