"""BBRv3 beside real Linux: a part of fidelity.bbr3 that takes seconds."""

from __future__ import annotations

import pytest

from fidelity import bbr3

SEEDS = 19
SINGLE = {bbr3.key(c): c for c in bbr3.cells("single")}
SPLIT = {bbr3.key(c): c for c in bbr3.cells("split")}


@pytest.mark.parametrize(
    "name", ["40-0-10", "40-1-10", "40-2-10", "40-3-10", "40-4-10", "1-2-10", "1-3-50"]
)
def test_with_offload_a_cell_agrees_with_linux(name: str) -> None:
    cell = SINGLE[name]
    assert cell.ours(SEEDS, offload=True) == pytest.approx(cell.theirs, rel=0.1)


# 12.24 for 10.39 with 999 seeds; the cause is not known.
FAR = pytest.param("40-4-50", marks=pytest.mark.xfail(reason="18 % above Linux", strict=True))


@pytest.mark.more("test_with_offload_a_cell_agrees_with_linux")
@pytest.mark.parametrize("name", ["40-3-50", FAR])
def test_with_offload_a_cell_of_high_loss_agrees_with_linux(name: str) -> None:
    cell = SINGLE[name]
    # Runs of these cells differ by a factor of ten.
    assert cell.ours(199, offload=True) == pytest.approx(cell.theirs, rel=0.1)


WORST = pytest.param("40-4-50", marks=pytest.mark.more("test_loss_by_segment_is_far_below_linux"))


@pytest.mark.parametrize("name", ["40-3-50", WORST])
def test_loss_by_segment_is_far_below_linux(name: str) -> None:
    cell = SINGLE[name]
    # Their medians are at 6.7 and 1.6 with 999 seeds, and at twice that with 19.
    by_frame = cell.ours(99, offload=False)
    assert by_frame < 0.5 * cell.theirs
    assert cell.ours(SEEDS, offload=True) > 2 * by_frame


@pytest.mark.parametrize("name", ["1-0-10-80-0-50", "1-2-10-80-2-10", "40-1-10-40-3-10"])
def test_with_offload_a_split_cell_agrees_with_linux(name: str) -> None:
    cell = SPLIT[name]
    assert 'role = "base-station"' in bbr3.scenario_text(cell, offload=True)
    assert cell.ours(SEEDS, offload=True) == pytest.approx(cell.theirs, rel=0.15)
