"""The same names of own schemes in all commands and functions: FILE.py:CLASS:KEY=VALUE."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import PROGRAM, ended

import lasthop
from lasthop import InputError
from lasthop.cli.main import main
from lasthop.experiments import axes

FILE = """
import lasthop

class Keep(lasthop.CongestionControl):
    recovery = "newreno"
    needs = ("pacing",)
    beta = 0.5

    def on_ack(self, window, ack):
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += min(ack.bytes, ack.mss) if slow_start else ack.mss * ack.mss / window.cwnd
        window.pacing_bps = 2 * 8 * window.cwnd / ack.srtt_s if ack.srtt_s else None
        window.record("cwnd", window.cwnd)

    def on_loss(self, window, loss):
        loss.halve(window)
        if loss.kind == "duplicate-acks":
            window.ssthresh = window.cwnd = loss.ssthresh(self.beta * loss.base)

class Thin(lasthop.Agent):
    sender = "newreno"
    every = 2

    def __init__(self):
        self.seen = self.dropped = 0

    def on_segment(self, ctx, segment):
        if segment.direction == "uplink" and segment.is_pure_ack:
            self.seen += 1
            if self.seen % self.every:
                self.dropped += 1
                return lasthop.Verdict.drop("thinned")

    def counters(self):
        return {"dropped": self.dropped}
