"""`lasthop trace`: files of other programs, read into one table and written as traces."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import document
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_files import file, info

from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.traces import formats, mahimahi, summary, units
from lasthop.traces.source import ReadOptions

STARLINK = """\
timestamp_start,timestamp_end,server,transport_protocol,download,upload,download_mbps,upload_mbps
2024-01-11 10:06:39,2024-01-11 10:06:40,192.0.2.1,UDP,101856000,7448000,101.856,7.448
2024-01-11 10:06:40,2024-01-11 10:06:41,192.0.2.1,UDP,67160000,12718000,67.16,12.718
2024-01-11 10:08:57,2024-01-11 10:08:58,192.0.2.1,UDP,76507000,,76.507,
"""
PING_CSV = """\
timestamp_start,timestamp_end,target,packet_loss,packets_send,ping_avg,ping_worst,ping_best
2024-01-11 09:43:20,2024-01-11 09:43:45,192.0.2.1,0.4,250,57.5,106.5,46.1
2024-01-11 09:45:20,2024-01-11 09:45:45,192.0.2.1,1.2,250,54.5,84.3,44.7
"""
DRIVE_HEAD = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,DL_bitrate,UL_bitrate,"
    "State,PINGAVG,NRxRSRP\n"
)
DRIVE = (
    DRIVE_HEAD
    + """\
2019.12.14_10.16.30,-8.4,51.9,0,B,11,5G,-95,5000,100,D,-,-
2019.12.14_10.16.31,-8.4,51.9,12,B,11,5G,-95,6000,100,D,-,-
2019.12.14_10.16.31,-8.4,51.9,12,B,12,5G,-95,8000,100,D,-,-
2019.12.14_10.16.32,-8.4,51.9,14,B,12,5G,-95,1000,100,D,-,-
2019.12.14_10.16.40,-8.4,51.9,20,B,12,5G,-95,-,-,D,-,-
2019.12.14_10.16.41,-8.4,51.9,20,B,12,5G,-95,2000,100,D,-,-
2019.12.14_10.16.42,-8.4,51.9,20,B,12
"""
)
IPUTILS = """\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.5 ms
64 bytes from 192.0.2.1: icmp_seq=2 ttl=57 time=14.5 ms
64 bytes from 192.0.2.1: icmp_seq=4 ttl=57 time=16.5 ms
64 bytes from 192.0.2.1: icmp_seq=4 ttl=57 time=17.3 ms (DUP!)

