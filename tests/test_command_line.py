from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from busy import PATIENCE, children_cpu_seconds, cpu_seconds
from processes import rows_of, wait_for

from lasthop import _native
from lasthop.cli import arguments
from lasthop.cli.main import main

HEAVY = ["polars", "numpy", "scipy", "matplotlib", "rich"]
HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%"]
SHORT = [*HOP, "--set", "duration=5s"]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["schemes"],
        ["schemes", "reno"],
        ["run", *SHORT],
        ["run", "--help"],
    ],
)
def test_simple_commands_import_no_large_package(words: list[str]) -> None:
    code = f"""
import sys
from lasthop.cli.main import main
try:
    main({words!r})
except SystemExit:
    pass
print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def lasthop(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lasthop", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


def commands() -> list[str]:
    actions = [a for a in arguments.parser()._actions if isinstance(a.choices, dict)]
    return list(actions[0].choices or [])


@pytest.mark.parametrize("command", commands())
def test_help_of_each_command_has_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    assert done.value.code == 0
    assert f"examples:\n  lasthop {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "invalid choice"),
        (["run"], "give a scenario FILE"),
        (["run", "nowhere.toml"], "nowhere.toml: No such file"),
        (["run", *HOP, "--scheme", "renoo"], "did you mean `reno`"),
        (["run", *HOP, "--seed", "x"], "invalid int value"),
        (["run", *HOP, "--seed", "-1"], "must not be negative"),
        (["run", *HOP, "--set", "duration"], "KEY=VALUE"),
        (["run", "--rate", "fast"], "fast"),
        (["compare", *HOP], "which schemes"),
        (["compare", *HOP, "--schemes", "reno", "--seeds", "0"], "at least 1"),
        (["compare", *HOP, "--schemes", "reno,reno"], "label"),
        (["compare", *HOP, "--schemes", "reno", "--vary", "last_hop.loss"], "KEY=VALUE"),
        (["compare", *HOP, "--schemes", "reno", "--vary", "los=1%,2%"], "--vary los: unknown key"),
        (["compare", *HOP, "--schemes", "reno", "--vary", "loss=1%,200%"], "--vary loss"),
        (["compare", *HOP, "--schemes", "reno", "--limit", "1 parsec"], "--limit must be a time"),
        (["compare", *HOP, "--schemes", "reno", "--set", "duration=1000000000 s"], "--limit"),
        (["reproduce", "zeng2006/fig99"], "there is no figure"),
        (["schemes", "snop"], "did you mean `snoop`"),
    ],
)
def test_wrong_input_gives_one_message_and_status_2(words: list[str], message: str) -> None:
    done = lasthop(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("lasthop: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_run_prints_text_or_json() -> None:
    done = lasthop("run", *SHORT, "--scheme", "snoop")
    assert done.returncode == 0
    assert "agent snoop" in done.stdout
    assert "assumed:" in done.stdout
    assert done.stderr == ""
    again = json.loads(lasthop("run", *SHORT, "--scheme", "snoop", "--json").stdout)
    assert again["seed"] == 1
    assert again["flows"][0]["goodput_bps"] > 0


def explained(*words: str) -> dict[tuple[str, str], str]:
    done = lasthop("run", *SHORT, *words, "--explain", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert {"ground truth", "traffic ledger"} <= set(plan["probes"])
    assert all(link["why"] for link in plan["links"])
    return {(link["from"], link["to"]): link["mode"] for link in plan["links"]}


def test_run_explain_shows_how_links_are_computed(tmp_path: Path) -> None:
    down, up = ("bs", "phone"), ("bs", "server")
    plain = explained("--scheme", "reno")
    assert (plain["server", "bs"], plain[down], plain[up]) == ("computed", "chained", "chained")
    # Snoop handles every segment at the base station, and sends packets from there.
    agent = explained("--scheme", "snoop")
    assert (agent[down], agent[up]) == ("computed", "computed")
    # A discipline decides when a frame leaves; events are read at their time.
    codel = explained("--scheme", "reno", "--set", 'link.radio.queue={discipline="codel"}')
    assert codel[down] == "evented"
    events = tmp_path / "events"
    assert explained("--scheme", "reno", "--events", str(events))[down] == "computed"
    assert not events.exists(), "nothing is simulated"
    text = lasthop("run", *SHORT, "--scheme", "snoop", "--explain").stdout
    assert "bs>phone" in text
    assert "not chained: its frames have several origins" in text


def test_run_with_seed_k_reproduces_row_k(tmp_path: Path) -> None:
    done = lasthop(
        "compare",
        *SHORT,
        "--schemes",
        "reno,snoop",
        "--seeds",
        "3",
        "--out",
        str(tmp_path),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["points"][0]["schemes"][1]["runs"] == 3
    row = next(
        r.split(",")
        for r in (tmp_path / "runs.csv").read_text().splitlines()
        if r.startswith("0,snoop,2")
    )
    single = json.loads(lasthop("run", *SHORT, "--scheme", "snoop", "--seed", "2", "--json").stdout)
    assert float(row[3]) == single["flows"][0]["goodput_bps"]


def test_a_scenario_file_with_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "cell.toml").write_text(
        'title = "cell"\nduration = "4 s"\n[last_hop]\nrate = "1 Mbps"\nloss = "2'
        ' %"\n[experiment]\nschemes = ["reno", { name = "snoop", label = "ours" }]\nseeds ='
        ' 4\n[experiment.vary]\n"last_hop.rtt" = ["40 ms", "100 ms"]\n'
    )
    found = json.loads(
        lasthop("compare", "cell.toml", "--also", "tahoe", "--json", cwd=tmp_path).stdout
    )
    assert found["scenario"] == "cell"
    assert len(found["seeds"]) == 4
    assert [s["label"] for s in found["points"][1]["schemes"]] == ["reno", "ours", "tahoe"]
    assert found["points"][1]["set"] == {"last_hop.rtt": "100 ms"}


def test_interrupting_a_sweep(tmp_path: Path) -> None:
    words = [
        "compare",
        *HOP,
        "--set",
        "duration=2000s",
        "--schemes",
        "reno,snoop",
        "--seeds",
        "100000",
        "--limit",
        "900 d",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    rows = tmp_path / "runs.csv"
    wait_for(lambda: rows_of(rows) >= 4, process)
    before = children_cpu_seconds() + cpu_seconds(process.pid)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert children_cpu_seconds() - before < 10
    assert "interrupted after" in stderr
    assert "Traceback" not in stderr
    kept = len(rows.read_text().splitlines()) - 1
    assert f"after {kept} of 200000" in stderr
    assert (tmp_path / "table.csv").exists()


def test_a_killed_sweep_can_be_continued(tmp_path: Path) -> None:
    words = [
        "compare",
        *HOP,
        "--set",
        "duration=200s",
        "--schemes",
        "reno,snoop",
        "--no-figure",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words, "--seeds", "30"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    rows = tmp_path / "runs.csv"
    wait_for(lambda: rows_of(rows) >= 8, process)
    process.kill()
    process.wait()
    kept = rows.read_text().splitlines()
    assert len(kept) >= 9
    again = lasthop(*words, "--seeds", "30", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["points"][0]["schemes"][1]["runs"] == 30
    assert set(kept[1:-1]) <= set(rows.read_text().splitlines())


def test_interrupting_a_single_run() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lasthop", "run", *HOP, "--set", "duration=1000000s"],
        stderr=subprocess.PIPE,
        text=True,
    )
    # More than Python needs to start: the run has begun.
    wait_for(lambda: cpu_seconds(process.pid) > 1, process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stderr) == (130, "lasthop: interrupted\n")


#: A run takes a second, in which progress is not shown, but no processor time.
SLEEPS = """
import time
import lasthop

