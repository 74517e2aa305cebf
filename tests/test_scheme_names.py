"""The engine, the channel and the simulator name no scheme: schemes enter by their registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCHEMES = ROOT / "crates/lasthop-schemes/src"
CRATES = ("lasthop-tcp", "lasthop-channel", "lasthop-sim")

#: Schemes whose names are terms of RFCs, and what the crates below mean by them.
GENERAL = {
    "tahoe": "a recovery, RFC 5681",
    "reno": "a recovery, RFC 5681",
    "newreno": "a recovery, RFC 6582",
    "sack": "a recovery and an option, RFC 2018 and 6675",
    "fack": "a recovery; RFC 9937 builds on it",
    "rack": "a recovery, RFC 8985",
    "eifel": "an addition to a recovery, RFC 3522 and 4015",
    "f_rto": "an addition to a recovery, RFC 5682",
    "ncr": "an addition to a recovery, RFC 4653",
    "dcr": "an addition to a recovery, the precursor of RFC 4653",
    "cubic": "RFC 9438: a profile selects its form, and Linux uses it by default",
    "snack": "an option of TCP (SCPS-TP) that a receiver's rule may send",
}
#: Terms of the detectors of schemes that also mean something else.
TERMS = {
    ("lasthop-channel", "selective-repeat"): "a kind of ARQ of the link layer",
    ("lasthop-sim", "selective-repeat"): "a kind of ARQ of the link layer",
}


def registered() -> list[str]:
    """The schemes of the registry, and further settings that its lines list, in snake case."""
    text = (SCHEMES / "registry.rs").read_text()
    lines = re.findall(r"^ {12}(\w+) (?:\[([\w, ]+)\] )?\{[\w ]*\},$", text, re.MULTILINE)
    further = [word for _, words in lines for word in re.findall(r"\w+", words)]
    snake = [re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower() for word in further]
    return [module for module, _ in lines] + snake


def detectors() -> list[str]:
    """The loss detectors that schemes add."""
    files = (file.read_text() for file in SCHEMES.rglob("*.rs"))
    return [name for text in files for name in re.findall(r'DetectorEntry::new\("([\w-]+)"', text)]


def forms(name: str) -> re.Pattern[str]:
    """A name in snake, kebab and camel case, as a word or as a part of an identifier."""
    words = re.split(r"[_-]", name)
    snake, kebab = "_".join(words), "-".join(words)
    camel = "".join(word.capitalize() for word in words)
    lower = rf"(?<![a-z0-9])(?:{snake}|{kebab}|{snake.upper()})(?![a-z0-9])"
    return re.compile(rf"{lower}|(?<![A-Z]){camel}(?![a-z0-9])")


def code(file: Path) -> str:
    """The code of a file without comments and unit tests."""
    return re.sub(r"//.*", "", file.read_text().split("#[cfg(test)]\nmod tests {")[0])


def mentions(crate: str, name: str) -> list[str]:
    found = []
    for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        if file.name == "tests.rs":
            continue
        for number, line in enumerate(code(file).splitlines(), 1):
            if forms(name).search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    return found


@pytest.mark.parametrize("crate", CRATES)
def test_no_scheme_is_named_below_the_schemes(crate: str) -> None:
    names = registered()
    assert {"veno", "packet_control", "noor_aer"} <= set(names)
    assert set(GENERAL) <= set(names), "only schemes are exceptions"
    found = [line for name in names if name not in GENERAL for line in mentions(crate, name)]
    assert found == []


@pytest.mark.parametrize("crate", CRATES)
def test_no_detector_of_a_scheme_is_named_below_the_schemes(crate: str) -> None:
    names = detectors()
    assert {"esack", "packet-list", "selective-repeat"} <= set(names)
    found = [line for name in names if (crate, name) not in TERMS for line in mentions(crate, name)]
    assert found == []


def test_the_search_finds_all_forms_of_a_name() -> None:
    for text in ["packet_control", '"packet-control"', "PacketControlAgent", "is_packet_control"]:
        assert forms("packet_control").search(text), text
    for text in ["wtcp_x", "mtcp", "McTcp"]:
        assert not forms("i_tcp").search(text), text
    assert not forms("esack").search("uses_sack")