--- 192.0.2.1 ping statistics ---
5 packets transmitted, 3 received, +1 duplicates, 40% packet loss, time 802ms
rtt min/avg/max/mdev = 12.500/14.500/16.500/1.6 ms
"""


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["trace", *words]) == 2
    return capsys.readouterr().err


def test_a_table_with_units_in_its_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, STARLINK))
    assert found["mean_rate_bps"] == {
        "down": pytest.approx((101.856 + 67.16 + 76.507) / 3 * 1e6),
        "up": pytest.approx((7.448 + 12.718) / 2 * 1e6),
    }
    assert found["gaps"]["down"] == {"count": 1, "total_s": pytest.approx(136)}
    assert (found["format"], found["duration_s"], found["skipped"]) == ("table", 139, 0)


def test_a_drive_test_with_several_rows_a_second_and_local_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, DRIVE))
    assert found["mean_rate_bps"]["down"] == pytest.approx((5 + 7 + 1 + 2) / 4 * 1e6)
    assert found["mean_rate_bps"]["up"] == pytest.approx(100e3)
    assert (found["skipped"], found["duration_s"]) == (2, 12)
    assert [(s["rows"], s["lines"]) for s in found["skipped_rows"]] == [(1, [6]), (1, [8])]
    assert main(["trace", "info", str(tmp_path / "log")]) == 0
    text = capsys.readouterr().out
    assert "downlink  mean 3.75 Mbit/s; 1 gap of 8 s in total" in text
    assert "skipped: 1 row, no value (line 6)" in text


def test_a_table_of_pings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = info(capsys, file(tmp_path, PING_CSV))
    assert found["loss"] == pytest.approx(0.008)
    assert found["rtt_s"] == pytest.approx({"minimum": 0.0545, "median": 0.056, "p95": 0.05735})
    assert found["mean_rate_bps"] == {"down": None, "up": None}


@pytest.mark.parametrize(
    ("head", "factor"),
    [
        ("time,mbps", 1e6),
        ("t_s;throughput [kbit/s]", 1e3),
        ("time\tdl_Mbps", 1e6),
        ("time,downlinkThroughputBps", None),
        ("timestamp,Throughput (Mbits/sec)", 1e6),
        ("time,rate_MB/s", 8e6),
        ("# time,download_bps", 1),
        ("time,rx_bytes", 8),
        ("time,MBPS", None),
        ("time,download", None),
    ],
)
def test_units_of_names(
    head: str, factor: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    between = next(c for c in ",;\t" if c in head)
    rows = "".join(f"{t}{between}{v}\n" for t, v in ((0, 10), (1, 20), (2, 60)))
    name = file(tmp_path, f"{head}\n{rows}")
    if factor is None:
        message = refused(capsys, "info", name)
        assert "is not certain" in message
        assert "--unit kbit/s" in message
        return
    found = info(capsys, name)
    assert found["mean_rate_bps"]["down"] == pytest.approx(30 * factor)


def test_what_is_not_certain_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = file(tmp_path, "when,what,other\n0,10,1\n1,20,1\n")
    message = refused(capsys, "info", name)
    assert "no column is a rate" in message
    assert "`what`" in message
    words = ("--column", "what", "--time-column", "when")
    assert "the unit of column `what` is not certain" in refused(capsys, "info", name, *words)
    assert info(capsys, name, *words, "--unit", "kB/s")["mean_rate_bps"]["down"] == 120_000
    assert "no such column" in refused(capsys, "info", name, "--column", "whit", "--unit", "bit/s")
    assert "--unit must be a rate" in refused(capsys, "info", name, *words, "--unit", "furlong")
    bare = file(tmp_path, "0 10\n1 20\n")
    assert "have no names" in refused(capsys, "info", bare)
    numbered = ("--time-column", "1", "--column", "2", "--unit", "Mbit/s")
    assert info(capsys, bare, *numbered)["mean_rate_bps"]["down"] == 15e6
    several = file(tmp_path, "time,dl_a_mbps,dl_b_mbps\n0,1,2\n")
    assert "several columns may be the rate" in refused(capsys, "info", several)
    slashes = file(tmp_path, "time,mbps\n03/04/2024 10:00:00,1\n03/04/2024 10:00:01,3\n")
    assert "--time-format" in refused(capsys, "info", slashes)
    given = ("--time-format", "%d/%m/%Y %H:%M:%S")
    assert info(capsys, slashes, *given)["mean_rate_bps"]["down"] == 2e6


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the file is empty"),
        ("hello\n", "no known format begins with `hello`"),
        ("time,mbps\n", "no row"),
        ("time,mbps\n0,x\n", "no row can be used; 1 of them: a value is not a number (line 2)"),
        ('{"start": {"version": "iperf 3.16"}, "intervals": [{"stre', "ends in the middle"),
        ('{"start": {"version": "3"}, "intervals": [], "error": "no route"}', "nothing: no route"),
        ("PING x (192.0.2.1) 56(84) bytes of data.\n", "no packet was sent"),
    ],
)
def test_files_that_measure_nothing(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, "info", file(tmp_path, text))
    assert what in message
    assert message.count("\n") == 1


def stream(start: float, size: float, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": start + 1, "seconds": 1.0, "bytes": size, **more}


def iperf(intervals: list[Any], end: Any, **test: Any) -> str:
    start = {"version": "iperf 3.16", "connected": [], "timestamp": {"timesecs": 1_700_000_000}}
    document = {"start": {**start, "test_start": test}, "intervals": intervals, "end": end}
    return json.dumps(document)


def test_iperf3_counts_what_the_receiver_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intervals = [
        {"streams": [stream(t, 1e6, rtt=30_000, omitted=t == 0), stream(t, 2e6, rtt=50_000)]}
        for t in range(4)
    ]
    sent = 3e6 * 4 - 1e6
    end = {"sum_sent": {"bytes": sent}, "sum_received": {"bytes": 0.9 * sent}}
    found = info(capsys, file(tmp_path, iperf(intervals, end, protocol="TCP", reverse=0)))
    assert found["mean_rate_bps"]["up"] == pytest.approx(0.9 * sent * 8 / 4)
    assert found["mean_rate_bps"]["down"] is None
    assert found["rtt_s"]["median"] == pytest.approx(0.04)
    assert any("90.00 %" in note for note in found["notes"])


def test_iperf3_udp_in_both_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interval(t: int) -> Any:
        received = stream(t, 5e5, sender=False, packets=400, lost_packets=4 * t)
        return {"streams": [stream(t, 1e6, sender=True, packets=700), received]}

    end = {
        "sum_sent": {"bytes": 3e6},
        "sum_received": {"bytes": 2.4e6, "packets": 2100, "lost_packets": 420},
        "sum_bidir_reverse": {"bytes": 1.5e6},
    }
    text = iperf([interval(t) for t in range(3)], end, protocol="UDP", bidir=1)
    found = info(capsys, file(tmp_path, text))
    assert found["mean_rate_bps"] == pytest.approx({"down": 4e6, "up": 6.4e6})
    assert found["loss"] == pytest.approx((4 + 8 + 420) / (1200 + 2100))
    swapped = info(capsys, file(tmp_path, text), "--swap")
    assert swapped["mean_rate_bps"] == pytest.approx({"down": 6.4e6, "up": 4e6})


def test_iperf3_reverse_without_flags_and_as_a_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = iperf([{"streams": [stream(0, 1e6)]}], {}, protocol="TCP", reverse=1)
    assert info(capsys, file(tmp_path, old))["mean_rate_bps"] == {"down": 8e6, "up": None}
    events = [
        {"event": "start", "data": {"test_start": {"reverse": 1}}},
        {"event": "interval", "data": {"streams": [stream(0, 1e6, sender=False)]}},
    ]
    lines = "\n".join(map(json.dumps, events)) + '\n{"event": "inter'
    assert info(capsys, file(tmp_path, lines))["mean_rate_bps"]["down"] == 8e6


def test_ping_counts_missing_numbers_as_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = info(capsys, file(tmp_path, IPUTILS))
    assert (found["loss"], found["skipped"], found["format"]) == (0.4, 1, "ping")
    assert found["rtt_s"] == pytest.approx({"minimum": 0.0125, "median": 0.0145, "p95": 0.0163})
    assert found["duration_s"] == pytest.approx(5 * 0.802 / 4)
    assert "mean interval" in found["sources"][0]["clock"]


@pytest.mark.parametrize(
    ("lines", "loss", "duration_s", "clock"),
    [
        (  # iputils -D -O, cut off
            [
                "[1700000000.112] 64 bytes from a (192.0.2.1): icmp_seq=1 ttl=5 time=12 ms",
                "[1700000000.312] no answer yet for icmp_seq=2",
                "[1700000000.512] 64 bytes from a (192.0.2.1): icmp_seq=3 ttl=5 time=12 ms",
                "[1700000000.712] 64 bytes from a (192.0.2.1): icmp_seq=4 ttl=5 time=12 ms",
            ],
            0.25,
            0.8,
            "time of day",
        ),
        (  # busybox
            [
                "PING 192.0.2.1 (192.0.2.1): 56 data bytes",
                "64 bytes from 192.0.2.1: seq=0 ttl=64 time=12.000 ms",
                "64 bytes from 192.0.2.1: seq=2 ttl=64 time=12.000 ms",
                "4 packets transmitted, 2 packets received, 50% packet loss",
            ],
            0.5,
            4,
            "assumed",
        ),
        (  # macOS
            [
                "PING 192.0.2.1 (192.0.2.1): 56 data bytes",
                "Request timeout for icmp_seq 0",
                "64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.000 ms",
            ],
            0.5,
            2,
            "assumed",
        ),
        (  # fping -l
            [
                "192.0.2.1 : [0], 64 bytes, 12.0 ms (12.0 avg, 0% loss)",
                "192.0.2.1 : [1], timed out (12.0 avg, 50% loss)",
            ],
            0.5,
            2,
            "assumed",
        ),
        (  # fping -C
            ["192.0.2.1 : 11.5 12.0 - 12.5", "192.0.2.9 : 70.1 70.2 70.3 70.4"],
            0.25,
            4,
            "assumed",
        ),
        (  # sequence numbers begin again after 65535
            [
                f"64 bytes from 192.0.2.1: icmp_seq={n % 65536} ttl=57 time=12 ms"
                for n in (65534, 65535, 65537)
            ],
            0.25,
            4,
            "assumed",
        ),
    ],
)
def test_forms_of_ping(
    lines: list[str],
    loss: float,
    duration_s: float,
    clock: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = info(capsys, file(tmp_path, "\n".join(lines) + "\n"))
    assert (found["format"], found["loss"]) == ("ping", loss)
    assert found["duration_s"] == pytest.approx(duration_s)
    assert found["rtt_s"]["median"] == pytest.approx(0.012)
    assert clock in found["sources"][0]["clock"]


def rates_of(times: Any) -> Any:
    return np.bincount((times - 1) // 1000) * 12_000 / 1e6


@settings(deadline=None)
@given(st.lists(st.floats(0, 300), min_size=1, max_size=60).filter(lambda r: sum(r) > 1))
def test_a_trace_carries_the_rate_of_each_second(mbps: list[float]) -> None:
    times = mahimahi.opportunities(np.ones(len(mbps)), np.array(mbps) * 1e6 / 8)
    assert times[-1] == 1000 * len(mbps)
    assert np.all(np.diff(times) >= 0)
    carried = rates_of(times)
    # One opportunity is 0.012 Mbit; the last one of all closes the period.
    assert np.abs(carried[: len(mbps)] - mbps).max() <= 0.0241
    assert abs(carried.sum() - sum(mbps)) <= 0.0061


def test_from_a_table_to_a_run_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean rate of a file is that of the run of a saturating source, and of the export."""
    monkeypatch.chdir(tmp_path)
    mbps = [143.4 + 60 * np.sin(t) for t in range(8)]
    rows = "".join(f"{t},{r:.6f},{r / 10:.6f}\n" for t, r in enumerate(mbps))
    Path("m.csv").write_text(f"time_s,download_mbps,upload_mbps\n{rows}")
    assert main(["trace", "import", "m.csv", "--out", "my.down"]) == 0
    assert "written: my.down, my.up" in capsys.readouterr().out
    mean = sum(mbps) / len(mbps) * 1e6
    assert info(capsys, "my.down")["mean_rate_bps"]["down"] == pytest.approx(mean, rel=1e-4)
    assert info(capsys, "my.up")["mean_rate_bps"]["up"] == pytest.approx(mean / 10, rel=1e-3)
    source = '[[flow]]\nfrom = "server"\nto = "phone"\napp = { kind = "cbr", rate = "300 Mbps" }'
    Path("s.toml").write_text(
        f'duration = "8 s"\n[last_hop]\ndown = "my.down"\nup = "my.up"\nrtt = "10 ms"\n{source}\n'
    )
    run = document(capsys, "run", "s.toml")
    radio = next(k for k in run["links"] if k["radio"] and k["from"] == "bs")
    # The opportunities of the last millisecond are at the end of the run, which is not part of it.
    assert radio["capacity_bps"] == pytest.approx(mean, rel=2e-4)
    assert radio["utilisation"] > 0.99
    assert main(["trace", "export", "my.down", "--out", "back.csv"]) == 0
    back = np.loadtxt("back.csv", delimiter=",", skiprows=1)
    assert np.abs(back[:, 2] - mbps).max() <= 0.0241
    capsys.readouterr()
    assert main(["trace", "import", "back.csv", "--out", "again.down"]) == 0
    again, first = (rates_of(np.loadtxt(n, dtype=int)) for n in ("again.down", "my.down"))
    assert np.abs(again - first).max() <= 0.0121


