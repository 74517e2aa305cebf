"""Formats of `lasthop trace` beside tables, iperf3 and ping: numbers, skipped rows, bad input."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trace_files import file, info

from lasthop.cli.main import main

START_NS = 1_700_000_000_000_000_000


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["trace", "info", *words]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def skipped(found: Any) -> list[tuple[int, list[int]]]:
    return [(s["rows"], s["lines"]) for s in found["skipped_rows"]]


# irtt


def irtt(trips: list[Any]) -> str:
    return json.dumps(
        {
            "version": {"irtt": "0.9.1", "protocol": 1, "json_format": 1},
            "config": {"params": {"duration": 10**9, "interval": 200_000_000}},
            "round_trips": trips,
        }
    )


def trip(number: int, rtt_ms: float | None, lost: str = "false") -> Any:
    sent = {"wall": START_NS + number * 200_000_000, "monotonic": number}
    delay = {} if rtt_ms is None else {"rtt": round(rtt_ms * 1e6)}
    return {"seqno": number, "lost": lost, "timestamps": {"client": {"send": sent}}, "delay": delay}


def test_irtt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trips = [trip(0, 20), trip(1, 30), trip(2, None, "true_down"), trip(3, None), trip(4, 40)]
    found = info(capsys, file(tmp_path, irtt(trips)))
    assert found["rtt_s"] == pytest.approx({"minimum": 0.02, "median": 0.03, "p95": 0.039})
    assert (found["format"], found["loss"]) == ("irtt JSON", 0.25)
    assert found["duration_s"] == pytest.approx(1.0)
    assert skipped(found) == [(1, [4])]
    assert any("0 on the way to the server, 1 on the way back" in n for n in found["notes"])
    assert "no round_trips" in refused(capsys, file(tmp_path, irtt([])))
    assert "not valid JSON" in refused(capsys, file(tmp_path, irtt(trips)[:-30]))


# Starlink


def history(**more: Any) -> dict[str, Any]:
    return {
        "current": "7",
        "popPingDropRate": [0.5, 1, 0, 0, 0],
        "popPingLatencyMs": [50, 99, 30, 31, 32],
        "downlinkThroughputBps": [6e6, 7e6, 3e6, 4e6, 5e6],
        "uplinkThroughputBps": [6e5, 7e5, 3e5, 4e5, 5e5],
        **more,
    }


def test_starlink_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps({"apiVersion": "9", "dishGetHistory": history()})
    found = info(capsys, file(tmp_path, text))
    assert found["mean_rate_bps"] == pytest.approx({"down": 5e6, "up": 5e5})
    assert (found["duration_s"], found["format"]) == (5, "Starlink history")
    assert found["loss"] == pytest.approx(1.5 / 5)
    # A second in which all pings were lost has no latency.
    assert found["rtt_s"]["minimum"] == 0.03
    assert found["rtt_s"]["p95"] < 0.051
    out = tmp_path / "h.csv"
    assert main(["trace", "export", str(tmp_path / "log"), "--out", str(out)]) == 0
    # The values before `current` modulo 5 are the newest.
    assert [row.split(",")[2] for row in out.read_text().split()[1:]] == ["3", "4", "5", "6", "7"]
    capsys.readouterr()


def test_starlink_history_with_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drops = history(popPingDropRate=[0.5, None, 2, 0, 0], downlinkThroughputBps=[None] * 5)
    drops["uplinkThroughputBps"] = drops["popPingLatencyMs"] = [None, None, 3, 4, 5]
    found = info(capsys, file(tmp_path, json.dumps({"dishGetHistory": drops})))
    assert sorted(skipped(found)) == [(1, [2]), (1, [3])]
    del drops["current"]
    message = refused(capsys, file(tmp_path, json.dumps({"dishGetHistory": drops})))
    assert "lacks `current`" in message
    short = history(popPingLatencyMs=[1])
    assert "not as long" in refused(capsys, file(tmp_path, json.dumps({"dishGetHistory": short})))


# Flent


def flent(**more: Any) -> dict[str, Any]:
    start = START_NS / 1e9
    pings = [{"t": start + 0.2 * n, "val": 20.0 + n, "seq": n} for n in (0, 1, 3, 4)]
    return {
        "version": 4,
        "metadata": {"NAME": "rrul", "T0": "2023-11-14T22:13:20Z", "STEP_SIZE": 0.2},
        "x_values": [0.0, 0.2, 0.4, 0.6, 0.8],
        "results": {
            "Ping (ms) ICMP": [20, 21, None, 23, 24],
            "Ping (ms) avg": [90] * 5,
            "TCP download BE": [10, 10, 10, 10, None],
            "TCP download BK": [5, 5, 5, 5, None],
            "TCP download avg": [7.5] * 5,
            "TCP download sum": [15] * 5,
            "TCP upload BE": [1, 2, 3, 4, 5],
            "TCP upload BE::tcp_rtt": [99] * 5,
            "TCP totals": [100] * 5,
        },
        "raw_values": {"Ping (ms) ICMP": pings},
        **more,
    }


def test_flent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rrul.flent.gz"
    path.write_bytes(gzip.compress(json.dumps(flent()).encode()))
    found = info(capsys, str(path))
    assert found["mean_rate_bps"] == pytest.approx({"down": 15e6, "up": 3e6})
    assert found["rtt_s"] == pytest.approx({"minimum": 0.02, "median": 0.022, "p95": 0.02385})
    assert found["loss"] == pytest.approx(1 / 5)
    assert (found["format"], found["skipped"]) == ("Flent data", 0)


def test_flent_with_numbered_streams_and_a_local_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = flent()
    values = document["results"].pop("TCP upload BE")
    document["results"] |= {"TCP upload::1": values, "TCP upload::2": values}
    document["results"]["TCP upload::1::tcp_cwnd"] = [1000] * len(values)
    # Older files have the local time of the start, here two hours ahead of UTC.
    start = datetime.fromtimestamp(START_NS / 1e9 + 7200, UTC)
    document["metadata"]["T0"] = None
    document["metadata"]["TIME"] = start.replace(tzinfo=None).isoformat()
    found = info(capsys, file(tmp_path, json.dumps(document)))
    assert found["mean_rate_bps"]["up"] == pytest.approx(6e6)
    assert found["duration_s"] < 10


def test_flent_with_other_units_and_without_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = flent(raw_values={})
    document["metadata"]["SERIES_META"] = {"TCP upload BE": {"UNITS": "kbit/s"}}
    found = info(capsys, file(tmp_path, json.dumps(document)))
    assert found["mean_rate_bps"]["up"] == pytest.approx(3e3)
    assert found["rtt_s"]["median"] == pytest.approx(0.022)
    assert found["loss"] is None
    document["raw_values"] = {"Ping (ms) ICMP": [{"t": START_NS / 1e9, "val": 5}, {"val": 1}]}
    assert skipped(info(capsys, file(tmp_path, json.dumps(document)))) == [(1, [2])]
    document["metadata"]["SERIES_META"] = {"TCP upload BE": {"UNITS": "apples"}}
    assert "--unit must be a rate" in refused(capsys, file(tmp_path, json.dumps(document)))
    other = flent(results={"CPU load": [1] * 5}, raw_values={})
    assert "no series is a transfer or a ping; the file has `CPU load`" in refused(
        capsys, file(tmp_path, json.dumps(other))
    )


# ss -ti


def sockets(acked: int, received: int, rtt: float, retrans: int = 0, segments: int = 0) -> str:
    return (
        "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        "ESTAB 0      0      10.0.0.2:40000     192.0.2.1:443\n"
        f"\t cubic wscale:7,7 rto:240 rtt:{rtt}/1.5 mss:1448 cwnd:10 bytes_acked:{acked}"
        f" bytes_received:{received} segs_out:9 data_segs_out:{segments} retrans:0/{retrans}"
        " delivery_rate 9Mbps\n"
    )


SAMPLES = (
    (0.0, sockets(1000, 100_000, 30.5)),
    (0.5, sockets(126_000, 725_000, 40.5, 1, 100)),
    (1.0, sockets(251_000, 1_350_000, 50.5, 3, 200)),
)


@pytest.mark.parametrize("form", ["before", "date", "flent", "ns", "none"])
def test_ss(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ""
    for time, out in SAMPLES:
        stamp = f"{START_NS / 1e9 + time:.3f}"
        text += {
            "before": f"{stamp}\n{out}",
            "date": f"2023-11-14T22:13:2{time}\n{out}",
            "flent": f"{out}Time: {stamp}\n---\n",
            "ns": f"time:{START_NS + round(1e9 * time)}\n{out}",
            "none": out,
        }[form]
    name = file(tmp_path, text)
    if form == "none":
        assert "--interval" in refused(capsys, name)
    found = info(capsys, name, *(("--interval", "0.5s") if form == "none" else ()))
    assert found["mean_rate_bps"] == pytest.approx({"down": 10e6, "up": 2e6})
    assert found["rtt_s"] == pytest.approx({"minimum": 0.0405, "median": 0.0455, "p95": 0.05})
    assert (found["loss"], found["duration_s"]) == (pytest.approx(3 / 200), pytest.approx(1))
    assert found["format"] == "ss log"


def test_ss_logs_that_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A connection that begins counts from its start; fields alone are skipped."""
    second = sockets(0, 50_000, 20).replace("40000", "40001").split("\n", 1)[1]
    stray = "\t cubic rtt:9/1 cwnd:10 bytes_acked:5\n"
    text = f"100000000.0\n{stray}{SAMPLES[0][1]}100000001.0\n{SAMPLES[0][1]}{second}"
    found = info(capsys, file(tmp_path, text))
    assert found["mean_rate_bps"] == pytest.approx({"down": 400_000, "up": 0})
    assert skipped(found) == [(1, [2])]
    single = file(tmp_path, f"100000000.0\n{SAMPLES[0][1]}")
    assert "two are needed" in refused(capsys, single)


