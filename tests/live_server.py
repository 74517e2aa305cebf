"""A TCP server for tests of live links: sends a file to each client, or stores what one sends.

Usage: live_server.py PORT send|store FILE [CONGESTION_CONTROL]
"""

import socket
import sys

port, what, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
server = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
if len(sys.argv) > 4:
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[4].encode())
while True:
    client, _ = server.accept()
    with client:
        if what == "send":
            with open(path, "rb") as file:
                client.sendfile(file)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)
        else:
            with open(path, "wb") as file:
                while data := client.recv(65536):
                    file.write(data)
