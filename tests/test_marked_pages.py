"""Measured figures of the docs stand in blocks that a command writes."""

from __future__ import annotations

import re
from pathlib import Path

import marked_pages
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(page, *match.groups(), id=f"{page.stem}: {match[1]}")
    for page in PAGES
    for match in marked_pages.BEGIN.finditer(page.read_text(encoding="utf-8"))
]
SOURCES = {
    str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
    for folder in ("bench", "fidelity", "tools")
    for file in sorted((ROOT / folder).rglob("*.py"))
}


def _runs(command: str) -> str:
    """What a command runs: itself, or the recipe of a target of make."""
    if not command.startswith("make "):
        return command
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = command.split()[1]
    return "\n".join(re.findall(rf"^{target}:[^\n]*\n((?:\t.*\n)+)", recipes, re.MULTILINE))


@pytest.mark.parametrize(("page", "name", "command"), BLOCKS)
def test_a_block_has_what_its_command_writes(page: Path, name: str, command: str) -> None:
    text = page.read_text(encoding="utf-8")
    written = marked_pages.written(text, name)
    assert "| ---" in written, "a block is a table"
    assert marked_pages.replaced(text, name, written) == text
    assert "| new |" in marked_pages.replaced(text, name, "| new |")
    # The command runs a program that has the name of the block, or whose page does.
    programs = re.findall(r"(?:tools|bench)/\w+\.py|-m fidelity[.\w]*", _runs(command))
    paths = [p.removesuffix(".py").removeprefix("-m ").replace(".", "/") for p in programs]
    writers = [f for f, source in SOURCES.items() if f'"{name}"' in source]
    assert [f for f in writers if any(f.startswith(path) for path in paths)], command


def test_comments_of_pages_are_those_of_blocks() -> None:
    for page in PAGES:
        for comment in re.findall(r"<!--.*?-->", page.read_text(encoding="utf-8"), re.DOTALL):
            is_end = re.fullmatch(r"<!-- end of [^>]+ -->", comment)
            assert is_end or marked_pages.BEGIN.fullmatch(comment), page.name


@pytest.mark.parametrize("wrong", ["", "<!-- end of a -->\n{begin}", "{begin}\n", "{begin}\n" * 2])
def test_a_page_without_one_whole_block_is_refused(wrong: str) -> None:
    page = wrong.format(begin="<!-- a: made by `make a`; do not edit -->")
    with pytest.raises(SystemExit, match="must have one block a"):
        marked_pages.replaced(page, "a", "")


#: A mean with its interval or its number of samples, or a share of runs.
MEASURED = re.compile(r"\d \[[+−-]?[\d.]+, [+−-]?[\d.]+\]|\bn = \d{2}|\d ± \d|\(\d+ of \d+\)")
#: What says how it was measured: a command, a test, or the commit or version.
SOURCE = re.compile(r"(make|python|lasthop|cargo) [\w./-]|tests/\w|tools/\w|commit \w|version \d")


#: The page all of whose figures come from one command, which it names once.
OF_ONE_COMMAND = {"twenty-years-on": "python tools/twenty_years.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_measured_figure_in_prose_stands_beside_its_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "Made by" in text[:500] or page.parent.name == "schemes":
        return
    if command := OF_ONE_COMMAND.get(page.stem):
        assert command in text
        return
    text = re.sub(r"<!-- [^>]+: made by .*?<!-- end of [^>]+-->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for section in re.split(r"^#+ .*$", text, flags=re.MULTILINE):
        if not SOURCE.search(section):
            assert not MEASURED.search(section), section.strip()[:300]
