"""The command `lasthop trace`: measurement files, and traces of links made from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lasthop import extras, progress
from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.quantities import count, format_number, quantity, seconds

ACTIONS = ("info", "import", "cut", "scale", "export", "plot", "fit")
# Actions that write traces.
_TRACES = ("import", "cut", "scale")
#: Options that write something, and the actions that have them.
_OUTPUTS = {"out": (*_TRACES, "export", "plot", "fit"), "out_delay": _TRACES, "out_loss": _TRACES}
# Options of one action.
_OWN = {"from": "cut", "to": "cut", "scale_rate": "scale", "scale_delay": "scale"}
_FIGURES = (".png", ".svg", ".pdf")


def add_parser(commands: Any) -> None:
    """Add `trace` to the command line."""
    trace = commands.add_parser(
        "trace",
        help="read a measurement file, and make traces of a link from it",
        description=(
            "Read files that other programs measured: captures (pcap), iperf3 --json, ping, irtt,"
            " Flent, ss, tables (CSV),\ntraces of mahimahi and others, told by their content. info"
            " prints what they say, import writes traces for\n--down, --up and link files, cut"
            " writes those of a part, scale those of a faster or slower link, export writes\na"
            " table by the second, plot a figure, fit a scenario. Several files are one"
            " measurement. See docs/traces.md."
        ),
        **common.examples(
            "lasthop trace info iperf3.json",
            "lasthop trace import drive.csv --out my.down",
            "lasthop trace import log.csv --column rate --unit kbit/s --out my.down",
            "lasthop trace import ping.txt --out-delay my.delay --out-loss my.loss",
            "lasthop trace cut drive.csv --from 2s --to 8s --out tunnel.down",
            "lasthop trace scale my.down --scale-rate 5Mbps --out slow.down",
            "lasthop trace export my.down --out my.csv",
            "lasthop trace plot iperf3.json ping.txt --out my.png",
            "lasthop trace fit in.pcap --mobile 192.0.2.7 --out my.toml",
        ),
    )
    trace.add_argument("action", choices=ACTIONS, help="what to do")
    trace.add_argument("file", nargs="+", metavar="FILE", help="measurement file, or - for stdin")
    write = trace.add_argument_group("output", "files that are written whole or not at all")
    write.add_argument(
        "--out",
        metavar="FILE",
        help=(
            "import, cut, scale: trace to write, NAME.down or NAME.up; NAME.down also writes"
            " NAME.up if both directions were measured. export: table (CSV). plot: figure (png,"
            " svg, pdf). fit: scenario NAME.toml, and a picture NAME.png"
        ),
    )
    write.add_argument(
        "--out-delay",
        metavar="FILE",
        help="import, cut, scale: delay trace to write, half of the round-trip times",
    )
    write.add_argument("--out-loss", metavar="FILE", help="import, cut, scale: loss trace to write")
    write.add_argument(
        "--gaps",
        choices=("join", "zero"),
        default="join",
        help=(
            "import, cut, scale: times without measurement are left out (join) or carry nothing"
            " (zero)"
        ),
    )
    _add_editing(trace)
    add_reading(trace)
    common.add_output(trace)


def _add_editing(trace: Any) -> None:
    """Add the options of cut and scale."""
    group = trace.add_argument_group("editing", "which part, and how fast a link")
    group.add_argument(
        "--from",
        metavar="T",
        help='cut: first time, from the first row with gaps, such as "60s" (default: the start)',
    )
    group.add_argument("--to", metavar="T", help="cut: end of the part (default: the end)")
    group.add_argument(
        "--scale-rate",
        metavar="X",
        help=(
            "scale: factor of all rates, such as 0.5, or the mean that the downlink gets, such as"
            ' "5Mbps"'
        ),
    )
    group.add_argument(
        "--scale-delay",
        metavar="X",
        help='scale: factor of all delays, or their mean, one way, such as "30ms"',
    )


def add_reading(trace: Any) -> None:
    """Add the options that say what a file leaves open."""
    group = trace.add_argument_group("reading", "what a file does not say itself")
    for flag, metavar, text in (
        ("column", "COLUMN", "column of the downlink rate, by name or by number from 1"),
        ("up-column", "COLUMN", "column of the uplink rate"),
        ("unit", "UNIT", "unit of the rates, such as kbit/s or MB/s, or of bytes per row: bytes"),
        ("time-column", "COLUMN", "column of the times"),
        ("time-unit", "UNIT", "unit of times that are numbers: s, ms, us or ns"),
        ("time-format", "FORM", "form of times that are text, such as '%%d/%%m/%%Y %%H:%%M:%%S'"),
        ("rtt-column", "COLUMN", "column of the round-trip times"),
        ("rtt-unit", "UNIT", "unit of the round-trip times: ms, s or us"),
        ("loss-column", "COLUMN", "column of the losses"),
        ("loss-unit", "UNIT", "unit of the losses: %% or share"),
        ("interval", "T", 'time between two rows, for a log without times, such as "0.2s"'),
        (
            "file-format",
            "FORMAT",
            "format of a text that does not say its own: leoreplayer-delay",
        ),
        ("interface", "NAME", "interface of a capture with several, by name or by number from 0"),
        (
            "far",
            "FILE",
            "capture of the same packets at the other end, or its interface in the file",
        ),
        ("mobile", "ADDR[/LEN]", "address or network of the mobile end of a capture"),
    ):
        group.add_argument(f"--{flag}", metavar=metavar, help=text)
    group.add_argument(
        "--swap",
        action="store_true",
        help="exchange downlink and uplink: the file was measured at the side of the server",
    )


def trace(options: Options, words: list[str]) -> int:
    """`lasthop trace`."""
    _check_options(options)
    found = _edited(read(options), options)
    if options.action == "info":
        return _info(found, options, words)
    if options.action == "fit":
        from lasthop.cli import trace_fit

        return trace_fit.run(found, options, words)
    written = _write(found, options)
    for note in found.notes:
        progress.note(note)
    if options.json:
        common.print_document(_document(found, written), options, words)
    elif not options.quiet:
        print(f"{_skipped_text(found)}written: {', '.join(map(str, written))}")
    return 0


def _check_options(options: Options) -> None:
    action = options.action
    given = [name for name in _OUTPUTS if getattr(options, name) is not None]
    for name in given:
        if action not in _OUTPUTS[name]:
            raise InputError(f"--{name.replace('_', '-')} does not go with lasthop trace {action}")
    for name, own in _OWN.items():
        if getattr(options, name) is not None and action != own:
            raise InputError(f"--{name.replace('_', '-')} does not go with lasthop trace {action}")
    if action == "cut" and getattr(options, "from") is None and options.to is None:
        raise InputError("lasthop trace cut needs --from T, --to T or both")
    if action == "scale" and options.scale_rate is None and options.scale_delay is None:
        raise InputError("lasthop trace scale needs --scale-rate X, --scale-delay X or both")
    if action in _TRACES and not given:
        raise InputError(
            f"lasthop trace {action} needs --out NAME.down, --out-delay FILE or --out-loss FILE"
            " (see lasthop trace --help)"
        )
    if action in ("export", "plot", "fit") and options.out is None:
        raise InputError(f"lasthop trace {action} needs --out FILE")
    if action == "plot":
        if Path(options.out).suffix.lower() not in _FIGURES:
            raise InputError(f"--out must end with .png, .svg or .pdf, found `{options.out}`")
        extras.require("plots")


def read(options: Options) -> Any:
    """The measurement in the files of the command line."""
    from lasthop import measurements
    from lasthop.traces.source import ReadOptions

    interval = options.interval
    how: dict[str, Any] = {
        name: getattr(options, name)
        for name in ReadOptions.__dataclass_fields__
        if name != "interval_s"
    }
    how["interval_s"] = None if interval is None else seconds(interval, "--interval")
    sizes = sum(os.path.getsize(name) for name in options.file if os.path.isfile(name))
    with progress.Progress("reading (bytes)", sizes) as bar:
        return measurements.trace(options.file, swap=options.swap, step=bar.step, **how)


def _edited(found: Any, options: Options) -> Any:
    """The measurement after `cut` and `scale`."""
    from lasthop.traces import edit

    if options.action == "cut":
        given = getattr(options, "from")
        start = 0.0 if given is None else seconds(given, "--from")
        end = None if options.to is None else seconds(options.to, "--to")
        found = edit.cut(found, start, end)
    if options.scale_rate is not None:
        is_factor, value = _scale(options.scale_rate, "--scale-rate", "bit/s", "5 Mbps")
        factor = value if is_factor else edit.factor_to_rate(found, value)
        found = edit.scale_rate(found, factor)
    if options.scale_delay is not None:
        is_factor, value = _scale(options.scale_delay, "--scale-delay", "s", "30 ms")
        factor = value if is_factor else edit.factor_to_delay(found, value)
        found = edit.scale_delay(found, factor)
    return found


def _scale(text: str, option: str, unit: str, example: str) -> tuple[bool, float]:
    """Whether the text is a factor, and its value; otherwise a mean in base units."""
    found = quantity(text)
    is_factor = found is not None and not found.dimension
    if found is None or found.base <= 0 or not (is_factor or found.dimension == unit):
        raise InputError(
            f'{option} must be a factor above 0 such as 0.5, or a mean such as "{example}", found'
            f" `{text}`"
        )
    return is_factor, found.base


def _write(found: Any, options: Options) -> list[Path]:
    """Write the files of the command line; their contents are made before the first is written."""
    from lasthop.experiments.store import write_whole
    from lasthop.scenarios import outputs
    from lasthop.traces import outputs as texts

    if options.action == "plot":
        from lasthop.traces import picture

        outputs.check([("--out", options.out)], _inputs(options))
        picture.write(found, Path(options.out))
        return [Path(options.out)]
    contents: dict[Path, str] = {}
    if options.action == "export":
        contents[Path(options.out)] = texts.table(found)
    else:
        if options.out is not None:
            contents |= _rate_traces(found, Path(options.out), options.gaps)
        if options.out_delay is not None:
            contents[Path(options.out_delay)] = texts.delay_trace(found, options.gaps)
        if options.out_loss is not None:
            contents[Path(options.out_loss)] = texts.loss_trace(found, options.gaps)
        given = sum(1 for name in _OUTPUTS if getattr(options, name) is not None)
        if len(contents) < given:
            raise InputError("--out, --out-delay and --out-loss must be different files")
    named = {getattr(options, name): "--" + name.replace("_", "-") for name in _OUTPUTS}
    outputs.check([(named.get(str(path), "--out"), path) for path in contents], _inputs(options))
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)


def _inputs(options: Options) -> list[str]:
    return options.file if options.far is None else [*options.file, options.far]


def _rate_traces(found: Any, out: Path, gaps: str) -> dict[Path, str]:
    from lasthop.traces import outputs
    from lasthop.traces.table import DOWN, UP

    if out.suffix not in (".down", ".up"):
        raise InputError(f"--out must be NAME.down or NAME.up, found `{out}`")
    direction = UP if out.suffix == ".up" else DOWN
    contents = {out: outputs.rate_trace(found, direction, gaps)}
    if direction == DOWN and found.rates(UP).bytes.sum() > 0:
        contents[out.with_suffix(".up")] = outputs.rate_trace(found, UP, gaps)
    return contents


def _document(found: Any, written: list[Path]) -> dict[str, Any]:
    from lasthop import _native
    from lasthop.traces import summary

    version = {"schema_version": 1, "lasthop": _native.version()}
    return {**version, **summary.document(found), "written": [str(path) for path in written]}


def _info(found: Any, options: Options, words: list[str]) -> int:
    document = _document(found, [])
    if options.json:
        common.print_document(document, options, words)
    else:
        print(_text(found, document))
    return 0


def _skipped_text(found: Any) -> str:
    lines = [
        f"skipped: {count(s.rows, 'row')}, {s.reason} ({s.unit}"
        f" {', '.join(map(str, s.lines))}{' …' if s.rows > len(s.lines) else ''})\n"
        for s in found.skipped
    ]
    return "".join(lines)


def _times(found: dict[str, float]) -> str:
    parts = (("minimum", "minimum"), ("median", "median"), ("p95", "95th percentile"))
    return ", ".join(f"{word} {format_number(1000 * found[key])} ms" for key, word in parts)


def _text(found: Any, document: dict[str, Any]) -> str:
    lines = [f"format    {document['format']}, {count(document['rows'], 'row')}"]
    for source in document["sources"]:
        lines.append(f"file      {source['file']}; times: {source['clock']}")
    lines.append(f"duration  {format_number(document['duration_s'])} s")
    for name, rate in document["mean_rate_bps"].items():
        if rate is None:
            continue
        gaps = document["gaps"][name]
        what = f"{name}link".ljust(9)
        pause = (
            f"; {count(gaps['count'], 'gap')} of {format_number(gaps['total_s'])} s in total"
            if gaps["count"]
            else ""
        )
        lines.append(f"{what} mean {format_number(rate / 1e6)} Mbit/s{pause}")
    if (rtt := document["rtt_s"]) is not None:
        lines.append(f"RTT       {_times(rtt)}")
    for name, delay in document["delay_s"].items():
        if delay is not None:
            lines.append(f"{name}link".ljust(9) + f" delay {_times(delay)}")
    if document["loss"] is not None:
        lines.append(f"lost      {format_number(100 * document['loss'], 3)} % of the packets")
    lines += [f"note      {note}" for note in document["notes"]]
    lines += _skipped_text(found).splitlines()
    return "\n".join(lines)
