"""Schemes in Python: settings, what a window rule may ask for, agents."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from commands import document

import lasthop
from lasthop import Agent, CongestionControl, InputError, Verdict, own_schemes
from lasthop._native import Ack, Context, Lost, Segment, Start, Window

HOP = {"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}
SHORT = {"duration": "10 s"}
FILE = """
import lasthop

class Keep(lasthop.CongestionControl):
    beta = 0.5
    recovery = "newreno"

    def on_ack(self, window, ack):
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += min(ack.bytes, ack.mss) if slow_start else ack.mss * ack.mss / window.cwnd

    def on_loss(self, window, loss):
        loss.halve(window)
        if loss.kind == "duplicate-acks":
            window.ssthresh = window.cwnd = loss.ssthresh(self.beta * loss.base)

class Thin(lasthop.Agent):
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


class Grows(CongestionControl):
    """Reno's growth."""

    recovery = "newreno"

    def on_ack(self, window: Window, ack: Ack) -> None:
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += min(ack.mss, ack.bytes) if slow_start else ack.mss * ack.mss / window.cwnd


def run(scheme: Any, seed: int = 1, **settings: str) -> lasthop.RunResult:
    return lasthop.run(last_hop=HOP, scheme=scheme, seed=seed, settings={**SHORT, **settings})


