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
#: The CPU time of an agent in Python, in that of its twin in Rust: the limit, fourteen times what
#: was measured (docs/own-schemes.md).
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


def test_a_timer_is_set_again_and_cancelled() -> None:
    fired: list[tuple[int, float]] = []

    class Timers(Agent):
        def __init__(self) -> None:
            self.seen = 0

        def on_segment(self, ctx: Context, segment: Segment) -> None:
            self.seen += 1
            if self.seen == 1:
                ctx.set_timer(1, ctx.now_s + 1.0)
                ctx.set_timer(2, ctx.now_s + 1.0)
                ctx.set_timer(3, ctx.now_s + 2.0)
            elif self.seen == 2:
                ctx.set_timer(1, 3.0)
                ctx.cancel_timer(2)

        def on_timer(self, ctx: Context, timer: int) -> None:
            fired.append((timer, ctx.now_s))
            if timer == 1:
                ctx.set_timer(1, ctx.now_s + 0.5)

    lasthop.run({"duration": 4.2, "last_hop": {"rate": 1e6}}, scheme=Timers)
    assert [timer for timer, _ in fired] == [3, 1, 1, 1]
    assert [at for timer, at in fired if timer == 1] == pytest.approx([3.0, 3.5, 4.0])


def test_a_notice_reaches_the_agent_at_a_role() -> None:
    sent: list[int] = []
    received: list[tuple[int, str, int, int]] = []

    class Notifies(Agent):
        """Runs at the station and the base station; both send to the base station."""

        roles = ("station", "base-station")

        def on_segment(self, ctx: Context, segment: Segment) -> None:
            if segment.len and len(sent) < 20:
                sent.append(len(sent))
                ctx.notify("queue", segment.flow, sent[-1], "base-station")

        def on_notice(self, ctx: Context, kind: str, flow: int, value: int) -> None:
            received.append((id(self), kind, flow, value))

    result = lasthop.run({"duration": 3, "last_hop": {"rate": 1e6}}, scheme=Notifies)
    assert sorted(value for _, _, _, value in received) == sent == list(range(20))
    assert len({agent for agent, _, _, _ in received}) == 1
    assert {(kind, flow) for _, kind, flow, _ in received} == {("queue", received[0][2])}
    assert len(result.data["agents"]) == 2

    class Wrong(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            ctx.notify("queues", segment.flow, 1, "sender")

    class Lost(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            ctx.notify("queue", segment.flow, 1, "moon")

    for wrong, message in ((Wrong, "unknown notice `queues`; allowed: "), (Lost, 'found "moon"')):
        with pytest.raises(ValueError, match=message):
            lasthop.run({"duration": 1}, scheme=wrong)


@pytest.mark.parametrize("state", ["moved", "lost"])
def test_a_handover_moves_the_state_of_an_agent(state: str) -> None:
    moved: list[bytes] = []
    calls: list[str] = []

    class Counts(Agent):
        def __init__(self) -> None:
            self.seen: dict[int, int] = {}

        def on_segment(self, ctx: Context, segment: Segment) -> None:
            self.seen[segment.flow] = self.seen.get(segment.flow, 0) + 1

        def state_bytes(self) -> int:
            return 8 * len(self.seen)

        def export_state(self, flow: int) -> bytes | None:
            calls.append("export")
            count = self.seen.pop(flow, None)
            return None if count is None else count.to_bytes(8, "big")

        def import_state(self, flow: int, state: bytes) -> None:
            calls.append("import")
            moved.append(state)
            self.seen[flow] = int.from_bytes(state, "big")

        def counters(self) -> dict[str, int]:
            return {"seen": sum(self.seen.values())}

    cell = {
        "duration": 6,
        "last_hop": {"rate": 2e6, "rtt": 0.04},
        "handover": [{"node": "bs", "at": 3, "rate": 1e6, "delay": 0.02, "state": state}],
    }
    result = lasthop.run(cell, scheme=Counts)
    (handover,) = result.data["handovers"]
    seen = result.data["agents"][0]["counters"]["seen"]
    frames = sum(x["delivered_frames"] for x in result.data["links"] if x["to"] == "bs")
    if state == "moved":
        assert calls == ["export", "import"]
        assert [len(s) for s in moved] == [8]
        assert handover["moved_bytes"] == 8
        assert seen > 0.9 * frames
        assert result.data["agents"][0]["counters"]["state_bytes"] == 8
    else:
        assert "import" not in calls
        assert seen < 0.7 * frames


def test_directions_are_relative_to_the_station() -> None:
    seen: set[tuple[str, bool, bool]] = set()

    class Looks(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            if ctx.now_s > 1:  # after the handshake
                seen.add((segment.direction, segment.forward, segment.len > 0))

    cell = {"duration": 2, "last_hop": {"rate": 1e6}}
    lasthop.run(cell, scheme=Looks)
    assert seen == {("downlink", True, True), ("uplink", False, False)}
    seen.clear()
    lasthop.run(cell, scheme=Looks, flows={"upload": True})
    assert seen == {("uplink", True, True), ("downlink", False, False)}
