"""`lasthop inspect` of stations that share a cell."""

from __future__ import annotations

import lasthop


def test_links_of_a_cell_that_carry_nothing_do_not_rename_others() -> None:
    cell = {
        "duration": 1,
        "node": [{"name": "ap", "role": "base-station"}],
        "cell": [{"members": ["ap", "silent", "phone"], "mac": "802.11b"}],
        "flow": [
            {"from": "ap", "to": "silent", "app": {"kind": "cbr", "rate": 1e5}},
            {"name": "data", "from": "phone", "to": "ap", "app": "bulk"},
        ],
    }
    found = lasthop.run(cell).inspect("data")
    assert found.subjects[0].path == ["phone>ap"]
    assert found.html
