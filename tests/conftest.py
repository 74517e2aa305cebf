"""Fixtures of several test modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from processes import RULES


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the pages of a module."""
    with browser.started() as found:
        yield found


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    return file
