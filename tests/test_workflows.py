"""What the jobs of .github/workflows install has exact versions."""

from __future__ import annotations

import re

from pages import ROOT

WORKFLOWS = {p.name: p.read_text("utf-8") for p in (ROOT / ".github/workflows").glob("*.yml")}
TOOLS = ROOT / ".github/requirements/tools.txt"


def lines(words: str) -> list[str]:
    """The command lines of all jobs that contain these words."""
    return [
        line.strip() for text in WORKFLOWS.values() for line in text.splitlines() if words in line
    ]


def test_cargo_installs_exact_versions() -> None:
    found = lines("cargo install ")
    assert len(found) >= 4
    for line in found:
        words = line.partition("cargo install ")[2].split()
        assert words[0] == "--locked", line
        assert all(re.fullmatch(r"[\w-]+@\d+\.\d+\.\d+", tool) for tool in words[1:]), line


def test_pip_installs_exact_versions_with_hashes() -> None:
    found = lines("pip install ")
    assert found
    for line in found:
        assert "--require-hashes" in line, line
        assert str(TOOLS.relative_to(ROOT)) in line, line
    entries = re.split(r"\n(?=\S)", TOOLS.read_text("utf-8").strip())
    assert all(re.match(r"[\w.-]+==\S+", e) and "--hash=sha256:" in e for e in entries)
    names = {re.match(r"[\w.-]+", entry)[0] for entry in entries}  # type: ignore[index]
    assert {"auditwheel", "maturin", "uv", "ziglang"} <= names


def test_actions_are_pinned_by_commit() -> None:
    found = lines("uses: ")
    assert found
    assert [line for line in found if not re.search(r"@[0-9a-f]{40} # v\d", line)] == []
