from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import polars
import pytest

import lasthop
from lasthop import CongestionControl, InputError, Interrupted, _native
from lasthop._native import Ack, Context, Loss, Segment, Verdict, Window

HOP = {"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}
TEXT = 'duration = "5 s"\n[last_hop]\n'


def scenario(scheme: Any = None, text: str = TEXT, **last_hop: str) -> _native.Scenario:
    return _native.Scenario(text, None, [], scheme, {**HOP, **last_hop})


class Renoish(CongestionControl):
    """Reno's growth in Python."""

    recovery = "newreno"

    def on_ack(self, window: Window, ack: Ack) -> None:
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += min(ack.mss, ack.bytes) if slow_start else ack.mss * ack.mss / window.cwnd


def numbers(run: _native.Run) -> dict[str, Any]:
    found = run.to_dict()
    for key in ("scheme",):
        found.pop(key)
    for flow in found["flows"]:
        flow.pop("scheme")
        flow.pop("slots")
    return found


def test_the_same_seed_gives_the_same_bytes_from_any_thread() -> None:
    cell = scenario("snoop")
    first = cell.run(3).json()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(cell.run(3).json())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first] * 4
    assert cell.run(4).json() != first


def test_a_python_rule_gives_the_same_run_as_the_rust_rule() -> None:
    for seed in (1, 2):
        rust, python = (
            scenario(scheme, TEXT + '[tcp]\nprofile = "rfc"\n').run(seed)
            for scheme in ("newreno", Renoish)
        )
        assert numbers(python) == numbers(rust)


def test_a_rule_can_define_all_methods() -> None:
    seen: list[str] = []

    class Fixed(CongestionControl):
        label = "fixed window"
        recovery = "newreno"

        def on_ack(self, window: Window, ack: Ack) -> None:
            assert ack.now_s > 0
            assert ack.mss == 1448
            window.cwnd = 4.0 * ack.mss

        def on_loss(self, window: Window, loss: Loss) -> None:
            seen.append(loss.kind)
            window.ssthresh = loss.ssthresh(loss.base / 2)

        def on_dupack(self, window: Window, now_s: float, count: int) -> None:
            seen.append("dupack")

        def on_recovered(self, window: Window, now_s: float) -> None:
            seen.append("recovered")

    result = lasthop.run(last_hop=HOP, scheme=Fixed, settings={"duration": "20 s"})
    assert result.data["scheme"] == "fixed window"
    assert "window fixed window" in result.slots[0]
    assert {"duplicate-acks", "dupack", "recovered"} <= set(seen)


def test_an_exception_ends_only_its_run() -> None:
    class Broken(CongestionControl):
        runs = 0

        def __init__(self) -> None:
            type(self).runs += 1
            self.bad = type(self).runs == 2

        def on_ack(self, window: Window, ack: Ack) -> None:
            if self.bad and ack.now_s > 1:
                raise KeyError("lost my notes")
            window.cwnd += 1

    result = lasthop.compare(
        last_hop=HOP, schemes=["reno", Broken], seeds=3, settings={"duration": "3 s"}
    )
    assert len(result.failed) == 1
    assert "lost my notes" in result.failed[0].error
    assert len(result.values(0, "Broken", "goodput_bps")) == 2
    assert len(result.values(0, "reno", "goodput_bps")) == 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_an_invalid_window_is_an_error(bad: float) -> None:
    class Senseless(CongestionControl):
        def on_ack(self, window: Window, ack: Ack) -> None:
            window.cwnd = bad

    with pytest.raises(ValueError, match="finite number of bytes"):
        scenario(Senseless).run(1)


def test_classes_that_are_not_rules_are_rejected() -> None:
    class Empty(CongestionControl):
        pass

    class Odd(CongestionControl):
        recovery = "magic"

        def on_ack(self, window: Window, ack: Ack) -> None:
            pass

    class Unmakeable(Renoish):
        def __init__(self, needed: int) -> None:
            pass

    with pytest.raises(NotImplementedError, match="Empty must define on_ack"):
        scenario(Empty).run(1)
    with pytest.raises(InputError, match="there is no recovery `magic`"):
        scenario(Odd)
    with pytest.raises(TypeError, match="needed"):
        scenario(Unmakeable).run(1)
    for wrong in (int, CongestionControl):
        with pytest.raises(InputError, match="subclass"):
            scenario(wrong)


