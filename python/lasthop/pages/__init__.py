"""Pages that open offline: one HTML file with style, scripts and data inside.

Every value that a template inserts is escaped. The page's Content-Security-Policy allows only the
style and the scripts that were bundled, by their hashes, and no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import jinja2

#: The plotting library: scripts and style, with the notice that its licence requires.
UPLOT: Final = ("uPlot.iife.min.js", "uPlot.min.css", "uPlot-LICENSE.txt")


def asset(name: str) -> str:
    """The text of a bundled file of `pages/assets`."""
    return files("lasthop.pages").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("lasthop.pages", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def source_hash(text: str) -> str:
    """The hash of an inline script or style for a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def json_for_script(value: Any) -> str:
    """JSON that may stand in a script element: it contains no `<`, `>` and `&`."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render(
    template: str,
    *,
    title: str,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    data: Any = None,
    notices: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> str:
    """Render a page.

    `template` extends base.html and gets `values`. `scripts` and `styles` are names of assets;
    page.css is always there. `data` is passed to the scripts as JSON in the element `data`.
    `notices` are names of assets with the licences of what is bundled.
    """
    from markupsafe import Markup

    style = "\n".join(asset(name) for name in ("page.css", *styles))
    sources = [asset(name) for name in scripts]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(source_hash, sources)) or repr('none')}",
            f"style-src {source_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            kind=template.partition(".")[0],
            policy=policy,
            style=Markup(style),
            scripts=[Markup(s) for s in sources],
            data=None if data is None else Markup(json_for_script(data)),
            notices=[asset(name) for name in notices],
            **(values or {}),
        )
    )


def fragment(template: str, **values: Any) -> str:
    """Render a template that has no scripts and no style of pages: a part of another page."""
    return _environment().get_template(template).render(**values)


__all__ = ["UPLOT", "asset", "fragment", "json_for_script", "render", "source_hash"]
