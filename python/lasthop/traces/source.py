"""A measurement file as its readers see it, and the options that say what a file leaves open."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.errors import InputError

#: Text from the start of a file by which readers recognise it.
HEAD = 65_536
# Lines after which progress is reported.
_LINES = 10_000


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file; `None` is what the file must say itself."""

    #: Unit of rates or sizes, of round-trip times, of losses and of times.
    unit: str | None = None
    rtt_unit: str | None = None
    loss_unit: str | None = None
    time_unit: str | None = None
    #: Columns of a table, by name or by number from 1.
    time_column: str | None = None
    column: str | None = None
    up_column: str | None = None
    rtt_column: str | None = None
    loss_column: str | None = None
    #: Format of times, as `strptime` has it.
    time_format: str | None = None
    #: Seconds between two pings.
    interval_s: float | None = None


class Source:
    """A file, read completely."""

    def __init__(self, name: str, advance: Callable[[int], None] = lambda _: None) -> None:
        """Read the file `name`, or stdin for "-"; `advance` is called with finished bytes.

        Raises `InputError` if it is empty or no text.
        """
        self.name = name
        self._advance = advance
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        self.size = len(content)
        if content.startswith(b"\x1f\x8b"):
            content = _unpacked(content, name)
        self.text = _text(content, name)
        if not self.text.strip():
            raise InputError(f"{name}: the file is empty")

    @property
    def head(self) -> str:
        """The start of the text."""
        return self.text[:HEAD]

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers from 1."""
        lines = self.text.splitlines()
        share = self.size / max(len(lines), 1)
        reported = 0
        for number, line in enumerate(lines, 1):
            yield number, line
            if number % _LINES == 0:
                done = int(share * number)
                self._advance(done - reported)
                reported = done
        self._advance(self.size - reported)


def _unpacked(content: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name}: the compressed file is damaged or cut off: {error}") from None


def _text(content: bytes, name: str) -> str:
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not wide and b"\0" in content[:HEAD]:
        raise InputError(
            f"{name}: this is not text; lasthop trace reads tables (CSV), iperf3 --json, ping,"
            " fping and mahimahi traces (docs/traces.md)"
        )
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        # Names of places in another character set do not matter; numbers are ASCII.
        return content.decode("latin-1")
