from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busy import PATIENCE
from fakes import FakeCancel, FakeLoader
from processes import ended

import lasthop
from lasthop import _native
from lasthop.analysis import metrics
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.experiments.comparison import Comparison, compare


def planned(
    loader: FakeLoader, schemes: list[str], seeds: int = 5, vary: dict[str, list[str]] | None = None
) -> plan.Plan:
    return plan.plan(plan.Source("x"), schemes, seeds, vary, version="1", loader=loader)


def test_the_title_describes_the_last_hop() -> None:
    hop = {"queue": "250 packets", "down": "synthetic-lte.down", "rtt": "40ms", "loss": "1%"}
    title = "last hop: synthetic-lte.down, RTT 40 ms, loss 1 %, queue 250 packets"
    assert plan.load(plan.source(last_hop=hop)).title == title
    assert plan.load(plan.source(last_hop={"rate": "1e6bps"})).title == "last hop: 1e6 bps"
    assert (
        plan.load(
            plan.source(last_hop={"rate": "2Mbps", "rtt": "9ms"}, settings=[("last_hop.rtt", "1s")])
        ).title
        == "last hop: 2 Mbps"
    )


def test_points_schemes_and_seeds() -> None:
    loader = FakeLoader()
    result = compare(planned(loader, ["reno", "snoop"], vary={"gain": ["1", "2"]}), version="1")
    assert loader.runs == 20
    found = result.to_dict()
    assert found["seeds"] == [1, 2, 3, 4, 5]
    assert [p["set"] for p in found["points"]] == [{"gain": "1"}, {"gain": "2"}]
    snoop = found["points"][1]["schemes"][1]
    assert snoop["label"] == "snoop"
    assert snoop["runs"] == 5
    assert snoop["goodput_bps"]["mean"] == pytest.approx(2 * (1500 + 3))
    assert snoop["goodput_bps"]["ratio_to_first"]["mean"] == pytest.approx(1503 / 1403)
    assert snoop["goodput_bps"]["difference_to_first"]["ci95"] == (
        pytest.approx(200),
        pytest.approx(200),
    )
    assert snoop["goodput_bps"]["correlation_to_first"] == pytest.approx(1)
    assert snoop["completed_s"]["mean"] is None
    json.dumps(found, allow_nan=False)


def test_all_metrics_are_present() -> None:
    found = compare(planned(FakeLoader(), ["reno"]), version="1").to_dict()["points"][0]["schemes"][
        0
    ]
    wanted = (
        "goodput_bps one_way_delay_s_p95 queue_delay_s_p95 retransmissions spurious_retransmissions"
        " timeouts cwnd_reductions"
    )
    for name in [*wanted.split(), "radio_airtime_per_byte_s", "completed_s", "jain"]:
        assert set(found[name]) >= {"mean", "sd", "ci95", "ratio_to_first"}


def test_a_deterministic_scenario_gets_one_run() -> None:
    loader = FakeLoader(random=False)
    found = compare(planned(loader, ["reno", "snoop"]), version="1").to_dict()
    assert found["seeds"] == [1]
    assert loader.runs == 2
    assert found["points"][0]["schemes"][0]["goodput_bps"]["ci95"] is None


def test_wrong_input() -> None:
    loader = FakeLoader()
    with pytest.raises(InputError, match="at least 1"):
        planned(loader, ["reno"], 0)
    with pytest.raises(InputError, match="which schemes"):
        planned(loader, [])
    with pytest.raises(InputError, match="label `reno`"):
        planned(loader, ["reno", "reno"])
    with pytest.raises(InputError, match="makes no difference"):
        planned(loader, ["reno"], vary={"gain": ["1", "1"]})
    with pytest.raises(InputError, match="no scheme"):
        planned(loader, ["reno", "wrong"])


def test_a_plan_beyond_the_limit_is_rejected() -> None:
    the_plan = planned(FakeLoader(), ["reno"])
    plan.check_run_time(the_plan, 2, 60)
    with pytest.raises(InputError, match="--limit"):
        plan.check_run_time(the_plan, 2, 1e-6)


def test_finished_runs_are_reused(tmp_path: Path) -> None:
    first = FakeLoader()
    one = compare(planned(first, ["reno", "snoop"], 3), version="1", out=tmp_path)
    again = FakeLoader()
    two = compare(planned(again, ["reno", "snoop"], 3), version="1", out=tmp_path)
    assert again.runs == 0
    assert two.to_dict() == one.to_dict()
    more = FakeLoader()
    compare(planned(more, ["reno", "snoop", "tahoe"], 5), version="1", out=tmp_path)
    assert more.runs == 15 - 6


