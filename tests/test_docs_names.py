"""README, CONTRIBUTING and docs: the names in them exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import evaluation_tables
import profile_table
import pytest
from pages import PAGES, ROOT, SCENARIO_PAGE, inline_code

from lasthop import _native, agents, catalogue, congestion, quantities
from lasthop.analysis import metrics
from lasthop.cli import arguments
from lasthop.evaluation import suite


def options_of(parser: Any) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings}


NS3_RULES = (
    "--no-sack",
    "--clear",
    "--all",
    "--karn",
    "--above",
    "--data-rtt",
    "--sacked",
    "--receiver",
    "--fractions",
)

#: Options of other programs -> the file that defines or reads them.
OTHER_OPTIONS = {
    "--live": "tools/fit_coverage.py",
    "--links": "tools/fit_coverage.py",
    "--unknown": "tools/advice_regret.py",
    "--write": "tools/fit_coverage.py",
    "--first": "tools/advice_regret.py",
    "--title": "python/lasthop/traces/iperf_text.py",
    "--cards": "tools/evaluation_tables.py",
    "--missing": "tools/evaluation_tables.py",
    "--check": "tools/make_traces.py",
    "--memory": "bench/growth.py",
    "--default": "bench/speed.py",
    "--pgo": "bench/speed.py",
    "--schemes": "bench/speed.py",
    "--silent": "tools/ns3_wifi.cc",
    "--timestamps": "python/lasthop/traces/stamps.py",
} | dict.fromkeys(NS3_RULES, "tools/ns3_rules.cc")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_and_files_and_targets_that_a_page_names_exist(page: Path) -> None:
    top = arguments.parser()
    (subcommands,) = [action.choices for action in top._actions if isinstance(action.choices, dict)]
    known = options_of(top).union(*map(options_of, subcommands.values()))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for code in inline_code(page.read_text(encoding="utf-8")):
        for option in re.findall(
            r"(?<!\S)--[a-z][a-z-]*", "" if code.startswith("cargo ") else code
        ):
            other = OTHER_OPTIONS.get(option)
            assert option in known or (
                other and option in (ROOT / other).read_text(encoding="utf-8")
            ), f"{page.name}: {code}"
        if match := re.match(r"lasthop ([a-z]\w*)", code):
            assert match[1] in subcommands, f"{page.name}: {code}"
        if match := re.fullmatch(r"make ([a-z -]+)", code):
            for target in match[1].split():
                assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), (
                    f"{page.name}: {code}"
                )
        for file in re.findall(
            r"(?:tools|bench|crates|papers|profile|tests|python|docs)/[\w/.-]*\w", code
        ):
            if "NAME" not in file and "PAPER" not in file:
                assert (ROOT / file).exists(), f"{page.name}: {code}"


@cache
def sources() -> str:
    files = [
        *ROOT.glob("crates/*/src/**/*.rs"),
        *ROOT.glob("crates/*/tests/**/*.rs"),
        *ROOT.glob("python/**/*.py"),
        *ROOT.glob("fidelity/*.py"),
        *ROOT.glob("python/**/*.pyi"),
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(files))


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/own-schemes.md"])
def test_identifiers_that_a_page_for_developers_names_are_in_the_sources(name: str) -> None:
    """Types, functions, fields and settings, and files relative to the crates."""
    names = set(re.findall(r"\w+", sources()))
    for code in inline_code((ROOT / name).read_text(encoding="utf-8")):
        if re.fullmatch(r"[\w/]+\.rs", code):
            assert any(
                file.as_posix().endswith(f"/{code}") for file in ROOT.glob("crates/*/src/**/*.rs")
            ), code
        elif re.fullmatch(
            r"(lasthop(_sim)?::)?[A-Za-z_]+(::[A-Za-z_]+|\.[a-z_]+)*(\(.*\)|!\(…\))?", code
        ):
            words = re.findall(r"[A-Za-z_]{3,}", code.split("(")[0])
            assert set(words) <= names, f"{name}: `{code}`: {set(words) - names}"


def property_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value.get("properties", {})
        yield from filter(
            lambda word: isinstance(word, str), [value.get("const"), *value.get("enum", [])]
        )
        for inner in value.values():
            yield from property_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from property_names(inner)


def test_keys_in_the_tables_of_the_scenario_page_are_in_the_schema() -> None:
    known = set(property_names(_native.schema()))
    rows = re.findall(r"^\| (`[^|]*`) \|", SCENARIO_PAGE, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`([a-z0-9_.-]+)`", row)} - {
        "802.11b",
        "802.11ax",
        "802.11n",
        "csma-lan",
    }
    assert len(keys) > 60
    assert keys <= known


def first_cells(section: str) -> set[str]:
    """The words in the first cells of the rows of a section's tables."""
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"[\w-]+", row)}


