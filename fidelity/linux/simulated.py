"""The simulated half of a pair: the path, seed and start of a real transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fidelity.linux.cells import RESPONSES, Cell
from lasthop.experiments import plan

Settings = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Responses:
    """The responses of a connection, in seconds."""

    #: From the request to the last byte of the response.
    times: list[float]
    #: From the end of each response to the next request.
    pauses: list[float]


def load(cell: Cell, machine: Settings, start: float = 0.0) -> Any:
    """The scenario of a transfer that begins at `start`, in seconds. `machine`: what the kernel of
    the real senders sets.
    """
    settings = [*machine, ("flow.1.start", f"{start:.9f} s")]
    source = plan.source(None, text=cell.scenario(), settings=settings)
    scheme = cell.sender if cell.scheme == "none" else f"{cell.scheme}:sender={cell.sender}"
    scenario: Any = plan.load(source, scheme)
    return scenario.draw_by_frame()


def completion_s(cell: Cell, machine: Settings, start: float, seed: int) -> float:
    """Seconds from the sender's SYN to the last byte at the receiver.

    Raises `ValueError` if the transfer does not end within the scenario's duration.
    """
    flow = load(cell, machine, start).run(seed).to_dict()["flows"][0]
    if flow["completed_s"] is None:
        raise ValueError(f"{cell.name}: the simulated transfer of seed {seed} does not end")
    return float(flow["completed_s"])


def responses(cell: Cell, machine: Settings, seed: int) -> Responses:
    """The first `RESPONSES` responses of a connection."""
    _, recorded = load(cell, machine).run_recorded(seed, True)
    assert recorded is not None, "events were asked for"
    return responses_of(recorded, cell.size)


def responses_of(recorded: Mapping[str, Any], size: int) -> Responses:
    """The responses of `size` bytes in recorded events."""
    names = list(recorded["events"])
    request_sent, delivered = (names.index(name) for name in ("request_sent", "delivered"))
    requests: list[float] = []
    ends: list[float] = []
    arrived = 0
    for t, event, value in zip(*(recorded[key] for key in ("t_ns", "event", "value")), strict=True):
        if event == request_sent:
            requests.append(int(t) / 1e9)
        elif event == delivered:
            arrived += int(value)
            if arrived == size * (len(ends) + 1):
                ends.append(int(t) / 1e9)
    pairs = list(zip(requests, ends, requests[1:], strict=False))[:RESPONSES]
    return Responses(
        [end - request for request, end, _ in pairs], [after - end for _, end, after in pairs]
    )
