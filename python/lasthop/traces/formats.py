"""The formats of measurement files, told by the content of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from lasthop.errors import InputError
from lasthop.quantities import did_you_mean
from lasthop.traces import (
    capture,
    cellreplay,
    csv_table,
    flent,
    iperf3,
    iperf_text,
    irtt,
    leoreplayer,
    mahimahi,
    nuttcp,
    ping,
    saturator,
    series,
    ss,
    starlink,
)
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import Measurement


class Format(Protocol):
    """A module that reads one format."""

    NAME: str

    def matches(self, head: str) -> bool:
        """True if a text that begins like this has the format."""

    def read(self, source: Source, options: ReadOptions) -> Measurement:
        """Read the file; raises `InputError`."""


#: By the word of `--file-format`, and tried in this order: a table may look like many things.
FORMATS: dict[str, Format] = {
    "irtt": irtt,
    "starlink": starlink,
    "flent": flent,
    "iperf3": iperf3,
    "iperf": iperf_text,
    "nuttcp": nuttcp,
    "saturator": saturator,
    "ss": ss,
    "ping": ping,
    "mahimahi": mahimahi,
    "cellreplay": cellreplay,
    "leoreplayer-delay": leoreplayer,
    "series": series,
    "table": csv_table,
}
#: What the files are called, for error messages.
READ = (
    "captures (pcap, pcapng), iperf3 --json, iperf, nuttcp, ping, fping, irtt, Flent, ss -ti,"
    " Starlink's history, Saturator logs, traces of mahimahi, CellReplay and LeoReplayer, and"
    " tables with names of columns (CSV)"
)


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
    if options.file_format is not None:
        return _given(options.file_format).read(source, options)
    for form in FORMATS.values():
        if form.matches(source.head):
            return form.read(source, options)
    first = source.head.strip().splitlines()[0]
    if first.strip().isascii() and first.strip().isdigit():
        if options.column is not None:
            return csv_table.read(source, options)
        raise InputError(
            f"{source.name}: one number per line does not say what it is: delays of LeoReplayer"
            " (one way, ms) are read with --file-format leoreplayer-delay, rates with --column 1"
            " --unit UNIT --interval T"
        )
    raise InputError(
        f"{source.name}: no known format begins with `{first[:60]}`; lasthop trace reads {READ}"
        " (docs/traces.md)"
    )


def _given(word: str) -> Format:
    if word not in FORMATS:
        raise InputError(
            f"--file-format must be one of {', '.join(FORMATS)}, found `{word}`"
            f"{did_you_mean(word, list(FORMATS))}"
        )
    return FORMATS[word]