@pytest.mark.parametrize(
    ("heading", "of", "key"),
    [
        ("Links", "Managed", "discipline"),
        ("Links", "LossConfig", "model"),
        ("Flows", "AppSpec", "kind"),
    ],
)
def test_every_discipline_loss_model_and_application_has_a_row(
    heading: str, of: str, key: str
) -> None:
    variants = _native.schema()["$defs"][of]["oneOf"]
    names = {v["properties"][key]["const"] for v in variants if key in v.get("properties", {})}
    assert len(names) > 10
    shown = first_cells(SCENARIO_PAGE.split(f"\n### {heading}\n")[1].split("\n### ")[0])
    # The text beside the tables has these.
    missing = names - {"droptail", "none"} - shown
    assert not missing, f"docs/scenario.md, {heading}: no row for {key} {sorted(missing)}"


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("## Comparisons: `lasthop compare`", metrics.METRICS),
        ("### Groups of flows", metrics.GROUP_METRICS),
    ],
)
def test_every_column_of_results_has_a_row(heading: str, known: dict[str, object]) -> None:
    page = (ROOT / "docs/numbers.md").read_text(encoding="utf-8")
    shown = first_cells(page.split(f"\n{heading}\n")[1].split("\n#")[0])
    # Their table is that of "What limited a flow".
    missing = {name for name in known if not name.startswith("limited_by_")} - shown
    assert not missing, f"docs/numbers.md, {heading.strip('# ')}: no row for {sorted(missing)}"


def test_every_key_of_a_profile_is_in_the_table() -> None:
    assert profile_table.page(SCENARIO_PAGE) == SCENARIO_PAGE, "docs/scenario.md: `make docs`"
    table = profile_table.table()
    for profile in ("linux", "rfc", "ns-2.35"):
        filled = tomllib.loads(
            _native.Scenario(f'[last_hop]\n[tcp]\nprofile = "{profile}"\n').filled
        )["tcp"]
        assert all(
            f"| `{key}` |" in table for key in set(filled) - {"profile", "scheme", "receive_window"}
        )


def test_settings_of_the_scenario_page_can_be_set() -> None:
    section = SCENARIO_PAGE.split("## `--set KEY=VALUE`")[1].split("\n## ")[0]
    examples = [
        code for code in inline_code(section) if re.fullmatch(r'[a-z_.0-9]+="?[^"V=]+"?', code)
    ]
    assert len(examples) >= 8
    tail = '[[flow]]\napp = { kind = "transfer", size = "1 MB" }\n[tcp]\nscheme = "snoop"\n'
    short = f'[last_hop]\nloss = "1 %"\n{tail}'
    link = (
        '[[link]]\nname = "radio"\nradio = true\nbetween = ["server", "phone"]\nrate = "1'
        ' Mbps"\nloss = "1 %"\n'
    )
    long = (
        f'{link}[[node]]\nname = "server"\nrole = "base-station"\n[[flow]]\nfrom = "server"\nto ='
        ' "phone"\n'
    )
    for example in examples:
        text = long if example.startswith("link.") else short
        _native.Scenario(text, None, [quantities.key_value(example, "--set")])


def test_defaults_on_the_scenario_page() -> None:
    """The sender with an agent is the scheme of the profile, and SACK is part of the profile."""
    for profile, window in (("linux", "cubic"), ("rfc", "reno"), ("ns-2.35", "reno")):
        scenario = _native.Scenario(f'[last_hop]\n[tcp]\nprofile = "{profile}"\nscheme = "snoop"\n')
        assert f"window {window}" in scenario.slots[0]
    assert "CUBIC with `linux`, NewReno with the others" in " ".join(SCENARIO_PAGE.split())
    assert _native.Scenario("[last_hop]\n[tcp]\nsack = true\n").run(1).to_dict()["flows"]


