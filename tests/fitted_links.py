"""Simulated links whose parameters are fitted again from captures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.advice.repeat import MOBILE, SERVER, captured
from lasthop.traces.table import Measurement


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
        return (
            f'duration = "{duration_s} s"\n'
            f'[[link]]\nbetween = ["server", "exit"]\n{wire}'
            f'[[link]]\nbetween = ["exit", "bs"]\n{delay}{wire}'
            '[[link]]\nname = "radio"\nradio = true\nbetween = ["bs", "modem"]\n'
            f'{delay}rate = "{self.rate_bps:.0f} bps"\nforward.loss = {loss}\n'
            f'queue = "{self.queue_packets} packets"\n'
            f'[[link]]\nbetween = ["modem", "phone"]\n{wire}'
            '[[flow]]\nfrom = "server"\nto = "phone"\n'
            + ("" if window is None else f'receive_window = "{window} segments"\n')
        )


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
