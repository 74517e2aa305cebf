"""`lasthop trace` of packet captures: directions, rates, round-trip times, losses, damage."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import captures
import numpy as np
import pytest
from captures import ACK, SYN, Record
from commands import document
from hypothesis import given, settings
from hypothesis import strategies as st
from optional import needs
from trace_files import info

from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.traces import formats, pcap, summary
from lasthop.traces.source import ReadOptions

PHONE, SERVER = "10.0.0.2", "192.0.2.1"
MS = 1_000_000
START = 1_700_000_000_000_000_000
SIZE = 1000


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["trace", "info", *words]) == 2
    return capsys.readouterr().err


def file(folder: Path, content: bytes, name: str = "x.pcap") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


class Connection:
    """Packets of one connection as its phone or its server would capture them."""

    def __init__(
        self, first: int = 0, stamped: bool = True, ttl: tuple[int, int] = (64, 52)
    ) -> None:
        self.records: list[Record] = []
        self.first = first
        self.stamped = stamped
        self.ttl = ttl
        self.phone = PHONE

    def add(self, ms: float, up: bool, seq: int, ack: int, size: int = 0, **more: Any) -> None:
        """A packet at a time; `seq` and `ack` count from the first byte of each end."""
        given = more.pop("stamps", None)
        stamps = given if self.stamped else None
        flags = more.pop("flags", ACK)
        ports = (40_000, 443) if up else (443, 40_000)
        own, other = (7, self.first) if up else (self.first, 7)
        segment = captures.tcp(ports, own + seq, other + ack, flags, size, stamps, **more)
        ends = (self.phone, SERVER) if up else (SERVER, self.phone)
        packet = captures.ip(*ends, 6, segment, self.ttl[0] if up else self.ttl[1])
        self.records.append((START + round(ms * MS), captures.ethernet(packet)))

    def handshake(self, rtt_ms: float) -> None:
        """Open it from the phone, as the phone sees it."""
        self.add(0, True, -1, 0, flags=SYN, stamps=(1000, 0))
        self.add(rtt_ms, False, -1, 0, flags=SYN | ACK, stamps=(5000, 1000))
        self.add(rtt_ms + 0.1, True, 0, 0, stamps=(1000 + round(rtt_ms), 5000))

    def sorted(self) -> list[Record]:
        return sorted(self.records, key=lambda r: r[0])


def download(first: int = 0, stamped: bool = True, segments: int = 1000) -> list[Record]:
    """A download at 8 Mbit/s of payload over 40 ms, captured by the phone.

    Each 100th segment is lost and comes again after 60 ms; each 100th + 50 overtakes its
    predecessor by 0.5 ms; the last one comes twice.
    """
    c = Connection(first, stamped)
    c.handshake(40)
    for i in range(segments):
        ms = 100 + i
        late = 60.0 if i % 100 == 10 else 1.5 if i % 100 == 50 else 0.0
        c.add(ms + late, False, i * SIZE, 0, SIZE, stamps=(6000 + ms, 1000 + ms - 40))
        c.add(ms + 0.05, True, 0, (i + 1) * SIZE, stamps=(1000 + ms, 6000 + ms))
    c.add(100 + segments, False, (segments - 1) * SIZE, 0, SIZE, stamps=(6000 + 100 + segments, 1))
    return c.sorted()


def upload(stamped: bool = True, segments: int = 500) -> list[Record]:
    """An upload at 4 Mbit/s of payload over 30 ms, captured by the phone; 2 % are sent again."""
    c = Connection(2**32 - 3000, stamped)
    c.handshake(30)
    for i in range(segments):
        ms = 100 + 2 * i
        c.add(ms, True, i * SIZE, 0, SIZE, stamps=(2000 + ms, 9000))
        if i % 50 == 20:
            c.add(ms + 45, True, i * SIZE, 0, SIZE, stamps=(2000 + ms + 45, 9000))
        else:
            c.add(ms + 30, False, 0, (i + 1) * SIZE, stamps=(9000 + ms, 2000 + ms))
    return c.sorted()


@pytest.mark.parametrize("first", [0, 2**32 - 50_000])
@pytest.mark.parametrize("stamped", [True, False])
def test_a_download_at_the_phone(
    first: int, stamped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, captures.pcap(download(first, stamped))))
    header = 20 + 20 + (12 if stamped else 0)
    received = 1001 * (SIZE + header) + header
    assert found["mean_rate_bps"]["down"] == pytest.approx(8 * received / found["duration_s"])
    assert found["mean_rate_bps"]["up"] == pytest.approx(8 * 1002 * header / found["duration_s"])
    assert found["duration_s"] == pytest.approx(1.1, abs=0.002)
    # Ten of 1000 segments were lost; the late ones and the copy were not.
    assert found["loss"] == pytest.approx(10 / 1011)
    assert found["rtt_s"]["minimum"] == pytest.approx(0.04, abs=0.001)
    assert found["rtt_s"]["median"] == pytest.approx(0.04, abs=0.001)
    assert any(
        "10 segments that arrived out of order, 1 that arrived twice" in n for n in found["notes"]
    )
    assert any(f"taken at {PHONE}" in n for n in found["notes"])
    assert found["format"] == "capture"


@pytest.mark.parametrize("stamped", [True, False])
def test_an_upload_at_the_phone(
    stamped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, captures.pcap(upload(stamped))))
    header = 40 + (12 if stamped else 0)
    sent = 500 * (SIZE + header) + 2 * header
    assert found["mean_rate_bps"]["up"] == pytest.approx(8 * sent / found["duration_s"])
    assert found["loss"] == pytest.approx(10 / 510)
    assert found["rtt_s"] == pytest.approx({"minimum": 0.03, "median": 0.03, "p95": 0.03}, abs=1e-6)


def test_which_end_is_the_mobile_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = file(tmp_path, captures.pcap(upload()))
    up = info(capsys, name)["mean_rate_bps"]
    assert info(capsys, name, "--mobile", "10.0.0.0/8")["mean_rate_bps"] == up
    other = info(capsys, name, "--mobile", SERVER)
    assert other["mean_rate_bps"] == {"down": up["up"], "up": up["down"]}
    assert other["rtt_s"]["median"] == pytest.approx(0.03)
    assert other["loss"] == pytest.approx(10 / 510)
    assert info(capsys, name, "--swap")["mean_rate_bps"]["down"] == up["up"]
    assert "no packet passes between 10.9.9.9" in refused(capsys, name, "--mobile", "10.9.9.9")
    assert "--mobile must be an address" in refused(capsys, name, "--mobile", "phone")
    # Two hosts, no router between one of them and the capture, and no answers.
    packet = captures.ip(PHONE, SERVER, 17, captures.udp((1, 2), 100), ttl=60)
    message = refused(capsys, file(tmp_path, captures.pcap([(START, packet)], link=101)))
    assert "--mobile ADDRESS" in message
    assert PHONE in message


def test_udp_has_bytes_but_no_round_trips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = [
        (
            START + i * MS,
            captures.ip("2001:db8::1", f"2001:db8::{2 + i % 2}", 17, captures.udp((1, 2), 952)),
        )
        for i in range(1000)
    ]
    for link, head in ((101, b""), (229, b""), (0, b"\x1e\0\0\0"), (113, bytes(14) + b"\x86\xdd")):
        name = file(tmp_path, captures.pcap([(t, head + p) for t, p in packets], link=link))
        found = info(capsys, name)
        assert found["mean_rate_bps"]["up"] == pytest.approx(8e6)
        assert (found["rtt_s"], found["loss"]) == (None, None)


def test_forms_of_captures_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = download(segments=200)
    expected = info(capsys, file(tmp_path, captures.pcap(records)))
    tagged = [(t, captures.ethernet(r[14:], tags=(7, 9))) for t, r in records]
    for content in (
        captures.pcap(records, order=">"),
        captures.pcap(records, nanoseconds=True),
        captures.pcap(records, snaplen=80),
        captures.pcap(tagged),
        captures.pcapng(records),
        captures.pcapng(records, order=">", digits=6),
        captures.pcapng(records[:100]) + captures.pcapng(records[100:], order=">"),
        gzip.compress(captures.pcap(records)),
    ):
        found = info(capsys, file(tmp_path, content))
        for key in ("mean_rate_bps", "rtt_s", "loss", "duration_s", "skipped"):
            assert found[key] == pytest.approx(expected[key]), key


def test_a_batch_ends_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of few packets give the numbers of one block, apart from copies in different ones."""
    name = file(tmp_path, captures.pcapng(upload()))
    expected = info(capsys, name)
    from lasthop.traces import source

    monkeypatch.setattr(source, "HEAD", 5000)
    monkeypatch.setattr(pcap, "BLOCK", 7001)
    found = info(capsys, name)
    for key in ("mean_rate_bps", "rtt_s", "loss", "duration_s"):
        assert found[key] == pytest.approx(expected[key]), key


