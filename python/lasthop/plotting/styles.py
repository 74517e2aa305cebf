"""The look of all figures: page widths and fonts of presets, palette, legend, files.

Text in SVG and PDF stays text. The palette is safe for colour-blind readers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lasthop import notebooks, quantities
from lasthop.errors import InputError
from lasthop.experiments.store import partial
from lasthop.plotting import plot_text
from lasthop.plotting.matplotlib_import import import_matplotlib
from lasthop.plotting.plot_text import MIN_RUNS_FOR_INTERVAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow, which is too light on paper.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = "osD^vPX<>*"
DASHES: Final[tuple[Any, ...]] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)
CAPTION_GREY: Final = "#555555"
GREY: Final = "#b0b0b0"  # of the reference scheme
BASE_PT: Final = 8.5  # font size of the preset `page`, points

_STYLE: dict[str, Any] = {
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "lasthop",
    "pdf.fonttype": 42,
}
#: Sizes in points at a font size of `BASE_PT`.
_SIZES: dict[str, float] = {
    "font.size": BASE_PT,
    "axes.titlesize": 9.5,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
}

# Without date and program version, so that equal figures are equal files.
_METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
FORMATS: Final = tuple(_METADATA)
#: Resolution of pictures in pixels, dots per inch.
DPI: Final = 200


@dataclass(frozen=True)
class Preset:
    """A page that figures are made for."""

    name: str
    about: str
    #: Width of a figure, inches.
    width_in: float
    #: Font size of axis labels, points.
    font_pt: float
    #: Whether the figure has a title and a caption; journals print their own.
    titles: bool = True
    #: Formats of the files.
    formats: tuple[str, ...] = ("svg", "png")
    #: Most panels side by side.
    columns: int = 3
    #: Most height of a figure with several rows of panels, inches.
    height_in: float = 9.5

    @property
    def scale(self) -> float:
        """Size of text and lines, relative to the preset `page`."""
        return self.font_pt / BASE_PT

    def chars(self, inches: float) -> int:
        """Number of characters of a label that fit into this width (inches)."""
        return int(inches * 12.0 / self.scale)


_JOURNAL: dict[str, Any] = {"titles": False, "formats": ("pdf", "png")}
PRESETS: Final[dict[str, Preset]] = {
    p.name: p
    for p in (
        Preset("page", "text width of an A4 page", 6.3, BASE_PT),
        Preset("ieee-column", "one column of an IEEE journal", 3.5, 7.0, **_JOURNAL),
        Preset("ieee-page", "both columns of an IEEE journal", 7.16, 8.0, **_JOURNAL, columns=4),
        Preset("acm-column", "one column of an ACM conference", 3.33, 7.0, **_JOURNAL),
        Preset("acm-page", "both columns of an ACM conference", 7.0, 8.0, **_JOURNAL, columns=4),
        Preset("slides", "a slide of 16:9", 10.0, 14.0, columns=4, height_in=5.6),
        Preset("screen", "a browser or notebook", 9.0, 10.0, columns=4, height_in=12.0),
    )
}
DEFAULT: Final = "page"
_current: ContextVar[str] = ContextVar("preset", default=DEFAULT)


def current() -> Preset:
    """The preset of the figure that is being drawn."""
    return PRESETS[_current.get()]


def check(name: str, option: str = "style") -> str:
    """Return the name of a preset; raises `InputError` with the list of presets."""
    if name and name not in PRESETS:
        hint = quantities.did_you_mean(name, list(PRESETS))
        raise InputError(f"{option}: no style {name!r}{hint}; there are {', '.join(PRESETS)}")
    return name or DEFAULT


def check_formats(names: Sequence[str], option: str = "format") -> tuple[str, ...]:
    """Return the formats; raises `InputError` with the list of formats."""
    for name in names:
        if name not in FORMATS:
            hint = quantities.did_you_mean(name, list(FORMATS))
            raise InputError(f"{option}: no format {name!r}{hint}; there are {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(names))


@contextmanager
def use(name: str) -> Iterator[Preset]:
    """Draw figures in this context with the preset `name` ("": the default)."""
    token = _current.set(check(name))
    try:
        yield current()
    finally:
        _current.reset(token)


@contextmanager
def style() -> Iterator[None]:
    """Apply the common style of all figures in this context."""
    import matplotlib

    scale = current().scale
    sizes = {key: size * scale for key, size in _SIZES.items()}
    with matplotlib.rc_context():
        matplotlib.rcParams.update(cast("Any", {**_STYLE, **sizes}))
        yield


def small_pt() -> float:
    """Font size of captions and of labels in a panel, points."""
    return 7.0 * current().scale


@dataclass(frozen=True)
class SchemeStyle:
    """Colour, marker and line style of a scheme in all figures of a comparison."""

    label: str
    colour: str
    marker: str
    dash: Any = "-"


def scheme_styles(labels: Sequence[str]) -> list[SchemeStyle]:
    """Return a style for each label."""
    return [
        SchemeStyle(
            x, COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
        )
        for i, x in enumerate(labels)
    ]


def new_figure(
    height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure of page width and `height` inches; return it with its axes, row by row."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    notebooks.show_figures()
    figure = Figure(figsize=(current().width_in, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [a for row in axes for a in row]


def lay_out(figure: Figure) -> None:
    """Compute the layout, and the ticks that it leaves room for. Nothing is drawn."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_ticklabels()