def test_another_scenario_or_version_saves_and_replaces_the_old_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(planned(FakeLoader(), ["reno"], 3), version="1", out=tmp_path)
    old = (tmp_path / "runs.csv").read_text()
    loader = FakeLoader()
    changed = plan.plan(
        plan.Source("x", settings=(("gain", "3"),)), ["reno"], 3, version="1", loader=loader
    )
    compare(changed, version="1", out=tmp_path)
    assert loader.runs == 3
    assert (tmp_path / "runs.previous.csv").read_text() == old
    assert "runs.previous.csv" in capsys.readouterr().err


def test_a_killed_process_loses_no_finished_run(tmp_path: Path) -> None:
    whole = compare(planned(FakeLoader(), ["reno", "snoop"], 4), version="1", out=tmp_path)
    file = tmp_path / "runs.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:4]) + lines[4][:17])  # killed in the middle of the fourth row
    loader = FakeLoader()
    again = compare(planned(loader, ["reno", "snoop"], 4), version="1", out=tmp_path)
    assert loader.runs == 8 - 3
    assert again.to_dict() == whole.to_dict()
    assert file.read_text() == "".join(lines)


def test_each_finished_run_is_written_at_once(tmp_path: Path) -> None:
    def look(_label: str, seed: int) -> None:
        """Wait until the row of the previous run is in the file."""
        deadline = time.monotonic() + PATIENCE
        while len((tmp_path / "runs.csv").read_text().splitlines()) < seed:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    result = compare(
        planned(FakeLoader(before=look), ["reno"], 4), version="1", out=tmp_path, workers=1
    )
    assert not result.failed


def test_an_unwritable_folder_is_named_in_the_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot write"):
        compare(planned(FakeLoader(), ["reno"], 2), version="1", out=blocked)
    with pytest.raises(InputError, match="cannot write"):
        compare(planned(FakeLoader(), ["reno"], 2), version="1", out=blocked / "below")


def test_a_full_disk_gives_one_message(tmp_path: Path) -> None:
    """The file size is limited to 2000 bytes; earlier content is kept."""
    code = f"""
import resource
from lasthop.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
hop = ["--rate", "2Mbps", "--loss", "1%", "--set", "duration=1s"]
many = ["--schemes", "reno", "--seeds", "50", "--out", {str(tmp_path)!r}]
raise SystemExit(main(["compare", *hop, *many]))
"""
    done = ended([sys.executable, "-c", code])
    assert done.returncode == 2
    assert done.stderr.startswith(f"lasthop: cannot write {tmp_path}/runs.csv: ")
    assert len(done.stderr.splitlines()) == 1
    assert len((tmp_path / "runs.csv").read_text().splitlines()) > 3


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    def fail(label: str, seed: int) -> None:
        if label == "snoop" and seed == 2:
            raise ZeroDivisionError("my rule\nis broken")

    messages: list[str] = []
    result = compare(
        planned(FakeLoader(before=fail), ["reno", "snoop"], 4),
        version="1",
        out=tmp_path,
        report=messages.append,
    )
    assert len(result.failed) == 1
    assert len(result.values(0, "snoop", "goodput_bps")) == 3
    assert len(result.values(0, "reno", "goodput_bps")) == 4
    assert len(result.pairs(0, "snoop", "reno", "goodput_bps")[0]) == 3
    assert "Traceback" in messages[0]
    assert "ZeroDivisionError: my rule is broken" in (tmp_path / "runs.csv").read_text()
    assert "1 run failed and is left out" in str(result)
    loader = FakeLoader()
    compare(planned(loader, ["reno", "snoop"], 4), version="1", out=tmp_path)
    assert loader.runs == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_finished_runs(tmp_path: Path, number: signal.Signals) -> None:
    cancel, cancelled = FakeCancel(), list[bool]()

    def slowly(_label: str, seed: int) -> None:
        if seed == 3:
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
            cancelled.append(cancel.cancelled.wait(PATIENCE))

    # The parent of the tests may ignore the signal.
    before = signal.getsignal(signal.SIGINT)
    result = compare(
        planned(FakeLoader(before=slowly), ["reno"], 100),
        version="1",
        out=tmp_path,
        cancel=cancel,
        workers=1,
    )
    assert cancelled == [True]
    assert result.interrupted
    assert [r.seed for r in result.rows] == [1, 2]
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 3
    assert "interrupted" in str(result)
    # The handlers are restored.
    assert signal.getsignal(signal.SIGINT) is before