def test_cancelling_stops_long_runs() -> None:
    long = _native.Scenario('duration = "100000 s"\n', None, [], "reno", HOP)
    token = _native.CancelToken()
    threading.Timer(0.1, token.cancel).start()
    start = time.process_time()
    with pytest.raises(Interrupted):
        long.run(1, token)
    assert time.process_time() - start < 2
    with pytest.raises(Interrupted):
        long.run(2, token)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scheme": "reno:x=1"}, "no setting `x`"),
        ({"last_hop": {"speed": "1"}}, "unknown last-hop option `speed`"),
        ({"last_hop": {"loss": "200 %"}}, "200"),
        ({"set": [("duration", "-1 s")]}, "duration"),
        ({"text": "duration = 3"}, "scenario:1"),
        ({"text": "[[["}, "scenario:1"),
        ({"scheme": 3}, "str"),
    ],
)
def test_wrong_arguments_are_input_errors(given: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "text": TEXT,
        "origin": None,
        "set": [],
        "scheme": None,
        "last_hop": HOP,
    }
    with pytest.raises((InputError, TypeError), match=message):
        _native.Scenario(**{**arguments, **given})


def test_properties_of_a_scenario() -> None:
    cell = scenario("packet-control:dupack_threshold=12:label=D = 12")
    assert cell.scheme["label"] == "D = 12"
    assert cell.scheme["settings"]["dupack_threshold"] == 12
    assert "agent packet-control" in cell.slots[0]
    assert cell.random
    assert not scenario(loss="0 %").random or "uniform" in scenario(loss="0 %").filled
    sent = sum(link["offered_frames"] for link in cell.run(1).to_dict()["links"])
    assert sent / 3 < cell.estimated_frames < 3 * sent
    assert any("queue" in a for a in cell.assumed)


def test_losses_of_a_flow_make_a_scenario_random() -> None:
    text = """duration = "10 s"
[[link]]
between = ["a", "b"]
rate = "2 Mbps"
[[flow]]
from = "a"
to = "b"
loss = "LOSS"
"""
    assert _native.Scenario(text.replace("LOSS", "2 %")).random
    assert not _native.Scenario(text.replace("LOSS", "0 %")).random


def test_estimated_frames_of_flows_on_one_medium() -> None:
    """A plan must not be rejected for a wrong estimate, as for a hundred on-off sources on a
    LAN.
    """
    noor = Path(lasthop.__file__).parent / "papers" / "noor" / "fig02.toml"
    lan = _native.Scenario(
        noor.read_text(), str(noor), [("duration", "20 s"), ("flow.session.count", "60")]
    )
    sent = sum(link["offered_frames"] for link in lan.run(1).to_dict()["links"])
    assert sent / 10 < lan.estimated_frames < 10 * sent


def test_the_filled_in_scenario_is_stable() -> None:
    first = scenario("snoop")
    again = _native.Scenario(first.filled)
    assert again.filled == first.filled
    assert numbers(again.run(5)) == numbers(first.run(5))


def test_event_table(tmp_path: Path) -> None:
    result = lasthop.run(
        last_hop=HOP, settings={"duration": "5 s"}, scheme="snoop", events=tmp_path / "ev"
    )
    table = polars.read_parquet(tmp_path / "ev" / "events.parquet")
    assert table.columns == [
        "t_ns",
        "node",
        "link",
        "flow",
        "event",
        "seq",
        "len",
        "ack",
        "attempt",
        "cause",
        "value",
    ]
    flow = result.data["flows"][0]
    assert table["t_ns"].is_sorted()
    assert table.filter(event="delivered")["value"].sum() == flow["delivered_bytes"]
    assert table.filter(event="data_sent").height == flow["sent_segments"]
    assert table.filter(event="timeout").height == flow["timeouts"]["total"]
    lost = table.filter(event="lost_on_air")
    assert lost.height == sum(x["lost_on_air"] for x in result.data["links"])
    assert set(lost["link"]) <= {"bs>phone", "phone>bs"}
    syn = table.filter(event="data_sent").row(0, named=True)
    assert (syn["seq"], syn["len"], syn["node"]) == (0, 0, "server")


