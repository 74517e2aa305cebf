"""No command and no function overwrites a file that it reads, nor one output by another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop import InputError
from lasthop.cli.main import main
from lasthop.experiments import store

CELL = """# a comment
duration = "2 s"
[last_hop]
down = "radio.down"
rtt = "40 ms"
[[flow]]
from = "server"
to = "phone"
app = { kind = "poisson", size = { distribution = "file", file = "sizes.txt" }, every = "1 s" }
"""
HOP = ["--down", "t.down", "--rtt", "40ms", "--duration", "2s"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.toml").write_text('duration = "2 s"\n[last_hop]\nrate = "1 Mbps"\nrtt = "40ms"')
    (tmp_path / "t.down").write_text("1\n2\n")
    (tmp_path / "x").mkdir()
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


def refused(words: list[str], capsys: pytest.CaptureFixture[str], expected: str) -> None:
    before = contents(Path())
    assert main(words) == 2, words
    assert expected in capsys.readouterr().err
    assert contents(Path()) == before


@pytest.mark.parametrize("name", ["b.toml", "./x/../b.toml", "symbolic", "hard"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "b.toml", "--pcap"],
        ["inspect", "b.toml", "--out"],
        ["inspect", "b.toml", "--qlog"],
        ["check", "base.json", "--junit"],
        ["run", "--rtt", "40ms", "--rate", "1Mbps", "--scheme", "mine.py:Half", "--pcap"],
    ],
)
def test_an_output_that_is_an_input_is_refused(
    words: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    read = Path("mine.py" if "mine.py:Half" in words else "b.toml")
    Path("symbolic").symlink_to(read)
    os.link(read, "hard")
    if words[0] == "check":
        update = ["check", "base.json", "--update", "b.toml", "--schemes", "reno", "--seeds", "1"]
        assert main([*update, "--quiet"]) == 0
    refused([*words, name.replace("b.toml", read.name)], capsys, "would overwrite")


@pytest.mark.parametrize(
    "words",
    [
        ["run", *HOP, "--pcap", "t.down"],
        ["inspect", *HOP, "--out", "t.down"],
        ["check", "t.down", "--update", *HOP[:-2], "--schemes", "reno"],
        ["check", "b.toml", "--update", "b.toml", "--schemes", "reno"],
        ["check", "mine.py", "--update", "b.toml", "--schemes", "mine.py:Half"],
    ],
)
def test_a_trace_and_a_baseline_are_inputs(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(words, capsys, f"would overwrite {words[-1] if words[0] != 'check' else words[1]}")


@pytest.mark.parametrize("name", ["radio.down", "sizes.txt"])
def test_the_files_that_a_scenario_names_are_inputs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x/cell.toml").write_text(CELL)
    Path("x/radio.down").write_text("1\n2\n")
    Path("x/sizes.txt").write_text("1000\n2000\n")
    refused(["run", "x/cell.toml", "--pcap", f"x/{name}"], capsys, "would overwrite")
    refused(["inspect", "x/cell.toml", "--out", f"x/{name}"], capsys, "would overwrite")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("compare", "scenario.toml"),
        ("compare", "command.txt"),
        ("compare", "runs.previous.csv"),
        ("compare", "figure.svg"),
        ("sweep", "scenario.toml"),
        ("sweep", "table.csv"),
        ("reproduce", "mine.csv"),
        ("reproduce", "index.md"),
        ("inspect", "own.pcapng"),
        ("run", "events.parquet"),
    ],
)
def test_an_input_in_the_folder_of_the_results_is_refused(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = {"inspect": "--pcap", "run": "--events"}.get(command, "--out")
    words = [command, f"x/{name}", option, "x"]
    if command in ("compare", "sweep"):
        words += ["--schemes", "reno,cubic"]
    if command == "reproduce":
        Path("mine.toml").write_text(
            f'duration = "2 s"\n[last_hop]\ndown = "x/{name}"\nrtt = "40 ms"\n'
            '[experiment]\nschemes = ["reno"]\nseeds = 1\n'
        )
        Path("x", name).write_text("1\n2\n")
        words[1] = "mine.toml"
    else:
        Path("x", name).write_text(Path("b.toml").read_text())
    refused(words, capsys, f"{option} would overwrite x/{name}")
    # The folder's file is a link to the input.
    Path("x", name).rename("real")
    Path("x", name).symlink_to("../real")
    if command != "reproduce":
        words[1] = "real"
    refused(words, capsys, f"{option} would overwrite x/{name}")


def test_a_capture_and_an_agent_are_inputs_of_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "b.toml", "--pcap", "c.pcapng", "--json"]) == 0
    capsys.readouterr()
    assert main(["new", "agent", "my_agent"]) == 0
    words = ["replay", "c.pcapng", "--mobile", "10.0.0.2", "--scheme", "my_agent.py:MyAgent"]
    for name in ("c.pcapng", "my_agent.py"):
        refused([*words, "--out", name], capsys, f"--out would overwrite {name}")


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "b.toml", "--out", "x/new", "--qlog", "x/../x/new"],
        ["run", "b.toml", "--events", "x", "--pcap", "x/events.parquet"],
    ],
)
def test_two_outputs_that_are_one_file_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(words, capsys, "are the same file; write to two files")
    assert main(["inspect", "b.toml", "--out", "/dev/null", "--qlog", "/dev/null"]) == 0


def test_the_file_on_stdin_is_an_input() -> None:
    before = Path("b.toml").read_bytes()
    with open("b.toml") as given:
        done = subprocess.run(
            [sys.executable, "-m", "lasthop", "run", "-", "--pcap", "b.toml"],
            stdin=given,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "which is stdin" in done.stderr
    assert Path("b.toml").read_bytes() == before


def _results() -> dict[str, Callable[[str], object]]:
    result: Any = lasthop.run("b.toml")
    compared: Any = lasthop.compare("b.toml", schemes=["reno", "cubic"])
    inspected: Any = lasthop.inspect("b.toml")
    return {
        "run": lambda to: lasthop.run("b.toml", pcap=to),
        "inspect": lambda to: lasthop.inspect("b.toml", out=to),
        "plot": result.plot,
        "save": inspected.save,
        "save_qlog": inspected.save_qlog,
        "inspection": lambda to: result.inspect().save(to),
        "comparison": compared.plot,
        "write": lambda to: compared.write(Path(to).parent, []),
    }


def test_the_functions_refuse_as_the_commands() -> None:
    for name, call in _results().items():
        target = "scenario.toml" if name == "write" else "figure.svg"
        Path(target).unlink(missing_ok=True)
        os.link("b.toml", target)
        before = Path("b.toml").read_bytes()
        with pytest.raises(InputError, match=r"would overwrite|reads that file"):
            call(target)
        assert Path(target).read_bytes() == before, name


def test_finished_runs_survive_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["compare", "b.toml", "--schemes", "reno,cubic", "--set", "last_hop.loss=1%", "--quiet"]
    assert main([*words, "--seeds", "3", "--out", "x", "--no-figure"]) == 0
    runs = Path("x/runs.csv")
    before = runs.read_bytes()

    def full(path: Path, content: object) -> None:
        raise InputError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(store, "write_whole", full)
    # With fewer seeds the rows of the others are removed, and the file is written again.
    assert main([*words, "--seeds", "2", "--out", "x", "--no-figure"]) == 2
    assert runs.read_bytes() == before


BIG = "99999999999999999999"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--seed", BIG],
        ["inspect", "--seed", BIG, "--json"],
        ["run", "--flows", BIG],
        ["compare", "--schemes", "reno", "--seeds", BIG],
        ["sweep", "--schemes", "reno", "--seeds", BIG, "--out", "x"],
        ["sweep", "--schemes", "reno", "--seeds", f"{BIG}..{BIG}", "--out", "x"],
        ["sweep", "--schemes", "reno", "--until", "goodput ± 2 %", "--max-seeds", BIG, "--out=x"],
        ["sweep", "--schemes", "reno", "--jobs", BIG, "--out", "x"],
    ],
)
def test_a_whole_number_that_is_too_large_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([words[0], "b.toml", *words[1:]]) == 2
    assert f"must be at most {10**4 if '--jobs' in words else ''}" in capsys.readouterr().err


def test_a_full_disk_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x/events.parquet").symlink_to("/dev/full")
    for words in (
        ["run", "b.toml", "--events", "x"],
        ["run", "b.toml", "--pcap", "/dev/full"],
        ["inspect", "b.toml", "--out", "/dev/full"],
        ["inspect", "b.toml", "--qlog", "/dev/full"],
    ):
        assert main(words) == 2, words
        assert "cannot write" in capsys.readouterr().err
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lasthop", "run", "b.toml", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "lasthop: No space left on device\n"


@pytest.mark.parametrize(
    ("method", "returned", "allowed"),
    [
        ("counters", "3", "names with whole numbers below 2^64"),
        ("counters", "{'a': 'x'}", "names with whole numbers below 2^64"),
        ("counters", "{'a': 10**30}", "names with whole numbers below 2^64"),
        ("counters", "{'a': -1}", "names with whole numbers below 2^64"),
        ("counters", "{3: 1}", "names with whole numbers below 2^64"),
        ("counters", "None", "names with whole numbers below 2^64"),
        ("state_bytes", "'x'", "a whole number of bytes"),
        ("state_bytes", "-1", "a whole number of bytes"),
        ("state_bytes", "10**30", "a whole number of bytes"),
        ("state_bytes", "None", "a whole number of bytes"),
    ],
)
def test_a_wrong_result_of_an_agent_is_named(
    method: str, returned: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("agent.py").write_text(
        f"import lasthop\nclass Counts(lasthop.Agent):\n    def {method}(self):\n"
        f"        return {returned}\n"
    )
    assert main(["run", "b.toml", "--scheme", "agent.py:Counts"]) == 2
    expected = f"Counts.{method}() must return {allowed}, found {eval(returned)!r}"
    assert expected in capsys.readouterr().err
    assert main(["compare", "b.toml", "--schemes", "reno,agent.py:Counts"]) == 2
    assert expected in capsys.readouterr().err
    sys.modules.pop(f"lasthop_scheme_{Path('agent.py').resolve().as_posix()}")
