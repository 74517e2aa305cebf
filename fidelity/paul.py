"""The network of paul2005 beside ns-2.35: one flow over a last hop with losses in bursts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from fidelity.agreement import Cell, Table
from fidelity.measuring import CORES
from fidelity.ns2_traces import SCHEMES
from fidelity.references import NS2, Row, ns2_rows, read
from fidelity.suite import Comparison, Suite
from lasthop import _native

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


def numbered(name: str) -> list[Row]:
    """The rows of a table; those of paul.csv with their numbers, which `ODD` refers to."""
    rows = ns2_rows(name)
    if name != "paul.csv":
        return rows
    return [row | {"number": str(number)} for number, row in enumerate(rows)]


def losses_and_timeout(row: Row) -> tuple[str, str]:
    """The model of the losses and the smallest timeout of a row."""
    return ODD.get(int(row.get("number", -1)), (row["loss_model"], "200 ms"))


def scenario(row: Row) -> str:
    """The scenario of a row."""
    model, min_rto = losses_and_timeout(row)
    loss = (
        LOSS[model] and f"{'' if row['both_directions'] == '1' else 'forward.'}loss = {LOSS[model]}"
    )
    return NETWORK.format(
        wired=row["wired_rate"].removesuffix("Mb"),
        loss=loss,
        udp="" if row["udp"] == "none" else UDP.format(to=row["udp"]),
        scheme=scheme_of(row),
        window=row["window"],
        min_rto=min_rto,
    )


def scheme_of(row: Row) -> str:
    """The scheme of a row."""
    return SCHEMES[row["variant"]]


def label(row: Row) -> str:
    """The name of the cell of a row."""
    model, min_rto = losses_and_timeout(row)
    wired = row["wired_rate"].removesuffix("Mb")
    name = f"{scheme_of(row)}, {wired} Mbit/s, UDP {row['udp']}, {MODELS[model]}"
    name += ", both directions" * int(row["both_directions"])
    name += f", window {row['window']}" * (row["window"] != "20")
    return name + f", min RTO {min_rto}" * (min_rto != "200 ms")


def frozen(row: Row) -> bool:
    """The chain moves with packets, and no other traffic moves it while the flow waits for its
    timer.
    """
    return row["loss_model"] == "markov" and row["udp"] != "mh"


def frozen_rows() -> Iterator[tuple[int, Row]]:
    """The rows of paul.csv that `frozen` selects, with their numbers from 0."""
    return ((number, row) for number, row in enumerate(numbered("paul.csv")) if frozen(row))


def min_rto_of(number: int) -> float:
    """The smallest timeout of a row of paul.csv in seconds."""
    return 1.0 if ODD.get(number, ("", ""))[1] == "1 s" else 0.2


DRAWN = Comparison(label, scheme_of, scenario)


def drawn(name: str, about: str, seeds: int, keep: Callable[[Row], bool]) -> Table:
    """A table in which each simulator has its own draws."""
    rows = [row for row in numbered(name) if keep(row)]
    return Table(f"`{name}`", about, DRAWN.cells(rows, seeds), kind="ns-2 bursts")


def common_chains() -> Table:
    """Both simulators lose the same packets by ordinal: the spread of the differences is what
    counts.
    """
    theirs: dict[int, list[Row]] = {}
    for line in read(NS2 / "paul_chains.csv"):
        theirs.setdefault(int(line["row"]), []).append(line)
    cells = []
    for number, row in frozen_rows():
        lines = theirs[number]
        native = _native.Scenario(scenario(row))
        with ThreadPoolExecutor(CORES) as pool:
            ours = [
                r.to_dict()["flows"][0]
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
        cells.append(Cell(label(row), scheme_of(row), n, mean, 0.0, mean + shift, se, counts))
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
    """All tables of the page."""
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


SUITE = Suite("fidelity-paul", "Losses in bursts beside ns-2.35", tables)
