"""The command `lasthop link`."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from lasthop import progress
from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import CheckFailed, InputError


def add_parser(commands: Any) -> None:
    """Add `link` to the command line."""
    link = commands.add_parser(
        "link",
        help="carry real packets over a simulated link",
        description=(
            "Run COMMAND at the mobile end of a link that carries the real packets of this"
            " machine's TCP, through\nthe links and agents of a scenario. The ends are network"
            " namespaces that vanish with the command.\nIts environment has LASTHOP_SERVER and"
            " LASTHOP_MOBILE (addresses; with a 6 at the end for IPv6), which\nare also replaced"
            " where they are quoted in COMMAND. Exit status: that of COMMAND, or 1 if packets"
            " left too\nlate for the run to be valid. See docs/live.md."
        ),
        **common.examples(
            "lasthop link --rate 10Mbps --rtt 40ms --loss 1% --server 'python3 -m http.server 80'"
            " -- curl -so page 'http://$LASTHOP_SERVER/'",
            "lasthop link --down synthetic-lte.down --up synthetic-lte.up --rtt 40ms --scheme snoop"
            " --server 'python3 -m http.server 80' --out results -- curl -so page"
            " 'http://$LASTHOP_SERVER/'",
            "lasthop link --rate 10Mbps --rtt 44ms --loss 2% --scheme westwood --server 'python3 -m"
            " http.server 80' -- curl -so page 'http://$LASTHOP_SERVER/'",
            "lasthop link --rate 10Mbps --ends reno,sack=off --pcap link.pcapng -- printenv"
            " LASTHOP_SERVER",
        ),
    )
    common.add_scenario(link)
    link.add_argument(
        "--scheme",
        metavar="S",
        help=(
            "scheme with an agent, such as snoop, or for the ends, such as westwood; or none"
            " (default: that of the file)"
        ),
    )
    link.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the random channel (default 1)"
    )
    common.add_set(link)
    _add_ends(link)
    # For `lasthop validate`: PORT:BYTES.
    link.add_argument("--own-sender", default="", help=common.HIDDEN)
    link.add_argument("--pcap", metavar="FILE", help="write the packets at both ends (pcapng)")
    link.add_argument("--out", metavar="DIR", help="write the report and a picture to DIR")
    common.add_json(link)
    link.set_defaults(run=())


def _add_ends(parser: Any) -> None:
    """What is at the ends of the link."""
    parser.add_argument(
        "--server",
        metavar="COMMAND",
        default="",
        help="command to run at the server's end (default: this machine's network is behind it)",
    )
    parser.add_argument(
        "--ends",
        metavar="WORDS",
        default="",
        help=(
            "congestion control and SACK of both kernels, such as reno,sack=off (default: as on"
            " this machine); and whether the TCP of the server's end and of the mobile's is"
            " lasthop's own, such as own,kernel (default: where the scheme needs it)"
        ),
    )
    parser.add_argument(
        "--bound",
        metavar="T",
        help=(
            "largest p99 of the lateness of packets (default: 1ms, or 2 %% of the one-way delay if"
            " that is more)"
        ),
    )
    parser.add_argument(
        "--device",
        choices=("tun", "packet"),
        help="TUN devices, or virtual Ethernet and packet sockets (default: what can be had)",
    )


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the command line of `link` at `--`: options, and the command for the mobile."""
    if words[:1] != ["link"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def link(options: Options, words: list[str]) -> int:
    """`lasthop link`."""
    from lasthop.live import link as live

    show = sys.stderr.isatty()
    try:
        server = shlex.split(options.server)
    except ValueError as error:
        raise InputError(f"--server {options.server}: {error}") from error
    if options.out is not None:
        _load_picture()
    reason = live.missing()
    if reason is not None:
        status = live.run_with_rights(words[1:])
        if status is not None:
            return status
        raise InputError(f"{reason} (see `lasthop doctor`)")
    try:
        data = live.link(
            options.run,
            options.file,
            server=server,
            scheme=options.scheme,
            seed=options.seed,
            settings=common.settings(options),
            last_hop=common.last_hop(options),
            ends=options.ends,
            bound=options.bound,
            pcap=options.pcap,
            out=options.out,
            progress=live.print_progress if show else None,
            own_sender=_own_sender(options.own_sender),
            device=options.device,
            prepare=lambda: _make_folder(options.out),
        )
    finally:
        progress.clear_line()
    if options.out is not None:
        _write(data, Path(options.out))
    if options.json:
        common.print_document(data, options, words)
    else:
        # The command's own output is on stdout.
        print(live.summary(data), file=sys.stderr)
    if not data["valid"]:
        raise CheckFailed(live.verdict(data))
    return int(data["exit_status"])


def _own_sender(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    try:
        port, size = text.split(":")
        return int(port), int(size)
    except ValueError:
        raise InputError(f"--own-sender {text}: expected PORT:BYTES") from None


def _load_picture() -> None:
    """Load what the picture needs: under sudo, the user as whom it is written may not be able to
    read it.
    """
    from lasthop import extras
    from lasthop.live import link as live

    extras.require("plots")
    if live.is_under_sudo():
        from lasthop.live import picture

        columns = ["t_s"]
        columns += [f"{way}_{what}" for what in picture.DRAWN for way in ("down", "up")]
        series = {"columns": columns, "rows": [[1.0] * len(columns)]}
        nothing = {"series": series, "scenario": "", "scheme": "", "seed": 0}
        with tempfile.TemporaryDirectory() as temporary:
            picture.write(nothing, Path(temporary))


def _make_folder(folder: str | None) -> None:
    """Make the folder for the results."""
    if folder is not None:
        from lasthop.experiments import store

        with store.writing(Path(folder)):
            Path(folder).mkdir(parents=True, exist_ok=True)


def _write(data: dict[str, Any], folder: Path) -> None:
    from lasthop.experiments import store

    with store.writing(folder), store.partial(folder / "link.json") as file:
        file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    if data["series"]["rows"]:
        from lasthop.live import picture

        picture.write(data, folder)
