"""The two ends of a connection with requests and responses, as programs.

    serve PORT CONGESTION_CONTROL
    request ADDRESS PORT BYTES FOLDER

The client reads the pauses after its responses, in seconds, from the file `PAUSES` in FOLDER, and
writes the response times to the file `RESPONSES`: from the request to the last byte of the
response. Only the standard library is imported.
"""

import json
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

#: Bytes of a request, which begins with the size of the response.
REQUEST, SIZE = 400, struct.Struct("!Q")
PAUSES, RESPONSES = "pauses.json", "responses.json"


def serve(port: int, congestion_control: str) -> None:
    """Answer the requests of one client."""
    listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    client, _ = listener.accept()
    with client:
        while len(request := client.recv(REQUEST, socket.MSG_WAITALL)) == REQUEST:
            (size,) = SIZE.unpack_from(request)
            client.sendall(bytes(size))


def request(server: tuple[str, int], size: int, folder: Path) -> None:
    """Request responses of `size` bytes, one after another."""
    pauses = json.loads((folder / PAUSES).read_text(encoding="ascii"))
    text, times = SIZE.pack(size).ljust(REQUEST, b"\0"), []
    with socket.create_connection(server) as connection:
        for pause in pauses:
            start, left = time.monotonic(), size
            connection.sendall(text)
            while left > 0 and (data := connection.recv(min(left, 1 << 16))):
                left -= len(data)
            if left > 0:
                return
            times.append(time.monotonic() - start)
            time.sleep(pause)
    (folder / RESPONSES).write_text(json.dumps(times), encoding="ascii")


if __name__ == "__main__":
    words = sys.argv[1:]
    # As lasthop.live.transfer does.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    if words[0] == "serve":
        serve(int(words[1]), words[2])
    else:
        request((words[1], int(words[2])), int(words[3]), Path(words[4]))
