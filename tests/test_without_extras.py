"""A plain `pip install` has neither polars nor matplotlib: results are stored as CSV and JSON."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ended

from lasthop.cli.main import main

SCENARIO = ["--rate", "1Mbps", "--rtt", "40ms", "--loss", "1%", "--duration", "2s"]
SCHEMES = ["--schemes", "reno,cubic", "--seeds", "4"]
#: Python takes a module for missing whose entry is None.
HIDE = """
import sys
for name in ("polars", "matplotlib", "scipy", "pandas", "xarray"):
    sys.modules[name] = None
from lasthop.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def plain(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ended([sys.executable, "-c", HIDE, *words], cwd=cwd)


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_compare_writes_all_that_needs_no_extra(tmp_path: Path) -> None:
    done = plain("compare", *SCENARIO, *SCHEMES, "--out", "plain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "lasthop: the extra `tables` would add runs.parquet, the extra `plots` would add the"
        " figure: pip install 'lasthop[tables,plots]'"
    )
    assert main(["compare", *SCENARIO, *SCHEMES, "--quiet", "--out", str(tmp_path / "all")]) == 0
    found = {p.name for p in (tmp_path / "plain").iterdir()}
    assert found == {p.name for p in (tmp_path / "all").iterdir()} - {
        *("runs.parquet", "figure.svg", "figure.png", "figure.txt")
    }
    for name in ("runs.csv", "table.csv", "scenario.toml"):
        assert (tmp_path / "plain" / name).read_text() == (tmp_path / "all" / name).read_text()
    assert plain("report", "plain", cwd=tmp_path).returncode == 0
    asked = plain("compare", *SCENARIO, *SCHEMES, "--out", "x", "--plot", "bars", cwd=tmp_path)
    assert asked.returncode == 2
    assert "need the extra `plots`" in asked.stderr


def test_sweep_writes_csv_and_goes_on_with_and_without_the_extra(tmp_path: Path) -> None:
    out = str(tmp_path / "s")
    words = ["sweep", *SCENARIO, "--schemes", "reno,cubic", "--out", out, "--seeds"]
    done = plain(*words, "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the extra `tables` would add runs.parquet and table.parquet: pip" in done.stderr
    assert {p.name for p in Path(out).iterdir()} == {
        *("sweep.json", "scenario.toml", "runs.csv", "table.csv", "parts", ".lasthop.lock")
    }
    again = plain(*words, "4", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["reused"] == 8
    table, runs = rows(Path(out) / "table.csv"), rows(Path(out) / "runs.csv")
    assert len(runs) == 8
    # With the extra, the same runs are reused, and the numbers are equal.
    assert main([*words, "4", "--quiet"]) == 0
    for old, new in zip(table, rows(Path(out) / "table.csv"), strict=True):
        assert old.keys() == new.keys()
        for key in old:
            assert old[key] == new[key] or float(old[key]) == pytest.approx(float(new[key])), key
    import polars

    stored = polars.read_parquet(Path(out) / "runs.parquet")
    assert stored["goodput_bps"].to_list() == [float(r["goodput_bps"]) for r in runs]


def test_shards_are_merged_without_the_extra(tmp_path: Path) -> None:
    words = ["sweep", *SCENARIO, *SCHEMES]
    for n in ("1", "2"):
        assert plain(*words, "--shard", f"{n}/2", "--out", n, cwd=tmp_path).returncode == 0
    done = plain("merge", "1", "2", "--out", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path / "all" / "runs.csv")) == 8
