"""Packages that a few tests need."""

from __future__ import annotations

import importlib.util
import os

import pytest


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skips a test without these packages; in CI it fails there."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return pytest.mark.skipif(
        bool(missing) and "CI" not in os.environ, reason=f"not installed: {', '.join(missing)}"
    )
