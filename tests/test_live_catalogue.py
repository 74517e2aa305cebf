"""Schemes on real packets beside their simulations: the table, the page, and where rows part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documents import validate

from lasthop import runs
from lasthop.cli import main
from lasthop.live import catalogue, catalogue_page, first_difference
from lasthop.live import link as live
from lasthop.live.catalogue import Row
from lasthop.live.first_difference import Difference, Segment

REASON = live.missing()
HOP = {"rate": "10Mbps", "rtt": "44ms", "loss": "2%"}


def simulated(path: Path, seed: int) -> Path:
    app = ("flow.1.app", '{kind = "transfer", size = "100 kB"}')
    runs.run(scheme="reno", seed=seed, settings=[app], last_hop=HOP, pcap=path)
    return path


def test_captures_part_at_the_first_different_data_segment(tmp_path: Path) -> None:
    first = simulated(tmp_path / "first.pcapng", 1)
    assert first_difference.find(first, first) is None
    found = first_difference.find(first, simulated(tmp_path / "second.pcapng", 2))
    assert found is not None
    assert found.real is not None
    assert found.simulated is not None
    assert found.real.offset != found.simulated.offset
    # Until then both have sent the same.
    assert found.ordinal > 10
    assert found.sentence().startswith(f"first different data segment: {found.ordinal} (real: ")


def test_a_capture_says_what_the_mobile_has_acknowledged(tmp_path: Path) -> None:
    steps = first_difference.acknowledged(simulated(tmp_path / "run.pcapng", 1), 1)
    times, acknowledged = zip(*steps, strict=True)
    assert (times[0] >= 0, list(times)) == (True, sorted(times))
    assert (acknowledged[0], acknowledged[-1]) == (0, 100_001)


def test_rows_that_part_say_so() -> None:
    parted = Difference(8, Segment(10136, 1448, 0.1), None)
    rows = [
        Row("reno", real=[1.0, 2.0], simulated=[1.0, 2.0], parted=[None, None]),
        Row("hack", "own", [1.0, 2.0], [0.9, 1.8], [parted, None]),
        Row("snoop", failed=[(1, "why")]),
    ]
    assert [row.verdict() for row in rows] == ["agrees", "parts", "undecided: no transfer"]
    text = catalogue.table(rows)
    assert "within 5% of 1 in 1 of 3 rows" in text
    assert "8 (real: 1448 B at offset 10136, after 0.1000 s; simulated: none)" in text
    assert "snoop, seed 1 failed: why" in text
    page = catalogue_page.render(rows, seeds=2, size=1000, command="lasthop validate --all")
    assert page.count("<tr>") == 4
    assert "1448 B at offset 10136" in page


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_a_validation_of_two_schemes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for key, value in HOP.items() for word in (f"--{key}", value)]
    words += ["--all", "--schemes", "reno,mtcp", "--seeds", "1", "--size", "100kB"]
    status = main.main(["validate", *words, "--json", "--out", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    validate("validate-all", document)
    rows = document["rows"]
    assert [(row["scheme"], row["ends"]) for row in rows] == [
        ("reno", "own,kernel"),
        ("mtcp", "own"),
    ]
    # On a busy machine transfers are not counted.
    assert all(row["n"] + len(row["failed"]) == 1 for row in rows)
    assert status == int(any(row["failed"] for row in rows))
    assert "reno" in (tmp_path / "validation.html").read_text(encoding="utf-8")


def test_the_simulated_program_has_no_send_buffer() -> None:
    """As one whose data lasthop's own TCP takes ahead of the link."""
    scenario = catalogue._scenario(None, [], HOP, 1000, "reno", 0.5)
    assert 'wmem_max = "0 B"' in scenario.filled
