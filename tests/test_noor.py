"""noor's LAN and schemes: traffic ledger, warning, source and channel."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import document

import lasthop
from lasthop.analysis import metrics
from lasthop.cli.main import main

LAN = """
duration = "5 s"
[[cell]]
members = ["n{1..6}"]
mac = "csma-lan"
queue = "unlimited"
[[flow]]
from = "n{1..5..2}"
to = "n{2..6..2}"
count = 9
each = 3
stagger = "10 ms"
app = { kind = "on-off", mean_on = "1 s", mean_off = "1 s" }
segment = "76 B"
loss = { model = "two-state", good = "1 s", bad = "0.33 s", good_rate = 1e-6, bad_rate = 1e-3 }
[tcp]
profile = "ns-2.35"
scheme = "reno"
receive_window = "32 segments"
[measure]
from = "1 s"
"""


@pytest.mark.parametrize("scheme", ["reno", "noor-aer", "noor-eaer"])
def test_every_bit_is_accounted_for(scheme: str) -> None:
    run = lasthop.run(text=LAN, scheme=scheme, seed=2).data
    bits = dict(run["traffic_bits"])
    came = sum(bits.pop(k) for k in ("before", "offered", "injected"))
    assert came == sum(bits.values()) > 1e6
    assert bits["bit_errors"] > 0
    assert bits["collisions"] > 0
    assert bits["queue_drops"] == bits["at_agents"] == 0
    # All data is in order in the end, except for data behind a hole at the start or end of
    # measurement.
    payload = sum(f["delivered_bytes"] for f in run["flows"])
    assert bits["data"] == pytest.approx(payload * 8 * 116 / 76, rel=0.1)
    of_run = metrics.of_run(run)
    assert run["measured_s"] == pytest.approx(4.0)
    assert of_run["cumulative_throughput_bps"] == pytest.approx(bits["data"] / 4.0)
    assert 0 < (of_run["contention_loss_ratio"] or 0) < 0.5


def test_noor_schemes_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lan.toml"
    file.write_text(LAN)
    says = "noor-eaer is unsafe outside a private LAN"
    assert main(["run", str(file), "--scheme", "noor-eaer"]) == 0
    assert f"warning: {says}" in capsys.readouterr().out
    assert main(["compare", str(file), "--schemes", "reno,noor-eaer", "--seeds", "2"]) == 0
    assert f"warning: {says}" in capsys.readouterr().out.splitlines()[1]
    words = ("--schemes", "reno,noor-eaer", "--seeds", "2")
    reno, noor = document(capsys, "compare", file, *words)["points"][0]["schemes"]
    assert reno["warnings"] == []
    assert noor["warnings"][0].startswith(says)
    assert main(["schemes"]) == 0
    assert "[unsafe outside a private LAN]" in capsys.readouterr().out
    assert main(["run", str(file)]) == 0
    assert "warning" not in capsys.readouterr().out
