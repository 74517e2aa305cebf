"""Which timeouts were spurious, where the right answer is evident."""

from pathlib import Path
from typing import Any

import lasthop

#: A flight of 11 segments is lost on the way down; on the way up nothing is. The receiver delays
#: its ACKs by up to 40 ms, four times the smallest RTO.
DELAYED_ACK = """
duration = "5 s"
[[link]]
between = ["server", "bs"]
rate = "1 Gbps"
delay = "0.1 ms"
queue = "unlimited"
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "100 Mbps"
delay = "0.4 ms"
forward.loss = { model = "scripted", data = [LOST] }
[[flow]]
app = { kind = "transfer", size = "2 MB" }
from = "server"
to = "phone"
[tcp]
profile = "rfc"
scheme = "newreno"
receive_window = "11 segments"
min_rto = "10 ms"
"""

#: The RTT is longer than the timeout of the SYN, and nothing is lost.
SPURIOUS_SYN = """
duration = "60 s"
last_hop = { rate = "10 Mbps", rtt = "4 s", queue = "2000 packets" }
[[flow]]
app = { kind = "transfer", size = "14480 B" }
"""


def _flow(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "case.toml"
    path.write_text(text)
    flow: dict[str, Any] = lasthop.run(path).data["flows"][0]
    return flow


def test_an_ack_that_the_receiver_delays_is_not_lost(tmp_path: Path) -> None:
    lost = ", ".join(f'"{n}:1"' for n in range(101, 112))
    flow = _flow(DELAYED_ACK.replace("LOST", lost), tmp_path)
    assert flow["timeouts"] == {"total": 2, "spurious": 1, "ack_loss": 0}


def test_timeouts_of_a_syn_that_arrives_are_spurious(tmp_path: Path) -> None:
    flow = _flow(SPURIOUS_SYN, tmp_path)
    assert flow["timeouts"] == {"total": 3, "spurious": 3, "ack_loss": 0}
    assert flow["retransmissions"] == {"total": 3, "spurious": 3}
    # The window is the initial one: two round trips and a half.
    assert 6 <= flow["completed_s"] < 6.1
