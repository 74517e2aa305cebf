"""Scenarios of `--wifi`: downloads of several stations over one access point.

The places are typical cases and no measurements; `lasthop run --wifi … --set KEY=VALUE` changes
any value, and docs/scenario.md lists the keys of a cell. The access point behaves as one of Linux:
minstrel-ht, FQ-CoDel, equal air time for all stations, and a limit of the air time that is queued
in the device (AQL).
"""

from __future__ import annotations

from typing import Any, Final

from lasthop import quantities
from lasthop.errors import InputError

#: Kinds of cells, each with the widest channel that a flat's access point usually has.
KINDS: Final = {"802.11n": "40 MHz", "802.11ac": "80 MHz", "802.11ax": "80 MHz"}
#: Signal-to-noise ratios of the stations in turn, dB per subcarrier. Flat: the room of the access
#: point, behind one wall and behind two walls; a wall takes 8 dB. Hall: near the access point, in
#: the middle and at the back.
WALLS: Final = (35, 27, 19)
ROWS: Final = (32, 27, 22)
PLACES: Final = ("flat", "lecture-hall", "crowded")
#: What a comparison draws: the goodput of all stations together, that of the slowest one, and the
#: delay.
SHOWN: Final = ("goodput_bps", "slowest_goodput_bps", "one_way_delay_s_p95")


def scenario(kind: str, stations: int | None = None, place: str = "flat") -> dict[str, Any]:
    """The scenario of `stations` stations in a cell of `kind`, as a dictionary.

    `place`: in a "flat", stations are in the room of the access point and behind one or two walls;
    a "lecture-hall" has many stations in a channel of 20 MHz; in a "crowded" channel, two other
    networks contend with the flat's. Raises `InputError` for an unknown kind or place.
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
    ratios = ROWS if hall else WALLS
    cell: dict[str, Any] = {
        "name": "wifi",
        "members": ["ap", *names],
        "mac": kind,
        "width": "20 MHz" if hall else KINDS[kind],
        "rate_rule": "minstrel-ht",
        "snr_db": ratios[0],
        "scheduling": "airtime",
        "airtime_queue_limit": "5 ms",
        # The target of mac80211.
        "queue": {"discipline": "fq-codel", "target": "20 ms"},
        "station": [
            {"name": name, "snr_db": ratios[i % len(ratios)]} for i, name in enumerate(names)
        ],
    }
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
        "title": f"{kind}, {place}, {count} {'station' if count == 1 else 'stations'}",
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
