"""Agents in Python: pass a subclass of `Agent` where a scheme is expected."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from lasthop._native import Context, Segment, Verdict


class Agent:
    """Base class of agents, which process the segments at a node between its stack and its links.

    One object is created for each node with one of `roles` on the path of a flow that uses the
    scheme. Only the methods that a subclass defines are called; a method that it does not define
    costs nothing. `ctx` (`lasthop.Context`) has the time, the queues and rates of the node's links,
    and the requests of the agent: timers, segments to send, notices.

    Class attributes that are numbers, texts, true or false are settings, as for
    `lasthop.CongestionControl`.

    >>> class Thin(Agent):
    ...     every = 2
    ...     def __init__(self):
    ...         self.count = 0
    ...     def on_segment(self, ctx, segment):
    ...         if segment.direction == "uplink" and segment.is_pure_ack:
    ...             self.count += 1
    ...             if self.count % self.every:
    ...                 return lasthop.Verdict.drop("thinned")
    >>> lasthop.compare("cell.toml", schemes=["newreno", Thin])          # doctest: +SKIP
    """

    #: Name in tables and figures; if empty, the name of the class.
    label: ClassVar[str] = ""
    #: Roles of the nodes with an agent: server, router, proxy, rnc, base-station, station.
    roles: ClassVar[tuple[str, ...]] = ("base-station",)
    #: The sender-side scheme to run over, such as "newreno"; if empty, that of the profile.
    sender: ClassVar[str] = ""
    #: The link events for which `on_link_event` is called: refused, dequeued, attempt-started,
    #: attempt-failed, discarded, delivered, damaged, incomplete.
    link_events: ClassVar[tuple[str, ...]] = ()

    def on_segment(self, ctx: Context, segment: Segment) -> Verdict | None:
        """Decide about a TCP segment that passes the node; None forwards it unchanged.

        Not defined: the agent is passive and gets no segments.
        """

    def on_timer(self, ctx: Context, timer: int) -> None:
        """Handle the expiry of the timer that `ctx.set_timer(timer, at_s)` set."""

    def on_link_event(
        self, ctx: Context, event: str, segment: Segment, attempt: int | None
    ) -> None:
        """Handle an event of `link_events` for a segment on a link of the node.

        `attempt` is the number of the transmission attempt on the link, from 1, or None.
        """

    def on_link_change(
        self, ctx: Context, flow: int, direction: str, change: str, rate_bps: float | None
    ) -> None:
        """Handle a change of the link of a flow: "down", "up", or "rate" with the rate in bit/s."""

    def on_notice(self, ctx: Context, kind: str, flow: int, value: int) -> None:
        """Handle a notice about a flow that is addressed to this agent."""

    def counters(self) -> dict[str, int]:
        """Return named counters for reports, always the same names in the same order."""
        return {}

    def state_bytes(self) -> int:
        """Return the size of the state over all flows, bytes; what a handover would transfer."""
        return 0

    def export_state(self, flow: int) -> bytes | None:
        """Return and remove the state of a flow, for a handover; None if there is none."""

    def import_state(self, flow: int, state: bytes) -> None:
        """Restore the state of a flow that another object exported."""


__all__ = ["Agent"]
