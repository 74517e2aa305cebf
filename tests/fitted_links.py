"""Simulated links whose parameters are fitted again from captures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import lasthop
from lasthop.advice.repeat import MOBILE, SERVER, captured
from lasthop.traces.table import Measurement

_DATA = Path(lasthop.__file__).parent / "data" / "traces"
TRACES = (_DATA / "synthetic-lte.down", _DATA / "synthetic-wifi.down", _DATA / "synthetic-lte.up")


@dataclass(frozen=True)
class Link:
    """The true parameters of a link with captures at both ends."""

    rate_bps: float
    rtt_s: float
    loss: float
    queue_packets: int
    #: Mean length of a burst of losses; 1: independent losses.
    burst: float = 1.0
    #: Receive window, if it limits the sender.
    window_packets: int | None = None
    #: Attempts of link-layer retransmission; `loss` is then that of an attempt.
    attempts: int = 1
    #: Trace of the rate and its start in seconds; `rate_bps` is then its mean while measured.
    trace: tuple[Path, float] | None = None
    #: Start of a bulk transfer of CUBIC to another host behind the same radio link, seconds.
    competitor_s: float | None = None
    #: `app` and further keys of the flow.
    app: str = 'app = "bulk"'

    @property
    def capacity_bps(self) -> float:
        """The rate, less what link-layer retransmissions take."""
        return self.rate_bps * (1 - self.loss) / (1 - self.residual_loss)

    @property
    def residual_loss(self) -> float:
        """The share of packets that no attempt delivers."""
        return self.loss**self.attempts

    def toml(self, duration_s: float) -> str:
        """The scenario."""
        delay = f'delay = "{1e6 * self.rtt_s / 4:.0f} us"\n'
        wire = 'rate = "100 Gbps"\nqueue = "unlimited"\n'
        loss = f"{self.loss:.6f}"
        if self.burst > 1:
            leave_bad = 1 / self.burst
            leave_good = self.loss / (1 - self.loss) * leave_bad
            loss = (
                f'{{ model = "markov", clock = "frame", good_to_good = {1 - leave_good:.8f},'
                f" bad_to_bad = {1 - leave_bad:.6f} }}"
            )
        window = self.window_packets
        rate = f'rate = "{self.rate_bps:.0f} bps"\n'
        if self.trace is not None:
            file, start = self.trace
            rate = (
                f'forward.rate = {{ trace = "{file}", start = "{start} s" }}\n'
                'backward.rate = "20 Mbps"\n'
            )
        if self.attempts > 1:
            rate += f'forward.arq = {{ kind = "selective-repeat", attempts = {self.attempts} }}\n'
        return (
            f'duration = "{duration_s} s"\n'
            f'[[link]]\nbetween = ["server", "exit"]\n{wire}'
            f'[[link]]\nbetween = ["exit", "bs"]\n{delay}{wire}'
            '[[link]]\nname = "radio"\nradio = true\nbetween = ["bs", "modem"]\n'
            f"{delay}{rate}forward.loss = {loss}\n"
            f'queue = "{self.queue_packets} packets"\n'
            f'[[link]]\nbetween = ["modem", "phone"]\n{wire}'
            f'[[flow]]\nfrom = "server"\nto = "phone"\n{self.app}\n'
            + ("" if window is None else f'receive_window = "{window} segments"\n')
            + ("" if self.competitor_s is None else self._competitor(wire))
        )

    def _competitor(self, wire: str) -> str:
        return (
            f'[[link]]\nbetween = ["other-server", "exit"]\n{wire}'
            f'[[link]]\nbetween = ["modem", "tablet"]\n{wire}'
            '[[flow]]\nfrom = "other-server"\nto = "tablet"\n'
            f'start = "{self.competitor_s} s"\n'
        )


#: Kinds of links: `drawn` (a constant rate, and losses), and what it does not have.
KINDS = ("drawn", "arq", "trace", "competitor")


def of_kind(kind: str, seed: int) -> Link:
    """A random link of a kind of `KINDS`."""
    link = drawn(seed)
    rng = np.random.default_rng(1000 + seed)
    if kind == "arq":
        return replace(
            link, loss=float(rng.uniform(0.02, 0.3)), burst=1.0, attempts=int(rng.integers(2, 6))
        )
    if kind == "trace":
        file = TRACES[seed % len(TRACES)]
        start = float(rng.integers(0, 30))
        rate = mean_rate_bps(file, start)
        queue = max(int(rate * link.rtt_s / 12_000 * rng.uniform(0.5, 4)), 10)
        return replace(link, rate_bps=rate, queue_packets=queue, trace=(file, start))
    if kind == "competitor":
        return replace(link, competitor_s=float(rng.uniform(1, 5)))
    return link


def mean_rate_bps(file: Path, start_s: float) -> float:
    """The mean rate of a trace over the 30 s from `start_s` on."""
    lines = file.read_text(encoding="utf-8").split("\n")
    at = np.array([int(x) for x in lines if x and not x.startswith("#")]) / 1000
    at = np.append(at, at + at[-1])
    return float(((at > start_s) & (at <= start_s + 30)).sum()) * 12_000 / 30


def drawn(seed: int) -> Link:
    """A random link: 1 to 50 Mbit/s, 10 to 200 ms, half of them with losses on the air."""
    rng = np.random.default_rng(seed)
    rate = float(np.exp(rng.uniform(np.log(1e6), np.log(50e6))))
    rtt = float(np.exp(rng.uniform(np.log(0.01), np.log(0.2))))
    bdp = rate * rtt / 12_000
    kind = seed % 4
    loss = 0.0 if kind < 2 else float(np.exp(rng.uniform(np.log(0.001), np.log(0.03))))
    return Link(
        rate,
        rtt,
        loss,
        max(int(bdp * rng.uniform(0.5, 4)), 10),
        burst=float(rng.uniform(2, 8)) if kind == 3 else 1.0,
    )


def measured(link: Link, seed: int, end: str, duration_s: float) -> Measurement:
    """What a capture at one end of the link says."""
    return captured(link.toml(duration_s), seed, MOBILE if end == "phone" else SERVER)
