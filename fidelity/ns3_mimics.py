"""What ns-3.44 does differently, as window rules for its recovery (`sack+prr-dupacks`).

All rules are read from ns-3.44's sources and none is fitted, so that every cell of the tables is
one that they were not made for: a mimic explains a difference only if its table holds by the rule
of agreement (fidelity-ns3.md).

* TcpSocketBase hands `GetSsThresh` what SACK leaves in the pipe, not FlightSize. TcpNewReno halves
  it. (ns-3 does so at a timeout too; here a timeout starts from FlightSize.)
* The ACK that ends a recovery opens the window, with all segments that it covers. TcpLinuxReno adds
  a segment for each window's worth of them, most of which SACK had reported before; TcpNewReno adds
  one ACK's worth.
* Rules get smoothed round-trip times, so that the smallest of them is above the path's.
* TcpVeno forgets its round-trip times at each ACK, so that outside of recovery it never has the
  three samples that its own growth asks for; it keeps 4/5 or 1/2 of the pipe.
* TcpVegas takes one segment off on a loss and begins a new round after each recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import lasthop

if TYPE_CHECKING:
    from lasthop._native import Ack, Loss, Window

#: Keys of the profile that the rules need.
KEYS = "exit_ack_opens_window = true"


def in_flight(loss: Loss) -> int:
    """What `GetSsThresh` takes for the flight, bytes."""
    return loss.pipe if loss.kind == "duplicate-acks" else loss.flight


def reduce(window: Window, loss: Loss, left: float) -> None:
    """Set ssthresh to `left` bytes, at least two segments, and cwnd with it."""
    window.ssthresh = max(2 * loss.mss, left)
    window.cwnd = loss.mss if loss.kind == "timeout" else window.ssthresh


class NewReno(lasthop.CongestionControl):
    """TcpNewReno."""

    recovery: ClassVar[str] = "sack+prr-dupacks"

    def on_ack(self, window: Window, ack: Ack) -> None:
        window.cwnd += ack.mss if window.cwnd < window.ssthresh else ack.mss**2 / window.cwnd

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, in_flight(loss) / 2)


class LinuxReno(NewReno):
    """TcpLinuxReno, which halves cwnd."""

    def __init__(self) -> None:
        self.count = 0

    def on_ack(self, window: Window, ack: Ack) -> None:
        segments = ack.bytes // ack.mss
        if window.cwnd < window.ssthresh:
            window.cwnd = min(window.cwnd + segments * ack.mss, window.ssthresh)
            return
        per = max(int(window.cwnd // ack.mss), 1)
        if self.count >= per:
            self.count = 0
            window.cwnd += ack.mss
        self.count += segments
        window.cwnd += self.count // per * ack.mss
        self.count %= per

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, window.cwnd / 2)


class Veno(NewReno):
    """TcpVeno."""

    def __init__(self) -> None:
        self.base, self.backlog = float("inf"), 0

    def on_ack(self, window: Window, ack: Ack) -> None:
        super().on_ack(window, ack)
        if ack.srtt_s:
            self.base = min(self.base, ack.srtt_s)
            segments = int(window.cwnd // ack.mss)
            self.backlog = segments - int(segments * self.base / ack.srtt_s)

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, in_flight(loss) * (0.8 if self.backlog < 3 else 0.5))


class Vegas(NewReno):
    """TcpVegas."""

    def __init__(self) -> None:
        self.base = self.least = float("inf")
        self.until, self.samples, self.acked = 0.0, 0, 0.0
        self.begins = False

    def on_recovered(self, window: Window, now_s: float) -> None:
        self.begins = True

    def on_ack(self, window: Window, ack: Ack) -> None:
        if ack.srtt_s:
            self.base, self.least, self.samples = (
                min(self.base, ack.srtt_s),
                min(self.least, ack.srtt_s),
                self.samples + 1,
            )
        self.acked += ack.bytes
        if self.begins:
            self.begins = False
            self.begin_round(ack)
        if self.acked < self.until:
            if window.cwnd < window.ssthresh:
                window.cwnd += ack.mss
            return
        self.end_round(window, ack)
        self.begin_round(ack)

    def begin_round(self, ack: Ack) -> None:
        self.acked, self.until, self.least, self.samples = 0.0, ack.flight, float("inf"), 0

    def end_round(self, window: Window, ack: Ack) -> None:
        if self.samples <= 2:
            super().on_ack(window, ack)
            return
        segments = int(window.cwnd // ack.mss)
        target = int(segments * self.base / self.least)
        slow_start = window.cwnd < window.ssthresh
        if slow_start and segments - target <= 1:
            window.cwnd += ack.mss
        elif slow_start or segments - target > 4:
            window.cwnd = (min(segments, target + 1) if slow_start else segments - 1) * ack.mss
            window.ssthresh = max(min(window.ssthresh, window.cwnd - ack.mss), 2 * ack.mss)
        elif segments - target < 2:
            window.cwnd = (segments + 1) * ack.mss
        window.ssthresh = max(window.ssthresh, 0.75 * window.cwnd)

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, min(window.ssthresh, window.cwnd - loss.mss))


MIMICS: dict[str, type[lasthop.CongestionControl]] = {
    "TcpNewReno": NewReno,
    "TcpLinuxReno": LinuxReno,
    "TcpVeno": Veno,
    "TcpVegas": Vegas,
}