@pytest.fixture
def mine(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    return str(file)


# Settings


def test_class_attributes_are_settings() -> None:
    class Base(Grows):
        beta = 0.5
        rounds = 3
        fast = True
        word = "x"
        _private = 1
        helper = (1,)

    class Derived(Base):
        beta = 0.7
        word = None  # type: ignore[assignment]

    assert own_schemes.settings_of(Derived) == {"beta": 0.7, "rounds": 3, "fast": True}
    changed: Any = lasthop.configure(Base, beta="1", rounds="4", fast="false")
    assert (changed.beta, changed.rounds, changed.fast) == (1.0, 4, False)
    assert changed.label == "Base:beta=1:rounds=4:fast=false"


def test_fields_of_a_dataclass_are_settings() -> None:
    @dataclasses.dataclass
    class Fields(Grows):
        beta: float = 0.5
        seen: list[int] = dataclasses.field(default_factory=list)

    changed: Any = lasthop.configure(Fields, beta=0.9)
    assert changed().beta == 0.9
    assert own_schemes.settings_of(changed) == {"beta": 0.9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Keep:beat=1", "did you mean `beta`"),
        ("Keep:beta=x", "beta must be a number, found 'x'"),
        ("Thin:every=1.5", "every must be a whole number"),
        ("Keep:beta", "expected KEY=VALUE"),
        ("Kept", "it has: Keep, Thin"),
    ],
)
def test_wrong_settings_are_named(mine: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(f"{mine}:{text}")


def test_a_setting_changes_the_run_and_its_label(mine: str) -> None:
    half, more = (run(f"{mine}:Keep{x}") for x in ("", ":beta=0.9"))
    assert (half.data["scheme"], more.data["scheme"]) == ("Keep", "Keep:beta=0.9")
    means = [
        sum(run(f"{mine}:Keep{x}", seed).goodput_bps for seed in range(1, 7)) / 6
        for x in ("", ":beta=0.9")
    ]
    assert means[1] > 1.05 * means[0]
    same = run(f"{mine}:Keep:beta=0.5:label=same")
    assert same.data["scheme"] == "same"
    assert same.goodput_bps == half.goodput_bps


def test_a_scenario_names_schemes_in_python(mine: str, tmp_path: Path) -> None:
    folder = tmp_path / "cells"
    folder.mkdir()
    file = folder / "cell.toml"
    file.write_text(
        'duration = "5 s"\n[last_hop]\nrate = "2 Mbps"\n[tcp]\n'
        'scheme = "../mine.py:Keep:beta=0.8"\n[[flow]]\n[[flow]]\n'
        'scheme = { name = "../mine.py:Thin", every = 3, label = "thin" }\n'
    )
    result = lasthop.run(file, flows={"against": [f"{mine}:Keep"]})
    assert [f["scheme"] for f in result.data["flows"]] == ["Keep:beta=0.8", "thin", "Keep"]
    assert result.data["agents"][0]["counters"]["dropped"] > 0
    changed = lasthop.run(file, settings={"tcp.scheme.beta": "0.6"})
    assert changed.data["flows"][0]["scheme"] == "Keep:beta=0.6"
    # The scenario with all defaults filled in is the same one.
    again = lasthop.run(text=lasthop.run(file).scenario.filled)
    assert again.data["flows"] == lasthop.run(file).data["flows"]
    file.write_text(file.read_text().replace(":Keep", ":Kept"))
    with pytest.raises(InputError, match=r"cell\.toml:5.*it has: Keep, Thin"):
        lasthop.run(file)


def test_a_setting_can_be_varied(mine: str) -> None:
    result = lasthop.compare(
        last_hop=HOP,
        schemes=["newreno", f"{mine}:Keep"],
        vary={"tcp.scheme.beta": ["0.5", "0.9"]},
        seeds=2,
        settings=SHORT,
    )
    keep = [result.values(p, "Keep", "goodput_bps") for p in (0, 1)]
    assert keep[0] != keep[1]
    assert result.values(0, "newreno", "goodput_bps") == result.values(1, "newreno", "goodput_bps")
    with pytest.raises(InputError, match="none of the schemes has this setting"):
        lasthop.compare(last_hop=HOP, schemes=["reno"], vary={"tcp.scheme.beta": ["1"]})


# Window rules


def test_methods_that_a_rule_defines_are_called() -> None:
    seen: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seen.setdefault(name, []).append(value)

    class All(Grows):
        recovery = "sack"

        def on_established(self, window: Window, start: Start) -> None:
            note("established", start.rtt_s or 0.0)

        def on_any_ack(self, window: Window, ack: Ack) -> None:
            note("any ack", ack.delivered)
            if ack.rate is not None:
                note("rate", ack.rate.rate_bps)

        def on_lost(self, window: Window, lost: Lost) -> None:
            note("lost", lost.bytes)

        def on_sent(self, window: Window, now_s: float, bytes: int, flight: int) -> None:
            note("sent", flight)

        def on_undo(self, window: Window, now_s: float, cwnd: float, ssthresh: float) -> None:
            note("undo", cwnd)

    flow = run(All).data["flows"][0]
    assert seen["established"] == [pytest.approx(0.04, rel=0.05)]
    assert len(seen["any ack"]) > 500
    assert max(seen["rate"]) == pytest.approx(2e6, rel=0.2)
    again = flow["retransmissions"]["total"]
    assert len(seen["lost"]) >= again // 2 > 0
    assert len(seen["sent"]) == pytest.approx(flow["sent_segments"] - again, abs=2)


def test_an_ack_that_a_rule_keeps_does_not_change() -> None:
    """The object of an ACK serves the next one, unless the rule has kept it or its arguments."""
    acks: list[Ack] = []
    seen: list[tuple[float, int, float | None]] = []
    arguments: list[tuple[Any, ...]] = []

    def values(ack: Ack) -> tuple[float, int, float | None]:
        return ack.now_s, ack.snd_una, ack.rate.rate_bps if ack.rate else None

    class Keeps(Grows):
        needs = ("rate-samples",)
        count = 0

        def on_ack(self, *both: Any) -> None:
            arguments.append(both)
            super().on_ack(*both)

        def on_any_ack(self, window: Window, ack: Ack) -> None:
            self.count += 1
            if self.count % 3 == 0:
                acks.append(ack)
                seen.append(values(ack))

    run(Keeps)
    assert len(acks) > 100
    assert [values(ack) for ack in acks] == seen
    assert len(set(seen)) > len(seen) / 2
    times = [ack.now_s for _, ack in arguments]
    assert times == sorted(times)
    assert len(set(times)) > len(times) / 2 > 50


def test_a_rule_paces() -> None:
    class Paced(Grows):
        needs = ("pacing",)
        rate = 5e5

        def on_established(self, window: Window, start: Start) -> None:
            window.pacing_bps = self.rate

    for rate in (5e5, 1e6):
        result = run(lasthop.configure(Paced, rate=rate))
        assert result.goodput_bps == pytest.approx(rate, rel=0.1)
        # The first ten segments are not paced: at 0.5 Mbit/s they are in flight for 0.24 s.
        assert result.data["flows"][0]["limited_by"]["pacing"] > 0.75
        all_paced: dict[str, Any] = {"tcp.unpaced_segments": "0"}
        result = run(lasthop.configure(Paced, rate=rate), **all_paced)
        assert result.data["flows"][0]["limited_by"]["pacing"] > 0.8


@pytest.mark.parametrize("recovery", ["newreno", "sack", "rack+prr", "sack-ns2"])
def test_a_rule_has_a_timer(recovery: str) -> None:
    times: list[float] = []

    class Ticks(Grows):
        def on_ack(self, window: Window, ack: Ack) -> None:
            window.cwnd = 2.0 * ack.mss
            if window.timer_s is None:
                window.timer_s = ack.now_s + 0.25

        def on_timer(self, window: Window, now_s: float) -> None:
            assert window.timer_s is None
            times.append(now_s)
            window.timer_s = now_s + 0.25

    Ticks.recovery = recovery
    run(Ticks)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert len(times) > 35
    assert gaps == [pytest.approx(0.25)] * len(gaps)


def test_a_timer_can_send() -> None:
    class Waits(Grows):
        def on_established(self, window: Window, start: Start) -> None:
            window.cwnd = start.mss
            window.timer_s = 5.0

        def on_ack(self, window: Window, ack: Ack) -> None:
            pass

        def on_timer(self, window: Window, now_s: float) -> None:
            window.cwnd = 1e6

    # After a loss this rule would keep a window of one segment.
    flow = run(Waits, 1, **{"last_hop.loss": "0 %"}).data["flows"][0]
    assert 500_000 < flow["delivered_bytes"] < 1_250_000


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("pacing_bps", 1e6, "needs = "),
        ("timer_s", 99.0, "define on_timer"),
    ],
)
def test_what_has_no_effect_is_an_error(attribute: str, value: float, message: str) -> None:
    class Wrong(Grows):
        def on_established(self, window: Window, start: Start) -> None:
            setattr(window, attribute, value)

    with pytest.raises(ValueError, match=message):
        run(Wrong)