def axes_of(ax: Any, count: int) -> tuple[Figure, list[Axes]]:
    """The figure and the axes that a caller gave, one or a list; raises `InputError` for another
    number than `count`.
    """
    import numpy as np

    given: list[Axes] = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != count:
        raise InputError(f"ax: the figure has {count} panels, found {len(given)} axes")
    return cast("Figure", given[0].get_figure(root=True)), given


def add_legend_inside(axes: Sequence[Axes]) -> None:
    """Add a legend to the last panel if the first one has several labels."""
    if len(axes[0].get_legend_handles_labels()[1]) > 1:
        axes[-1].legend()


def add_title_and_legend(
    figure: Figure, title: str, caption: str, *, least: int = 1, unnamed: Collection[str] = ()
) -> None:
    """Add the title, the caption, and below the panels a common legend.

    The legend leaves out the labels in `unnamed`; with fewer than `least` labels there is none. A
    preset without titles has neither title nor caption.
    """
    preset, small = current(), small_pt()
    if preset.titles:
        figure.suptitle(
            plot_text.wrap(title, preset.chars(preset.width_in * 1.06)), parse_math=False
        )
    caption = plot_text.wrap(caption, preset.chars(preset.width_in * 1.58)) if preset.titles else ""
    named = {
        label: h
        for a in figure.axes
        for h, label in zip(*a.get_legend_handles_labels(), strict=True)
        if label not in unnamed
    }
    if len(named) < least or not named:
        if caption:
            figure.supxlabel(caption, fontsize=small, color=CAPTION_GREY)
        return
    legend = figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=-(-len(named) // legend_lines(list(named))),
        title=caption or None,
    )
    legend.get_title().set(fontsize=small, color=CAPTION_GREY)


def legend_lines(labels: Sequence[str]) -> int:
    """Number of lines of a legend with these labels."""
    if not labels:
        return 0
    preset, longest = current(), max(len(x) for x in labels)
    most = max(1, min(len(labels), preset.chars(preset.width_in * 1.27) // (longest + 8)))
    return -(-len(labels) // most)


def save(figure: Figure, files: Sequence[Path]) -> None:
    """Write the figure to each file; equal figures give equal bytes. Raises `InputError`.

    `Figure.savefig` draws it twice, first without output, for the layout. The canvas of a format
    draws it once, and the layout is computed in that drawing, or once for several files, which are
    then drawn side by side.
    """
    kinds = [file.suffix.lower().lstrip(".") for file in files]
    for file, kind in zip(files, kinds, strict=True):
        if kind not in _METADATA:
            raise InputError(
                f"{file}: a figure is written as {', '.join(f'.{k}' for k in FORMATS)}"
            )
    before, dpi = figure.canvas, figure.dpi
    try:
        figure.dpi = DPI
        with style():
            if len(files) > 1 and figure.get_layout_engine() is not None:
                _canvas(figure, "png")
                lay_out(figure)
                figure.set_layout_engine("none")
            started = {file: _start(figure, file) for file in files[1:]}
            try:
                _write(figure, files[0])
            finally:
                ended = {f for f, child in started.items() if child and not os.waitpid(child, 0)[1]}
            for file in files[1:]:
                if file not in ended:
                    _write(figure, file)
    finally:
        figure.dpi = dpi
        figure.set_canvas(before)


def _write(figure: Figure, file: Path) -> None:
    """Draw the figure into one file."""
    kind = file.suffix.lower().lstrip(".")
    figure.dpi = DPI  # the canvas of SVG sets another one
    # Half the time of the default level, for files larger by a fiftieth.
    options = {"pil_kwargs": {"compress_level": 4}} if kind == "png" else {}
    with partial(file) as temporary:
        canvas: Any = _canvas(figure, kind)
        getattr(canvas, f"print_{kind}")(temporary, metadata=_METADATA[kind], **options)


def _start(figure: Figure, file: Path) -> int | None:
    """Begin to draw the figure into a file in a separate process; returns its identifier.

    Drawing a second format takes as long as the first. `None`: not done beside other threads, whose
    locks a copied process would never see released.
    """
    if threading.active_count() > 1 or not hasattr(os, "fork"):
        return None
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _write(figure, file)
            status = 0
        finally:
            os._exit(status)
    return child


def _canvas(figure: Figure, kind: str) -> FigureCanvasBase:
    """The canvas of a format; the others are not imported."""
    if kind == "svg":
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        return FigureCanvasSVG(figure)
    if kind == "pdf":
        from matplotlib.backends.backend_pdf import FigureCanvasPdf

        return FigureCanvasPdf(figure)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return FigureCanvasAgg(figure)


__all__ = [
    "BASE_PT",
    "CAPTION_GREY",
    "COLOURS",
    "DASHES",
    "FORMATS",
    "GREY",
    "MARKERS",
    "MIN_RUNS_FOR_INTERVAL",
    "PRESETS",
    "Preset",
    "SchemeStyle",
    "add_legend_inside",
    "add_title_and_legend",
    "axes_of",
    "check",
    "check_formats",
    "current",
    "lay_out",
    "legend_lines",
    "new_figure",
    "save",
    "scheme_styles",
    "small_pt",
    "style",
    "use",
]
