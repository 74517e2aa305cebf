"""TCP in cells of 802.11n beside runs of ns-3 (docs/wifi-beside-ns3.md): the cheap cells."""

from __future__ import annotations

import pytest

from fidelity import wifi
from fidelity.references import Row

CHEAP = [rows for rows in wifi.cells() if int(rows[0]["stations"]) <= 5]


def name(rows: list[Row]) -> str:
    """The settings of a cell."""
    return "-".join(rows[0][key] for key in wifi.KEYS)


@pytest.mark.parametrize("rows", CHEAP, ids=name)
def test_goodput_is_that_of_ns3(rows: list[Row]) -> None:
    total, _ = wifi.beside(rows, 16)
    assert abs(total.relative) < 0.03 or total.agrees(0.03), total
