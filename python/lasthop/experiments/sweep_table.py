"""The table `[sweep]` of a scenario file, and the options that replace its keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lasthop import quantities
from lasthop.errors import InputError
from lasthop.experiments import axes
from lasthop.experiments.plan import JOINT_SEPARATOR
from lasthop.scenarios.experiment import Experiment
from lasthop.scenarios.table_reader import TableReader, scheme_text

DEFAULT_SEEDS = 20


@dataclass(frozen=True)
class Wanted:
    """What to sweep; empty or `None` if it is not given."""

    schemes: tuple[str, ...] = ()
    #: Scenario key, or keys that change together, to values.
    vary: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seeds: range | None = None
    until: str | None = None
    max_seeds: int | None = None

    def over(self, other: Wanted) -> Wanted:
        """These wishes; what they leave open comes from `other`."""
        return Wanted(
            self.schemes or other.schemes,
            self.vary or other.vary,
            self.seeds or other.seeds,
            self.until or other.until,
            self.max_seeds or other.max_seeds,
        )


def read(text: str, where: str, experiment: Experiment) -> Wanted:
    """Read `[sweep]`; without one of its keys, that of `[experiment]` is used."""
    reader = TableReader(tomllib.loads(text).get("sweep", {}), f"{where}: [sweep]")
    schemes = reader.take("schemes", [])
    if not isinstance(schemes, list):
        raise reader.wrong("schemes", schemes, "a list")
    vary = _vary(reader.take("vary", {}), reader.where)
    zips = reader.take("zip", [])
    if not isinstance(zips, list) or not all(isinstance(z, Mapping) for z in zips):
        raise reader.wrong("zip", zips, "a list of tables of keys that change together")
    for group in zips:
        key, values = axes.zipped(group, f"{reader.where} zip")
        add_axis(vary, key, values, f"{reader.where} zip")
    seeds = reader.take("seeds")
    if seeds is not None and not isinstance(seeds, (int, str)):
        raise reader.wrong("seeds", seeds, 'a whole number or a range such as "1..100"')
    until = reader.text("until", "") or None
    most = reader.integer("max_seeds")
    reader.end()
    found = Wanted(
        tuple(scheme_text(s, reader.where) for s in schemes),
        vary,
        None if seeds is None else axes.read_seeds(str(seeds)),
        until,
        most,
    )
    count = experiment.seeds
    rest = None if count is None else range(1, count + 1)
    return found.over(Wanted(experiment.schemes, dict(experiment.vary), rest))


def _vary(given: Any, where: str) -> dict[str, list[str]]:
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: `vary` must be a table of keys and values, found {given!r}")
    return {key: axes.values(values, f"{where} {key}") for key, values in given.items()}


def read_options(vary: Sequence[str], zips: Sequence[str]) -> dict[str, list[str]]:
    """Read the options `--vary KEY=VALUES` and `--zip 'KEY=VALUES & KEY=VALUES'`."""
    found: dict[str, list[str]] = {}
    for text in vary:
        key, given = quantities.key_value(text, "--vary")
        add_axis(found, key, axes.values(given, f"--vary {key}"), "--vary")
    for text in zips:
        key, values = axes.read_zip(text)
        add_axis(found, key, values, "--zip")
    return found


def add_axis(found: dict[str, list[str]], key: str, values: list[str], where: str) -> None:
    """Add an axis; raises `InputError` if one of its keys is on another axis."""
    taken = {k for axis in found for k in axis.split(JOINT_SEPARATOR)}
    for part in key.split(JOINT_SEPARATOR):
        if part in taken:
            raise InputError(f"{where}: the key {part} is on two axes; list all its values in one")
    found[key] = values