def test_packets_that_cannot_be_used_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = upload(segments=50)
    arp = (START, bytes(12) + b"\x08\x06" + bytes(28))
    short = (START, captures.ethernet(captures.ip(PHONE, SERVER, 6, b""))[:20])
    other = (START, captures.ethernet(captures.ip("192.0.2.7", "192.0.2.8", 17, bytes(8))))
    name = file(tmp_path, captures.pcap([arp, short, *records, other]))
    found = info(capsys, name)
    reasons = {s["reason"]: (s["rows"], s["lines"]) for s in found["skipped_rows"]}
    assert reasons["no IP packet, such as ARP"] == (1, [1])
    assert reasons["captured without its IP header"] == (1, [2])
    assert reasons["between hosts of the same end"] == (1, [len(records) + 3])
    assert main(["trace", "info", name]) == 0
    assert "skipped: 1 row, no IP packet, such as ARP (packet 1)" in capsys.readouterr().out


def test_captures_that_end_early_or_are_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build: Callable[[Any], bytes]
    for build in (captures.pcap, captures.pcapng):
        whole = build(upload())
        found = info(capsys, file(tmp_path, whole[:-7]))
        assert any("cut off in its last packet" in n for n in found["notes"])
        sound = len(build(upload()[:100]))
        broken = whole[:sound] + b"\xff" * 100 + whole[sound + 100 :]
        notes = info(capsys, file(tmp_path, broken))["notes"]
        assert any(f"damaged at byte {sound}" in n for n in notes)
    head = captures.pcap([])
    assert "the capture has no packets" in refused(capsys, file(tmp_path, head))
    assert "ends in its header" in refused(capsys, file(tmp_path, head[:20]))
    assert "damaged or cut off" in refused(
        capsys, file(tmp_path, gzip.compress(captures.pcap(upload()))[:-400])
    )
    radio = captures.pcap([(START, bytes(60))], link=127)
    assert "link type 127, which is not supported" in refused(capsys, file(tmp_path, radio))


