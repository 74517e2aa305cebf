"""The front page of what developers use names each program."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import marked_pages
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "tools" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["bench", "tools"])
def test_the_page_names_all_programs_and_no_other(folder: str) -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (s for s in sections if s.startswith(f"{folder}\n"))
    named = set(re.findall(r"`([\w.]+\.(?:py|cc|cpp|h|sh|tcl|json))`", text))
    files = {f.name for f in (ROOT / folder).iterdir() if f.is_file()} - {"README.md"}
    assert named == files


def test_modules_of_fidelity_that_the_page_names_exist() -> None:
    (text,) = (s for s in PAGE.split("\n## ") if s.startswith("fidelity\n"))
    names = re.findall(r"fidelity\.(\w+)|`(\w+)` (?:has|how|the)", " ".join(text.split()))
    assert len(names) >= 6
    for name in (a or b for a, b in names):
        module = ROOT / "fidelity" / name
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), name


def test_the_page_of_speed_has_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    instructions = importlib.import_module("instructions")
    stored = json.loads(instructions.BASELINES.read_text(encoding="utf-8"))
    text = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    assert instructions.page(text, stored) == text


def test_rows_of_all_links_add_up_those_of_each_kind() -> None:
    coverage = importlib.import_module("fit_coverage")

    counts = {"drawn | phone": coverage.Counts(), "arq | phone": coverage.Counts()}
    link = coverage.Link(rate_bps=8e6, rtt_s=0.04, loss=0.0, queue_packets=60)
    found = coverage.fit(coverage.measured(link, 1, "phone", 5.0))
    for each in counts.values():
        each.judge(link, found, "here")
    lines = coverage.table("links | captured at", counts).splitlines()
    each, total = (
        [
            int(n)
            for line in lines
            if line.startswith(f"| {name} |")
            for n in re.findall(r"\d+", line)
        ]
        for name in ("drawn", "all")
    )
    assert [2 * n for n in each] == total
    assert each


def test_a_bench_writes_its_times_into_the_page_of_speed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    speed_page, speed = map(importlib.import_module, ("speed_page", "speed"))
    text = speed_page.PAGE.read_text(encoding="utf-8")
    before = marked_pages.written(text, "bench")
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in before.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    programs = [cell.removesuffix(", ns per packet") for cell in head[1:] if cell != "ratio"]
    assert programs[:2] == ["lasthop", "ns-2"]
    assert [name for name, *_ in rows] == [case.name for case in speed.CASES]
    # The table of the page is one that a bench writes.
    conditions = re.search(r"Commit (\w+), .* (\d+) processors .* best of (\d+) runs:", before)
    assert conditions is not None
    commit, processors, runs = conditions.groups()
    stored = speed_page.Bench(commit, int(processors), 0.0, int(runs))
    if match := re.search(r"beside a load of ([\d.]+)", before):
        stored = replace(stored, load=float(match[1]))
    times = {
        name: dict(zip(programs, (float(t.replace(",", "")) for t in [ours, *each]), strict=True))
        for name, ours, *others in rows
        for each in [others[::2]]
    }
    again = speed_page.beside_others(text, stored, times)
    written = marked_pages.written(again, "bench")
    ratio = r"\| \d+\.\d \|"
    assert re.sub(ratio, "", written) == re.sub(ratio, "", before)
    # A run of the bench replaces it, and nothing else.
    file = tmp_path / "speed.md"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(speed_page, "PAGE", file)
    speed.record_others(3, 1.25, {"one flow": {"lasthop": 40.0, "ns-2": 1000.0, "htsim": 300.0}})
    new = file.read_text(encoding="utf-8")
    assert "| one flow | 40 | 1,000 | 25.0 | 300 | 7.5 |\n" in new
    assert "beside a load of 1.2, best of 3 runs:" in new
    assert marked_pages.replaced(new, "bench", before) == text
    times = {
        "headline": speed_page.Times(40.0, (1.0, 1.0), 800.0),
        "default, cubic": speed_page.Times(100.0, (2.4, 2.75)),
    }
    speed.record_default(3, 0.0, times)
    new = file.read_text(encoding="utf-8")
    assert "| headline | 40 | 1.0 |  |  | 800 | 20.0 |\n" in new
    assert "| default, cubic | 100 | 2.5 | [2.4, 2.8] | 2.5 |  |  |\n" in new
    assert "`make build-release` (no PGO), " in marked_pages.written(new, "default profile")
    speed.record_default(3, 0.0, times, pgo=True)
    new = file.read_text(encoding="utf-8")
    assert "`make build-pgo`, " in marked_pages.written(new, "default profile, PGO")


def test_a_bench_counts_the_shortest_times_of_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    speed = importlib.import_module("speed")
    spent = iter([0.5, 1.5, 0.1, 1.4, 0.2, 2.2])
    rounds, headline = speed.Rounds(), speed.Rounds()
    for _ in range(3):
        rounds.add(lambda _case, seconds, _: (next(spent), 10 * seconds), None, 1, "")
        headline.add(lambda _case, seconds, _: (0.1 * seconds, 20 * seconds), None, 1, "")
    # Not the shortest difference, 1.0 s, which has a long start.
    assert rounds.best() == pytest.approx(1e9 * (1.4 - 0.1) / 90)
    assert headline.best() == pytest.approx(1e9 * 0.9 / 180)
    assert rounds.ratios(headline) == pytest.approx((2 * 1.0 / 0.9, 2 * 2.0 / 0.9))