def test_capture_and_replay(tmp_path: Path) -> None:
    capture, out = tmp_path / "run.pcapng", tmp_path / "out.pcapng"
    lasthop.run(last_hop=HOP, settings={"duration": "5 s"}, scheme="snoop", pcap=capture)
    assert capture.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
    text, counts = lasthop.replay(capture, mobile="10.0.0.3", scheme="snoop", out=out)
    assert counts["tcp"] > 100
    assert "the endpoints do not react" in text
    assert out.stat().st_size > 1000
    with pytest.raises(InputError, match="has no agent"):
        lasthop.replay(capture, mobile="10.0.0.3", scheme="reno", out=tmp_path / "none.pcapng")
    with pytest.raises(InputError, match="No such file"):
        lasthop.replay(tmp_path / "nothing", mobile="10.0.0.3", scheme="snoop", out=out)
    with pytest.raises(InputError, match="--mobile"):
        lasthop.replay(capture, mobile="phone", scheme="snoop", out=out)
    assert not (tmp_path / "none.pcapng").exists()
    assert not list(tmp_path.glob(".*"))


def test_replay_takes_an_agent_in_python(tmp_path: Path) -> None:
    class Thin(lasthop.Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> Verdict | None:
            return Verdict.drop("thinned") if segment.is_pure_ack and segment.id % 2 else None

    class Broken(lasthop.Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            raise KeyError("no such flow")

    capture, out = tmp_path / "run.pcapng", tmp_path / "out.pcapng"
    lasthop.run(last_hop=HOP, settings={"duration": "5 s"}, scheme="snoop", pcap=capture)
    _, counts = lasthop.replay(capture, mobile="10.0.0.3", scheme=Thin, out=out)
    assert counts["tcp"] > sum(counts["dropped"].values()) > 50
    with pytest.raises(KeyError, match="no such flow"):
        lasthop.replay(capture, mobile="10.0.0.3", scheme=Broken, out=tmp_path / "none.pcapng")


def test_results_of_a_run(tmp_path: Path) -> None:
    result = lasthop.run(last_hop=HOP, settings={"duration": "5 s"}, scheme="snoop")
    assert result.goodput_bps == result.data["flows"][0]["goodput_bps"]
    assert (
        result.flows["retransmissions_total"].item()
        == result.data["flows"][0]["retransmissions"]["total"]
    )
    assert result.links.height == 4
    assert "agent snoop" in str(result)
    for name in ("run.svg", "run.png", "run.pdf"):
        result.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(InputError, match=r"\.svg, \.pdf, \.png"):
        result.plot(tmp_path / "run.jpeg")


def test_agents_answer_vectors() -> None:
    answers = _native.agent_answers(
        "packet-control:dupack_threshold=6",
        ["ack 5", "ack 5", "ack 5", "data 3", "data 3", "data 6"],
    )
    assert answers == ["forward", "drop", "forward", "drop", "drop+inject", "forward"]
    for scheme, packets in (
        ("reno", ["ack 1"]),
        ("snoop", ["ack"]),
        ("snoop", ["nack 3"]),
        ("snoop", ["ack 0"]),
    ):
        with pytest.raises(InputError):
            _native.agent_answers(scheme, packets)


def test_catalogue_and_schema() -> None:
    entries = lasthop.schemes()
    assert {"reno", "snoop", "packet-control", "i-tcp"} <= {e["name"] for e in entries}
    for entry in entries:
        assert set(entry) >= {
            "name",
            "family",
            "summary",
            "paper",
            "slots",
            "changes",
            "settings",
            "assumptions",
            "evidence",
            "unsafe",
            "simulation_only",
        }
        assert all(s["doc"] for s in entry["settings"])
        assert entry["evidence"]
        assert all(0 <= e["agree"] <= e["cases"] for e in entry["evidence"])
    assert "properties" in lasthop.schema()
    assert lasthop.__version__ == _native.version()