def test_gaps_are_left_out_or_carry_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = file(tmp_path, DRIVE), str(tmp_path / "x.down")
    for gaps, seconds, mean in (("join", 4, 3.75e6), ("zero", 12, 1.25e6)):
        assert main(["trace", "import", name, "--out", out, "--gaps", gaps]) == 0
        capsys.readouterr()
        found = info(capsys, out)
        assert found["duration_s"] == seconds
        assert found["mean_rate_bps"]["down"] == pytest.approx(mean, rel=0.002)


def test_from_a_ping_to_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        f"[{1_700_000_000 + 0.01 * n:.6f}] 64 bytes from 192.0.2.1: icmp_seq={n + 1} ttl=9"
        f" time={40 if n < 250 else 120} ms"
        for n in range(500)
        if n % 50
    ]
    Path("p.txt").write_text("\n".join(lines) + "\n")
    words = ["trace", "import", "p.txt", "--out-delay", "my.delay", "--out-loss", "my.loss"]
    assert main(words) == 0
    capsys.readouterr()
    losses = [float(line.split()[1]) for line in Path("my.loss").read_text().splitlines()[1:]]
    assert losses == pytest.approx([0.02] * len(losses), abs=0.011)
    Path("s.toml").write_text(
        'duration = "5 s"\n[last_hop]\nrate = "1 Mbps"\nrtt = "0 s"\n'
        'delay = { trace = "my.delay" }\nloss = { trace = "my.loss" }\n'
        '[[flow]]\nfrom = "server"\nto = "phone"\napp = { kind = "ping", every = "20 ms" }\n'
    )
    run = document(capsys, "run", "s.toml")
    (flow,) = run["flows"]
    assert flow["one_way_delay_s"]["p95"] == pytest.approx(0.06, abs=0.003)
    assert flow["one_way_delay_s"]["mean"] == pytest.approx(0.04, abs=0.004)
    lost = sum(k["lost_on_air"] for k in run["links"])
    assert 1 <= lost <= 25


