"""Reads usual command lines from the declarations of the options, without argparse.

argparse, with the modules that it imports, would take a third of the time of a short run.
"""

from __future__ import annotations

from lasthop.cli import commands
from lasthop.cli.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Declarations:
    """The options of one command; has those methods of argparse that declare them."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}
        self.arguments: list[dict[str, Any]] = []
        self.defaults: dict[str, Any] = {}

    def add_parser(self, name: str, **_: Any) -> Declarations:
        """Begin the command."""
        return self

    def add_argument_group(self, *_: str) -> Declarations:
        """Begin a group, which only help texts show."""
        return self

    def add_argument(self, *flags: str, **declared: Any) -> None:
        """Declare an option or a positional argument."""
        is_option = flags[0].startswith("-")
        name = flags[-1].lstrip("-").replace("-", "_") if is_option else flags[0]
        declared["dest"] = name
        is_switch = declared.get("action") == "store_true"
        self.defaults.setdefault(name, declared.get("default", False if is_switch else None))
        if is_option:
            self.options |= dict.fromkeys(flags, declared)
        else:
            self.arguments.append(declared)

    def set_defaults(self, **values: Any) -> None:
        """Set default values."""
        self.defaults |= values


def read(words: Sequence[str]) -> Options | None:
    """The options of a command line, or `None` if only argparse can read it.

    That is a line with a mistake, an unknown option, a request for help, a word after an option
    that begins with a dash, or arguments on both sides of an option.
    """
    if not words or words[0] not in commands.NAMES:
        return None
    declared = Declarations()
    commands.add_parser(words[0], declared)
    values: dict[str, Any] = {"version": False, "completion": None, "command": words[0]}
    values |= declared.defaults
    given: set[str] = set()
    places = []
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-":
            places.append(at - 1)
            continue
        flag, equals, value = word.partition("=")
        option = declared.options.get(flag)
        if option is None or "nargs" in option:
            return None
        name = option["dest"]
        given.add(name)
        if option.get("action") == "store_true":
            if equals:
                return None
            values[name] = True
            continue
        if not equals:
            if at == len(words):
                return None
            value = words[at]
            at += 1
        if not value or value.startswith("-"):
            return None
        try:
            found = _value(option, value)
        except ValueError:
            return None
        values[name] = [*values[name], found] if option.get("action") == "append" else found
    if any(o.get("required") and o["dest"] not in given for o in declared.options.values()):
        return None
    if places and places[-1] - places[0] != len(places) - 1:
        return None
    try:
        arguments = _arguments(declared.arguments, [words[place] for place in places])
    except ValueError:
        return None
    options = Options()
    vars(options).update(values | arguments)
    return options


def _value(declared: dict[str, Any], text: str) -> Any:
    """The value of a text; raises `ValueError`."""
    value = declared["type"](text) if "type" in declared else text
    if "choices" in declared and value not in declared["choices"]:
        raise ValueError(text)
    return value


def _arguments(declared: list[dict[str, Any]], words: list[str]) -> dict[str, Any]:
    """The values of the positional arguments; raises `ValueError`."""
    if len(declared) == 1 and "nargs" in declared[0]:
        (argument,) = declared
        name, count = argument["dest"], argument["nargs"]
        if count == "?" and len(words) < 2:
            return {name: _value(argument, words[0])} if words else {}
        if count == "*" or (count == "+" and words):
            return {name: [_value(argument, word) for word in words]}
        raise ValueError(words)
    if len(declared) > 1 and declared[-1].get("nargs") == "+" and len(words) >= len(declared):
        fixed = len(declared) - 1
        return {
            **_arguments(declared[:fixed], words[:fixed]),
            **_arguments(declared[fixed:], words[fixed:]),
        }
    if len(declared) != len(words) or any("nargs" in argument for argument in declared):
        raise ValueError(words)
    return {a["dest"]: _value(a, word) for a, word in zip(declared, words, strict=True)}
