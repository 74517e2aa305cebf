"""BBRv3 beside real Linux: a part of tools/bbr3_tables.py that takes seconds."""

from __future__ import annotations

import bbr3_tables
import pytest

SEEDS = 9
SINGLE = {(c.legs[0].delay, c.legs[0].loss, c.legs[0].rate): c for c in bbr3_tables.cells("single")}


@pytest.mark.parametrize("legs", [(1, 2, 10), (40, 0, 10), (40, 1, 10), (40, 2, 10)])
def test_up_to_two_per_cent_of_loss_by_frame_agrees_with_linux(legs: tuple[float, float, float]) -> None:
    cell = SINGLE[legs]
    assert cell.ours(SEEDS, bursts=False) == pytest.approx(cell.theirs, rel=0.1)


def test_frames_of_several_segments_are_what_parts_loss_by_frame_from_linux() -> None:
    cell = SINGLE[40, 3, 50]
    assert cell.ours(19, bursts=False, aggregate=3) == pytest.approx(cell.theirs, rel=0.1)
    assert cell.ours(19, bursts=False) < 0.7 * cell.theirs


@pytest.mark.parametrize("loss", [1, 2, 3, 4])
def test_a_short_round_trip_agrees_with_linux_by_frame(loss: float) -> None:
    cell = SINGLE[1, loss, 50]
    assert cell.ours(SEEDS, bursts=False) == pytest.approx(cell.theirs, rel=0.1)


def test_split_cells_have_two_legs_and_a_proxy() -> None:
    cells = bbr3_tables.cells("split")
    assert all(len(c.legs) == 2 for c in cells)
    assert 'role = "base-station"' in bbr3_tables.scenario_text(cells[0], bursts=False)
    assert cells[0].size == 12_500_000
    assert cells[0].ours(1, bursts=False) == pytest.approx(cells[0].theirs, rel=0.15)
