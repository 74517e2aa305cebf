"""The engine, the channel and the simulator name no scheme: schemes enter by their registry."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import lasthop

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
#: Words that schemes add to files, or that their names consist of, and that also mean something
#: else in one of the crates.
TERMS = {
    ("lasthop-channel", "selective-repeat"): "a kind of ARQ of the link layer",
    ("lasthop-sim", "selective-repeat"): "a kind of ARQ of the link layer",
    ("lasthop-channel", "eln"): "explicit loss notification: a flag of lasthop-core",
    ("lasthop-tcp", "eln"): "explicit loss notification: a flag and a notice of lasthop-core",
    ("lasthop-sim", "eln"): "explicit loss notification: a counter of the sender",
    ("lasthop-sim", "freeze"): "what a relay may do to its sender, in a message",
}
#: Words in names of schemes that are no names: terms of TCP and plain English.
PLAIN = {
    *("ack", "ff", "fixed", "ideal", "linux", "packet", "plus", "rate", "real", "rto", "tcp"),
    *("control", "pacing", "selective", "timer"),
}


def registered() -> list[str]:
    """The schemes of the registry, and further settings that its lines list, in snake case."""
    text = (SCHEMES / "registry.rs").read_text()
    lines = re.findall(r"^ {12}(\w+) (?:\[([\w, ]+)\] )?\{[\w ]*\},$", text, re.MULTILINE)
    further = [word for _, words in lines for word in re.findall(r"\w+", words)]
    snake = [re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower() for word in further]
    return [module for module, _ in lines] + snake


def additions() -> list[str]:
    """The words that schemes add to the files: loss detectors and their settings, responses to
    hints of the link layer and to notices."""
    pattern = re.compile(
        r'DetectorEntry::new\("([\w-]+)"|OwnAddition \{\s*name: "([\w-]+)"'
        r'|HintEntry =?\s*\{\s*name: "([\w-]+)"|NoticeSetting::new\("([\w-]+)"'
    )
    files = (file.read_text() for file in SCHEMES.rglob("*.rs"))
    return [word for text in files for found in pattern.findall(text) for word in found if word]


def catalogue() -> list[str]:
    """The names of the catalogue, as `lasthop schemes` lists them."""
    return [entry["name"] for entry in lasthop.schemes()]


def words_of_names() -> list[str]:
    """The words of which names of the catalogue consist, except single letters and plain words."""
    words = {
        w for name in catalogue() if name.replace("-", "_") not in GENERAL for w in name.split("-")
    }
    return sorted(w for w in words - PLAIN if len(w) > 2)


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


def letters(text: str) -> str:
    """The same for all forms of a name, and quick to search for."""
    return text.lower().replace("_", "").replace("-", "")


@cache
def sources(crate: str) -> list[tuple[Path, str, str]]:
    """The files of a crate, their code, and its letters."""
    files = sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))
    texts = [(file, code(file)) for file in files if file.name != "tests.rs"]
    return [(file, text, letters(text)) for file, text in texts]


def mentions(crate: str, name: str) -> list[str]:
    pattern = forms(name)
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file, text, all_letters in sources(crate)
        if letters(name) in all_letters
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("crate", CRATES)
def test_no_scheme_is_named_below_the_schemes(crate: str) -> None:
    names = registered()
    assert {"veno", "packet_control", "noor_aer"} <= set(names)
    assert set(GENERAL) <= set(names), "only schemes are exceptions"
    found = [line for name in names if name not in GENERAL for line in mentions(crate, name)]
    assert found == []


@pytest.mark.parametrize("crate", CRATES)
def test_no_name_of_the_catalogue_is_in_the_crates_below(crate: str) -> None:
    names = catalogue()
    assert {"veno", "tcp-f", "ll-elsn", "noor-aer"} <= set(names)
    searched = [n for n in names if n.replace("-", "_") not in GENERAL]
    found = [line for name in searched for line in mentions(crate, name)]
    assert found == []


@pytest.mark.parametrize("crate", CRATES)
def test_no_word_of_a_name_or_of_a_file_is_in_the_crates_below(crate: str) -> None:
    added = additions()
    assert {"esack", "packet-list", "selective-repeat", "smart", "elsn", "freeze"} <= set(added)
    words = words_of_names()
    assert {"veno", "elsn", "balakrishnan", "hack"} <= set(words)
    searched = {*added, *words} - PLAIN - {n.replace("_", "-") for n in GENERAL}
    allowed = {word for of, word in TERMS if of == crate}
    found = {word: mentions(crate, word) for word in sorted(searched - allowed)}
    found = {word: lines for word, lines in found.items() if lines}
    assert not found, (
        f"{crate} uses words of schemes. Choose another name; if the word also means something "
        f"else there, add it to TERMS of this file, with the meaning: {found}"
    )


def test_the_search_finds_all_forms_of_a_name() -> None:
    for text in ["packet_control", '"packet-control"', "PacketControlAgent", "is_packet_control"]:
        assert forms("packet_control").search(text), text
        assert letters("packet_control") in letters(text), text
    for text in ["wtcp_x", "mtcp", "McTcp"]:
        assert not forms("i_tcp").search(text), text
    assert not forms("esack").search("uses_sack")
