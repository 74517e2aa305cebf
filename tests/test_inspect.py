"""`lasthop inspect`: facts against the results of runs, causes of stalls, page, qlog, captures."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import browser
import jsonschema
import numpy as np
import pytest
from optional import needs

import lasthop
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.inspection import downsample, series, stalls
from lasthop.inspection.inspection import Inspection
from lasthop.scenarios import wifi

LOSSY = {"rate": "2Mbps", "rtt": "40ms", "loss": "1%"}
DEEP_BUFFER = """
title = "deep buffer"
duration = "8 s"
[last_hop]
rate = "1 Mbps"
rtt = "40 ms"
queue = "100 packets"
[tcp]
profile = "rfc"
scheme = "newreno"
"""
OUTAGE = """
title = "outage"
duration = "16 s"
[last_hop]
rate = "2 Mbps"
rtt = "60 ms"
outage = {{ from = "5 s", length = "3 s", frames = "{frames}" }}
[tcp]
scheme = "newreno"
"""

ONE_WAY_LOSS = """
title = "loss in one direction"
duration = "10 s"
[[link]]
between = ["server", "bs"]
rate = "10 Mbps"
delay = "40 ms"
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "2 Mbps"
delay = "5 ms"
forward.loss = "3 %"
[[flow]]
from = "server"
to = "phone"
[tcp]
scheme = "snoop"
"""


@pytest.fixture(scope="module")
def lossy() -> Inspection:
    return lasthop.inspect(last_hop=LOSSY, schemes=["newreno", "cubic"])


@pytest.mark.parametrize("scheme", ["newreno", "cubic", "tahoe", "bbr", "snoop", "eifel"])
def test_totals_are_those_of_the_run(scheme: str) -> None:
    loss = {**LOSSY, "loss": "3%"}
    run = lasthop.run(last_hop=loss, scheme=scheme, seed=4).data["flows"][0]
    found = lasthop.inspect(last_hop=loss, schemes=scheme, seed=4).subjects[0].facts
    assert found["retransmissions"] == run["retransmissions"]["total"] > 0
    assert found["spurious_retransmissions"] == run["retransmissions"]["spurious"]
    assert found["timeouts"] == run["timeouts"]["total"]
    assert found["fast_retransmits"] == run["fast_retransmits"]["total"]
    assert found["sent_segments"] + 1 == run["sent_segments"], "the SYN is no data segment"
    assert found["delivered_bytes"] == run["delivered_bytes"]


def test_losses_are_those_of_the_links(lossy: Inspection) -> None:
    for subject in lossy.subjects:
        links = subject.connection.record.links
        lost = sum(x["lost_on_air"] + x["dropped_at_queue"] for x in links)
        assert sum(subject.facts["losses"].values()) + subject.facts["lost_acks"] == lost > 0


def test_acks_that_an_agent_suppresses_are_not_lost(tmp_path: Path) -> None:
    """The reverse link loses nothing: Snoop drops the duplicate ACKs that it has repaired."""
    path = tmp_path / "snoop.toml"
    path.write_text(ONE_WAY_LOSS)
    found = lasthop.inspect(path, seed=1)
    (subject,) = found.subjects
    (agent,) = subject.connection.record.run["agents"]
    suppressed = agent["counters"]["dupacks_suppressed"]
    facts = subject.facts
    assert facts["lost_acks"] == 0 < suppressed == facts["suppressed_acks"]
    assert facts["suppressed_segments"] == 0
    assert facts["suppressed_by"] == "agent snoop"
    assert not any("suppressed" in fate for fate in facts["losses"])
    assert all(
        "ACKs that the sender waited for were lost" not in s.sentence for s in subject.stalls
    )
    labels = {m.label: len(m.t) for p in series.panels(subject.connection) for m in p.marks}
    assert labels["ACK suppressed by agent snoop"] == suppressed
    assert "ACK lost" not in labels
    page = tmp_path / "inspect.html"
    found.save(page)
    assert f"{suppressed} ACKs by agent snoop" in page.read_text()
    written = found.save_qlog(tmp_path / "run.sqlog").read_bytes().split(b"\x1e")[2:]
    events = [e for e in map(json.loads, written) if e["name"] == "tcp:segment_suppressed"]
    assert len(events) == suppressed
    assert {e["data"]["agent"] for e in events} == {"snoop"}


def test_limits_over_time_add_up_to_those_of_the_run(lossy: Inspection) -> None:
    for subject in lossy.subjects:
        spent: dict[str, float] = {}
        for start, end, key in series.bands(subject.connection):
            spent[key] = spent.get(key, 0.0) + (end - start) / lossy.duration_s
        for key, share in subject.limited_by.items():
            assert spent.get(key, 0.0) == pytest.approx(share, abs=1e-6)


def test_every_gap_is_a_stall_and_no_other(lossy: Inspection) -> None:
    for subject in lossy.subjects:
        t, _ = subject.connection.in_order
        limit = subject.threshold_s
        gaps = [(a, b) for a, b in pairwise(t.tolist()) if b - a > limit]
        found = [(g.start_s, g.end_s) for s in subject.stalls for g in s.gaps]
        assert [g for g in found if g[1] < lossy.duration_s] == gaps
        assert len(gaps) > 5


def test_a_slow_start_overshoot_is_repaired_once_per_round_trip() -> None:
    found = lasthop.inspect(text=DEEP_BUFFER)
    stall = found.stalls[0]
    links = found.subjects[0].connection.record.links
    drops = sum(x["dropped_at_queue"] for x in links if x["to"] == "phone")
    assert stall.cause == "fast-recovery"
    assert stall.duration_s > 2
    assert stall.gaps[0].losses == {"dropped at the queue": drops}
    assert stall.gaps[0].slow_start_drops == drops > 20
    assert f"{drops} segments dropped by the queue of bs>phone" in stall.sentence
    assert "RFC 5681, section 3.1" in stall.sentence
    assert "RFC 6582" in stall.sentence
    # The copies of the missing byte: the one that was dropped, then NewReno's.
    first = stall.gaps[0].transmissions
    assert [t.reason for t in first] == ["new", "fast retransmit"]
    assert [t.fate for t in first] == ["dropped at the queue", "arrived"]
    assert all(g.transmissions[1].reason in ("recovery", "timeout") for g in stall.gaps[1:])


def test_an_outage_that_loses_frames_ends_with_a_timeout() -> None:
    found = lasthop.inspect(text=OUTAGE.format(frames="lost-at-sending"))
    stall = max(found.stalls, key=lambda s: s.duration_s)
    assert stall.start_s == pytest.approx(5.0, abs=0.1)
    assert stall.end_s > 8
    assert stall.cause == "timeout"
    timeouts = [t for t in found.subjects[0].connection.timeouts() if 5 < t < stall.end_s]
    assert f"{len(timeouts)} retransmission timeouts with exponential back-off" in stall.sentence
    assert "lost in a link outage" in stall.sentence
    assert "ended at 8.000 s" in stall.sentence


def test_an_outage_that_holds_frames_is_the_cause() -> None:
    found = lasthop.inspect(text=OUTAGE.format(frames="held"))
    stall = max(found.stalls, key=lambda s: s.duration_s)
    assert stall.cause == "link-outage"
    assert "outage of bs>phone from 5.000 s to 8.000 s held the frames" in stall.sentence


def test_what_the_run_does_not_repair_is_said() -> None:
    text = OUTAGE.format(frames="lost-at-arrival").replace('"3 s"', '"60 s"')
    stall = lasthop.inspect(text=text).stalls[-1]
    assert stall.cause == "not-repaired"
    assert stall.end_s == 16
    assert all(t.fate != "arrived" for t in stall.gaps[-1].transmissions)
    assert "the run ended before the missing segment was delivered" in stall.sentence


def test_causes_in_figures_of_the_papers_are_decided() -> None:
    root = Path(__file__).parents[1] / "papers"
    for name in ("yun2009/fig06", "zeng2006/fig15", "noor/fig04", "janevski2009/fig03"):
        found = lasthop.inspect(root / f"{name}.toml", seed=2)
        assert "undecided" not in {s.cause for x in found.subjects for s in x.stalls}


def test_lost_acks_are_named() -> None:
    """Only ACKs are lost: for 1 s the uplink loses all of them, and no data is missing."""
    text = """
    duration = "6 s"
    [[node]]
    name = "server"
    [[node]]
    name = "bs"
    role = "base-station"
    [[node]]
    name = "phone"
    role = "station"
    [[link]]
    name = "wired"
    between = ["server", "bs"]
    rate = "10 Mbps"
    delay = "10 ms"
    [[link]]
    name = "radio"
    between = ["bs", "phone"]
    radio = true
    rate = "2 Mbps"
    delay = "10 ms"
    [link.backward]
    outage = { from = "2 s", length = "1 s", frames = "lost-at-sending" }
    [tcp]
    scheme = "newreno"
    """
    found = lasthop.inspect(text=text, settings={"tcp.receive_window": "20 kB"})
    stall = max(found.stalls, key=lambda s: s.duration_s)
    assert stall.start_s == pytest.approx(2.1, abs=0.2)
    assert found.subjects[0].facts["losses"] == {}
    assert stall.cause == "ack-loss"
    assert "all data had arrived" in stall.sentence


def test_a_lost_syn_is_a_stall_of_the_handshake() -> None:
    text = OUTAGE.format(frames="lost-at-sending").replace('"5 s"', '"0 s"')
    stall = lasthop.inspect(text=text).stalls[0]
    assert (stall.start_s, stall.cause) == (0.0, "handshake")


def test_without_data_to_send_there_is_no_stall() -> None:
    text = DEEP_BUFFER + '[[flow]]\napp = { kind = "transfer", size = "20 kB" }\n'
    found = lasthop.inspect(text=text)
    assert found.subjects[0].facts["delivered_bytes"] == 20_000
    assert found.stalls == []


def test_both_halves_of_a_split_connection_are_shown() -> None:
    found = lasthop.inspect(last_hop=LOSSY, schemes="i-tcp", settings={"duration": "10 s"})
    assert [s.title for s in found.subjects] == ["i-tcp: server to bs", "i-tcp: bs to phone"]
    assert found.subjects[0].facts["losses"] == {}
    assert sum(found.subjects[1].facts["losses"].values()) > 0
    for subject in found.subjects:
        assert sum(subject.limited_by.values()) == pytest.approx(1.0)


def test_shortest_sets_the_threshold() -> None:
    found = lasthop.inspect(last_hop=LOSSY, schemes="newreno", shortest=0.3)
    assert found.stalls
    assert all(g.end_s - g.start_s > 0.3 for s in found.stalls for g in s.gaps)
    with pytest.raises(InputError, match="shortest"):
        lasthop.inspect(last_hop=LOSSY, shortest="0s")
    with pytest.raises(InputError, match="--limit"):
        lasthop.compare(last_hop=LOSSY, schemes="reno", seeds=2, limit=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flow", "none"], "flow 'none' does not exist; TCP flows are flow 1"),
        (["--schemes", "reno,cubic,bbr,tahoe,vegas"], "1 to 4 schemes, found 5"),
        (["--scheme", "reno,,bbr"], "empty item"),
        (["--snaplen", "96"], "--snaplen needs --pcap"),
        (["--pcap", "caps", "--snaplen", "20"], "--snaplen must be 80 to"),
        (["--seed", "-1"], "--seed must not be negative"),
    ],
)
def test_wrong_input_is_one_clear_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["inspect", "--rate", "2Mbps", "--rtt", "40ms", "--out", str(tmp_path / "x.html")]
    assert main([*command, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_something_must_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--rate", "2Mbps", "--rtt", "40ms"]) == 2
    assert "give --out FILE.html" in capsys.readouterr().err


def test_a_flow_of_datagrams_is_refused() -> None:
    text = DEEP_BUFFER + '[[flow]]\nname = "call"\napp = { kind = "cbr", rate = "64 kbps" }\n'
    with pytest.raises(InputError, match="no TCP flow"):
        lasthop.inspect(text=text)


def test_a_stored_comparison_is_inspected(tmp_path: Path) -> None:
    last_hop = {**LOSSY, "rtt": "60ms"}
    out = tmp_path / "results"
    compared = lasthop.compare(
        last_hop=last_hop, schemes=["reno", "cubic"], seeds=3, out=out, settings={"duration": "5s"}
    )
    found = lasthop.inspect(out, schemes="cubic", seed=3)
    assert found.subjects[0].facts["goodput_bps"] == pytest.approx(
        compared.values(0, "cubic", "goodput_bps")[2]
    )
    with pytest.raises(InputError, match=r"no scenario\.toml"):
        lasthop.inspect(tmp_path)


def test_a_result_inspects_itself(tmp_path: Path) -> None:
    result = lasthop.run(last_hop=LOSSY, scheme="reno", seed=2, settings={"duration": "4s"})
    found = result.inspect()
    assert (found.seed, found.subjects[0].scheme) == (2, "reno")
    assert found.save(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "<iframe" in found._repr_html_()


def test_json_has_the_documented_keys(lossy: Inspection) -> None:
    page = Path(__file__).parents[1] / "docs" / "inspect.md"
    documented = set(re.findall(r"`([a-z_0-9]+)(?:\[\])?`", page.read_text(encoding="utf-8")))

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = set() if set(value) & {"dropped at the queue", "lost on the air"} else set(value)
            return own.union(*(keys(v) for v in value.values()))
        if isinstance(value, (list, tuple)):
            return set().union(*(keys(v) for v in value))
        return set()

    found = json.loads(json.dumps(lossy.to_dict(), allow_nan=False))
    assert keys(found) - documented == set()
    assert {s.cause for x in lossy.subjects for s in x.stalls} <= set(stalls.CAUSES)
    for cause in stalls.CAUSES:
        assert f"`{cause}`" in page.read_text(encoding="utf-8")


def test_downsampling_keeps_extremes() -> None:
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0, 60, 200_000))
    v = rng.normal(size=len(t))
    v[123_456], v[77] = 99.0, -99.0
    kept = downsample.extremes(t, v, 500)
    assert len(kept) <= 2000
    assert {0, 77, 123_456, len(t) - 1} <= set(kept.tolist())
    edges = np.linspace(t[0], t[-1], 501)
    place = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, 499)
    place_kept = place[kept]
    for i in range(0, 500, 37):
        assert v[kept][place_kept == i].max() == v[place == i].max()


QLOG_HEADER = {
    "type": "object",
    "required": ["file_schema", "serialization_format", "trace"],
    "properties": {
        "file_schema": {"const": "urn:ietf:params:qlog:file:sequential"},
        "serialization_format": {"const": "application/qlog+json-seq"},
        # For viewers of version 0.3.
        "qlog_version": {"const": "0.3"},
        "qlog_format": {"const": "JSON-SEQ"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "trace": {
            "type": "object",
            "required": ["event_schemas"],
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "description": {"type": "string"},
                "event_schemas": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "vantage_point": {
                    "type": "object",
                    "required": ["type"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string"},
                        "type": {"enum": ["client", "server", "network", "unknown"]},
                        "flow": {"enum": ["client", "server", "unknown"]},
                    },
                },
                "common_fields": {
                    "type": "object",
                    "properties": {
                        "time_format": {
                            "enum": ["relative_to_epoch", "relative_to_previous_event"]
                        },
                        "reference_time": {
                            "type": "object",
                            "required": ["clock_type", "epoch"],
                            "properties": {
                                "clock_type": {"type": "string"},
                                "epoch": {"type": "string"},
                                "wall_clock_time": {"type": "string"},
                            },
                        },
                        "group_id": {"type": "string"},
                    },
                },
            },
        },
    },
    "additionalProperties": False,
}
QLOG_EVENT = {
    "type": "object",
    "required": ["time", "name", "data"],
    "properties": {
        "time": {"type": "number", "minimum": 0},
        "name": {"type": "string", "pattern": "^tcp:[a-z_]+$"},
        "data": {"type": "object"},
        "group_id": {"type": "string"},
        "tuple": {"type": "string"},
        "time_format": {"type": "string"},
    },
}


def test_qlog_has_the_structure_of_the_draft(lossy: Inspection, tmp_path: Path) -> None:
    file = lossy.save_qlog(tmp_path / "run.sqlog")
    records = file.read_bytes().split(b"\x1e")
    assert records.pop(0) == b""
    assert all(r.endswith(b"\n") and b"\n" not in r[:-1] for r in records)
    header, *events = [json.loads(r) for r in records]
    jsonschema.Draft202012Validator(QLOG_HEADER).validate(header)
    check = jsonschema.Draft202012Validator(QLOG_EVENT)
    for event in events:
        check.validate(event)
    times = [e["time"] for e in events]
    assert times == sorted(times)
    for i, subject in enumerate(lossy.subjects):
        mine = [e for e in events if e["group_id"] == f"{i + 1}: {subject.title}"]
        count = {
            n: sum(e["name"] == f"tcp:{n}" for e in mine) for n in ("segment_sent", "segment_lost")
        }
        assert count["segment_sent"] == subject.facts["sent_segments"]
        assert count["segment_lost"] == sum(subject.facts["losses"].values())


@needs("tshark")
def test_captures_per_hop_have_no_packet_twice(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    found = lasthop.inspect(
        last_hop=LOSSY, schemes="newreno", settings={"duration": "5s"}, pcap=folder, snaplen=96
    )
    files = sorted(folder.iterdir())
    assert [f.name for f in files] == ["bs-phone.pcapng", "server-bs.pcapng"]
    facts = found.subjects[0].facts
    for file in files:
        marked = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission"
        marks = subprocess.run(
            ["tshark", "-r", str(file), "-Y", marked], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert 0 < len(marks) <= facts["retransmissions"]
        fields = ["frame.cap_len", "frame.len", "tcp.len", "tcp.seq"]
        command = ["tshark", "-r", str(file), "-T", "fields"]
        out = subprocess.run(
            command + [x for f in fields for x in ("-e", f)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rows = [line.split("\t") for line in out.splitlines()]
        assert all(int(r[0]) == min(96, int(r[1])) for r in rows)
        data = [r[3] for r in rows if int(r[2]) > 0]
        # Repeated sequence numbers are the sender's retransmissions and nothing else.
        assert len(data) - len(set(data)) <= facts["retransmissions"]
        assert len(set(data)) > 500


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = OUTAGE.format(frames="lost-at-sending") + '[[flow]]\nname = "a<b>&c"\n'
    text = text.replace('"outage"', '"<script>document.title=1</script>&amp;"')
    text = text.replace('rtt = "60 ms"', 'rtt = "60 ms"\nloss = "1 %"')
    found = lasthop.inspect(text=text, schemes=["cubic", "bbr"])
    return found.save(
        tmp_path_factory.mktemp("page") / "<script>alert(1)</script>.html".replace("/", "-")
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_renders_without_errors_or_requests(chromium: Any, page: Path, width: int) -> None:
    with browser.opened(chromium, page, width) as found:
        assert found.errors == []
        assert [r for r in found.requests if not r.startswith(("data:", "file:"))] == []
        assert len([r for r in found.requests if r.startswith("file:")]) == 1
        assert found.overlaps() == []
        assert not found.scrolls_sideways()
        assert found.page.title().startswith("<script>document.title=1</script>&amp;")
        drawn = found.page.evaluate(
            """() => [...document.querySelectorAll(".chart canvas")].map((c) => {
                 const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                 const colours = new Set();
                 for (let i = 0; i < d.length; i += 4) {
                   if (d[i + 3] > 200) colours.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
                 }
                 return colours.size;
               })"""
        )
        assert len(drawn) == 14, "7 charts for each scheme"
        assert all(colours > 5 for colours in drawn)


def test_zoom_and_legends_work_by_keyboard(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page, 1280) as found:
        where = found.page.locator("#where")
        assert where.inner_text() == "0.000 s to 16.000 s"
        found.page.locator("#panel-0-rtt .chart").focus()
        found.page.keyboard.press("+")
        assert where.inner_text() == "4.000 s to 12.000 s"
        found.page.keyboard.press("ArrowRight")
        assert where.inner_text() == "6.000 s to 14.000 s"
        found.page.keyboard.press("0")
        assert where.inner_text() == "0.000 s to 16.000 s"
        legend = found.page.locator("#panel-0-windows .legend button").first
        legend.focus()
        found.page.keyboard.press("Enter")
        assert legend.get_attribute("aria-pressed") == "false"
        found.page.locator("[data-stall]").first.click()
        assert where.inner_text() != "0.000 s to 16.000 s"
        assert found.errors == []


def test_dragging_zooms_all_charts(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page, 1280) as found:
        box = found.page.locator("#panel-1-rates .u-over").bounding_box()
        assert box is not None
        found.page.locator("#panel-1-rates").scroll_into_view_if_needed()
        box = found.page.locator("#panel-1-rates .u-over").bounding_box()
        y = box["y"] + box["height"] / 2
        found.page.mouse.move(box["x"] + box["width"] * 0.25, y)
        found.page.mouse.down()
        found.page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=5)
        found.page.mouse.up()
        found.page.wait_for_timeout(100)
        low, high = map(
            float, re.findall(r"[\d.]+(?= s)", found.page.locator("#where").inner_text())
        )
        assert low == pytest.approx(4.0, abs=0.2)
        assert high == pytest.approx(8.0, abs=0.2)


def test_the_page_prints(chromium: Any, page: Path, tmp_path: Path) -> None:
    with browser.opened(chromium, page, 1280) as found:
        found.page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert found.errors == []
    assert (tmp_path / "page.pdf").stat().st_size > 20_000


def test_the_page_of_a_fast_run_is_small() -> None:
    """60 s at 100 Mbit/s, two schemes: below 5 MB."""
    hop = {"rate": "100Mbps", "rtt": "40ms", "loss": "0.1%"}
    found = lasthop.inspect(last_hop=hop, schemes=["cubic", "bbr"])
    assert found.duration_s == 60
    assert found.subjects[1].facts["sent_segments"] > 400_000
    assert len(found.html.encode()) < 5e6


def test_the_cell_of_a_connection_is_drawn() -> None:
    cell = wifi.scenario("802.11ac", 2) | {"duration": "2 s"}
    found = lasthop.inspect(cell, schemes="cubic")
    subject = found.subjects[0]
    panels = {p.key: p for p in subject.drawing(2000).panels}
    (mpdus, retries) = panels["aggregates"].series
    assert mpdus.v.max() > 20
    assert 1 <= min(retries.v) <= max(retries.v) <= max(mpdus.v)
    assert panels["mcs"].series[0].v.max() <= 9
    air_time = panels["air-time"].shares
    assert air_time is not None
    rows = {key: values for key, (_, values) in air_time.rows.items()}
    assert np.allclose(sum(rows.values()), 1.0)
    (used,) = subject.connection.record.run["cells"]
    for key, seconds in (("collisions", "collisions_s"), ("beacons", "beacons_s")):
        drawn = rows[f"air-{key}"].sum() * air_time.width_s
        assert drawn == pytest.approx(used[seconds], rel=0.02)
    stations = sum(s["air_time_s"] for s in used["stations"])
    drawn = sum(rows[f"air-{key}"].sum() for key in ("there", "back", "rest")) * air_time.width_s
    assert drawn == pytest.approx(stations, rel=0.02)


def test_a_record_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lasthop.runs.MAX_RECORD_BYTES", 1_000_000)
    hop = {"rate": "10Mbps", "rtt": "40ms"}
    with pytest.raises(lasthop.InputError, match=r"at most 1 MB .* --duration [1-9]\d*s or less"):
        lasthop.inspect(last_hop=hop)


def test_the_record_of_another_scheme_is_made_again() -> None:
    """Several schemes: one record in memory at a time, with the same results as alone."""
    network: Any = {
        "last_hop": {"rate": "2Mbps", "rtt": "40ms", "loss": "1%"},
        "flows": {"duration": "10s"},
    }
    both = lasthop.inspect(**network, schemes=["reno", "cubic"])
    for subject in both.subjects:
        alone = lasthop.inspect(**network, schemes=[subject.scheme]).subjects[0]
        assert subject.to_dict() == alone.to_dict()
        assert (subject.connection.states.cwnd == alone.connection.states.cwnd).all()
        assert (subject.connection.copies.seq == alone.connection.copies.seq).all()