class Sleeps(lasthop.CongestionControl):
    slept = False

    def on_ack(self, window, ack):
        if not self.slept:
            self.slept = True
            time.sleep(1.1)
"""


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    rule = tmp_path / "mine.py"
    rule.write_text(SLEEPS)
    words = ["compare", *SHORT, "--schemes", f"{rule}:Sleeps", "--seeds", "4"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words], stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the terminal is gone when the process is
        while part := os.read(ours, 4096):
            shown += part
    assert process.wait() == 0
    assert b" of 4 (" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m lasthop schemes --json | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "["
    assert done.stderr == ""


def test_no_colour_codes_and_no_progress_when_piped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lasthop", "compare", *SHORT, "--schemes", "reno", "--seeds", "3"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert "\x1b" not in done.stdout + done.stderr


def test_doctor() -> None:
    done = lasthop("doctor")
    assert done.returncode == 0
    assert "simulator" in done.stdout
    assert ("slow build" in done.stdout) == _native.is_dev_build()
    found = json.loads(lasthop("doctor", "--json").stdout)
    assert all("ok" in check for check in found["checks"])
    assert found["link"] in (True, False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["compare", *SHORT, "--seed", "42"],
            "compare has --seeds N (use seeds 1 to N); run, inspect and link have --seed N",
        ),
        (["compare", *SHORT, "--scheme", "reno"], "compare has --schemes S1,S2,…"),
        (["run", *SHORT, "--schemes", "reno"], "run has --scheme S"),
        (["inspect", *SHORT, "--scheme", "reno,cubic", "--json"], "several are --schemes reno,cub"),
        (["run", "--colour", "red"], "run has no option --colour (see"),
        (["run", "a.toml", "b.toml", "c.toml"], "unrecognized arguments: b.toml c.toml"),
    ],
)
def test_an_option_of_another_command_is_refused_with_a_hint(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert expected in capsys.readouterr().err


def test_no_command_takes_an_abbreviation(capsys: pytest.CaptureFixture[str]) -> None:
    tried: set[str] = set()
    for command in arguments.tree():
        taken = {flag for o in command.options() for flag in o.flags}
        is_first = True
        for option in command.options():
            name = option.flags[-1] if option.flags else ""
            short = name[:-1]
            # One of each command, and each once.
            if len(short) < 4 or short in taken or (short in tried and not is_first):
                continue
            is_first = False
            tried.add(short)
            value = f"={(option.choices or ['1'])[0]}" if option.takes_value else ""
            assert main([command.name, short + value][not command.name :]) == 2, (command, short)
            assert re.search("no option|required", capsys.readouterr().err), (command, short)


#: Options whose values differ between commands: what the command writes, and what its exit status
#: depends on (a rule of `check`, groups of `evaluate`).
DIFFERING = {"--out", "--pcap", "--gate"}
#: Values with more forms in one command.
FORMS = {"N|A..B": "N", "SCHEMES": "S1,S2,…", "S,…": "S1,S2,…"}


def test_an_option_takes_the_same_value_in_all_commands() -> None:
    values: dict[str, set[str]] = {}
    for command in arguments.tree():
        for option in command.options():
            for flag in option.flags:
                values.setdefault(flag, set()).add(FORMS.get(option.value, option.value))
    differing = {flag for flag, found in values.items() if len(found) > 1}
    assert differing == DIFFERING


@pytest.mark.parametrize(
    "words",
    [
        ["--rate", "10"],
        ["--rtt", "40"],
        ["--loss", "1"],
        ["--queue", "10"],
        ["--duration", "10"],
        ["--start", "1"],
        ["--set", "tcp.min_rto=1"],
        ["--set", "tcp.receive_window=65536"],
    ],
)
def test_a_number_without_a_unit_is_refused_if_it_is_ambiguous(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = dict(zip(HOP[::2], HOP[1::2], strict=True))
    given.pop(words[0], None)
    assert main(["run", *(x for pair in given.items() for x in pair), *words]) == 2
    error = capsys.readouterr().err
    assert "such as" in error or "ambiguous" in error
