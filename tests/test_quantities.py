from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop import quantities
from lasthop.errors import InputError


def test_commas_inside_brackets_braces_and_quotes_do_not_split() -> None:
    assert quantities.split('a,{ x = 1, y = [2,3] },"p,q",(r,s)') == [
        "a",
        "{ x = 1, y = [2,3] }",
        '"p,q"',
        "(r,s)",
    ]
    assert quantities.split(" 1%, 2% ,,3% ") == ["1%", "2%", "3%"]


def test_numbers_have_no_exponents() -> None:
    assert [
        quantities.format_number(x) for x in (0.0, 12.344, 1234.6, 12345.6, -98765.0, 1.2e-7)
    ] == [
        "0",
        "12.34",
        "1235",
        "12350",
        "-98760",
        "1.2e-07",
    ]
    assert [quantities.format_number(x, 2) for x in (3.14, 120.4, 99.7)] == ["3.1", "120", "100"]
    assert [quantities.format_number(x) for x in (3.2e15, float("inf"))] == ["3.2e+15", "inf"]


@given(st.text())
def test_split_accepts_any_text(text: str) -> None:
    assert all(part == part.strip() and part for part in quantities.split(text))


def test_key_value_needs_both() -> None:
    assert quantities.key_value("tcp.min_rto = 1 s", "--set") == ("tcp.min_rto", "1 s")
    for wrong in ("tcp.min_rto", "=1", "k="):
        with pytest.raises(InputError, match="KEY=VALUE"):
            quantities.key_value(wrong, "--set")


@pytest.mark.parametrize(
    ("text", "base", "dimension"),
    [
        ("1%", 0.01, "share"),
        ("170 ms", 0.17, "s"),
        ("2 d", 172800, "s"),
        ("250 kbps", 250e3, "bit/s"),
        ("'2 Mbit/s'", 2e6, "bit/s"),
        ("1GiB", 2**30, "B"),
        ("20 segments", 20, "segments"),
        ("3 frames", 3, "packets"),
        ("1e3", 1000, ""),
        ("+.5", 0.5, ""),
    ],
)
def test_quantities(text: str, base: float, dimension: str) -> None:
    found = quantities.quantity(text)
    assert found is not None
    assert found.base == pytest.approx(base)
    assert found.dimension == dimension


def test_text_that_is_not_a_quantity() -> None:
    assert quantities.quantity("fast") is None
    assert quantities.quantity("3 parsecs") is None
    assert quantities.quantity("nan") is None
    assert quantities.quantity("") is None
    assert quantities.quantity("3 \udcff") is None
    with pytest.raises(InputError, match='such as "10 s"'):
        quantities.seconds("10 kbps", "window")
    with pytest.raises(InputError, match="a number"):
        quantities.number(True, "value")


def test_axis_keeps_a_common_unit_and_mixes_by_dimension() -> None:
    assert quantities.axis_values(["1%", "2%"]) == ([1.0, 2.0], "%")
    assert quantities.axis_values(["500 ms", "1 s"]) == ([0.5, 1.0], "s")
    assert quantities.axis_values(["1GiB", "64KiB"]) == ([2.0**30, 2.0**16], "B")
    assert quantities.axis_values(["2 Mbit/s", "500 kbps"]) == ([2e6, 500e3], "bit/s")
    assert quantities.axis_values(["1 s", "fast"]) is None
    assert quantities.axis_values(["1 s", "1 %"]) is None
