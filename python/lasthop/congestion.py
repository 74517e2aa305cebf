"""Window rules in Python: pass a subclass of `CongestionControl` where a scheme is expected."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from lasthop._native import Ack, Loss, Lost, Start, Window


class CongestionControl:
    """Base class of window rules. The sender creates one object per flow and calls its methods.

    `window.cwnd` and `window.ssthresh` are in bytes and may be changed. Only `on_ack` is required,
    and only the methods that a subclass defines are called. Without `on_loss` the rule reacts to
    loss as Reno does (RFC 5681, section 3.1). `recovery` names the loss recovery.

    Class attributes that are numbers, texts, true or false are settings: with `beta = 0.7` in the
    class, `mine.py:Gentle:beta=0.9` sets another value. Fields of a dataclass are settings, too.

    >>> class Gentle(CongestionControl):
    ...     def on_ack(self, window, ack):
    ...         window.cwnd += ack.mss * ack.bytes / window.cwnd
    >>> lasthop.compare("cell.toml", schemes=["reno", Gentle])           # doctest: +SKIP
    """

    #: Name in tables and figures; if empty, the name of the class.
    label: ClassVar[str] = ""
    #: Loss recovery, such as "newreno" or "rack+prr+f-rto"; if empty, that of the profile, or
    #: NewReno.
    recovery: ClassVar[str] = ""
    #: What the rule needs of the sender: "pacing" (`window.pacing_bps`), "rate-samples"
    #: (`ack.rate`), "timestamps" (RFC 7323), "ecn" (RFC 3168).
    needs: ClassVar[tuple[str, ...]] = ()
    #: True if the rule sets cwnd in recovery, too, in `on_any_ack`, as BBR does.
    steers_recovery: ClassVar[bool] = False

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Handle an ACK of new data outside of recovery."""
        raise NotImplementedError(f"{type(self).__name__} must define on_ack(window, ack)")

    def on_loss(self, window: Window, loss: Loss) -> None:
        """Handle a loss; `loss.kind` is "duplicate-acks", "timeout" or "ecn".

        Default: `loss.halve(window)`, Reno's reduction.
        """
        loss.halve(window)

    def on_dupack(self, window: Window, now_s: float, count: int) -> None:
        """Handle the `count`-th duplicate ACK in a row at time `now_s` (seconds). Default:
        nothing.
        """

    def on_recovered(self, window: Window, now_s: float) -> None:
        """Handle the end of recovery at time `now_s` (seconds). Default: nothing.

        Recovery ends when all data outstanding at the loss is acknowledged.
        """

    def on_established(self, window: Window, start: Start) -> None:
        """Handle the establishment of the connection. Default: nothing."""

    def on_any_ack(self, window: Window, ack: Ack) -> None:
        """Handle every ACK, duplicates and those in recovery, too, before `on_ack`.

        Default: nothing. `ack.rtt_s` is then a sample of each ACK that covers new data sent once.
        """

    def on_lost(self, window: Window, lost: Lost) -> None:
        """Handle a segment that is newly considered lost. Default: nothing."""

    def on_undo(self, window: Window, now_s: float, cwnd: float, ssthresh: float) -> None:
        """Handle the discovery that the last reduction was spurious.

        `cwnd` and `ssthresh` are the values before it, bytes. Default: both are restored, unless
        they are larger now.
        """

    def on_sent(self, window: Window, now_s: float, bytes: int, flight: int) -> None:
        """Handle the departure of new data: `bytes` of payload, `flight` bytes in flight with them.

        Default: nothing.
        """

    def on_timer(self, window: Window, now_s: float) -> None:
        """Handle the time that the rule set as `window.timer_s`, which is None now.

        Default: nothing. While the receive window is closed, the call waits.
        """


__all__ = ["CongestionControl"]
