"""A live link: runs commands at both ends and reports what happened."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lasthop import _native, quantities
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.scenarios import outputs

#: The default bound of the lateness: the larger of this time (s) and this share of the delay.
BOUND_S, BOUND_SHARE = 1e-3, 0.02
#: The files of the report in the folder of `--out`.
FILES = ("link.json", "link.svg", "link.png")
#: Environment variable of a process in a user namespace of lasthop's.
INSIDE = "LASTHOP_USER_NAMESPACE"

#: Why agents may seem not to help senders with BBR.
BBR_HINT = (
    "BBR hardly slows down after a loss, so that an agent which hides losses from the sender may"
    " show no gain"
)

Progress = Callable[[float, float, float, int], None]


def missing() -> str | None:
    """Why this process cannot make a live link, in one sentence; None if it can."""
    rows, _ = _native.link_abilities()
    reasons = [f"{purpose}: {why}" for _, purpose, why, required in rows if required and why]
    return f"a live link needs {'; '.join(reasons)}" if reasons else None


def run_with_rights(words: Sequence[str]) -> int | None:
    """Run a command line of lasthop in a user namespace, where the caller may make links; return
    its exit status, or None if this process is root, is in such a namespace, or may not make one.
    """
    if os.geteuid() == 0 or INSIDE in os.environ:
        return None
    try:
        return _native.run_in_user_namespace([sys.executable, "-m", "lasthop", *words])
    except OSError:
        return None


def is_under_sudo() -> bool:
    """True if this process is root because of sudo; links then run as the user who called it."""
    user = os.environ.get("SUDO_UID", "")
    return os.geteuid() == 0 and INSIDE not in os.environ and user.isdigit() and int(user) != 0


def act_as_caller() -> None:
    """Under sudo, read and write files as the user who called it; see `as_root`."""
    if is_under_sudo():
        _load_modules()
        user, group = int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "0"))
        os.setgroups([group])
        os.setegid(group)
        os.seteuid(user)


def as_root() -> Callable[[], None] | None:
    """What a program that needs root calls before it starts, after `act_as_caller`."""
    return partial(os.seteuid, 0) if os.getresuid()[2] == 0 != os.geteuid() else None


def link(
    command: Sequence[str],
    file: str | Path | None = None,
    *,
    server: Sequence[str] = (),
    scheme: str | None = None,
    seed: int = 1,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, str] | None = None,
    ends: str = "",
    bound: str | None = None,
    pcap: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    own_sender: tuple[int, int] | None = None,
    device: str | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run `command` at the mobile and `server` at the server of a live link; return the report.
    Without `server`, the network of this process is behind the link.

    The link is described as for `lasthop.run`. `scheme` is one with an agent, one that changes the
    ends, or "none". `ends` sets up the kernels' TCP ("reno", "cubic,sack=off") and says which ends
    are lasthop's own: "own" (both), "own,kernel" (the server's), "kernel" (none; default: those
    that the scheme changes). `bound` is the largest 99th percentile of
    the lateness of packets with which the run is valid. `own_sender` (port, bytes): instead of a
    server, lasthop's own sender with the flow's scheme sends these bytes to `command`, which
    accepts a connection at this port; the report then has `own_sender`. `device` is "tun" or
    "packet" (default: what can be had). `out` is the folder to which the caller writes the report.
    `prepare` is called before any file is read or written.

    The calling thread loses its privileges for good. Under sudo, the process becomes that of the
    user who called it before it reads the scenario, loads agents, and writes files.

    Raises `InputError` if the scenario cannot carry real packets, and `OSError` if the machine
    cannot make the link or run the commands.
    """
    if not command:
        raise InputError("no command: write it after `--`, such as `-- ping -c 3 $LASTHOP_SERVER`")
    quantities.whole_number(seed, "--seed", most=quantities.MAX_SEED)
    congestion_control, sack, own_ends = _ends(ends)
    limit = None if bound is None else _seconds(bound)
    if is_under_sudo():
        _load_modules()
    prepared = _native.PreparedLink(
        [str(word) for word in command],
        [str(word) for word in server],
        own_sender is not None,
        congestion_control,
        sack,
        device,
    )
    prepare()
    where = plan.source(file, settings=list(settings), last_hop=last_hop)
    requested = None if scheme in (None, "none") else scheme
    scenario: Any = plan.load(where, requested if scheme != "none" else "reno")
    named = [] if out is None else outputs.in_folder("--out", out, FILES)
    outputs.check(
        [None if pcap is None else ("--pcap", pcap), *named], outputs.inputs_of(where, scenario)
    )
    text = _native.link(
        scenario,
        prepared,
        needs_agent=requested is not None and own_sender is None,
        seed=seed,
        pcap=None if pcap is None else str(pcap),
        progress=progress,
        own_sender=own_sender,
        own_ends=own_ends,
    )
    return _report(json.loads(text), scenario, limit, chosen=congestion_control is not None)