def test_a_timer_in_the_past_is_an_error() -> None:
    class Past(Grows):
        def on_established(self, window: Window, start: Start) -> None:
            window.timer_s = start.now_s

        def on_timer(self, window: Window, now_s: float) -> None:
            pass

    with pytest.raises(ValueError, match="later than now"):
        run(Past)


def test_wrong_attributes_are_named() -> None:
    class Needy(Grows):
        needs = ("paceing",)

    class Text(Grows):
        needs = "pacing"  # type: ignore[assignment]

    class Placed(Agent):
        roles = ("basestation",)

    class Misspelt(Grows):
        def on_acks(self, window: Window, ack: Ack) -> None:
            pass

    class Deaf(Agent):
        def on_link_event(
            self, ctx: Context, event: str, segment: Segment, attempt: int | None
        ) -> None:
            pass

    for wrong, message in (
        (Needy, "unknown `paceing`"),
        (Text, "tuple"),
        (Placed, "basestation"),
        (Misspelt, r"on_acks is never called \(did you mean `on_ack`"),
        (Deaf, "link_events names no events"),
    ):
        with pytest.raises(InputError, match=message):
            run(wrong)


def test_recorded_series_are_in_the_results(tmp_path: Path) -> None:
    import polars

    class Records(Grows):
        def on_ack(self, window: Window, ack: Ack) -> None:
            super().on_ack(window, ack)
            window.record("in flight", ack.flight)

        def on_recovered(self, window: Window, now_s: float) -> None:
            window.record("recovery ends", now_s)

    class Counts(Agent):
        sender = "reno"

        def on_segment(self, ctx: Context, segment: Segment) -> None:
            if segment.len:
                ctx.record(segment.flow, "seq", segment.seq)

    result = lasthop.run(
        last_hop=HOP, scheme=Records, settings=SHORT, flows={"flows": 2}, events=tmp_path
    )
    table = result.series()
    assert set(table["series"]) == {"in flight", "recovery ends"}
    assert set(table["flow"]) == {f["id"] for f in result.data["flows"]}
    ends = table.filter(polars.col("series") == "recovery ends")
    assert ends.height > 2
    assert ends["t_s"].to_list() == pytest.approx(ends["value"].to_list())
    events = polars.read_parquet(tmp_path / "events.parquet")
    rows = events.filter(polars.col("event") == "series")
    assert rows["value"].to_list() == table["value"].to_list()
    assert rows["cause"].cast(str).to_list() == table["series"].to_list()
    assert events["t_ns"].is_sorted()
    assert run("reno").series().height == 0
    assert run(Counts).series()["value"].max() == pytest.approx(
        run(Counts).data["flows"][0]["delivered_bytes"], rel=0.1
    )


