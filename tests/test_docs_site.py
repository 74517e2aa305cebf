"""The docs site: its generated pages have everything, its links have targets, and it builds."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

import docs_site
import pytest
import reference_pages
from browser import opened

import lasthop
from lasthop.analysis import schemas
from lasthop.cli import arguments


@functools.cache
def files() -> dict[str, Path | str]:
    return docs_site.sources(rust=False)


@functools.cache
def pages() -> dict[str, str]:
    """The texts of all pages."""
    return {
        name: content.read_text(encoding="utf-8") if isinstance(content, Path) else content
        for name, content in files().items()
        if Path(name).suffix in (".md", ".rst")
    }


def test_every_command_and_option_has_a_place() -> None:
    found = reference_pages.command_pages()
    for command in arguments.tree():
        text = found[command.name or "lasthop"].replace("\\|", "|")
        for option in command.options():
            for flag in option.flags or (option.value,):
                assert re.search(rf"`{re.escape(flag)}[ `]", text), (command.name, flag)
        assert all(example in text for example in command.examples)


def keys_of(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.get("properties", {}).items():
            yield key
            yield from keys_of(value)
        for name in ("oneOf", "anyOf", "items"):
            yield from keys_of(schema.get(name))
        yield from keys_of(list(schema.get("$defs", {}).values()))
    elif isinstance(schema, list):
        for value in schema:
            yield from keys_of(value)


@pytest.mark.parametrize("name", schemas.NAMES)
def test_every_key_of_a_schema_is_on_its_page(name: str) -> None:
    text = pages()[f"reference/{'scenario' if name == 'scenario' else f'json/{name}'}.md"]
    keys = set(keys_of(schemas.schema(name)))
    assert len(keys) > 4
    assert {key for key in keys if not re.search(rf"`{re.escape(key)}[ `]", text)} == set()


def test_every_name_of_the_package_is_on_the_page_about_python() -> None:
    text = pages()["reference/python.rst"]
    shown = set(re.findall(r"^\.\. auto\w+:: lasthop\.(\w+)$", text, re.MULTILINE))
    assert shown == set(lasthop.__all__)


def test_all_pages_are_in_a_list() -> None:
    lists = r"^\.\. toctree::\n(.*?)(?=^\S|\Z)|^```\{toctree\}\n(.*?)^```$"
    listed = {
        normpath(str(Path(name).parent / entry))
        for name, text in pages().items()
        for block in map("".join, re.findall(lists, text, re.MULTILINE | re.DOTALL))
        for entry in re.findall(r"^ *(?:.* <)?([\w./+-]+)>?$", block, re.MULTILINE)
    }
    names = {name.rsplit(".", 1)[0] for name in pages()}
    apart = {p for p in names if p.startswith("docs/schemes/")} - {"docs/schemes/README"}
    assert listed == names - apart - {"index"}
    assert all(pages()[f"{page}.md"].startswith("---\norphan: true\n") for page in apart)


def test_links_have_targets() -> None:
    for name, text in pages().items():
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)\)", prose):
            if not re.match(r"[a-z]+:", target):
                assert normpath(str(Path(name).parent / target)) in files(), (name, target)


def test_anchors_of_the_scenario_page_exist() -> None:
    text = pages()["reference/scenario.md"]
    targets = set(re.findall(r"^\((scenario-\w+)\)=$", text, re.MULTILINE))
    used = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert len(used) > 30
    assert used <= targets


def test_diagrams_are_drawn() -> None:
    assert not any("```mermaid" in text for text in pages().values())
    pictures = [name for name in files() if name.startswith(docs_site.DIAGRAMS)]
    drawn = {
        f"{docs_site.DIAGRAMS}/{p.name}" for p in (docs_site.ROOT / docs_site.DIAGRAMS).iterdir()
    }
    assert set(pictures) == drawn, "run tools/mermaid_figures.py"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site, served from this machine."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.fail("sphinx is missing: `make test-long` installs the extra docs")
    start = docs_site.build(tmp_path_factory.mktemp("site"))
    handler = functools.partial(Quiet, directory=str(start.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_the_site_in_a_browser(chromium: Any, site: str, width: int) -> None:
    pages = ["docs/tutorial", "docs/architecture", "reference/scenario", "reference/cli/compare"]
    pages += ["reference/python", "reference/json/compare", "docs/recipes/live", "CHANGELOG"]
    with opened(chromium, f"{site}/index.html", width, ready="footer") as page:
        for name in pages:
            page.page.goto(f"{site}/{name}.html")
            assert not page.scrolls_sideways(), name
        for word, wanted in (
            ("Snoop", "docs/schemes/snoop.html"),
            ("min_rto", "reference/scenario.html"),
            ("outage", "docs/scenario.html"),
        ):
            page.page.goto(f"{site}/search.html?q={word}")
            page.page.wait_for_selector("#search-results li a", timeout=30_000)
            page.page.wait_for_timeout(1000)
            found = page.page.evaluate(
                "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
            )
            assert any(urlsplit(link).path == f"/{wanted}" for link in found), (word, found)
        page.page.goto(f"{site}/docs/evaluation-cards.html")
        page.page.locator("article thead button").nth(5).click()
        column = (
            "[...document.querySelector('table').tBodies[0].rows].map(r => r.cells[5].innerText)"
        )
        worse = [int(cell.split("/")[0]) for cell in page.page.evaluate(column)]
        assert worse == sorted(worse)
        assert not page.scrolls_sideways()
        # Its first column names several rows at once.
        page.page.goto(f"{site}/docs/evaluation.html")
        heads = page.page.locator("article table.sorted thead").all_inner_texts()
        assert any("better" in head or "verdict" in head for head in heads)
        assert not any("margin or limit" in head for head in heads)
        assert not page.errors
        assert {urlsplit(url).netloc for url in page.requests} == {urlsplit(site).netloc}


@pytest.mark.long
def test_the_schemas_of_the_site(site: str) -> None:
    from urllib.request import urlopen

    with urlopen(f"{site}/reference/json/compare.html") as page:
        link = re.search(r'href="([^"]*compare\.json)"', page.read().decode())
    assert link is not None
    with urlopen(f"{site}/reference/json/{link[1]}") as file:
        assert json.load(file) == schemas.schema("compare")
