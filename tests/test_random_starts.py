"""Starts of flows and places in traces that comparisons draw by seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop.cli.main import main
from lasthop.experiments import sweep

DUEL = {"rate": "48Mbps", "rtt": "40ms"}
STARTS = "each flow starts up to 500 ms after its start time, drawn by seed"
PLACE = "the run begins at a place in the trace drawn by seed"


@pytest.mark.parametrize("scheme", ["cubic", "reno", "bbr", "bbr3"])
def test_equal_flows_have_equal_shares(scheme: str) -> None:
    found = lasthop.compare(
        last_hop=DUEL, schemes=[scheme], flows={"against": [scheme], "duration": "5s"}
    ).to_dict()
    (case,) = found["points"][0]["schemes"]
    assert (case["runs"], case["deterministic"]) == (20, False)
    low, high = case["groups"][0]["goodput_share"]["ci95"]
    assert low < 0.5 < high
    assert high - low < 0.6
    assert any(line.startswith(STARTS) for line in found["assumed"])


@pytest.mark.parametrize(
    ("settings", "single_run"),
    [
        ("tcp.processing_time=0s", "one run, nothing drawn"),
        ("tcp.processing_time=50us", "one run, only processing times drawn"),
    ],
)
def test_a_key_turns_the_draws_off(
    capsys: pytest.CaptureFixture[str], settings: str, single_run: str
) -> None:
    words = "compare --rate 10Mbps --rtt 40ms --schemes cubic --against cubic --duration 2s"
    assert main([*words.split(), "--set", "random_starts=none", "--set", settings]) == 0
    text = capsys.readouterr().out
    assert f": {single_run}; " in text
    assert f"  {single_run}\n" in text
    assert "±" not in text
    how = 'random_starts = "none": the starts of flows are not drawn'
    assert f"\n{single_run}, in this scenario; {how}" in text


@pytest.mark.parametrize(
    ("processing_time", "single_run"),
    [("0 s", "one run, nothing drawn"), ("50 us", "one run, only processing times drawn")],
)
def test_stored_results_say_what_single_runs_draw(
    tmp_path: Path, processing_time: str, single_run: str
) -> None:
    about: Any = {
        "last_hop": {"rate": "5 Mbps", "rtt": "40 ms"},
        "flows": {"duration": "1s"},
        "settings": {"tcp.processing_time": processing_time},
        "schemes": ["reno"],
    }
    swept = lasthop.sweep(**about, seeds=2, out=tmp_path / "swept", quiet=True)
    assert single_run in swept._repr_html_()
    lasthop.compare(**about, out=tmp_path / "compared", figure=False)
    for folder in ("swept", "compared"):
        page = tmp_path / f"{folder}.html"
        assert main(["report", str(tmp_path / folder), "--out", str(page)]) == 0
        assert single_run in page.read_text(encoding="utf-8")


def test_one_flow_on_a_fixed_link_has_nothing_to_draw() -> None:
    found = lasthop.compare(last_hop=DUEL, schemes=["cubic", "reno"], flows={"duration": "1s"})
    assert [len(found.values(0, label, "goodput_bps")) for label in ("cubic", "reno")] == [1, 1]
    assert "one run, only processing times drawn" in found._repr_html_()


def test_a_comparison_over_a_trace_has_an_interval() -> None:
    found = lasthop.compare(
        last_hop={"down": "synthetic-lte.down"}, schemes=["cubic"], flows={"duration": "2s"}
    )
    (case,) = found.to_dict()["points"][0]["schemes"]
    low, high = case["goodput_bps"]["ci95"]
    assert case["runs"] == 20
    assert low < high
    lines = found.to_dict()["assumed"]
    assert any(line.startswith(PLACE) for line in lines)
    assert not any("each flow starts" in line for line in lines)


def test_run_repeats_a_run_of_a_comparison(tmp_path: Path) -> None:
    found = lasthop.compare(
        last_hop={"down": "synthetic-lte.down"},
        schemes=["bbr"],
        flows={"against": ["cubic"], "duration": "3s"},
        seeds=3,
        out=tmp_path,
        figure=False,
    )
    runs = found.values(0, "bbr", "groups.candidate.flow_goodput_bps_mean")
    assert len(set(runs)) == 3
    for seed, goodput in enumerate(runs, 1):
        again = lasthop.run(tmp_path / "scenario.toml", scheme="bbr", seed=seed)
        assert again.data["flows"][0]["goodput_bps"] == goodput
    inspected = lasthop.inspect(tmp_path, schemes="bbr", seed=2)
    assert inspected.to_dict()["seed"] == 2


def test_a_single_run_draws_nothing() -> None:
    flows = {"against": ["cubic"], "duration": "1s"}
    settings = {"tcp.processing_time": "0 s"}
    one, other = (
        lasthop.run(last_hop=DUEL, flows=flows, settings=settings, seed=seed).data
        for seed in (1, 2)
    )
    assert one["flows"] == other["flows"]
    inspected = lasthop.inspect(last_hop=DUEL, flows=flows)
    assert any("drawn by seed" in line for line in inspected.assumed)


def test_a_sweep_draws_starts_and_says_so(tmp_path: Path) -> None:
    flows = {"against": ["cubic"], "duration": "1s"}
    done = lasthop.sweep(
        last_hop={"rtt": "40ms"},
        vary={"last_hop.rate": ["5 Mbps", "8 Mbps"]},
        schemes=["cubic"],
        flows=flows,
        seeds=3,
        out=tmp_path,
        quiet=True,
    )
    assert done.data["runs"] == 6
    assert any("drawn by seed" in line for line in done.data["assumed"])
    assert not any(case.deterministic for case in sweep.read(tmp_path).cases)


def test_a_baseline_repeats_what_it_drew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base.json"
    text = 'duration = "1 s"\nlast_hop.rate = "5 Mbps"\n[[flow]]\ncount = 2\n'
    (tmp_path / "two.toml").write_text(text)
    scenario = str(tmp_path / "two.toml")
    words = ["check", str(base), "--update", scenario, "--schemes", "reno", "--seeds", "3"]
    assert main(words) == 0
    document = json.loads(base.read_text())
    assert document["cases"][0]["seeds"] == [1, 2, 3]
    assert main(["check", str(base)]) == 0
    assert "n = 3" in capsys.readouterr().out
    # A baseline of an older lasthop: one run, which is repeated without the draws.
    del document["draw_starts"]
    old = lasthop.run(scenario, scheme="reno").data
    case = document["cases"][0]
    case["seeds"] = [1]
    case["metrics"]["goodput_bps"] = [sum(f["goodput_bps"] for f in old["flows"])]
    base.write_text(json.dumps(document))
    main(["check", str(base)])
    text = capsys.readouterr().out
    assert "one run, only processing times drawn" in text
    assert "an older lasthop wrote it" in text
