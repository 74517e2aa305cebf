"""The imports between the modules of the Python package: floors, and circles."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest
from test_imports import circles

from lasthop import renderers

ROOT = Path(__file__).resolve().parent.parent / "python" / "lasthop"

# The floors of the package, from the lowest: folders, and modules beside them. A module imports
# only from its own room (folder or module) and from lower floors. Imports for types and imports
# inside functions count.
FLOORS = [
    ("errors", "_native", "limits", "notebooks", "renderers"),
    ("agents", "congestion", "extras", "progress", "quantities"),
    ("catalogue", "interrupts"),
    ("own_schemes",),
    ("scenarios",),
    ("analysis",),
    ("experiments",),
    ("tables",),
    ("plotting",),
    ("pages",),
    ("evaluation", "inspection", "live", "reporting", "reproduction", "traces"),
    ("single_run",),
    ("runs", "batches"),
    ("advice",),
    ("measurements",),
    ("cli",),
    ("lasthop", "__main__"),
]
ROOMS = {room: number for number, floor in enumerate(FLOORS) for room in floor}

Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """The files of the package by the path of their module: "experiments/plan"."""
    files = [*ROOT.rglob("*.py"), *ROOT.glob("*.pyi")]
    found = {}
    for file in sorted(files):
        parts = file.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found["/".join(parts) or "lasthop"] = file
    return found


def imported(node: ast.AST) -> list[str]:
    """What an import statement names, as dotted paths; relative imports are not used here."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports name the whole path"
        return [f"{node.module}.{a.name}" for a in node.names]
    return []


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def graph() -> Graph:
    """For each module the modules that it imports from, anywhere in the file."""
    files = modules()
    found: Graph = {}
    for name, file in files.items():
        targets = set()
        for node in ast.walk(parsed(file)):
            for dotted in imported(node):
                first, *rest = dotted.split(".")
                if first != "lasthop":
                    continue
                paths = ["/".join(rest[:n]) for n in range(len(rest), 0, -1)]
                targets.add(next((p for p in paths if p in files), "lasthop"))
        found[name] = targets - {name}
    return found


def room(module: str) -> str:
    """The folder of a module, or the module itself beside the folders."""
    return module.split("/")[0]


def test_each_module_is_on_a_floor() -> None:
    assert {room(m) for m in modules()} == set(ROOMS)


def test_modules_import_only_from_their_room_and_from_lower_floors() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in sorted(others)
        if room(module) != room(other) and ROOMS[room(module)] <= ROOMS[room(other)]
    ]
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    assert [sorted(c) for c in circles(graph())] == []


@pytest.mark.parametrize("name", renderers.RENDERERS)
def test_what_results_ask_for_exists_and_takes_the_result(name: str) -> None:
    assert list(inspect.signature(renderers.renderer(name)).parameters), name


def test_results_ask_for_all_renderers_and_for_no_other() -> None:
    asked = set()
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "renderer":
                asked.add(ast.literal_eval(node.args[0]))
    assert asked == set(renderers.RENDERERS)