@settings(deadline=None)
@given(st.data())
def test_no_capture_makes_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    records = upload(segments=10)
    is_pcapng = data.draw(st.booleans())
    content = bytearray(captures.pcapng(records) if is_pcapng else captures.pcap(records))
    for place in data.draw(st.lists(st.integers(24, len(content) - 1), max_size=30)):
        content[place] = data.draw(st.integers(0, 255))
    name = file(tmp_path_factory.getbasetemp(), bytes(content), "any.pcap")
    for options in (ReadOptions(), ReadOptions(mobile="0.0.0.0/1"), ReadOptions(far=name)):
        try:
            summary.document(formats.read(name, options))
        except InputError:
            continue


def test_from_a_capture_to_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = file(tmp_path, captures.pcap(download()))
    out, delay = tmp_path / "my.down", tmp_path / "my.delay"
    assert main(["trace", "import", name, "--out", str(out), "--out-delay", str(delay)]) == 0
    capsys.readouterr()
    rate = info(capsys, name)["mean_rate_bps"]["down"]
    assert info(capsys, str(out))["mean_rate_bps"]["down"] == pytest.approx(rate, rel=0.01)
    assert info(capsys, str(delay))["rtt_s"]["median"] == pytest.approx(0.04, abs=0.001)
    assert out.with_suffix(".up").exists()


def test_a_simulated_capture_says_what_the_run_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(
        'duration = "20 s"\n[last_hop]\nrate = "10 Mbps"\nrtt = "40 ms"\nloss = "1%"\n'
        '[[flow]]\nfrom = "server"\nto = "phone"\n'
    )
    words = ["inspect", str(tmp_path / "s.toml"), "--pcap", str(tmp_path), "--json"]
    assert main(words) == 0
    capsys.readouterr()
    (flow,) = document(capsys, "run", tmp_path / "s.toml")["flows"]
    both = tmp_path / "run.pcapng"
    assert main(["run", str(tmp_path / "s.toml"), "--pcap", str(both), "--json"]) == 0
    capsys.readouterr()
    message = refused(capsys, str(both))
    assert (
        "have the same packets; choose one with --interface: 0 (server-bs), 1 (bs-phone)" in message
    )
    mobile = ("--mobile", "10.0.0.3")
    found = info(capsys, str(tmp_path / "server-bs.pcapng"), *mobile)
    for name in ("server-bs", "0"):
        chosen = info(capsys, str(both), *mobile, "--interface", name)
        assert chosen["mean_rate_bps"] == found["mean_rate_bps"]
    assert "no such interface" in refused(capsys, str(both), *mobile, "--interface", "2")
    sent = found["mean_rate_bps"]["down"] * found["duration_s"] / 8
    assert sent * 1448 / 1500 == pytest.approx(flow["goodput_bps"] * 20 / 8, rel=0.01)
    segments = sent / 1500 + flow["retransmissions"]["total"]
    assert found["loss"] == pytest.approx(flow["retransmissions"]["total"] / segments, rel=0.02)
    # The link to the server takes 5 ms each way, which this capture does not see.
    assert found["rtt_s"]["median"] == pytest.approx(flow["rtt_s"]["p50"] - 0.01, rel=0.05)


