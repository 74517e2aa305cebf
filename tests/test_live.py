"""Live links: real packets of the kernel's TCP over simulated links.

Everything is sent inside network namespaces that the tests make. Claims about time are checked in
valid runs only, and repeated twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from busy import PATIENCE, OtherPrograms, undecided
from documents import validate
from live_programs import PING, PROBE, SINK, SPIN
from optional import needs
from processes import PROGRAM, ended

from lasthop import _native
from lasthop.live import link as live

HERE = Path(__file__).parent
SERVER, CLIENT = str(HERE / "live_server.py"), str(HERE / "live_client.py")
REASON = live.missing()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

# Tests that measure time follow each other on one worker, so that not all of them are late.
measures_time = pytest.mark.xdist_group("time")


def run(*words: str, timeout: float = PATIENCE, cwd: Path | None = None) -> Any:
    """Run `lasthop link`, valid however late its packets are unless the words have a bound."""
    bound = () if "--bound" in words else ("--bound", "10s")
    return ended([*PROGRAM, "link", *bound, *words], timeout=timeout, cwd=cwd)


def transfer(
    tmp_path: Path, size: int, *words: str, upload: bool = False, v6: bool = False, cc: str = "reno"
) -> tuple[float, dict[str, Any]]:
    """Carry a random file over a link. Returns the seconds it took and the report."""
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(random.Random(1).randbytes(size))
    got.unlink(missing_ok=True)
    serve = ("store", got) if upload else ("send", sent)
    fetch = ("send", sent) if upload else ("store", got)
    server = f"{sys.executable} {SERVER} 8000 {serve[0]} {serve[1]} {cc}"
    address = "$LASTHOP_SERVER6" if v6 else "$LASTHOP_SERVER"
    client = [sys.executable, CLIENT, address, "8000", fetch[0], str(fetch[1])]
    done = run(*words, "--server", server, "--bound", "10s", "--json", "--", *client)
    assert done.returncode == 0, done.stderr
    assert digest(sent) == digest(got)
    seconds, _, document = done.stdout.partition("\n")
    report = json.loads(document)
    validate("link", report)
    return float(seconds), report


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def in_time(measure: Callable[[], tuple[float, dict[str, Any]]]) -> float:
    """The seconds of a run whose packets were in time; the test is undecided if there is none."""
    late = []
    for _ in range(3):
        seconds, report = measure()
        if report["lateness_us"]["p99"] <= 1000:
            return seconds
        late.append(report["lateness_us"]["p99"])
    undecided(f"the 99th percentiles of lateness were {late} µs, more than 1000 µs")


@pytest.mark.parametrize(
    ("scheme", "ends", "own"),
    [
        ("westwood", "", (True, False)),
        ("wtcp", "", (True, True)),
        ("noor-eaer", "own", (True, True)),
        ("none", "kernel,own", (False, True)),
    ],
)
@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_schemes_for_the_ends_run_at_own_ends(
    tmp_path: Path, scheme: str, ends: str, own: tuple[bool, bool], v6: bool
) -> None:
    words = ["--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%", "--scheme", scheme]
    words += ["--ends", ends] if ends else []
    _, report = transfer(tmp_path, 300_000, *words, upload=v6, v6=v6)
    assert report["ends"]["own"] == dict(zip(("server", "mobile"), own, strict=True))
    assert (report["connections"], report["own_drops"]) == (1, 0)


@pytest.mark.parametrize(
    "scheme",
    [
        *("none", "packet-control", "snoop", "ll-elsn", "ack-pacing", "rate-control"),
        *("fastack", "zhuge"),
    ],
)
@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_a_file_arrives_whole(tmp_path: Path, scheme: str, v6: bool) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%")
    _, report = transfer(tmp_path, 300_000, *hop, "--scheme", scheme, v6=v6)
    radio = next(x for x in report["links"] if x["from"] == "bs" and x["to"] == "phone")
    assert report["connections"] == 1
    assert report["own_drops"] == 0
    # Copies that were sent before the server learned that the client has all data are on their way.
    fates = ("delivered_frames", "lost_on_air", "dropped_at_queue", "frames_in_transit")
    assert radio["offered_frames"] == sum(radio[fate] for fate in fates)
    assert radio["delivered_frames"] * 1500 > 300_000
    # LL-ELSN has an agent at the mobile too, for uplink data.
    agents = {"none": 0, "ll-elsn": 2}.get(scheme, 1)
    assert [a["scheme"] for a in report["agents"]] == [scheme] * agents
    if scheme == "ll-elsn":
        assert report["agents"][0]["notices"] > 0
    if scheme == "fastack":
        counters = report["agents"][0]["counters"]
        assert min(counters["acks_sent"], counters["acks_suppressed"]) > 20


@pytest.mark.parametrize(
    ("scheme", "own"),
    [
        ("i-tcp", (False, False)),
        ("mtcp", (False, True)),
        ("m-tcp", (False, False)),
        ("rnf", (False, False)),
    ],
)
def test_relays_split_connections_on_the_link(
    tmp_path: Path, scheme: str, own: tuple[bool, bool]
) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%", "--scheme", scheme)
    _, report = transfer(tmp_path, 300_000, *hop, v6=scheme == "rnf")
    assert report["ends"]["own"] == dict(zip(("server", "mobile"), own, strict=True))
    relayed = [relay["counters"]["bytes_relayed"] for relay in report["relays"]]
    assert len(relayed) == 1
    assert relayed[0] >= 300_000
    if scheme == "rnf":
        assert report["relays"][0]["counters"]["rate_notices"] > 0
    if scheme == "m-tcp":
        _, report = transfer(tmp_path, 300_000, *hop, upload=True)
        assert report["own_drops"] == 0


@pytest.mark.parametrize("scheme", ["ll-elsn", "lhp", "ideal-bwe"])
def test_notices_reach_own_ends(tmp_path: Path, scheme: str) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "2%", "--scheme", scheme)
    _, report = transfer(tmp_path, 300_000, *hop)
    assert report["ends"]["own"]["server"]
    assert report["notices_taken"] > 0


def test_an_upload_arrives_whole(tmp_path: Path) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%")
    _, report = transfer(tmp_path, 300_000, *hop, "--scheme", "snoop", upload=True)
    radio = next(x for x in report["links"] if x["from"] == "phone")
    assert radio["delivered_frames"] * 1500 > 300_000


def test_a_trace_an_outage_and_link_retransmission(tmp_path: Path) -> None:
    scenario = tmp_path / "radio.toml"
    scenario.write_text(
        "[last_hop]\nrtt = '40 ms'\nloss = '2 %'\narq = { kind = 'selective-repeat' }\n"
        "outage = { from = '300 ms', length = '200 ms' }\n"
    )
    traces = ("--down", "synthetic-lte.down", "--up", "synthetic-lte.up")
    seconds, report = transfer(tmp_path, 200_000, str(scenario), *traces)
    assert seconds > 0.2
    radio = next(x for x in report["links"] if x["from"] == "bs" and x["to"] == "phone")
    assert radio["lost_on_air"] == 0


@measures_time
def test_a_link_has_its_rate(tmp_path: Path) -> None:
    size = 40_000_000
    hop = ("--rate", "100Mbps", "--rtt", "10ms", "--queue", "400 packets")
    others = OtherPrograms()
    rate = 8e-6 * size / in_time(lambda: transfer(tmp_path, size, *hop))
    others.decide(rate >= 93, f"goodput was {rate:.1f} Mbit/s of at least 93")


@needs("ip", "nft")
@pytest.mark.parametrize("device", ["tun", "packet"])
def test_the_network_outside_is_behind_a_link_without_a_server(device: str) -> None:
    words = ["--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%", "--scheme", "snoop"]
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    done = ended(
        [*unshare, sys.executable, str(HERE / "live_outside.py"), *words, "--device", device]
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    found, report, port = result["found"], result["report"], result["port"]
    validate("link", report)
    sent = hashlib.sha256(bytes([102_400 % 251]) * 300_000).hexdigest()
    tcp = ["192.0.2.7", "2001:db8::7", "100.64.0.1", "fd6c:6173:7468::1"]
    assert {a: found[a] for a in tcp} == {a: [sent, 300_000, [a, port]] for a in tcp}
    assert found["closed"] == "ConnectionResetError"
    for address in ("192.0.2.7", "2001:db8::7", "100.64.0.1"):
        assert found[f"datagram {address}"] == "noitseuq"
        assert found[f"refused {address}"] == "ConnectionRefusedError"
    assert found["echo 100.64.0.1"] == 0
    assert found["echo 198.51.100.1"] == "OSError"
    outer = report["outer_network"]
    assert (outer["missing"], outer["connections"], outer["refused"]) == (None, 5, 1)
    assert outer["datagrams"] >= 9
    assert report["agents"][0]["counters"]
    assert (report["device"], report["own_drops"]) == (device, 0)
    assert result["changed"] == []


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_packet_sockets_carry_what_tun_devices_carry(tmp_path: Path, v6: bool) -> None:
    hop = ("--rate", "50Mbps", "--rtt", "10ms", "--loss", "0.2%", "--device", "packet")
    _, report = transfer(tmp_path, 3_000_000, *hop, v6=v6)
    assert (report["device"], report["own_drops"], report["connections"]) == ("packet", 0, 1)
    _, report = transfer(tmp_path, 1_000_000, *hop, v6=v6, upload=True)
    assert report["own_drops"] == 0


def test_an_ordinary_user_can_make_a_link(tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv to become another user")
    words = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable]
    words += ["-m", "lasthop", "link", "--rate", "20Mbps", "--rtt", "10ms", "--bound", "10s"]
    words += ["--server", f"{sys.executable} -m http.server 80", "--json", "--"]
    fetch = "import os, urllib.request as u; u.urlopen(f'http://{os.environ[\"LASTHOP_SERVER\"]}/')"
    done = ended([*words, sys.executable, "-c", fetch], cwd="/usr/share")
    if "a live link needs" in done.stderr:
        # The machine allows it to nobody but root; one sentence says what is missing.
        assert len(done.stderr.splitlines()) == 1
        return
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["connections"] == 1
    assert not report["real_time"] or os.access("/dev/net/tun", os.W_OK)


def test_a_link_in_a_user_namespace_where_only_one_user_has_a_number(tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("the machine allows no user namespaces")
    serve = f"{sys.executable} {SERVER} 8000 send {SERVER}"
    fetch = [sys.executable, CLIENT, "$LASTHOP_SERVER", "8000", "store", str(tmp_path / "got")]
    link = [sys.executable, "-m", "lasthop", "link", "--rate", "20Mbps", "--bound", "10s", "--json"]
    done = ended([*unshare, *link, "--server", serve, "--", *fetch])
    assert done.returncode == 0, done.stderr
    assert digest(tmp_path / "got") == digest(Path(SERVER))


def probe(program: str, rate: int, length: float, *hop: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "lasthop", "link", "--json", *hop, "--server", SINK, "--"]
    words += [sys.executable, "-c", program, str(rate), str(length)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@measures_time
def test_ten_thousand_datagrams_per_second_leave_in_time() -> None:
    others, late = OtherPrograms(), []
    for _ in range(3):
        link = probe(PROBE, 10_000, 2, "--rate", "100Mbps", "--rtt", "10ms")
        out, _ = link.communicate(timeout=PATIENCE)
        report = json.loads(out)
        p99 = report["lateness_us"]["p99"]
        offered = sum(x["offered_frames"] for x in report["links"] if x["from"] == "phone")
        # The kernel drops what the link does not fetch in time.
        if report["real_time"] and p99 <= 100:
            others.decide(offered >= 20_000, f"{offered} of 20000 datagrams reached the link")
            return
        late.append(p99)
    undecided(f"the 99th percentiles of lateness were {late} µs, more than 100 µs")


@measures_time
def test_a_run_that_is_held_up_is_invalid() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for processes that hold the machine up")
    # 500 datagrams per second for 2 s; from 0.8 s on, both processors are held up for 200 ms.
    begin = (
        "import subprocess; spinners = [subprocess.Popen([sys.executable, '-c', SPIN, str(cpu)])"
    )
    hold = f"{begin} for cpu in os.sched_getaffinity(0)]"
    end = "assert [spinner.wait(300) for spinner in spinners] == [0] * len(spinners)"
    program = f"SPIN = {SPIN!r}\n{PROBE.replace('pass  # Half', hold)}\n{end}"
    link = probe(program, 500, 2, "--rate", "10Mbps", "--rtt", "400ms")
    out, err = link.communicate(timeout=PATIENCE)
    report = json.loads(out)
    assert (link.returncode, report["valid"], report["exit_status"]) == (1, False, 0)
    assert report["lateness_us"]["max"] > 100_000
    assert "INVALID" in err


def test_a_full_disk_ends_the_link_with_a_message() -> None:
    ping = ("--", sys.executable, "-c", f"{PING}\nping('100.64.0.1')")
    done = run("--rate", "1Mbps", "--rtt", "10ms", "--pcap", "/dev/full", *ping)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_under_the_results_is_reported(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    # A file system of 32 KiB, which exists only in the mount namespace of the shell.
    disk = f'mount -t tmpfs -o size=32k none {tmp_path} && exec "$@"'
    link = [sys.executable, "-m", "lasthop", "link", "--rate", "20Mbps", "--bound", "10s"]
    # A file outside the small file system, whose transfer fills that.
    sent = tmp_path.parent / f"{tmp_path.name}-sent"
    sent.write_bytes(bytes(1_000_000))
    serve = f"{sys.executable} {SERVER} 8000 send {sent}"
    fetch = [sys.executable, CLIENT, "$LASTHOP_SERVER", "8000", "store", "/dev/null"]
    for option in (["--out", f"{tmp_path}/out"], ["--pcap", f"{tmp_path}/link.pcapng"]):
        words = ["unshare", "--mount", "sh", "-c", disk, "sh", *link, *option, "--server", serve]
        done = ended([*words, "--", *fetch])
        assert done.returncode == 2, done.stderr
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_results_belong_to_the_user_who_called_sudo(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, which sudo gives")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    # Folders of pytest are closed to other users.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    words = ["--rate", "5Mbps", "--bound", "10s", "--out", "new/out", "--pcap", "link.pcapng"]
    done = ended(
        [*PROGRAM, "link", *words, "--", "sh", "-c", "sleep 60 & id -u"],
        env={**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"},
        cwd=home,
    )
    assert (done.returncode, done.stdout) == (0, "65534\n"), done.stderr
    files = list(home.rglob("*"))
    assert {home / "link.pcapng", home / "new", home / "new" / "out" / "link.json"} < set(files)
    assert {file.stat().st_uid for file in files} == {65534}


def test_the_command_runs_as_the_user_who_called_sudo() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, which sudo gives")
    show = "id -u; id -g; id -G; cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
    # A command waits five seconds for a server without a socket.
    server = f"sh -c 'id -u >&2; {sys.executable} -m http.server 80 2>/dev/null || sleep 60'"
    words = ["--rate", "1Mbps", "--server", server, "--", "sh", "-c", show]
    done = ended(
        [*PROGRAM, "link", "--bound", "10s", *words],
        env={**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"},
        cwd="/",
    )
    assert done.stdout.split() == ["65534", "65534", "65534", "0"], done.stderr
    assert done.stderr.startswith("65534\n")


@measures_time
def test_snoop_helps_a_real_sender(tmp_path: Path) -> None:
    hop = ("--rate", "10Mbps", "--rtt", "44ms", "--loss", "1%")
    cases = [(cc, scheme) for cc in ("reno", "cubic") for scheme in ("none", "snoop")]

    def seconds(case: tuple[str, str]) -> float:
        cc, scheme = case
        folder = tmp_path / cc / scheme
        folder.mkdir(parents=True)
        words = (*hop, "--scheme", scheme)
        return in_time(lambda: transfer(folder, 3_000_000, *words, cc=cc))

    # Side by side: a transfer waits most of its time.
    with ThreadPoolExecutor(len(cases)) as pool:
        others = OtherPrograms()
        took = dict(zip(cases, pool.map(seconds, cases), strict=True))
    for cc in ("reno", "cubic"):
        ratio = took[cc, "none"] / took[cc, "snoop"]
        found = f"{cc} took {ratio:.2f} times as long without Snoop, of at least 2.3"
        others.decide(ratio >= 2.3, found)


def test_the_exit_status_is_that_of_the_command() -> None:
    assert run("--rate", "1Mbps", "--rtt", "10ms", "--", "sh", "-c", "exit 7").returncode == 7
    killed = run("--rate", "1Mbps", "--rtt", "10ms", "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "1Mbps", "--rtt", "10ms"], "no command"),
        (["--rate", "1Mbps", "--rtt", "10ms", "--", "no-such-program"], "cannot run `no-such-"),
        (["--rate", "1Mbps", "--scheme", "tcp-f", "--ends", "kernel", "--", "true"], "own,kernel"),
        (["--rate", "1Mbps", "--scheme", "reno", "--ends", "kernel", "--", "true"], "own,kernel"),
        (["--rate", "1Mbps", "--scheme", "wtcp", "--ends", "own,kernel", "--", "true"], "own,own"),
        (["--rate", "1Mbps", "--ends", "own,own,own", "--", "true"], "such as own,kernel"),
        (["--rate", "1Mbps", "--ends", "no-such-cc", "--", "true"], "available: reno"),
        (["--rate", "1Mbps", "--ends", "reno,ecn=on", "--", "true"], "unknown setting `ecn=on`"),
        (["--rate", "1Mbps", "--bound", "5", "--", "true"], "expected a time such as"),
        (["--rate", "1Mbps", "--server", "false", "--", "true"], "the server ended with status 1"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_was_late_is_invalid() -> None:
    done = run(
        *("--rate", "1Mbps", "--rtt", "10ms", "--bound", "1ns"),
        *("--", sys.executable, "-c", f"{PING}\nping('100.64.0.1')"),
    )
    assert done.returncode == 1
    assert "INVALID" in done.stderr
    assert "too busy" in done.stderr


def test_links_can_be_nested(tmp_path: Path) -> None:
    inner = [sys.executable, "-m", "lasthop", "link", "--rate", "5Mbps", "--rtt", "100ms", "--json"]
    inner += ["--bound", "10s", "--", sys.executable, "-c", f"{PING}\nping('100.64.1.1')"]
    done = run("--rate", "5Mbps", "--rtt", "20ms", "--bound", "10s", "--", *inner)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["untouched"]["not TCP"] >= 2


def test_the_capture_can_be_replayed(tmp_path: Path) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%")
    file = tmp_path / "link.pcapng"
    transfer(tmp_path, 100_000, *hop, "--pcap", str(file))
    words = [sys.executable, "-m", "lasthop", "replay", str(file), "--mobile", "100.64.0.2"]
    words += ["--interface", "server", "--scheme", "snoop", "--out", str(tmp_path / "out.pcapng")]
    done = ended([*words, "--json"], check=True)
    assert json.loads(done.stdout)["tcp"] > 70


def test_the_report_and_its_picture(tmp_path: Path) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "20ms", "--loss", "1%")
    transfer(tmp_path, 600_000, *hop, "--out", str(tmp_path / "out"))
    data = json.loads((tmp_path / "out" / "link.json").read_text())
    columns = data["series"]["columns"]
    down = sum(row[columns.index("down_bytes")] for row in data["series"]["rows"])
    assert down > 600_000
    assert (tmp_path / "out" / "link.png").read_bytes().startswith(b"\x89PNG")
    text = live.summary(data)
    assert "bs>phone" in text
    assert "lateness of packets" in text


def interfaces() -> list[str]:
    return [x.split(":")[0] for x in Path("/proc/net/dev").read_text().splitlines()]


@pytest.mark.parametrize(
    "i", [i if i < 4 else pytest.param(i, marks=pytest.mark.long) for i in range(200)]
)
def test_nothing_is_left_behind(i: int) -> None:
    before = interfaces()
    # Durations that no other process has; each command has a child.
    naps = [f"{3600 + i}.{os.getpid()}1", f"{3600 + i}.{os.getpid()}2"]
    server, command = (f"sleep {nap}; true" for nap in naps)
    words = ["--rate", "1Mbps", "--server", f"sh -c '{server}'", "--", "sh", "-c", command]
    link = subprocess.Popen(
        [sys.executable, "-m", "lasthop", "link", *words], stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(random.Random(i).uniform(0.1, 1))
        link.send_signal(signal.SIGKILL if i % 2 else signal.SIGINT)
        status = link.wait(PATIENCE)
    finally:
        link.kill()
    # A signal while Python starts ends it at once.
    assert (128 - status if status < 0 else status) == 128 + (9 if i % 2 else 2)
    wait_until_ended(naps)
    assert interfaces() == before


def test_what_the_commands_have_started_ends_with_the_link() -> None:
    naps = [f"3700.{os.getpid()}1", f"3700.{os.getpid()}2"]
    # A server with a socket; the command waits five seconds for one without.
    server = f"sh -c 'sleep {naps[0]} & exec {sys.executable} -m http.server 80'"
    done = run("--rate", "1Mbps", "--server", server, "--", "sh", "-c", f"sleep {naps[1]} &")
    assert done.returncode == 0, done.stderr
    wait_until_ended(naps)


def wait_until_ended(naps: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(map(is_running, naps)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, naps))


def is_running(argument: str) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep" and argument.encode() in words:
            return True
    return False


def test_without_privileges_one_sentence_says_what_is_missing() -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv to give privileges up")
    words = [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    code = "from lasthop.cli.main import main; main(['link', '--rate', '1Mbps', '--', 'true'])"
    done = ended([*words, sys.executable, "-c", code])
    assert "a live link needs network namespaces" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_abilities_are_those_of_doctor() -> None:
    rows, addresses = _native.link_abilities()
    names = {"namespaces", "tun", "packet", "processes", "real_time", "outer_network"}
    assert {name for name, *_ in rows} == names
    assert addresses[:2] == ["100.64.0.1", "fd6c:6173:7468::1"]
