"""The two ends of a transfer, as programs: `python -m lasthop.live.transfer`.

    serve PORT BYTES [CONGESTION_CONTROL]   sends BYTES to each client
    fetch ADDRESS PORT                      prints seconds and bytes
    receive PORT                            receives from one client; prints seconds and bytes

Only the standard library is imported: a server starts in some 30 ms.
"""

import socket
import sys
import time

#: First byte of TCP_INFO after the acknowledgment of a FIN (linux/tcp_states.h).
CLOSED = b"\x07"


def serve(port: int, size: int, congestion_control: str) -> None:
    """Send `size` bytes to each client that connects."""
    server = socket.create_server(("", port))
    if congestion_control:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    block = bytes(65536)
    while True:
        client, _ = server.accept()
        with client:
            left = size
            while left > 0:
                left -= client.send(block[:left])
            client.shutdown(socket.SHUT_WR)
            client.recv(1)


def fetch(address: str, port: int) -> tuple[float, int]:
    """Receive all that a server sends: seconds from the connect to the end, and bytes."""
    start, size = time.monotonic(), 0
    with socket.create_connection((address, port)) as connection:
        while data := connection.recv(65536):
            size += len(data)
    return time.monotonic() - start, size


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
        serve(int(words[1]), int(words[2]), words[3] if len(words) > 3 else "")
    elif words[0] == "receive":
        print(*receive(int(words[1])))
    else:
        print(*fetch(words[1], int(words[2])))
