"""Agents in Python beside their twins in Rust: the same runs, the calls that they cost."""

from __future__ import annotations

import time
from typing import Any

import pytest
from packet_control import PacketControl

import lasthop
from lasthop import Agent, CongestionControl
from lasthop._native import Ack, Context, Segment, Window

#: A cell with delay variation and lost ACKs, as in zeng2006.
CELL = {
    "duration": 30,
    "link": [
        {"between": ["server", "bs"], "rate": 1e6, "delay": 0.005},
        {
            "between": ["bs", "phone"],
            "radio": True,
            "rate": 250e3,
            "delay": {"base": 0.17, "table": "zeng2006", "from": 0.5},
            "backward": {"loss": 0.1},
        },
    ],
    "flow": [{"from": "server", "to": "phone", "segment": 1000}],
    "tcp": {"profile": "ns-2.26", "receive_window": "20 segments"},
}
FAST = {
    "duration": 60,
    "last_hop": {"rate": 10e6, "rtt": 0.04, "loss": 0.001},
    "tcp": {"profile": "rfc"},
}
#: The CPU time of an agent in Python, in that of its twin in Rust: the limit, and about six times
#: what was measured (docs/own-schemes.md).
LIMIT = 60


def flow_and_counters(result: lasthop.RunResult) -> tuple[dict[str, Any], dict[str, Any]]:
    flow = {k: v for k, v in result.data["flows"][0].items() if k not in ("scheme", "slots")}
    counters = result.data["agents"][0]["counters"]
    return flow, {k: v for k, v in counters.items() if k != "state_bytes"}


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("threshold", [3, 6, 8])
def test_packet_control_in_python_does_what_its_twin_does(seed: int, threshold: int) -> None:
    scheme: Any = lasthop.configure(PacketControl, dupack_threshold=threshold)
    twin = f"packet-control:sender=newreno:dupack_threshold={threshold}"
    python, rust = (lasthop.run(CELL, scheme=s, seed=seed) for s in (scheme, twin))
    assert flow_and_counters(python) == flow_and_counters(rust)
    dropped = python.data["agents"][0]["counters"]
    assert dropped["old_acks_dropped"] > 20
    assert (dropped["duplicate_acks_dropped"] > 20) == (threshold > 3)


def test_each_segment_is_one_call() -> None:
    calls: dict[str, int] = {"downlink": 0, "uplink": 0}

    class Counts(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            calls[segment.direction] += 1

    result = lasthop.run(FAST, scheme=Counts)
    arrived = {(x["from"], x["to"]): x["delivered_frames"] for x in result.data["links"]}
    assert calls == {"downlink": arrived["server", "bs"], "uplink": arrived["phone", "bs"]}
    assert calls["downlink"] > 10_000


def test_methods_that_a_class_does_not_define_are_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every method of the base classes counts its calls; the run has reason for all of them."""
    called: list[str] = []
    for base in (Agent, CongestionControl):
        for name, method in list(vars(base).items()):
            if callable(method) and not name.startswith("_"):

                def count(*_: Any, name: str = name) -> None:
                    called.append(name)

                monkeypatch.setattr(base, name, count)

    class Passive(Agent):
        link_events = ("delivered", "refused")

    class Grows(CongestionControl):
        def on_ack(self, window: Window, ack: Ack) -> None:
            window.cwnd += ack.bytes

    lossy = {**FAST, "duration": 10, "last_hop": {"rate": 2e6, "loss": 0.02}}
    passive = lasthop.run(lossy, scheme=Passive)
    assert flow_and_counters(passive)[0] == {
        k: v
        for k, v in lasthop.run(lossy, scheme="newreno").data["flows"][0].items()
        if k not in ("scheme", "slots")
    }
    grows = lasthop.run(lossy, scheme=Grows)
    assert grows.data["flows"][0]["fast_retransmits"]["total"] > 3
    assert called == []


def cpu_time(scheme: Any) -> float:
    """CPU time of a run in all threads, the least of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        lasthop.run(FAST, scheme=scheme)
        times.append(time.process_time() - start)
    return min(times)


def test_an_agent_in_python_is_within_the_limit_of_its_twin() -> None:
    assert cpu_time(PacketControl) < LIMIT * cpu_time("packet-control:sender=newreno")
