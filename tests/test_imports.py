"""The imports between the files of each crate: the floors of some, and circles in all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CRATES = sorted(p.parent for p in (ROOT / "crates").glob("*/src"))

# The floors of crates, from the lowest; a file imports only from its floor or a lower one.
FLOORS = ["engine", "events", "network", "hosts", "probes", "metrics", "build", "simulation", "lib"]
STAGES = ["network", "text", "parts", "options", "resolve", "load", "lib"]

USE = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?use ((?:crate|super|self)::[^;]+);", re.MULTILINE)
CALL = re.compile(r"\b((?:crate|super)(?:::\w+)+)")
MODULE = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);", re.MULTILINE)

Graph = dict[str, set[str]]


def source(file: Path) -> str:
    """The code of a file without comments and unit tests."""
    text = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
    return re.sub(r"//.*", "", text)


def expanded(tree: str) -> Iterator[list[str]]:
    """The paths of a `use` tree: `a::{b, c::d}` is a::b and a::c::d."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        yield [part.strip() for part in tree.split(" as ")[0].split("::")]
        return
    prefix = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    depth, item = 0, ""
    for letter in tree[brace + 1 : tree.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if item.strip():
                for path in expanded(item):
                    yield prefix + path
            item = ""
        else:
            item += letter


def modules(crate: Path) -> dict[tuple[str, ...], Path]:
    """The files of a crate by the path of their module."""
    found = {}
    for file in sorted((crate / "src").rglob("*.rs")):
        parts = file.relative_to(crate / "src").with_suffix("").parts
        if parts[-1] == "tests":
            continue
        found[() if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts] = file
    return found


def imports(crate: Path) -> Graph:
    """For each file the files of the crate that it imports from. `mod` lines do not count."""
    files = modules(crate)
    graph: Graph = {}
    for path, file in files.items():
        text = source(file)
        children = set(MODULE.findall(text))
        used = [p for tree in USE.findall(text) for p in expanded(tree)]
        used += [found.split("::") for found in CALL.findall(text)]
        # `use child::Item` in the file that declares the child.
        for tree in re.findall(r"^\s*(?:pub(?:\([a-z]+\))? )?use (\w+::[^;]+);", text, re.M):
            if tree.split("::")[0] in children:
                used += [["self", *p] for p in expanded(tree)]
        targets = set()
        for words in used:
            base = list(path)
            while words and words[0] in ("crate", "super", "self"):
                base = [] if words[0] == "crate" else base[:-1] if words[0] == "super" else base
                words = words[1:]
            whole = (*base, *words)
            module = next(whole[:n] for n in range(len(whole), -1, -1) if whole[:n] in files)
            if module != path:
                targets.add(name(module))
        graph[name(path)] = targets
    return graph


def name(module: tuple[str, ...]) -> str:
    return "/".join(module) or "lib"


def circles(graph: Graph) -> list[set[str]]:
    """Groups of files that import each other, directly or not (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            group = set(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


SIM = ROOT / "crates" / "lasthop-sim"
SCENARIO = ROOT / "crates" / "lasthop-scenario"


def floor(file: str) -> str:
    return file.split("/")[0]


@pytest.mark.parametrize(("crate", "floors"), [(SIM, FLOORS), (SCENARIO, STAGES)])
def test_files_import_only_from_lower_floors(crate: Path, floors: list[str]) -> None:
    graph = {file: others for file, others in imports(crate).items() if floor(file) != "tests"}
    assert {floor(file) for file in graph} == set(floors)
    upwards = [
        f"{file} imports {other}"
        for file, others in graph.items()
        for other in sorted(others)
        if floors.index(floor(file)) < floors.index(floor(other))
    ]
    assert upwards == []


def test_network_and_text_of_a_scenario_know_nothing_else() -> None:
    for file, others in imports(SCENARIO).items():
        if floor(file) in ("network", "text"):
            assert {floor(other) for other in others} <= {floor(file)}, file


@pytest.mark.parametrize("folder", ["engine", "network"])
def test_lower_floors_of_the_simulator_know_no_tcp(folder: str) -> None:
    for file in (SIM / "src" / folder).rglob("*.rs"):
        assert not re.search(r"lasthop::(tcp|schemes|leg|traffic)\b", source(file)), file


def test_the_picture_of_the_architecture_names_the_floors() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", text, re.MULTILINE)
    picture = {(a, b) for a, b in arrows if a in FLOORS and b in FLOORS}
    assert picture, "the picture shows the floors of the simulator"
    graph = imports(SIM)
    real = {(floor(file), floor(other)) for file, others in graph.items() for other in others}
    for upper, lower in picture:
        assert FLOORS.index(upper) > FLOORS.index(lower), f"{upper} --> {lower}"
        assert (upper, lower) in real, f"no file of {upper} imports from {lower}"
    assert {f for arrow in picture for f in arrow} == set(FLOORS) - {"lib"}


def test_the_architecture_lists_the_stages_of_a_scenario() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("| stage | contents |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == STAGES[:-1]


def test_only_the_file_of_an_impairment_names_it() -> None:
    folder = ROOT / "crates" / "lasthop-channel" / "src" / "link" / "impairment"
    words = re.search(r"\$receiver! \{ (.*?) \}", (folder / "mod.rs").read_text())
    assert words is not None
    listed = words[1].split(", ")
    assert sorted(listed) == sorted({f.stem for f in folder.glob("*.rs")} - {"mod", "draws"})
    for above in (SCENARIO / "src", folder.parent):
        for file in above.rglob("*.rs"):
            if "tests" not in file.parts and file.stem != "tests" and file.parent != folder:
                named = [word for word in listed if re.search(rf"\b{word}\b", source(file))]
                assert named == [], file


def test_the_way_of_a_segment_names_few_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    steps = text[text.index("## The path of a segment") :].split("A split scheme")[0]
    steps = steps[steps.index("1. `") :]
    assert len(re.findall(r"^\d+\. ", steps, re.MULTILINE)) == 10
    files = set(re.findall(r"`([\w/]+\.rs)`", steps))
    assert [f for f in files if not (SIM / "src" / f).is_file()] == []
    core = set(re.findall(r"`(tcp|link)/`", steps))
    assert len(files) + len(core) <= 12


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_files_import_each_other(crate: Path) -> None:
    graph = {file: others for file, others in imports(crate).items() if floor(file) != "tests"}
    assert [sorted(c) for c in circles(graph)] == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c/d"}, "c/d": {"a"}, "e": {"f"}, "f": {"e"}, "g": {"a"}}
    assert sorted(sorted(c) for c in circles(graph)) == [["a", "b", "c/d"], ["e", "f"]]
