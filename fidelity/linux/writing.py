"""The sender of a transfer that times its writes, as a program.

    ADDRESS PORT BYTES CONGESTION_CONTROL FOLDER WRITES

It takes the place of `lasthop.live.transfer send`, and never waits in the kernel: each call takes
what the send buffer has room for, so that its duration has no wait. WRITES is the number of bytes
of each write. The file `WRITTEN` in FOLDER has, for each call, its bytes, when it began and ended
(nanoseconds), and whether the program has waited for room before. Only the standard library is
imported.
"""

import json
import os
import select
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

#: Files: the receiver accepts connections (`lasthop.live.transfer`); the writes; when it began.
LISTENING, WRITTEN, REPORT = "listening", "written.json", "sender.json"

Call = tuple[int, int, int, bool]


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
    calls = list(timed(connection, size, writes))
    (folder / WRITTEN).write_text(json.dumps(calls), encoding="ascii")
    (folder / REPORT).write_text(json.dumps({"start": start}), encoding="ascii")
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def timed(connection: socket.socket, size: int, writes: int) -> list[Call]:
    """Write `size` bytes; what each call took."""
    room = select.poll()
    room.register(connection, select.POLLOUT)
    block = memoryview(bytes(min(writes, size)))
    rest, left, waited = block[:0], size, True
    calls: list[Call] = []
    while left > 0:
        rest = rest or block[:left]
        begin = time.monotonic_ns()
        try:
            taken = connection.send(rest, socket.MSG_DONTWAIT)
        except BlockingIOError:
            room.poll()
            waited = True
            continue
        calls.append((taken, begin, time.monotonic_ns(), waited))
        rest, left, waited = rest[taken:], left - taken, False
    return calls


if __name__ == "__main__":
    words = sys.argv[1:]
    to = words[0], int(words[1])
    send(to, int(words[2]), words[3], Path(words[4]), int(words[5]))