def test_the_page_about_numbers_has_every_metric_and_every_key_of_a_run() -> None:
    named = {
        word
        for code in inline_code((ROOT / "docs/numbers.md").read_text(encoding="utf-8"))
        for word in re.findall(r"\w+", code)
    }
    snoop = '[last_hop]\nloss = "1 %"\n[tcp]\nscheme = "snoop"\n'
    run = _native.Scenario(snoop).run(1).to_dict()
    keys = {
        *run,
        *run["traffic_bits"],
        *(key for part in ("flows", "links", "agents") for key in run[part][0]),
    }
    assert (set(metrics.METRICS) | keys) - named == set()


def test_the_table_of_the_readme_has_the_whole_catalogue() -> None:
    section = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .split("## What is in the catalogue")[1]
        .split("\n## ")[0]
    )
    listed = [
        name
        for row in re.findall(r"^\| .* \| `(.*)` \|$", section, re.MULTILINE)
        for name in row.split()
    ]
    assert sorted(listed) == sorted(entry["name"] for entry in catalogue.entries())


def test_the_page_about_own_rules_lists_methods_and_arguments() -> None:
    text = (ROOT / "docs/own-schemes.md").read_text(encoding="utf-8")
    methods = set(re.findall(r"^\| `(on_\w+)\(", text, re.MULTILINE))
    assert methods - {n for n in vars(agents.Agent) if n != "on_timer"} == {
        name for name in vars(congestion.CongestionControl) if name.startswith("on_")
    }
    hooks = {name for name in vars(agents.Agent) if callable(getattr(agents.Agent, name))}
    table = text.split("## An agent in Python")[1].split("\n## ")[0]
    assert hooks == set(re.findall(r"`(\w+)\(", "".join(re.findall(r"^\| `.*? \| ", table, re.M))))
    arguments: dict[str, type] = {
        "window": _native.Window,
        "ack": _native.Ack,
        "ack.rate": _native.RateSample,
        "loss": _native.Loss,
        "start": _native.Start,
        "lasthop.Verdict": _native.Verdict,
        "segment": _native.Segment,
        "ctx": _native.Context,
    }
    for name, given in arguments.items():
        found = re.findall(rf"^\* `{name}(?:\.cwnd)?`.*?(?=^\* |\n\n)", text, re.M | re.DOTALL)
        (item,) = (f for f in found if name != "ack" or not f.startswith("* `ack.rate"))
        missing = [
            a
            for a in vars(given)
            if not a.startswith("_") and not re.search(rf"`(\w+\.)?{a}[`(]", item)
        ]
        assert not missing, f"`{name}`: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        assert re.match(r"https?://", target) or (page.parent / target).exists(), target


def test_the_tables_of_the_suite_of_evaluate_are_those_of_its_files() -> None:
    page = evaluation_tables.FILE.read_text(encoding="utf-8")
    assert evaluation_tables.page(page) == page, "docs/evaluation.md: `make docs`"
    for section, (title, verb) in evaluation_tables.RFC9743.items():
        assert f"| {section} | {title} | {verb} |" in page
    # A section or case has either cells or a reason.
    files = [file for group in suite.read().groups for file in group.files]
    sections = {section for file in files for section in file.rfc9743}
    assert sections == set(evaluation_tables.RFC9743) - set(evaluation_tables.WITHOUT)
    cases = {case for file in files for case in file.bbr}
    assert cases == set(evaluation_tables.BBR) - set(evaluation_tables.WITHOUT_BBR)


def test_each_scheme_has_a_card_of_the_present_suite() -> None:
    page = evaluation_tables.CARDS.read_text(encoding="utf-8")
    rows = [m[1] for m in evaluation_tables.ROW.finditer(page)]
    hint = "`make evaluation-cards QUICK=--quick` (with `--missing` only the missing ones)"
    assert sorted(rows) == sorted(evaluation_tables.schemes()), hint
    assert f"hash `{suite.read().sha256[:12]}`" in page, hint
    pages = evaluation_tables.cards_pages(suite.read(), "--quick" in page, page)
    assert list(pages) == [page], hint
