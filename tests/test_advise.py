"""`lasthop advise`: what schemes would change on a measured link."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import unclear_captures
from documents import validate
from fitted_links import Link, drawn, measured

import lasthop
from lasthop.advice import advise, draws, repeat
from lasthop.cli.main import main
from lasthop.traces.fit import scenario
from lasthop.traces.fit.fit import Fit, fit


def test_draws_fill_the_intervals() -> None:
    link = Link(rate_bps=8e6, rtt_s=0.04, loss=0.005, queue_packets=100)
    found = fit(measured(link, 1, "phone", duration_s=10))
    sets = draws.draw(found, 400)
    for e in found.estimates():
        if e.name not in ("capacity", "queue", "air_loss"):
            continue
        values = np.array([s[e.name] for s in sets])
        inside = ((values >= e.low) & (values <= e.high)).mean()
        assert inside == 1 if e.is_range else 0.85 < inside < 0.95


def test_only_what_can_be_changed_is_offered() -> None:
    assert {"bbr", "vegas"} <= {e["name"] for e in advise.deployable("sender")}
    assert "snoop" not in {e["name"] for e in advise.deployable("sender")}
    assert "snoop" in {e["name"] for e in advise.deployable("ap")}
    assert "ideal-bwe" not in {e["name"] for e in advise.deployable("both-ends")}


def test_an_unsafe_scheme_is_never_the_answer() -> None:
    names = ("a", "b")
    options = [
        advise.Option(n, (g, g, g), (g, g, g), (0, 0, 0), None, ["sender"], False, w, 20)
        for n, g, w in zip(names, (2.0, 0.3), (["unsafe here"], []), strict=True)
    ]
    gains = {n: np.full(20, 0.3) for n in names}
    answer = advise._verdict("sender", options, gains, [{}] * 20)
    assert answer.text.startswith("b helps")


def test_the_command_finds_that_snoop_helps_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture, page = tmp_path / "run.pcapng", tmp_path / "advice.html"
    link = Link(rate_bps=8e6, rtt_s=0.06, loss=0.01, queue_packets=100)
    lasthop.run(text=link.toml(10), pcap=capture)
    words = ["advise", str(capture), "--interface", "modem-phone", "--draws", "5"]
    assert main([*words, "--can", "ap", "--out", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate("advise", found)
    assert found["verdict"] == "helps"
    snoop = next(o for o in found["options"] if o["scheme"] == "snoop")
    assert snoop["reads_tcp"]
    assert snoop["goodput"][1] > 0.2
    assert found["options"][0]["competitor"] is not None
    html = page.read_text(encoding="utf-8")
    assert "snoop" in html
    assert "Traffic: 1 bulk transfer of the capture. The gain is in goodput." in html
    assert "repeats" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert main([*words[:2], "--draws", "1"]) == 2


def test_a_sender_limited_by_a_window_cannot_tell() -> None:
    link = Link(20e6, 0.04, 0.0, 100, window_packets=8)
    found = fit(measured(link, 1, "phone", duration_s=5))
    assert found.capacity.estimate.is_range
    answer = advise.advise(found, "ap", 5)
    assert answer.verdict == "cannot tell"
    assert "the receiver's window of 11.6 kB limited the sender" in found.capacity.estimate.how
    assert "the receiver's window limited the sender in 100 % of the time" in answer.text
    assert answer.narrows == "capacity"
    # Without the SYNs of the capture, the scale of the window is unknown.
    unknown = fit(replace(found.seen.found, window_bytes=None))
    answer = advise.advise(unknown, "ap", 5)
    assert answer.verdict == "cannot tell"
    assert "losses do not explain the measured rate" in answer.text


def test_a_small_window_limits_the_draws_too() -> None:
    link = Link(20e6, 0.04, 0.01, 100, window_packets=8)
    found = fit(measured(link, 1, "server", duration_s=10))
    text = scenario.text(found)
    assert 'receive_window = { size = "11584 B", grows = false }' in text
    # 8 segments in a round trip of 40 ms are 2.3 Mbit/s at most.
    assert lasthop.run(text=text, scheme="bbr").data["flows"][0]["goodput_bps"] < 2.4e6


def test_losses_explain_the_rate_on_a_link_of_unknown_capacity() -> None:
    link = Link(20e6, 0.04, 0.03, 100)
    found = fit(measured(link, 1, "phone", duration_s=10))
    assert found.capacity.estimate.is_range
    answer = advise.advise(found, "ap", 5)
    assert answer.verdict == "helps"
    assert "the losses explain the measured rate" in answer.text


def test_a_measurement_longer_than_a_run_is_compared_over_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "drive.csv"
    rates = "".join(f"{i},{1 if i < 60 else 3},40\n" for i in range(120))
    file.write_text(f"time_s,download_mbps,rtt_ms\n{rates}", encoding="utf-8")
    rows, _ = repeat.repeat(lasthop.fit(file), runs=1)
    assert rows[0].name == "rate"
    assert rows[0].measured == pytest.approx(1e6)


def cannot_tell(kind: str, folder: Path) -> Fit:
    """A measurement that does not tell what would help."""
    rng = np.random.default_rng(1)
    if kind == "datagrams at a constant rate":
        link = Link(20e6, 0.04, 0.0, 100, app='app = { kind = "cbr", rate = "2 Mbps" }')
        return fit(measured(link, 1, "phone", duration_s=10))
    if kind.startswith("small window"):
        link = Link(20e6, 0.04, 0.0, 100, window_packets=8)
        end, duration_s = ("server", 10) if "sender" in kind else ("phone", 5)
        return fit(measured(link, 1, end, duration_s=duration_s))
    lines = {
        "ping": (
            f"64 bytes from 192.0.2.1: icmp_seq={i} ttl=60 time={40 + rng.exponential(2):.2f} ms"
            for i in range(100)
        ),
        "rates": ("time_s,download_mbps", *(f"{i},{8 + rng.normal():.2f}" for i in range(60))),
        "faster than its losses allow": (
            "time_s,download_mbps,rtt_ms,loss_percent",
            *(f"{i},{18 + rng.normal():.2f},{42 + rng.exponential(9):.1f},1" for i in range(100)),
        ),
    }[kind]
    path = folder / "file.txt"
    path.write_text("\n".join(lines) + "\n")
    return lasthop.fit(path)


@pytest.mark.parametrize(
    "kind",
    [
        *("small window", "small window at the sender", "ping", "rates"),
        "datagrams at a constant rate",
        "faster than its losses allow",
    ],
)
def test_a_measurement_that_cannot_tell_says_so(kind: str, tmp_path: Path) -> None:
    answer = advise.advise(cannot_tell(kind, tmp_path), "ap", 3)
    assert answer.verdict == "cannot tell"
    assert answer.text.startswith("cannot tell, because")
    assert answer.scheme is None
    assert "cubic" in answer.candidates
    assert answer.measurement
    if kind == "faster than its losses allow":
        assert "far above" in answer.text
        assert answer.narrows == "air_loss"


@pytest.mark.parametrize("can", ["sender", "base-station"])
@pytest.mark.parametrize("kind", unclear_captures.KINDS)
def test_a_capture_that_cannot_tell_says_why(kind: str, can: str, tmp_path: Path) -> None:
    answer = advise.advise(unclear_captures.KINDS[kind](tmp_path), can, 5)
    assert answer.verdict == "cannot tell"
    assert answer.scheme is None
    assert answer.measurement
    why = {
        "limited by its application": "losses do not explain the measured rate, 1.02 Mbit/s",
        "datagrams": "packets of one direction only",
        "encrypted": "the capture has no TCP (QUIC",
        "one direction": "packets of one direction only",
        "whole seconds": "the clock of the capture counts in steps of 1 s",
        "idle": "the capture has no TCP",
    }.get(kind, "")
    assert answer.text.startswith("cannot tell, because")
    assert why in answer.text


def test_a_clock_of_whole_seconds_is_named(tmp_path: Path) -> None:
    found = unclear_captures.whole_seconds(tmp_path).seen.found
    assert found.clock_step_s == 1
    assert any("counts in steps of 1 s" in note for note in found.notes)
    assert unclear_captures.too_short(tmp_path).seen.found.clock_step_s == 0


@pytest.mark.parametrize("gain", [0.0, 0.2])
def test_a_wide_spread_cannot_tell(gain: float) -> None:
    rng = np.random.default_rng(1)
    capacity = rng.uniform(1e6, 1e7, 20)
    gains = gain + (capacity - capacity.mean()) / 2e7 if gain else np.zeros(20)
    spread = advise._spread(gains)
    option = advise.Option("bbr", spread, spread, (0, 0, 0), None, ["sender"], False, [], 20)
    sets = [{"capacity": c} for c in capacity]
    answer = advise._verdict("sender", [option], {"bbr": gains}, sets)
    assert answer.verdict == ("cannot tell" if gain else "nothing helps")
    if gain:
        assert answer.narrows == "capacity"
        assert "because it depends on the capacity" in answer.text


def test_the_functions_answer_as_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "run.pcapng"
    lasthop.run(text=Link(8e6, 0.06, 0.01, 100).toml(5), pcap=capture)
    words = ["advise", str(capture), "--interface", "modem-phone", "--draws", "5", "--json"]
    assert main(words) == 0
    command = json.loads(capsys.readouterr().out)
    measured = lasthop.trace(capture, interface="modem-phone")
    found = lasthop.fit(measured)
    assert json.loads(json.dumps(found.document())) == command["fit"]
    answer = lasthop.advise(found, draws=5)
    assert answer.text == command["text"]
    assert lasthop.fit(capture, interface="modem-phone").document() == found.document()
    assert lasthop.run(text=found.scenario()).goodput_bps > 1e6
    with pytest.raises(lasthop.InputError, match="no option `colour`"):
        lasthop.trace(capture, colour="red")
    with pytest.raises(lasthop.InputError, match="option of files"):
        lasthop.fit(measured, interface="modem-phone")


def test_the_answer_names_the_schemes_that_may_be_better() -> None:
    gains = {"a": np.array([0.5, 0.5, 0.5, 0.1]), "b": np.array([0.48, 0.48, 0.2, 0.12])}
    assert advise._rivals("a", ["a", "b"], gains) == []
    gains["b"] = np.array([0.2, 0.2, 0.2, 0.48])
    assert advise._rivals("a", ["a", "b"], gains) == ["b"]
    options = [
        advise.Option(n, (g, 0.1, 0.5), (g, 0.1, 0.5), (0, 0, 0), None, ["sender"], False, [], 4)
        for n, g in (("a", 0.5), ("b", 0.2))
    ]
    answer = advise._verdict("sender", options, gains, [{}] * 4)
    assert answer.scheme == "a"
    assert answer.text.endswith("the draws do not tell whether it is better than b")


def test_an_unknown_queue_grows_with_an_unknown_capacity() -> None:
    link = Link(rate_bps=20e6, rtt_s=0.04, loss=0.02, queue_packets=100)
    capture = measured(link, 1, "phone", duration_s=10)
    found = fit(replace(capture, pair_rate_bps=None))
    kinds = {e.name: e.is_range for e in found.estimates()}
    assert kinds["capacity"]
    assert kinds["queue"]
    sets = draws.draw(found, 200)
    capacity, queue = (np.log([d[n] for d in sets]) for n in ("capacity", "queue"))
    assert np.corrcoef(capacity, queue)[0, 1] > 0.3


def test_packet_pairs_narrow_an_unknown_capacity() -> None:
    # Losses keep the queue empty. The rates from 9 Mbit/s to ten times as much left open whether
    # Snoop or M-TCP is better.
    link = drawn(10)
    capture = measured(link, 10, "phone", duration_s=20)
    capacity = fit(capture).capacity.estimate
    assert capacity.is_range
    assert "of packets that followed one another" in capacity.how
    assert capacity.low <= link.rate_bps <= capacity.high
    assert capacity.high < 2.5 * capacity.low
    unknown = fit(replace(capture, pair_rate_bps=None)).capacity.estimate
    assert unknown.high > 5 * unknown.low


def test_the_answer_leaves_open_what_may_be_the_best() -> None:
    share = np.linspace(0.0, 1.0, 20)
    sets = [{"radio_share": s} for s in share]
    gains = {"a": np.full(20, 0.5), "b": 0.8 * share + 0.1}
    options = [
        advise.Option(n, (g, 0.1, 0.5), (g, 0.1, 0.5), (0, 0, 0), None, ["sender"], False, [], 20)
        for n, g in (("a", 0.5), ("b", 0.45))
    ]
    answer = advise._verdict("sender", options, gains, sets)
    assert answer.candidates == ["a", "b"]
    assert answer.text.endswith("better than b, which depends on the radio share")
    assert answer.measurement == "ping the hop before the radio link from both ends"
    options = [replace(o, gain=(o.gain[0], 0.0, 0.5)) for o in options]
    answer = advise._verdict("sender", options, gains, sets)
    assert answer.verdict == "cannot tell"
    assert answer.candidates == ["cubic", "a", "b"]
