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
from lasthop.renderers import renderer

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

    @property
    def single_runs(self) -> dict[tuple[int, str], str]:
        """What tables say of each case with one run, by point and scheme."""
        cases = sweep.read(self.folder).cases
        return {(c.point, c.label): c.single_run for c in cases if c.single_run is not None}

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
        text: str = renderer("sweep: text")(self.data, self.folder, self.files)
        return text

    def _repr_html_(self) -> str:
        shown: str = renderer("sweep: notebook")(self)
        return shown


def document(runs: Runs, reused: int, elapsed_s: float) -> dict[str, Any]:
    """The object that `lasthop sweep --json` prints."""
    described = runs.sweep
    return {
        "schema_version": sweep.SCHEMA_VERSION,
        **{k: v for k, v in described.about.items() if k != "vary"},
        "id": described.id,
        "shard": list(described.shard),
        "points": len(described.points),
        "runs": runs.finished,
        "reused": reused,
        "missing": sweep.count_of(runs.missing()),
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


__all__ = ["SweepResult", "document"]
