"""Write the manual page and the completion scripts that a wheel installs (`make wheel`).

python tools/shell_files.py [FOLDER]; without FOLDER into packaging/data/share, where maturin takes
them from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lasthop import _native
from lasthop.cli import arguments, completion, main
from lasthop.cli.arguments import DESCRIPTION, SHELLS
from lasthop.cli.command_tree import Command, Option
from lasthop.experiments.store import write_whole

FOLDER = Path(__file__).parents[1] / "packaging/data/share"
COMPLETIONS = {
    "bash": "bash-completion/completions/lasthop",
    "zsh": "zsh/site-functions/_lasthop",
    "fish": "fish/vendor_completions.d/lasthop.fish",
}
MANUAL = "man/man1/lasthop.1"
STATUS = (
    (main.DONE, "Success."),
    (main.CHECK_FAILED, "A check failed, or runs failed."),
    (main.WRONG_INPUT, "Wrong usage or input; the message names what is allowed."),
    (main.INTERRUPTED, "Interrupted; what is finished is kept where --out was given."),
)


def _roff(text: str) -> str:
    """Plain text for a line of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    # Long lists may be broken after each item.
    text = re.sub(r"([,|])(?=\w)", r"\1\\:", text)
    # Characters outside ASCII by number, so that the page does not depend on an encoding.
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return re.sub(r"^([.'])", r"\\&\1", text)


def _option(option: Option) -> Iterator[str]:
    value = f" \\fI{_roff(option.value)}\\fR" if option.value else ""
    if option.flags:
        name = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in option.flags) + value
    else:
        name = value.strip()
    yield from (".TP", name, _roff(option.help))


def _command(command: Command) -> Iterator[str]:
    yield f'.SS "lasthop {command.name}"'
    yield _roff(command.about)
    yield from (".PP", "Usage:", ".br", _roff(command.usage))
    for group in command.groups:
        if group.title not in ("options", "positional arguments"):
            yield from (".PP", _roff(f"{group.title}: {group.about}"))
        for option in group.options:
            if "--help" not in option.flags:
                yield from _option(option)
    if command.examples:
        yield from (".PP", "Examples:", ".nf", *map(_roff, command.examples), ".fi")


def manual(tree: Sequence[Command], version: str) -> str:
    """The manual page lasthop(1)."""
    top, *inner = tree
    lines = [f'.TH LASTHOP 1 "" "lasthop {version}" "User Commands"']
    lines += [".ad l", ".nh"]
    lines += [".SH NAME", _roff(f"lasthop - {DESCRIPTION.rstrip('.')}")]
    lines += [".SH SYNOPSIS", r"\fBlasthop\fR \fICOMMAND\fR \&..."]
    lines += [".SH DESCRIPTION", _roff(DESCRIPTION), _roff("Each command has --help.")]
    lines.append(".SH OPTIONS")
    for option in top.options():
        lines += _option(option)
    lines.append(".SH COMMANDS")
    for command in inner:
        lines += [".TP", f"\\fB{_roff(command.name)}\\fR", _roff(command.summary)]
    for command in inner:
        lines += _command(command)
    lines.append(".SH EXIT STATUS")
    for status, meaning in STATUS:
        lines += [".TP", str(status), _roff(meaning)]
    lines += [".SH EXAMPLES", ".nf", *map(_roff, top.examples), ".fi"]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> list[Path]:
    """Write all files below a folder `share`."""
    texts = {COMPLETIONS[shell]: completion.script(shell) for shell in SHELLS}
    texts[MANUAL] = manual(arguments.tree(), _native.version())
    written = []
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
        written.append(file)
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
