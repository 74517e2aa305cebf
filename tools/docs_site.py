"""Build the docs site (`make docs-site`): python tools/docs_site.py OUT [--rust FOLDER].

The pages of the repository (README.md, CONTRIBUTING.md, CHANGELOG.md, docs) are copied into
OUT/source in the same layout, so that their links work, the generated reference beside them, and
Sphinx writes OUT/html. Sphinx treats each warning as an error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import reference_pages

from lasthop import _native
from lasthop.analysis import schemas
from lasthop.experiments.store import write_whole

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs/site"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
#: Pictures of Mermaid blocks, by digest of the block (`tools/mermaid_figures.py`).
DIAGRAMS = "docs/img/mermaid"
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Title of the toctree for pages that index.rst does not list.
OTHERS = "More"


def digest(block: str) -> str:
    """The name of the picture of a Mermaid block."""
    return hashlib.sha256(block.encode()).hexdigest()[:16]


def pages() -> Iterator[Path]:
    """The Markdown pages of the site that are written by hand or committed."""
    yield from (ROOT / name for name in TOP)
    yield from sorted((ROOT / "docs").rglob("*.md"))


def linked_files(page: Path, text: str) -> Iterator[Path]:
    """Files of the repository, other than pages, to which a page links."""
    for target in re.findall(r"\]\(([^)#\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            file = (page.parent / target).resolve()
            if file.is_file() and file.suffix != ".md":
                yield file


def with_pictures(page: Path, text: str) -> str:
    """The page with pictures instead of Mermaid blocks."""

    def picture(found: re.Match[str]) -> str:
        file = ROOT / DIAGRAMS / f"{digest(found[1])}.svg"
        if not file.is_file():
            raise LookupError(
                f"{page}: a Mermaid block has no picture; run tools/mermaid_figures.py"
            )
        return f"![diagram]({os.path.relpath(file, page.parent)})"

    return MERMAID.sub(picture, text)


def notebook(file: Path) -> str:
    """A notebook as a page: its texts and its code."""
    lines = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        code = cell["cell_type"] == "code"
        lines.append(f"```python\n{source}\n```\n" if code else f"{source}\n")
    return "\n".join([*lines, f"{{download}}`The notebook <{file.name}>`\n"])


def notebooks() -> list[Path]:
    """The notebooks in docs."""
    return sorted((ROOT / "docs").rglob("*.ipynb"))


def index() -> str:
    """The start page, with a list of the pages in docs that it does not name."""
    text = (SITE / "index.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (?:.* <)?([\w/-]+)>?$", text, re.MULTILINE))
    files = [*pages(), *notebooks()]
    names = [str(file.relative_to(ROOT).with_suffix("")) for file in files]
    rest = [n for n in names if n not in listed and not n.startswith("docs/schemes/")]
    if rest:
        head = f"\n.. toctree::\n   :caption: {OTHERS}\n   :maxdepth: 1\n\n"
        text += head + "".join(f"   {name}\n" for name in rest)
    return text


def sources(rust: bool) -> dict[str, str | Path]:
    """All files of the source folder: their text, or the file to copy."""
    found: dict[str, str | Path] = {"index.rst": index()}
    for page in pages():
        text = with_pictures(page, page.read_text(encoding="utf-8"))
        for file in linked_files(page, text):
            found[str(file.relative_to(ROOT))] = file
        found[str(page.relative_to(ROOT))] = _outside_lists(page) + text
    for file in notebooks():
        name = file.relative_to(ROOT)
        found |= {str(name): file, str(name.with_suffix(".md")): notebook(file)}
    found.update(_reference(rust))
    return found


def _outside_lists(page: Path) -> str:
    """Pages of schemes are linked from their index and are not in the list beside each page."""
    is_scheme = page.parent.name == "schemes" and page.stem != "README"
    return "---\norphan: true\n---\n\n" if is_scheme else ""


def _list(title: str, about: str, names: list[str]) -> str:
    listed = "\n".join(names)
    return f"# {title}\n\n{about}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"


def _reference(rust: bool) -> dict[str, str | Path]:
    found: dict[str, str | Path] = {
        "reference/scenario.md": reference_pages.scenario_page(),
        "reference/profiles.md": reference_pages.profile_page(),
        "reference/python.rst": SITE / "python.rst",
        "reference/rust.md": _rust_page(rust),
    }
    for folder, title, about, made in (
        ("cli", "Command line", "Each command has `--help`.", reference_pages.command_pages()),
        (
            "json",
            "JSON outputs",
            "What the commands print with `--json`. Keys may be added to a version; a key that is"
            " removed or\nchanges its meaning makes a new version.",
            reference_pages.json_pages(),
        ),
    ):
        for name, text in made.items():
            found[f"reference/{folder}/{name}.md"] = text
        found[f"reference/{folder}/index.md"] = _list(title, about, list(made))
    for name in schemas.NAMES:
        text = json.dumps(schemas.schema(name), indent=2)
        found[f"reference/json/schemas/{name}.json"] = text
    return found


def _rust_page(rust: bool) -> str:
    lines = ["# Rust", "", "The crates, with what each contains:", ""]
    for crate in sorted((ROOT / "crates").glob("*/src/lib.rs")):
        name = crate.parents[1].name
        head = re.match(r"//! ([^\n]*(?:\n//! \S[^\n]*)*)", crate.read_text(encoding="utf-8"))
        about = " ".join(head[1].replace("//! ", "").split()) if head else ""
        about = re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", about)
        module = name.replace("-", "_")
        # An address of the built site, which is not a file of the source folder.
        shown = f"<a href='../rust/{module}/index.html'><code>{name}</code></a>"
        lines.append(f"* {shown if rust else f'`{name}`'}: {about}")
    if not rust:
        lines += ["", "`make docs` writes their reference into `target/doc`."]
    return "\n".join([*lines, ""])


def stage(folder: Path, rust: bool) -> None:
    """Write the source folder; files that did not change keep their times."""
    wanted = sources(rust)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        file = folder / name
        data = content.read_bytes() if isinstance(content, Path) else content.encode()
        if not file.is_file() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, data)


def build(out: Path, rust: Path | None = None) -> Path:
    """Build the site; returns its start page."""
    stage(out / "source", rust is not None)
    words = [
        "-q",
        "-j",
        "auto",
        "-W",
        "--keep-going",
        "-c",
        str(SITE),
        "-b",
        "html",
        "-d",
        str(out / "doctrees"),
    ]
    subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(out / "source"), str(out / "html")],
        check=True,
        env={**os.environ, "LASTHOP_VERSION": _native.version()},
    )
    if rust is not None:
        shutil.copytree(rust, out / "html/rust", dirs_exist_ok=True)
    return out / "html/index.html"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rust", type=Path, help="folder that `cargo doc` wrote")
    options = parser.parse_args()
    try:
        print(build(options.out, options.rust))
    except subprocess.CalledProcessError:
        raise SystemExit("the docs site was not built") from None
    except LookupError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