# Saturator


IPERF3 = """Connecting to host 192.0.2.1, port 5201
Reverse mode, remote host 192.0.2.1 is sending
[  5] local 192.0.2.7 port 51000 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  1.00 MBytes  8.00 Mbits/sec
[  5]   1.00-2.00   sec   512 KBytes  4000 Kbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.02   sec  1.60 MBytes  6.60 Mbits/sec    3             sender
[  5]   0.00-2.00   sec  1.50 MBytes  6.00 Mbits/sec                  receiver
"""
IPERF2 = """------------------------------------------------------------
Server listening on UDP port 5001
[  3]  0.0- 1.0 sec   125 KBytes  1.00 Mbits/sec   0.009 ms    1/   90 (1.1%)
[  4]  0.0- 1.0 sec   125 KBytes  1.00 Mbits/sec   0.010 ms    0/   90 (0%)
[SUM]  0.0- 1.0 sec   250 KBytes  2.00 Mbits/sec   0.010 ms    1/  180 (0.56%)
[  3]  1.0- 2.0 sec   250 KBytes  2.00 Mbits/sec   0.009 ms    3/  180 (1.7%)
[  4]  1.0- 2.0 sec   250 KBytes  2.00 Mbits/sec   0.010 ms    0/  180 (0%)
[SUM]  1.0- 2.0 sec   500 KBytes  4.00 Mbits/sec   0.010 ms    3/  360 (0.83%)
[SUM]  0.0- 2.0 sec   750 KBytes  3.00 Mbits/sec   0.010 ms    4/  540 (0.74%)
"""
TWO_CONNECTIONS = """Client connecting to 192.0.2.1, TCP port 5001
[  3]  0.0- 0.5 sec  62.5 KBytes   125 KBytes/sec
[  4]  0.0- 0.5 sec  62.5 KBytes   125 KBytes/sec
"""


