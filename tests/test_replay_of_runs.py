"""Replaying the capture at the input of an agent gives the capture at its output."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from optional import needs
from processes import ended

from lasthop.cli.main import main

SCENARIO = """
duration = "20 s"
[[link]]
between = ["server", "bs"]
rate = "10 Mbps"
delay = "10 ms"
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "2 Mbps"
delay = { base = "40 ms", table = [
  { share = "90 %", from = "30 ms", to = "50 ms" },
  { share = "10 %", from = "50 ms", to = "200 ms" },
] }
loss = "2 %"
queue = "12 packets"
[[flow]]
count = 2
[tcp]
profile = "ns-2.35"
timestamps = true
"""


def packets(file: Path, interface: str) -> list[tuple[int, bytes]]:
    """(nanoseconds, bytes) of the packets of one interface, parsed from the pcapng blocks."""
    data, at, names, out = file.read_bytes(), 0, [], []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8 : at + length - 4]
        if kind == 1:
            option = 8
            name = ""
            while option + 4 <= len(body):
                code, size = struct.unpack_from("<HH", body, option)
                if code == 2:
                    name = body[option + 4 : option + 4 + size].decode()
                option += 4 + (size + 3) // 4 * 4
            names.append(name)
        elif kind == 6:
            i, high, low, captured, _ = struct.unpack_from("<IIIII", body)
            if names[i] == interface:
                out.append(((high << 32) | low, body[20 : 20 + captured]))
        at += length
    return out


@pytest.mark.parametrize(
    "scheme",
    [
        "packet-control:sender=reno",
        "packet-control:dupack_threshold=12",
        "packet-control:dupack_threshold=3:forward_even=true",
        "snoop",
        "snoop:sender=reno:tick=20 ms",
        "snoop:sender=sack",
        "snack-snoop:sender=reno",
        "ack-pacing:rate=measured:detect=false",
        "ack-pacing:rate=measured:detect=false:sender=sack",
        "rate-control:rate=1 Mbps:sender=reno",
        "balakrishnan-eln",
        "fastack",
        "zhuge",
    ],
)
@pytest.mark.parametrize(
    "seed",
    [
        1,
        pytest.param(
            2,
            marks=pytest.mark.more("test_replay_gives_the_agents_output_byte_for_byte_and_in_time"),
        ),
    ],
)
def test_replay_gives_the_agents_output_byte_for_byte_and_in_time(
    tmp_path: Path, scheme: str, seed: int
) -> None:
    capture, out = run_and_replay(tmp_path, SCENARIO, scheme, seed, "10.0.0.3")
    expected, found = packets(capture, "bs:out"), packets(out, "bs:out")
    assert len(expected) > 500
    assert packets(capture, "bs:in") != expected, "the agent did something"
    assert found == expected


def run_and_replay(
    folder: Path, scenario: str, scheme: str, seed: int, mobile: str
) -> tuple[Path, Path]:
    """The capture of a run, and that of its replay with the same scheme."""
    file, capture, out = folder / "cell.toml", folder / "run.pcapng", folder / "out.pcapng"
    file.write_text(scenario)
    words = ["--scheme", scheme, "--seed", str(seed), "--pcap", str(capture), "--json"]
    assert main(["run", str(file), *words]) == 0
    words = ["--mobile", mobile, "--scheme", scheme, "--out", str(out)]
    assert main(["replay", str(capture), *words]) == 0
    return capture, out


#: Windows of Linux are no multiples of what a window field counts, and aggregates of a WLAN are
#: reported, packet by packet, at one time.
LINUX = SCENARIO.replace('profile = "ns-2.35"\ntimestamps = true', 'profile = "linux"')
WLAN = """
duration = "4 s"
[[node]]
name = "server"
role = "server"
[[node]]
name = "bs"
role = "base-station"
[[link]]
between = ["server", "bs"]
rate = "100 Mbps"
delay = "10 ms"
[[cell]]
name = "wifi"
members = ["bs", "phone"]
mac = "802.11n"
snr_db = 20
rate_rule = "minstrel-ht"
[[flow]]
from = "server"
to = "phone"
count = 2
"""


# A replay does not know the path, from which Snoop's cache has its size.
@pytest.mark.parametrize(
    "scheme", ["snoop:cache_packets=225", "balakrishnan-eln", "fastack", "zhuge"]
)
@pytest.mark.parametrize("scenario", [LINUX, WLAN], ids=["linux", "wlan"])
def test_replays_with_reports_of_the_link_are_exact(
    tmp_path: Path, scenario: str, scheme: str
) -> None:
    capture, out = run_and_replay(tmp_path, scenario, scheme, 1, "10.0.0.3")
    expected = packets(capture, "bs:out")
    assert len(expected) > 500
    assert packets(out, "bs:out") == expected


def test_a_capture_has_reports_only_for_an_agent_that_gets_them(tmp_path: Path) -> None:
    captures = {}
    for scheme in ("packet-control", "zhuge"):
        (tmp_path / scheme).mkdir()
        captures[scheme], _ = run_and_replay(tmp_path / scheme, SCENARIO, scheme, 1, "10.0.0.3")
    assert b"bs:link" not in captures["packet-control"].read_bytes()
    reports = packets(captures["zhuge"], "bs:link")
    assert 0 < len(reports) <= len(packets(captures["zhuge"], "bs:out"))
    # They have the headers only: IP, TCP and its options.
    assert max(len(packet) for _, packet in reports) <= 20 + 60


OWN = """
import lasthop

