"""Completion scripts for bash, zsh and fish (`lasthop --completion SHELL`).

They are made from the parser and the catalogue and contain all words, so that completing a word
does not start Python.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lasthop.cli import arguments
from lasthop.cli.command_tree import Command, Option

#: Values of options, as the modules in `plotting` define them, which import matplotlib.
PLOTS = ("line", "bars", "scatter", "box", "cdf", "heatmap")
STYLES = ("page", "ieee-column", "ieee-page", "acm-column", "acm-page", "slides", "screen")
FORMATS = ("svg", "png", "pdf")
SENDERS = ("reno", "cubic", "bbr")


@dataclass(frozen=True)
class Values:
    """What a value may be: words, file names (`kind` "file"), folders ("folder"), or free text."""

    kind: str = ""
    words: tuple[str, ...] = ()
    #: True if the value is a list of words with commas.
    listed: bool = False


def script(shell: str) -> str:
    """The completion script of a shell: one of `SHELLS`."""
    return _SHELLS[shell](arguments.tree(), _names())


def _names() -> dict[str, tuple[str, ...]]:
    from lasthop import catalogue
    from lasthop.scenarios import experiment

    ids = experiment.all_ids()
    papers = dict.fromkeys(i.split("/")[0] for i in ids)
    return {
        "scheme": tuple(e["name"] for e in catalogue.entries()),
        "figure": (*papers, *ids),
    }


def _values(command: str, option: Option, names: dict[str, tuple[str, ...]]) -> Values:
    if option.choices:
        return Values("words", option.choices)
    listed = "," in option.value
    if command == "reproduce" and not option.flags:
        return Values("words", names["figure"])
    if command == "validate" and option.id == "schemes":
        return Values("words", ("none", *names["scheme"]), listed)
    if option.id in ("scheme", "schemes", "also", "against") or (
        command == "schemes" and not option.flags
    ):
        return Values("words", names["scheme"], listed or option.value == "SCHEMES")
    words = {"plot": PLOTS, "style": STYLES, "format": FORMATS, "senders": SENDERS}.get(option.id)
    if words is not None:
        return Values("words", words, listed)
    if option.value == "DIR":
        return Values("folder")
    return Values("file" if "FILE" in option.value or "." in option.value else "")


def _quoted(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


# bash

_BASH_HEAD = """\
# bash completion of lasthop, made by `lasthop --completion bash`.
_lasthop() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' options='' argument='' values='' words='' i
  # `--option=VALUE` is three words.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done
