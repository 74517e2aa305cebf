"""`lasthop check`: a baseline with the same draws, gates, JUnit XML."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from busy import children_cpu_seconds
from processes import PROGRAM, ended

from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.experiments import baseline

# A constant window: goodput is proportional to it, on a link that it does not fill.
RULE = """
import lasthop

SEGMENTS = {segments}

class Constant(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        window.cwnd = window.ssthresh = SEGMENTS * ack.mss

    def on_loss(self, window, loss):
        pass
"""
HOP = ["--rate", "10Mbps", "--rtt", "200ms", "--loss", "0.1%"]


def lasthop(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A fresh process, which reads the rule as it is now."""
    return ended([*PROGRAM, *words], cwd=cwd)


def test_a_rule_that_is_three_percent_worse_fails(tmp_path: Path) -> None:
    rule = tmp_path / "mine.py"
    rule.write_text(RULE.format(segments=100))
    words = ("check", "base.json", "--update", *HOP, "--schemes", "mine.py:Constant")
    assert lasthop(*words, "--seeds", "10", cwd=tmp_path).returncode == 0

    before = children_cpu_seconds()
    same = lasthop("check", "base.json", "--junit", "same.xml", cwd=tmp_path)
    assert children_cpu_seconds() - before < 30
    assert same.returncode == 0, same.stdout
    assert "ok  Constant: goodput_bps >= 0.98: ratio 1.0000" in same.stdout
    suite = ElementTree.parse(tmp_path / "same.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")

    rule.write_text(RULE.format(segments=97))
    worse = lasthop("check", "base.json", "--junit", "worse.xml", "--json", cwd=tmp_path)
    assert worse.returncode == 1, worse.stdout
    found = json.loads(worse.stdout)
    assert not found["ok"]
    (result,) = found["results"]
    assert result["verdict"] == "worse"
    assert result["ratio"] == pytest.approx(0.97, abs=0.01)
    suite = ElementTree.parse(tmp_path / "worse.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    failure = suite.find(".//testcase[@classname='lasthop.Constant']/failure")
    assert failure is not None
    assert "WORSE" in (failure.text or "")
    assert lasthop("check", "base.json", "--gate", "goodput >= 0.9", cwd=tmp_path).returncode == 0


def test_a_baseline_is_written_again_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "cell.toml"
    text = 'duration = "2 s"\n[last_hop]\nrate = "2 Mbps"\nrtt = "40 ms"\nloss = "1 %"\n'
    file.write_text(text)
    words = ["check", "b.json", "--update", "cell.toml", "--schemes", "reno,snoop", "--seeds", "4"]
    gates = ["--gate", "goodput >= 0.98", "--gate", "delay <= 1.02"]
    assert main([*words, "--vary", "last_hop.rtt=20..40..20ms", *gates]) == 0
    assert main(["check", "b.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert len(found["results"]) == 2 * 2 * 2
    file.write_text(text.replace("1 %", "3 %"))
    assert main(["check", "b.json"]) == 2
    assert "cell.toml was changed since b.json was written" in capsys.readouterr().err
    assert main(["check", "b.json", "--update"]) == 0
    assert main(["check", "b.json"]) == 0
    assert "8 of 8 gates hold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("new", "old", "verdict"),
    [
        ([97.0, 97.1, 96.9], [100.0, 100.1, 99.9], "worse"),
        ([99.0, 99.1, 98.9], [100.0, 100.1, 99.9], "ok"),
        ([110.0, 90.0, 95.0], [100.0, 101.0, 99.0], "undecided"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], "ok"),
        ([1.0, None, 3.0], [1.0, 2.0, 3.0], "worse"),
        ([None, None, 3.0], [1.0, None, 3.0], "ok"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "undecided"),
    ],
)
def test_verdicts(new: list[float | None], old: list[float | None], verdict: str) -> None:
    gate = baseline.read_gate("goodput >= 0.98")
    assert baseline._judge(gate, "x", {}, new, old, False).verdict == verdict


def test_a_metric_that_was_zero() -> None:
    gate = baseline.read_gate("timeouts <= 1.1")
    assert baseline._judge(gate, "x", {}, [0.0] * 3, [0.0] * 3, False).verdict == "ok"
    assert baseline._judge(gate, "x", {}, [1.0, 0.0, 2.0], [0.0] * 3, False).verdict == "worse"


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("goodput >= 0.98", "goodput_bps >= 0.98"),
        ("goodput>=98 %", "goodput_bps >= 0.98"),
        ("delay ≤ 1.05", "one_way_delay_s_p95 <= 1.05"),
    ],
)
def test_gates(text: str, gate: str) -> None:
    assert str(baseline.read_gate(text)) == gate


@pytest.mark.parametrize("text", ["goodput", "goodput > 1", "x >= 1", "goodput >= x", "jain >= 0"])
def test_wrong_gates(text: str) -> None:
    with pytest.raises(InputError, match="--gate"):
        baseline.read_gate(text)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema_version": 1}'])
def test_other_files_are_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text(content)
    assert main(["check", str(tmp_path / "b.json")]) == 2
    assert "is not a baseline" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.json")]) == 2
    assert "write a baseline with" in capsys.readouterr().err
