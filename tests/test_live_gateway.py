"""`lasthop gateway` between real network namespaces."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from busy import OtherPrograms
from optional import needs
from processes import ended

from lasthop import _native
from lasthop.cli.main import main
from lasthop.live import link as live

HERE = Path(__file__).parent
SIZE = 2_000_000
#: The most memory of a gateway under a flood, KiB.
MOST_MEMORY = 128 << 10


def reason() -> str | None:
    """Why this machine cannot run a gateway in network namespaces."""
    if os.geteuid() != 0:
        return "needs root"
    missing = {name: why for name, _, why, _ in _native.gateway_abilities()}
    return live.missing() or missing["queues"]


REASON = reason()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.xdist_group("gateway"),
]


def carry(folder: Path, scheme: str, *signal: str, version: int = 4) -> dict[str, Any]:
    """A download through a router with a gateway, over a radio link with 1 % loss."""
    folder.mkdir()
    script = HERE / "live_gateway.py"
    router = " ".join(["router", scheme, str(folder), *signal])
    link = ["--rate", "10Mbps", "--rtt", "4ms", "--loss", "1%", "--bound", "10s"]
    call = [sys.executable, "-m", "lasthop", "link", *link]
    call += ["--server", f"{sys.executable} {script} {router}"]
    call += ["--", sys.executable, str(script), "client", str(SIZE), str(folder), str(version)]
    done = ended(call)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    sent = random.Random(1).randbytes(SIZE)
    assert found["sha256"] == hashlib.sha256(sent).hexdigest()
    assert json.loads((folder / "changed.json").read_text()) == []
    text = (folder / "report.json").read_text() if scheme != "none" else ""
    return {**found, "report": json.loads(text) if text else None}


def bed(*words: str) -> dict[str, Any]:
    """What `gateway_bed.py` finds."""
    call = ["unshare", "-n", sys.executable, str(HERE / "gateway_bed.py"), *words]
    done = ended(call)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs("ip")
def test_snoop_helps_a_reno_sender(tmp_path: Path) -> None:
    others = OtherPrograms()
    with ThreadPoolExecutor() as pool:
        # Both wait for their links most of the time.
        carried = [pool.submit(carry, tmp_path / scheme, scheme) for scheme in ("none", "snoop")]
        plain, snoop = (future.result() for future in carried)
    # Losses follow the seed, so that both transfers meet the same ones.
    ratio = plain["s"] / snoop["s"]
    others.decide(ratio >= 2.3, f"{plain['s']:.2f} s without Snoop, {snoop['s']:.2f} s with it")
    report = snoop["report"]
    assert report["agent"]["local_retransmissions"] >= 5
    assert sum(report["dropped"].values()) == report["agent"]["dupacks_suppressed"]
    assert report["not_injected"] == 0


@needs("ip")
def test_a_transfer_goes_on_without_its_gateway(tmp_path: Path) -> None:
    def disturbed(name: str, version: int) -> dict[str, Any]:
        return carry(tmp_path / name, "snoop", "1", name, version=version)

    others = OtherPrograms()
    # By both versions of IP, at once.
    with ThreadPoolExecutor() as pool:
        killed, stopped = pool.map(disturbed, ("KILL", "STOP"), (4, 6))
    assert killed["report"] is None
    report = stopped["report"]
    assert report["stopped"]["times"] >= 1
    assert report["not_injected"] == 0
    # Without a processor, a gateway is stopped as well, or sees no loss before it is.
    others.decide(report["injected"] >= 1, f"nothing was repeated, stopped: {report['stopped']}")


def plain(listing: str) -> list[str]:
    """The lines of the rules, without what is there only while a gateway runs."""
    text = re.sub(r" #.*|queue flags bypass to \d+|elements = .*|flags owner", "", listing)
    return [line.strip() for line in text.splitlines() if line.strip()]


@needs("ip", "nft")
def test_rules_are_left_by_nobody() -> None:
    found = bed("rules")
    assert "lasthop-wlan0" in found["installed"]
    assert 'oifname "wlan0"' in found["installed"]
    assert plain(found["installed"]) == plain(found["printed"])
    for name in ("second", "remove_running"):
        status, text = found[name]
        assert (status, "lasthop-wlan0 belongs to a gateway" in text) == (2, True), text
    for name in ("ended", "killed", "replaced", "removed"):
        assert found[name] == [], name
    assert (found["status"], found["report"]["scheme"]) == (0, "snoop")
    state = json.loads(found["state"])
    assert state["scheme"] == "snoop"
    assert state.keys() <= found["report"].keys()
    # CAP_NET_ADMIN and nothing else, as nobody.
    rights = found["rights"]
    assert rights["Uid"] == ["65534"] * 4
    assert int(rights["CapEff"][0], 16) == int(rights["CapPrm"][0], 16) == 1 << 12
    assert rights["NoNewPrivs"] == ["1"]


@needs("ip")
def test_memory_is_bounded_under_a_flood_of_syns() -> None:
    size = 200_000_000
    found = bed("flood", "60000", str(size))
    assert found["snoop"]["alone"][0] == found["snoop"]["flooded"][0] == size
    assert found["memory_kib"] < MOST_MEMORY
    report = found["report"]
    # Most SYNs of a flood are not led into the queue.
    assert 0 < report["untouched"]["SYN"] < 60_000
    assert report["connections"] <= 16_384
    # SYNs that nobody answers give agents no state.
    assert report["agent"]["flows"] <= 2


@pytest.mark.parametrize(
    ("scheme", "why"),
    [
        ("westwood", "changes the ends of a connection"),
        ("ll-elsn", "also changes the ends"),
        ("lhp", "changes the frames"),
    ],
)
def test_schemes_that_cannot_run_are_refused(
    scheme: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", "--scheme", scheme, "--wireless", "lo"]) == 2
    text = capsys.readouterr().err
    assert f"scheme `{scheme}` {why}" in text
    assert "schemes that run on a gateway: " in text
    known = set(text.strip().rpartition(": ")[2].split(", "))
    assert known == {
        *("packet-control", "ack-pacing", "rate-control", "snoop"),
        *("i-tcp", "mtcp", "m-tcp", "rnf"),
    }


def test_the_rules_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gateway", "--wireless", "wlan0", "--wired", "eth0", "--dry-run"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert 'iifname "wlan0" oifname "eth0" meta l4proto @armed counter queue' in text
    assert "table ip6 lasthop-wlan0 {" in text


def test_an_unknown_interface_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--scheme", "snoop", "--wireless", "nowhere0"]) == 2
    assert "interface nowhere0: No such device" in capsys.readouterr().err
