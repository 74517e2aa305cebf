"""The formats of measurement files, told by the content of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from lasthop.errors import InputError
from lasthop.traces import capture, csv_table, iperf3, mahimahi, ping
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import Measurement


class Format(Protocol):
    """A module that reads one format."""

    NAME: str

    def matches(self, head: str) -> bool:
        """True if a text that begins like this has the format."""

    def read(self, source: Source, options: ReadOptions) -> Measurement:
        """Read the file; raises `InputError`."""


#: In this order: a table may look like many things.
FORMATS: tuple[Format, ...] = (iperf3, ping, mahimahi, csv_table)


def read(
    name: str, options: ReadOptions, advance: Callable[[int], None] = lambda _: None
) -> Measurement:
    """Read the file `name` ("-": stdin), of whichever format.

    `advance` is called with the number of bytes that have been read. Raises `InputError` if no
    format matches, or if the file lacks what the options do not say either.
    """
    with contextlib.closing(Source(name, advance)) as source:
        return _read(source, options)


def _read(source: Source, options: ReadOptions) -> Measurement:
    if capture.matches(source.start):
        return capture.read(source, options)
    if not source.head.strip():
        raise InputError(f"{source.name}: the file is empty")
    for form in FORMATS:
        if form.matches(source.head):
            return form.read(source, options)
    shown = source.head.strip().splitlines()[0][:60]
    raise InputError(
        f"{source.name}: no known format begins with `{shown}`; lasthop trace reads tables with names of"
        " columns (CSV), iperf3 --json, ping, fping and mahimahi traces (docs/traces.md)"
    )
