"""Texts of measuring programs as scripts keep them: with times before lines, and other lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trace_files import file, info

from lasthop.cli.main import main

IPERF3 = """Connecting to host 192.0.2.1, port 5201
[  5]   0.00-1.00   sec  1.00 MBytes  8.00 Mbits/sec    0   50 KBytes       (omitted)
[  5]   0.00-1.00   sec  2.00 MBytes  16.0 Mbits/sec    0   50 KBytes
[  5]   1.00-2.00   sec  2.00 MBytes  20.0 Mbits/sec    0   50 KBytes
[  5]   0.00-2.00   sec  4.50 MBytes  18.0 Mbits/sec    0             sender
[  5]   0.00-2.03   sec  4.50 MBytes  18.0 Mbits/sec                  receiver
"""
STAMPS = [
    "",
    "[2023-11-14 22:13:20.250000] ",
    "Tue Nov 14 22:13:20 2023 ",
    "Nov 14 22:13:20 ",
    "2023-11-14T22:13:20.250+01:00 ",
    "1700000000.250000 ",
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_iperf_without_what_was_before_the_test(
    stamp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(stamp + line for line in IPERF3.splitlines(keepends=True))
    found = info(capsys, file(tmp_path, f"Start: 12\n{text}"))
    assert found["mean_rate_bps"] == {"down": None, "up": pytest.approx(18e6)}


def test_iperf_with_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two connections, the lines of -1 are the sum; the last one is the total."""
    ends = "20220101000001,10.0.0.1,5001,10.0.0.2,5001"
    lines = [
        *(f"{ends},{c},{i}.0-{i + 1}.0,9,4000000,0.1,1,100" for i in (0, 1) for c in (3, 4)),
        *(f"{ends},-1,{i}.0-{i + 1}.0,9,8000000,0.1,2,200" for i in (0, 1)),
        f"{ends},-1,0.0-2.0,9,8000000,0.1,4,400",
    ]
    found = info(capsys, file(tmp_path, "\n".join(lines)))
    assert found["mean_rate_bps"] == {"down": pytest.approx(8e6), "up": None}
    assert found["loss"] == pytest.approx(0.01)


