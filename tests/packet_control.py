"""TCP packet control (zeng2006, chapter 3) as an agent in Python: the twin of the catalogue's."""

from __future__ import annotations

from dataclasses import dataclass, field

import lasthop
from lasthop._native import Context, Segment

#: Duplicate ACKs after which a sender retransmits.
SENDER_THRESHOLD = 3


@dataclass
class Flow:
    """What is held for a flow."""

    last_ack: int = -1
    window: int | None = None
    dupacks: int = 0
    #: The last ACK seen; ACKs to the sender are copies of it.
    template: Segment | None = None
    #: Retransmissions seen of acknowledged segments, by their first byte.
    repeated: dict[int, int] = field(default_factory=dict)


class PacketControl(lasthop.Agent):
    """Thins duplicate ACKs, and drops retransmissions of acknowledged data."""

    label = "packet-control-py"
    sender = "newreno"
    dupack_threshold = 6

    def __init__(self) -> None:
        self.flows: dict[int, Flow] = {}
        self.old_acks = self.dup_acks = self.data = self.acks_made = 0

    def on_segment(self, ctx: Context, segment: Segment) -> lasthop.Verdict | None:
        if segment.direction == "downlink":
            return self.filter_data(ctx, segment)
        if segment.is_pure_ack or "ACK" in segment.flags:
            return self.filter_ack(segment)
        return None

    def filter_ack(self, segment: Segment) -> lasthop.Verdict | None:
        state = self.flows.get(segment.flow)
        if state is None:
            state = self.flows[segment.flow] = Flow()
        ack, pure = segment.ack, segment.is_pure_ack
        new_window = state.window is not None and state.window != segment.window
        if ack == state.last_ack and pure and segment.is_duplicate_ack(not new_window):
            state.dupacks += 1
            state.window, state.template = segment.window, segment
            if self.passes(state.dupacks):
                return None
            self.dup_acks += 1
            return lasthop.Verdict.drop("duplicate ACK thinned")
        if ack < state.last_ack:
            if not pure or new_window or "ECE" in segment.flags:
                return None
            self.old_acks += 1
            return lasthop.Verdict.drop("old ACK")
        if ack > state.last_ack:
            state.dupacks = 0
            if state.repeated:
                state.repeated = {s: n for s, n in state.repeated.items() if s >= ack}
        state.last_ack = ack
        state.window = segment.window if pure or "SYN" not in segment.flags else None
        state.template = segment
        return None

    def passes(self, n: int) -> bool:
        d = self.dupack_threshold
        return n * SENDER_THRESHOLD // d > (n - 1) * SENDER_THRESHOLD // d

    def filter_data(self, ctx: Context, segment: Segment) -> lasthop.Verdict | None:
        state = self.flows.get(segment.flow)
        if state is None or segment.len == 0 or segment.end > state.last_ack:
            return None
        count = state.repeated[segment.seq] = state.repeated.get(segment.seq, 0) + 1
        if count % 2 == 0 and state.template is not None:
            self.acks_made += 1
            ctx.inject(state.template)
        self.data += 1
        return lasthop.Verdict.drop("retransmission of acknowledged data")

    def counters(self) -> dict[str, int]:
        return {
            "old_acks_dropped": self.old_acks,
            "duplicate_acks_dropped": self.dup_acks,
            "data_dropped": self.data,
            "acks_injected": self.acks_made,
            "flows": len(self.flows),
            "flows_evicted": 0,
        }