def written(tmp_path: Path, **options: Any) -> Comparison:
    result = compare(
        planned(FakeLoader(), ["reno", "snoop"], 4, **options), version="1", out=tmp_path
    )
    result.write(tmp_path, ["lasthop", "compare", "a file.toml"])
    return result


def test_all_files_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    names = [
        "command.txt",
        "comparison.json",
        "figure.png",
        "figure.svg",
        "figure.txt",
        "runs.csv",
        "runs.parquet",
        "scenario.toml",
        "table.csv",
    ]
    for folder in ("a", "b"):
        written(tmp_path / folder)
        assert sorted(p.name for p in (tmp_path / folder).iterdir()) == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a" / "command.txt").read_text() == "lasthop compare 'a file.toml'\n"
    svg = (tmp_path / "a" / "figure.svg").read_text()
    assert "goodput (kbit/s)</text>" in svg
    assert ">snoop</text>" in svg


def test_figures_over_a_varied_key(tmp_path: Path) -> None:
    result = written(tmp_path, vary={"gain": ["1", "2", "3"], "other": ["a", "b"]})
    svg = (tmp_path / "figure.svg").read_text()
    assert "other: a</text>" in svg
    result.plot(tmp_path / "again.png")
    assert (tmp_path / "again.png").stat().st_size > 1000


def test_frames(tmp_path: Path) -> None:
    result = written(tmp_path, vary={"gain": ["1", "2"]})
    assert result.runs.shape == (16, 5 + len(metrics.METRICS))
    assert result.table.filter(scheme="snoop", metric="goodput_bps", point=0)[
        "mean"
    ].item() == pytest.approx(1502.5)


def test_metrics_of_a_run() -> None:
    from fakes import run_json

    found = metrics.of_run(run_json(1000.0))
    assert list(found) == list(metrics.METRICS)
    assert found["radio_airtime_per_byte_s"] == pytest.approx(4.0 / 10_000)
    assert found["queue_delay_s_p95"] == 0.2


LAST_HOP = 'duration = "2 s"\nlast_hop = { rate = "2 Mbps", rtt = "40 ms", loss = "2 %" }\n'
SEVERAL_FLOWS = """
[[flow]]
[[flow]]
app = { kind = "poisson", size = "30 kB", every = "200 ms" }
"""


@pytest.mark.parametrize("scheme", ["cubic", "snoop", "i-tcp"])
@pytest.mark.parametrize("flows", ["", SEVERAL_FLOWS])
def test_many_runs_are_those_that_are_done_one_by_one(scheme: str, flows: str) -> None:
    scenario = _native.Scenario(LAST_HOP + flows, None, [], scheme)
    names = [*metrics.METRICS, "flows.flow 1.rtt_s.p95", "links.bs>phone.delivered_frames"]
    seeds = [3, 1, 2, 3]
    found = scenario.run_many(seeds, names)
    alone = [metrics.values(scenario.run(seed), names) for seed in seeds]
    expected = [[math.nan if x is None else x for x in row.values()] for row in alone]
    assert np.array_equal(found, expected, equal_nan=True)
    assert len({row["goodput_bps"] for row in alone}) == 3


def test_a_deterministic_case_gets_one_run_among_random_ones() -> None:
    """Without loss the case is deterministic and gets one run without an interval."""
    hop = {"rate": "2 Mbps", "rtt": "40 ms"}
    result = lasthop.compare(
        last_hop=hop,
        schemes=["reno", "cubic"],
        seeds=4,
        vary={"last_hop.loss": ["0 %", "2 %"]},
        settings={"duration": "5 s"},
    )
    clean, lossy = result.to_dict()["points"]
    assert [s["runs"] for s in clean["schemes"]] == [1, 1]
    assert [s["runs"] for s in lossy["schemes"]] == [4, 4]
    assert [s["deterministic"] for s in clean["schemes"] + lossy["schemes"]] == [
        True,
        True,
        False,
        False,
    ]
    assert clean["schemes"][1]["goodput_bps"]["ci95"] is None
    assert clean["schemes"][1]["goodput_bps"]["ratio_to_first"]["ci95"] is None
    assert lossy["schemes"][1]["goodput_bps"]["ratio_to_first"]["ci95"] is not None
    table = str(result).split("last_hop.loss = 2 %")
    assert "±" not in table[0].split("last_hop.loss = 0 %")[1]
    assert "one run, only processing times drawn, at last_hop.loss = 0 %" in table[1]
    assert result.plan.size() == 10


