"""The two ends of a transfer, as programs: `python -m lasthop.live.transfer`.

    send ADDRESS PORT BYTES CONGESTION_CONTROL FOLDER SECONDS SNDBUF WRITES
    receive PORT BYTES [FOLDER]

The receiver waits for one connection, and prints how many of the BYTES arrived and when the last
one did; with FOLDER it writes both to a file. The sender connects as soon as the receiver accepts
connections, which a file in FOLDER tells: no packet but those of the connection passes the link. It
writes a file there, too; see `sample`. SNDBUF is the value of SO_SNDBUF, or 0 for the buffer that
the kernel adapts; WRITES is the number of bytes of each write. Both have the same clock.

Only the standard library is imported: a program starts in some 30 ms.
"""

import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

#: First byte of TCP_INFO after the acknowledgment of a FIN (linux/tcp_states.h).
CLOSED = b"\x07"
#: Offsets of snd_cwnd (segments), bytes_acked and notsent_bytes in TCP_INFO (linux/tcp.h).
CWND, ACKED, UNSENT = 80, 120, 144
#: With this much unsent the connection is closed: not before, for the tracepoint tcp_probe tells
#: nothing of a connection that is closing; not later, for the last data carry the FIN.
LAST_BYTES = 128 << 10
#: Socket option: number of a connection that no other one of this machine has (asm/socket.h).
SO_COOKIE = 57
#: Files: the receiver accepts connections; bytes that it has, and when the last one arrived; what
#: the sender reports.
LISTENING, RECEIVED, REPORT = "listening", "receiver.json", "sender.json"


def use_real_time() -> None:
    """Schedule this process as the link between the ends, if it may: on a busy machine programs
    otherwise wait for some milliseconds, which a short transfer shows.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def send(
    receiver: tuple[str, int],
    size: int,
    congestion_control: str,
    folder: Path,
    interval: float,
    socket_use: tuple[int, int],
) -> None:
    """Send `size` bytes to the receiver. `socket_use`: SO_SNDBUF, if it is not 0, and the bytes of
    each write.
    """
    # A link starts the receiver when something at this end has a socket.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ready:
        ready.bind(("", 0))
        while not (folder / LISTENING).exists():
            time.sleep(0.001)
    use_real_time()
    family = socket.AF_INET6 if ":" in receiver[0] else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    send_buffer, writes = socket_use
    if send_buffer > 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    block, left = bytes(min(writes, size)), size
    # A busy machine takes long to start a thread: not between handshake and data.
    connected: queue.SimpleQueue[float] = queue.SimpleQueue()
    arguments = (connection, connected, size, folder, interval)
    sampler = threading.Thread(target=sample, args=arguments, daemon=True)
    sampler.start()
    start = time.monotonic()
    connection.connect(receiver)
    connected.put(start)
    while left > 0:
        connection.sendall(block[:left] if left < len(block) else block)
        left -= min(left, len(block))
    while unsent(connection) > LAST_BYTES:
        time.sleep(interval)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    sampler.join()


def unsent(connection: socket.socket) -> int:
    """Bytes that the application has written and TCP will still send."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, UNSENT + 4)
    (size,) = struct.unpack_from("I", info, UNSENT)
    return 0 if info[:1] == CLOSED else int(size)


def sample(
    connection: socket.socket,
    connected: queue.SimpleQueue[float],
    size: int,
    folder: Path,
    interval: float,
) -> None:
    """Once `connected` says when the connection began, write that to the file `REPORT`, as JSON,
    with its cookie and samples each `interval` seconds until `size` bytes are acknowledged: bytes
    acknowledged and cwnd (segments), if one of them has changed.
    """
    start = connected.get()
    (cookie,) = struct.unpack("Q", connection.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))
    samples, last = [], None
    while last is None or last[0] < size:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ACKED + 8)
        (cwnd,), (acked,) = (
            struct.unpack_from("I", info, CWND),
            struct.unpack_from("Q", info, ACKED),
        )
        if (acked, cwnd) != last:
            last = acked, cwnd
            samples.append(last)
        if info[:1] == CLOSED:
            break
        time.sleep(interval)
    report = {"start": start, "cookie": cookie, "samples": samples}
    part = folder / "report.part"
    part.write_text(json.dumps(report), encoding="ascii")
    part.replace(folder / REPORT)


def receive(port: int, enough: int, folder: Path | None) -> tuple[int, float]:
    """Receive from one client: bytes, and the time at which `enough` bytes were there (or the
    end).
    """
    listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    if folder is not None:
        (folder / LISTENING).touch()
    use_real_time()
    client, _ = listener.accept()
    size, arrived = 0, None
    with client:
        while data := client.recv(65536):
            size += len(data)
            if arrived is None and size >= enough:
                arrived = time.monotonic()
        arrived = time.monotonic() if arrived is None else arrived
        if folder is not None:
            (folder / RECEIVED).write_text(json.dumps((size, arrived)), encoding="ascii")
        # The link ends with this process: until then the sender learns that all has arrived.
        client.shutdown(socket.SHUT_WR)
        while client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != CLOSED:
            time.sleep(0.005)
    # With the link the sender ends, too.
    deadline = time.monotonic() + 2
    while folder and not (folder / REPORT).exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return size, arrived


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "send":
        use = int(words[7]), int(words[8])
        to = words[1], int(words[2])
        send(to, int(words[3]), words[4], Path(words[5]), float(words[6]), use)
    else:
        where = Path(words[3]) if len(words) > 3 else None
        print(*receive(int(words[1]), int(words[2]), where))
