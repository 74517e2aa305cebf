"""`lasthop trace fit`: the parameters of the link that a measurement crossed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lasthop import progress
from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.quantities import count, format_number

# Unit of a parameter -> factor and unit in the table.
SHOWN = {
    "s": (1000.0, "ms"),
    "bit/s": (1e-6, "Mbit/s"),
    "B": (1e-3, "kB"),
    "share": (100.0, "%"),
}
TITLES = {"base_rtt": "base RTT", "queue": "queue depth"}


def title(name: str) -> str:
    """The name of a parameter in texts."""
    return TITLES.get(name, name.replace("_", " "))


def run(found: Any, options: Options, words: list[str]) -> int:
    """Fit the measurement, write the scenario and the picture, print the table."""
    from lasthop.advice import repeat
    from lasthop.experiments.store import write_whole
    from lasthop.scenarios import outputs
    from lasthop.traces.fit import scenario
    from lasthop.traces.fit.fit import fit

    out = Path(options.out)
    if out.suffix != ".toml":
        raise InputError(f"--out must be NAME.toml, found `{out}`")
    drawing = out.with_suffix(".png")
    inputs = options.file if options.far is None else [*options.file, options.far]
    outputs.check([("--out", out), ("--out", drawing)], inputs)
    result = fit(found)
    with progress.Progress("simulating (runs)", repeat.RUNS) as bar:
        rows, simulated = repeat.repeat(result, step=bar.step)
    write_whole(out, scenario.text(result))
    written = [out]
    if _draw(result, simulated, drawing):
        written.append(drawing)
    if options.json:
        common.print_document(_document(result, rows, written), options, words)
    elif not options.quiet:
        print(text(result, rows))
        print(f"written: {', '.join(map(str, written))}")
    return 0


def _draw(result: Any, simulated: Any, file: Path) -> bool:
    """Draw the picture; without matplotlib there is none."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    from lasthop.traces.fit import picture

    picture.write(result, simulated, file)
    return True


def _document(result: Any, rows: Any, written: list[Path]) -> dict[str, Any]:
    from dataclasses import asdict

    from lasthop import _native

    return {
        "schema_version": 1,
        "lasthop": _native.version(),
        **result.document(),
        "repeated": [asdict(r) for r in rows],
        "written": [str(p) for p in written],
    }


def number(value: float, unit: str) -> str:
    """A value in the unit of tables, without the unit."""
    return format_number(value * SHOWN[unit][0], 3)


def text(result: Any, rows: Any) -> str:
    """The table of parameters, and how well the fit repeats the measurement."""
    lines = [f"note: {note}" for note in result.seen.found.notes]
    lines += ["parameter        value      90 % interval          n"]
    for e in result.estimates():
        interval = f"[{number(e.low, e.unit)}, {number(e.high, e.unit)}] {SHOWN[e.unit][1]}"
        value = "unknown" if e.is_range else number(e.value, e.unit)
        lines.append(f"{title(e.name):<16} {value:>9}  {interval:<21}  {count_of(e)}")
        if e.is_range:
            lines.append(f"    assumed range: {e.how}")
        if e.note:
            lines.append(f"    {e.note}")
    lines += [
        f"capacity: {result.capacity.estimate.how}",
        f"busy: packets waited for the link {100 * result.capacity.busy_share:.0f} % of the time",
        f"losses on the air: {result.loss_process.text}",
        f"jumps of the base RTT: {result.jumps.text}",
    ]
    if rows:
        lines += [
            "",
            f"the fitted scenario repeats (bulk, cubic, {count(rows[0].runs, 'run')})",
            "                        measured  simulated  [lowest, highest run]",
        ]
    for r in rows:
        span = f"[{number(r.low, r.unit)}, {number(r.high, r.unit)}] {SHOWN[r.unit][1]}"
        measured, simulated = number(r.measured, r.unit), number(r.simulated, r.unit)
        lines.append(f"{r.name:<22} {measured:>9}  {simulated:>9}  {span}")
    return "\n".join(lines)


def count_of(found: Any) -> str:
    """How many observations a parameter rests on."""
    return f"{found.n} {found.of}"


__all__ = ["number", "run", "text", "title"]
