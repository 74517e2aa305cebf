"""Comparisons with several groups of flows: metrics of all flows and of each [[flow]]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pytest

import lasthop
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments.comparison import Comparison

HOP = {"down": "synthetic-lte.down", "up": "synthetic-lte.up", "rtt": "40 ms", "loss": "1 %"}
MIXED = """title = "mixed"
duration = "20 s"
[last_hop]
[[flow]]
name = "bulk"
[[flow]]
name = "web"
app = { kind = "web", mean_size = "50 kB", shape = 1.5, mean_pause = "1 s" }
[[flow]]
name = "short"
count = 30
stagger = "500 ms"
app = { kind = "transfer", size = "30 kB" }
"""


def mixed(**options: Any) -> Comparison:
    return lasthop.compare(text=MIXED, schemes=["cubic", "snoop"], seeds=3, last_hop=HOP, **options)


@pytest.fixture(scope="module")
def result() -> Comparison:
    return mixed()


def test_all_flows_together_are_not_faster_than_the_link(result: Comparison) -> None:
    for label in result.plan.labels:
        pairs = zip(
            result.values(0, label, "goodput_bps"),
            result.values(0, label, "radio_capacity_bps"),
            strict=True,
        )
        for goodput, capacity in pairs:
            assert goodput is not None
            assert capacity is not None
            assert 0 < goodput < capacity


def test_goodput_is_payload_by_measured_time() -> None:
    run = lasthop.run(text=MIXED, scheme="cubic", last_hop=HOP)
    found = metrics.of_run(run.data)
    delivered = sum(f["delivered_bytes"] for f in run.data["flows"])
    assert found["goodput_bps"] == delivered * 8 / 20 == run.goodput_bps
    # Short transfers end early, so their goodput over their active time is much larger.
    assert sum(f["goodput_bps"] for f in run.data["flows"]) > 2 * run.goodput_bps


def test_fairness_counts_only_bulk_flows() -> None:
    run = lasthop.run(text=MIXED, scheme="cubic", last_hop=HOP).data
    assert metrics.of_run(run)["jain"] == 1  # one bulk flow
    two = MIXED.replace('name = "bulk"', 'name = "bulk"\ncount = 2')
    run = lasthop.run(text=two, scheme="cubic", last_hop=HOP).data
    rates = [f["goodput_bps"] for f in run["flows"] if f["app"] == "bulk"]
    assert len(rates) == 2
    assert metrics.of_run(run)["jain"] == pytest.approx(
        sum(rates) ** 2 / 2 / sum(r * r for r in rates)
    )
    none = MIXED.replace('name = "bulk"', 'name = "bulk"\ncount = 0')
    assert metrics.of_run(lasthop.run(text=none, scheme="cubic", last_hop=HOP).data)["jain"] is None


def test_each_group_of_flows_has_metrics(result: Comparison) -> None:
    schemes = result.to_dict()["points"][0]["schemes"]
    assert [[(g["name"], g["flows"]) for g in s["groups"]] for s in schemes] == [
        [("bulk", 1), ("web", 1), ("short", 30)]
    ] * 2
    for scheme in schemes:
        bulk, web, short = scheme["groups"]
        total = sum(g["goodput_bps"]["mean"] for g in scheme["groups"])
        assert total == pytest.approx(scheme["goodput_bps"]["mean"])
        assert sum(g["goodput_share"]["mean"] for g in scheme["groups"]) == pytest.approx(1)
        assert bulk["completed_s_p50"]["mean"] is None
        assert web["completed_share"]["mean"] is None
        assert short["completed_share"]["mean"] == 1
        assert 0 < short["completed_s_p50"]["mean"] <= short["completed_s_p95"]["mean"] < 20
        assert short["flow_goodput_bps_mean"]["mean"] > short["goodput_bps"]["mean"] / 30
        for key in metrics.GROUP_METRICS:
            assert set(short[key]) == {"mean", "sd", "ci95"}
    json.dumps(schemes, allow_nan=False)


def test_the_table_has_a_row_per_group(result: Comparison) -> None:
    lines = str(result).splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("group of flows"))
    words = [line.split()[0] for line in lines[start + 1 : start + 9]]
    assert words == ["cubic", "bulk", "web", "short", "snoop", "bulk", "web", "short"]
    alone = str(
        lasthop.compare(
            last_hop={"rate": "2 Mbps", "loss": "1 %"},
            schemes=["cubic"],
            seeds=2,
            settings={"duration": "2 s"},
        )
    )
    assert "group" not in alone


def test_groups_are_written_with_the_runs(tmp_path: Path) -> None:
    first = mixed(out=tmp_path)
    runs = polars.read_csv(tmp_path / "runs.csv")
    assert runs["groups.short.goodput_bps"].is_not_null().all()
    assert (
        polars.read_parquet(tmp_path / "runs.parquet")["groups.short.completed_s_p95"]
        .is_not_null()
        .all()
    )
    table = polars.read_csv(tmp_path / "table.csv", infer_schema_length=None)
    assert table.filter(scheme="snoop", metric="groups.short.completed_s_p95")["mean"].item() > 0
    again = mixed(out=tmp_path)
    assert again.to_dict() == first.to_dict()


def test_an_unnamed_group_has_the_name_of_its_first_flow() -> None:
    unnamed = MIXED.replace('name = "short"\n', "").replace('name = "web"\n', "")
    run = lasthop.run(text=unnamed, scheme="cubic", last_hop=HOP).data
    assert list(dict.fromkeys(f["group"] for f in run["flows"])) == ["bulk", "flow 2", "flow 3"]


def test_a_scheme_that_no_flow_uses_is_rejected() -> None:
    fixed = MIXED.replace("[[flow]]\n", '[[flow]]\nscheme = "reno"\n')
    with pytest.raises(InputError, match=r"--scheme: no flow uses `cubic`.*bulk, web, short"):
        lasthop.compare(text=fixed, schemes=["cubic", "bbr"], seeds=2, last_hop=HOP)
    with pytest.raises(InputError, match="no flow uses `bbr`"):
        lasthop.run(text=fixed, scheme="bbr", last_hop=HOP)
    assert lasthop.run(text=fixed, last_hop=HOP).data["scheme"] == "reno"
    # One [[flow]] with the scheme is enough, even with a count of zero.
    some = fixed.replace(
        '[[flow]]\nscheme = "reno"\nname = "bulk"', '[[flow]]\ncount = 0\nname = "bulk"'
    )
    assert lasthop.run(text=some, scheme="bbr", last_hop=HOP).data["flows"][0]["id"] == "web"


def test_cases_with_only_datagrams_use_no_scheme() -> None:
    datagrams = (
        'duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n[[flow]]\nname = "call"\napp = { kind ='
        ' "cbr", rate = "64 kbps" }\n'
    )
    with pytest.raises(InputError, match="no flow uses `bbr`: call"):
        lasthop.run(text=datagrams, scheme="bbr")


def test_flows_with_equal_components_share_a_line() -> None:
    run = lasthop.run(text=MIXED, scheme="cubic", last_hop=HOP)
    assert str(run).count("window cubic") == 1
    other = MIXED.replace('name = "web"', 'name = "web"\nscheme = "reno"')
    lines = str(lasthop.run(text=other, scheme="cubic", last_hop=HOP)).splitlines()[1:5]
    assert [line.split(": window")[0].strip() for line in lines if ": window" in line] == [
        "bulk",
        "web",
        "short 1 … short 30",
    ]
    assert not lines[3]
    assert "retransmissions (" in str(run)