# Agents


def test_an_agent_that_does_nothing_changes_nothing() -> None:
    class Idle(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            assert segment.size >= 40

    idle, cubic = run(Idle).data["flows"][0], run("cubic").data["flows"][0]
    assert idle["delivered_bytes"] == cubic["delivered_bytes"]
    assert idle["retransmissions"] == cubic["retransmissions"]


def test_an_agent_drops_counts_and_runs_over_a_sender(mine: str) -> None:
    result = run(f"{mine}:Thin:every=3")
    dropped = result.data["agents"][0]["counters"]["dropped"]
    assert dropped > 500
    links = {(x["from"], x["to"]): x for x in result.data["links"]}
    up, wired = links["phone", "bs"], links["bs", "server"]
    assert up["delivered_frames"] == wired["offered_frames"] + dropped

    class Reno(Agent):
        sender = "reno"

    assert "window reno" in run(Reno).slots[0]
    with pytest.raises(InputError, match="no scheme `renno`"):
        run(type("Bad", (Agent,), {"sender": "renno"}))


def test_an_agent_keeps_rewrites_and_forwards() -> None:
    class Holds(Agent):
        """Holds each uplink ACK for 50 ms and closes the window to 20 kB."""

        def __init__(self) -> None:
            self.held: list[Segment] = []

        def on_segment(self, ctx: Context, segment: Segment) -> Verdict | None:
            if not segment.is_pure_ack:
                return None
            self.held.append(segment)
            ctx.set_timer(len(self.held), ctx.now_s + 0.05)
            return Verdict.keep()

        def on_timer(self, ctx: Context, timer: int) -> None:
            held = self.held[timer - 1]
            ctx.forward(held.copy(window=min(held.window, 20_000)))

    plain, held = run("cubic").data["flows"][0], run(Holds).data["flows"][0]
    assert held["rtt_s"]["mean"] > 0.085 > plain["first_byte_s"]
    assert held["limited_by"]["receive_window"] > 0.2

    class Closes(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> Verdict | None:
            return Verdict.rewrite(window=20_000) if segment.is_pure_ack else None

    assert run(Closes).data["flows"][0]["limited_by"]["receive_window"] > 0.2
    assert plain["limited_by"]["receive_window"] < 0.01


def test_an_agent_retransmits_locally() -> None:
    class Repairs(Agent):
        """Injects the next segment once for the first duplicate ACK, from a cache."""

        link_events = ("delivered",)

        def __init__(self) -> None:
            self.cache: dict[int, Segment] = {}
            self.last = self.repeats = self.repaired = 0

        def on_segment(self, ctx: Context, segment: Segment) -> Verdict | None:
            if segment.forward and segment.len:
                self.cache[segment.seq] = segment
                ctx.retain(segment)
                return None
            if not segment.is_pure_ack:
                return None
            if segment.ack > self.last:
                self.last, self.repeats = segment.ack, 0
                for seq in [s for s in self.cache if s < segment.ack]:
                    ctx.release(self.cache.pop(seq))
                return None
            self.repeats += 1
            if self.repeats == 1 and segment.ack in self.cache:
                self.repaired += 1
                ctx.inject(self.cache[segment.ack])
            return Verdict.drop("local recovery")

        def counters(self) -> dict[str, int]:
            return {"repaired": self.repaired}

    flow = run(Repairs).data["flows"][0]
    assert run(Repairs).data["agents"][0]["counters"]["repaired"] > 5
    plain = run("cubic").data["flows"][0]
    assert flow["retransmissions"]["total"] < plain["retransmissions"]["total"]


def test_an_agent_hears_of_its_links() -> None:
    seen: set[str] = set()

    class Watches(Agent):
        link_events = ("delivered", "refused")

        def on_link_event(
            self, ctx: Context, event: str, segment: Segment, attempt: int | None
        ) -> None:
            seen.add(f"{event} {segment.direction} {attempt}")

        def on_link_change(
            self, ctx: Context, flow: int, direction: str, change: str, rate_bps: float | None
        ) -> None:
            seen.add(f"{change} {direction}")
            if change == "down" and direction == "downlink":
                ctx.notify("link", flow, 0, "sender")
            seen.add(f"queue {ctx.queue('downlink').packets > 0}")
            seen.add(f"rate {ctx.rate_bps('downlink')}")

    text = (
        'duration = "5 s"\n[last_hop]\nrate = "2 Mbps"\nqueue = "5 packets"\n'
        'outage = { from = "2 s", length = "500 ms" }\n'
    )
    lasthop.run(text=text, scheme=Watches)
    assert {"delivered downlink 1", "refused downlink None", "down downlink", "up downlink"} <= seen
    assert {"queue True", "rate 2000000.0"} <= seen


def test_an_error_in_an_agent_ends_its_run() -> None:
    class Broken(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            raise KeyError("no such flow")

    class Odd(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> Any:
            return "drop"

    class Past(Agent):
        def on_segment(self, ctx: Context, segment: Segment) -> None:
            ctx.set_timer(1, ctx.now_s)

    class Unmakeable(Agent):
        def __init__(self, cache: int) -> None:
            pass

    class Miscounts(Agent):
        def counters(self) -> Any:
            return {"dropped": "many"}

    for wrong, error, message in (
        (Broken, KeyError, "no such flow"),
        (Odd, ValueError, "must return a lasthop.Verdict or None, found 'drop'"),
        (Past, ValueError, "later than now"),
        (Unmakeable, TypeError, "cache"),
        (Miscounts, InputError, "must return names with whole numbers"),
    ):
        with pytest.raises(error, match=message):
            run(wrong)
    result = lasthop.compare(last_hop=HOP, schemes=["reno", Broken], seeds=2, settings=SHORT)
    assert [x.error.split(":")[0] for x in result.failed] == ["KeyError"] * 2


def test_the_command_line_takes_agents(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    hop = ["--rate", "2Mbps", "--rtt", "40ms", "--set", "duration=5s"]
    run = document(capsys, "run", *hop, "--scheme", f"{mine}:Thin:every=4")
    assert run["agents"][0]["scheme"] == "Thin:every=4"
    wanted = f"newreno,{mine}:Thin,{mine}:Thin:every=4"
    compared = document(capsys, "compare", *hop, "--schemes", wanted, "--seeds", "2")
    schemes = compared["points"][0]["schemes"]
    assert [s["label"] for s in schemes] == ["newreno", "Thin", "Thin:every=4"]
