"""Measurement files from Python: `trace`, `fit` and `advise`, as the commands of these names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lasthop import catalogue
from lasthop.advice import advise as simulated
from lasthop.advice.advise import Advice
from lasthop.errors import InputError
from lasthop.scenarios.scenario_source import trace_path
from lasthop.traces import formats, table
from lasthop.traces.fit import fit as estimated
from lasthop.traces.fit.fit import Fit
from lasthop.traces.source import ReadOptions
from lasthop.traces.table import Measurement

#: A measurement, the file that has it, or several files of the same link.
Measured = Measurement | str | Path | Sequence[str | Path]


def trace(
    files: str | Path | Sequence[str | Path],
    *,
    swap: bool = False,
    step: Callable[[int], None] = lambda _: None,
    **options: Any,
) -> Measurement:
    """Read measurement files, whatever their format (docs/traces.md).

    `options` are those of `lasthop trace` with underscores (`mobile`, `interface`, `unit`,
    `column` …), `interval_s` in seconds. `swap` exchanges downlink and uplink. `step` is called
    with the number of bytes that have been read.

    Raises `InputError` if a file is of no known format, or lacks what no option says either.
    """
    unknown = set(options) - set(ReadOptions.__dataclass_fields__)
    if unknown:
        raise InputError(f"lasthop.trace has no option `{min(unknown)}`")
    how = ReadOptions(**options)
    given = [files] if isinstance(files, (str, Path)) else list(files)
    if not given:
        raise InputError("lasthop.trace needs a file")
    names = [name if name == "-" else trace_path(name) for name in map(str, given)]
    found = table.joined([formats.read(name, how, step) for name in names])
    return found.swapped() if swap else found


def fit(measured: Measured, **options: Any) -> Fit:
    """Estimate the parameters of the link that a measurement crossed, as `lasthop trace fit`.

    `options` are those of `trace`, for files. `Fit.estimates()` has the parameters with their
    intervals, `Fit.scenario()` is the scenario in TOML.

    Raises `InputError` if there are neither rates nor round-trip times.
    """
    return estimated.fit(_read(measured, options))


def advise(
    measured: Measured | Fit,
    *,
    can: str = "sender",
    draws: int = 20,
    traffic: str = "measured",
    step: Callable[[int], None] = lambda _: None,
    **options: Any,
) -> Advice:
    """What the schemes that can be deployed at one place would change, as `lasthop advise`.

    `can` is "sender", "cpe", "ap", "base-station" or "both-ends"; `draws` is the number of
    scenarios drawn from the fit, 5 to 1000; `traffic` is "measured" (what the files have) or
    "bulk". `options` are those of `trace`, for files. `step` is called after each scheme.

    Raises `InputError` for wrong input.
    """
    if can not in catalogue.CAN:
        raise InputError(f"can must be one of {', '.join(catalogue.CAN)}, found `{can}`")
    if not 5 <= draws <= 1000:
        raise InputError(f"draws must be 5 to 1000, found {draws}")
    if traffic not in ("measured", "bulk"):
        raise InputError(f"traffic must be measured or bulk, found `{traffic}`")
    found = measured if isinstance(measured, Fit) else fit(measured, **options)
    return simulated.advise(found, can, draws, step, traffic)


def _read(measured: Measured, options: dict[str, Any]) -> Measurement:
    if not isinstance(measured, Measurement):
        return trace(measured, **options)
    if options:
        raise InputError(f"a measurement has been read: `{min(options)}` is an option of files")
    return measured


__all__ = ["advise", "fit", "trace"]
