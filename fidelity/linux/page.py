"""The page docs/validation-cells.md: each stored transfer beside its simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity.linux import simulated, verdicts
from fidelity.linux.cells import RESPONSES, Cell
from fidelity.linux.transfers import Store
from fidelity.measuring import CORES
from fidelity.references import ROOT
from lasthop import __version__
from lasthop.experiments.store import write_whole

PAGE = ROOT / "docs/validation-cells.md"
#: Share of its transfers that a cell needs to be judged; the others were late.
ENOUGH = 0.75
#: A response differs if it takes this much longer or shorter.
SAME_RESPONSE = 0.05
COMPARE: dict[str, Callable[[Any, Any], list[verdicts.Ratio]]] = {
    "goodput": verdicts.of_goodput,
    "percentiles": verdicts.of_percentiles,
    "responses": verdicts.of_responses,
}


@dataclass(frozen=True)
class Result:
    """A cell with its pairs."""

    cell: Cell
    #: Transfers that were tried, and those of them that count.
    tried: int
    pairs: int
    ratios: list[verdicts.Ratio]
    #: Responses, and those that differ.
    responses: tuple[int, int] | None = None

    @property
    def is_done(self) -> bool:
        """True if each transfer was tried, and enough of them count."""
        return self.tried == self.cell.n and self.pairs >= ENOUGH * self.cell.n

    @property
    def verdict(self) -> str:
        """The verdict, or that the cell is not done."""
        return verdicts.verdict(self.ratios) if self.is_done else "not done"


def result(cell: Cell, store: Store) -> Result:
    """Simulate the stored transfers of a cell."""
    machine = [(key, value) for key, value in store.machine(write=False)["settings"]]
    stored = store.of(cell)
    pairs = [record for record in stored if "s" in record]
    real = [record["s"] for record in pairs]
    if len(pairs) < verdicts.FEWEST:
        return Result(cell, len(stored), len(pairs), [])

    def one(record: dict[str, Any]) -> Any:
        if cell.measure == "responses":
            return simulated.responses(cell, machine, record["seed"]).times
        return simulated.completion_s(cell, machine, record["start"], record["seed"])

    with ThreadPoolExecutor(CORES) as pool:
        ours = list(pool.map(one, pairs))
    count = None
    if cell.measure == "responses":
        each = [
            abs(o / t - 1)
            for a, b in zip(ours, real, strict=True)
            for o, t in zip(a[1:], b[1:], strict=True)
        ]
        count = len(each), sum(e > SAME_RESPONSE for e in each)
    return Result(cell, len(stored), len(pairs), COMPARE[cell.measure](real, ours), count)


def write(declared: list[Cell], store: Store, page: Path = PAGE) -> Counter[str]:
    """Write the page, and return how many cells have which verdict."""
    results = [result(cell, store) for cell in declared]
    text = "\n".join(_page(results, store)).rstrip() + "\n"
    write_whole(page, text)
    return Counter(r.verdict for r in results)


def _page(results: list[Result], store: Store) -> Iterator[str]:
    machine = store.machine(write=False)
    found = Counter(r.verdict for r in results)
    late = sum(r.tried - r.pairs for r in results)
    yield "# Real beside simulated transfers, over many paths\n"
    yield (
        f"Made by `make validation` with lasthop {__version__}; do not edit. Real transfers: Linux"
        f" {machine['kernel']} at both ends, {machine['processors']} processors, which did other"
        " work at the same time.\n"
    )
    yield ABOUT
    missing = f"; {found['not done']} are [not done](#not-done)" if found["not done"] else ""
    yield (
        f"**Of {len(results)} cells {found[verdicts.AGREES]} agree, {found[verdicts.UNDECIDED]} are"
        f" undecided and {found[verdicts.DIFFERS]} differ{missing}.**"
        f" {sum(r.pairs for r in results)} real transfers count; {late} were late twice.\n"
    )
    for block in dict.fromkeys(r.cell.block for r in results):
        rows = [r for r in results if r.cell.block == block and r.is_done]
        if rows:
            yield f"## {block[0].upper()}{block[1:]}\n"
            yield from _table(rows)
            yield ""
    yield from _not_done([r for r in results if not r.is_done])


def _table(rows: list[Result]) -> Iterator[str]:
    if rows[0].cell.measure == "percentiles":
        yield (
            "| path and transfer | n | percentile | real, s | simulated, s"
            " | simulated / real [95 % CI] | verdict |"
        )
        yield "| --- | ---: | --- | ---: | ---: | --- | --- |"
        for r in rows:
            for i, ratio in enumerate(r.ratios):
                name = f"{r.cell.name} | {r.pairs}" if i == 0 else " | "
                yield f"| {name} | {ratio.what} | {_numbers(ratio)} | {ratio.verdict} |"
        return
    of = "response time, simulated / real" if rows[0].responses else "goodput, real / simulated"
    more = " responses that differ |" if rows[0].responses else ""
    yield (
        "| path and transfer | n | real, s (mean) | simulated, s (mean)"
        f" | {of} [95 % CI] |{more} verdict |"
    )
    yield "| --- | ---: | ---: | ---: | --- |" + (" ---: |" if more else "") + " --- |"
    for r in rows:
        count = f" {r.responses[1]} of {r.responses[0]} |" if r.responses else ""
        yield f"| {r.cell.name} | {r.pairs} | {_numbers(r.ratios[0])} |{count} {r.verdict} |"


def _numbers(ratio: verdicts.Ratio) -> str:
    low, high = ratio.interval
    return f"{ratio.real:.3f} | {ratio.simulated:.3f} | {ratio.value:.3f} [{low:.3f}, {high:.3f}]"


def _not_done(rows: list[Result]) -> Iterator[str]:
    if not rows:
        return
    yield "## Not done\n"
    yield (
        "Cells of which not every transfer was tried, or of which more than a quarter of the"
        " transfers were late; `make validation` continues with them.\n"
    )
    yield "| path and transfer | n | tried | late | ratio so far, not judged |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for r in rows:
        sofar = "; ".join(
            f"{x.what} {x.value:.3f} [{x.interval[0]:.3f}, {x.interval[1]:.3f}]" for x in r.ratios
        )
        yield f"| {r.cell.name} | {r.cell.n} | {r.tried} | {r.tried - r.pairs} | {sofar or '–'} |"


ABOUT = f"""\
[validation.md](validation.md) says how a real transfer is paired with a simulated one. Here the
paths are a fraction of all combinations of rates, round-trip times, queues, losses, sizes and
senders, which `fidelity/linux/cells.toml` declares. Each level of a factor is
taken equally often, and which levels meet is drawn with a fixed seed. The cells and the number of
transfers of each, n, were fixed before the first transfer; seeds are 1 to n, and no cell gets more
of them because of its result. A transfer whose packets left too late is repeated once, and again in
the next run of the command, whatever time it took.

* Goodput: the mean real goodput over the simulated one, with Fieller's interval from pairs. A cell
  agrees if the interval is within {100 * verdicts.MARGIN:.0f} % of 1, for all senders, differs if
  it is outside, and is undecided otherwise.
* Percentiles of the completion time: simulated over real, with the interval of a bootstrap of the
  pairs. The margin is 2 % for the median and 10 % for p95 and p99, but at least 1 ms, which the
  programs at the ends take. p95 and p99 are judged from {verdicts.MANY} transfers on. A cell has
  the worst verdict of its percentiles.
* Response times: {RESPONSES} requests, one after another, over one connection; the pauses between a
  response and the next request are exponential, drawn by the seed, and the same in both worlds. The
  first response is left out: it has the handshake, which the client opens here and the server in
  the simulation. A response differs if it takes {100 * SAME_RESPONSE:.0f} % longer or
  shorter.

The time is that from the sender's SYN to the last byte at the receiver. The programs write 64 KiB
at a time into the socket's default buffer; the simulated sender has the buffer of this kernel
(`machine.json`). Queues are those of both directions of the radio link;
losses are independent and per direction. The programs at the ends have real-time scheduling, as the
link between them: others wait for some milliseconds on a busy machine.
"""
