"""README, CONTRIBUTING and docs, for the tests of them: fenced blocks and inline code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCENARIO_PAGE = (ROOT / "docs/scenario.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks(page: Path) -> list[Block]:
    found = []
    start, kind, lines = 0, "", list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip().startswith("```"):
            lines.append(line)
        elif start:
            assert line.strip() == "```", f"{page}:{number}"
            found.append(Block(page, start, kind, "\n".join(lines) + "\n"))
            start = 0
        else:
            start, kind, lines = number, line.strip().removeprefix("```"), []
    assert not start, f"{page}:{start} has no end"
    return found


def all_of(kind: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.kind == kind]


def of(page: str, kind: str, containing: str = "") -> Block:
    (found,) = [b for b in blocks(ROOT / page) if b.kind == kind and containing in b.text]
    return found


def ids(given: list[Block]) -> list[str]:
    return [block.id for block in given]


def commands(text: str) -> list[str]:
    """The commands of a shell snippet, each in one line, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [
        " ".join(line.split("  #")[0].split())
        for line in lines
        if line.strip() and not line.startswith("#")
    ]


def inline_code(text: str) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for found in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        yield " ".join(found.split())
