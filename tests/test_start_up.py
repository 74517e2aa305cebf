"""What a run imports, which is most of the time of a short one, and what replaces it: the reader of
usual command lines, and JSON.
"""

from __future__ import annotations

import gc
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import ended

from lasthop.cli import arguments, commands, json_text, plain_reader
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.live import link

#: All modules of lasthop that a run imports.
OWN = {
    "lasthop",
    "lasthop._native",
    "lasthop.agents",
    "lasthop.cli",
    "lasthop.cli.commands",
    "lasthop.cli.main",
    "lasthop.cli.options",
    "lasthop.cli.plain_reader",
    "lasthop.cli.run",
    "lasthop.congestion",
    "lasthop.errors",
    "lasthop.interrupts",
    "lasthop.quantities",
    "lasthop.scenarios",
    "lasthop.scenarios.scenario_source",
    "lasthop.single_run",
}
AS_TEXT = OWN | {"lasthop.limits", "lasthop.tables", "lasthop.tables.run_text"}
AS_JSON = OWN | {"lasthop.cli.json_text"}
#: Modules of the standard library that would take a tenth of the time of a short run or more.
SLOW = {
    *("argparse", "ast", "asyncio", "concurrent.futures", "contextlib", "dataclasses", "datetime"),
    *("decimal", "difflib", "email", "gettext", "hashlib", "importlib.metadata", "importlib.util"),
    *("inspect", "json", "locale", "logging", "numbers", "pathlib", "queue", "random", "shutil"),
    *("subprocess", "tempfile", "textwrap", "tokenize", "tomllib", "traceback", "typing"),
    *("urllib.parse", "warnings"),
}


def imported(words: list[str]) -> set[str]:
    """The modules that a command imports, except those that Python imports before it."""
    code = f"""
import sys
before = set(sys.modules)
from lasthop.cli.main import main
status = main({words!r})
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(status)
"""
    command = [sys.executable, "-I", "-c", code]
    done = ended(command, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(("more", "own"), [((), AS_TEXT), (("--json",), AS_JSON)])
def test_a_run_imports_only_what_it_needs(
    more: tuple[str, ...], own: set[str], tmp_path: Any
) -> None:
    file = tmp_path / "empty.toml"
    file.touch()
    found = imported(["run", str(file), "--set", "duration=1 ms", *more])
    assert {m for m in found if m.partition(".")[0] == "lasthop"} == own
    assert found & SLOW == set()
    packages = {m.partition(".")[0] for m in found} - {"lasthop"}
    assert packages <= sys.stdlib_module_names


def test_a_run_over_a_last_hop_with_a_scheme_imports_no_reader_of_values() -> None:
    words = ["run", "--rate", "2Mbps", "--rtt", "40ms", "--scheme", "snoop", "--set", "duration=1s"]
    found = imported(words)
    assert {m for m in found if m.partition(".")[0] == "lasthop"} == AS_TEXT | {
        "lasthop.own_schemes"
    }
    assert found & (SLOW - {"json"}) == set()


@pytest.mark.skipif(link.missing() is not None, reason=str(link.missing()))
def test_a_link_imports_no_packages() -> None:
    found = imported(["link", "--rate", "2Mbps", "--bound", "10s", "--", "true"])
    packages = {m.partition(".")[0] for m in found} - {"lasthop"}
    assert packages <= sys.stdlib_module_names


EXAMPLES = [
    shlex.split(line, comments=True)[1:]
    for command in arguments.tree()
    for line in command.examples
]


def parsed(words: list[str]) -> dict[str, Any] | str:
    """The options as argparse reads them, or its message."""
    try:
        return vars(arguments.parse(words))
    except InputError as error:
        return str(error)
    except SystemExit:
        return "help"


@pytest.mark.parametrize("words", EXAMPLES, ids=shlex.join)
def test_examples_of_help_are_read_without_argparse(words: list[str]) -> None:
    found = plain_reader.read(words)
    if {"--", "--update"} & {*words}:  # the value of --update may be left out
        assert found is None
    else:
        assert found is not None
        assert vars(found) == parsed(words)


def of_one_command() -> st.SearchStrategy[list[str]]:
    """Command lines of options that exist and of words that may be their values."""
    values = st.sampled_from(
        ["1", "x", "2 ms", "auto", "json", "a.toml", "-1", "-", "--", "", "=y"]
    )

    def words(name: str) -> st.SearchStrategy[list[str]]:
        declared = plain_reader.Declarations()
        commands.add_parser(name, declared)
        flags = st.sampled_from([*declared.options, "--unknown", "-h", "--version", "--js"])
        attached = st.builds("{}={}".format, flags, values)
        return st.lists(flags | attached | values, max_size=6).map(lambda more: [name, *more])

    return st.sampled_from(commands.NAMES).flatmap(words)


@given(of_one_command())
def test_what_is_read_without_argparse_is_as_argparse_reads_it(words: list[str]) -> None:
    found = plain_reader.read(words)
    if found is not None:
        assert vars(found) == parsed(words)


def test_the_parser_of_one_command_refuses_as_the_parser_of_all() -> None:
    for words in (["run", "--sede", "3"], ["compare", "--seeds", "x"], ["run", "a", "b"]):
        with pytest.raises(InputError) as alone:
            arguments.parse(words)
        with pytest.raises(InputError) as of_all:
            arguments.parser().parse_args(words)
        assert str(alone.value) == str(of_all.value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_json_is_as_the_standard_library_writes_it(value: Any, ascii_only: bool) -> None:
    expected = json.dumps(value, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    assert json_text.text(value, ascii_only=ascii_only) == expected


def test_json_has_neither_infinities_nor_nan() -> None:
    for value in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_text.text({"x": [value]}, ascii_only=False)


def test_json_of_other_types_is_as_the_standard_library_writes_it() -> None:
    value = {1: (2, 3), "é": "ü\n", "λ": {}, "x": []}
    for ascii_only in (False, True):
        expected = json.dumps(value, indent=2, ensure_ascii=ascii_only, allow_nan=False)
        assert json_text.text(value, ascii_only=ascii_only) == expected


def test_figures_are_the_same_without_the_help_texts_of_matplotlib(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from lasthop.plotting import matplotlib_import, plots
import numpy as np
matplotlib_import.with_help_texts = sys.argv[1] == "with"
line = plots.Line("reno", np.arange(5.0), np.arange(5.0) ** 2)
figure = plots.panels([plots.Panel("cwnd", [line])], "title", caption="one run")
figure.axes[0].set(ylim=(0, 20))
plots.save(figure, [Path(f"{sys.argv[1]}.svg"), Path(f"{sys.argv[1]}.png")])
from matplotlib import artist, lines
assert "linewidth" in artist.kwdoc(lines.Line2D)
assert ("linewidth" in (lines.Line2D.set.__doc__ or "")) == (sys.argv[1] == "with")
"""
    for word in ("with", "without"):
        subprocess.run([sys.executable, "-c", code, word], cwd=tmp_path, check=True)
    for suffix in (".svg", ".png"):
        one, other = (tmp_path / f"{word}{suffix}" for word in ("with", "without"))
        assert one.read_bytes() == other.read_bytes()


def test_the_command_line_restores_the_thresholds_of_the_garbage_collector(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = gc.get_threshold()
    assert main(["schemes", "reno"]) == 0
    assert "reno" in capsys.readouterr().out
    assert gc.get_threshold() == before
