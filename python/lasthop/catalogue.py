"""The catalogue of schemes with the evidence for each, and its text form."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lasthop import quantities
from lasthop.errors import InputError

Entry = Mapping[str, Any]

FAMILIES = {
    "end-to-end": "end to end: the hosts change",
    "link-layer": "link layer: an agent at the base station",
    "split": "split: the connection is cut in two",
}
#: Groups of end-to-end schemes; each is a heading in lists and a panel in figures.
GROUPS = {
    "loss-recovery": "loss recovery",
    "spurious-loss": "reordering and delay spikes",
    "bandwidth-estimation": "bandwidth estimation",
    "loss-discrimination": "delay and loss discrimination",
    "explicit-notification": "explicit notification",
    "today": "today's",
}


#: Generated: scheme -> kind of evidence, cases, and how many of them agree. Written by `make fidelity` and `make expected`.
EVIDENCE = Path(__file__).parent / "data" / "evidence.json"
NO_EVIDENCE: list[dict[str, Any]] = [{"kind": "none", "cases": 0, "agree": 0}]
#: Kind of evidence: verdicts of figures.
FIGURE_EVIDENCE = "paper figure"


def evidence() -> dict[str, list[dict[str, Any]]]:
    """The evidence for each scheme."""
    found: dict[str, list[dict[str, Any]]] = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return found


def entries() -> list[dict[str, Any]]:
    """All schemes, as `lasthop schemes --json` prints them."""
    from lasthop import _native

    found: list[dict[str, Any]] = json.loads(_native.schemes())
    known = evidence()
    for entry in found:
        entry["evidence"] = known.get(entry["name"], NO_EVIDENCE)
    return found


def find(entries: Sequence[Entry], name: str) -> Entry:
    """The entry called `name`."""
    for entry in entries:
        if entry["name"] == name:
            return entry
    names = [e["name"] for e in entries]
    raise InputError(f"there is no scheme `{name}`{quantities.did_you_mean(name, names)}; known: {', '.join(names)}")


#: Family and group, the heading of a scheme in lists; both are `None` for a Python rule.
Section = tuple[str | None, str | None]


def section(entry: Entry) -> Section:
    """Family and group of an entry."""
    return entry["family"], entry["group"]


def ordered_sections(sections: Iterable[Section]) -> list[Section]:
    """Each section once: families, groups from the oldest idea to the newest, Python rules last."""

    def place(found: Section) -> tuple[int, int]:
        family, group = found
        return len(FAMILIES) + 1 if family is None else _place(family, FAMILIES), -1 if group is None else _place(group, GROUPS)

    return sorted(dict.fromkeys(sections), key=place)


def _place(word: str, known: Mapping[str, str]) -> int:
    return list(known).index(word) if word in known else len(known)


def section_title(found: Section) -> str:
    """Short title of a section: "bandwidth estimation", "link layer"."""
    family, group = found
    if family is None:
        return "own schemes"
    return (family if group is None else GROUPS.get(group, group)).replace("-", " ")


def flags(entry: Entry) -> list[str]:
    """Warnings in a few words each: "unsafe outside a private LAN"."""
    found = [f"unsafe {entry['unsafe_where'].split(':')[0]}"] if entry["unsafe"] else []
    return found + (["simulation only"] if entry["simulation_only"] else [])


def _flags(entry: Entry) -> str:
    return f" [{', '.join(flags(entry))}]" if flags(entry) else ""


def listing(entries: Sequence[Entry]) -> str:
    """List all entries, one line each, by family and group."""
    width = max(len(e["name"]) for e in entries)
    lines = []
    for found in ordered_sections(section(e) for e in entries):
        title = FAMILIES.get(str(found[0]), str(found[0]))
        lines += ["", title if found[1] is None else f"{title.split(':')[0]}: {section_title(found)}"]
        members = [e for e in entries if section(e) == found]
        lines += [f"  {e['name']:<{width}}  {e['summary']} ({e['paper']}){_flags(e)}" for e in members]
    return "\n".join(lines[1:])


def describe(entry: Entry) -> str:
    """Describe one entry in full."""
    changed = ", ".join(k.replace("_", " ") for k, v in entry["changes"].items() if v) or "nothing"
    slots = ", ".join(f"{k} {v}" if not isinstance(v, bool) else k for k, v in _pairs(entry["slots"])) or "none"
    out = [f"{entry['name']}: {entry['summary']}{_flags(entry)}", f"family   {entry['family']}{_group(entry)}", f"paper    {entry['paper']}"]
    out += [f"slots    {slots}", f"changes  {changed}"]
    if entry["unsafe"]:
        out.append(f"unsafe   {entry['unsafe_where']}")
    out.append("settings" if entry["settings"] else "settings none")
    for s in entry["settings"]:
        unit = f" {s['unit']}" if s["unit"] else ""
        out.append(f"  {s['name']} = {toml(s['default'])}{unit}")
        out += textwrap.wrap(s["doc"], 100, initial_indent="      ", subsequent_indent="      ")
    out.append("assumes" if entry["assumptions"] else "assumes nothing")
    out += [f"  - {a}" for a in entry["assumptions"]]
    known = [e for e in entry["evidence"] if e["kind"] != "none"]
    out.append("evidence" if known else "evidence none yet")
    out += [f"  - {agreement(e)}" for e in known]
    return "\n".join(out)


def agreement(found: Mapping[str, Any]) -> str:
    """Format one piece of evidence."""
    if found["kind"] == FIGURE_EVIDENCE:
        return f"figures of the papers: {found['agree']} of {found['cases']} claims about it hold"
    return f"{found['kind']}: {found['agree']} of {found['cases']} cases agree"


def _group(entry: Entry) -> str:
    return "" if entry["group"] is None else f" ({section_title(section(entry))})"


def _pairs(slots: Any) -> list[tuple[str, Any]]:
    if isinstance(slots, Mapping):
        return [(k, v) for k, v in slots.items() if v]
    return [(str(s), True) for s in slots]


def toml(value: Any) -> str:
    """Format the value of a setting as in a scenario file; "unset" for `None`."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
