"""Measurement files of tests, and what `lasthop trace info` says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import validate

from lasthop.cli.main import main


def file(folder: Path, text: str, name: str = "log") -> str:
    """Write a file; returns its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def info(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    """The document that `trace info` prints, which follows its schema."""
    assert main(["trace", "info", *map(str, words), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate("trace", found)
    return found