def test_a_file_that_is_no_trace_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = file(tmp_path, STARLINK, "iperf.csv")
    assert main(["run", "--down", name, "--rtt", "40ms"]) == 2
    message = capsys.readouterr().err
    assert f"`lasthop trace import {name} --out my.down`" in message
    assert "docs/traces.md" in message


def test_outputs_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = file(tmp_path, "1\n2\n", "a.down")
    assert "would overwrite" in refused(capsys, "import", trace, "--out", trace)
    assert Path(trace).read_text() == "1\n2\n"
    table = file(tmp_path, STARLINK)
    for words, what in (
        (("import", table), "needs --out"),
        (("import", table, "--out", "x.csv"), "NAME.down or NAME.up"),
        (("import", table, "--out-delay", "x"), "no round-trip time was measured"),
        (("import", table, "--out-loss", "x"), "no losses were counted"),
        (("info", table, "--out", "x.down"), "does not go with"),
        (("plot", table, "--out", "x.gif"), ".png, .svg or .pdf"),
    ):
        assert what in refused(capsys, *words)
    up = file(tmp_path, "time,upload_mbps\n0,1\n1,2\n", "up.csv")
    message = refused(capsys, "import", up, "--out", str(tmp_path / "up.down"))
    assert "--out NAME.up" in message
    assert "--swap" in message
    assert not (tmp_path / "up.down").exists()


