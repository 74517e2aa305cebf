"""What lasthop shows in a Jupyter notebook: progress bars, and figures as pictures."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any


def shell() -> Any:
    """The shell of the Jupyter kernel that runs this process; `None` elsewhere."""
    ipython = sys.modules.get("IPython")
    found = ipython.get_ipython() if ipython is not None else None
    return found if getattr(found, "kernel", None) is not None else None


def progress_bar(what: str, total: int | None = None) -> Any:
    """A progress bar of tqdm in a notebook; `None` elsewhere and without tqdm."""
    if shell() is None:
        return None
    try:
        with warnings.catch_warnings():
            # Without ipywidgets tqdm warns and shows the bar as text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=what, total=total, leave=False, delay=1.0, mininterval=0.5, unit="run")


def show_figures() -> None:
    """Make the notebook show figures of matplotlib, also those that pyplot did not make.

    The kernel does this when pyplot makes its first figure; before, a figure is shown as text.
    """
    from matplotlib.figure import Figure

    here = shell()
    if here is None:
        return
    pictures = here.display_formatter.formatters
    if any(kind in pictures and _shows(pictures[kind], Figure) for kind in _PICTURES):
        return
    tools: Any = import_module("IPython.core.pylabtools")
    tools.select_figure_formats(here, {"png"})


_PICTURES = ("image/png", "image/svg+xml", "image/jpeg", "application/pdf")


def _shows(formatter: Any, kind: type) -> bool:
    try:
        formatter.lookup_by_type(kind)
    except KeyError:
        return False
    return True


__all__ = ["progress_bar", "shell", "show_figures"]
