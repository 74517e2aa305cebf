"""BBRv3 beside real Linux: a part of fidelity.bbr3 that takes seconds."""

from __future__ import annotations

import pytest

from fidelity import bbr3, bbr3_page

SEEDS = 19
SINGLE = {bbr3.key(c): c for c in bbr3.cells("single")}
SPLIT = {bbr3.key(c): c for c in bbr3.cells("split")}


@pytest.mark.parametrize(
    "name", ["40-0-10", "40-1-10", "40-2-10", "40-3-10", "40-4-10", "1-2-10", "1-3-50"]
)
def test_with_offload_a_cell_agrees_with_linux(name: str) -> None:
    cell = SINGLE[name]
    assert cell.ours(SEEDS, offload=True) == pytest.approx(cell.theirs, rel=0.1)


@pytest.mark.more("test_with_offload_a_cell_agrees_with_linux")
def test_with_offload_a_cell_of_high_loss_agrees_with_linux() -> None:
    cell = SINGLE["40-3-50"]
    # Its runs differ by a factor of ten.
    assert cell.ours(199, offload=True) == pytest.approx(cell.theirs, rel=0.1)


PARTIAL = ["40-4-50", "80-2-50", "80-3-50", "80-4-50"]


@pytest.mark.parametrize(
    "name",
    [
        PARTIAL[0],
        *(
            pytest.param(
                name,
                marks=pytest.mark.more(
                    "test_the_median_of_few_transfers_is_one_of_as_many_simulated_ones"
                ),
            )
            for name in PARTIAL[1:]
        ),
    ],
)
def test_the_median_of_few_transfers_is_one_of_as_many_simulated_ones(name: str) -> None:
    cell = SINGLE[name]
    assert cell.completed < bbr3.TRIALS
    low, high = cell.interval(cell.goodputs(49, offload=True))
    assert low <= cell.theirs <= high


def test_the_interval_of_a_median_leaves_late_transfers_out() -> None:
    leg = bbr3.Leg(80, 4, 50)
    # 62.5 MB take 180 s at 2.78 Mbit/s: of these 100 transfers 73 are in time.
    goodputs = [0.1 * i for i in range(1, 101)]
    cell = bbr3.Cell((leg,), 5.0, 7)
    assert min(cell.in_time(goodputs)) == pytest.approx(2.8)
    # The median of seven is below the share 0.184 of all with 2.5 % of probability (beta 4, 4).
    low, high = cell.interval(goodputs)
    assert (low, high) == pytest.approx((2.8 + 0.1 * 13, 2.8 + 0.1 * 59))
    exact = bbr3.Cell((leg,), 5.0, 399)
    low, high = exact.interval(goodputs)
    assert 5.9 < low < 6.4 < high < 6.9


@pytest.mark.more("test_with_offload_a_cell_agrees_with_linux")
@pytest.mark.parametrize("name", ["40-3-50", "40-4-50"])
def test_loss_by_segment_is_far_below_linux(name: str) -> None:
    cell = SINGLE[name]
    # Their medians are at 8.4 and 1.8 with 79 seeds.
    by_frame = cell.ours(99, offload=False)
    assert by_frame < 0.5 * cell.theirs
    assert cell.ours(SEEDS, offload=True) > 2 * by_frame


@pytest.mark.parametrize("name", ["1-0-10-80-0-50", "1-2-10-80-2-10", "40-1-10-40-3-10"])
def test_with_offload_a_split_cell_agrees_with_linux(name: str) -> None:
    cell = SPLIT[name]
    assert 'role = "base-station"' in bbr3.scenario_text(cell, offload=True)
    assert cell.ours(SEEDS, offload=True) == pytest.approx(cell.theirs, rel=0.15)


def test_the_page_says_which_cells_agree() -> None:
    whole, late = SINGLE["40-1-10"], SINGLE["80-4-50"]
    goodputs = [0.1 * i for i in range(1, 101)]
    near = bbr3.Result(whole, [whole.theirs * 1.04] * 3, [8.27] * 3, 0.1)
    far = bbr3.Result(whole, [whole.theirs * 1.2] * 3, [8.27] * 3, 0.1)
    part = bbr3.Result(late, goodputs, goodputs, 0.1)
    split = bbr3.Result(SPLIT["1-2-10-80-2-10"], [1.0], None, 0.15)
    text = "\n".join(bbr3_page.page([near, far, part], [split]))
    assert "Of 2 cells that the source measured completely, 1 are within 10 % of" in text
    assert f"| 40 ms, 1 %, 10 | {whole.theirs:.2f} | 8.41 | +4.0 % | 8.27 |\n" in text
    # The source's seven of ten are above all that are simulated.
    assert "0 of 1 medians are inside." in text
    assert f"| 80 ms, 4 %, 50 | {late.theirs:.2f} of 7 | 4.1 to 8.7 | 3 of 10 | 27 % |\n" in text
    assert "0 are within 15 % of Linux." in " ".join(text.split())
