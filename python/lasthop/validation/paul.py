"""The reference results of ns-2.35 for the network of paul2005: one flow over a last hop with
losses in bursts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from lasthop import _native
from lasthop.validation.agreement import CORES, Cell, Table, cell
from lasthop.validation.ns2 import SCHEMES, rows

NETWORK = """
duration = "100 s"
[[link]]
between = ["s", "r1"]
rate = "{wired} Mbps"
delay = "1 ms"
queue = "49 packets"
[[link]]
between = ["u", "r1"]
rate = "{wired} Mbps"
delay = "1 ms"
queue = "49 packets"
[[link]]
between = ["r1", "bs"]
rate = "{wired} Mbps"
delay = "1 ms"
queue = "49 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "1 Mbps"
delay = "5 ms"
queue = "49 packets"
{loss}
[[flow]]
from = "s"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
{udp}
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
min_rto = "{min_rto}"
"""

#: 512 kbit/s of packets of 1000 bytes: ns-2 counts no header on top of a datagram.
UDP = """
[[flow]]
from = "u"
to = "{to}"
app = {{ kind = "cbr", rate = "491.52 kbps" }}
segment = "960 B"
headers = "40 B"
"""

#: The losses of the radio by the names of the reference.
MODELS = {
    "none": "no loss",
    "uniform": "1 % uniform",
    "uniform 5.5 %": "5.5 % uniform",
    "markov": "chain per packet",
    "mtime": "chain per 8.32 ms",
}
CHAIN = (
    '{{ model = "markov", good_to_good = 0.9913, bad_to_bad = 0.8509, clock = "{clock}", slot ='
    ' "8.32 ms" }}'
)
LOSS = {
    "none": "",
    "uniform": '{ model = "uniform", rate = "1 %", index = "frame" }',
    "uniform 5.5 %": '{ model = "uniform", rate = 0.055133, index = "frame" }',
    "markov": CHAIN.format(clock="frame"),
    "mtime": CHAIN.format(clock="slot"),
}

#: What the columns of the last rows of paul.csv do not say (the README beside it does), by number
#: from 0.
ODD = {28: ("uniform 5.5 %", "200 ms"), 30: ("markov", "1 s")}

ABOUT = (
    "One endless flow for 100 s over the slides' network, alone or beside 512 kbit/s of UDP that"
    " ends at the base station (`bs`) or crosses the radio (`mh`)."
)


def scenario(row: dict[str, str], number: int) -> tuple[str, str]:
    """The scenario of a row and its name; `number` counts the rows of paul.csv, and is -1 for
    those of the other table.
    """
    model, min_rto = ODD.get(number, (row["loss_model"], "200 ms"))
    loss = (
        LOSS[model] and f"{'' if row['both_directions'] == '1' else 'forward.'}loss = {LOSS[model]}"
    )
    udp = "" if row["udp"] == "none" else UDP.format(to=row["udp"])
    scheme, wired = SCHEMES[row["variant"]], row["wired_rate"].removesuffix("Mb")
    name = f"{scheme}, {wired} Mbit/s, UDP {row['udp']}, {MODELS[model]}"
    name += ", both directions" * int(row["both_directions"]) + f", window {row['window']}" * (
        row["window"] != "20"
    )
    name += f", min RTO {min_rto}" * (min_rto != "200 ms")
    return (
        NETWORK.format(
            wired=wired, loss=loss, udp=udp, scheme=scheme, window=row["window"], min_rto=min_rto
        ),
        name,
    )


def frozen(row: dict[str, str]) -> bool:
    """The chain moves with packets, and no other traffic moves it while the flow waits for its
    timer.
    """
    return row["loss_model"] == "markov" and row["udp"] != "mh"


def frozen_rows() -> Iterator[tuple[int, dict[str, str]]]:
    return ((number, row) for number, row in enumerate(rows("paul.csv")) if frozen(row))


def min_rto_of(number: int) -> float:
    """The smallest timeout of a row of paul.csv in seconds."""
    return 1.0 if ODD.get(number, ("", ""))[1] == "1 s" else 0.2


def drawn(name: str, about: str, seeds: int, keep: Callable[[dict[str, str]], bool]) -> Table:
    cells = []
    for number, row in enumerate(rows(name)):
        if keep(row):
            text, label = scenario(row, number if name == "paul.csv" else -1)
            cells.append(
                cell(
                    label,
                    SCHEMES[row["variant"]],
                    row,
                    "goodput_bps_mean",
                    text,
                    seeds,
                    float(row["ci95_half"]),
                )
            )
    return Table(f"`{name}`", about, cells, kind="ns-2 bursts")


def common_chains() -> Table:
    """Both simulators lose the same packets by ordinal: the spread of the differences is what
    counts.
    """
    theirs: dict[int, list[dict[str, str]]] = {}
    for line in rows("paul_chains.csv"):
        theirs.setdefault(int(line["row"]), []).append(line)
    cells = []
    for number, row in frozen_rows():
        text, label = scenario(row, number)
        lines = theirs[number]
        native = _native.Scenario(text)
        with ThreadPoolExecutor(CORES) as pool:
            ours = [
                json.loads(r)["flows"][0]
                for r in pool.map(native.run, (int(line["seed"]) for line in lines))
            ]
        differences = [
            flow["goodput_bps"] - 80.0 * float(line["segments"])
            for flow, line in zip(ours, lines, strict=True)
        ]
        n = len(lines)
        mean = sum(80.0 * float(line["segments"]) for line in lines) / n
        shift = sum(differences) / n
        se = math.sqrt(sum((d - shift) ** 2 for d in differences) / (n - 1) / n)
        counts = {
            what: (
                sum(float(line[column]) for line in lines) / n,
                sum(flow[what]["total"] for flow in ours) / n,
            )
            for what, column in (("retransmissions", "retrans"), ("timeouts", "timeouts"))
        }
        # The spread of the pairs stands for that of both sides.
        cells.append(Cell(label, SCHEMES[row["variant"]], n, mean, 0.0, mean + shift, se, counts))
    return Table(
        "`paul_chains.csv`, the lone flow over one and the same chain",
        COMMON,
        cells,
        kind="ns-2 bursts",
    )


COMMON = (
    "Where nothing but the flow moves the chain, the goodput of a run spreads by nine tenths of its"
    " mean: 200 runs of each simulator leave the difference of a cell open by 9 % (one standard"
    " error). Here ns-2 loses the packets that this chain takes, by their ordinal on the last hop"
    " (`tools/paul_chains.py`): `d` is that of the run-by-run differences."
)


def tables(seeds: int) -> list[Table]:
    alone = drawn(
        "paul.csv",
        "The rows in which the chain stands still while the flow waits for its timer, each"
        " simulator with its own draws.",
        seeds,
        frozen,
    )
    alone.title += ", lone flow on a chain that moves with packets"
    alone.known = (
        "the chain's spread leaves the average open by 2.8 % (one standard error); with one and the"
        " same chain in both simulators, next table, it agrees"
    )
    return [
        drawn("paul.csv", ABOUT, seeds, lambda row: not frozen(row)),
        alone,
        common_chains(),
        drawn(
            "paul_timeslots.csv",
            "The same chain, moved once per 8.32 ms (a packet's time at 1 Mbit/s) whether or not a"
            " packet crosses.",
            seeds,
            lambda _: True,
        ),
    ]
