"""What a few tests need and a machine may lack: programs and Python packages."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable

import pytest
from optional_programs import PROGRAMS


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test without these programs (`optional_programs.PROGRAMS`), naming them."""
    assert set(programs) <= PROGRAMS.keys(), programs
    return pytest.mark.needs(*programs)


def needs_those_in(text: str) -> list[pytest.MarkDecorator]:
    """The mark of a test that runs a shell text: the optional programs among its words."""
    found = [p for p in PROGRAMS if re.search(rf"(?<![\w./-]){p}(?![\w./-])", text)]
    return [needs(*found)] if found else []


def reason(programs: Iterable[str]) -> str:
    """Why a test without these programs is skipped."""
    return ", ".join(f"{p} is missing (Debian package {PROGRAMS[p][0]})" for p in programs)


def needs_packages(*packages: str) -> pytest.MarkDecorator:
    """Skips a test without these Python packages, which `make` installs; in CI it fails there."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return pytest.mark.skipif(
        bool(missing) and "CI" not in os.environ, reason=f"not installed: {', '.join(missing)}"
    )