"""
HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--duration", "4s"]
SETTINGS = {"duration": 4}
VALUES = {"rate": 2e6, "rtt": 0.04, "loss": 0.01}
NAMES = ["mine.py:Keep", "mine.py:Keep:beta=0.9", "mine.py:Thin:every=3", "newreno"]
LABELS = ["Keep", "Keep:beta=0.9", "Thin:every=3", "newreno"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def facts(document: Any) -> dict[str, Any]:
    """A document without the command and the time that it took."""
    return {k: v for k, v in document.items() if k not in ("command", "elapsed_s")}


@pytest.mark.parametrize("name", NAMES)
def test_run_inspect_and_explain_take_the_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    label = LABELS[NAMES.index(name)]
    done = printed(capsys, "run", *HOP, "--scheme", name, "--events", "events")
    assert done["scheme"] == label
    assert Path("events/events.parquet").is_file()
    same = lasthop.run(last_hop=VALUES, scheme=name, flows={"duration": 4})
    assert same.data["flows"] == done["flows"]
    seen = printed(capsys, "inspect", *HOP, "--schemes", f"cubic,{name}", "--out", "run.html")
    assert label in Path("run.html").read_text()
    looked = lasthop.inspect(
        last_hop=VALUES, schemes=["cubic", name], flows={"duration": 4}
    ).to_dict()
    looked = json.loads(json.dumps(looked))
    assert facts(looked) == facts(seen)
    explained = printed(capsys, "run", *HOP, "--scheme", name, "--explain")
    assert facts(explained) == facts(
        lasthop.explain(last_hop=VALUES, scheme=name, flows={"duration": 4})
    )


def test_compare_and_sweep_agree(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--schemes", ",".join(NAMES), "--seeds", "3", "--out"]
    compared = printed(capsys, "compare", *words, "compared", "--no-figure")
    (point,) = compared["points"]
    assert [s["label"] for s in point["schemes"]] == LABELS
    swept = printed(capsys, "sweep", *words, "swept", "--jobs", "2")
    assert (swept["runs"], swept["failed"]) == (12, [])
    import polars

    table = polars.read_parquet("swept/table.parquet")
    of = {(r["scheme"], r["metric"]): r["mean"] for r in table.rows(named=True)}
    for scheme in point["schemes"]:
        assert of[scheme["label"], "goodput_bps"] == scheme["goodput_bps"]["mean"]
    assert of["Thin:every=3", "agents.Thin.dropped"] > 50


def test_a_setting_is_varied_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--schemes", "newreno,mine.py:Keep", "--vary", "tcp.scheme.beta=0.5,0.9"]
    compared = printed(capsys, "compare", *words, "--seeds", "2")
    goodput = [[s["goodput_bps"]["mean"] for s in p["schemes"]] for p in compared["points"]]
    assert goodput[0][0] == goodput[1][0]
    assert goodput[0][1] != goodput[1][1]
    printed(capsys, "sweep", *words, "--seeds", "2", "--out", "swept", "--jobs", "1")
    result = lasthop.compare(
        last_hop=VALUES,
        schemes=["newreno", "mine.py:Keep"],
        vary={"tcp.scheme.beta": [0.5, 0.9]},
        flows={"duration": 4},
        seeds=2,
    )
    assert [
        [s["goodput_bps"]["mean"] for s in p["schemes"]] for p in result.to_dict()["points"]
    ] == goodput


def test_check_takes_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    baseline = ["--schemes", "newreno,mine.py:Keep:beta=0.9", "--seeds", "10", *HOP[:-2]]
    baseline += ["--set", "duration=4s"]
    assert main(["check", "base.json", "--update", *baseline]) == 0
    capsys.readouterr()
    assert main(["check", "base.json"]) == 0
    Path("mine.py").write_text(FILE.replace("self.beta * loss.base", "0.1 * loss.base"))
    again = ended([*PROGRAM, "check", "base.json", "--gate", "goodput >= 0.98"])
    assert again.returncode == 1, again.stdout + again.stderr
    assert "Keep:beta=0.9" in again.stdout


# lasthop.sweep


def test_a_sweep_in_python_is_the_sweep_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    zipped = "last_hop.rate=1..2..1 Mbps & last_hop.queue=20..40..20 packets"
    done = printed(
        capsys,
        *("sweep", *HOP, "--schemes", "newreno,snoop", "--vary", "last_hop.loss=1%,2%"),
        *("--zip", zipped, "--seeds", "2..3", "--out", "a", "--jobs", "1"),
    )
    result = lasthop.sweep(
        last_hop=VALUES,
        schemes=["newreno", "snoop"],
        vary={"last_hop.loss": [0.01, 0.02]},
        zip=[{"last_hop.rate": [1e6, 2e6], "last_hop.queue": "20..40..20 packets"}],
        flows={"duration": 4},
        seeds=range(2, 4),
        out="b",
        jobs=1,
    )
    assert (result.data["runs"], result.data["points"]) == (done["runs"], done["points"]) == (16, 4)
    import polars

    assert result.runs.drop("last_hop.loss").equals(
        polars.read_parquet("a/runs.parquet").drop("last_hop.loss")
    )
    again = lasthop.sweep(
        last_hop=VALUES,
        schemes=["newreno", "snoop"],
        vary={"last_hop.loss": [0.01, 0.02]},
        zip=[{"last_hop.rate": [1e6, 2e6], "last_hop.queue": "20..40..20 packets"}],
        flows={"duration": 4},
        seeds="2..3",
        out="b",
        quiet=True,
    )
    assert (again.data["reused"], again.data["runs"]) == (16, 16)
    assert str(again) in capsys.readouterr().out or "16 runs (16 reused)" in str(again)


def test_a_sweep_stops_and_shards() -> None:
    options: dict[str, Any] = {
        "last_hop": VALUES,
        "schemes": ["newreno"],
        "vary": {"last_hop.loss": [0.001, 0.02]},
        "settings": {"duration": 2},
        "quiet": True,
        "jobs": 1,
    }
    stopped = lasthop.sweep(**options, until="goodput ± 20 %", max_seeds=40, seeds=5, out="until")
    counts = stopped.runs.group_by("last_hop.loss").len()["len"].to_list()
    assert all(5 <= n <= 40 for n in counts)
    halves = [
        lasthop.sweep(**options, seeds=3, shard="1/2", out="part1"),
        lasthop.sweep(**options, seeds=3, shard=(2, 2), out="part2"),
    ]
    assert [h.data["shard"] for h in halves] == [[1, 2], [2, 2]]
    assert sum(h.runs.height for h in halves) == 6
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"shard": "3/2"}, "--shard must be i/N"),
        ({"seeds": range(5, 5)}, "seeds must be a range"),
        ({"seeds": "x"}, "--seeds must be a number"),
        ({"jobs": 0}, "--jobs must be at least 1"),
        ({"progress": "yes"}, 'progress must be "auto"'),
        ({"vary": {"last_hop.loss": [0.01, 0.01]}}, "twice"),
        ({"zip": [{"last_hop.rate": [1e6]}]}, "at least two keys"),
        ({"max_seeds": 3}, "needs a stop rule"),
        ({"chunk": "fast"}, "--chunk must be a time"),
    ]
    for wrong, message in mistakes:
        with pytest.raises(InputError, match=message):
            lasthop.sweep(**{**options, **wrong}, out="wrong")
    assert axes.read_seeds("3") == range(1, 4)


class Local(lasthop.CongestionControl):
    """A rule in a module of this test, which processes can load by its file."""

    segments = 4

    def on_ack(self, window: Any, ack: Any) -> None:
        window.cwnd = self.segments * ack.mss


def test_a_sweep_takes_classes() -> None:
    class Cell(lasthop.CongestionControl):
        """As in a notebook: no other process can load it."""

        def on_ack(self, window: Any, ack: Any) -> None:
            window.cwnd = 4 * ack.mss

    more = lasthop.configure(Local, segments=8)
    result = lasthop.sweep(
        last_hop=VALUES, schemes=[Local, more], seeds=2, settings=SETTINGS, out="a", jobs=1
    )
    assert result.runs["scheme"].unique(maintain_order=True).to_list() == [
        "Local",
        "Local:segments=8",
    ]
    same = lasthop.sweep(
        last_hop=VALUES, schemes=[Local, Cell], seeds=2, settings=SETTINGS, out="b", jobs=2
    )
    goodput = {
        scheme: [r["goodput_bps"] for r in same.runs.rows(named=True) if r["scheme"] == scheme]
        for scheme in ("Local", "Cell")
    }
    assert goodput["Local"] == goodput["Cell"]
    assert same.failed == []
    with pytest.raises(InputError, match="in no file"):
        lasthop.sweep(
            last_hop=VALUES, schemes=[Cell], seeds=1, settings=SETTINGS, out="c", dask="tcp://x:1"
        )


def test_a_failed_run_of_a_sweep_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(lasthop.CongestionControl):
        def on_ack(self, window: Any, ack: Any) -> None:
            raise ValueError("no idea")

    result = lasthop.sweep(
        last_hop=VALUES, schemes=["newreno", Broken], seeds=2, settings=SETTINGS, out="out"
    )
    assert [(f["scheme"], f["error"]) for f in result.failed] == [
        ("Broken", "ValueError: no idea")
    ] * 2
    assert "run 1 of Broken failed: ValueError: no idea" in capsys.readouterr().err


def test_a_script_without_a_main_guard_sweeps(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        "import lasthop\n"
        "print('begins')\n"
        "r = lasthop.sweep(last_hop={'loss': 0.01}, schemes=['reno', 'mine.py:Keep'], seeds=2,\n"
        "                  settings={'duration': 1}, out='out', jobs=2)\n"
        "print(r.data['runs'])\n"
    )
    done = ended([sys.executable, str(script)], cwd=folder)
    assert done.stdout.split() == ["begins", "4"], done.stderr
