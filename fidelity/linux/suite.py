"""Carry real transfers over many kinds of paths, and write docs/validation-cells.md.

    python -m fidelity.linux [--jobs N] [--only TEXT] [--simulate-only]

Real transfers that have ended are stored in tests/reference/linux/transfers: a run that was
interrupted continues, and a change of the simulator needs new simulations only (--simulate-only).
Live links need root.
"""

from __future__ import annotations

import argparse

from fidelity.linux import cells, page, transfers
from lasthop.live import link

#: Real transfers at a time; they are idle most of the time.
JOBS = 6


def main(words: list[str] | None = None) -> int:
    """Carry the transfers that are missing, and write the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fidelity.linux",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help="real transfers at a time (default %(default)s)"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="carry transfers of blocks with this in the name"
    )
    parser.add_argument(
        "--simulate-only",
        action="store_true",
        help="carry no transfer: simulate those that are stored, and write the page",
    )
    options = parser.parse_args(words)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    declared = cells.read()
    store = transfers.Store()
    if not options.simulate_only:
        if reason := link.missing():
            parser.error(f"{reason} (see `lasthop doctor`)")
        wanted = [cell for cell in declared if options.only in cell.block]
        print(announce(wanted, store, options.jobs), flush=True)
        transfers.carry_all(store, wanted, options.jobs, lambda line: print(line, flush=True))
    found = page.write(declared, store)
    print(", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    return 0


def announce(wanted: list[cells.Cell], store: transfers.Store, jobs: int) -> str:
    """What will be done, and how long it may take."""
    missing = store.missing(wanted)
    expected = sum(cell.expected_s for cell, _ in missing) / jobs
    return (
        f"{len(wanted)} cells, {sum(cell.n for cell in wanted)} transfers, of which"
        f" {len(missing)} are missing; about {expected / 60:.0f} min with {jobs} at a time.\n"
        "Cells and numbers of transfers are those of cells.toml; seeds are 1 to n."
    )
