"""The command `lasthop replay`."""

from __future__ import annotations

from lasthop.cli import options as common
from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options


def add_parser(commands: Any) -> None:
    """Add `replay` to the command line."""
    replay = commands.add_parser(
        "replay",
        help="feed recorded packets to an agent",
        description=(
            "Feed the packets of a capture to the agent of a scheme. The recorded endpoints do not"
            " react to the agent."
        ),
        **common.examples(
            "lasthop replay in.pcapng --mobile 10.0.0.2 --scheme snoop --out out.pcapng"
        ),
    )
    replay.add_argument("capture", metavar="IN.pcapng", help="capture taken at the base station")
    replay.add_argument(
        "--mobile",
        required=True,
        metavar="ADDR[/LEN]",
        help="address or network of the mobile side",
    )
    replay.add_argument(
        "--scheme", required=True, metavar="S", help="scheme whose agent gets the packets"
    )
    replay.add_argument(
        "--interface", metavar="NAME", help="interface of the capture to replay, if it has several"
    )
    replay.add_argument(
        "--out",
        required=True,
        metavar="OUT.pcapng",
        help="capture to write: the packets that leave the base station",
    )
    common.add_json(replay)


def replay(options: Options, words: list[str]) -> int:
    """`lasthop replay`."""
    from lasthop import _native, own_schemes, runs
    from lasthop.congestion import CongestionControl

    scheme = own_schemes.load_scheme(options.scheme)
    if isinstance(scheme, type) and issubclass(scheme, CongestionControl):
        raise InputError(
            f"--scheme {options.scheme} is a window rule; replay needs a scheme with an agent"
        )
    text, counts = runs.replay(
        options.capture,
        mobile=options.mobile,
        scheme=scheme,
        out=options.out,
        interface=options.interface,
    )
    if options.json:
        document = {"schema_version": 1, "lasthop": _native.version(), **counts}
        common.print_document(document, options, words)
    else:
        print(text.rstrip())
    return 0