def test_text_of_iperf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = info(capsys, file(tmp_path, IPERF3))
    assert found["mean_rate_bps"] == {"down": pytest.approx(6e6), "up": None}
    assert found["duration_s"] == pytest.approx(2)
    assert found["loss"] is None
    found = info(capsys, file(tmp_path, IPERF2))
    assert found["mean_rate_bps"]["down"] == pytest.approx(3e6)
    assert found["loss"] == pytest.approx(4 / 540)
    found = info(capsys, file(tmp_path, TWO_CONNECTIONS))
    assert found["mean_rate_bps"] == {"down": None, "up": pytest.approx(2e6)}


def test_rates_with_units_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = file(tmp_path, "0.5,Mbits/sec\n1.5,Mbits/sec\nfailed\n1000,Kbits/sec\n")
    found = info(capsys, log)
    assert found["mean_rate_bps"]["down"] == pytest.approx(1e6)
    assert found["duration_s"] == pytest.approx(3)
    assert skipped(found) == [(1, [3])]
    assert info(capsys, log, "--interval", "500ms")["duration_s"] == pytest.approx(1.5)


def test_saturator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1000 packets in a second, every hundredth missing, and the answers to what was sent."""
    lines = ["INCOMING pid=1 DATA RECEIVED / ACK SENT senderid=4, seq=0, send_t"]
    for n in range(1000):
        sent, received = START_NS + n * 10**6, START_NS + n * 10**6 + 40_000_000
        if n % 100 != 50:
            lines.append(
                f"INCOMING pid=1 DATA RECEIVED / ACK SENT senderid=7, seq={n}, send_time={sent},"
                f" recv_time={received}"
            )
        lines.append(
            f"OUTGOING ACK RECEIVED senderid=9, seq=-1, send_time={sent},recv_time={sent + 10**8}"
        )
    lines.append("INCOMING DATA RECEIVED senderid=3, seq=1, send_time=1, recv_time=2")
    found = info(capsys, file(tmp_path, "\n".join(lines) + "\n"))
    assert found["mean_rate_bps"]["down"] == pytest.approx(990 * 1428 * 8)
    assert found["duration_s"] == pytest.approx(1.0, abs=0.05)
    assert found["loss"] == pytest.approx(0.01)
    assert found["rtt_s"]["median"] == pytest.approx(0.1)
    assert skipped(found) == [(1, [1]), (1, [len(lines)])]
    assert found["format"] == "Saturator log"
    only = file(tmp_path, lines[2] + "\n")
    assert "no packet arrived" in refused(capsys, only)


# Emulators


def test_cellreplay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "0 20 0 1 1 2 2\n100 30 0 0 1 3 4\n200 24 0 2 5 5 5\n50 24 0 1\n300 9\n"
    found = info(capsys, file(tmp_path, text, "down-delay-light-pdo"))
    assert found["rtt_s"]["minimum"] == 0.04
    assert found["rtt_s"]["median"] == 0.048
    assert found["mean_rate_bps"]["down"] == pytest.approx(3 * 5 * 1400 * 8 / 0.011)
    assert skipped(found) == [(1, [4]), (1, [5])]
    assert found["format"] == "CellReplay light trace"
    up = info(capsys, file(tmp_path, text, "up-delay-light-pdo"))
    assert up["mean_rate_bps"]["down"] is None
    heavy = info(capsys, file(tmp_path, "1\n1\n2\n10\n", "up-pdo"))
    assert heavy["mean_rate_bps"]["up"] == pytest.approx(4 * 12_000 / 0.01)


def test_leoreplayer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bw = info(capsys, file(tmp_path, "0\n1\n1\n1\n2\n3\n", "bw_1.txt"))
    assert (bw["format"], bw["mean_rate_bps"]["down"]) == ("mahimahi trace", 6 * 12_000 / 0.003)
    delay = file(tmp_path, "24\n18\n18\nx\n30\n", "delay_1.txt")
    message = refused(capsys, delay)
    assert "--file-format leoreplayer-delay" in message
    assert "--column 1" in message
    found = info(capsys, delay, "--file-format", "leoreplayer-delay")
    assert found["rtt_s"]["minimum"] == 0.036
    assert found["duration_s"] == pytest.approx(0.05)
    assert skipped(found) == [(1, [4])]
    out = tmp_path / "my.delay"
    words = ["--file-format", "leoreplayer-delay", "--out-delay", str(out)]
    assert main(["trace", "import", delay, *words]) == 0
    capsys.readouterr()
    assert out.read_text().split("\n")[1:4] == ["0 24", "10 18", "20 18"]
    rates = info(capsys, delay, "--column", "1", "--unit", "Mbit/s", "--interval", "1s")
    assert rates["mean_rate_bps"]["down"] == pytest.approx(22.5e6)
    assert "did you mean" in refused(capsys, delay, "--file-format", "leoreplayer-dealy").lower()


def test_delay_and_loss_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delay = "# milliseconds from the start, one-way delay in ms (half of the round-trip time)\n"
    name = file(tmp_path, delay + "0 20\n100 30\n100 31\nx y\n300 -4\n")
    found = info(capsys, name)
    assert found["rtt_s"]["minimum"] == 0.04
    assert found["duration_s"] == pytest.approx(0.2)
    assert sum(rows for rows, _ in skipped(found)) == 3
    loss = "# milliseconds from the start, probability that a frame is lost\n0 0.5\n100 0\n"
    assert info(capsys, file(tmp_path, loss))["loss"] == 0.25
    assert "has no value" in refused(capsys, file(tmp_path, delay))


# All


def test_what_no_format_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("hello\n", '{"a": 1}\n', "<html></html>\n"):
        message = refused(capsys, file(tmp_path, text))
        for word in ("pcap", "iperf3", "irtt", "Flent", "Saturator", "CSV"):
            assert word in message
    binary = tmp_path / "x.bin"
    binary.write_bytes(b"\x7fELF\0\0\0\0")
    assert "neither text nor a capture" in refused(capsys, str(binary))


def test_a_file_that_is_no_trace_is_told_what_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--down` of each format names the command, and the command writes a trace or says why not."""
    import captures

    packets = [
        (START_NS + n * 10**6, captures.ip("192.0.2.1", "10.0.0.2", 17, captures.udp((1, 2), 972)))
        for n in range(100)
    ]
    ss = "".join(f"{START_NS / 1e9 + time:.3f}\n{out}" for time, out in SAMPLES)
    saturator = "".join(
        f"INCOMING DATA RECEIVED senderid=7, seq={n}, send_time={n},"
        f" recv_time={START_NS + n * 10**6}\n"
        for n in range(100)
    )
    files = {
        "pcap": captures.pcap(packets, link=101),
        "pcapng": captures.pcapng(packets, link=101),
        "irtt": irtt([trip(0, 20)]).encode(),
        "starlink": json.dumps({"dishGetHistory": history()}).encode(),
        "flent.gz": gzip.compress(json.dumps(flent()).encode()),
        "ss": ss.encode(),
        "saturator": saturator.encode(),
        "cellreplay": b"100 20 0 1 1 2\n200 20 0 1 1 2\n",
        "delays": b"24\n18\n20\n",
        "csv": b"time,download_mbps\n0,1\n1,2\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert main(["run", "--down", str(path), "--rtt", "40ms"]) == 2
        message = capsys.readouterr().err
        assert f"`lasthop trace import {path} --out my.down`" in message, name
        out = tmp_path / "out" / "my.down"
        out.parent.mkdir(exist_ok=True)
        more = ["--mobile", "10.0.0.2"] if name.startswith("pcap") else []
        status = main(["trace", "import", str(path), "--out", str(out), *more])
        assert status == (2 if name in ("irtt", "delays") else 0), capsys.readouterr().err
        capsys.readouterr()