"""
_BASH_TAIL = """\
  [[ $previous == -* && -n $values ]] || { [[ $current == -* ]] && values=options; }
  case ${values:-$argument} in
    options) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    words) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    list)
      local head=''
      [[ $current == *,* ]] && head=${current%,*},
      COMPREPLY=($(compgen -P "$head" -W "$words" -- "${current##*,}"))
      compopt -o nospace
      ;;
    file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")) ;;
    folder) compopt -o filenames; COMPREPLY=($(compgen -d -- "$current")) ;;
  esac
}
complete -F _lasthop lasthop
"""


def _bash(tree: Sequence[Command], names: dict[str, tuple[str, ...]]) -> str:
    lines = ["  case $command in"]
    for command in tree:
        flags = [f for o in command.options() for f in o.flags]
        lines.append(f"    {command.name or shlex.quote('')})")
        lines.append(f"      options={_quoted(flags)}")
        if not command.name:
            words = [c.name for c in tree if c.name]
            lines.append(f"      argument=words words={_quoted(words)}")
        positional = next((o for o in command.options() if not o.flags), None)
        if positional is not None:
            lines.append(f"      argument={_bash_values(_values(command.name, positional, names))}")
        cases = [
            f"        {'|'.join(o.flags)}) values="
            + _bash_values(_values(command.name, o, names), "none")
            + " ;;"
            for o in command.options()
            if o.flags and o.takes_value
        ]
        if cases:
            lines += ["      case $previous in", *cases, "      esac"]
        lines.append("      ;;")
    return _BASH_HEAD + "\n".join([*lines, "  esac"]) + "\n" + _BASH_TAIL


def _bash_values(values: Values, free: str = "''") -> str:
    if values.kind != "words":
        return values.kind or free
    return f"{'list' if values.listed else 'words'} words={_quoted(values.words)}"


# zsh


def _zsh_text(text: str) -> str:
    for character in "\\[]:":
        text = text.replace(character, f"\\{character}")
    return text.replace("'", "’")


def _zsh_action(values: Values) -> str:
    match values.kind:
        case "words" if values.listed:
            return f"_values -s , word {' '.join(values.words)}"
        case "words":
            return f"({' '.join(values.words)})"
        case "file":
            return "_files"
        case "folder":
            return "_files -/"
    return " "


def _zsh_option(command: str, option: Option, names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    action = _zsh_action(_values(command, option, names)) if option.takes_value else ""
    value = _zsh_text(option.value)
    if not option.flags:
        place = "*" if option.repeated else ":" if option.optional else ""
        yield f"{place}:{value}:{action}"
        return
    again = "*" if option.repeated else ""
    for flag in option.flags:
        text = f"{again}{flag}[{_zsh_text(option.help)}]"
        yield text + (f"{':' if not option.optional else '::'}{value}:{action}" if action else "")


def _zsh(tree: Sequence[Command], names: dict[str, tuple[str, ...]]) -> str:
    top, *inner = tree
    lines = [
        "#compdef lasthop",
        "# zsh completion of lasthop, made by `lasthop --completion zsh`.",
        "_lasthop() {",
        "  local context state state_descr line",
        "  typeset -A opt_args",
        "  local -a commands=(",
        *(f"    '{c.name}:{_zsh_text(c.summary)}'" for c in inner),
        "  )",
        "  _arguments -C \\",
        *(f"    '{text}' \\" for o in top.options() for text in _zsh_option("", o, names)),
        "    '1:command:->command' '*::argument:->argument'",
        "  case $state in",
        "    command) _describe command commands ;;",
        "    argument)",
        "      case $words[1] in",
    ]
    for command in inner:
        given = [text for o in command.options() for text in _zsh_option(command.name, o, names)]
        lines.append(f"        {command.name})")
        lines.append("          _arguments \\")
        lines += [f"            '{text}' \\" for text in given[:-1]]
        lines += [f"            '{given[-1]}'", "          ;;"]
    tail = ["      esac", "      ;;", "  esac", "}"]
    # As a file in fpath the script is the function's body; otherwise it registers the function.
    tail.append('if [[ $funcstack[1] == _lasthop ]]; then _lasthop "$@"; else compdef _lasthop')
    return "\n".join([*lines, *tail]) + " lasthop; fi\n"


# fish


def _fish_words(values: Values) -> str:
    match values.kind:
        case "words" if values.listed:
            words = " ".join(values.words)
            return f" -x -a \"(__fish_complete_list , 'printf %s\\\\n {words}')\""
        case "words":
            return f" -x -a {_quoted(values.words)}"
        case "file":
            return " -r -F"
        case "folder":
            return " -x -a '(__fish_complete_directories)'"
    return " -x"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish(tree: Sequence[Command], names: dict[str, tuple[str, ...]]) -> str:
    top, *inner = tree
    lines = ["# fish completion of lasthop, made by `lasthop --completion fish`."]
    lines.append("complete -c lasthop -f")
    for command in inner:
        about = _fish_text(command.summary)
        lines.append(f"complete -c lasthop -n __fish_use_subcommand -a {command.name} -d {about}")
    for command in [top, *inner]:
        seen = f"'__fish_seen_subcommand_from {command.name}'" if command.name else ""
        condition = f"complete -c lasthop -n {seen or '__fish_use_subcommand'}"
        for option in command.options():
            values = _values(command.name, option, names)
            if option.flags:
                flags = "".join(
                    f" -l {f[2:]}" if f.startswith("--") else f" -s {f[1:]}" for f in option.flags
                )
                words = _fish_words(values) if option.takes_value else ""
                lines.append(f"{condition}{flags}{words} -d {_fish_text(option.help)}")
            elif values.kind == "words":
                lines.append(f"{condition} -a {_quoted(values.words)}")
            elif values.kind in ("file", "folder"):
                lines.append(f"{condition} -F")
    return "\n".join(lines) + "\n"


_SHELLS: dict[str, Callable[[Sequence[Command], dict[str, tuple[str, ...]]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}

__all__ = ["script"]
