"""The comparison with Linux over many paths: cells, stored transfers and verdicts."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from busy import undecided

from fidelity.linux import (
    cells,
    page,
    programs,
    programs_page,
    simulated,
    suite,
    transfers,
    verdicts,
    writing,
)
from lasthop.live import link

MACHINE = {
    "kernel": "6.18.1",
    "processors": 2,
    "tcp_rmem": [4096, 131072, 33554432],
    "settings": [["tcp.wmem_default", "16384 B"], ["tcp.wmem_max", "4194304 B"]],
}
FILE = """
draw = 1
longest = "6 s"
shortest_queue = 5
[[block]]
name = "one"
n = 3
rate = ["10 Mbps"]
rtt = ["40 ms"]
queue = ["0.1 BDP", "1 BDP"]
loss = ["1 %"]
size = ["30 kB"]
sender = ["reno"]
"""


def declared(tmp_path: Path, text: str = FILE) -> list[cells.Cell]:
    file = tmp_path / "cells.toml"
    file.write_text(text)
    return cells.read(file)


def stored(tmp_path: Path, found: list[cells.Cell]) -> transfers.Store:
    """Transfers that take as long as simulated ones."""
    store = transfers.Store(tmp_path / "store")
    store.folder.mkdir()
    (store.folder / "machine.json").write_text(json.dumps(MACHINE))
    for cell in found:
        for seed in range(1, cell.n + 1):
            s = simulated.completion_s(cell, [], 0.0, seed)
            store.add(cell, {"cell": cell.name, "seed": seed, "start": 0.0, "s": s})
    return store


def test_every_declared_cell_can_be_simulated() -> None:
    for cell in cells.read():
        simulated.load(cell, [])


def test_a_fraction_has_each_level_equally_often() -> None:
    levels: dict[str, list[Any]] = {"a": [1, 2, 3, 4], "b": ["x", "y", "z"], "c": [0]}
    rows = cells.fraction(levels, 7, "draw")
    assert rows == cells.fraction(levels, 7, "draw") != cells.fraction(levels, 7, "other")
    assert len({tuple(row.values()) for row in rows}) == 7
    for name, values in levels.items():
        counts = Counter(row[name] for row in rows)
        assert set(counts) == set(values)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_more_cells_than_the_product_has_are_refused(tmp_path: Path) -> None:
    text = FILE.replace("n = 3", "n = 3\ncells = 3")
    with pytest.raises(ValueError, match="no 3 different cells"):
        declared(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("rtt", "delay", "unknown factor `delay`"),
        ("n = 3", "n = 3\nmeasure = 'speed'", "unknown measure `speed`"),
        ("40 ms", "40 m", "no quantity: `40 m`"),
        ('"0.1 BDP", ', '"1 BDP", ', "two blocks have the cell"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, old: str, new: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        declared(tmp_path, FILE.replace(old, new))


def test_queues_and_sizes_have_bounds(tmp_path: Path) -> None:
    small, large = declared(tmp_path, FILE.replace("30 kB", "40 MB"))
    # A BDP of 10 Mbit/s and 40 ms is 33 packets of 1500 bytes.
    assert (small.factors["queue"], large.factors["queue"]) == ("5 packets", "33 packets")
    # 1448 B / 40 ms * sqrt(1.5 / 1 %) for 6 s (Mathis et al.).
    assert small.size == 2_660_000
    assert small.name == "10 Mbit/s, RTT 40 ms, queue 5 packets, loss 1 %, reno, 2660 kB"


def test_uploads_ipv6_and_ecn_are_simulated(tmp_path: Path) -> None:
    text = FILE.replace("n = 3", "n = 3\nupload = [true]\nipv6 = [true]\necn = [true]")
    cell = declared(tmp_path, text)[0]
    scenario: Any = simulated.load(cell, [])
    assert 'to = "server"' in scenario.filled
    assert "ecn = true" in scenario.filled
    # 1500 bytes less 60 of IPv6 and TCP, and 12 of timestamps.
    assert 'segment = "1428 B"' in scenario.filled
    plain = declared(tmp_path)[0]
    assert simulated.completion_s(cell, [], 0.0, 1) != simulated.completion_s(plain, [], 0.0, 1)


def test_pauses_lie_between_a_response_and_the_next_request() -> None:
    events = ["request_sent", "data_received", "delivered"]
    rows = [(0, 0, 0), (100, 2, 60), (120, 2, 40), (150, 0, 0), (160, 1, 0), (190, 2, 100)]
    rows += [(200, 0, 0)]
    recorded = {
        "events": events,
        "t_ns": [t * 10**9 for t, _, _ in rows],
        "event": [event for _, event, _ in rows],
        "value": [value for _, _, value in rows],
    }
    found = simulated.responses_of(recorded, 100)
    assert found == simulated.Responses([120, 40], [30, 10])


def test_a_store_forgets_nothing_and_repeats_what_failed(tmp_path: Path) -> None:
    found = declared(tmp_path)
    store = stored(tmp_path, found)
    file = next(store.folder.glob("*.jsonl"))
    lines = file.read_text().splitlines()
    assert len(lines) == 6
    # The second is late, and the process was killed while it wrote the last.
    late = json.dumps({"cell": found[0].name, "seed": 2, "error": "late"})
    file.write_text("\n".join([lines[0], late, *lines[2:5], lines[5][:20]]))
    again = transfers.Store(store.folder)
    assert [(c, seed) for c, seed in again.missing(found)] == [(found[0], 2), (found[1], 3)]
    again.add(found[1], json.loads(lines[5]))
    assert transfers.Store(store.folder).missing(found) == [(found[0], 2)]


def test_transfers_of_another_machine_are_not_mixed(tmp_path: Path) -> None:
    store = stored(tmp_path, [])
    with pytest.raises(ValueError, match="transfers of another machine"):
        store.machine(write=True)
    assert store.machine(write=False) == MACHINE
    with pytest.raises(ValueError, match="no real transfers are stored"):
        transfers.Store(tmp_path / "nothing").machine(write=False)


def test_a_kernel_without_wireless_lans_has_smaller_headers(tmp_path: Path) -> None:
    config = tmp_path / "config.gz"
    assert transfers.headers(config) == []
    config.write_bytes(gzip.compress(b"CONFIG_NET=y\nCONFIG_WLAN=y\n"))
    assert transfers.headers(config) == []
    config.write_bytes(gzip.compress(b"CONFIG_NET=y\n# CONFIG_WLAN is not set\n"))
    assert transfers.headers(config) == [("tcp.max_tcp_header", "256")]


def test_the_page_has_verdicts_and_what_is_not_done(tmp_path: Path) -> None:
    found = declared(tmp_path)
    store = stored(tmp_path, found)
    target = tmp_path / "page.md"
    assert page.write(found, store, target) == {"agrees": 2}
    assert "Of 2 cells 2 agree, 0 are undecided and 0 differ" in target.read_text()
    # Real transfers that take a tenth longer, and one cell that has not ended.
    for (name, seed), record in list(store.records.items()):
        record["s"] *= 1.1
        if name == found[1].name and seed == 3:
            del store.records[name, seed]
    assert page.write(found, store, target) == {"differs": 1, "not done": 1}
    text = target.read_text()
    assert f"| {found[0].name} | 3 |" in text
    assert f"| {found[1].name} | 3 | 2 | 0 |" in text


def test_goodput_agrees_within_five_percent() -> None:
    ours = [1.0, 1.1, 1.2, 1.3]
    (equal,) = verdicts.of_goodput([s * 1.01 for s in ours], ours)
    assert equal.value == pytest.approx(1 / 1.01)
    assert equal.verdict == "agrees"
    (slow,) = verdicts.of_goodput([s * 1.1 for s in ours], ours)
    assert slow.verdict == "differs"
    (wide,) = verdicts.of_goodput([1.5, 1.0, 1.3, 1.0], ours)
    assert wide.verdict == "undecided"


def test_percentiles_are_those_of_the_pairs() -> None:
    real = [0.1 + 0.001 * (i % 100) for i in range(600)]
    median, p95, p99 = verdicts.of_percentiles(real, [s * 1.05 for s in real])
    assert (median.what, p95.what, p99.what) == ("median", "p95", "p99")
    # Each resample of pairs with one ratio has this ratio.
    for found in (median, p95, p99):
        assert found.value == pytest.approx(1.05)
        assert found.interval == pytest.approx((1.05, 1.05))
    assert median.real == pytest.approx(0.149)
    assert p99.real == pytest.approx(0.198)
    assert [x.verdict for x in (median, p95, p99)] == ["differs", "agrees", "agrees"]
    assert verdicts.verdict([median, p95, p99]) == "differs"


def test_few_transfers_have_a_median_only_within_a_millisecond() -> None:
    (median,) = verdicts.of_percentiles([0.031, 0.0312, 0.0311], [0.0302, 0.0302, 0.0302])
    assert median.what == "median"
    assert median.margin == pytest.approx(0.001 / 0.0311)
    assert median.verdict == "agrees"


def test_the_first_response_does_not_count() -> None:
    ours = [[9.0, 1.0, 2.0], [9.0, 2.0, 2.0], [9.0, 1.0, 1.0]]
    (found,) = verdicts.of_responses([[1.0, *c[1:]] for c in ours], ours)
    assert (found.value, found.verdict) == (1.0, "agrees")


@pytest.mark.parametrize(("words", "error"), [(["--jobs", "0"], "--jobs must be at least 1")])
def test_wrong_usage_is_named(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        suite.main(words)
    assert error in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0 or link.missing() is not None, reason="live links need root")
@pytest.mark.parametrize(
    "kind",
    [
        "",
        "upload = [true]",
        "ipv6 = [true]",
        "ecn = [true]",
        "measure = 'responses'\nthink = ['10 ms']",
    ],
)
def test_a_real_transfer_of_each_kind(tmp_path: Path, kind: str) -> None:
    text = FILE.replace("n = 3", f"n = 1\n{kind}").replace('"0.1 BDP", ', "").replace("1 %", "0 %")
    found = declared(tmp_path, text)
    store = transfers.Store(tmp_path / "store")
    transfers.carry_all(store, found, 1, lambda _: None)
    (record,) = store.of(found[0])
    if "late" in record.get("error", ""):
        undecided(f"the packets of the link came late: {record['error']}")
    if kind.startswith("measure"):
        ours = simulated.responses(found[0], [], 1).times
        # The margin is that of a busy machine.
        assert record["s"][1:] == pytest.approx(ours[1:], rel=0.2)
    else:
        seconds = simulated.completion_s(found[0], [], record["start"], 1)
        assert record["s"] == pytest.approx(seconds, rel=0.2)


def test_refills_are_what_a_program_writes_between_two_waits() -> None:
    calls = [
        (65536, 0, 9_000, True),
        (65536 * 7, 11_000, 80_000, False),
        (65536, 500_000, 509_000, True),
        (65536 * 15, 510_000, 660_000, False),
        (65536, 900_000, 990_000, True),
    ]
    # The last one is too small to count.
    assert programs.refills(calls) == [10.0, 10.0]


def test_what_is_measured_of_programs_is_stored_and_written(tmp_path: Path) -> None:
    untimed, timed = programs.Program("plain"), programs.Program("timed, plain", is_timed=True)
    found = [{"s": s, "refills_us": [2 * s, 40.0]} for s in (6.7, 10.8, 7.1)]
    store = tmp_path / "programs.json"
    for program in (timed, untimed):
        programs_page.keep(program.name, programs.measured(program, found), store)
    assert programs_page.read(store) == {
        "plain": {"slow": 1, "of": 3},
        "timed, plain": {"us": [30.8, 13.2, 40.0], "refills": 6},
    }
    # Once more: it replaces the first, and no other.
    programs_page.keep("plain", programs.measured(untimed, found[:1]), store)
    assert programs_page.read(store)["plain"] == {"slow": 0, "of": 1}
    assert len(programs_page.read(store)) == 2
    page = tmp_path / "page.md"
    page.write_text(programs_page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    row = programs.times(timed, programs_page.read(store)["timed, plain"])
    programs_page.write(["plain | 1 of 3 | 0 of 2 | 1.00"], [row], page)
    text = page.read_text(encoding="utf-8")
    assert "| plain | 1 of 3 | 0 of 2 | 1.00 |\n" in text
    assert "| plain | 30.8 (13.2 to 40.0) | 6 |\n" in text


def test_fisher() -> None:
    # Fisher's lady tasting tea, and a table that is twice the same.
    assert programs.fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert programs.fisher(4, 4, 0, 4) == pytest.approx(2 / 70)
    assert programs.fisher(5, 10, 5, 10) == pytest.approx(1.0)


def test_programs_have_the_commands_of_their_kind(tmp_path: Path) -> None:
    for program in programs.PROGRAMS:
        server, mobile = program.commands(1000, tmp_path)
        words = " ".join([*server, *mobile])
        assert ("http.server" in words) == (program.is_http and not program.is_timed)
        assert ("writing.py" in words) == program.is_timed
        assert program.is_http or f" {program.writes or 1000}" in words
        size = ("tcp.program_write_size", f"{program.writes or 1000} B")
        assert size in program.settings(1000)
        header = ("tcp.program_first_write", f"{programs.HEADER} B")
        assert (header in program.settings(1000)) == program.is_http


def test_a_file_is_served_in_timed_writes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(200_000))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-I", writing.__file__, "serve", str(port), str(tmp_path)],
        stderr=subprocess.DEVNULL,
    )
    try:
        data = b""
        while not data:
            assert server.poll() is None
            with suppress(ConnectionError, urllib.error.URLError):
                data = urllib.request.urlopen(f"http://127.0.0.1:{port}/file").read()
        written = tmp_path / writing.WRITTEN
        while not written.exists() or not (text := written.read_text(encoding="ascii")):
            time.sleep(0.01)
    finally:
        server.kill()
        server.wait()
    assert data == bytes(200_000)
    assert sum(taken for taken, _, _, _ in json.loads(text)) == 200_000
