"""The commands of the command line. Each imports its modules when it is called."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import own_schemes, quantities
from lasthop.cli import check, link, new, report, schema, sweep, validate
from lasthop.cli import options as common
from lasthop.congestion import CongestionControl
from lasthop.errors import InputError, traceback_outside
from lasthop.experiments import plan

if TYPE_CHECKING:
    from lasthop.plotting.chart_spec import Chart
    from lasthop.reproduction.figures import FigureResult

Command = Callable[[argparse.Namespace, list[str]], int]


def schemes(options: argparse.Namespace, _: list[str]) -> int:
    """`lasthop schemes [NAME]`."""
    from lasthop import catalogue

    found: Sequence[catalogue.Entry] = catalogue.entries()
    if options.name is not None:
        found = [catalogue.find(found, options.name)]
    if options.json:
        common.print_json(found)
    elif options.name is not None:
        print(catalogue.describe(found[0]))
    else:
        print(catalogue.listing(found))
    return 0


def run(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop run`."""
    from lasthop import api
    from lasthop.analysis import summary

    scheme = None if options.scheme is None else own_schemes.load_scheme(options.scheme)
    try:
        if options.explain:
            _explain(options, scheme)
            return 0
        result = api.run(
            options.file,
            scheme=scheme,
            seed=options.seed,
            settings=common.settings(options),
            last_hop=common.last_hop(options),
            flows=common.flows(options),
            events=options.events,
            pcap=options.pcap,
        )
    except Exception as error:
        return _report_rule(error, options, isinstance(scheme, type))
    if options.json:
        # Without the elapsed time: the same command prints the same bytes.
        common.print_json({**result.data, "command": shlex.join(words)})
    else:
        print(summary.run(result.data, result.slots, result.assumed))
    return 0


def _report_rule(error: Exception, options: argparse.Namespace, has_rule: bool) -> int:
    """Print the traceback of a rule in Python and return 1; raise any other error again."""
    where = traceback_outside(error) if has_rule else None
    if where is None:
        raise error
    print(f"lasthop: run {options.seed} of {options.scheme} failed:\n{where}", file=sys.stderr)
    return 1


