"""Words, names and line lengths of code, docs, help and messages.

Readers know the terms of the RFCs. Words that only this project used are listed here, so that they
do not come back. Each public trait shows how it is implemented or used, in an example that the
doctests run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COLUMNS = 100
#: Built files, recorded data, and inputs of the fuzz targets.
SKIPPED = {"target", "corpus", "corpus-seed", "artifacts", "reference", "__pycache__"}
FOLDERS = ("bench", "crates", "docs", "fidelity", "fuzz", "python", "tests", "tools")
SUFFIXES = {".cc", ".cpp", ".h", ".md", ".py", ".pyi", ".rs", ".sh", ".tcl", ".toml"}
#: These files quote the words.
QUOTING = {"tests/test_style.py"}

#: Private words, as regular expressions, and what to write instead. A space also matches a line
#: break with the marker of a comment.
WORDS = {
    r"so many": "the number, or what it counts",
    r"of its own": "its own X, a separate X",
    r"of their own": "their own X, separate Xs",
    r"held to be": "considered, marked",
    r"anew": "again, from the start",
    r"by (?:itself|themselves)": "alone, automatically, without …",
    r"told of": "notified of, informed about",
    r"hears? of": "is notified of",
    r"from new": "reset, again",
    r"filed": "recorded, listed",
    r"but for": "except for",
    r"the very": "the same, exactly the",
    r"weathers?": "channel realisation",
    r"births?": "write times",
    r"glid(?:e|es|ing)": "idle-link fast path",
    r"(?:the|their|its|of|mean|whose|these|those) stays": "dwell times",
    r"heed(?:s|ed|ing)?": "responds to, accepts, uses",
    r"blam(?:e|es|ed|ing)": "attributes to, identifies as the cause",
    r"shields": "protects",
    r"spurious again": "spurious retransmissions",
    r"needlessly": "spuriously",
    r"of them again": "retransmissions",
    r"compiler's profile": "PGO profile",
    r"where the bits went": "TrafficLedger",
    r"random weather": "channel realisation",
    r"tells? senders of": "notifies senders of",
    r"what a rule holds a loss for": "LossClass",
    r"only hears": "is passive",
    r"foretell(?:s|ing)?": "precompute",
    r"never from new": "never reset it",
}

#: Names of types, functions and variables, and what the field says.
NAMES = {
    r"Said": "LossClass",
    r"Weather|follow_weather": "LinkStateWatch",
    r"Births": "WriteTimes",
    r"Books": "TrafficLedger",
    r"glide\w*|Smooth": "idle-link fast path",
    r"travels?|fly|launch": "transmit, serialize, propagate",
    r"tells_\w+|foretell_\w+": "damaged_…, precompute_…",
    r"take_(?:in|off|ack)": "process_…",
    r"Heard|hear_of_\w+|only_hears|listens|heeds?": "AckSummary, is_passive, accepts_eln",
    r"reduce_in_proportion|is_blamed|blame\w*|shields": "apply_prr, eln_confirms_congestion",
    r"holds_back": "is_app_limited_by_rule",
    r"ONE_AGENT": "SINGLETON_ON_PATH",
    r"Legs|reopen": "SplitConnection, open_window",
    r"Surroundings|Unseen": "NodeView, IdleAdvance",
    r"(?:enum|struct|trait|type|class) (?:Known|What|Reader|Changes|Unknown)": "a noun",
    r"(?:fn|def) (?:adapt|shut|cross|kept)": "override_profile, close_window, transmit, …",
    r"(?:let|let mut) (?:stays|ways|blamed|heeds)": "dwell_times, routes",
}
#: Names of files that said nothing of their contents.
FILE_NAMES = {
    "crowds.py": "many_scheme_plots.py",
    "values.py": "quantities.py",
    "words.rs": "diagnostics.rs",
    "braces.rs": "brace_expansion.rs",
    "ends.rs": "endpoints.rs",
    "fill.rs": "defaults.rs",
    "forms.rs": "shorthand.rs",
}

#: A file, a text of the line, and why the word has its ordinary meaning there.
ALLOWED: list[tuple[str, str, str]] = [
    ("tests/browser.py", "chromium.launch(", "Playwright's name"),
    ("tools/mermaid_figures.py", "chromium.launch(", "Playwright's name"),
]


@dataclass(frozen=True)
class Violation:
    """A line that breaks a rule."""

    file: str
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.found!r}: {self.instead}"


@cache
def files() -> list[str]:
    """Code, docs and figure files, as paths from the root."""
    top = [path for path in ROOT.iterdir() if path.suffix in SUFFIXES or path.name == "Makefile"]
    inner = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    chosen = [
        path
        for path in inner
        if (path.suffix in SUFFIXES or path.parent == ROOT / "tests/goldens")
        and path.is_file()
        and not SKIPPED & set(path.relative_to(ROOT).parts)
    ]
    return sorted(str(path.relative_to(ROOT)) for path in top + chosen)


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


#: A line break in a comment or in a string that is split, with the indentation and the marker.
BREAK = re.compile(r"""[ \t]*["\\]?\n[ \t]*(?://[/!]?|#:?|\*|>|f?")?[ \t]*""")


@cache
def unbroken(text: str) -> str:
    """The text with each line break as one character, so that lines can still be counted."""
    return BREAK.sub("\n", text)


def expression(words: str) -> str:
    """Matches the words, also across a line break."""
    return r"\b(?:" + words.replace(" ", r"[ \n]") + r")\b"


def matches(file: str, rules: dict[str, str], flags: re.RegexFlag) -> Iterator[Violation]:
    text = unbroken(text_of(file))
    # One search for all words takes a quarter of the time.
    if not re.search("|".join(map(expression, rules)), text, flags):
        return
    lines = text_of(file).splitlines()
    for words, instead in rules.items():
        for match in re.finditer(expression(words), text, flags):
            number = text.count("\n", 0, match.start()) + 1
            if not any(f == file and part in lines[number - 1] for f, part, _ in ALLOWED):
                yield Violation(file, number, match.group(), instead)


def generated(text: str) -> bool:
    """A tool wrote this page; its long lines are tables and notes."""
    return bool(re.search(r"Made by `[^`]+`.*do not edit", text.split("<!--")[0]))


def long_lines(file: str) -> Iterator[Violation]:
    """Lines above the limit, except tables, URLs, fenced blocks and generated pages."""
    page = file.endswith(".md")
    checked = file.endswith((".cc", ".cpp", ".h", ".md", ".py", ".pyi", ".rs", ".sh"))
    if not checked or (page and generated(text_of(file))):
        return
    fenced = False
    for number, line in enumerate(text_of(file).splitlines(), 1):
        bare = line.strip()
        fenced ^= page and bare.startswith("```")
        table = bare.startswith("|") if page else bare.startswith(("//! |", "/// |"))
        apart = fenced or table or (page and bare.startswith("![")) or "://" in bare
        if len(line) > COLUMNS and not apart:
            yield Violation(file, number, f"{len(line)} columns", f"at most {COLUMNS}")


def violations(kind: str) -> Iterator[Violation]:
    """All violations of a kind: words, names, columns."""
    for file in files():
        if file in QUOTING:
            continue
        if kind == "words":
            yield from matches(file, WORDS, re.IGNORECASE)
        elif kind == "names" and file.endswith((".py", ".pyi", ".rs")):
            yield from matches(file, NAMES, re.NOFLAG)
        elif kind == "columns":
            yield from long_lines(file)


@pytest.mark.parametrize("kind", ["words", "names", "columns"])
def test_style(kind: str) -> None:
    found = [str(v) for v in violations(kind)]
    assert not found, f"{len(found)} {kind}:\n" + "\n".join(found)


#: A screen has 40 lines.
README_LINES = 3 * 40


def test_the_readme_fits_three_screens() -> None:
    lines = text_of("README.md").splitlines()
    assert len(lines) <= README_LINES
    # Only the printed table of a comparison is wider.
    fenced = text_of("README.md").split("```")[1::2]
    wide = [line for line in lines if len(line) > COLUMNS and not any(line in f for f in fenced)]
    assert wide == []


def test_file_names() -> None:
    found = [file for file in files() if Path(file).name in FILE_NAMES]
    assert not found, [f"{file}: {FILE_NAMES[Path(file).name]}" for file in found]


#: A public trait, and the comments and attributes before it.
PUBLIC_TRAIT = re.compile(
    r"(?P<head>(?:^[ \t]*(?://|#\[).*\n)*)^[ \t]*pub (?:unsafe )?trait (?P<name>\w+)", re.MULTILINE
)
#: An example that is compiled and run: its fence has no word, such as `text` or `ignore`.
EXAMPLE = re.compile(r"/// # Examples\n(?:(?!.*```).*\n)*[ \t]*/// ```\n")


def traits_without_examples(text: str) -> list[str]:
    """The public traits of a Rust file whose docs have no example that is run."""
    return [m["name"] for m in PUBLIC_TRAIT.finditer(text) if not EXAMPLE.search(m["head"])]


def test_public_traits_have_examples() -> None:
    sources = [file for file in files() if re.fullmatch(r"crates/[^/]+/src/.+\.rs", file)]
    assert sum(len(PUBLIC_TRAIT.findall(text_of(file))) for file in sources) > 20
    found = [
        f"{file}: {name}" for file in sources for name in traits_without_examples(text_of(file))
    ]
    assert not found, "no `# Examples`:\n" + "\n".join(found)


def test_traits_without_examples_are_found() -> None:
    example = (
        "/// A box.\n///\n/// # Examples\n///\n/// How:\n///\n/// ```\n/// let x = 1;\n/// ```\n"
    )
    trait = "pub trait Machine: Send {\n"
    assert traits_without_examples(example + "#[allow(x)]\n" + trait) == []
    assert traits_without_examples("/// A box.\n" + trait) == ["Machine"]
    assert traits_without_examples(example + "pub struct Other;\n\n" + trait) == ["Machine"]
    assert traits_without_examples(
        example.replace("```\n/// let", "```ignore\n/// let") + trait
    ) == ["Machine"]
    assert traits_without_examples("pub(crate) " + trait.removeprefix("pub ")) == []


def test_allowed_lines_exist() -> None:
    """An exception that matches nothing is out of date."""
    for file, part, reason in ALLOWED:
        assert reason
        assert part in text_of(file), (file, part)


@pytest.mark.parametrize(
    "text",
    [
        "held to be",
        "is held\n    /// to be lost",
        "# held\n# to be",
        'x = "is held to "\n    "be lost"',
        "is held to \\\n            be lost",
    ],
)
def test_words_are_found_across_lines(text: str) -> None:
    assert re.search(expression("held to be"), unbroken(text))


def test_markers() -> None:
    assert not re.search(expression("held to be"), unbroken("held\n\n    to be"))
    assert generated("# Title\n\nMade by `make docs` from the catalogue; do not edit.\n")
    assert not generated("# Title\n\nThe pages are made by `make docs`.\n")


#: Lines of a file, and of a function: what is longer has more than one subject.
FILE_LINES, FUNCTION_LINES = 600, 65
#: Functions of tests may list cases.
TEST_LINES = 130
#: Longer functions, which are tables; the last one is a step of a state machine.
LONGER = {
    "crates/lasthop-tcp/src/profile/builtin.rs": {"rfc"},
    "crates/lasthop-tcp/src/receiver/mod.rs": {"new"},
    "crates/lasthop-scenario/src/text/errors.rs": {"fmt"},
    "crates/lasthop-sim/tests/sim/support/random/schemes.rs": {"any_scheme"},
    "crates/lasthop-channel/src/link/cell/aggregation/exchange.rs": {"end_mpdus"},
}
RUST_FUNCTION = re.compile(
    r"^(?P<indent> *)(?:pub(?:\([a-z]+\))? )?(?:(?:const|unsafe|async) )*fn (?P<name>\w+)", re.M
)


def functions(file: str) -> Iterator[tuple[str, int]]:
    """The functions of a file with their numbers of lines, without docstrings."""
    text = text_of(file)
    if file.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1
                docstring = node.body[0] if ast.get_docstring(node) else None
                about = (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0
                yield node.name, lines - about
        return
    for match in RUST_FUNCTION.finditer(text):
        rest = text[match.start() :]
        begin = re.search(r"\{\n|;\n|\}\n", rest)
        # The closing brace has the indentation of the head; a declaration has none.
        has_body = begin is not None and begin.group() == "{\n"
        body = rest.split(f"\n{match['indent']}}}", 1)[0] if has_body else ""
        yield match["name"], body.count("\n") + 2


def is_test(file: str) -> bool:
    return "tests" in Path(file).parts or Path(file).stem == "tests"


def test_files_and_functions_have_one_subject() -> None:
    sources = [file for file in files() if file.endswith((".py", ".rs", ".cc"))]
    long_files = [f for f in sources if text_of(f).count("\n") > FILE_LINES]
    assert long_files == []
    long = {
        (file, name)
        for file in sources
        if not file.endswith(".cc")
        for name, lines in functions(file)
        if lines > (TEST_LINES if is_test(file) else FUNCTION_LINES)
    }
    assert long <= {(file, name) for file, names in LONGER.items() for name in names}
