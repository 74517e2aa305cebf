"""Draw the Mermaid blocks of the pages as SVG: python tools/mermaid_figures.py MERMAID.min.js

The docs site shows these pictures, so that it needs no script for them. MERMAID.min.js is
dist/mermaid.min.js of the npm package `mermaid`. Needs Chromium.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import docs_site
from playwright.sync_api import sync_playwright

CONFIG = {
    "startOnLoad": False,
    "theme": "neutral",
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "useMaxWidth": False},
    "fontFamily": "sans-serif",
    "deterministicIds": True,
}


def main(script: Path) -> None:
    """Draw the blocks that have no picture, and remove pictures without a block."""
    folder = docs_site.ROOT / docs_site.DIAGRAMS
    folder.mkdir(parents=True, exist_ok=True)
    texts = [page.read_text(encoding="utf-8") for page in docs_site.pages()]
    blocks = {docs_site.digest(b): b for text in texts for b in docs_site.MERMAID.findall(text)}
    for file in folder.glob("*.svg"):
        if file.stem not in blocks:
            file.unlink()
    chromium = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<html><body></body></html>")
        page.add_script_tag(path=script)
        page.evaluate(f"mermaid.initialize({json.dumps(CONFIG)})")
        for name, block in blocks.items():
            svg = page.evaluate("async (text) => (await mermaid.render('d', text)).svg", block)
            # The browser writes HTML; a picture must be XML.
            (folder / f"{name}.svg").write_text(svg.replace("<br>", "<br/>"), encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
