"""How well the fitted scenario repeats the measurement.

The scenario is simulated with a bulk transfer, captured at the mobile end, and the capture is read
by the importer that read the measurement: both sides are the same kind of number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lasthop import single_run
from lasthop.experiments import plan
from lasthop.traces import edit, formats, summary
from lasthop.traces.fit import scenario
from lasthop.traces.fit.fit import Fit, fit
from lasthop.traces.source import ReadOptions
from lasthop.traces.table import DOWN, Measurement

#: Interfaces of the capture of `tapped` at its two ends.
MOBILE, SERVER = "modem-phone", "server-exit"
#: Simulated runs that are compared with a measurement.
RUNS = 5


@dataclass(frozen=True)
class Compared:
    """A number of the measurement beside that of simulated runs."""

    name: str
    unit: str
    measured: float
    simulated: float
    #: Smallest and largest value of the runs.
    low: float
    high: float
    runs: int


def tapped(found: Fit) -> str:
    """The fitted scenario with a link of no delay before each end, where captures are taken."""
    given = scenario.values(found)
    rtt = max(given["base_rtt"], scenario.LEAST_RTT_S)
    wired = f"{1e6 * (1 - given['radio_share']) * rtt / 2:.0f} us"
    data, other = scenario.directions(found)
    ends = ("server", "phone") if found.seen.direction == DOWN else ("phone", "server")
    wire = 'rate = "100 Gbps"\nqueue = "unlimited"\n'
    return (
        f'duration = "{scenario.duration_s(found):g} s"\n'
        f'[[link]]\nbetween = ["server", "exit"]\n{wire}'
        f'[[link]]\nbetween = ["exit", "bs"]\ndelay = "{wired}"\n{wire}'
        '[[link]]\nname = "radio"\nradio = true\nbetween = ["bs", "modem"]\n'
        f"delay = {scenario.radio_delay(found, given)}\nloss = {scenario.loss(given)}\n"
        f'queue = "{max(given["queue"], 1500):.0f} B"\n'
        f"{data}.rate = {scenario.rate(found, given['capacity'])}\n"
        f'{other}.rate = "{given["capacity"]:.0f} bps"\n'
        + "".join(f"{other}.{key}\n" for key in scenario.ack_hold(found, given))
        + f'[[link]]\nbetween = ["modem", "phone"]\n{wire}'
        f'[[flow]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\napp = "bulk"\n'
        + "\n".join(scenario.receive_window(found))
    )


def captured(text: str, seed: int, interface: str = MOBILE) -> Measurement:
    """The measurement that a capture at one end of a simulated network is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.pcapng"
        where = plan.source(None, text=text)
        single_run.simulate(where, "cubic", seed, pcap=file)
        read = formats.read(str(file), ReadOptions(interface=interface))
    return read if interface == MOBILE else read.swapped()


def repeat(
    found: Fit, runs: int = RUNS, step: Callable[[], None] = lambda: None
) -> tuple[list[Compared], Fit]:
    """Numbers of the measurement, as far as a run is long, beside those of `runs` runs of the fit;
    and the fit of run 1.

    `step` is called after each run.
    """
    text = tapped(found)
    simulated = []
    for seed in range(1, runs + 1):
        simulated.append(captured(text, seed))
        step()
    measured = edit.cut(found.seen.found, end_s=scenario.duration_s(found))
    sides = [_numbers(measured, found.seen.direction, found.seen.scale)]
    sides += [_numbers(m, found.seen.direction, 1.0) for m in simulated]
    rows = []
    for name, (unit, value) in sides[0].items():
        values = [v for s in sides[1:] if (v := s[name][1]) is not None]
        if value is not None and values:
            numbers = (float(np.mean(values)), min(values), max(values), len(values))
            rows.append(Compared(name, unit, value, *numbers))
    return rows, fit(simulated[0])


def _numbers(
    found: Measurement, direction: int, scale: float
) -> dict[str, tuple[str, float | None]]:
    rate, rtt = summary.mean_rate_bps(found.rates(direction)), summary.rtt(found)
    parts = rtt or {}
    return {
        "rate": ("bit/s", None if rate is None else rate * scale),
        "RTT, minimum": ("s", parts.get("minimum")),
        "RTT, median": ("s", parts.get("median")),
        "RTT, 95th percentile": ("s", parts.get("p95")),
        "loss": ("share", summary.loss(found)),
    }


__all__ = ["MOBILE", "RUNS", "SERVER", "Compared", "captured", "repeat", "tapped"]
