"""What ns-3.44 does differently, as window rules: with them the goodput is ns-3's, which shows that these are the causes.

Facts of ns-3.44 (its sources and traces of its variables): TcpNewReno halves what SACK leaves in the pipe, not the
flight. TcpLinuxReno adds to its window, with the ACK that ends a recovery, a segment for each window's worth that this
ACK covers, most of which had been reported by SACK before. TcpVegas takes one segment off on a loss. TcpVeno grows as
NewReno, because it forgets its smallest round-trip time at each ACK, and keeps 4/5 of the pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import lasthop

if TYPE_CHECKING:
    from lasthop._native import Ack, Loss, Window


def pipe(loss: Loss) -> float:
    """Limited transmit has added two segments; three are reported and one is lost."""
    return loss.flight - 2 * loss.mss


def reduce(window: Window, loss: Loss, left: float) -> None:
    window.ssthresh = max(2 * loss.mss, left)
    window.cwnd = loss.mss if loss.kind == "timeout" else window.ssthresh


class NewReno(lasthop.CongestionControl):
    """TcpNewReno."""

    recovery: ClassVar[str] = "sack+prr"

    def on_ack(self, window: Window, ack: Ack) -> None:
        window.cwnd += ack.mss if window.cwnd < window.ssthresh else ack.mss**2 / window.cwnd

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, (pipe(loss) if loss.kind == "duplicate-acks" else loss.flight) / 2)


class LinuxReno(NewReno):
    """TcpLinuxReno."""

    def __init__(self) -> None:
        self.covered = 0.0
        self.mss = 0

    def on_loss(self, window: Window, loss: Loss) -> None:
        self.covered, self.mss = (loss.flight, loss.mss) if loss.kind == "duplicate-acks" else (0.0, loss.mss)
        reduce(window, loss, window.cwnd / 2)

    def on_recovered(self, window: Window, now_s: float) -> None:
        window.cwnd += self.mss * self.covered / window.cwnd
        self.covered = 0.0


class Veno(NewReno):
    """TcpVeno."""

    def __init__(self) -> None:
        self.base, self.backlog = float("inf"), 0.0

    def on_ack(self, window: Window, ack: Ack) -> None:
        super().on_ack(window, ack)
        if ack.rtt_s:
            self.base = min(self.base, ack.rtt_s)
            segments = window.cwnd // ack.mss
            self.backlog = segments - int(segments * self.base / ack.rtt_s)

    def on_loss(self, window: Window, loss: Loss) -> None:
        left = pipe(loss) if loss.kind == "duplicate-acks" else loss.flight
        reduce(window, loss, left * (0.8 if self.backlog < 3 else 0.5))


class Vegas(NewReno):
    """TcpVegas."""

    def __init__(self) -> None:
        self.base = self.least = float("inf")
        self.until, self.samples, self.acked = 0.0, 0, 0.0

    def on_ack(self, window: Window, ack: Ack) -> None:
        if ack.rtt_s:
            self.base, self.least, self.samples = min(self.base, ack.rtt_s), min(self.least, ack.rtt_s), self.samples + 1
        self.acked += ack.bytes
        if window.cwnd < window.ssthresh:
            window.cwnd += ack.mss
        if self.acked < self.until:
            return
        self.acked, self.until = 0.0, ack.flight
        segments = window.cwnd // ack.mss
        if self.samples > 2 and self.least < float("inf"):
            diff = segments - int(segments * self.base / self.least)
            if window.cwnd < window.ssthresh:
                if diff > 1:
                    window.cwnd = min(segments, int(segments * self.base / self.least) + 1) * ack.mss
                    window.ssthresh = max(min(window.ssthresh, window.cwnd - ack.mss), 2 * ack.mss)
            elif diff > 4:
                window.cwnd = (segments - 1) * ack.mss
                window.ssthresh = max(min(window.ssthresh, window.cwnd - ack.mss), 2 * ack.mss)
            elif diff < 2:
                window.cwnd = (segments + 1) * ack.mss
            window.ssthresh = max(window.ssthresh, 0.75 * window.cwnd)
        elif window.cwnd >= window.ssthresh:
            window.cwnd += ack.mss**2 / window.cwnd
        self.least, self.samples = float("inf"), 0

    def on_loss(self, window: Window, loss: Loss) -> None:
        reduce(window, loss, min(window.ssthresh, window.cwnd - loss.mss))


MIMICS: dict[str, type[lasthop.CongestionControl]] = {"TcpNewReno": NewReno, "TcpLinuxReno": LinuxReno, "TcpVeno": Veno, "TcpVegas": Vegas}