def test_a_deterministic_run_is_paired_with_every_seed() -> None:
    """The interval comes only from the variance of the random partner."""
    loader = FakeLoader(random=lambda source, _: dict(source.settings).get("gain") != "1")
    result = compare(planned(loader, ["reno", "snoop"], 5, vary={"gain": ["1", "2"]}), version="1")
    assert loader.runs == 12
    a, b = result.pairs(1, "snoop", "reno", "goodput_bps", other=0)
    assert a == [2 * (1500 + s) for s in range(1, 6)]
    assert b == [1400 + 0] * 5
    from lasthop.analysis import statistics

    found = statistics.ratio(a, b)
    assert found.ci95 is not None
    low, high = found.ci95
    own = statistics.summarise(a).ci95
    assert own is not None
    assert low * 1400 == pytest.approx(own[0])
    assert high * 1400 == pytest.approx(own[1])
    assert statistics.correlation(a, b) is None


def test_the_hint_for_a_random_start_in_a_trace() -> None:
    hop = {"down": "synthetic-lte.down", "up": "synthetic-lte.up"}
    result = lasthop.compare(
        last_hop=hop,
        schemes=["reno"],
        seeds=3,
        settings={"duration": "2 s", "last_hop.start": "1 s"},
    )
    assert "--set last_hop.start=random" in str(result)
    random = lasthop.compare(
        last_hop=hop,
        schemes=["reno"],
        seeds=3,
        settings={"duration": "2 s", "last_hop.start": "random"},
    )
    assert len(random.rows) == 3
    assert "one run" not in str(random)


def test_assumptions_name_their_cases() -> None:
    hop = {"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}
    both = lasthop.compare(
        last_hop=hop,
        schemes=["reno"],
        seeds=1,
        vary={"last_hop.queue": ["20 packets", "40 packets"]},
        settings={"duration": "1 s"},
    )
    assert "queue of radio: 250" not in str(both)
    assert not [
        a for s in both.to_dict()["points"][0]["schemes"] for a in s["assumed"] if "radio" in a
    ]
    other = lasthop.compare(
        last_hop=hop,
        schemes=["reno"],
        seeds=1,
        vary={"tcp.profile": ["rfc", "linux"]},
        settings={"duration": "1 s"},
    )
    assumed = [line for line in str(other).splitlines() if line.startswith("assumed")]
    shared = [line for line in assumed if line.startswith("assumed: ")]
    assert [
        line
        for line in assumed
        if line.startswith("assumed at tcp.profile = linux: queue of radio")
    ]
    assert [
        line for line in assumed if line.startswith("assumed at tcp.profile = rfc: queue of radio")
    ]
    assert not [line for line in shared if "queue of radio" in line]


def test_assumptions_of_some_schemes() -> None:
    loader = FakeLoader(
        assumed=lambda scheme: ("a path", "a cache") if scheme == "snoop" else ("a path",)
    )
    result = compare(planned(loader, ["reno", "snoop"], 2, vary={"gain": ["1", "2"]}), version="1")
    assert [line for line in str(result).splitlines() if line.startswith("assumed")] == [
        "assumed: a path",
        "assumed for snoop: a cache",
    ]


@pytest.mark.parametrize(
    ("size", "compared"), [("100 kB", "completion time"), ("100 MB", "goodput")]
)
def test_transfers_that_complete_are_compared_by_their_times(size: str, compared: str) -> None:
    result = lasthop.compare(
        last_hop={"rate": "2 Mbps", "rtt": "40 ms"},
        schemes=["reno", "tahoe"],
        seeds=2,
        settings={"duration": "5 s", "flow.1.app": f'{{ kind = "transfer", size = "{size}" }}'},
    )
    heads = str(result).splitlines()[1]
    assert f"{compared} change" in heads
    assert ("completion s" in heads) == (compared == "completion time")


def test_transfers_are_compared_by_completion_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text(
        'duration = "9 s"\n[last_hop]\nrate = "4 Mbps"\nrtt = "40 ms"\nloss = "1 %"\n'
        '[[flow]]\napp = { kind = "transfer", size = "200 kB" }\n'
    )
    assert main(["compare", str(file), "--schemes", "reno,cubic", "--seeds", "3"]) == 0
    head = capsys.readouterr().out.splitlines()[1]
    assert head.split()[:3] == ["scheme", "completion", "s"]
    assert "goodput" not in head


def test_the_delay_of_a_table_is_that_of_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rate", "4Mbps", "--rtt", "40ms", "--duration", "2s", "--traffic", "web+bulk"]
    assert main(["compare", *words, "--schemes", "reno,cubic", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  bulk: delay p95 ms  " in lines[1]
    # The number of the scheme's row is that of the group's.
    delay = lines[2].split()[2]
    assert any(line.split()[:1] == ["bulk"] and delay in line.split() for line in lines)
