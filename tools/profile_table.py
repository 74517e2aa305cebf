"""The table of profile values in docs/scenario.md, from the schema and the scenarios that
lasthop fills in: `make docs`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marked_pages

from lasthop import _native
from lasthop.experiments.store import write_whole

FILE = Path(__file__).parents[1] / "docs/scenario.md"
BLOCK = "profile values"
SHOWN = ("linux", "rfc", "ns-2.35")
#: Older versions of ns-2, shown where they differ from ns-2.35, and their marks.
OLDER = {"ns-2.30": "³⁰", "ns-2.27": "²⁷", "ns-2.26": "²⁶"}


def values(profile: str) -> dict[str, Any]:
    """Every value of a profile, as a scenario that names nothing else is filled in."""
    filled = tomllib.loads(_native.Scenario(f'[last_hop]\n[tcp]\nprofile = "{profile}"\n').filled)[
        "tcp"
    ]
    return {
        key: value
        for key, value in filled.items()
        if key not in ("profile", "scheme", "receive_window")
    }


def _words(
    definition: dict[str, Any], definitions: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """The words that a value may be, each with its meaning."""
    if "const" in definition:
        yield definition["const"], definition["description"]
    if "$ref" in definition:
        yield from _words(definitions[definition["$ref"].rsplit("/", 1)[1]], definitions)
    for one in [*definition.get("oneOf", []), *definition.get("anyOf", [])]:
        yield from _words(one, definitions)


def meanings() -> dict[str, str]:
    """What the schema says about each key, with the words that a key may have."""
    schema = _native.schema()
    definitions = schema["$defs"]
    found = {}
    for key, what in definitions["TcpSpec"]["properties"].items():
        words = [f'`"{word}"`: {meaning}' for word, meaning in _words(what, definitions)]
        found[key] = " ".join([what.get("description", ""), *words]).replace("\n", " ")
    return found


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_older(key: str, value: Any, older: dict[str, dict[str, Any]]) -> str:
    marks: dict[str, list[str]] = {}
    for profile, of in older.items():
        if of[key] != value:
            marks.setdefault(_shown(of[key]), []).append(OLDER[profile])
    return _shown(value) + "".join(
        f" ({other} {' '.join(which)})" for other, which in marks.items()
    )


def table() -> str:
    """The table, a row per key."""
    profiles = {name: values(name) for name in SHOWN}
    older = {name: values(name) for name in OLDER}
    text = meanings()
    rows = [
        "| key | what | " + " | ".join(f"`{name}`" for name in SHOWN) + " |",
        "| --- | --- |" + " --- |" * len(SHOWN),
    ]
    for key, value in profiles["ns-2.35"].items():
        cells = [_shown(profiles[name][key]) for name in SHOWN[:-1]] + [
            _with_older(key, value, older)
        ]
        meaning = text[key].replace("|", "\\|")
        rows.append(f"| `{key}` | {meaning} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with its table made again."""
    return marked_pages.replaced(text, BLOCK, table())


if __name__ == "__main__":
    write_whole(FILE, page(FILE.read_text(encoding="utf-8")))
