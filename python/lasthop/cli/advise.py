"""The command `lasthop advise`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from lasthop import catalogue, progress
from lasthop.cli import options as common
from lasthop.cli import trace as reading
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.quantities import count


def add_parser(commands: Any) -> None:
    """Add `advise` to the command line."""
    advise = commands.add_parser(
        "advise",
        help="what schemes would change on a measured link",
        description=(
            "Fit measurement files (as lasthop trace fit), draw scenarios from the uncertainty of"
            " the fit, and simulate the\nschemes that can be deployed at one place against CUBIC:"
            " gain with an interval, effect on a competing flow,\nwho must change what, and the"
            ' measurement that would narrow the answer most, or "cannot tell, because …".'
        ),
        **common.examples(
            "lasthop advise in.pcap --mobile 192.0.2.7 --can base-station",
            "lasthop advise iperf3.json ping.txt --can sender --out advice.html",
        ),
    )
    advise.add_argument("file", nargs="+", metavar="FILE", help="measurement file, or - for stdin")
    advise.add_argument(
        "--can",
        choices=tuple(catalogue.CAN),
        default="sender",
        help=(
            "where you can change something: at the sender (default), at the box before the last"
            " hop (cpe, ap, base-station), or at both ends"
        ),
    )
    advise.add_argument(
        "--draws", metavar="N", default="20", help="scenarios drawn from the fit (default 20)"
    )
    advise.add_argument(
        "--bulk",
        action="store_true",
        help="one bulk transfer in the scenarios, not the traffic of the capture",
    )
    advise.add_argument("--out", metavar="FILE.html", help="page to write")
    reading.add_reading(advise)
    common.add_output(advise)


def advise(options: Options, words: list[str]) -> int:
    """`lasthop advise`."""
    from lasthop.advice import advise as advice
    from lasthop.quantities import whole_number
    from lasthop.scenarios import outputs
    from lasthop.traces.fit.fit import fit

    out = None if options.out is None else Path(options.out)
    if out is not None:
        if out.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--out must be a file FILE.html, found `{out}`")
        outputs.check([("--out", out)], options.file)
    if not options.draws.isdecimal():
        raise InputError(f"--draws must be a whole number from 5 on, found `{options.draws}`")
    draws = whole_number(int(options.draws), "--draws", least=5, most=1000)
    traffic = "bulk" if options.bulk else "measured"
    result = fit(reading.read(options))
    with progress.Progress("simulating (schemes)", advice.runs_of(options.can)) as bar:
        answer = advice.advise(result, options.can, draws, bar.step, traffic)
    if out is not None:
        _write_page(answer, result, out, shlex.join(words))
    if options.json:
        from lasthop import _native

        head = {"schema_version": 1, "lasthop": _native.version()}
        document = {**head, **answer.document(), "fit": result.document()}
        common.print_document(document, options, words)
    elif not options.quiet:
        for note in result.seen.found.notes:
            print(f"note: {note}")
        print(text(answer))
        if out is not None:
            print(f"written: {out}")
    return 0


def _write_page(answer: Any, result: Any, out: Path, command: str) -> None:
    from lasthop import _native, pages
    from lasthop.cli import trace_fit
    from lasthop.experiments.store import write_whole

    page = pages.render(
        "advice.html",
        title="Advice: " + ", ".join(Path(s).name for s in result.seen.found.sources),
        values={
            "advice": answer,
            "fit": trace_fit.text(result, []),
            "command": command,
            "version": _native.version(),
        },
    )
    write_whole(out, page.encode(errors="replace"))


def _change(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return "-"
    middle, low, high = (f"{100 * v:+.0f}" for v in found)
    return f"{middle} % [{low}, {high}]"


def text(answer: Any) -> str:
    """The answer, and a line per scheme."""
    lines = [answer.text]
    if len(answer.candidates) > 1:
        lines.append(f"one of these is the best: {', '.join(answer.candidates)}")
    if answer.traffic:
        lines.append(f"traffic: {answer.traffic['text']}; the gain is in {answer.traffic['gain']}")
    if answer.measurement:
        lines.append(f"to narrow it: {answer.measurement}")
    if answer.options:
        runs = count(answer.options[0].draws, "draw")
        lines += [
            "",
            f"change against CUBIC: median [5th, 95th percentile of {runs}]",
            "scheme            gain                 goodput              p95 one-way delay   "
            " competitor's goodput",
        ]
    for o in answer.options:
        cells = [f"{_change(c):<20}" for c in (o.gain, o.goodput, o.delay, o.competitor)]
        lines.append(f"{o.scheme:<17} {' '.join(cells)}".rstrip())
        lines.append(f"    changes: {', '.join(o.changes)}")
        lines += [f"    {w}" for w in o.warnings]
    return "\n".join(lines)


__all__ = ["add_parser", "advise"]
