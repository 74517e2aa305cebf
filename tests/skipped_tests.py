"""Hooks of pytest for tests that are skipped: for a missing program, and what the last lines of
`make test` say about all of them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from optional import reason
from optional_programs import packages, path_of

#: Names of tests of one reason that are printed; the record has all.
SHOWN = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tests that need optional programs")
    group.addoption(
        "--record-skipped", metavar="FILE", help="append the skipped tests to FILE, as JSON lines"
    )
    group.addoption(
        "--only-recorded",
        metavar="FILE",
        help="run only the tests that FILE records as skipped for a missing program; they fail"
        " if it is still missing",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*programs): skipped without these programs")


def programs_of(item: pytest.Item) -> list[str]:
    """The optional programs that a test needs, by its marks and fixtures."""
    found = {p: None for mark in item.iter_markers("needs") for p in mark.args}
    if "chromium" in getattr(item, "fixturenames", ()):
        found["chromium"] = None
    return list(found)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    file = config.getoption("only_recorded")
    if file is None:
        return
    wanted = {entry["test"] for entry in read(Path(file)) if entry["missing"]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
    items[:] = [item for item in items if item.nodeid in wanted]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # A file of tests of which none was skipped.
    if (
        session.config.getoption("only_recorded")
        and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    ):
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = [program for program in programs_of(item) if path_of(program) is None]
    if missing:
        item.user_properties.append(("missing", missing))
        give_up = pytest.fail if item.config.getoption("only_recorded") else pytest.skip
        give_up(reason(missing))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    file = config.getoption("record_skipped")
    if file is None:
        return
    with Path(file).open("a", encoding="utf-8") as out:
        for report in terminalreporter.stats.get("skipped", []):
            missing = dict(getattr(report, "user_properties", ())).get("missing", [])
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            why = str(text).removeprefix("Skipped: ")
            entry = {"test": report.nodeid, "reason": why, "missing": missing}
            print(json.dumps(entry), file=out)


def read(file: Path) -> list[dict[str, Any]]:
    """The records of a file, without those that several processes have written."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in dict.fromkeys(lines)]


def summary(entries: list[dict[str, Any]]) -> str:
    """What was skipped and why, and what to install."""
    if not entries:
        return "All tests passed; none was skipped."
    by_reason = defaultdict[str, list[str]](list)
    for entry in entries:
        by_reason[entry["reason"]].append(entry["test"].partition("[")[0])
    lines = [f"All tests passed, except {len(entries)} that were skipped:"]
    for why, tests in sorted(by_reason.items()):
        names = list(dict.fromkeys(tests))
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"  {len(tests)}: {why}: {', '.join(names[:SHOWN])}{more}")
    missing = sorted({program for entry in entries for program in entry["missing"]})
    if missing:
        install = f"apt-get install {' '.join(packages(missing))}"
        lines.append(f"To run those that need a program: {install} && make test-skipped")
    return "\n".join(lines)


if __name__ == "__main__":
    print(summary(read(Path(sys.argv[1]))))
