"""A TCP client for tests of live links: stores what a server sends, or sends a file. Prints the
seconds that it took.

Usage: live_client.py ADDRESS PORT store|send FILE
"""

import socket
import sys
import time

address, port, what, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
start = time.monotonic()
with socket.create_connection((address, port), timeout=300) as connection:
    if what == "store":
        with open(path, "wb") as file:
            while data := connection.recv(65536):
                file.write(data)
    else:
        with open(path, "rb") as file:
            connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
print(time.monotonic() - start)
