"""The command `lasthop merge`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lasthop.cli import options as common
from lasthop.progress import SweepProgress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options


def add_parser(commands: Any) -> None:
    """Add `merge` to the command line."""
    merge = commands.add_parser(
        "merge",
        help="join the shards of a sweep",
        description=(
            "Join the folders that `lasthop sweep --shard i/N` wrote. Folders of another sweep are"
            " refused."
        ),
        **common.examples("lasthop merge results-1 results-2 --out results"),
    )
    merge.add_argument("folders", nargs="+", metavar="DIR", help="folders of shards")
    merge.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    common.add_output(merge)


def merge(options: Options, _: list[str]) -> int:
    """`lasthop merge`."""
    from lasthop.experiments import store, sweep, sweep_result, sweep_run
    from lasthop.tables import sweep_text

    start, out = time.monotonic(), Path(options.out)
    progress = SweepProgress("none" if options.quiet else options.progress, options.quiet)
    with store.sole_writer(out):
        runs, missing = sweep_run.merge([Path(f) for f in options.folders], out, progress.note)
        files = sweep.write_tables(out, runs)
    found = sweep_result.document(runs, runs.finished, time.monotonic() - start)
    if options.json:
        common.print_json(found)
    elif not options.quiet:
        print(sweep_text.text(found, out, [f.name for f in files]))
    if missing:
        print(
            f"lasthop: {missing} runs are missing; do the other shards, or repeat the command of"
            f" the sweep with --out {out} and without --shard",
            file=sys.stderr,
        )
    return 1 if missing else 0
