"""The results of reproduced figures."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.analysis.verdict import Verdict
from lasthop.errors import InputError
from lasthop.experiments.comparison import Comparison
from lasthop.experiments.plan import Plan
from lasthop.experiments.recorder import Recorder
from lasthop.renderers import renderer
from lasthop.scenarios import experiment
from lasthop.scenarios.experiment import Figure

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawing

#: Changes that the title of a modified figure names.
MAX_CHANGES = 3


@dataclass(repr=False)
class FigureResult:
    """A reproduced figure."""

    figure: Figure
    comparison: Comparison
    verdicts: list[Verdict]
    modified: bool
    recorder: Recorder = field(repr=False)
    files: list[str] = field(default_factory=list)
    answers: list[tuple[str, list[str]]] = field(default_factory=list)
    #: What was changed: "KEY = VALUE", and "also SCHEME".
    changes: Sequence[str] = ()

    @property
    def id(self) -> str:
        """PAPER/FIGURE."""
        return self.figure.id

    @property
    def title(self) -> str:
        """The title; that of a modified figure ends with "(modified: KEY = VALUE)"."""
        if not self.modified:
            return self.figure.title
        shown = [*self.changes[:MAX_CHANGES], *(["…"] if self.changes[MAX_CHANGES:] else [])]
        what = f": {', '.join(shown)}" if shown else ""
        return f"{self.figure.title} (modified{what})"

    @property
    def runs(self) -> polars.DataFrame:
        """One row per run."""
        return self.comparison.runs

    @property
    def is_shipped(self) -> bool:
        """True for a figure of a paper that lasthop ships."""
        return self.figure.path.is_relative_to(experiment.FOLDER)

    def plot(self, file: str | Path | None = None, *, style: str = "", ax: Any = None) -> Drawing:
        """Draw the figure.

        `file` (.svg, .png or .pdf), if given, is written. `style` names a preset of
        `plotting.styles`. `ax` are axes of matplotlib to draw into, one for each panel. Raises
        `InputError` if there is nothing to draw.
        """
        drawing: Drawing = renderer("figure: figure")(self, file, style=style, ax=ax)
        return drawing

    def __repr__(self) -> str:
        return (
            f"<FigureResult {self.id}: {len(self.comparison.rows)} runs, {_tally(self.verdicts)}>"
        )

    def _repr_html_(self) -> str:
        shown: str = renderer("figure: notebook")(self)
        return shown

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop reproduce --json` prints for the figure."""
        return {
            "id": self.id,
            "title": self.title,
            "modified": self.modified,
            "runs": len(self.comparison.rows),
            "claims": [v.to_dict() for v in self.verdicts],
            "assumed": [f"{at}: {x}" if at else x for at, x in self.comparison.plan.assumed],
            "failed": [
                {"point": r.case.point, "scheme": r.case.label, "seed": r.seed, "error": r.error}
                for r in self.comparison.failed
            ],
            "files": self.files,
        }


@dataclass(repr=False)
class Reproduction:
    """Reproduced figures."""

    figures: list[FigureResult]
    version: str
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop reproduce --json` prints."""
        return {
            "schema_version": 1,
            "lasthop": self.version,
            "figures": [f.to_dict() for f in self.figures],
        }

    def plot(
        self, file: str | Path | None = None, *, figure: str = "", style: str = "", ax: Any = None
    ) -> Drawing:
        """Draw the figure with the id `figure`, or the only one; see `FigureResult.plot`."""
        found = [
            f for f in self.figures if f.id == figure or (not figure and len(self.figures) == 1)
        ]
        if not found:
            raise InputError(f"figure: there are {', '.join(f.id for f in self.figures) or 'none'}")
        return found[0].plot(file, style=style, ax=ax)

    def __repr__(self) -> str:
        count = len(self.figures)
        verdicts = [v for f in self.figures for v in f.verdicts]
        return f"<Reproduction: {count} figure{'s' * (count != 1)}, {_tally(verdicts)}>"

    def _repr_html_(self) -> str:
        return "\n".join(f._repr_html_() for f in self.figures)

    def surprises(self, folder: Path = experiment.FOLDER) -> list[str]:
        """Verdicts that differ from the recorded ones (`expected.toml`), one line each."""
        expected = read_expected(folder)
        lines = []
        for figure in self.figures:
            recorded = expected.get(figure.id, {})
            for v in figure.verdicts:
                wanted = recorded.get(v.claim.id)
                if wanted is None:
                    lines.append(f"{figure.id}: claim {v.claim.id} has no recorded verdict")
                elif wanted != v.verdict:
                    lines.append(
                        f"{figure.id}: claim {v.claim.id}: verdict {v.verdict}, recorded verdict"
                        f" {wanted}: {v.why}"
                    )
        return lines


def _tally(verdicts: Sequence[Verdict]) -> str:
    counts = {w: sum(v.verdict == w for v in verdicts) for w in ("holds", "differs", "undecided")}
    shown = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    return f"claims: {shown}" if shown else "no claims"


def read_expected(folder: Path) -> dict[str, dict[str, str]]:
    """The recorded verdicts: figure -> claim -> verdict."""
    try:
        table = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {figure: dict(verdicts) for figure, verdicts in table.items()}


def inputs_of(figure: Figure, the_plan: Plan) -> list[str | Path]:
    """The files that the runs of a figure are read from."""
    return [*the_plan.inputs, figure.path]


__all__ = ["FigureResult", "Reproduction", "inputs_of", "read_expected"]
