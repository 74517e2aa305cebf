"""`unsafe` is in one crate, and each file that has it says what for."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

#: The crate that calls the kernel where the standard library does not.
CRATE = "lasthop-live"
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)|\bunsafe\(")
REASON = re.compile(r'^#!\[allow\(\s*unsafe_code,\s*reason = "[^"]+"\s*,?\s*\)\]', re.MULTILINE)


def code(text: str) -> str:
    """A Rust file without its comments and strings."""
    return re.sub(r'//[^\n]*|"(?:[^"\\]|\\.)*"', "", text)


def test_unsafe_code_is_in_one_crate_with_a_reason() -> None:
    files = [f for folder in ("crates", "fuzz") for f in (ROOT / folder).rglob("*.rs")]
    files = [f for f in files if "target" not in f.relative_to(ROOT).parts]
    texts = {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files}
    found = {name for name, text in texts.items() if UNSAFE.search(code(text))}
    assert found
    assert {name for name in found if not name.startswith(f"crates/{CRATE}/src/")} == set()
    assert {name for name in found if not REASON.search(texts[name])} == set()
    # An exception for a file that has no such code is out of date.
    assert {name for name, text in texts.items() if REASON.search(text)} == found


def test_the_compiler_refuses_it_elsewhere() -> None:
    workspace = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    assert 'unsafe_code = "deny"' in workspace
    for file in (ROOT / "crates").glob("*/Cargo.toml"):
        assert "[lints]\nworkspace = true" in file.read_text(encoding="utf-8"), file


def test_the_page_about_security_names_the_crate() -> None:
    assert f"One crate, `{CRATE}`, has `unsafe`" in (ROOT / "SECURITY.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("let x = unsafe { f() };", True),
        ("unsafe fn f() {}", True),
        ("#[unsafe(no_mangle)]", True),
        ("// unsafe { }", False),
        ('let x = "unsafe { }";', False),
        ("entry.unsafe_.map(f)", False),
    ],
)
def test_unsafe_code_is_found(text: str, has: bool) -> None:
    assert bool(UNSAFE.search(code(text))) == has
