"""What shows results: texts, tables of notebooks, figures, pages and files.

Results are plain data and import nothing of what shows them. They ask for a renderer by its name
here; its module is imported when the first result asks for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

#: Name of a renderer -> the module below `lasthop` and the function. Its first argument is the
#: result.
RENDERERS: Final = {
    "run: text": "tables.run_text:run",
    "run: notebook": "pages.notebook:run",
    "run: figure": "plotting.run_figure:draw",
    "run: inspection": "runs:inspect_result",
    "comparison: text": "tables.summary:comparison",
    "comparison: notebook": "pages.notebook:comparison",
    "comparison: figure": "plotting.comparison_figure:draw",
    "comparison: files": "plotting.comparison_files:write",
    "sweep: text": "tables.sweep_text:text",
    "sweep: notebook": "pages.notebook:sweep",
    "figure: notebook": "pages.notebook:figure",
    "figure: figure": "plotting.paper_figure:draw_to",
    "fit: scenario": "traces.fit.scenario:text",
    "inspection: page": "inspection.page:render",
    "inspection: qlog": "inspection.qlog:records",
}


def renderer(name: str) -> Any:
    """The function that makes what `name` says of a result."""
    module, _, function = RENDERERS[name].partition(":")
    return getattr(import_module(f"lasthop.{module}"), function)


__all__ = ["RENDERERS", "renderer"]