@needs("tshark")
@pytest.mark.parametrize("records", [download(), upload()])
def test_tshark_counts_the_same(
    records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = file(tmp_path, captures.pcap(records))
    words = ["tshark", "-r", name, "-T", "fields", "-e", "ip.src", "-e", "ip.len"]
    out = subprocess.run([*words, "-e", "tcp.analysis.ack_rtt"], capture_output=True, check=True)
    fields = [line.split("\t") for line in out.stdout.decode().splitlines()]
    found = info(capsys, name)
    assert len(fields) == len(records)
    received = sum(int(size) for source, size, _ in fields if source == SERVER)
    assert found["mean_rate_bps"]["down"] == pytest.approx(8 * received / found["duration_s"])


def both_ends(skew_ms: float = 0.0, nat: bool = False) -> tuple[list[Record], list[Record]]:
    """A download at the phone and at the server: 15 ms down, 25 ms up, 2 % lost down, 1 % up."""
    phone, server = Connection(ttl=(64, 52)), Connection(ttl=(52, 64))
    if nat:
        server.phone = "198.51.100.9"
    for ends, ms in ((server, 25.0), (phone, 0.0)):
        ends.add(ms, True, -1, 0, flags=SYN, stamps=(1000, 0))
    for i in range(1000):
        ms = 100.0 + i
        sent: dict[str, Any] = {
            "seq": i * SIZE,
            "ack": 0,
            "size": SIZE,
            "stamps": (6000 + int(ms), 1),
        }
        server.add(ms, False, **sent)
        if i % 50 != 20:
            phone.add(ms + 15, False, **sent)
        answer: dict[str, Any] = {
            "seq": 0,
            "ack": (i + 1) * SIZE,
            "stamps": (1015 + int(ms), 6000 + int(ms)),
        }
        phone.add(ms + 15.1, True, **answer)
        if i % 100 != 30:
            server.add(ms + 40.1, True, **answer)
    skewed = [(t + round(skew_ms * MS), r) for t, r in server.sorted()]
    return phone.sorted(), skewed


@pytest.mark.parametrize(("skew_ms", "nat"), [(0.0, False), (-3_600_000.0, False), (5.0, True)])
def test_both_ends(
    skew_ms: float, nat: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_phone, at_server = both_ends(skew_ms, nat)
    phone = file(tmp_path, captures.pcap(at_phone), "phone.pcap")
    server = file(tmp_path, captures.pcapng(at_server), "server.pcapng")
    found = info(capsys, phone, "--far", server)
    assert found["loss"] == pytest.approx((20 + 10) / 2001, abs=1e-4)
    # Without a common clock, only the sum of the delays is known.
    for way in ("down", "up"):
        assert found["delay_s"][way]["median"] == pytest.approx(0.02, abs=2e-4)
    assert any("1971 packets were found at both ends" in n for n in found["notes"])
    received = 980 * (SIZE + 52)
    assert found["mean_rate_bps"]["down"] * found["duration_s"] / 8 == pytest.approx(
        received, rel=0.05
    )
    out = tmp_path / "x.delay"
    assert main(["trace", "import", phone, "--far", server, "--out-delay", str(out)]) == 0
    assert out.read_text().startswith(
        "# milliseconds from the start, one-way delay in ms (downlink)"
    )
    capsys.readouterr()
    assert main(["trace", "import", phone, "--far", server, "--out-delay", server]) == 2
    assert "would overwrite" in capsys.readouterr().err


def test_both_ends_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phone = file(tmp_path, captures.pcap(both_ends()[0]), "phone.pcap")
    other = file(tmp_path, captures.pcap(upload()), "other.pcap")
    assert "no captures of the same packets" in refused(capsys, phone, "--far", other)
    text = file(tmp_path, b"1\n2\n", "x.down")
    assert "this is no capture" in refused(capsys, phone, "--far", text)


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A reader that waits for more of a capture is interrupted."""
    out = tmp_path / "my.down"
    words = [sys.executable, "-m", "lasthop", "trace", "import", "-", "--out", str(out)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(captures.pcap(upload()))
        process.stdin.flush()
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert process.returncode in (130, -signal.SIGINT)
    assert list(tmp_path.iterdir()) == []


def test_intervals_grow_with_the_capture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lasthop.traces import intervals

    name = file(tmp_path, captures.pcap(upload(segments=3000)))
    exact = formats.read(name, ReadOptions())
    monkeypatch.setattr(intervals, "_MOST", 4000)
    monkeypatch.setattr(pcap, "BLOCK", 100_000)
    coarse = formats.read(name, ReadOptions())
    assert coarse.clocks == ("times of the capture, bytes by 10 ms",)
    for direction in (0, 1):
        sums = [found.rates(direction).bytes.sum() for found in (exact, coarse)]
        assert sums[0] == pytest.approx(sums[1])
    assert np.isclose(exact.rates(1).lost.sum(), coarse.rates(1).lost.sum())
