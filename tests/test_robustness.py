"""Interrupts, closed and ASCII streams, altered files and faulty rules.

Nothing hangs, no finished run is lost, and each case has an error message.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLoader

import lasthop
from lasthop import quantities
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.experiments import plan, provenance, store
from lasthop.experiments.comparison import compare

HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%"]
SHORT = [*HOP, "--set", "duration=2s"]
LONG = [*HOP, "--set", "duration=100000s", "--limit", "900 d"]
RULES = """
import pathlib
import sys
import lasthop

class Half(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        window.cwnd += ack.mss * ack.mss / window.cwnd

class Broken(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        self.helper()

    def helper(self):
        raise ValueError("no idea")

class Leaves(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        sys.exit("had enough")

class Interrupts(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        raise KeyboardInterrupt

class Stuck(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        pathlib.Path(__file__).with_name("stuck").touch()
        while True:
            pass
"""
PROGRAM = [sys.executable, "-m", "lasthop"]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    return file


def started(*words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        **options,
    )


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def rows_of(file: Path) -> int:
    return len(file.read_text().splitlines()) - 1 if file.exists() else 0


# Faulty rules


@pytest.mark.parametrize(
    ("rule", "error"), [("Leaves", "SystemExit: had enough"), ("Interrupts", "KeyboardInterrupt")]
)
def test_a_rule_that_exits_fails_only_its_runs(rules: Path, rule: str, error: str) -> None:
    process = started(
        "compare", *SHORT, "--schemes", f"reno,{rules}:{rule}", "--seeds", "3", "--json"
    )
    try:
        out, stderr = process.communicate(timeout=60)
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
        _, stderr = process.communicate(timeout=20)
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


def test_a_second_signal_ends_a_single_run(rules: Path) -> None:
    process = started("run", *SHORT, "--scheme", f"{rules}:Stuck")
    try:
        wait_for(rules.with_name("stuck").exists, process)
        process.send_signal(signal.SIGINT)
        # After a slow stop the message says how to exit immediately.
        assert process.stderr is not None
        assert "interrupt again" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=20)
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
        patched.setattr("lasthop.analysis.summary.comparison", interrupt)
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


# Reused runs


def key_of(scheme: type[lasthop.CongestionControl] | str, build: str = "") -> str:
    return (
        plan.plan(plan.Source("x"), [scheme], 1, version="1", build=build, loader=FakeLoader())
        .cases[0]
        .key
    )


def test_the_key_covers_all_imports_of_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "rule_main.py": (
            "import lasthop\nfrom rule_helper import BETA\nK = 1\nclass"
            " Mine(lasthop.CongestionControl):\n    def on_ack(self, window, ack):\n        import"
            " rule_late\n"
        ),
        "rule_helper.py": "import json\nfrom rule_package import deep\nBETA = deep.VALUE\n",
        "rule_package/__init__.py": "",
        "rule_package/deep.py": "from . import deeper\nVALUE = 1\n",
        "rule_package/deeper.py": "",
        "rule_late.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import rule_main  # type: ignore[import-not-found]

    (tmp_path / "other.py").write_text("")
    keys = [key_of(rule_main.Mine)]
    for name, text in files.items():
        (tmp_path / name).write_text(text + "# changed\n")
        keys.append(key_of(rule_main.Mine))
    assert len(set(keys)) == 1 + len(files)
    assert key_of(rule_main.Mine) == keys[-1]


def test_another_build_has_another_key() -> None:
    assert key_of("reno", "a") != key_of("reno", "b")
    assert provenance.build_id() == provenance.build_id()


def test_code_without_a_file_never_has_the_same_key() -> None:
    made = type("Made", (lasthop.CongestionControl,), {"__module__": "no_such_module"})
    assert key_of(made) != key_of(made)


def test_a_changed_constant_invalidates_old_runs(rules: Path, tmp_path: Path) -> None:
    rules.write_text(
        "import lasthop\nfrom beside import BETA\nclass Mine(lasthop.CongestionControl):\n    def"
        " on_ack(self, window, ack):\n        window.cwnd = BETA\n"
    )
    found = []
    for beta in (3000.0, 30000.0):
        (tmp_path / "beside.py").write_text(f"BETA = {beta}\n")
        words = [
            *PROGRAM,
            "compare",
            *SHORT,
            "--schemes",
            f"{rules}:Mine",
            "--seeds",
            "2",
            "--json",
            "--out",
            str(tmp_path / "out"),
        ]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["points"][0]["schemes"][0]["goodput_bps"]["mean"])
    assert found[1] > 2 * found[0]
    assert "2 rows of" in done.stderr
    assert (
        "belong to another scenario, rule or build of lasthop and are not reused; they are saved in"
        " runs.previous.csv" in done.stderr
    )


def again(out: Path, schemes: tuple[str, ...] = ("reno", "snoop")) -> int:
    """Compare with output to `out`; return the number of runs done."""
    loader = FakeLoader()
    compare(
        plan.plan(plan.Source("x"), schemes, 3, version="1", loader=loader), version="1", out=out
    )
    return loader.runs


def test_the_number_of_reused_runs_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path, ("reno",)) == 3
    assert capsys.readouterr().err == ""
    assert again(tmp_path) == 3
    assert capsys.readouterr().err == f"lasthop: 3 of 6 runs reused from {tmp_path}/runs.csv\n"


@pytest.mark.parametrize(
    "alter",
    [
        lambda row: row.replace(b"1401", b"1402"),
        lambda row: row.replace(b"1401", b"nan"),
        lambda row: row.replace(b"1401", b""),
        lambda row: row.replace(b"1401", b"14\xff01"),
        lambda row: row.replace(b"1401", b'"1401'),
        lambda row: row.replace(b"1401,", b"1401,7,"),
        lambda row: row.replace(b"1401", b"14\x0001"),
        lambda row: b"\xff\xfe" + row,
    ],
)
def test_an_altered_row_is_not_reused(
    tmp_path: Path, alter: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path) == 6
    file = tmp_path / "runs.csv"
    good = file.read_bytes()
    lines = good.splitlines(keepends=True)
    assert b"1401" in lines[1]
    altered = b"".join([lines[0], alter(lines[1]), *lines[2:]])
    assert altered != good
    file.write_bytes(altered)
    assert again(tmp_path) == 1
    stderr = capsys.readouterr().err
    assert (
        f"1 rows of {file} were altered or damaged after they were written and are not reused; they"
        " are saved in runs.previous.csv" in stderr
    )
    assert "5 of 6 runs reused" in stderr
    assert file.read_bytes() == good
    assert (tmp_path / "runs.previous.csv").read_bytes() == altered


def test_rows_of_an_older_version_are_saved_separately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path) == 6
    file = tmp_path / "runs.csv"
    old = "".join(line.rpartition(",")[0] + "\n" for line in file.read_text().splitlines())
    file.write_text(old)
    assert again(tmp_path) == 6
    assert (
        capsys.readouterr().err
        == f"lasthop: 6 rows of {file} belong to an older version and are not reused; they are"
        " saved in runs.previous.csv\n"
    )
    assert (tmp_path / "runs.previous.csv").read_text() == old


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00\x01\x80", b"name,value\n1,2\n", "größe".encode("utf-16")]
)
def test_a_file_that_is_not_a_table_of_runs_is_not_changed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is not a table of runs"):
        again(tmp_path)
    assert file.read_bytes() == content


# Two writers


def test_a_second_writer_is_rejected_and_the_first_continues(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    words = ("compare", *LONG, "--schemes", "reno", "--seeds", "10000", "--out", out)
    first = started(*words)
    try:
        wait_for(
            lambda: (
                rows_of(tmp_path / "out" / "runs.csv") >= 0
                and (tmp_path / "out" / "runs.csv").exists()
            ),
            first,
        )
        for second in (words, ("reproduce", "zeng2006/fig15", "--quick", "--out", out)):
            refused = subprocess.run(
                [*PROGRAM, *second], capture_output=True, text=True, check=False, timeout=60
            )
            assert refused.returncode == 2
            assert (
                refused.stderr
                == f"lasthop: another lasthop is writing to {out}; wait for it, or give another"
                " --out\n"
            )
            assert first.poll() is None
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    finally:
        first.kill()
    assert first.returncode == 130


def test_only_one_of_two_simultaneous_writers_writes(tmp_path: Path) -> None:
    words = (
        "compare",
        *LONG,
        "--schemes",
        "reno",
        "--seeds",
        "10000",
        "--out",
        str(tmp_path / "new"),
    )
    both = [started(*words) for _ in range(2)]
    deadline = time.monotonic() + 60
    try:
        while all(p.poll() is None for p in both) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        ended = [p for p in both if p.poll() is not None]
        for process in both:
            process.send_signal(signal.SIGINT)
        stderr = [p.communicate(timeout=60)[1] for p in both]
        for process in both:
            process.kill()
    assert len(ended) == 1
    assert sorted(p.returncode for p in both) == [2, 130]
    assert sum("another lasthop is writing" in text for text in stderr) == 1


def test_tables_and_figures_are_written_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def intrude(*_: object) -> None:
        with pytest.raises(InputError) as refused, store.sole_writer(tmp_path):
            pass
        found.append(str(refused.value))

    monkeypatch.setattr("lasthop.plotting.styles.save", intrude)
    lasthop.compare(
        text='duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n',
        schemes=["reno"],
        seeds=1,
        out=tmp_path,
    )
    assert "another lasthop" in found[0]
    with store.sole_writer(tmp_path):
        pass


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
    for file in sources:
        text = file.read_text(encoding="utf-8")
        assert not [
            word
            for word in ("time.time(", "datetime", "SystemTime", "time.localtime", "time.gmtime")
            if word in text
        ], file
