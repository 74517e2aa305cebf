"""lasthop: TCP over a wireless last hop. Simulate, compare and replay the schemes that researchers proposed for it.

>>> import lasthop
>>> result = lasthop.compare(last_hop={"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}, schemes=["reno", "snoop"])
>>> print(result)                                                       # doctest: +SKIP
>>> result.plot("figure.svg")                                           # doctest: +SKIP
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lasthop.congestion import CongestionControl
from lasthop.errors import CheckFailed, InputError, Interrupted

if TYPE_CHECKING:
    from lasthop.api import RunResult, compare, replay, reproduce, run
    from lasthop.comparison import Comparison
    from lasthop.figures import Reproduction

# What is only needed by some is imported when it is first asked for: `lasthop --help` must answer at once.
_LAZY = {
    "run": "api",
    "compare": "api",
    "replay": "api",
    "reproduce": "api",
    "RunResult": "api",
    "Comparison": "comparison",
    "Reproduction": "figures",
}


def schemes() -> list[dict[str, Any]]:
    """The catalogue: what `lasthop schemes --json` prints."""
    from lasthop import catalogue

    return catalogue.entries()


def schema() -> dict[str, Any]:
    """JSON Schema of scenario files."""
    from lasthop import _native

    found: dict[str, Any] = json.loads(_native.schema())
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
    "CheckFailed",
    "Comparison",
    "CongestionControl",
    "InputError",
    "Interrupted",
    "Reproduction",
    "RunResult",
    "compare",
    "replay",
    "reproduce",
    "run",
    "schema",
    "schemes",
]
