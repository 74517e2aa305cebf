"""Fixtures of several test modules, and the hooks for tests that are skipped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from hypothesis import HealthCheck, settings
from processes import RULES
from skipped_tests import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_setup,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
]

# Other programs may hold up any example.
settings.register_profile("lasthop", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lasthop")


# A job in the background of a shell ignores these signals, and so would the programs that tests
# stop by them.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the pages of a module; tests without it are skipped (`skipped_tests.py`)."""
    with browser.started() as found:
        yield found


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    return file
