"""Fixtures of several test modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import RULES


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    return file
