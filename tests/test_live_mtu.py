"""Live links with an MTU below that of the devices."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import validate
from processes import ended

from lasthop.live import link as live

REASON = live.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

# The kernel's numbers of these socket options are not in Python 3.11 and older.
OPTIONS = "IP_MTU_DISCOVER, IP_MTU, DO, DONT, V6_MTU_DISCOVER, V6_MTU = 10, 14, 2, 0, 23, 24"

# Answers each datagram with its length; at the same port, sends each TCP client 300 kB.
SERVER = """
import socket, threading
def stream():
    s = socket.create_server(('', 8000), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        c, _ = s.accept()
        c.sendall(bytes(300_000)); c.shutdown(1); c.recv(1)
threading.Thread(target=stream, daemon=True).start()
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.bind(('', 8000))
while True:
    data, address = u.recvfrom(65536)
    u.sendto(str(len(data)).encode(), address)
"""

CLIENT = f"""
import json, os, socket
{OPTIONS}
ends = [os.environ['LASTHOP_SERVER'], os.environ['LASTHOP_SERVER6']]
found = {{}}
def datagram(address, size, level, option, mtu, discover):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(level, option, discover)
    s.connect((address, 8000)); s.settimeout(1)
    for _ in range(20):
        try:
            s.send(bytes(size))
            return int(s.recv(100)), s.getsockopt(level, mtu)
        except TimeoutError: pass
        except OSError as e: found.setdefault('errors', []).append(e.errno)
        if s.getsockopt(level, mtu) < 1500: return None, s.getsockopt(level, mtu)
    return None, s.getsockopt(level, mtu)
v4, v6 = (0, IP_MTU_DISCOVER, IP_MTU), (41, V6_MTU_DISCOVER, V6_MTU)
found['fragments'] = datagram(ends[0], 3000, *v4, DONT)
found['fits'] = datagram(ends[0], 1372, *v4, DO)
found['large'] = datagram(ends[0], 1373, *v4, DO)
found['large6'] = datagram(ends[1], 1400, *v6, DO)
found['tcp'] = []
for end in ends:
    s = socket.create_connection((end, 8000))
    total = 0
    while data := s.recv(65536): total += len(data)
    found['tcp'].append([total, s.getsockopt(6, 2)])
    s.close()
print(json.dumps(found))
"""


def run(*words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client found, and the report of the link."""
    done = ended(
        [
            *(sys.executable, "-m", "lasthop", "link", "--bound", "10s", "--json", *words),
            *("--server", f'{sys.executable} -c "{SERVER}"', "--", sys.executable, "-c", CLIENT),
        ]
    )
    assert done.returncode == 0, done.stderr
    found, _, document = done.stdout.partition("\n")
    report = json.loads(document)
    validate("link", report)
    return json.loads(found), report


@pytest.mark.parametrize("device", ["tun", "packet"])
def test_packets_above_the_mtu_are_fragmented_or_refused(device: str) -> None:
    """As by a router: TCP's segments fit at once, and path MTU discovery learns the MTU."""
    found, report = run("--rate", "20Mbps", "--rtt", "20ms", "--mtu", "1400B", "--device", device)
    assert found["fragments"] == [3000, 1500]
    assert found["fits"] == [1372, 1500]
    assert found["large"] == [None, 1400]
    assert found["large6"] == [None, 1400]
    # MSS less the timestamps option; IPv6 has 20 bytes more of headers.
    assert found["tcp"] == [[300_000, 1348], [300_000, 1328]]
    above = {f"{x['from']}>{x['to']}": x["above_mtu"] for x in report["links"]}
    # Two of the three fragments that the client's kernel makes of 3000 bytes, and two datagrams.
    assert above.pop("phone>bs") == 4
    assert set(above.values()) == {0}


def test_a_small_mtu_between_routers(tmp_path: Path) -> None:
    """The same if the narrow link is not at an end."""
    scenario = tmp_path / "three.toml"
    scenario.write_text(
        "[[link]]\nbetween = ['server', 'router']\nrate = '20 Mbps'\n"
        "[[link]]\nbetween = ['router', 'bs']\nrate = '20 Mbps'\nmtu = '1400 B'\n"
        "[[link]]\nbetween = ['bs', 'phone']\nrate = '20 Mbps'\nradio = true\n"
    )
    found, report = run(str(scenario))
    assert (found["fragments"], found["large"]) == ([3000, 1500], [None, 1400])
    assert found["tcp"] == [[300_000, 1348], [300_000, 1328]]
    above = {f"{x['from']}>{x['to']}": x["above_mtu"] for x in report["links"]}
    assert above.pop("bs>router") == 4
    assert set(above.values()) == {0}


def test_an_mtu_above_that_of_the_devices_is_refused() -> None:
    words = [sys.executable, "-m", "lasthop", "link", "--mtu", "9000B", "--", "true"]
    done = ended(words)
    assert done.returncode == 2
    assert "an MTU of more than 1500 B; it exists only in simulation" in done.stderr