class Counter(lasthop.Agent):
    link_events = ("refused", "dequeued", "attempt-failed", "delivered", "discarded")

    def __init__(self):
        self.counts = {}

    def on_segment(self, ctx, segment):
        return None

    def on_link_event(self, ctx, event, segment, attempt):
        self.add(f"{event} {segment.direction}", 1)
        self.add("time", round(ctx.now_s * 1e9) % 1000003)
        self.add("queue", ctx.queue("downlink").bytes + ctx.queue("uplink").packets)
        for name in ("seq", "ack", "len", "size", "window"):
            self.add(name, getattr(segment, name) % 1000003)
        self.add("attempts", attempt or 0)

    def add(self, name, number):
        self.counts[name] = self.counts.get(name, 0) + number

    def counters(self):
        return self.counts
"""


def test_an_agent_in_python_gets_the_same_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    run_and_replay(tmp_path, LINUX, f"{tmp_path / 'own.py'}:Counter", 1, "10.0.0.3")
    run, end = json.JSONDecoder().raw_decode(printed := capsys.readouterr().out)
    counters = dict(run["agents"][0]["counters"])
    del counters["state_bytes"]
    events = [name for name in counters if name.endswith("link")]
    assert len(events) >= 6
    assert min(counters.values()) > 0
    lines = [x.removeprefix("  agent: ") for x in printed[end:].splitlines() if "agent: " in x]
    assert dict(line.split(" = ") for line in lines) == {k: str(v) for k, v in counters.items()}


def test_a_capture_without_the_reports_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captures = {}
    for scheme in ("packet-control", "balakrishnan-eln", "zhuge"):
        (tmp_path / scheme).mkdir()
        captures[scheme], _ = run_and_replay(tmp_path / scheme, SCENARIO, scheme, 1, "10.0.0.3")
    out = tmp_path / "out.pcapng"
    capsys.readouterr()

    def replay(written_with: str, scheme: str) -> int:
        words = ["--mobile", "10.0.0.3", "--scheme", scheme, "--out", str(out), "--json"]
        return main(["replay", str(captures[written_with]), *words])

    assert replay("packet-control", "fastack") == 2
    message = capsys.readouterr().err
    assert "which the capture does not contain" in message
    assert "`lasthop run --scheme fastack --pcap`" in message
    assert replay("balakrishnan-eln", "zhuge") == 2
    assert "to report these events: refused; " in capsys.readouterr().err
    # The agent of zhuge has got all that the other scheme needs.
    assert replay("zhuge", "balakrishnan-eln") == 0
    summary = json.loads(capsys.readouterr().out)
    assert 0 < summary["link_reports"] <= len(packets(captures["zhuge"], "bs:link"))
    # One that needs none gets none, and reads the same packets.
    assert replay("zhuge", "packet-control") == 0
    assert "link_reports" not in json.loads(capsys.readouterr().out)


#: Severity of Wireshark's expert information from errors on, and columns of a packet.
ERROR = 0x00800000
COLUMNS = (
    *("_ws.malformed", "_ws.expert.severity", "ip.checksum.status", "tcp.checksum.status"),
    "frame.interface_name",
)
GOOD, UNVERIFIED = "1", "2"


@needs("tshark")
def test_wireshark_reads_the_captures_of_run_and_replay(tmp_path: Path) -> None:
    file, capture, out = tmp_path / "cell.toml", tmp_path / "run.pcapng", tmp_path / "out.pcapng"
    file.write_text(SCENARIO)
    assert main(["run", str(file), "--scheme", "snoop", "--pcap", str(capture), "--json"]) == 0
    words = ["--mobile", "10.0.0.3", "--scheme", "snoop", "--out", str(out)]
    assert main(["replay", str(capture), *words]) == 0
    for written in (capture, out):
        checked = [x for name in ("ip", "tcp") for x in ("-o", f"{name}.check_checksum:TRUE")]
        columns = [x for name in COLUMNS for x in ("-e", name)]
        done = ended(["tshark", "-r", str(written), *checked, "-T", "fields", *columns], check=True)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        assert len(rows) > 1000
        for malformed, severities, ip, tcp, interface in rows:
            assert malformed == ""
            # Warnings are about what the link did: lost, out of order, retransmitted.
            assert all(int(severity) < ERROR for severity in severities.split(",") if severity)
            # Reports of the link have the headers, so that nothing can add up the payload.
            assert (ip, tcp) == (GOOD, UNVERIFIED if interface == "bs:link" else GOOD)


@pytest.mark.parametrize(("scheme", "field"), [("reno", 0), ("cubic:ecn", 2), ("prague", 1)])
def test_captures_show_the_ecn_field(
    tmp_path: Path, scheme: str, field: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, ecn = scheme.partition(":")
    file = tmp_path / "run.pcapng"
    words = ["--rate", "5Mbps", "--rtt", "20ms", "--set", "duration=1 s", "--pcap", str(file)]
    words += ["--set", f"tcp.ecn={'true' if ecn else 'false'}"]
    assert main(["run", *words, "--scheme", name]) == 0
    capsys.readouterr()
    fields: dict[bool, set[int]] = {True: set(), False: set()}
    for _, packet in packets(file, "server-bs"):
        fields[len(packet) > 500].add(packet[1] & 3)
    # Data are ECN-capable, ACKs are not (RFC 3168, section 6.1.4).
    assert fields == {True: {field}, False: {0}}
