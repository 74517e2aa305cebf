"""Inputs that can be read only once: pipes of the shell, FIFOs and stdin; outputs that nobody
reads any more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import PROGRAM

from lasthop.live import link as live
from lasthop.scenarios import pipes

TRACE = "1\n2\n"
HOP = ["--rtt", "40ms", "--set", "duration=1s"]
SCENARIO = 'duration = "1 s"\n[last_hop]\nrate = "2 Mbps"\nloss = "1 %"\n'
TWO = ["--schemes", "cubic,bbr"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes have no path on Windows")


def lasthop(
    folder: Path, words: list[str], piped: str = "", stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run lasthop in a folder; PIPE in `words` is a pipe with the text `piped`, as of <(…)."""
    read, write = os.pipe()
    os.write(write, piped.encode())
    os.close(write)
    try:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "lasthop",
                *(w.replace("PIPE", f"/dev/fd/{read}") for w in words),
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            pass_fds=[read],
        )
    finally:
        os.close(read)


COMMANDS = {
    "run": ["run"],
    "compare": ["compare", *TWO, "--seeds", "2"],
    "inspect": ["inspect", *TWO, "--json"],
    "sweep": ["sweep", *TWO, "--seeds", "2", "--out", "out", "--jobs", "2"],
    "check": ["check", "base.json", *TWO, "--seeds", "3", "--update"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_trace_may_be_a_pipe(tmp_path: Path, command: str) -> None:
    hop = [*HOP[:2], "--duration", "1s"] if command in ("run", "compare", "inspect") else HOP
    done = lasthop(tmp_path, [*COMMANDS[command], "--down", "PIPE", *hop], TRACE)
    assert done.returncode == 0, done.stderr
    done = lasthop(tmp_path, [*COMMANDS[command], "--down", "/dev/stdin", *hop], stdin=TRACE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_scenario_may_be_a_pipe(tmp_path: Path, command: str) -> None:
    # `check --update` takes the file as its value.
    words = [*COMMANDS[command], "PIPE"]
    done = lasthop(tmp_path, words, SCENARIO)
    assert done.returncode == 0, done.stderr


def test_a_pipe_gives_what_its_file_gives(tmp_path: Path) -> None:
    (tmp_path / "my.down").write_text(TRACE)
    words = ["run", "--json", "--rtt", "40ms", "--duration", "1s", "--down"]
    piped = json.loads(lasthop(tmp_path, [*words, "PIPE"], TRACE).stdout)
    file = json.loads(lasthop(tmp_path, [*words, "my.down"]).stdout)
    assert piped["flows"] == file["flows"]


def test_stored_runs_keep_the_trace_and_are_reused(tmp_path: Path) -> None:
    words = ["compare", *TWO, "--rtt", "40ms", "--duration", "1s", "--seeds", "3", "--out", "out"]
    words += ["--down", "PIPE", "--no-figure"]
    for _ in range(2):
        done = lasthop(tmp_path, words, TRACE)
        assert done.returncode == 0, done.stderr
    kept = [f for f in (tmp_path / "out").iterdir() if f.name.startswith(pipes.PREFIX)]
    assert [f.read_text() for f in kept] == [TRACE]
    assert f'trace = "{kept[0].name}"' in (tmp_path / "out" / "scenario.toml").read_text()
    # All runs of the second command were there: none is of another scenario.
    assert not (tmp_path / "out" / "runs.previous.csv").exists()
    again = lasthop(tmp_path, ["inspect", "out", "--scheme", "bbr", "--seed", "2", "--json"])
    assert again.returncode == 0, again.stderr
    other = lasthop(tmp_path, words, "1\n3\n")
    assert other.returncode == 0, other.stderr
    assert (tmp_path / "out" / "runs.previous.csv").exists()


def test_a_baseline_keeps_the_trace(tmp_path: Path) -> None:
    words = ["check", "base.json", "--schemes", "cubic", "--seeds", "3", "--update", *HOP]
    assert lasthop(tmp_path, [*words, "--down", "PIPE"], TRACE).returncode == 0
    done = lasthop(tmp_path, ["check", "base.json"])
    assert done.returncode == 0, done.stderr
    assert "equal in all runs" in done.stdout


def test_a_fifo_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=lambda: (tmp_path / "fifo").write_text(TRACE))
    writer.start()
    hop = ["--down", "fifo", "--rtt", "40ms", "--duration", "1s"]
    done = lasthop(tmp_path, ["compare", *TWO, "--seeds", "2", *hop])
    writer.join()
    assert done.returncode == 0, done.stderr


def test_one_pipe_for_both_directions_is_refused(tmp_path: Path) -> None:
    done = lasthop(tmp_path, ["run", "--down", "PIPE", "--up", "PIPE", *HOP], TRACE)
    assert done.returncode == 2
    assert "the pipe is empty; a pipe can be read only once" in done.stderr


def test_a_pipe_that_a_scenario_names_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a.toml").write_text('[last_hop]\ndown = "fifo"\n')
    done = lasthop(tmp_path, ["run", "a.toml"])
    assert done.returncode == 2
    assert "last_hop.down: cannot open the trace fifo: it is a pipe" in done.stderr
    assert "--down" in done.stderr


def test_copies_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for words in (COMMANDS["run"], COMMANDS["sweep"]):
        assert lasthop(tmp_path, [*words, "--down", "PIPE", *HOP], TRACE).returncode == 0
    assert not [f for f in (tmp_path / "temporary").iterdir() if pipes.FOLDER in f.name]


LINK = ["--rate", "10Mbps", "--rtt", "10ms", "--bound", "10s"]
#: Commands with output for each way in which it is printed.
PRINTING = {
    "help": ["--help"],
    "version": ["--version"],
    "run": ["run", *HOP],
    "run --json": ["run", *HOP, "--json"],
    "compare": ["compare", *TWO, "--seeds", "2", *HOP],
    "inspect": ["inspect", *HOP, "--json"],
    "sweep": ["sweep", *TWO, "--seeds", "2", *HOP, "--jobs", "2", "--out", "out"],
    "check": ["check", "base.json", "--schemes", "cubic", "--seeds", "3", "--update", *HOP],
    "trace": ["trace", "info", "my.down"],
    "schemes": ["schemes", "--json"],
    "doctor": ["doctor"],
}
LIVE = {
    "link": ["link", *LINK, "--json", "--", "true"],
    "validate": [
        *("validate", "--rate", "10Mbps", "--rtt", "10ms", "--senders", "reno"),
        *("--schemes", "none", "--seeds", "1", "--size", "20 kB"),
    ],
}


@pytest.mark.parametrize(
    "words",
    [
        *(pytest.param(words, id=name) for name, words in PRINTING.items()),
        *(
            pytest.param(
                words,
                id=name,
                marks=pytest.mark.skipif(live.missing() is not None, reason=str(live.missing())),
            )
            for name, words in LIVE.items()
        ),
    ],
)
def test_output_that_nobody_reads_is_no_error(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "my.down").write_text(TRACE)
    status, errors = without_reader(tmp_path, words)
    assert status == 0, errors
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


def test_a_failed_check_fails_also_without_reader(tmp_path: Path) -> None:
    words = ["check", "base.json", "--schemes", "cubic", "--seeds", "3", *HOP]
    assert lasthop(tmp_path, [*words, "--update"]).returncode == 0
    gate = ["--gate", "goodput >= 2"]
    status, errors = without_reader(tmp_path, [*words[:2], *gate])
    assert status == 1, errors
    assert errors == ""


def without_reader(folder: Path, words: list[str]) -> tuple[int, str]:
    """Exit status and errors of a command whose output goes to a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            [*PROGRAM, *words],
            env=buffered,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=folder,
        )
    finally:
        os.close(write)
    return done.returncode, done.stderr
