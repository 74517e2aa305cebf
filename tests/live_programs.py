"""Programs that tests of live links run at the ends, as texts."""

from __future__ import annotations

import sys

# Datagrams of 1000 bytes at a constant rate: datagrams per second, seconds.
PROBE = """
import os, socket, sys, time
rate, length = float(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
start = time.monotonic()
for i in range(int(rate * length)):
    if i == int(rate * 0.8):
        pass  # Half
    while time.monotonic() < start + i / rate:
        if rate < 2000: time.sleep(0.2 / rate)
    try: s.sendto(bytes(972), ('100.64.0.1', 9))
    except ConnectionRefusedError: pass
time.sleep(0.5)
"""

#: A server for datagrams that takes none of them from its socket.
SINK = (
    f"{sys.executable} -c 'import socket, time;"
    ' s = socket.socket(2, 2); s.bind(("", 9)); time.sleep(60)\''
)

# Holds a processor for 200 ms with a higher priority than the link has.
SPIN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
end = time.monotonic() + 0.2
while time.monotonic() < end: pass
"""

# A datagram to a closed port, which the kernel answers by ICMP.
PING = """
import socket
def ping(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((address, 9)); s.settimeout(120); s.send(b'?')
        try: s.recv(1)
        except ConnectionRefusedError: pass
"""
