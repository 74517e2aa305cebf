"""The functions of the package, from the modules that define them."""

from __future__ import annotations

from lasthop.batches import compare, reproduce, sweep, tables_of
from lasthop.run_result import RunResult
from lasthop.runs import RUN_SCHEMA_VERSION, explain, inspect, replay, run

__all__ = [
    "RUN_SCHEMA_VERSION",
    "RunResult",
    "compare",
    "explain",
    "inspect",
    "replay",
    "reproduce",
    "run",
    "sweep",
    "tables_of",
]