def _report(
    measured: dict[str, Any], scenario: Any, limit: float | None, *, chosen: bool
) -> dict[str, Any]:
    """The report of a link from what it has measured; `limit` bounds the lateness, in seconds."""
    data = {"schema_version": 1, "scenario": scenario.title, **measured}
    if limit is None:
        limit = max(BOUND_S, BOUND_SHARE * data["one_way_delay_s"])
    data["bound_us"] = limit * 1e6
    data["ends"]["chosen"] = chosen
    data["invalid"] = _faults(data)
    data["valid"] = not data["invalid"]
    data["assumed"] = scenario.assumed
    return data


def _load_modules() -> None:
    """Load what a link needs later, while root reads it: Python and lasthop may lie in folders that
    are closed to the user as whom the link runs under sudo.
    """
    for name in ("csv", "difflib", "importlib.util", "inspect", "traceback"):
        import_module(name)
    for name in ("lasthop.cli.json_text", "lasthop.experiments.store", "lasthop.own_schemes"):
        import_module(name)
    plan.load(plan.source(None, last_hop={"rate": "1 Mbps"}), None)


def _ends(text: str) -> tuple[str | None, bool | None, tuple[bool, bool] | None]:
    """Congestion control and SACK of the kernels, and which ends are lasthop's own."""
    name, sack = None, None
    kinds: list[str] = []
    for word in quantities.split(text) if text else []:
        if word in ("sack=on", "sack=off"):
            sack = word == "sack=on"
        elif word in ("own", "kernel"):
            kinds.append(word)
        elif "=" in word:
            raise InputError(f"--ends {text}: unknown setting `{word}`; allowed: sack=on, sack=off")
        else:
            name = word
    if len(kinds) > 2:
        raise InputError(f"--ends {text}: the server's end and the mobile's, such as own,kernel")
    own = (kinds[0] == "own", kinds[-1] == "own") if kinds else None
    return name, sack, own


def _seconds(text: str) -> float:
    parsed = _native.quantity(text)
    if parsed is None or parsed[2] != "s":
        raise InputError(f"--bound: expected a time such as `1ms`, found `{text}`")
    return parsed[3]


def mean_bps(data: Mapping[str, Any], direction: str) -> float:
    """Mean rate of the IP packets that were delivered in a direction, "down" or "up", bit/s."""
    column = data["series"]["columns"].index(f"{direction}_bytes")
    rows = data["series"]["rows"]
    return 8 * sum(row[column] for row in rows) / rows[-1][0] if rows else 0.0


def _impaired(row: Mapping[str, Any]) -> dict[str, int]:
    """What a link has done to frames besides queueing and loss, by name."""
    return {
        "removed by the ACK filter": row["filtered_frames"],
        "dropped by the policer": row["dropped_by_policer"],
        "duplicated": row["duplicated_frames"],
        "corrupted": row["corrupted_frames"],
        "larger than the MTU": row["above_mtu"],
    }


def _counters(part: dict[str, Any]) -> str:
    counters = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in part["counters"].items())
    return counters or "no counters"


