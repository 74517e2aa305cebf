"""Pages in headless Chromium: pictures, texts that overlap, errors, requests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optional_programs import path_of

#: Pairs of visible texts that overlap, among elements that contain text themselves.
OVERLAPS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest("script, .bar, noscript")) continue;
    if (parent.closest("details:not([open])") && !parent.closest("summary")) continue;
    if (!parent.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      if (r.width <= 1 || r.height <= 1) continue;
      found.push([r.left, r.top, r.right, r.bottom, node.textContent.trim().slice(0, 40)]);
    }
  }
  found.sort((a, b) => a[1] - b[1]);
  const bad = [];
  for (let i = 0; i < found.length; i++) {
    for (let j = i + 1; j < found.length && found[j][1] < found[i][3] - 3; j++) {
      const [a, b] = [found[i], found[j]];
      const x = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
      const y = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
      if (x > 2 && y > 3) bad.push(`${a[4]} / ${b[4]}`);
    }
  }
  return bad;
}"""


@dataclass
class Opened:
    """A page in the browser, with what it reported."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def overlaps(self) -> list[str]:
        """Pairs of texts that overlap."""
        return list(self.page.evaluate(OVERLAPS))

    def scrolls_sideways(self) -> bool:
        """True if the page is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"))


@contextmanager
def started() -> Iterator[Any]:
    """A browser without windows."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path_of("chromium"), args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any,
    page: Path | str,
    width: int,
    height: int = 900,
    ready: str = "html[data-ready]",
) -> Iterator[Opened]:
    """Open a file or an address in a window of this size and wait until its charts are drawn."""
    context = browser.new_context(viewport={"width": width, "height": height})
    try:
        out = Opened(context.new_page())
        out.page.on("console", lambda m: out.errors.extend([m.text] * (m.type == "error")))
        out.page.on("pageerror", lambda e: out.errors.append(str(e)))
        out.page.on("request", lambda r: out.requests.append(r.url))
        out.page.goto(page.as_uri() if isinstance(page, Path) else page)
        out.page.wait_for_selector(ready, state="attached", timeout=30_000)
        out.page.wait_for_timeout(300)
        yield out
    finally:
        context.close()
