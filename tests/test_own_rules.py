"""Python window rules on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from busy import PATIENCE
from commands import document

from lasthop.cli.main import main

RULES = """
import lasthop

class Half(lasthop.CongestionControl):
    recovery = "newreno"

    def on_ack(self, window, ack):
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += min(ack.bytes, ack.mss) if slow_start else ack.mss * ack.mss / window.cwnd

class Broken(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        raise ValueError("no idea")
"""
HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%"]


def test_compare_takes_a_python_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    words = ("--set", "tcp.profile=rfc", "--schemes", f"newreno,{file}:Half", "--seeds", "3")
    newreno, half = document(capsys, "compare", *HOP, *words)["points"][0]["schemes"]
    assert half["label"] == "Half"
    for key in ("mean", "sd", "ci95", "quantiles", "correlation_to_first"):
        assert half["goodput_bps"][key] == newreno["goodput_bps"][key]
    gap = half["goodput_bps"]["difference_to_first"]
    assert (gap["mean"], gap["ci95"], gap["p"]) == (0.0, [0.0, 0.0], 1.0)


def test_an_exception_ends_only_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    assert (
        main(["compare", *HOP, "--schemes", f"reno,{file}:Broken", "--seeds", "3", "--json"]) == 1
    )
    captured = capsys.readouterr()
    reno, broken = json.loads(captured.out)["points"][0]["schemes"]
    assert (reno["runs"], broken["runs"]) == (3, 0)
    assert "ValueError: no idea" in captured.err


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("mine.py", "which class?"),
        ("mine.py:Other", "it has: Half, Broken"),
        ("none.py:Half", "there is no file none.py"),
        ("bad.py:X", "line 1 of bad.py: SyntaxError"),
    ],
)
def test_errors_in_rule_files_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scheme: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RULES)
    Path("bad.py").write_text("class :")
    assert main(["compare", *HOP, "--schemes", f"reno,{scheme}"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_shipped_trace_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hop = ("--down", "synthetic-lte.down", "--up", "synthetic-lte.up", "--rtt", "40ms")
    run = document(capsys, "run", *hop, "--set", "duration=5 s")
    assert run["flows"][0]["goodput_bps"] > 1e6


def test_a_special_output_file_is_written_directly(tmp_path: Path) -> None:
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert main(["run", *HOP, "--set", "duration=1 s", "--pcap", str(pipe), "--json"]) == 0
    reader.join(timeout=PATIENCE)
    assert pipe.is_fifo()
    assert got[0][:4] == b"\x0a\x0d\x0d\x0a"
