"""The result of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras
from lasthop.errors import InputError
from lasthop.experiments import sweep
from lasthop.experiments.sweep import Runs
from lasthop.quantities import count

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A sweep in its folder; `table` and `runs` read it.

    `data` is the object that `lasthop sweep --json` prints.
    """

    folder: Path
    data: Mapping[str, Any]
    #: True if it was interrupted; the same call then does what is missing.
    interrupted: bool = False
    #: Names of the written files.
    files: Sequence[str] = ()

    @property
    def failed(self) -> Sequence[Mapping[str, Any]]:
        """Runs that ended with an error: point, scheme, seed, error."""
        failed: Sequence[Mapping[str, Any]] = self.data["failed"]
        return failed

    @property
    def table(self) -> polars.DataFrame:
        """One row per point, scheme and metric: mean, 95 % CI, ratio to the first scheme."""
        return self._read("table.parquet")

    @property
    def runs(self) -> polars.DataFrame:
        """One row per run."""
        return self._read("runs.parquet")

    def _read(self, name: str) -> polars.DataFrame:
        extras.require("tables")
        import polars

        if self.interrupted:
            raise InputError(
                f"{self.folder}: the sweep was interrupted; repeat the call for its tables"
            )
        return polars.read_parquet(self.folder / name)

    def _varied(self) -> list[str]:
        return list(self.runs.columns[1 : self.runs.columns.index("scheme")])

    def to_pandas(self) -> pandas.DataFrame:
        """`runs` as a data frame of pandas, indexed by varied keys, scheme and seed."""
        from lasthop.analysis import frames

        keys = self._varied()
        found, _ = frames.with_numbers(self.runs.drop("point"), keys)
        return frames.to_pandas(found, frames.dimensions(keys))

    def to_xarray(self) -> xarray.Dataset:
        """The metrics of all runs as a dataset of xarray.

        Its dimensions are the varied keys, the scheme and the seed.
        """
        from lasthop.analysis import frames

        keys = self._varied()
        found, units = frames.with_numbers(self.runs.drop("point", "error"), keys)
        about = {"scenario": self.data["scenario"], "lasthop": self.data["lasthop"]}
        return frames.to_xarray(found, frames.dimensions(keys), about, units)

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop sweep --json` prints."""
        return dict(self.data)

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return (
            f"<SweepResult {str(self.data['scenario'])[:60]}: {self.data['points']} points,"
            f" {len(self.data['schemes'])} schemes, {self.data['runs']} runs{state}>"
        )

    def __str__(self) -> str:
        return text(self.data, self.folder, self.files)

    def _repr_html_(self) -> str:
        from lasthop.analysis import html

        return html.sweep(self)


def document(runs: Runs, reused: int, elapsed_s: float) -> dict[str, Any]:
    """The object that `lasthop sweep --json` prints."""
    described = runs.sweep
    return {
        "schema_version": sweep.SCHEMA_VERSION,
        **{k: v for k, v in described.about.items() if k != "vary"},
        "id": described.id,
        "shard": list(described.shard),
        "points": len(described.points),
        "runs": len(runs.values),
        "reused": reused,
        "missing": len(runs.missing()),
        "failed": [
            {
                "point": described.cases[case].point,
                "scheme": described.cases[case].label,
                "seed": seed,
                "error": error,
            }
            for (case, seed), error in sorted(runs.failed.items())
        ],
        "elapsed_s": round(elapsed_s, 3),
    }


def text(document: Mapping[str, Any], folder: Path, files: Sequence[str]) -> str:
    """The summary that `lasthop sweep` prints."""
    number, shards = document["shard"]
    shard = "" if shards == 1 else f"shard {number} of {shards}: "
    lines = [
        f"{document['scenario']}: {shard}{count(document['points'], 'point')} x"
        f" {count(len(document['schemes']), 'scheme')}, {count(document['runs'], 'run')}"
        f" ({document['reused']} reused), {len(document['failed'])} failed",
        f"written to {folder}/: {', '.join(files)}",
    ]
    general = [a for a in document["assumed"] if not a.startswith(("at ", "for "))]
    more = len(document["assumed"]) - len(general)
    assumed = [f"assumed: {a}" for a in general]
    if more:
        assumed.append(f"assumptions about some cases: {more}, in sweep.json")
    return "\n".join([lines[0], *assumed, lines[1]])


__all__ = ["SweepResult", "document", "text"]
