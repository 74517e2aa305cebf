"""Senders that time their writes, as a program.

    ADDRESS PORT BYTES CONGESTION_CONTROL FOLDER WRITES
    serve PORT FOLDER

The first takes the place of `lasthop.live.transfer send`, the second that of `http.server`. They
never wait in the kernel: each call takes what the send buffer has room for, so that its duration
has no wait. WRITES is the number of bytes of each write. The file `WRITTEN` in FOLDER has, for each
call, its bytes, when it began and ended (nanoseconds), and whether the program has waited for room
before. Only the standard library is imported.
"""

import http.server
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

#: Files: the receiver accepts connections (`lasthop.live.transfer`); the writes; when it began.
LISTENING, WRITTEN, REPORT = "listening", "written.json", "sender.json"

Call = tuple[int, int, int, bool]


class Writer:
    """Writes to a connection; what each call took."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.calls: list[Call] = []
        self.waited = True
        self.room = select.poll()
        self.room.register(connection, select.POLLOUT)

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            begin = time.monotonic_ns()
            try:
                taken = self.connection.send(rest, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self.room.poll()
                self.waited = True
                continue
            self.calls.append((taken, begin, time.monotonic_ns(), self.waited))
            rest, self.waited = rest[taken:], False
        return len(data)

    def store(self, folder: Path) -> None:
        """Write what each call took to the folder."""
        (folder / WRITTEN).write_text(json.dumps(self.calls), encoding="ascii")


def send(receiver: tuple[str, int], size: int, rule: str, folder: Path, writes: int) -> None:
    """Send `size` bytes, and write what each call took to the folder."""
    # A link starts the receiver when something at this end has a socket.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ready:
        ready.bind(("", 0))
        while not (folder / LISTENING).exists():
            time.sleep(0.001)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, rule.encode())
    start = time.monotonic()
    connection.connect(receiver)
    writer = Writer(connection)
    block = memoryview(bytes(min(writes, size)))
    for offset in range(0, size, writes):
        writer.write(block[: size - offset])
    writer.store(folder)
    (folder / REPORT).write_text(json.dumps({"start": start}), encoding="ascii")
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


class Handler(http.server.SimpleHTTPRequestHandler):
    """The handler of `http.server`, with timed writes of the file."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send the file."""
        writer = Writer(self.connection)
        super().copyfile(source, cast(Any, writer))
        writer.store(Path(self.directory))


def serve(port: int, folder: str) -> None:
    """Serve the files of a folder."""
    handler = partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("", port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "serve":
        serve(int(words[1]), words[2])
    else:
        to = words[0], int(words[1])
        send(to, int(words[2]), words[3], Path(words[4]), int(words[5]))
