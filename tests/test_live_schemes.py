"""Every scheme of the catalogue on real packets (`live_schemes.py`, which prints a table of it)."""

from __future__ import annotations

import live_schemes
import pytest

from lasthop import _native
from lasthop.live import link as live

REASON = live.missing()


@pytest.mark.long
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
@pytest.mark.parametrize("link", live_schemes.LINKS)
@pytest.mark.parametrize("scheme", [str(scheme["name"]) for scheme in _native.schemes()])
def test_programs_over_every_scheme(scheme: str, link: str) -> None:
    seconds, wrong = live_schemes.attempt(scheme, link)
    assert seconds, wrong
