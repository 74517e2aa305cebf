"""The two ends of a transfer, as programs: `python -m lasthop.live.transfer`.

    serve PORT BYTES [CONGESTION_CONTROL [FILE]]   sends BYTES to each client; see `sample` for FILE
    fetch ADDRESS PORT [BYTES]                     prints seconds (until BYTES are there) and bytes
    receive PORT                                   receives from one client; prints the same

Only the standard library is imported: a server starts in some 30 ms.
"""

import json
import socket
import struct
import sys
import threading
import time

#: First byte of TCP_INFO after the acknowledgment of a FIN (linux/tcp_states.h).
CLOSED = b"\x07"
#: Offsets of snd_cwnd (segments) and bytes_acked in TCP_INFO (linux/tcp.h).
CWND, ACKED = 80, 120
#: Time between two samples of them, s.
INTERVAL = 0.0005


def serve(port: int, size: int, congestion_control: str, file: str) -> None:
    """Send `size` bytes to each client that connects."""
    server = socket.create_server(("", port))
    if congestion_control:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    block = bytes(65536)
    while True:
        client, _ = server.accept()
        sampler = threading.Thread(target=sample, args=(client, size, file))
        if file:
            sampler.start()
        with client:
            left = size
            while left > 0:
                left -= client.send(block[:left])
            if file:
                sampler.join()
            client.shutdown(socket.SHUT_WR)
            client.recv(1)


def sample(connection: socket.socket, size: int, file: str) -> None:
    """Write to `file`, as JSON, bytes acknowledged and cwnd (segments) of a connection, each time
    that one of them has changed, until `size` bytes are acknowledged.

    The kernel's tracepoint tcp_probe reports the same for each ACK, but only to root, and for all
    namespaces of the machine.
    """
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
        time.sleep(INTERVAL)
    with open(file, "w", encoding="ascii") as out:
        json.dump(samples, out)


def fetch(address: str, port: int, enough: int) -> tuple[float, int]:
    """Receive all that a server sends: seconds from the connect until `enough` bytes are there, or
    (0) the end, and bytes.
    """
    start, size, seconds = time.monotonic(), 0, None
    with socket.create_connection((address, port)) as connection:
        while data := connection.recv(65536):
            size += len(data)
            if seconds is None and size >= enough > 0:
                seconds = time.monotonic() - start
    return time.monotonic() - start if seconds is None else seconds, size


def receive(port: int) -> tuple[float, int]:
    """Receive all that one client sends: seconds from its connect to the end, and bytes."""
    client, _ = socket.create_server(("", port)).accept()
    start, size = time.monotonic(), 0
    with client:
        while data := client.recv(65536):
            size += len(data)
        seconds = time.monotonic() - start
        # The link ends with this process: until then the sender learns that all has arrived.
        client.shutdown(socket.SHUT_WR)
        while client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != CLOSED:
            time.sleep(0.005)
    return seconds, size


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "serve":
        serve(int(words[1]), int(words[2]), *[*words[3:5], "", ""][:2])
    elif words[0] == "receive":
        print(*receive(int(words[1])))
    else:
        print(*fetch(words[1], int(words[2]), int(words[3]) if len(words) > 3 else 0))