def test_a_picture_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "x.png"
    files = [file(tmp_path, STARLINK, "a.csv"), file(tmp_path, PING_CSV, "b.csv")]
    assert main(["trace", "plot", *files, "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    found = info(capsys, *files)
    assert found["rtt_s"] is not None
    assert found["format"] == "table"


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_text_makes_a_reader_fail(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_text(text, encoding="utf-8", errors="replace")
    for options in (ReadOptions(), ReadOptions(column="2", time_column="1", unit="bit/s")):
        with contextlib.suppress(InputError):
            summary.document(formats.read(str(path), options))


def test_times_without_a_unit_are_taken_as_seconds_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "0,4000\n1,5000\n2,4500\n"
    for name, options, assumed in (
        ("time", (), True),
        ("time_ms", (), False),
        ("time", ("--time-unit", "s"), False),
    ):
        table = file(tmp_path, f"{name},rate_kbps\n{rows}", f"{name}{len(options)}.csv")
        assert main(["trace", "info", table, *options]) == 0
        said = capsys.readouterr().out
        assert ("`time` does not say its unit; its numbers are taken as seconds" in said) == assumed
    epoch = file(tmp_path, "time,rate_kbps\n1700000000,4000\n1700000001,5000\n", "epoch.csv")
    assert main(["trace", "info", epoch]) == 0
    assert "taken as seconds" not in capsys.readouterr().out


def test_a_time_that_is_too_large_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "expected a time in whole milliseconds" in refused(
        capsys, "info", file(tmp_path, f"1\n{2**63}\n", "a.down")
    )


def test_times_and_their_units() -> None:
    for text, name, seconds in (
        ("1700000000.5", "time", 1_700_000_000.5),
        ("1700000000500", "time", 1_700_000_000.5),
        ("1700000000500000000", "ts", 1_700_000_000.5),
        ("1500", "time_ms", 1.5),
        ("2023-11-14T22:13:20Z", "time", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", "time", 1_700_000_000),
        ("2023.11.14_22.13.20", "time", 1_700_000_000),
    ):
        assert units.time_reader(text, name, None, None)(text) == pytest.approx(seconds)
    day = units.time_reader("23:59:59", "time", None, None)
    assert [day(t) for t in ("23:59:59", "00:00:01.5")] == [86_399, 86_401.5]
