"""Parser of figure files: a scenario with `[experiment]`, `[plot]` and `[[claim]]`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lasthop import quantities
from lasthop.errors import InputError
from lasthop.scenarios.python_values import ScenarioDict, scenario_text
from lasthop.scenarios.table_reader import TableReader, scheme_text, value_text

DEFAULT_SEEDS = 20
FOLDER = Path(__file__).parents[1] / "papers"
KINDS = ("order", "about", "bound", "shape")
#: Kinds of `[plot]` that draw a comparison -> kind of the chart.
CHARTS = {
    "metric-vs-key": "line",
    "delay-goodput": "scatter",
    **{kind: kind for kind in ("line", "bars", "scatter", "box", "cdf", "heatmap")},
}
PLOTS = ("series", "sequence", *CHARTS, "distribution", "vectors")
SHAPES = ("increasing", "decreasing", "crossing")
RELATIONS = ("value", "difference", "ratio", "gain")


@dataclass(frozen=True)
class Experiment:
    """`[experiment]`: schemes, varied keys and seeds of a comparison."""

    schemes: tuple[str, ...] = ()
    vary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: int | None = None
    #: Scenario settings that a scheme needs: label -> key -> value.
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Vector:
    """`[[plot.vector]]`: packets for an agent, in order, and the actions according to the paper."""

    id: str
    scheme: str
    packets: tuple[str, ...]
    expect: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """`[[plot.reference]]`: a reference line, such as the values of a formula."""

    label: str
    #: The metric of the panel.
    metric: str
    #: One value for each value of the first varied key, in the unit of the metric.
    values: tuple[float, ...]
    #: The panel: values of the other varied keys.
    at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """`[plot]`: the plot of a figure."""

    kind: str
    #: Series (kind "series") or metrics (kinds of `CHARTS`), one panel each.
    show: tuple[str, ...] = ()
    #: Draw the run with this seed; without it the mean over all runs with its 95 % CI.
    seed: int | None = None
    #: Span of time, in seconds.
    range: tuple[float, float] | None = None
    #: Labels of the schemes to draw; all if empty.
    schemes: tuple[str, ...] = ()
    #: Label of the x axis; if empty, the name of the key.
    x_label: str = ""
    #: Replacements for keys and values in titles and axis labels.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Times to mark: [time in seconds, text].
    marks: tuple[tuple[float, str], ...] = ()
    #: What the paper shows, and which assumptions were added.
    about: str = ""
    vectors: tuple[Vector, ...] = ()
    references: tuple[Reference, ...] = ()
    #: Kinds of `CHARTS`: keys of the axes and of the rows and columns of panels.
    x: str = ""
    y: str = ""
    rows: str = ""
    columns: str = ""


@dataclass(frozen=True)
class Claim:
    """`[[claim]]`: a claim of a paper, and the predicate that checks it."""

    id: str
    kind: str
    text: str
    #: The number or the words of the paper.
    paper: str | float | None
    metric: str
    #: Label of the scheme of the claim; for `order`, the one with the larger value.
    left: str = ""
    right: str = ""
    #: For `order`: labels in ascending order, instead of left and right.
    chain: tuple[str, ...] = ()
    #: The measured quantity: the value of left, or its difference, ratio or gain (ratio - 1) over
    #: right.
    relation: str = "value"
    value: float | None = None
    #: Absolute, in the unit of the value.
    tolerance: float | None = None
    min: float | None = None
    max: float | None = None
    #: For `order` and `shape`: the minimum difference, in the unit of the metric or as a share of
    #: the mean of the lower side.
    least: float = 0.0
    least_is_share: bool = False
    shape: str = ""
    #: For `crossing`: the two values of the varied key between which the schemes cross.
    between: tuple[str, str] | None = None
    #: The point: values of the varied keys.
    at: Mapping[str, str] = field(default_factory=dict)
    #: The point of `right`, if it differs.
    against: Mapping[str, str] = field(default_factory=dict)
    #: Span of time, in seconds, for measures from events.
    window: tuple[float, float] | None = None
    #: Smallest and largest one-way delay, in seconds, for `delay_share`.
    delays: tuple[float, float] | None = None
    #: Minimum number of runs for a verdict, if the scenario is random.
    min_runs: int = 10
    #: Explanation of a measurement that differs.
    note: str = ""

    @property
    def column(self) -> str:
        """The column of the metric of this claim in tables."""
        spans = [
            f"{span[0]:g}-{span[1]:g}s" for span in (self.window, self.delays) if span is not None
        ]
        return "@".join([self.metric, *spans])


@dataclass(frozen=True)
class Figure:
    """A figure file."""

    id: str
    path: Path
    text: str
    title: str
    experiment: Experiment
    plot: Plot | None = None
    claims: tuple[Claim, ...] = ()


def _experiment(table: Any, where: str) -> Experiment:
    reader = TableReader(table, f"{where}: [experiment]")
    schemes = reader.take("schemes", [])
    if not isinstance(schemes, list):
        raise reader.wrong("schemes", schemes, "a list")
    vary = reader.take("vary", {})
    if not isinstance(vary, Mapping) or not all(isinstance(v, list) and v for v in vary.values()):
        raise reader.wrong("vary", vary, "a table of lists")
    settings = reader.take("settings", {})
    if not isinstance(settings, Mapping) or not all(
        isinstance(v, Mapping) for v in settings.values()
    ):
        raise reader.wrong(
            "settings", settings, "a table of tables: the label of a scheme, then keys and values"
        )
    seeds = reader.integer("seeds")
    reader.end()
    return Experiment(
        tuple(scheme_text(s, reader.where) for s in schemes),
        {k: tuple(value_text(x) for x in v) for k, v in vary.items()},
        seeds,
        {label: {k: value_text(v) for k, v in table.items()} for label, table in settings.items()},
    )


def _plot(table: Any, where: str) -> Plot:
    reader = TableReader(table, f"{where}: [plot]")
    kind = reader.text("kind", one_of=PLOTS)
    marks = reader.take("marks", [])
    if not isinstance(marks, list) or not all(isinstance(m, list) and len(m) == 2 for m in marks):
        raise reader.wrong("marks", marks, 'a list of times with texts such as [["5 s", "stall"]]')
    plot = Plot(
        kind,
        reader.texts("show"),
        reader.integer("seed"),
        reader.span("range"),
        reader.texts("schemes"),
        reader.text("x_label", ""),
        reader.words("labels"),
        tuple(
            (quantities.seconds(at, f"{reader.where}: `marks`"), str(text)) for at, text in marks
        ),
        " ".join(reader.text("about", "").split()),
        tuple(_vector(v, where) for v in reader.take("vector", [])),
        tuple(_reference(r, where) for r in reader.take("reference", [])),
        *(reader.text(key, "") for key in ("x", "y", "rows", "columns")),
    )
    reader.end()
    _check_plot(plot, reader.where)
    return plot


def _check_plot(plot: Plot, where: str) -> None:
    """Raise `InputError` if the keys of `[plot]` do not go with its kind."""
    if plot.kind not in CHARTS:
        for key in ("x", "y", "rows", "columns"):
            if getattr(plot, key):
                raise InputError(f"{where}: `{key}` goes with kind {', '.join(CHARTS)}")
    if plot.kind in ("series", "sequence") and not plot.show:
        raise InputError(f"{where}: kind {plot.kind} needs `show`, a list of series")
    if plot.kind == "vectors" and not plot.vectors:
        raise InputError(f"{where}: kind vectors needs [[plot.vector]]")


def _claim(table: Any, where: str) -> Claim:
    where = f"{where}: [[claim]] {table.get('id', '?') if isinstance(table, Mapping) else '?'}"
    reader = TableReader(table, where)
    kind = reader.text("kind", one_of=KINDS)
    tolerance = reader.take("tolerance")
    value = reader.number("value")
    between = reader.texts("between")
    least, least_is_share = _least(reader.take("least"), where)
    claim = Claim(
        id=reader.text("id"),
        kind=kind,
        text=reader.text("text"),
        paper=reader.take("paper"),
        metric=reader.text("metric"),
        left=reader.text("left", ""),
        right=reader.text("right", ""),
        chain=reader.texts("chain"),
        relation=reader.text("relation", "value", RELATIONS),
        value=value,
        tolerance=_tolerance(tolerance, value, kind, where),
        min=reader.number("min"),
        max=reader.number("max"),
        least=least,
        least_is_share=least_is_share,
        shape=reader.text("shape", "", SHAPES),
        between=(between[0], between[1]) if len(between) == 2 else None,
        at=reader.words("at"),
        against=reader.words("against"),
        window=reader.span("window"),
        delays=reader.span("delays"),
        min_runs=reader.integer("min_runs", 10) or 10,
        note=reader.text("note", ""),
    )
    reader.end()
    _complete(claim, where)
    return claim


def _least(given: Any, where: str) -> tuple[float, bool]:
    """The minimum difference, and whether it is a share ("2 %") of the mean of the lower side."""
    if given is None:
        return 0.0, False
    quantity = quantities.quantity(given) if isinstance(given, str) else None
    is_share = quantity is not None and quantity.unit == "%"
    least = (
        quantity.base
        if quantity is not None and is_share
        else quantities.number(given, f"{where}: `least`")
    )
    if least <= 0:
        raise InputError(f"{where}: `least` must be above 0, found {given!r}")
    return least, is_share


def _tolerance(given: Any, value: float | None, kind: str, where: str) -> float | None:
    """Absolute tolerance; "20 %" is that share of the value.

    Kind about has no default: how near counts is part of the claim.
    """
    if value is None:
        return None
    if given is None:
        if kind == "about":
            allowed = 'a share of the value such as "10 %", or a number in its unit'
            raise InputError(f"{where}: kind about needs `tolerance`: {allowed}")
        return None
    quantity = quantities.quantity(given) if isinstance(given, str) else None
    if quantity is not None and quantity.unit == "%":
        return quantity.base * abs(value)
    return quantities.number(given, f"{where}: `tolerance`")


def _at_each(table: Any, where: str) -> list[Any]:
    """Expand a claim with `each`, a varied key with several values, to one claim per value.

    The value replaces `{}` in the text and is appended to `id`.
    """
    if not isinstance(table, Mapping) or "each" not in table:
        return [table]
    where = f"{where}: [[claim]] {table.get('id', '?')}"
    each, at = table["each"], table.get("at", {})
    if (
        not isinstance(each, Mapping)
        or len(each) != 1
        or not all(isinstance(v, list) and v for v in each.values())
    ):
        raise InputError(
            f"{where}: `each` must be a table with one varied key and a list of its values, found"
            f" {each!r}"
        )
    ((key, chosen),) = each.items()
    rest = {k: v for k, v in table.items() if k != "each"}
    claims = []
    for value in map(value_text, chosen):
        suffix = re.sub(r"[^0-9A-Za-z]+", "_", value).strip("_")
        text = str(table.get("text", "")).replace("{}", value)
        claims.append(
            {
                **rest,
                "id": f"{table.get('id', '?')}-{suffix}",
                "text": text,
                "at": {**at, key: value},
            }
        )
    return claims


def _complete(claim: Claim, where: str) -> None:
    needs = {
        "order": bool(claim.chain) or bool(claim.left and claim.right),
        "about": claim.value is not None and bool(claim.left),
        "bound": (claim.min is not None or claim.max is not None) and bool(claim.left),
        "shape": (
            bool(claim.shape and claim.left)
            and (claim.shape != "crossing" or bool(claim.right and claim.between))
        ),
    }
    wanted = {
        "order": "`left` and `right`, or `chain`",
        "about": "`left` and `value`",
        "bound": "`left` and `min` or `max`",
        "shape": "`left` and `shape`, for a crossing also `right` and `between`",
    }
    if not needs[claim.kind]:
        raise InputError(f"{where}: kind {claim.kind} needs {wanted[claim.kind]}")
    if claim.least and claim.kind not in ("order", "shape"):
        raise InputError(
            f"{where}: `least` goes with kind order or shape; kind {claim.kind} has `tolerance`,"
            " `min` and `max`"
        )
    if claim.against and (
        claim.chain
        or not claim.right
        or (claim.kind != "order" and claim.relation == "value")
        or claim.kind == "shape"
    ):
        raise InputError(
            f"{where}: `against` is the point of `right`: it needs `right`, and an order or a"
            " relation"
        )
    if claim.kind != "order" and claim.relation != "value" and not claim.right:
        raise InputError(f"{where}: relation {claim.relation} needs `right`")


def _vector(table: Any, where: str) -> Vector:
    reader = TableReader(table, f"{where}: [[plot.vector]]")
    vector = Vector(
        reader.text("id"), reader.text("scheme"), reader.texts("packets"), reader.texts("expect")
    )
    reader.end()
    if len(vector.packets) != len(vector.expect):
        raise InputError(
            f"{reader.where} {vector.id}: {len(vector.packets)} packets but {len(vector.expect)}"
            " expected answers"
        )
    return vector


def _reference(table: Any, where: str) -> Reference:
    reader = TableReader(table, f"{where}: [[plot.reference]]")
    numbers = reader.take("values", [])
    if not isinstance(numbers, list) or not numbers:
        raise reader.wrong(
            "values", numbers, "a list of numbers, one for each value of the first varied key"
        )
    label = reader.text("label")
    found = tuple(quantities.number(x, f"{reader.where}: `values`") for x in numbers)
    reference = Reference(label, reader.text("metric"), found, reader.words("at"))
    reader.end()
    return reference


def read(path: Path, figure_id: str = "", text: str | None = None) -> Figure:
    """Read a figure file, or a scenario without experiment, plot and claims."""
    if text is None:
        text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None
    where = str(path)
    figure = Figure(
        id=figure_id or path.stem,
        path=path,
        text=text,
        title=str(table.get("title", path.stem)),
        experiment=_experiment(table.get("experiment", {}), where),
        plot=_plot(table["plot"], where) if "plot" in table else None,
        claims=tuple(
            _claim(c, where) for given in table.get("claim", []) for c in _at_each(given, where)
        ),
    )
    ids = [c.id for c in figure.claims]
    for claim in ids:
        if ids.count(claim) > 1:
            raise InputError(f"{path}: two claims have the id `{claim}`")
    return figure


def all_ids(folder: Path = FOLDER) -> list[str]:
    """The ids of all figures: PAPER/FIGURE."""
    return sorted(f"{p.parent.name}/{p.stem}" for p in folder.glob("*/*.toml"))


def select(wanted: Sequence[str], folder: Path = FOLDER) -> list[str]:
    """The ids of the figures that `PAPER` or `PAPER/FIGURE` name; all figures without a name.

    Raises `InputError` for an unknown name.
    """
    known = all_ids(folder)
    if not wanted:
        return known
    chosen: list[str] = []
    for name in wanted:
        found = [i for i in known if i == name or i.split("/")[0] == name]
        if not found:
            papers = sorted({i.split("/")[0] for i in known})
            hint = quantities.did_you_mean(name, known + papers)
            raise InputError(
                f"there is no figure `{name}`{hint}; papers: {', '.join(papers)}; figures:"
                f" {', '.join(known)}"
            )
        chosen += [i for i in found if i not in chosen]
    return chosen


def figures(ids: Sequence[str], folder: Path = FOLDER) -> Iterator[Figure]:
    """Read these figures."""
    for figure_id in ids:
        yield read(folder / f"{figure_id}.toml", figure_id)


def is_file(name: str) -> bool:
    """True if `name` is a scenario file, and not a figure or paper that lasthop ships."""
    return name.endswith(".toml") or Path(name).is_file()


def load(wanted: Sequence[str | Path | ScenarioDict]) -> list[Figure]:
    """Read the figures of `PAPER`, `PAPER/FIGURE` or a scenario FILE.toml; all without a name.

    A scenario may also be a dictionary. The id of a file is its name without ".toml", that of a
    dictionary is its title. Raises `InputError` for an unknown name, and if two figures have one
    id.
    """
    found: list[Figure] = []
    for given in wanted or [""]:
        if isinstance(given, Mapping):
            title = re.sub(r"[^0-9A-Za-z]+", "-", str(given.get("title", ""))).strip("-").lower()
            path = Path(f"{title or 'scenario'}.toml")
            found.append(read(path, text=scenario_text(given)))
            continue
        name = str(given)
        if not is_file(name):
            found += figures(select([name] if name else []))
            continue
        try:
            found.append(read(Path(name)))
        except UnicodeDecodeError:
            raise InputError(f"{name}: not a text file in UTF-8") from None
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
    chosen: dict[str, Figure] = {}
    for figure in found:
        other = chosen.setdefault(figure.id, figure)
        if (other.path, other.text) != (figure.path, figure.text) or figure.id == "index":
            raise InputError(
                f"{figure.path}: the figure would have the name of"
                f" {'the index' if figure.id == 'index' else other.path}; rename the file"
            )
    return list(chosen.values())


__all__ = [
    "Claim",
    "Experiment",
    "Figure",
    "Plot",
    "Reference",
    "Vector",
    "all_ids",
    "figures",
    "is_file",
    "load",
    "read",
    "scheme_text",
    "select",
]
