"""Messages about options that a command does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lasthop import quantities
from lasthop.cli.command_tree import Command, Option


def unknown(name: str, words: Sequence[str], commands: Sequence[Command]) -> str:
    """What is wrong with words that the command `name`, one of `commands`, does not take.

    Names the options of the command that were probably meant, and the commands that have the option
    that was given.
    """
    program = f"lasthop {name}".rstrip()
    given = next((w.partition("=")[0] for w in words if w.startswith("--")), None)
    if given is None:
        return f"unrecognized arguments: {' '.join(words)} (see {program} --help)"
    own = [c for c in commands if c.name == name]
    parts = [f"{name or 'lasthop'} has no option {given}"]
    others = [c for c in commands if c.name != name for o in c.options() if given in o.flags]
    meant = [o for c in own for o in _similar(given, c, guess=not others)]
    if meant:
        shown = ", ".join(f"{_flag(o)} {o.value}".rstrip() + f" ({_first(o)})" for o in meant)
        parts.append(f"{name or 'it'} has {shown}")
    if others:
        names = [c.name or "lasthop" for c in others]
        have = "has" if len(names) == 1 else "have"
        listed = " and ".join(x for x in (", ".join(names[:-1]), names[-1]) if x)
        example = next(o for o in others[0].options() if given in o.flags)
        parts.append(f"{listed} {have} {given} {example.value}".rstrip())
    return f"{'; '.join(parts)} (see {program} --help)"


def _similar(given: str, command: Command, *, guess: bool) -> list[Option]:
    """The options that begin with the one given, or with which it begins; else, with `guess`, the
    closest one.
    """
    options = [o for o in command.options() if o.flags]
    found = [o for o in options if _flag(o).startswith(given) or given.startswith(_flag(o))]
    if found or not guess:
        return found
    close = quantities.did_you_mean(given, [_flag(o) for o in options])
    return [o for o in options if f"`{_flag(o)}`" in close]


def _flag(option: Option) -> str:
    return option.flags[-1]


def _first(option: Option) -> str:
    """The help of an option up to its first remark."""
    return re.split(r" \(|[;:]", option.help)[0]
