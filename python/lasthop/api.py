"""The functions of the package, from the modules that define them."""

from __future__ import annotations

from lasthop.batches import compare, reproduce, sweep, tables_of
from lasthop.run_result import RunResult
from lasthop.runs import explain, inspect, replay, run
from lasthop.single_run import RUN_SCHEMA_VERSION

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
