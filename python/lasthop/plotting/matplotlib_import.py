"""Imports matplotlib, for the command line without the help texts of its classes.

matplotlib makes the help text of each artist while it is imported, from all its setters, which is
nearly half of the time of the import. Programs that call lasthop, and notebooks, get these texts.
"""

from __future__ import annotations

import sys
from typing import Any

#: False in the command line.
with_help_texts = True


def import_matplotlib() -> None:
    """Import the classes of figures."""
    if with_help_texts or "matplotlib.figure" in sys.modules:
        import matplotlib.figure

        return
    from matplotlib import artist

    makers: list[tuple[Any, str, Any]] = [
        (artist, "kwdoc", lambda _: ""),
        (artist.Artist, "_update_set_signature_and_docstring", lambda: None),
    ]
    # Another version of matplotlib may not have them.
    before = [(place, name, vars(place)[name]) for place, name, _ in makers if name in vars(place)]
    try:
        for place, name, without in makers:
            if name in vars(place):
                setattr(place, name, without)
        import matplotlib.figure  # noqa: F401
    finally:
        for place, name, maker in before:
            setattr(place, name, maker)
