"""Runs of a scenario with consecutive seeds, and the means of what they measure."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from lasthop import CongestionControl, _native

#: Threads of a cell.
CORES = 2

#: The JSON result of a run.
Run = Mapping[str, Any]
#: What is measured of a run.
Quantity = Callable[[Run], float]


def first_seed(text: str) -> int:
    """The first seed of a scenario; it depends on the text, so errors of cells are independent."""
    return 1 + (int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1)


def simulate(text: str, seeds: int, rule: type[CongestionControl] | None = None) -> list[Run]:
    """Results of consecutive seeds from `first_seed`; one result if the scenario is
    deterministic.
    """
    scenario = _native.Scenario(text, scheme=rule) if rule else _native.Scenario(text)
    first = first_seed(text)
    # Runs of a Python rule are serialised by the GIL anyway.
    with ThreadPoolExecutor(1 if rule else CORES) as pool:
        results = pool.map(scenario.run, range(first, first + (seeds if scenario.random else 1)))
        return [r.to_dict() for r in results]


def first_flow(run: Run) -> float:
    """Goodput of the first flow, bit/s."""
    return float(run["flows"][0]["goodput_bps"])


def all_flows(run: Run) -> float:
    """Goodput of all flows, bit/s."""
    return float(sum(f["goodput_bps"] for f in run["flows"]))


def delivered(run: Run) -> float:
    """What all flows delivered over the whole run, bit/s."""
    return float(8.0 * sum(f["delivered_bytes"] for f in run["flows"]) / run["duration_s"])


#: Of the last ACK's way to the server on the path of janevski2009: propagation, and 40 bytes at 2
#: and twice at 10 Mbit/s.
LAST_ACK_S = 0.046 + 320 / 2e6 + 2 * 320 / 10e6


def download(run: Run) -> float:
    """Size by the time until the server has the last ACK, bit/s."""
    flow = run["flows"][0]
    return float(8.0 * flow["delivered_bytes"] / ((flow["completed_s"] or math.inf) + LAST_ACK_S))


FIRST_FLOW = "goodput of the first flow"
ALL_FLOWS = "goodput of all flows"
DELIVERED = "delivered by all flows"
DOWNLOAD = "download with its last ACK"
#: What is compared, by its name in tests/fidelity.json.
QUANTITIES: dict[str, Quantity] = {
    FIRST_FLOW: first_flow,
    ALL_FLOWS: all_flows,
    DELIVERED: delivered,
    DOWNLOAD: download,
}


@dataclass(frozen=True)
class Measured:
    """Means over the seeds of a scenario."""

    text: str
    #: Key of `QUANTITIES`, and the factor that makes it the reference's quantity.
    quantity: str
    scale: float
    #: The quantity of each run, bit/s.
    values: tuple[float, ...]
    #: Segments per run, of the flows of the quantity.
    retransmissions: float
    timeouts: float
    sent: float
    #: Means of the further quantities that were asked for.
    also: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean of the quantity, bit/s."""
        return statistics.fmean(self.values)

    @property
    def se(self) -> float:
        """Standard error of the mean; 0 for one run."""
        return (
            statistics.stdev(self.values) / math.sqrt(len(self.values))
            if len(self.values) > 1
            else 0.0
        )


@cache
def measure(
    text: str,
    seeds: int,
    quantity: str = FIRST_FLOW,
    scale: float = 1.0,
    rule: type[CongestionControl] | None = None,
    also: tuple[Quantity, ...] = (),
) -> Measured:
    """Run a scenario, with a rule written in Python if one is given."""
    return measured(text, quantity, scale, simulate(text, seeds, rule), also)


def measured(
    text: str, quantity: str, scale: float, runs: list[Run], also: tuple[Quantity, ...] = ()
) -> Measured:
    """The means of runs; the counters are those of the flows of `quantity`."""
    flows = [f for r in runs for f in (r["flows"][:1] if quantity == FIRST_FLOW else r["flows"])]
    return Measured(
        text,
        quantity,
        scale,
        tuple(scale * QUANTITIES[quantity](r) for r in runs),
        sum(f["retransmissions"]["total"] for f in flows) / len(runs),
        sum(f["timeouts"]["total"] for f in flows) / len(runs),
        sum(f["sent_segments"] for f in flows) / len(runs),
        tuple(sum(further(r) for r in runs) / len(runs) for further in also),
    )