def _impairments(row: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{n} {what}" for what, n in _impaired(row).items() if n)
    return f"{row['from']}>{row['to']}: {counts}"


def summary(data: Mapping[str, Any]) -> str:
    """The report as text."""
    lines = [
        f"{data['scenario']}; scheme {data['scheme']}, seed {data['seed']}",
        f"{data['duration_s']:.2f} s, {data['packets']} packets, {data['connections']} connections;"
        f" the command exited with status {data['exit_status']}",
        *ends_text(data),
        f"delivered: {mean_bps(data, 'down') / 1e6:.2f} Mbit/s down,"
        f" {mean_bps(data, 'up') / 1e6:.2f} Mbit/s up (IP packets, mean)",
        "",
        f"{'link':<16}{'offered':>10}{'delivered':>11}{'lost':>8}{'dropped':>9}{'marked':>8}",
    ]
    for row in data["links"]:
        lines.append(
            f"{row['from'] + '>' + row['to']:<16}{row['offered_frames']:>10}"
            f"{row['delivered_frames']:>11}{row['lost_on_air']:>8}{row['dropped_at_queue']:>9}"
            f"{row['marked_frames']:>8}"
        )
    lines.extend(_impairments(row) for row in data["links"] if any(_impaired(row).values()))
    for agent in data["agents"]:
        lines.append(f"agent {agent['scheme']}: {_counters(agent)}")
        if agent["notices"]:
            lines.append(
                f"notices: {agent['notices']} sent, {data['notices_taken']} arrived at own ends"
            )
    lines.extend(f"relay {relay['scheme']}: {_counters(relay)}" for relay in data["relays"][:5])
    if len(data["relays"]) > 5:
        lines.append(f"relays of {len(data['relays']) - 5} more connections")
    if data["untouched"]:
        reasons = ", ".join(f"{n} {why}" for why, n in data["untouched"].items())
        lines.append(f"not shown to agents: {reasons}")
    if data["outer_network"] is not None:
        lines.append(_outer_network(data["outer_network"]))
    late = data["lateness_us"]
    if late["p99"] is not None:
        scheduling = "real-time" if data["real_time"] else "ordinary"
        lines.append(
            f"lateness of packets: median {late['p50']:.0f} µs, p99 {late['p99']:.0f} µs,"
            f" max {late['max']:.0f} µs ({scheduling} scheduling, n = {late['n']})"
        )
    if not data["valid"]:
        lines.append(verdict(data))
    return "\n".join(lines)


def ends_text(data: Mapping[str, Any]) -> list[str]:
    """Which congestion control the ends have, and a hint if agents cannot be judged with it."""
    ends = data["ends"]
    name = ends["congestion_control"]
    chosen = "--ends" if ends["chosen"] else "default of this machine"
    lines = [
        f"ends: congestion control {name} ({chosen}, for programs that choose none); available:"
        f" {', '.join(ends['available'])}"
    ]
    own = [end for end, is_own in ends.get("own", {}).items() if is_own]
    if own:
        verb = "has" if len(own) == 1 else "have"
        lines.append(f"{' and '.join(own)} {verb} lasthop's own TCP, with scheme {data['scheme']}")
    if name.startswith("bbr") and data["agents"]:
        lines.append(f"hint: {BBR_HINT}; `--ends reno` chooses another one")
    return lines


def _outer_network(outer: Mapping[str, Any]) -> str:
    if outer["missing"] is not None:
        return f"nothing was behind the link: {outer['missing']}"
    text = (
        f"to the network outside: {outer['connections']} connections ({outer['refused']} refused),"
        f" {outer['datagrams']} datagrams"
    )
    if outer["beyond_limit"]:
        text += (
            f"; {outer['beyond_limit']} connections were reset by lasthop, which carries at most"
            f" {outer['limit']} at a time (`ulimit -Hn` limits it, too)"
        )
    return text + (f" ({outer['dropped']} dropped)" if outer["dropped"] else "")


def _faults(data: Mapping[str, Any]) -> list[str]:
    """Why a run is not valid, a sentence for each reason."""
    faults = []
    late = data["lateness_us"]["p99"]
    if late is not None and late > data["bound_us"]:
        faults.append(
            f"the p99 of the lateness, {late:.0f} µs, is above the bound of"
            f" {data['bound_us']:.0f} µs: this machine was too busy"
        )
    reasons = data["own_drop_reasons"]
    if reasons["not_read"]:
        faults.append(
            f"{reasons['not_read']} packets were dropped because lasthop did not read them in time:"
            " a command sent faster than this machine forwards"
        )
    if reasons["not_taken"]:
        faults.append(
            f"{reasons['not_taken']} packets were dropped because the kernel at their destination"
            " did not take them in time: this machine was too busy"
        )
    return faults


def verdict(data: Mapping[str, Any]) -> str:
    """Why a run is not valid."""
    return f"INVALID: {'; '.join(data['invalid'])}"


def print_progress(t: float, down: float, up: float, queued: int) -> None:
    """Show the state of the link on the terminal."""
    sys.stderr.write(
        f"\r\x1b[Klink {t:.1f} s: {down / 1e6:.2f} Mbit/s down, {up / 1e6:.2f} Mbit/s up,"
        f" {queued} packets queued"
    )
    sys.stderr.flush()
