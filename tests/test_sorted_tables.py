"""Tables that sort by a click on a head, with the same script on pages and on the docs site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browser import opened

from lasthop.pages import asset

#: As Sphinx writes tables; the second one has a cell that stands for two rows.
PAGE = """<!doctype html><article><table class="docutils"><thead><tr>
<th class="head"><p>scheme</p></th><th class="head"><p>goodput</p></th>
<th class="head"><p>A</p></th>
</tr></thead><tbody>
<tr><td><code>bbr10</code></td><td>0.5 [0.1, 1]</td><td>2 / 54 / 0 / 0</td></tr>
<tr><td><code>bbr9</code></td><td>–</td><td>10 / 5 / 1 / 0</td></tr>
<tr><td><code>vegas</code></td><td>−0.05 [−1, 2]</td><td>2 / 9 / 3 / 0</td></tr>
<tr><td><code>cubic</code></td><td>1,200</td><td>2 / 9 / 0 / 0</td></tr>
</tbody></table>
<table class="docutils"><thead><tr><th>file</th><th>number</th></tr></thead><tbody>
<tr><td>a</td><td>2</td></tr><tr><td></td><td>1</td></tr><tr><td>b</td><td>3</td></tr>
</tbody></table></article>"""
ROWS = "[...document.querySelector('table').tBodies[0].rows].map(r => r.cells[0].textContent)"


def test_tables_sort_by_numbers_and_words_and_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(f"{PAGE}<script>{asset('sort.js')}</script>", encoding="utf-8")
    with opened(chromium, file, 1280, ready="table") as found:
        heads = found.page.locator("thead button")
        assert heads.all_inner_texts() == ["scheme", "goodput", "A"]
        for head, wanted in (
            (0, ["bbr9", "bbr10", "cubic", "vegas"]),
            (1, ["vegas", "bbr10", "cubic", "bbr9"]),
            (2, ["cubic", "vegas", "bbr10", "bbr9"]),
        ):
            heads.nth(head).click()
            assert found.page.evaluate(ROWS) == wanted
        # Unknown values remain last.
        heads.nth(1).click()
        heads.nth(1).click()
        assert found.page.evaluate(ROWS) == ["cubic", "bbr10", "vegas", "bbr9"]
        sorted_by = "[...document.querySelectorAll('th')].map(h => h.getAttribute('aria-sort'))"
        assert found.page.evaluate(sorted_by) == [None, "descending", None, None, None]
        heads.nth(0).focus()
        found.page.keyboard.press("Enter")
        assert found.page.evaluate(ROWS) == ["bbr9", "bbr10", "cubic", "vegas"]
        assert not found.errors
