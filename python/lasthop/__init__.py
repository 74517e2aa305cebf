"""lasthop simulates TCP over wireless last hops: run, compare and replay schemes.

>>> import lasthop
>>> hop = {"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}   # or 2e6, 0.04, 0.01
>>> result = lasthop.compare(last_hop=hop, schemes=["reno", "snoop"])
>>> print(result)                                                       # doctest: +SKIP
>>> result.plot("figure.svg")                                           # doctest: +SKIP
"""

from __future__ import annotations

from lasthop.agents import Agent
from lasthop.congestion import CongestionControl
from lasthop.errors import CheckFailed, InputError, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop._native import (
        Ack,
        Context,
        Loss,
        Lost,
        RateSample,
        Segment,
        Start,
        Verdict,
        Window,
    )
    from lasthop.batches import compare, reproduce, sweep
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.figure_result import Reproduction
    from lasthop.experiments.run_result import RunResult
    from lasthop.experiments.sweep_result import SweepResult
    from lasthop.inspection.inspection import Inspection
    from lasthop.measurements import advise, fit, trace
    from lasthop.own_schemes import configure
    from lasthop.runs import explain, inspect, replay, run

# Imported at first use, so that `lasthop --help` answers at once.
_LAZY = {
    # What methods of window rules and agents get.
    "Ack": "_native",
    "Context": "_native",
    "Loss": "_native",
    "Lost": "_native",
    "RateSample": "_native",
    "Segment": "_native",
    "Start": "_native",
    "Verdict": "_native",
    "Window": "_native",
    "run": "runs",
    "explain": "runs",
    "inspect": "runs",
    "replay": "runs",
    "compare": "batches",
    "sweep": "batches",
    "reproduce": "batches",
    "trace": "measurements",
    "fit": "measurements",
    "advise": "measurements",
    "RunResult": "experiments.run_result",
    "SweepResult": "experiments.sweep_result",
    "configure": "own_schemes",
    "Inspection": "inspection.inspection",
    "Comparison": "experiments.comparison",
    "Reproduction": "experiments.figure_result",
}


def schemes() -> list[dict[str, Any]]:
    """The catalogue of schemes, as `lasthop schemes --json` prints it."""
    from lasthop import catalogue

    return catalogue.entries()


def schema() -> dict[str, Any]:
    """The JSON Schema of scenario files."""
    from lasthop import _native

    found: dict[str, Any] = _native.schema()
    return found


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from lasthop import _native

        return _native.version()
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"lasthop.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'lasthop' has no attribute {name!r}")


__all__ = [
    "Ack",
    "Agent",
    "CheckFailed",
    "Comparison",
    "CongestionControl",
    "Context",
    "InputError",
    "Inspection",
    "Interrupted",
    "Loss",
    "Lost",
    "RateSample",
    "Reproduction",
    "RunResult",
    "Segment",
    "Start",
    "SweepResult",
    "Verdict",
    "Window",
    "advise",
    "compare",
    "configure",
    "explain",
    "fit",
    "inspect",
    "replay",
    "reproduce",
    "run",
    "schema",
    "schemes",
    "sweep",
    "trace",
]
