"""Tests that need a program are skipped by name without it, and run once it is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import optional_programs
import pytest
import skipped_tests
from busy import OtherPrograms
from pages import ROOT
from processes import ended

TESTS = """
import pytest
from optional import needs

@needs("tshark")
@pytest.mark.parametrize("n", [1, 2])
def test_capture(n): pass

@needs("nft", "ip")
def test_outside(): pass

def test_page(chromium): pass

def test_plain(): pass

def test_late(): pytest.skip("undecided: 7 ms")

@pytest.fixture
def chromium(): pass
"""


def pytest_in(folder: Path, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"PATH": str(path), "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tools'}"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["-p", "xdist.plugin", "-p", "skipped_tests", "-p", "no:cacheprovider"]
    return ended([sys.executable, "-m", "pytest", *plugins, *words], cwd=folder, env=environment)


def install(folder: Path, *programs: str) -> None:
    for program in programs:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)


def test_what_is_skipped_runs_when_its_programs_are_there(tmp_path: Path) -> None:
    path, record = tmp_path / "bin", tmp_path / "skipped.jsonl"
    path.mkdir()
    (tmp_path / "test_it.py").write_text(TESTS)
    install(path, "ip")
    done = pytest_in(tmp_path, path, "--record-skipped", str(record), "--numprocesses", "2")
    assert "1 passed, 5 skipped" in done.stdout, done.stdout
    assert skipped_tests.summary(skipped_tests.read(record)).splitlines() == [
        "All tests passed, except 5 that were skipped:",
        "  1: chromium is missing (Debian package chromium): test_it.py::test_page",
        "  1: nft is missing (Debian package nftables): test_it.py::test_outside",
        "  2: tshark is missing (Debian package tshark): test_it.py::test_capture",
        "  1: undecided: 7 ms: test_it.py::test_late",
        "To run those that need a program: apt-get install chromium"
        " nftables tshark && make test-skipped",
    ]
    install(path, "nft", "chromium-browser")
    again = pytest_in(tmp_path, path, "--only-recorded", str(record))
    assert "2 passed, 2 deselected, 2 errors" in again.stdout, again.stdout
    assert "tshark is missing (Debian package tshark)" in again.stdout
    install(path, "tshark")
    done = pytest_in(tmp_path, path, "--only-recorded", str(record), "--numprocesses", "2")
    assert "4 passed" in done.stdout, done.stdout
    record.write_text("")
    assert pytest_in(tmp_path, path, "--only-recorded", str(record)).returncode == 0


def test_nothing_skipped_is_said() -> None:
    assert skipped_tests.summary([]) == "All tests passed; none was skipped."


def test_hidden_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, bare = tmp_path / "bin", tmp_path / "bare"
    programs.mkdir()
    install(programs, "nft", "google-chrome", "sh", "cc")
    monkeypatch.setenv("PATH", f"{programs}:{tmp_path / 'nowhere'}")
    assert optional_programs.path_of("chromium") == str(programs / "google-chrome")
    optional_programs.hide(bare)
    assert sorted(file.name for file in bare.iterdir()) == ["cc", "sh"]
    monkeypatch.setenv("PATH", str(bare))
    assert optional_programs.path_of("nft") is None


def test_the_page_names_the_packages() -> None:
    text = " ".join((ROOT / "docs/install.md").read_text(encoding="utf-8").split())
    packages = " ".join(optional_programs.packages(list(optional_programs.PROGRAMS)))
    assert f"apt-get install {packages}" in text


def test_a_measurement_is_undecided_only_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = OtherPrograms()
    others.decide(True, "7 ms")
    for used, outcome in ((0.5, pytest.skip.Exception), (0.0, pytest.fail.Exception)):
        monkeypatch.setattr(OtherPrograms, "processors", lambda _, used=used: used)
        with pytest.raises(outcome, match="7 ms"):
            others.decide(False, "7 ms")


def test_other_programs_do_not_include_this_one() -> None:
    others = OtherPrograms()
    begin, before = others._read()
    sum(range(5_000_000))
    end, after = others._read()
    # Ticks of 10 ms, on all processors.
    assert -0.05 <= after - before <= (end - begin) * (os.cpu_count() or 1) + 0.05


def test_records_are_read_once(tmp_path: Path) -> None:
    file = tmp_path / "skipped.jsonl"
    line = json.dumps({"test": "a", "reason": "b", "missing": []})
    file.write_text(f"{line}\n{line}\n")
    assert len(skipped_tests.read(file)) == 1
    assert skipped_tests.read(tmp_path / "none") == []


def test_tests_of_a_larger_scale_name_a_smaller_one() -> None:
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(Path(__file__).parent.glob("test_*.py"))
    }
    tests = set(re.findall(r"^def (test_\w+)\(", "\n".join(texts.values()), re.MULTILINE))
    named = [
        (name, sibling)
        for name, text in texts.items()
        for sibling in re.findall(r'mark\.more\(\s*"(\w+)"', text)
    ]
    assert [(name, sibling) for name, sibling in named if sibling not in tests] == []
    assert len(named) > 5
