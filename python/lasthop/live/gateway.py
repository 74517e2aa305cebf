"""A gateway: an agent or relay on the packets that this machine forwards."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lasthop import _native, quantities

#: What the callback of `_native.gateway` answers.
GO_ON, SHOW, STOP, DUMP = 0, 1, 2, 3
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Console:
    """What signals ask of a gateway, and the lines that it prints about its state."""

    def __init__(self, show_each_second: bool, as_json: bool) -> None:
        self._each_second = show_each_second
        self._as_json = as_json
        self._is_asked = False
        self._is_ended = False
        self._shown = time.monotonic()

    def ask(self, line: str | None, data: str | None = None) -> int:
        """The callback of `_native.gateway`."""
        if data is not None:
            self._is_asked = False
            clear = "\r\x1b[K" if self._each_second else ""
            sys.stderr.write(f"{clear}{data if self._as_json else line}\n")
        elif line is not None:
            self._shown = time.monotonic()
            sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
        if self._is_ended:
            return STOP
        if line is not None:
            return GO_ON
        due = self._each_second and time.monotonic() - self._shown >= 1
        return DUMP if self._is_asked else SHOW if due else GO_ON

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take the signals that end a gateway, and SIGUSR1, which asks for its state."""

        def end(*_: Any) -> None:
            self._is_ended = True

        def ask(*_: Any) -> None:
            self._is_asked = True

        handlers = {**dict.fromkeys(_ENDING, end), signal.SIGUSR1: ask}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def gateway(
    scheme: str,
    wireless: str,
    *,
    wired: str | None = None,
    rate: str | None = None,
    max_flows: int | None = None,
    radio: int | None = None,
    show_each_second: bool = False,
    state_as_json: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Run a gateway until SIGINT, SIGTERM or SIGHUP; return its report as text and as data.

    `scheme` is one of the catalogue whose agent needs readable packets and nothing else, or whose
    relay divides connections. `wireless` is the interface to the mobiles, `wired` that to the fixed
    network (any if it is None). `rate` is that of the radio link. At most `max_flows` connections
    are tracked. `radio` is the port of 127.0.0.1 at which the radio link reports its rate and queue
    to a relay. SIGUSR1 prints the state to stderr, `state_as_json` or as text. The process loses
    all rights but those to the machine's network, for good.

    Raises `InputError` if the scheme cannot run on a gateway, and `OSError` if this machine refuses
    queue or rules.
    """
    if max_flows is not None:
        quantities.whole_number(max_flows, "--max-flows", least=1, most=1 << 24)
    # What is needed at the end is loaded while the files can be read.
    for name in ("shlex", "traceback", "lasthop.cli.json_text"):
        import_module(name)
    if radio is not None:
        quantities.whole_number(radio, "--radio", least=1, most=65_535)
    console = Console(show_each_second, state_as_json)
    with console.signals():
        text, data = _native.gateway(scheme, wireless, console.ask, wired, rate, max_flows, radio)
    return text, json.loads(data)


def rules(wireless: str, wired: str | None = None) -> str:
    """The rules of a gateway in the language of nft."""
    return _native.gateway_rules(wireless, wired)


def remove(wireless: str) -> int:
    """Remove the rules that a gateway on this interface has left; return the number of tables.

    Raises `OSError` if this process may not change rules, or a gateway is running there.
    """
    return _native.gateway_remove(wireless)
