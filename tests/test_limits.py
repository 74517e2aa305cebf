"""Limits of a flow: in the text of a run, in the metrics of a comparison, and over a satellite."""

from __future__ import annotations

import pytest
from fakes import run_json

import lasthop
from lasthop import limits
from lasthop.analysis import metrics
from lasthop.tables import run_text

NONE = dict.fromkeys(limits.NAMES, 0.0)
BUFFER = {"limited_by": "relay_buffer", "setting": "i-tcp:buffer", "value": "64000 B"}
WINDOW = {"limited_by": "receive_window", "setting": "tcp.receive_window", "value": "4194304 B"}
GEO = {"rate": "50Mbps", "rtt": "600ms"}


def test_the_limits_of_a_flow_name_the_setting() -> None:
    flow = {
        "limited_by": {**NONE, "relay_buffer": 0.931, "cwnd": 0.0659, "handshake": 0.0031},
        "bounds": [BUFFER, WINDOW],
    }
    assert (
        limits.describe(flow)
        == "relay buffer 93.1 % of the time (i-tcp:buffer = 64000 B), cwnd 6.6 %"
    )
    assert limits.describe({"limited_by": None}) == "–"


def test_shares_are_means_over_flows_with_limits() -> None:
    run = run_json(1.0)
    shares = [{**NONE, "cwnd": 1.0}, {**NONE, "pacing": 1.0}, None]
    found = metrics.of_run({**run, "flows": [{**run["flows"][0], "limited_by": s} for s in shares]})
    assert (found["limited_by_cwnd"], found["limited_by_pacing"], found["limited_by_outage"]) == (
        0.5,
        0.5,
        0.0,
    )
    assert metrics.of_run(run_json(1.0))["limited_by_cwnd"] is None


def test_a_comparison_names_settings_that_limit_for_a_tenth_of_the_time() -> None:
    means: dict[str, float | None] = {
        "limited_by_relay_buffer": 0.93,
        "limited_by_receive_window": 0.09,
    }
    line = (
        "i-tcp: limited by relay buffer 93.0 % of the time; i-tcp:buffer = 64000 B; to change it:"
        " i-tcp:buffer=…"
    )
    assert limits.binding_settings("i-tcp", means, [BUFFER, WINDOW]) == [line]
    means = {"limited_by_relay_buffer": None, "limited_by_receive_window": 0.5}
    line = (
        "x: limited by receive window 50.0 % of the time; tcp.receive_window = 4194304 B; to change"
        " it: --set tcp.receive_window=…"
    )
    assert limits.binding_settings("x", means, [BUFFER, WINDOW]) == [line]


def test_a_split_connection_over_a_satellite_is_not_slower_than_none() -> None:
    found = lasthop.compare(last_hop=GEO, schemes=["cubic", "i-tcp", "snoop"])
    goodput = {
        s: found.statistics(0, s, "goodput_bps")["mean"] for s in ("cubic", "i-tcp", "snoop")
    }
    assert goodput["i-tcp"] >= goodput["cubic"]
    assert goodput["snoop"] == pytest.approx(goodput["cubic"], rel=0.01)
    text = str(found)
    assert (
        "assumed for i-tcp: i-tcp buffer 7500000 B: none is given; 2 x the bandwidth-delay product"
        " of the path (50 Mbps, 600 ms)" in text
    )
    assert "assumed for snoop: snoop cache_packets 5180 segments" in text
    assert "limited by relay buffer" not in text


def test_a_relay_of_1995_over_a_satellite_is_named() -> None:
    found = lasthop.compare(
        last_hop=GEO, schemes=["cubic", "i-tcp"], settings={"tcp.profile": "rfc"}
    )
    assert "i-tcp: limited by relay buffer 9" in str(found)
    assert "i-tcp:buffer = 64000 B; to change it: i-tcp:buffer=…" in str(found)
    assert "assumed for i-tcp: i-tcp buffer 64000 B: none is given" in str(found)


def test_a_run_names_the_limit_of_a_relay_of_1995() -> None:
    run = lasthop.run(scheme="i-tcp:buffer=64000B", last_hop=GEO)
    text = run_text.run(run.data, run.slots, run.assumed)
    assert "  limited by      relay buffer 9" in text
    assert "(i-tcp:buffer = 64000 B)" in text
    assert not any("buffer" in line for line in run.assumed)


def test_counters_that_only_some_links_have_get_a_column() -> None:
    policer = {"rate": "5 Mbps", "burst": "20 kB"}
    hop = {"rate": "10 Mbps", "duplicate": "1 %", "corrupt": "1 %", "policer": policer}
    run = lasthop.run({"duration": "2 s", "last_hop": hop})
    lines = run_text.run(run.data, run.slots, run.assumed).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("link "))
    assert "dropped at queue  by policer  duplicated  corrupted" in lines[start]
    assert lines[start + 1].split()[7:10] == ["–", "–", "–"]
    radio = run.data["links"][2]
    keys = ("dropped_by_policer", "duplicated_frames", "corrupted_frames")
    assert lines[start + 3].split()[8:11] == [str(radio[key]) for key in keys]


def test_discarded_segments_have_a_line() -> None:
    late = {"distribution": {"kind": "exponential", "min": "20 ms", "mean": "5 ms"}}
    hop = {"rate": "10 Mbps", "rtt": "60 ms", "queue": "100 packets"}
    data = {"duration": "5 s", "last_hop": hop}
    run = lasthop.run(data, scheme="reno", settings={"link.radio.delay": late})
    found = run.data["flows"][0]["discarded"]
    assert found["old_timestamp"] > 0
    assert found["acks"] > 0
    text = run_text.run(run.data, run.slots, run.assumed)
    line = next(line for line in text.splitlines() if line.startswith("  discarded "))
    assert f"{found['old_timestamp']} with an old timestamp (PAWS)" in line
    assert f"{found['acks']} ACKs by the sender (PAWS)" in line
    run.data["flows"][0]["discarded"] = {**found, "no_connection": 3}
    more = run_text.run(run.data, run.slots, run.assumed)
    assert "(PAWS), 3 for a forgotten connection, " in more
    assert run.data["traffic_bits"]["discarded"] >= 8 * 1000 * found["old_timestamp"]
    off = lasthop.run(data, scheme="reno", settings={"link.radio.delay": late, "tcp.paws": "off"})
    assert "discarded" not in off.data["flows"][0]
