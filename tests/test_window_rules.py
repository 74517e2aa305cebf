"""Window rules declare what they need: a method that the sender calls only on request is requested.

`Needs` switches the calls of some methods of `WindowRule` on. A rule that implements such a method
without the flag would compile, and the method would never be called.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCHEMES = ROOT / "crates/lasthop-schemes/src"

#: The methods that are called on request, and the flags of `Needs` that request them.
ON_REQUEST = {
    "on_any_ack": {"every_ack", "rate_samples"},
    "on_lost": {"rate_samples"},
    "on_sent": {"every_send"},
    "marks": {"marks"},
    "pacing": {"pacing"},
    "burst": {"pacing"},
    "deadline": {"timer"},
    "on_timer": {"timer"},
    "is_app_limited_by_rule": {"rate_samples"},
}
#: Flags that switch something else on than methods.
OF_CONNECTION = {"timestamps", "sack", "ecn", "oracle"}


def block(text: str, start: int) -> str:
    """The text from the first brace after `start` to the brace that closes it."""
    begin = text.index("{", start)
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[begin : at + 1]
    raise ValueError("braces do not match")


def code(text: str) -> str:
    return re.sub(r"//.*", "", text.split("#[cfg(test)]\nmod tests {")[0])


def rule_modules() -> list[str]:
    text = (SCHEMES / "registry.rs").read_text()
    return re.findall(r"^ {12}(\w+) (?:\[[\w, ]+\] )?\{ window[\w ]*\},$", text, re.MULTILINE)


def source(module: str) -> str:
    files = [SCHEMES / f"{module}.rs", *sorted((SCHEMES / module).rglob("*.rs"))]
    return "\n".join(code(f.read_text()) for f in files if not f.stem.endswith("tests"))


def implemented(text: str) -> set[str]:
    """The methods that the implementations of `WindowRule` in a text have."""
    impls = re.finditer(r"\bimpl(?:<[^>]*>)? WindowRule for \w+", text)
    return {
        m for impl in impls for m in re.findall(r"^    fn (\w+)", block(text, impl.end()), re.M)
    }


def requested(text: str) -> set[str]:
    """The flags of `Needs` that a scheme sets, to `true` or by a setting."""
    bodies = [
        block(text, found.end()) for found in re.finditer(r"fn needs\(&self\) -> Needs", text)
    ]
    flags = [flag for body in bodies for flag in re.findall(r"(\w+)(?:: (?!false\b)|,)", body)]
    return set(flags) & (OF_CONNECTION | {f for any_of in ON_REQUEST.values() for f in any_of})


def mistakes(text: str) -> list[str]:
    methods, flags = implemented(text), requested(text)
    never_called = [
        f"{method} is never called without Needs::{' or '.join(sorted(any_of))}"
        for method, any_of in ON_REQUEST.items()
        if method in methods and not any_of & flags
    ]
    unused = [
        f"Needs::{flag} is set, but no method uses it"
        for flag in sorted(flags - OF_CONNECTION - {"rate_samples"})
        if not any(flag in any_of and method in methods for method, any_of in ON_REQUEST.items())
    ]
    return never_called + unused


@pytest.mark.parametrize("module", rule_modules())
def test_what_a_rule_implements_is_requested(module: str) -> None:
    text = source(module)
    assert "on_ack" in implemented(text), "the module has a window rule"
    assert mistakes(text) == []


def test_a_forgotten_flag_and_an_unused_one_are_found() -> None:
    rule = source("westwood")
    assert mistakes(rule) == []
    [forgotten] = mistakes(rule.replace("every_ack: true", "every_ack: false"))
    assert forgotten.startswith("on_any_ack is never called")
    [unused] = mistakes(rule.replace("every_ack: true", "every_ack: true, marks: true"))
    assert unused == "Needs::marks is set, but no method uses it"


def test_the_list_of_methods_is_that_of_the_trait() -> None:
    text = (ROOT / "crates/lasthop-tcp/src/window.rs").read_text()
    needs = block(text, text.index("pub struct Needs"))
    flags = set(re.findall(r"pub (\w+): bool", needs))
    assert flags == OF_CONNECTION | {f for any_of in ON_REQUEST.values() for f in any_of}
    trait = block(text, text.index("pub trait WindowRule"))
    assert set(ON_REQUEST) <= set(re.findall(r"^    fn (\w+)", trait, re.M))
    # A method whose doc comment names a flag is in the list.
    documented = re.findall(r"Needs::\w+.*\n(?:    (?:///|#).*\n)*    fn (\w+)", trait)
    assert set(documented) <= set(ON_REQUEST)
