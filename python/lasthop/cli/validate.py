"""The command `lasthop validate`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.progress import Progress


def add_parser(commands: Any) -> None:
    """Add `validate` to the command line."""
    validate = commands.add_parser(
        "validate",
        help="compare simulated transfers with real ones over the same link",
        description=(
            "Carry a transfer over a live link and in the simulator, with the same losses, for each"
            " sender and scheme.\nPrint the ratio of real to simulated goodput with its 95 %"
            " confidence interval from pairs. The sender agrees\nif the interval is within 5 % of"
            " 1. See docs/validation.md."
        ),
        **common.examples(
            "lasthop validate --rate 10Mbps --rtt 44ms --loss 2% --all --seeds 3 --size 500kB"
            " --out validation",
            "lasthop validate --rate 10Mbps --rtt 40ms --loss 1% --senders reno --schemes none"
            " --seeds 3 --size 200kB",
        ),
    )
    common.add_scenario(validate)
    common.add_set(validate)
    validate.add_argument(
        "--senders",
        metavar="S1,S2,…",
        default="reno,cubic,bbr",
        help="congestion controls of the kernel and of the simulator (default %(default)s)",
    )
    validate.add_argument(
        "--schemes",
        metavar="S1,S2,…",
        help="schemes with an agent, or none (default none,snoop); with --all any schemes (default"
        " all of the catalogue)",
    )
    validate.add_argument(
        "--all",
        action="store_true",
        help="a row for each scheme, with lasthop's own TCP at the ends that need it, instead of"
        " the kernel's senders",
    )
    validate.add_argument(
        "--out", metavar="DIR", help="with --all: write validation.html and validation.json there"
    )
    validate.add_argument(
        "--seeds", type=int, metavar="N", default=12, help="use seeds 1 to N (default %(default)s)"
    )
    validate.add_argument(
        "--size", metavar="B", default="3 MB", help="size of a transfer (default %(default)s)"
    )
    validate.add_argument(
        "--send-buffer",
        metavar="B",
        help="SO_SNDBUF of the real senders and send buffer of the simulated one (default: the"
        " kernel adapts it, tcp_wmem)",
    )
    validate.add_argument(
        "--writes",
        metavar="B",
        default="64 KiB",
        help="size of each write of the real senders, or all (default %(default)s)",
    )
    common.add_output(validate)


def validate(options: Options, words: list[str]) -> int:
    """`lasthop validate`."""
    from lasthop.live import link as live
    from lasthop.live import validation

    reason = live.missing()
    if reason is not None:
        status = live.run_with_rights(words[1:])
        if status is not None:
            return status
        raise InputError(f"{reason} (see `lasthop doctor`)")
    size = _bytes(options.size, "--size")
    if options.all:
        return _validate_all(options, words, size)
    if options.out is not None:
        raise InputError("--out: only with --all")
    buffer = options.send_buffer
    use = validation.SocketUse(
        None if buffer is None else _bytes(buffer, "--send-buffer"),
        None if options.writes == "all" else _bytes(options.writes, "--writes"),
    )
    senders = common.split_list(options.senders, "--senders")
    schemes = common.split_list(options.schemes or "none,snoop", "--schemes")
    runs = validation.runs(len(senders), len(schemes), options.seeds)
    with Progress("transfers", runs) as progress:
        cells = list(
            validation.validate(
                options.file,
                senders=senders,
                schemes=schemes,
                seeds=options.seeds,
                size=size,
                socket_use=use,
                settings=common.settings(options),
                last_hop=common.last_hop(options),
                progress=progress.step,
            )
        )
    if options.json:
        common.print_document(validation.document(cells), options, words)
    elif not options.quiet:
        print(validation.table(cells))
    return 1 if any(cell.failed for cell in cells) else 0


def _validate_all(options: Options, words: list[str], size: int) -> int:
    """`lasthop validate --all`."""
    from lasthop.experiments.store import write_whole
    from lasthop.live import catalogue, catalogue_page

    names = catalogue.schemes()
    if options.schemes is not None:
        names = common.split_list(options.schemes, "--schemes")
    with Progress("transfers", len(names) * options.seeds) as progress:
        rows = list(
            catalogue.validate(
                options.file,
                names=names,
                seeds=options.seeds,
                size=size,
                settings=common.settings(options),
                last_hop=common.last_hop(options),
                progress=progress.step,
            )
        )
    if options.out is not None:
        folder = Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["lasthop", *words[1:]])
        page = catalogue_page.render(rows, seeds=options.seeds, size=size, command=command)
        write_whole(folder / "validation.html", page)
        document = json.dumps(catalogue.document(rows), indent=2)
        write_whole(folder / "validation.json", document + "\n")
    if options.json:
        common.print_document(catalogue.document(rows), options, words)
    elif not options.quiet:
        print(catalogue.table(rows))
    return 1 if any(row.failed for row in rows) else 0


def _bytes(text: str, option: str) -> int:
    """A size above 0, in bytes; `InputError` for others."""
    from lasthop import _native

    size = _native.quantity(text)
    if size is None or size[2] != "B" or int(size[3]) < 1:
        raise InputError(f"{option}: expected a size such as `3 MB`, found `{text}`")
    return int(size[3])
