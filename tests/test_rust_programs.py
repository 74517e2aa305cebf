"""Tests in Rust that need programs, which cargo cannot skip by name: cargo ignores them, and they
are run one at a time from here.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import pytest
from optional import needs
from optional_programs import PROGRAMS
from pages import ROOT

IGNORED = re.compile(r'#\[ignore = "needs ([^"]+)"\]\n(?:async )?fn (\w+)')


def ignored_tests() -> list[Any]:
    """Target of cargo, test, and what it needs besides programs."""
    found = []
    for file in sorted((ROOT / "crates").glob("*/tests/**/*.rs")):
        parts = file.relative_to(ROOT / "crates").parts
        target = parts[2].removesuffix(".rs")
        for wanted, name in IGNORED.findall(file.read_text(encoding="utf-8")):
            words = wanted.split(", ")
            programs = [word for word in words if word in PROGRAMS]
            # Namespaces and scripts take long.
            marks = [needs(*programs)] if programs else []
            marks += [pytest.mark.long] if programs != words else []
            more = [word for word in words if word not in PROGRAMS]
            found.append(pytest.param(target, name, more, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("target", "name", "more"), ignored_tests())
def test_in_rust(target: str, name: str, more: list[str]) -> None:
    if "root" in more and os.geteuid() != 0:
        pytest.skip("needs root")
    if "LASTHOP_PACKETDRILL" in more and "LASTHOP_PACKETDRILL" not in os.environ:
        pytest.skip("LASTHOP_PACKETDRILL does not name a folder of packetdrill's scripts")
    assert {*more} <= {"root", "LASTHOP_PACKETDRILL"}
    # As `make` compiles them: nothing is compiled again.
    profile = os.environ.get("LASTHOP_TEST_PROFILE", "local")
    words = ["cargo", "test", "--workspace", "--profile", profile, "--test", target]
    done = subprocess.run(
        [*words, "--", "--ignored", name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.long
def test_foreign_stacks_over_simulated_links() -> None:
    folder = ROOT / "examples/foreign-stacks"
    fetch = ["cargo", "fetch", "--locked", "--quiet"]
    if subprocess.run(fetch, cwd=folder, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the crates of examples/foreign-stacks")
    done = subprocess.run(
        ["make", "test-stacks"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_long_tests_in_rust_leave_these_out() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    skipped = re.findall(r"--skip (\w+)", makefile)
    names = [test.id for test in ignored_tests()]
    assert len(names) >= 4
    assert all(any(part in name for part in skipped) for name in names)
