"""The notebooks of docs/notebooks run, and show what they promise."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from optional import needs_packages
from processes import ended

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
#: Notebook -> number of figures and of tables that it shows, and what its text has.
SHOWN = {
    "first-steps": (3, 7, ["newreno: ", "mean ± half-width of the 95 % CI", "cwnd"]),
    "own-schemes": (2, 5, ["cwnd after loss", "HideDuplicates", "agents.packet control."]),
    "two-flows": (2, 4, ["bbr: 2 stalls", "second", "holds"]),
}


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    )["cells"]
    return found


def test_the_notebooks_are_known() -> None:
    assert {p.stem for p in FOLDER.glob("*.ipynb")} == set(SHOWN)
    assert max(len(cells(name)) for name in SHOWN) >= 20


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_are_stored_without_outputs(name: str) -> None:
    code = [c for c in cells(name) if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in code)
    assert len({c["id"] for c in cells(name)}) == len(cells(name))


@pytest.mark.parametrize("name", SHOWN)
def test_links_of_notebooks_exist(name: str) -> None:
    text = "".join("".join(c["source"]) for c in cells(name) if c["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links or name == "two-flows"
    assert [x for x in links if not (FOLDER / x).is_file()] == []


more = pytest.mark.more("test_python_snippets_run")


@needs_packages("nbconvert", "ipykernel", "pandas", "xarray", "tqdm")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=more if n == "first-steps" else pytest.mark.long) for n in SHOWN]
)
def test_notebooks_run(name: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / f"{name}.ipynb", tmp_path)
    words = ["nbconvert", "--to", "html", "--execute", f"{name}.ipynb"]
    done = ended([sys.executable, "-m", *words], cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
    figures, tables, words = SHOWN[name]
    assert len(re.findall(r'<img[^>]*src="data:image/png', page)) == figures
    assert page.count("<table") == tables
    assert "Figure size" not in page
    assert "output_error" not in re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    for word in words:
        assert word in page, word
