"""Scenarios of `--wifi`: downloads of several stations over one access point.

The places are typical cases and no measurements; `lasthop run --wifi … --set KEY=VALUE` changes
any value, and docs/scenario.md lists the keys of a cell.
"""

from __future__ import annotations

from typing import Any, Final

from lasthop import quantities
from lasthop.errors import InputError

#: Kinds of cells, each with the widest channel that a flat's access point usually has.
KINDS: Final = {"802.11n": "40 MHz", "802.11ac": "80 MHz", "802.11ax": "80 MHz"}
#: MCS of the stations in turn: the same room, behind one wall, behind two walls.
WALLS: Final = (7, 5, 2)
PLACES: Final = ("flat", "lecture-hall", "crowded")


def scenario(kind: str, stations: int | None = None, place: str = "flat") -> dict[str, Any]:
    """The scenario of `stations` stations in a cell of `kind`, as a dictionary.

    `place`: in a "flat", stations are in the room of the access point and behind one or two walls;
    a "lecture-hall" has many stations, all alike, in a channel of 20 MHz; in a "crowded" channel,
    two other networks contend with the flat's. Raises `InputError` for an unknown kind or place.
    """
    if kind not in KINDS:
        raise InputError(f"--wifi {kind}: choose from {', '.join(KINDS)}")
    if place not in PLACES:
        raise InputError(f"--place {place}: choose from {', '.join(PLACES)}")
    hall = place == "lecture-hall"
    count = quantities.whole_number(
        (20 if hall else 5) if stations is None else stations, "--stations", 1
    )
    names = [f"sta{i + 1}" for i in range(count)]
    cell: dict[str, Any] = {
        "name": "wifi",
        "members": ["ap", *names],
        "mac": kind,
        "width": "20 MHz" if hall else KINDS[kind],
        "mcs": 4 if hall else WALLS[0],
        # Of each MPDU: what rate adaptation leaves.
        "loss": "5 %",
        # As the access points of Linux: a queue per station, and equal air time.
        "scheduling": "airtime",
        "queue": "fq-codel",
    }
    if not hall:
        walls = zip(names, (WALLS[i % len(WALLS)] for i in range(count)), strict=True)
        cell["station"] = [{"name": name, "mcs": mcs} for name, mcs in walls]
    flows: list[dict[str, Any]] = [
        {"name": f"download {name}", "from": "server", "to": name, "app": "bulk"} for name in names
    ]
    if place == "crowded":
        cell["members"] += ["other-ap1", "other1", "other-ap2", "other2"]
        flows += [
            {"name": f"other {i}", "from": f"other-ap{i}", "to": f"other{i}", "app": OTHER}
            for i in (1, 2)
        ]
    return {
        "title": f"{kind}, {place}, {count} stations",
        "duration": "20 s",
        "node": [
            {"name": "server", "role": "server"},
            {"name": "ap", "role": "base-station"},
        ],
        "link": [
            {
                "name": "line",
                "between": ["server", "ap"],
                "rate": "1 Gbps",
                "delay": "10 ms",
                "queue": "1000 packets",
            }
        ],
        "cell": [cell],
        "flow": flows,
    }


#: What each of the other networks sends in a crowded channel.
OTHER: Final = {"kind": "cbr", "rate": "20 Mbps"}
