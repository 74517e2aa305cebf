"""The front page of what developers use names each program."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "tools" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["bench", "tools"])
def test_the_page_names_all_programs_and_no_other(folder: str) -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (s for s in sections if s.startswith(f"{folder}\n"))
    named = set(re.findall(r"`([\w.]+\.(?:py|cc|h|sh|tcl|json))`", text))
    files = {f.name for f in (ROOT / folder).iterdir() if f.is_file()} - {"README.md"}
    assert named == files


def test_modules_of_fidelity_that_the_page_names_exist() -> None:
    (text,) = (s for s in PAGE.split("\n## ") if s.startswith("fidelity\n"))
    names = re.findall(r"fidelity\.(\w+)|`(\w+)` (?:has|how|the)", " ".join(text.split()))
    assert len(names) >= 6
    for name in (a or b for a, b in names):
        module = ROOT / "fidelity" / name
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), name


def test_the_page_of_speed_has_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    instructions = importlib.import_module("instructions")
    stored = json.loads(instructions.BASELINES.read_text(encoding="utf-8"))
    text = instructions.PAGE.read_text(encoding="utf-8")
    assert instructions.page(text, stored) == text
