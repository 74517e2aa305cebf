"""Interrupts, closed and ASCII streams, altered files and faulty rules.

Nothing hangs, no finished run is lost, and each case has an error message.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from busy import PATIENCE
from processes import PROGRAM, SHORT, rows_of, started, wait_for

import lasthop
from lasthop import quantities
from lasthop.cli.main import main
from lasthop.errors import Abandoned, InputError
from lasthop.experiments import pool, store

# Faulty rules


@pytest.mark.parametrize(
    ("rule", "error"), [("Leaves", "SystemExit: had enough"), ("Interrupts", "KeyboardInterrupt")]
)
def test_a_rule_that_exits_fails_only_its_runs(rules: Path, rule: str, error: str) -> None:
    process = started(
        "compare", *SHORT, "--schemes", f"reno,{rules}:{rule}", "--seeds", "3", "--json"
    )
    try:
        out, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 1
    assert [s["runs"] for s in json.loads(out)["points"][0]["schemes"]] == [3, 0]
    assert error in stderr


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("Leaves", "SystemExit"),
        ("Interrupts", "KeyboardInterrupt"),
        ("Broken", "ValueError: no idea"),
    ],
)
def test_a_single_run_of_a_failing_rule(
    rules: Path, rule: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *SHORT, "--scheme", f"{rules}:{rule}"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert error in captured.err


def test_a_rule_file_that_exits_on_import(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules.write_text("import sys\nsys.exit(0)\n")
    assert main(["run", *SHORT, "--scheme", f"{rules}:Half"]) == 2
    assert f"line 2 of {rules}: SystemExit: 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["compare", "--seeds", "1", "--schemes"], ["run", "--scheme"]])
def test_a_traceback_shows_the_frames_of_the_rule(
    rules: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], *SHORT, *command[1:], f"{rules}:Broken"]) == 1
    stderr = capsys.readouterr().err
    frames = [line for line in stderr.splitlines() if line.lstrip().startswith("File ")]
    assert [f.rpartition("in ")[2] for f in frames] == ["on_ack", "helper"]
    assert all(str(rules) in f for f in frames)
    assert "of Broken failed" in stderr or ":Broken failed" in stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_hanging_rule(
    rules: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    process = started(
        "compare", *SHORT, "--schemes", f"reno,{rules}:Stuck", "--seeds", "3", "--out", str(out)
    )
    try:
        wait_for(
            lambda: rows_of(out / "runs.csv") >= 1 and rules.with_name("stuck").exists(), process
        )
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    kept = rows_of(out / "runs.csv")
    assert 1 <= kept <= 3
    assert (
        f"interrupted; {kept} of 6 runs are saved in {out}/runs.csv; repeat the command to continue"
        in stderr
    )
    assert "Traceback" not in stderr


def test_signals_to_another_thread_are_counted_one_by_one() -> None:
    """The kernel may choose any thread, and the main thread then sleeps on."""
    over = threading.Event()

    def interrupt() -> None:
        for _ in range(2):
            time.sleep(0.5)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Abandoned):
            pool.run_jobs([0], lambda _: over.wait(30), lambda *_: None, workers=1)
    finally:
        over.set()
        thread.join()


def test_a_second_signal_ends_a_single_run(rules: Path) -> None:
    process = started("run", *SHORT, "--scheme", f"{rules}:Stuck")
    try:
        wait_for(rules.with_name("stuck").exists, process)
        process.send_signal(signal.SIGINT)
        # After a slow stop the message says how to exit immediately.
        assert process.stderr is not None
        assert "interrupt again" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, stderr) == (130, "lasthop: interrupted\n")


def test_an_interrupt_while_tables_are_written_names_the_saved_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    words = ["compare", *SHORT, "--schemes", "reno,snoop", "--seeds", "3"]
    with monkeypatch.context() as patched:
        patched.setattr("lasthop.plotting.styles.save", interrupt)
        assert main([*words, "--out", str(tmp_path)]) == 130
        assert (
            f"interrupted; 6 of 6 runs are saved in {tmp_path}/runs.csv; repeat the command to"
            " write" in capsys.readouterr().err
        )
    with monkeypatch.context() as patched:
        patched.setattr("lasthop.tables.summary.comparison", interrupt)
        assert main(words) == 130
        assert "6 of 6 runs are finished but not saved; use --out" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert f"6 of 6 runs reused from {tmp_path}/runs.csv" in capsys.readouterr().err


# Python rules on the command line


def test_run_takes_a_python_rule(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--events", str(tmp_path / "events"), "--pcap", str(tmp_path / "run.pcapng")]
    assert main(["run", *SHORT, "--scheme", f"{rules}:Half", "--seed", "2", "--json", *files]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["scheme"] == "Half"
    assert (tmp_path / "events" / "events.parquet").stat().st_size > 1000
    assert (tmp_path / "run.pcapng").stat().st_size > 1000
    assert (
        main(
            [
                "compare",
                *SHORT,
                "--schemes",
                f"{rules}:Half",
                "--seeds",
                "2",
                "--no-figure",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    row = (tmp_path / "out" / "runs.csv").read_text().splitlines()[2].split(",")
    assert (row[1:3], float(row[3])) == (["Half", "2"], run["flows"][0]["goodput_bps"])


def test_replay_rejects_a_window_rule(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "replay",
                "in.pcapng",
                "--mobile",
                "10.0.0.2",
                "--scheme",
                f"{rules}:Half",
                "--out",
                "out.pcapng",
            ]
        )
        == 2
    )
    assert "is a window rule" in capsys.readouterr().err


def test_empty_items_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["--schemes", "reno,,snoop"],
        ["--schemes", "reno", "--also", "snoop,"],
        ["--schemes", "reno", "--vary", "last_hop.rtt=1ms,,2ms"],
    ):
        assert main(["compare", *SHORT, *words]) == 2
        assert "has an empty item: `" in capsys.readouterr().err
    assert quantities.split("a, ,b") == ["a", "b"]


# Output streams that are closed or have only ASCII


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_output_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    program = f"{sys.executable} -m lasthop"
    for words, status in (
        ("schemes", 0),
        (f"run {' '.join(SHORT)} --json", 0),
        (f"compare {' '.join(SHORT)} --schemes reno --seeds 2 --out {tmp_path}/out", 0),
        ("schemes snop", 2),
    ):
        done = subprocess.run(
            f"{program} {words} {closed}", shell=True, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        # Messages must not go to stdout.
        assert status == 0 or done.stdout == ""
    assert rows_of(tmp_path / "out" / "runs.csv") == 2


def test_an_ascii_output_gets_ascii() -> None:
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)

    def output_of(*words: str) -> str:
        done = subprocess.run([*PROGRAM, *words], capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        return done.stdout.decode("ascii")

    assert " -> " in output_of("run", *SHORT)
    assert " +- " in output_of("compare", *SHORT, "--schemes", "reno,snoop", "--seeds", "3")
    output_of("schemes")
    output_of("schemes", "bbr")
    title = json.loads(output_of("run", *SHORT, "--set", "title=caf\\u00e9", "--json"))["scenario"]
    assert title == "caf\\u00e9"
    assert json.loads(output_of("schemes", "--json"))


@pytest.mark.parametrize(
    "locale", [{}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_arguments_that_are_not_utf_8(tmp_path: Path, locale: dict[str, str]) -> None:
    def done(*words: str | bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*PROGRAM, *words], capture_output=True, check=False, env={**os.environ, **locale}
        )

    for option, text in (("--scheme", b"caf\xe9"), ("--set", b"title=caf\xe9")):
        refused = done("run", *SHORT, option, text)
        assert refused.returncode == 2
        assert b"not text in UTF-8" in refused.stderr
        assert b"Traceback" not in refused.stderr
    # Valid as the name of a folder.
    out = os.fsencode(tmp_path) + b"/\xe9"
    kept = done("compare", *SHORT, "--schemes", "reno", "--seeds", "1", "--out", out)
    assert kept.returncode == 0, kept.stderr
    with open(out + b"/command.txt", "rb") as command:
        assert b"/\xe9" in command.read()


# Text that is a spreadsheet formula or markup


@pytest.mark.parametrize(
    "label", ["=cmd()", "+x", "-x", "@x", "a\\tx", "a\\nb", "<script>", "a&b", "a|b", "$x$", "_x"]
)
def test_labels_that_tables_or_pages_cannot_show_are_rejected(
    tmp_path: Path, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        'duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n[experiment]\nschemes = [{ name = "reno",'
        f' label = "{label}" }}]\n'
    )
    (tmp_path / "cell.toml").write_text(text)
    assert main(["compare", str(tmp_path / "cell.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "must not begin with = + - @" in capsys.readouterr().err
    made = type(
        "Made", (lasthop.CongestionControl,), {"label": label.encode().decode("unicode_escape")}
    )
    with pytest.raises(InputError, match="must not begin with"):
        lasthop.compare(
            text='duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n', schemes=[made], seeds=1
        )


def test_varied_text_is_checked_too(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("=cmd()", "@x", "$x$", "a\tb"):
        assert main(["compare", *SHORT, "--schemes", "reno", "--vary", f"title=plain,{value}"]) == 2
        assert "--vary title: a value must not" in capsys.readouterr().err


def test_ordinary_labels_are_accepted(tmp_path: Path) -> None:
    schemes = ["reno:label=D = 12, 5 %", "snoop:label=größer (2)"]
    found = lasthop.compare(
        text='duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n',
        schemes=schemes,
        seeds=1,
        out=tmp_path,
    )
    assert found.plan.labels == ["D = 12, 5 %", "größer (2)"]


def test_a_title_is_shown_unchanged(tmp_path: Path) -> None:
    text = 'title = "$\\\\frac{ <b> & $5"\nduration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n'
    lasthop.compare(
        text=text,
        schemes=["reno"],
        seeds=1,
        out=tmp_path,
        vary={"last_hop.rtt": ["10 ms", "20 ms"]},
    )
    assert "$\\frac{ &lt;b&gt; &amp; $5" in (tmp_path / "figure.svg").read_text()


# Installation folder and clock


def test_nothing_is_written_to_the_package_folder(tmp_path: Path) -> None:
    package = Path(store.__file__).parents[1]

    def state() -> dict[str, int]:
        return {
            str(p): p.stat().st_mtime_ns
            for p in package.rglob("*")
            if "__pycache__" not in p.parts and p.name != "__pycache__"
        }

    before = state()
    for words in (
        ["schemes"],
        ["run", *SHORT, "--pcap", "run.pcapng", "--events", "events"],
        ["compare", *SHORT, "--schemes", "reno", "--seeds", "2", "--out", "out"],
        ["reproduce", "zeng2006/fig15", "--quick", "--set", "duration=10s", "--out", "figures"],
    ):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            [*PROGRAM, *words], capture_output=True, check=True, cwd=tmp_path, env=environment
        )
    assert {k: v for k, v in state().items() if not k.endswith("lasthop")} == {
        k: v for k, v in before.items() if not k.endswith("lasthop")
    }


def test_the_wall_clock_is_not_read() -> None:
    """Setting the clock during a comparison changes neither results nor progress line."""
    root = Path(__file__).parents[1]
    sources = [*root.glob("python/lasthop/**/*.py"), *root.glob("crates/*/src/**/*.rs")]
    assert len(sources) > 50
    clocks = ("time.time(", "SystemTime", "time.localtime", "time.gmtime", ".today(", ".utcnow(")
    for file in sources:
        text = file.read_text(encoding="utf-8")
        assert not [word for word in (*clocks, "datetime.now(") if word in text], file
