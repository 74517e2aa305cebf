"""Random links, carried live: what tcpdump, iperf3 and ping write, and what is fitted to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fitted_links import Link
from processes import PROGRAM, ended

import lasthop
from lasthop.traces.fit.fit import Fit

#: Programs beside `lasthop link`.
PROGRAMS = ("iperf3", "ping", "tcpdump")
#: Files whose fits are compared with the link, by what made them.
MEASUREMENTS = {
    "tcpdump": ("phone.pcap",),
    "iperf3 (TCP) and ping": ("tcp.json", "loaded.txt"),
    "iperf3 (UDP) and ping": ("udp.json", "flooded.txt"),
    "iperf3 (UDP), earlier ping": ("udp.json", "idle.txt"),
    "ping": ("idle.txt",),
}
# At the mobile: pings of the idle link, a download that is captured and pinged, and datagrams.
_SCRIPT = """
ping -D -i 0.05 -c {pings} "$LASTHOP_SERVER" > idle.txt
tcpdump -q -i any -s 120 -w phone.pcap tcp port 5201 2> tcpdump.log &
capture=$!
sleep 1
ping -D -i 0.1 -w {seconds} "$LASTHOP_SERVER" > loaded.txt &
iperf3 -c "$LASTHOP_SERVER" -R -t {seconds} -i 0.5 --json > tcp.json
sleep 1
kill -INT $capture
wait
ping -D -i 0.1 -w {seconds} "$LASTHOP_SERVER" > flooded.txt &
iperf3 -c "$LASTHOP_SERVER" -R -u -b {rate} -t {seconds} -i 0.5 --json > udp.json
wait
"""


@dataclass(frozen=True)
class Carried:
    """A link whose files lie in a folder."""

    link: Link
    folder: Path
    #: 99th percentile of the lateness of its packets, seconds.
    late_s: float

    def fit(self, name: str) -> Fit:
        """The fit of a measurement of `MEASUREMENTS`."""
        return lasthop.fit([self.folder / file for file in MEASUREMENTS[name]])


def drawn(seed: int) -> Link:
    """A random link: 2 to 20 Mbit/s, 20 to 150 ms, two of three with independent losses."""
    rng = np.random.default_rng(2000 + seed)
    rate = float(np.exp(rng.uniform(np.log(2e6), np.log(20e6))))
    rtt = round(float(np.exp(rng.uniform(np.log(0.02), np.log(0.15)))), 3)
    loss = float(np.exp(rng.uniform(np.log(0.002), np.log(0.02)))) if seed % 3 else 0.0
    queue = max(int(rate * rtt / 12_000 * rng.uniform(0.5, 3)), 20)
    return Link(round(rate, -4), rtt, round(loss, 5), queue)


def carried(link: Link, seed: int, folder: Path, seconds: int = 15) -> Carried:
    """Carry a link live for about three times `seconds`, with the programs at its ends."""
    script = _SCRIPT.format(pings=20 * seconds, seconds=seconds, rate=f"{1.2 * link.rate_bps:.0f}")
    words = ["--rate", f"{link.rate_bps:.0f}bps", "--rtt", f"{1000 * link.rtt_s:.0f}ms"]
    words += ["--loss", f"{100 * link.loss:.3f}%", "--queue", f"{link.queue_packets} packets"]
    words += ["--seed", str(seed), "--bound", "10s", "--server", "iperf3 -s", "--json"]
    done = ended(
        [*PROGRAM, "link", *words, "--", "sh", "-c", script], timeout=10 * seconds + 60, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    return Carried(link, folder, report["lateness_us"]["p99"] / 1e6)