@pytest.mark.parametrize(("end", "direction"), [("t", "up"), ("r", "down")])
def test_nuttcp(
    end: str, direction: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""nuttcp-{end}: v8.1.4: socket
nuttcp-{end}: connect to 192.0.2.1 with RTT=29.390 ms af=inet
    1.0000 MB /   0.50 sec =   16.7772 Mbps     3 /   100 ~drop/pkt  3.00 ~%loss
    3.0000 MB /   0.50 sec =   50.3316 Mbps    -1 /   300 ~drop/pkt  0.00 ~%loss
nuttcp-{end}: 4.0000 MB in 1.00 real seconds = 4096.00 KB/sec = 33.5544 Mbps
"""
    found = info(capsys, file(tmp_path, text))
    assert found["mean_rate_bps"][direction] == pytest.approx(4 * 8 * 2**20)
    assert (found["format"], found["duration_s"]) == ("nuttcp text", pytest.approx(1))
    assert found["loss"] == pytest.approx(3 / 400)


PINGS = {
    "ping": """{}PING 192.0.2.1 (192.0.2.1) 38(66) bytes of data.
{}46 bytes from 192.0.2.1: icmp_seq=1 ttl=54 time=10.0 ms
{}46 bytes from 192.0.2.1: icmp_seq=2 ttl=54 time=30.0 ms
{}2 packets transmitted, 2 received, 0% packet loss, time 200ms
""",
    "fping": """{}host.example (192.0.2.1) : [0], 84 bytes, 10.0 ms (10.0 avg, 0% loss)
{}host.example (192.0.2.1) : [1], 84 bytes, 30.0 ms (20.0 avg, 0% loss) [<- 192.0.2.9]
""",
    "hping3": """{}HPING 192.0.2.1 (eth0 192.0.2.1): S set, 40 headers + 0 data bytes
{}len=46 ip=192.0.2.1 ttl=117 id=0 sport=80 flags=SA seq=0 win=65535 rtt=10.0 ms
{}len=46 ip=192.0.2.1 ttl=117 id=0 sport=80 flags=SA seq=1 win=65535 rtt=30.0 ms
""",
    "irtt": """{}[192.0.2.1:2112] [Connected] connection established
{}seq=0 rtt=10ms rd=5ms sd=5ms ipdv=n/a
{}seq=1 rtt=30000\N{MICRO SIGN}s rd=15ms sd=15ms ipdv=20ms
""",
}


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("program", PINGS)
def test_pings_with_times_before_each_line(
    program: str, stamp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, PINGS[program].replace("{}", stamp)))
    assert found["rtt_s"]["minimum"] == pytest.approx(0.01)
    assert found["rtt_s"]["median"] == pytest.approx(0.02)
    assert found["loss"] == 0


def test_times_of_lines_are_those_of_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(
        f"[2023-11-14 22:13:2{i}.500000] 64 bytes from a: icmp_seq={i + 1} ttl=5 time=5.0 ms\n"
        for i in (0, 2, 4)
    )
    found = info(capsys, file(tmp_path, text.replace("icmp_seq=5", "icmp_seq=4")))
    assert found["duration_s"] == pytest.approx(4 + 4 / 3)
    assert found["loss"] == pytest.approx(1 / 4)


DATES = [
    ("Tue Nov 14 22:13:20 CET 2023", "Tue Nov 14 22:13:21 CET 2023"),
    ("Tue 14 Nov 2023 10:13:20 PM UTC", "Tue 14 Nov 2023 10:13:21 PM UTC"),
]


@pytest.mark.parametrize("dates", DATES)
def test_ss_with_dates_of_several_languages(
    dates: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"{date}\n{socket(125_000 * i)}" for i, date in enumerate(dates))
    assert info(capsys, file(tmp_path, text))["mean_rate_bps"]["up"] == pytest.approx(1e6)


def socket(acked: int) -> str:
    return (
        "ESTAB 0 0 192.0.2.1:5201 192.0.2.9:4444 cubic rto:240 rtt:37.2/2.1 mss:1448 cwnd:40"
        f" bytes_acked:{acked} segs_out:{acked // 1448}\n"
    )


def test_ss_with_one_line_per_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(f"170000000{i}.0 {socket(125_000 * i)}" for i in (0, 1))
    found = info(capsys, file(tmp_path, text))
    assert (found["format"], found["mean_rate_bps"]["up"]) == ("ss log", pytest.approx(1e6))


def test_json_between_lines_of_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = {
        "dishGetHistory": {
            "current": "2",
            "popPingDropRate": [0, 0.5],
            "popPingLatencyMs": [30, 40],
            "downlinkThroughputBps": [1e6, 2e6],
            "uplinkThroughputBps": [1e5, 1e5],
        }
    }
    text = json.dumps(history, indent=2)
    found = info(capsys, file(tmp_path, f"Start time: 12\n{text}\nEnd time: 13\n"))
    assert found["mean_rate_bps"]["down"] == pytest.approx(1.5e6)
    assert main(["trace", "info", file(tmp_path, f"{text}\n{text}\n")]) == 2
    assert "several JSON documents" in capsys.readouterr().err


def test_a_table_below_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names are below the comments, or the last comment is the names."""
    for names in ("time_s,dl_mbps,rtt_ms", "# time_s, dl_mbps, rtt_ms"):
        found = info(capsys, file(tmp_path, f"# drive\n# by car\n{names}\n0,12,40\n1,14,42\n"))
        assert found["mean_rate_bps"]["down"] == pytest.approx(13e6)
        assert found["rtt_s"]["minimum"] == pytest.approx(0.04)


def test_one_way_delays_are_no_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "timestamp_ns,rtt_ns,uplink_ns,downlink_ns\n" + "".join(
        f"{1_700_000_000_000_000_000 + i * 10_000_000},30000000,14000000,16000000\n" for i in (0, 1)
    )
    found = info(capsys, file(tmp_path, table))
    assert found["mean_rate_bps"] == {"down": None, "up": None}
    assert found["rtt_s"]["median"] == pytest.approx(0.03)


SETS = [
    ("Server ID,Sponsor,Server Name,Timestamp,Ping,Download,Upload", "{t},23,9e6,2e6", 9e6),
    ("run_num,seq_num,abstractSignalStr,nr_ssRsrp,Throughput", "1,{i},2,-85,350", 350e6),
]


@pytest.mark.parametrize(("names", "row", "rate"), SETS)
def test_sets_without_units(
    names: str, row: str, rate: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = f"7,x,Berlin,{row}" if "Sponsor" in names else row
    rows = [row.format(t=f"2022-01-01T0{i}:00:00.000Z", i=i) for i in (1, 2)]
    found = info(capsys, file(tmp_path, "\n".join((names, *rows))))
    assert found["mean_rate_bps"]["down"] == pytest.approx(rate)


def test_a_title_before_the_lines_of_iperf3_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "iperf 3.7",
        "[  5]   0.00-1.00   sec  1.14 MBytes  9.54 Mbits/sec  0.121 ms  12/1000 (1.2%)  ",
        "[  5]   1.00-2.00   sec  1.14 MBytes  9.54 Mbits/sec  0.121 ms  8/1000 (0.8%)  ",
    ]
    found = info(capsys, file(tmp_path, "".join(f"drive-2-udp:  {x}\n" for x in lines)))
    assert found["format"] == "iperf text"
    assert found["mean_rate_bps"]["down"] == pytest.approx(9.54e6)
    assert found["loss"] == pytest.approx(0.01)


@pytest.mark.parametrize(("step_s", "unit"), [(1.0, "s"), (600.0, "h"), (40_000.0, "days")])
def test_the_picture_of_few_samples_has_points_and_a_fitting_unit(
    step_s: float, unit: str, tmp_path: Path
) -> None:
    rows = "".join(f"{step_s * i},{8 + i % 3},{40 + i % 5},1\n" for i in range(30))
    name = file(tmp_path, f"time_s,download_mbps,rtt_ms,loss_percent\n{rows}", "x.csv")
    out = tmp_path / "x.svg"
    assert main(["trace", "plot", name, "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert f"time ({unit})" in text
