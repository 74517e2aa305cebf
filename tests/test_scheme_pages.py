from __future__ import annotations

from pathlib import Path

import pytest
import scheme_pages

from lasthop import catalogue

ENTRIES = {e["name"]: e for e in catalogue.entries()}


@pytest.mark.parametrize("name", list(ENTRIES))
def test_every_scheme_has_a_page_that_is_up_to_date(name: str) -> None:
    file = scheme_pages.FOLDER / f"{name}.md"
    assert file.exists(), f"docs/schemes/{name}.md is missing: `make docs`"
    assert file.read_text(encoding="utf-8") == scheme_pages.page(ENTRIES[name]), (
        f"docs/schemes/{name}.md is old: `make docs`"
    )
    assert file.with_suffix(".svg").stat().st_size < 60_000


def test_the_index_is_up_to_date_and_nothing_else_is_there() -> None:
    assert (scheme_pages.FOLDER / "README.md").read_text(encoding="utf-8") == scheme_pages.index(
        list(ENTRIES.values())
    ), "`make docs`"
    assert {p.stem for p in scheme_pages.FOLDER.iterdir()} == {"README", *ENTRIES}


def test_a_page_has_all_settings_with_their_defaults() -> None:
    """Independent of how the page is made."""
    text = (scheme_pages.FOLDER / "packet-control.md").read_text(encoding="utf-8")
    for setting in ENTRIES["packet-control"]["settings"]:
        line = next(x for x in text.splitlines() if x.startswith(f"| `{setting['name']}` |"))
        assert f"`{catalogue.toml(setting['default'])}`" in line
        assert setting["doc"].replace("|", "\\|") in line


def test_links_of_a_page_have_targets() -> None:
    import re

    for file in scheme_pages.FOLDER.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


def test_the_head_of_a_rust_file_as_markdown(tmp_path: Path) -> None:
    file = tmp_path / "x.rs"
    file.write_text(
        "//! X: a thing.\n//!\n//! Source: RFC 1. Wire: nothing. See [`Window`].\n//!\n//! #"
        " Rules\n\nuse y;\n//! not this\n",
        encoding="utf-8",
    )
    assert (
        scheme_pages.head(file)
        == "X: a thing.\n\n**Source:** RFC 1. **Wire:** nothing. See `Window`.\n\n## Rules"
    )
