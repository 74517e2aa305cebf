"""Completion scripts in their shells, the manual page, and the example workflow of a wheel."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import shell_files
from optional import needs
from pages import ROOT, of
from processes import ended

from lasthop.cli import arguments, completion
from lasthop.cli.main import main
from lasthop.experiments import chart_spec
from lasthop.plotting import styles

#: Typed words, and completions; a word that ends in "…" is the start of the list.
CASES = {
    "lasthop co": ["compare"],
    "lasthop compare --sch": ["--schemes"],
    "lasthop compare --schemes reno,sno": ["reno,snoop"],
    "lasthop run --scheme westwoo": ["westwood", "westwood+"],
    "lasthop schemes bb": ["bbr", "bbr3"],
    "lasthop compare --style ie": ["ieee-column", "ieee-page"],
    "lasthop sweep --progress j": ["json"],
    "lasthop compare --rtt x": [],
    "lasthop run a": ["a.toml"],
    "lasthop report r": ["results"],
    "lasthop reproduce zeng2006/fig15": ["zeng2006/fig15"],
    "lasthop --completion z": ["zsh"],
}


def completions(shell: str, program: str, folder: Path) -> list[list[str]]:
    """What a shell answers to each case, by a program that prints a line for each."""
    (folder / "script").write_text(completion.script(shell), encoding="utf-8")
    (folder / "a.toml").touch()
    (folder / "results").mkdir()
    done = ended([shell, "-c", program], cwd=folder, check=True)
    assert not done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_bash(tmp_path: Path) -> None:
    program = "compopt() { :; }\nsource ./script\n" + "".join(
        f"COMP_WORDS=({shlex.join(line.split())}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1));"
        ' COMPREPLY=(); _lasthop; echo "${COMPREPLY[@]}"\n'
        for line in CASES
    )
    assert completions("bash", program, tmp_path) == list(CASES.values())


def test_bash_after_an_equals_sign(tmp_path: Path) -> None:
    program = (
        "compopt() { :; }\nsource ./script\nCOMP_WORDS=(lasthop compare --schemes = reno,sno);"
        ' COMP_CWORD=4; _lasthop; echo "${COMPREPLY[@]}"'
    )
    assert completions("bash", program, tmp_path) == [["reno,snoop"]]


@needs("fish")
def test_fish(tmp_path: Path) -> None:
    program = "source ./script\n" + "".join(
        f"echo (complete -C {shlex.quote(line)} | string replace -r '\\t.*|/$' '')\n"
        for line in CASES
    )
    assert completions("fish", program, tmp_path) == list(CASES.values())


@needs("zsh")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    program = "autoload -U compinit; compinit -u -D; source ./script; whence -w _lasthop"
    assert completions("zsh", program, tmp_path) == [["_lasthop:", "function"]]


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "bash"]) == 0
    assert capsys.readouterr().out == completion.script("bash")


def test_values_that_the_scripts_repeat() -> None:
    assert tuple(chart_spec.KINDS) == completion.PLOTS
    assert tuple(styles.PRESETS) == completion.STYLES
    assert sorted(completion.FORMATS) == sorted(styles.FORMATS)


def test_the_manual_page_has_every_option(tmp_path: Path) -> None:
    text = {f.name: f for f in shell_files.write(tmp_path)}["lasthop.1"].read_text(encoding="ascii")
    plain = text.replace("\\-", "-")
    for command in arguments.tree():
        section = plain.split(f'.SS "lasthop {command.name}"')[-1].split(".SS")[0]
        for option in command.options():
            for flag in set(option.flags) - {"-h", "--help"}:
                assert f"\\fB{flag}\\fR" in section, (command.name, flag)


@needs("groff")
def test_groff_reads_the_manual_page(tmp_path: Path) -> None:
    text = {f.name: f for f in shell_files.write(tmp_path)}["lasthop.1"].read_text(encoding="ascii")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "±" in done.stdout


def test_a_wheel_has_what_is_in_the_folder_of_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folder = ROOT / settings["tool"]["maturin"]["data"] / "data/share"
    assert folder == shell_files.FOLDER
    workflow = (folder / "doc/lasthop/check.yml").read_text(encoding="utf-8")
    assert workflow == of("docs/ci.md", "yaml").text
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^wheel[^:]*:.*\n(?:\t.*\n)+", makefile, re.MULTILINE):
        assert "tools/shell_files.py" in target
