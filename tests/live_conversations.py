"""Conversations of two programs over one live link (`live_cases.py`), and what they must find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from busy import PATIENCE
from live_cases import OPTIONS, WHOLE

PROGRAM = str(Path(__file__).parent / "live_cases.py")

#: What the mobile finds, whatever the ends are.
EXPECTED = {
    "download": WHOLE,
    "second_download": WHOLE,
    "upload": WHOLE,
    "both_ways": WHOLE,
    "ping_pong": True,
    "idle": ["before", "after"],
    "slow_reader": WHOLE,
    "reset": "ConnectionResetError",
    "killed": 9,
    "options": list(OPTIONS),
    "gone": None,
    "refused": "ConnectionRefusedError",
}


def converse(*words: str, v6: bool = False, **environment: str) -> tuple[Any, Any]:
    """Hold all conversations at once. Returns what the mobile has found, and the report."""
    address = "$LASTHOP_SERVER6" if v6 else "$LASTHOP_SERVER"
    link = [sys.executable, "-m", "lasthop", "link", "--bound", "10s", "--json", *words]
    link += ["--server", f"{sys.executable} {PROGRAM} serve"]
    done = subprocess.run(
        [*link, "--", sys.executable, PROGRAM, "call", address],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    found, _, report = done.stdout.partition("\n")
    return json.loads(found), json.loads(report)


def check(found: Any, report: Any, **expected: Any) -> None:
    # Whether the server has accepted the connection of the client that went away depends on times.
    abandoned = found.pop("abandoned")
    wanted = {**EXPECTED, **expected}
    assert found == wanted, {name: found[name] for name in wanted if found[name] != wanted[name]}
    assert abandoned["killed"] == "ended", abandoned
    assert abandoned.get("gone", "ended") == "ended", abandoned
    assert report["own_drops"] == 0, report["own_drop_reasons"]
