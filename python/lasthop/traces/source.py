"""A measurement file as its readers see it, and the options that say what a file leaves open."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, cast

from lasthop.errors import InputError

#: Text from the start of a file by which readers recognise it.
HEAD = 65_536
# Lines after which progress is reported.
_LINES = 10_000
# Lines that may precede a JSON document, such as those of a script that started the program.
_BEFORE_JSON = 20


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
    #: Format of a text that does not say it: a key of `formats.FORMATS`.
    file_format: str | None = None
    #: Interface of a capture with several, by name or by number from 0.
    interface: str | None = None
    #: Capture of the same packets at the other end: a file, or an interface of the same file.
    far: str | None = None
    #: Address or network of the mobile end of a capture.
    mobile: str | None = None


class Source:
    """A file, of which readers see the start, the whole text, or one block after the other."""

    def __init__(self, name: str, advance: Callable[[int], None] = lambda _: None) -> None:
        """Open the file `name`, or stdin for "-"; `advance` is called with finished bytes.

        Raises `InputError` if it is empty.
        """
        self.name = name
        self._advance = advance
        self._reported = 0
        self._raw = _Counted(sys.stdin.buffer if name == "-" else open(name, "rb"))  # noqa: SIM115
        self._stream: IO[bytes] = io.BufferedReader(self._raw, HEAD)
        if self._stream.peek(2)[:2] == b"\x1f\x8b":
            self._stream = cast("IO[bytes]", gzip.GzipFile(fileobj=self._stream))
        #: The first bytes, unpacked.
        self.start = self._read(HEAD)
        if not self.start.strip():
            raise InputError(f"{name}: the file is empty")

    @property
    def head(self) -> str:
        """The start of the text. Raises `InputError` if the file is no text."""
        return _from_json(_text(self.start, self.name))

    @cached_property
    def text(self) -> str:
        """The whole text. Raises `InputError` if the file is no text."""
        return _from_json(_text(self.start + self._read(-1), self.name))

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content in blocks of about `size` bytes; each reports the one before as finished."""
        block = self.start
        while block:
            yield block
            self._report(self._raw.count)
            block = self._read(size)

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers from 1."""
        lines = self.text.splitlines()
        share = self._raw.count / max(len(lines), 1)
        for number, line in enumerate(lines, 1):
            yield number, line
            if number % _LINES == 0:
                self._report(int(share * number))
        self._report(self._raw.count)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _report(self, done: int) -> None:
        self._advance(done - self._reported)
        self._reported = done

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self.name}: the compressed file is damaged or cut off: {error}"
            ) from None


class _Counted(io.RawIOBase):
    """A file that counts the bytes that were read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()
        super().close()


def _from_json(text: str) -> str:
    """The text from a JSON document on that a script's own lines precede, or the whole text."""
    lines = text[:HEAD].splitlines(keepends=True)[:_BEFORE_JSON]
    first = next((i for i, line in enumerate(lines) if line.rstrip() == "{"), 0)
    return text[sum(map(len, lines[:first])) :]


def _text(content: bytes, name: str) -> str:
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not wide and b"\0" in content[:HEAD]:
        raise InputError(
            f"{name}: this is neither text nor a capture (pcap, pcapng); docs/traces.md lists what"
            " lasthop trace reads"
        )
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        # Names of places in another character set do not matter; numbers are ASCII.
        return content.decode("latin-1")
