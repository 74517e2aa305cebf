"""Commands that run in the process of a test, and what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import validate

from lasthop.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path, status: int = 0) -> str:
    """What a command prints to stdout, or to stderr if it is to end with another status."""
    assert main(list(map(str, words))) == status
    captured = capsys.readouterr()
    return captured.err if status else captured.out


def document(capsys: pytest.CaptureFixture[str], command: str, *words: str | Path) -> Any:
    """The JSON that a command prints, which follows its schema."""
    found = json.loads(printed(capsys, command, *words, "--json"))
    validate(command, found)
    return found