def inspect(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop inspect`."""

    from lasthop import api

    if not (options.out or options.qlog or options.pcap or options.json):
        raise InputError("inspect writes nothing: give --out FILE.html, --qlog, --pcap or --json")
    if options.snaplen is not None and options.pcap is None:
        raise InputError("--snaplen needs --pcap DIR")
    schemes = _schemes(options.scheme, "--scheme")
    try:
        result = api.inspect(
            options.file,
            schemes=schemes,
            seed=options.seed,
            flow=options.flow,
            shortest=options.shortest,
            settings=common.settings(options),
            last_hop=common.last_hop(options),
            flows=common.flows(options),
            pcap=options.pcap,
            snaplen=options.snaplen,
            command=shlex.join(words),
        )
    except Exception as error:
        return _report_rule(error, options, any(isinstance(s, type) for s in schemes or ()))
    if options.out is not None:
        result.save(options.out)
    if options.qlog is not None:
        result.save_qlog(options.qlog)
    if options.json:
        common.print_document(result.to_dict(), options, words)
    else:
        print(result)
        written = [x for x in (options.out, options.qlog, options.pcap) if x is not None]
        print(f"\nwritten: {', '.join(written)}")
    return 0


def _explain(options: argparse.Namespace, scheme: Any) -> None:
    """`lasthop run --explain`."""
    from lasthop import api
    from lasthop.analysis import summary

    explained = api.explain(
        options.file,
        scheme=scheme,
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
        observed=options.events is not None or options.pcap is not None,
    )
    if options.json:
        common.print_json(explained)
    else:
        print(summary.explanation(explained))


def _schemes(text: str | None, option: str) -> list[plan.Scheme] | None:
    """Split a list of schemes; each is a name in the catalogue or FILE.py:CLASS."""
    return (
        None
        if text is None
        else [own_schemes.load_scheme(s) for s in common.split_list(text, option)]
    )


def _vary(options: argparse.Namespace) -> dict[str, list[str]]:
    vary: dict[str, list[str]] = {}
    for text in options.vary:
        key, given = quantities.key_value(text, "--vary")
        if key in vary:
            raise InputError(
                f"--vary {key} is given twice; list all values in one option, separated by commas"
            )
        vary[key] = common.split_list(given, f"--vary {key}")
    return vary


def _chart(options: argparse.Namespace) -> Chart | None:
    """The chart of the options of `compare`; `None` without any."""
    from lasthop.plotting import chart_spec

    names = ("plot", "x", "y", "rows", "columns")
    given = [f"--{n}" for n in names if getattr(options, n)] + ["--metric"] * bool(options.metric)
    look = [f"--{n}" for n in ("style", "format") if getattr(options, n)]
    for option in [*given, *look]:
        if options.no_figure:
            raise InputError(f"{option} and --no-figure cannot be given together")
        if options.out is None:
            raise InputError(f"{option} needs --out DIR, the folder for the figure")
    if not given:
        return None
    metrics = [m for text in options.metric for m in common.split_list(text, "--metric")]
    return chart_spec.of_words(
        options.plot,
        metrics,
        options.x,
        y=options.y,
        rows=options.rows,
        columns=options.columns,
    )


def compare(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop compare`."""
    from lasthop import api

    if options.no_figure and options.out is None:
        raise InputError("--no-figure needs --out DIR, the folder for the tables")
    result = api.compare(
        options.file,
        schemes=_schemes(options.schemes, "--schemes"),
        also=_schemes(options.also, "--also") or (),
        seeds=options.seeds,
        vary=_vary(options),
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
        out=options.out,
        limit=options.limit,
        command=words,
        chart=_chart(options),
        figure=not options.no_figure,
        style=options.style,
        formats=common.split_list(options.format, "--format"),
        series=options.series,
    )
    with api.tables_of(result, options.out):
        if options.json:
            common.print_document(result.to_dict(), options, words)
        elif result.rows and not options.quiet:
            print(result)
    if options.out is not None and not options.json and not options.quiet:
        names = (p.name for p in Path(options.out).iterdir())
        shown = sorted(name for name in names if not name.startswith("."))
        print(f"\nwritten to {options.out}/: {', '.join(shown)}")
    if result.interrupted:
        kept = (
            f"; they are saved in {options.out}/runs.csv; repeat the command to continue"
            if options.out
            else ""
        )
        print(
            f"lasthop: interrupted after {len(result.rows)} of {result.plan.size()} runs{kept}",
            file=sys.stderr,
        )
        return 130
    return 1 if result.failed else 0


def reproduce(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop reproduce`."""
    from lasthop import api
    from lasthop.analysis import report as figure_text
    from lasthop.cli import progress
    from lasthop.experiments import experiment

    own = [name for name in options.figures if experiment.is_file(name)]
    if options.expect and own:
        raise InputError(f"--expect: there are no recorded verdicts for {own[0]}")

    def show(figure: FigureResult) -> None:
        progress.clear_line()
        print(figure_text.text(figure), flush=True)

    result = api.reproduce(
        *options.figures,
        also=_schemes(options.also, "--also") or (),
        seeds=options.seeds,
        settings=common.settings(options),
        quick=options.quick,
        out=options.out,
        limit=options.limit,
        command=words,
        style=options.style,
        formats=common.split_list(options.format, "--format"),
        told=(lambda _: None) if options.json or options.quiet else show,
    )
    if options.json:
        common.print_document(result.to_dict(), options, words)
    elif not options.quiet:
        print(f"\n{figure_text.tally(result.figures)}; plots and pages in {options.out}/")
    if result.interrupted:
        done = len(result.figures)
        figures = "figure" if done == 1 else "figures"
        print(f"lasthop: interrupted after {done} {figures}", file=sys.stderr)
        return 130
    if options.expect:
        surprises = result.surprises()
        for line in surprises:
            print(f"lasthop: {line}", file=sys.stderr)
        return 1 if surprises else 0
    return 0


def replay(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop replay`."""
    from lasthop import _native, api

    scheme = own_schemes.load_scheme(options.scheme)
    if isinstance(scheme, type) and issubclass(scheme, CongestionControl):
        raise InputError(
            f"--scheme {options.scheme} is a window rule; replay needs a scheme with an agent"
        )
    text, counts = api.replay(
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


def doctor(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop doctor`."""
    from lasthop.cli import doctor as checks

    found = checks.run_checks()
    if options.json:
        link = any(c.what == "link" and c.ok for c in found)
        document = {"schema_version": 1, "link": link, "checks": [c.__dict__ for c in found]}
        common.print_document(document, options, words)
    else:
        print(checks.text(found))
    return 0


COMMANDS: dict[str, Command] = {
    "schemes": schemes,
    "run": run,
    "inspect": inspect,
    "compare": compare,
    "reproduce": reproduce,
    "replay": replay,
    "link": link.link,
    "validate": validate.validate,
    "sweep": sweep.sweep,
    "merge": sweep.merge,
    "report": report.report,
    "check": check.check,
    "new": new.new,
    "schema": schema.schema,
    "doctor": doctor,
}

__all__: Sequence[str] = ["COMMANDS"]
